/* Reading: blocks without a copy, single records, scans over segments. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "format.h"
#include "listing.h"
#include "log_state.h"
#include "read.h"
#include "renew.h"
#include "scan.h"

#define WINDOW_FIRST 262144U /* a scan's windows grow from here */
#define WINDOW_MAX 8388608U
/* No reader goes through a log in blocks so small: a caller that asks for one
 * checks whether a record begins there, or what is at the end. */
#define EXACT_MOST 256U

/* Has a reader's list to be read again: for a new segment, or after a cut? */
static ps_status follow(ps_log *log, int32_t is_needed, ps_error *error) {
  if (log->options.mode != PS_MODE_READ)
    return PS_OK;
  uint64_t generation = ps_log_generation(log);
  if (!is_needed && atomic_load(&log->segments.generation) == generation)
    return PS_OK;
  return ps_segments_refresh(&log->segments, generation, ps_log_read_end(log),
                             error);
}

/* Has a segment that the live page, or the end that a reader was given, says to
 * be there no file? It is the first or the last, or all are gone. */
static int32_t is_missing(ps_log *log, uint64_t offset) {
  ps_segments *list = &log->segments;
  if (!list->takes_ill || offset >= ps_log_read_end(log))
    return 0;
  if (!ps_log_follows(log)) {
    uint64_t end = ps_segments_end(list);
    return end > 0 && offset >= end;
  }
  return offset >= atomic_load(&log->page->min_offset) &&
         ps_log_generation(log) == atomic_load(&list->generation);
}

ps_status ps_log_find_segment(ps_log *log, uint64_t offset,
                              ps_segment **segment, ps_error *error) {
  ps_status status = follow(log, 0, error);
  if (status != PS_OK)
    return status;
  *segment = ps_segments_find(&log->segments, offset);
  if (*segment == NULL && log->options.mode == PS_MODE_READ) {
    status = follow(log, 1, error);
    if (status != PS_OK)
      return status;
    *segment = ps_segments_find(&log->segments, offset);
  }
  if (*segment == NULL && is_missing(log, offset)) {
    /* Without any segment its size is not known, but where the first began. */
    uint64_t size = log->segments.segment_size;
    ps_segment missing = {.base = log->segments.is_size_known
                                      ? offset - offset % size
                                      : atomic_load(&log->page->min_offset),
                          .ill = PS_ILL_MISSING};
    return ps_segment_fail_ill(&log->segments, &missing, offset, error);
  }
  if (*segment == NULL)
    return ps_fail(error, PS_E_RANGE, offset,
                   "offset %" PRIu64 " is not in the log: its segments hold "
                   "[%" PRIu64 ", %" PRIu64 ")",
                   offset, ps_segments_first(&log->segments),
                   ps_segments_end(&log->segments));
  return PS_OK;
}

/* Has the segment of bad bytes another file now? Then a reader reads once more.
 * *seen is from before the first time. */
static int32_t is_renewed(ps_log *log, uint64_t offset, uint64_t *seen) {
  return log->options.mode == PS_MODE_READ &&
         ps_renew(&log->segments, offset, seen);
}

static uint64_t renewals_of(ps_log *log) {
  return atomic_load(&log->segments.renewals);
}

ps_status ps_log_check_range(ps_log *log, uint64_t offset, uint64_t end,
                             ps_error *error) {
  if (offset < end)
    return PS_OK;
  return ps_fail(error, PS_E_RANGE, offset,
                 "offset %" PRIu64 " is not below the end %" PRIu64
                 " of the log %s",
                 offset, end, log->segments.directory);
}

ps_status ps_log_unchanged(ps_log *log, uint64_t generation, uint64_t end,
                           ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = ps_log_check_cut(log, generation, end, error);
  ps_log_leave(log);
  return status;
}

/* The segment that the list has now in the place of a retired one, whose later
 * blocks would have no copy (B14); the list's lock is held. */
static void follow_retired(ps_segments *list, ps_segment **segment) {
  for (uint32_t i = 0; (*segment)->is_retired && i < list->count; i++)
    if (list->items[i]->base == (*segment)->base) {
      list->items[i]->references++;
      ps_segment_drop(list, *segment);
      *segment = list->items[i];
    }
}

/* Holds a block, unless a running cut would remove its bytes. `hold` is the
 * segment's then. */
static ps_status hold_block(ps_log *log, ps_segment **segment, ps_hold *hold,
                            ps_error *error) {
  ps_segments *list = &log->segments;
  pthread_mutex_lock(&list->lock);
  uint64_t limit = log->cut_limit;
  if (hold->end <= limit) {
    follow_retired(list, segment);
    ps_segment *held = *segment;
    hold->segment = held;
    hold->next = held->holds;
    hold->link = &held->holds;
    if (hold->next != NULL)
      hold->next->link = &hold->next;
    held->holds = hold;
    held->references++;
    atomic_fetch_add(&log->holders, 1);
  }
  pthread_mutex_unlock(&list->lock);
  if (hold->end <= limit)
    return PS_OK;
  return ps_fail(error, PS_E_BUSY, limit,
                 "the log is being cut at %" PRIu64 ": read again afterwards",
                 limit);
}

/* Ends a hold; the segment may go with it. */
static void release_hold(ps_hold *hold) {
  ps_segments *list = hold->segment->list;
  pthread_mutex_lock(&list->lock);
  *hold->link = hold->next;
  if (hold->next != NULL)
    hold->next->link = hold->link;
  ps_segment_drop(list, hold->segment);
  pthread_mutex_unlock(&list->lock);
  free(hold);
}

static ps_status acquire(ps_log *log, uint64_t offset, uint64_t size_max,
                         ps_block *block, ps_error *error) {
  uint64_t generation = ps_log_generation(log);
  uint64_t end = ps_log_read_end(log);
  ps_status status = ps_log_check_range(log, offset, end, error);
  ps_segment *segment = NULL;
  if (status == PS_OK)
    status = ps_log_find_segment(log, offset, &segment, error);
  if (status != PS_OK)
    return status;
  uint64_t stop = ps_segment_stop(segment, offset, end);
  uint64_t size = stop - offset < size_max ? stop - offset : size_max;
  /* Held before it is checked, so that either the cut sees the block or the
   * check sees the cut. */
  ps_hold *hold = malloc(sizeof *hold);
  if (hold == NULL) {
    status = ps_fail(error, PS_E_MEMORY, offset, "no memory for a block");
  } else {
    *hold = (ps_hold){.offset = offset, .end = offset + size};
    status = hold_block(log, &segment, hold, error);
  }
  if (status != PS_OK) {
    free(hold);
    ps_segment_release(&log->segments, segment);
    return status;
  }
  const uint8_t *data = NULL;
  ps_segments *list = &log->segments;
  status =
      size_max <= EXACT_MOST
          ? ps_segment_populate_exact(list, segment, offset, size, &data, error)
          : ps_segment_populate(list, segment, offset, size, &data, error);
  if (status == PS_OK)
    status = ps_log_check_cut(log, generation, offset + size, error);
  ps_block found = {
      .data = data, .offset = offset, .size = size, .segment = hold};
  if (status != PS_OK) {
    release_hold(hold);
    ps_log_release(log);
  } else {
    *block = found;
  }
  ps_segment_release(&log->segments, segment);
  return status;
}

ps_status ps_block_acquire(ps_log *log, uint64_t offset, uint64_t size_max,
                           ps_block *block, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t seen = renewals_of(log);
  if (size_max == 0)
    status = ps_fail(error, PS_E_INVALID, offset, "a block of no bytes");
  else
    do
      status = acquire(log, offset, size_max, block, error);
    while (status == PS_E_CORRUPT && is_renewed(log, offset, &seen));
  ps_log_leave(log);
  return status;
}

/* What a read is asked for. */
typedef struct wanted_record {
  uint64_t offset;
  uint32_t expected; /* its size, as far as the caller knows, or 0 */
  uint32_t checks;
} wanted_record;

static uint64_t lost_from(const ps_segment *segment) {
  return segment->base + segment->size - segment->lost;
}

/* Reads a record into the caller's memory. */
static ps_status read_record(ps_log *log, const wanted_record *wanted,
                             uint8_t *buffer, uint32_t capacity, uint32_t *size,
                             ps_record *record, ps_error *error) {
  uint64_t offset = wanted->offset;
  uint32_t expected = wanted->expected;
  uint64_t end = ps_log_read_end(log);
  ps_status status = ps_log_check_range(log, offset, end, error);
  ps_segment *segment = NULL;
  if (status == PS_OK)
    status = ps_log_find_segment(log, offset, &segment, error);
  if (status != PS_OK)
    return status;
  uint64_t stop = ps_segment_stop(segment, offset, end);
  /* Mostly the page that the record begins in holds all of it. */
  uint64_t got = PS_PAGE - (offset - segment->base) % PS_PAGE;
  if (got < 4)
    got = 4;
  if (got < expected && expected <= capacity) /* an entry may be garbage */
    got = expected;
  if (got > stop - offset)
    got = stop - offset;
  const uint8_t *data = NULL;
  status =
      ps_segment_populate(&log->segments, segment, offset, got, &data, error);
  uint32_t needed = 0;
  if (status == PS_OK) {
    needed = got >= 4 ? ps_load32(data) : 0;
    if (segment->ill != 0 && stop == lost_from(segment) &&
        (got < 4 || (needed > stop - offset &&
                     needed <= segment->base + segment->size - offset)))
      status = ps_segment_fail_ill(&log->segments, segment, offset, error);
    else if (needed < PS_RECORD_MIN || needed > stop - offset)
      status = ps_fail(error, PS_E_CORRUPT, offset,
                       "no record begins at offset %" PRIu64
                       ": its size would be %" PRIu32,
                       offset, needed);
  }
  if (status == PS_OK && needed > got)
    status = ps_segment_populate(&log->segments, segment, offset, needed, &data,
                                 error);
  if (status == PS_OK) {
    *size = needed;
    if (needed > capacity)
      status = ps_fail(error, PS_E_SPACE, offset,
                       "the record has %" PRIu32 " bytes", needed);
  }
  if (status == PS_OK) {
    memcpy(buffer, data, needed);
    status = ps_record_check(buffer, needed, offset,
                             PS_CHECK_OFFSET | wanted->checks, record, error);
  }
  ps_segment_release(&log->segments, segment);
  return status;
}

static ps_status read_sized(ps_log *log, const wanted_record *wanted,
                            uint8_t *buffer, uint32_t capacity, uint32_t *size,
                            ps_record *record, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t generation = ps_log_generation(log);
  uint64_t seen = renewals_of(log);
  uint32_t found = 0;
  do
    status = read_record(log, wanted, buffer, capacity, &found, record, error);
  while (status == PS_E_CORRUPT && is_renewed(log, wanted->offset, &seen));
  if (status == PS_OK || status == PS_E_CORRUPT || status == PS_E_RANGE) {
    ps_error cut;
    if (ps_log_check_cut(log, generation, wanted->offset + (found ? found : 1),
                         &cut) != PS_OK) {
      *error = cut;
      status = PS_E_CUT;
    }
  }
  if (status == PS_OK || status == PS_E_SPACE)
    *size = found;
  ps_log_leave(log);
  return status;
}

ps_status ps_log_read(ps_log *log, uint64_t offset, uint32_t checks,
                      uint8_t *buffer, uint32_t capacity, uint32_t *size,
                      ps_record *record, ps_error *error) {
  wanted_record wanted = {.offset = offset, .checks = checks};
  return read_sized(log, &wanted, buffer, capacity, size, record, error);
}

ps_status ps_log_read_entry(ps_log *log, int32_t file, uint64_t at,
                            uint32_t checks, uint8_t *buffer, uint32_t capacity,
                            uint32_t *size, ps_record *record,
                            ps_error *error) {
  const ps_env *env = log->env;
  uint8_t entry[PS_QUEUE_ENTRY];
  int64_t got = env->read(env->self, file, entry, sizeof entry, at);
  if (got < 0)
    return ps_fail_system(error, (int32_t)got, PS_NO_OFFSET,
                          "cannot read an entry at byte %" PRIu64, at);
  wanted_record wanted = {.offset = ps_load64(entry),
                          .expected = ps_load32(entry + 8),
                          .checks = checks};
  /* The filler of slots that were never written has this size. */
  if (got != sizeof entry || wanted.expected == INT32_MAX)
    return ps_fail(error, PS_E_RANGE, PS_NO_OFFSET,
                   "no entry stands at byte %" PRIu64, at);
  return read_sized(log, &wanted, buffer, capacity, size, record, error);
}

/* What one scan call carries from window to window. */
typedef struct pass {
  ps_scan scan;
  ps_cursor *cursor;
  ps_record *rows;
  uint32_t capacity;
  uint32_t *count;
  uint64_t window; /* size of the next one */
} pass;

/* Asks for the following bytes to be read ahead, unless they seem to be in
 * memory: the request itself visits every page. */
static void prefetch(ps_log *log, const ps_segment *segment,
                     const uint8_t *data, uint64_t at, uint64_t limit) {
  const ps_env *env = log->env;
  uint64_t size = limit - at < 2 * WINDOW_MAX ? limit - at : 2 * WINDOW_MAX;
  if (size == 0)
    return;
  int32_t file = segment->read_file;
  if (!env->resident(env->self, file, data, at + size - 1, 1) ||
      !env->resident(env->self, file, data, at, 1))
    env->prefetch(env->self, data, at, size);
}

/* Makes the next window of a segment readable. */
static ps_status widen(ps_log *log, ps_segment *segment, pass *p,
                       ps_window *window, uint64_t wanted, ps_error *error) {
  uint64_t at = p->cursor->offset - segment->base;
  uint64_t target = at + p->window;
  if (target < wanted)
    target = wanted;
  uint64_t limit = segment->size - segment->lost;
  if (p->cursor->limit - segment->base < limit)
    limit = p->cursor->limit - segment->base;
  if (limit < wanted)
    limit = wanted;
  if (target > limit)
    target = limit;
  if (p->window < WINDOW_MAX)
    p->window *= 2;
  uint64_t from = window->readable > at ? window->readable : at;
  const uint8_t *data = NULL;
  ps_status status =
      ps_segment_populate(&log->segments, segment, segment->base + from,
                          target - from, &data, error);
  if (status != PS_OK)
    return status;
  window->data = data - from;
  window->readable = target;
  prefetch(log, segment, window->data, target, limit);
  return PS_OK;
}

/* Scans within one segment. Answers PS_OK with the kernel's answer. */
static ps_status scan_segment(ps_log *log, ps_segment *segment, pass *p,
                              int32_t *answer, ps_error *error) {
  ps_window window = {.base = segment->base, .size = segment->size};
  uint64_t wanted = p->cursor->offset - segment->base;
  *answer = PS_SCAN_MORE;
  while (*answer == PS_SCAN_MORE) {
    ps_status status = widen(log, segment, p, &window, wanted, error);
    if (status == PS_E_CORRUPT || status == PS_E_IO) {
      *answer = (int32_t)(p->cursor->stop = PS_STOP_UNREADABLE);
      return PS_OK;
    }
    if (status != PS_OK)
      return status;
    *answer = ps_scan_window(&p->scan, &window, p->cursor, p->rows, p->capacity,
                             p->count, &wanted, error);
  }
  return *answer == PS_SCAN_MEMORY ? PS_E_MEMORY : PS_OK;
}

static int32_t is_bad(const ps_cursor *cursor) {
  return cursor->stop == PS_STOP_ZERO || cursor->stop >= PS_STOP_SIZE;
}

static ps_status scan_log(ps_log *log, pass *p, uint64_t asked,
                          ps_error *error) {
  ps_cursor *cursor = p->cursor;
  uint64_t seen = renewals_of(log);
  for (;;) {
    if (cursor->offset >= cursor->limit) {
      /* The end of all segments is no limit that the caller set. */
      int32_t is_last = cursor->offset < asked &&
                        cursor->offset >= ps_segments_end(&log->segments);
      cursor->stop = is_last ? PS_STOP_LAST : PS_STOP_LIMIT;
      return PS_OK;
    }
    ps_segment *segment = NULL;
    ps_status status =
        ps_log_find_segment(log, cursor->offset, &segment, error);
    if (status == PS_E_CORRUPT) { /* it is missing */
      cursor->stop = PS_STOP_UNREADABLE;
      return PS_OK;
    }
    if (status == PS_E_RANGE &&
        cursor->offset >= ps_segments_first(&log->segments)) {
      cursor->stop = PS_STOP_LAST;
      return PS_OK;
    }
    if (status != PS_OK)
      return status;
    int32_t answer = 0;
    status = scan_segment(log, segment, p, &answer, error);
    ps_segment_release(&log->segments, segment);
    if (status == PS_OK && answer != PS_SEGMENT_DONE && is_bad(cursor) &&
        is_renewed(log, cursor->offset, &seen))
      continue;
    if (status != PS_OK || answer != PS_SEGMENT_DONE)
      return status;
  }
}

ps_status ps_log_scan(ps_log *log, ps_cursor *cursor, ps_record *rows,
                      uint32_t capacity, uint32_t *count, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t generation = ps_log_generation(log);
  uint64_t end = ps_log_read_end(log);
  uint64_t limit = cursor->limit;
  uint64_t start = cursor->offset;
  if (cursor->limit > end)
    cursor->limit = end;
  pass p = {.cursor = cursor,
            .rows = rows,
            .capacity = capacity,
            .count = count,
            .window = WINDOW_FIRST};
  ps_scan_init(&p.scan, log->topics);
  *count = 0;
  if (cursor->seen != 0)
    status = ps_log_check_cut(log, cursor->seen - 1, start, error);
  if (status != PS_OK)
    ; /* what was given out is gone */
  else if (start > end)
    status = ps_log_check_range(log, start, end, error);
  else
    status = scan_log(log, &p, limit, error);
  cursor->seen = generation + 1;
  cursor->limit = limit;
  /* What stopped the scan was read, too: zeroes or a bad record may be the
   * cut's or what came after it, and so may a segment that is gone. */
  uint64_t read_end = cursor->offset;
  if (cursor->stop >= PS_STOP_ZERO || status == PS_E_RANGE)
    read_end++;
  ps_error cut;
  if ((status == PS_OK || status == PS_E_RANGE) && read_end > start &&
      ps_log_check_cut(log, generation, read_end, &cut) != PS_OK) {
    *error = cut;
    status = PS_E_CUT;
  }
  ps_log_leave(log);
  return status;
}

static ps_status populate(ps_log *log, uint64_t offset, uint64_t *size,
                          ps_error *error) {
  uint64_t end = ps_log_read_end(log);
  ps_segment *segment = NULL;
  ps_status status = ps_log_check_range(log, offset, end, error);
  if (status == PS_OK)
    status = ps_log_find_segment(log, offset, &segment, error);
  if (status != PS_OK)
    return status;
  uint64_t stop = ps_segment_stop(segment, offset, end);
  if (*size > stop - offset)
    *size = stop - offset;
  const uint8_t *data = NULL;
  status =
      ps_segment_populate(&log->segments, segment, offset, *size, &data, error);
  ps_segment_release(&log->segments, segment);
  return status;
}

ps_status ps_log_populate(ps_log *log, uint64_t offset, uint64_t *size,
                          ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t wanted = *size;
  uint64_t seen = renewals_of(log);
  do {
    *size = wanted;
    status = populate(log, offset, size, error);
  } while (status == PS_E_CORRUPT && is_renewed(log, offset, &seen));
  ps_log_leave(log);
  return status;
}

static ps_log *log_of(ps_segments *list) {
  return (ps_log *)((char *)list - offsetof(ps_log, segments));
}

void ps_block_release(ps_block *block) {
  ps_hold *hold = block->segment;
  if (hold == NULL)
    return;
  block->segment = NULL;
  ps_segments *list = hold->segment->list;
  release_hold(hold);
  ps_log_release(log_of(list));
}

ps_status ps_log_segments(ps_log *log, uint64_t *bases, uint32_t capacity,
                          uint32_t *count, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  ps_segments *list = &log->segments;
  status = follow(log, ps_log_read_end(log) > ps_segments_end(list), error);
  if (status == PS_OK) {
    pthread_mutex_lock(&list->lock);
    *count = list->count;
    for (uint32_t i = 0; i < list->count && i < capacity; i++)
      bases[i] = list->items[i]->base;
    pthread_mutex_unlock(&list->lock);
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_stranded(ps_log *log, uint64_t *bases, uint32_t capacity,
                          uint32_t *count, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  const ps_segments *list = &log->segments;
  *count = list->stranded_count;
  for (uint32_t i = 0; i < list->stranded_count && i < capacity; i++)
    bases[i] = list->stranded[i];
  ps_log_leave(log);
  return status;
}

ps_status ps_log_topic(ps_log *log, uint32_t topic_id, uint8_t *buffer,
                       uint32_t capacity, uint32_t *size, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  const uint8_t *name = NULL;
  uint32_t found = 0;
  if (!ps_topics_name(log->topics, topic_id, &name, &found)) {
    status = ps_fail(error, PS_E_RANGE, PS_NO_OFFSET,
                     "no topic has the id %" PRIu32, topic_id);
  } else {
    *size = found;
    if (found > capacity)
      status = ps_fail(error, PS_E_SPACE, PS_NO_OFFSET,
                       "the topic's name has %" PRIu32 " bytes", found);
    else
      memcpy(buffer, name, found);
  }
  ps_log_leave(log);
  return status;
}
