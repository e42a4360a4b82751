/* An empty log that begins at another segment. */
#include <assert.h>
#include <inttypes.h>

#include "error.h"
#include "page_words.h"
#include "sync.h"
#include "writer.h"

/* Is there nothing in the log, and can a segment begin at `base`? */
static ps_status check_begin(ps_log *log, uint64_t base, ps_error *error) {
  uint64_t size = log->segments.segment_size;
  uint64_t end = log->writer.received_end;
  ps_status status = ps_writer_check(log, PS_ACK_LEADER, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  if (status != PS_OK)
    return status;
  if (base % size != 0 || base > INT64_MAX - size)
    return ps_fail(error, PS_E_INVALID, base,
                   "cannot begin at %" PRIu64 ": no segment of %" PRIu64
                   " bytes begins there",
                   base, size);
  if (end != 0)
    return ps_fail(error, PS_E_INVALID, end,
                   "cannot begin at %" PRIu64 ": the log ends at %" PRIu64
                   ", not at 0: cut all of it first",
                   base, end);
  return PS_OK;
}

/* The first segment is there before any end says so: a crash in between leaves
 * a log without bytes, here or there. */
static ps_status begin_at(ps_log *log, uint64_t base, ps_error *error) {
  ps_segments *list = &log->segments;
  ps_writer *writer = &log->writer;
  ps_status status = PS_OK;
  if (writer->active != NULL)
    ps_segment_release(list, writer->active);
  writer->active = NULL;
  writer->is_tail_dirty = 0;
  if (list->count > 0) {
    assert(list->count == 1 && list->items[0]->base == 0);
    status = ps_segments_remove_last(list, error);
    if (status == PS_OK)
      status = ps_segments_sync_directory(list, error);
  }
  if (status == PS_OK)
    status = ps_segments_create(list, base, error);
  if (status != PS_OK)
    return status;
  writer->active = ps_segments_find(list, base);
  writer->staged_from = base;
  writer->received_end = base;
  ps_page_begin_empty(log, base);
  return PS_OK;
}

ps_status ps_log_begin_at(ps_log *log, uint64_t base, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_QUIESCE, error);
  if (status != PS_OK)
    return status;
  status = check_begin(log, base, error);
  if (status == PS_OK && base > 0) {
    pthread_mutex_lock(&log->flusher.work);
    status = begin_at(log, base, error);
    log->flusher.written_back = log->writer.received_end;
    pthread_mutex_unlock(&log->flusher.work);
  }
  ps_log_leave_exclusive(log, &commit);
  return status;
}
