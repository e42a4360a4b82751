/* The state that all calls on a log share: the calls that run, and its ends. */
#include "log_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "reader.h"

static _Atomic uint32_t fork_count;

void ps_forked(void) {
  atomic_fetch_add(&fork_count, 1);
}

int32_t ps_log_is_forked(const ps_log *log) {
  return log->fork_stamp != atomic_load(&fork_count);
}

uint32_t ps_fork_stamp(void) {
  return atomic_load(&fork_count);
}

ps_status ps_log_enter(ps_log *log, ps_error *error) {
  if (ps_log_is_forked(log))
    return ps_fail(error, PS_E_FORKED, PS_NO_OFFSET,
                   "%s: opened before a fork: the handle is the parent's, "
                   "open the store again in this process",
                   log->segments.directory);
  atomic_fetch_add(&log->users, 1);
  if (!atomic_load(&log->is_closed))
    return PS_OK;
  ps_log_leave(log);
  return ps_fail(error, PS_E_CLOSED, PS_NO_OFFSET, "%s: the log is closed",
                 log->segments.directory);
}

ps_status ps_log_check_open(ps_log *log, ps_error *error) {
  if (atomic_load(&log->is_started) && !atomic_load(&log->is_closed))
    return PS_OK;
  return ps_fail(error, PS_E_CLOSED, PS_NO_OFFSET,
                 "%s: the log is not started for writing, or closed",
                 log->segments.directory);
}

uintptr_t ps_this_thread(void) {
  static _Thread_local uint8_t place;
  return (uintptr_t)&place;
}

void ps_log_leave(ps_log *log) {
  uint32_t before = atomic_fetch_sub(&log->users, 1);
  assert(before > 0);
  (void)before;
}

void ps_log_release(ps_log *log) {
  uint32_t before = atomic_fetch_sub(&log->holders, 1);
  assert(before > 0);
  if (before > 1)
    return;
  ps_env_close(log->anchor);
  free(log);
}

/* Has the awaited writer begun? Then the page's words are its own: it stores
 * the boot id last. */
static int32_t has_begun(ps_log *log) {
  const ps_live_words *awaited = &log->awaited;
  ps_live_words words;
  ps_live_read(log->live, &words);
  return words.incarnation != awaited->incarnation &&
         words.mount_id == awaited->mount_id &&
         memcmp(words.boot_id, awaited->boot_id, sizeof words.boot_id) == 0;
}

/* Goes over to the page, once its writer has begun. */
static int32_t awaits(ps_log *log) {
  if (atomic_load(&log->awaiting) != PS_AWAIT_WRITER)
    return 0;
  if (!has_begun(log))
    return 1;
  atomic_store(&log->limit, PS_NO_OFFSET);
  atomic_store(&log->awaiting, PS_AWAIT_OVER);
  return 0;
}

int32_t ps_log_follows(ps_log *log) {
  return log->live != NULL && !awaits(log);
}

uint64_t ps_log_generation(ps_log *log) {
  if (awaits(log))
    return log->awaited.cut_generation;
  return atomic_load(&log->page->cut_generation);
}

uint64_t ps_log_read_end(ps_log *log) {
  (void)awaits(log);
  uint64_t limit = atomic_load(&log->limit);
  if (limit != PS_NO_OFFSET)
    return limit;
  return atomic_load_explicit(&log->page->published_end, memory_order_acquire);
}

ps_status ps_log_check_cut(ps_log *log, uint64_t generation, uint64_t end,
                           ps_error *error) {
  ps_live_page *page = log->page;
  /* What was read was read before the generation is. */
  atomic_thread_fence(memory_order_acquire);
  uint64_t now = ps_log_generation(log);
  if (now == generation)
    return PS_OK;
  uint64_t cut = atomic_load(&page->cut_offset);
  /* Of several cuts only the newest is known; the others may be lower. */
  if (now == generation + 1 && end <= cut &&
      atomic_load(&page->cut_generation) == now)
    return PS_OK;
  return ps_fail(error, PS_E_CUT, cut,
                 "the log was cut at %" PRIu64 " while it was read up to "
                 "%" PRIu64 ": read again from there",
                 cut, end);
}

ps_status ps_log_await(ps_log *log, const ps_live_words *seen,
                       ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  if (log->options.mode == PS_MODE_WRITE || log->live == NULL) {
    status = ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                     "only a reader with a live page awaits a writer");
  } else {
    log->awaited = *seen;
    atomic_store(&log->segments.generation, seen->cut_generation);
    atomic_store(&log->limit, ps_segments_end(&log->segments));
    atomic_store(&log->awaiting, PS_AWAIT_WRITER);
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_limit(ps_log *log, uint64_t end, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  if (log->options.mode == PS_MODE_WRITE)
    status =
        ps_fail(error, PS_E_INVALID, end, "only a reader's end can be set");
  else if (end > ps_segments_end(&log->segments) &&
           !(log->segments.takes_ill && ps_segments_end(&log->segments) > 0))
    status = ps_fail(error, PS_E_RANGE, end,
                     "end %" PRIu64 " is past the last segment", end);
  else if (atomic_load(&log->awaiting) != PS_AWAIT_OVER)
    atomic_store(&log->limit, end);
  ps_log_leave(log);
  return status;
}

ps_status ps_log_ends(ps_log *log, ps_ends *ends, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  ps_live_page *page = log->page;
  ps_segments *list = &log->segments;
  ends->cut_generation = ps_log_generation(log);
  int32_t is_known = log->live == NULL || ps_log_follows(log);
  /* The lower ends first: what is loaded later can only have grown, but for a
   * cut. */
  ends->confirm_offset = is_known ? atomic_load(&page->confirm_offset) : 0;
  ends->synced_end = is_known ? atomic_load(&page->synced_end) : 0;
  ends->published_end = ps_log_read_end(log);
  if (ends->synced_end > ends->published_end)
    ends->synced_end = ends->published_end;
  if (ends->confirm_offset > ends->published_end)
    ends->confirm_offset = ends->published_end;
  ends->received_end = atomic_load(&log->writer.received_end);
  if (ends->received_end < ends->published_end)
    ends->received_end = ends->published_end;
  ends->last_offset = atomic_load(&log->writer.last_offset);
  pthread_mutex_lock(&list->lock);
  ends->segment_size = list->segment_size;
  ends->min_offset = list->count > 0 ? list->items[0]->base : 0;
  ends->segments = list->count;
  pthread_mutex_unlock(&list->lock);
  /* A reader hears of deletions from the page before it sees them. */
  uint64_t least = is_known ? atomic_load(&page->min_offset) : 0;
  if (log->options.mode == PS_MODE_READ && ends->min_offset < least)
    ends->min_offset = least;
  /* Missing at the front, which no file says, or added there since. */
  if (log->options.mode == PS_MODE_READ && log->live != NULL && is_known &&
      ends->min_offset > least)
    ends->min_offset = least;
  /* A log that begins elsewhere has its segment before an end says so, and a
   * crash in between leaves it to readers. It is empty. */
  if (ends->min_offset > ends->published_end)
    ends->min_offset = ends->published_end;
  ends->poisoned = atomic_load(&log->is_poisoned) != 0;
  ps_log_leave(log);
  return PS_OK;
}
