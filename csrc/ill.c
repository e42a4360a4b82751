/* Which bytes of a log are not there. */
#include "ill.h"

#include "error.h"
#include "listing.h"
#include "log_state.h"
#include "read.h"

/* The first ill segment that ends above `from`; the list's lock is held. */
static const ps_segment *first_ill(const ps_segments *list, uint64_t from) {
  uint64_t first = list->count > 0 ? list->items[0]->base : 0;
  uint64_t at = from > first ? (from - first) / list->segment_size : 0;
  for (; at < list->count; at++)
    if (list->items[at]->ill != 0)
      return list->items[at];
  return NULL;
}

/* A segment that only the live page knows of. */
static int32_t find_missing(ps_log *log, uint64_t from, uint64_t *offset,
                            uint64_t *end, ps_error *error) {
  ps_segments *list = &log->segments;
  ps_error found;
  ps_segment *segment = NULL;
  uint64_t stop = ps_log_read_end(log);
  /* The end that a reader was given says nothing of the beginning. */
  uint64_t least = ps_log_follows(log) ? atomic_load(&log->page->min_offset)
                                       : ps_segments_end(list);
  uint64_t at = from > least ? from : least;
  if (at >= stop)
    return 0;
  ps_status status = ps_log_find_segment(log, at, &segment, &found);
  if (status == PS_OK)
    ps_segment_release(&log->segments, segment);
  if (status != PS_E_CORRUPT)
    return 0;
  *offset = at;
  *end = at - at % list->segment_size + list->segment_size;
  if (*end > stop || !list->is_size_known)
    *end = stop;
  *error = found;
  return 1;
}

ps_status ps_log_ill(ps_log *log, uint64_t from, uint64_t *offset,
                     uint64_t *end, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  ps_segments *list = &log->segments;
  *offset = PS_NO_OFFSET;
  /* A deletion is in the page before its file is gone, so what a listing met
   * without a file is below by now. */
  uint64_t least =
      ps_log_follows(log) ? atomic_load(&log->page->min_offset) : 0;
  if (from < least)
    from = least;
  if (list->takes_ill && !find_missing(log, from, offset, end, error)) {
    pthread_mutex_lock(&list->lock);
    const ps_segment *found = first_ill(list, from);
    if (found != NULL) {
      uint64_t lost_from = found->base + found->size - found->lost;
      *offset = from > lost_from ? from : lost_from;
      *end = found->base + found->size;
      ps_segment_fail_ill(list, found, *offset, error);
    }
    uint64_t behind = list->count > 0 ? list->items[list->count - 1]->base +
                                            list->segment_size
                                      : 0;
    pthread_mutex_unlock(&list->lock);
    /* No file says that segments are missing behind the last one. */
    if (*offset == PS_NO_OFFSET && behind > from)
      find_missing(log, behind, offset, end, error);
  }
  ps_log_leave(log);
  return PS_OK;
}
