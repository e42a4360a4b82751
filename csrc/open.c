/* Opening a log, starting it for writing, closing it. */
#include "open.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "cut.h"
#include "detach.h"
#include "error.h"
#include "flusher.h"
#include "format.h"
#include "ill.h"
#include "page_words.h"
#include "sync.h"
#include "tail.h"
#include "waiters.h"

#define MESSAGE_SIZE_MAX_DEFAULT 4194304U
#define STAGING_PAGE 4096U

static ps_status check_options(const ps_options *options, ps_error *error) {
  uint64_t segment = options->segment_size;
  if (segment != 0 &&
      (segment < PS_RECORD_MIN + PS_BLANK_SIZE || segment > INT32_MAX))
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "segment size %" PRIu64 " is not within [%d, %d]", segment,
                   PS_RECORD_MIN + PS_BLANK_SIZE, INT32_MAX);
  if (options->mode > PS_MODE_READ_ILL)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET, "no such mode");
  if (options->message_size_max > INT32_MAX)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "message_size_max %" PRIu32 " is above %d, the most that a "
                   "record can say",
                   options->message_size_max, INT32_MAX);
  if (options->store_host_size != 8 && options->store_host_size != 20)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "a store host has 8 or 20 bytes, not %" PRIu32,
                   options->store_host_size);
  return PS_OK;
}

/* Takes the memory that appending needs, so that no append takes any. */
static ps_status prepare_writer(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  writer->last_staged = PS_NO_OFFSET;
  atomic_store(&writer->last_offset, PS_NO_OFFSET);
  writer->stamp.store_host = log->options.store_host;
  writer->stamp.store_host_size = log->options.store_host_size;
  writer->stamp.property_crc = log->options.property_crc;
  atomic_store(&writer->authority.boottime_ns, PS_NO_OFFSET);
  atomic_store(&writer->authority.wall_ms, PS_NO_OFFSET);
  if (log->options.mode != PS_MODE_WRITE)
    return PS_OK;
  writer->capacity = UINT64_C(2) * PS_PIECE + PS_PAD_SYNCED +
                     log->options.message_size_max +
                     UINT64_C(2) * PS_RECORD_EXTRA_MAX;
  /* In whole pages: to copy a page of a file takes twice as long where the
   * buffer begins within a cache line. */
  writer->capacity += STAGING_PAGE - writer->capacity % STAGING_PAGE;
  writer->staging = aligned_alloc(STAGING_PAGE, writer->capacity);
  if (writer->staging == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET,
                   "no memory for %" PRIu64 " bytes of staging",
                   writer->capacity);
  return PS_OK;
}

ps_status ps_log_open_env(const ps_env *env, const char *root,
                          const ps_options *options, ps_live *live,
                          ps_log **opened, ps_error *error) {
  ps_status status = check_options(options, error);
  if (status != PS_OK)
    return status;
  ps_log *log = calloc(1, sizeof *log);
  if (log == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory", root);
  log->env = env;
  log->options = *options;
  if (log->options.message_size_max == 0)
    log->options.message_size_max = MESSAGE_SIZE_MAX_DEFAULT;
  log->fork_stamp = ps_fork_stamp();
  atomic_store(&log->holders, 1);
  log->live = live;
  log->shared = live != NULL ? ps_live_words_of(live) : &log->own_page;
  log->page = options->mode == PS_MODE_WRITE ? &log->own_page : log->shared;
  if (live != NULL)
    ps_live_hold(live);
  ps_commit_queue_init(&log->commit_queue, options->wake_one_by_one);
  ps_flusher_init(&log->flusher);
  pthread_mutex_init(&log->file_sync_lock, NULL);
  pthread_mutex_init(&log->page_lock, NULL);
  atomic_store(&log->limit, PS_NO_OFFSET);
  log->cut_limit = PS_NO_OFFSET;
  if (options->mode == PS_MODE_READ_ILL)
    log->options.mode = PS_MODE_READ;
  status = ps_segments_open(&log->segments, env, root, options->segment_size,
                            options->mode == PS_MODE_READ_ILL, error);
  if (status != PS_OK) {
    ps_live_close(live);
    free(log);
    return status;
  }
  if (live != NULL && log->options.mode == PS_MODE_READ)
    atomic_store(&log->segments.generation, PS_NO_OFFSET); /* none yet */
  if (live == NULL || options->mode == PS_MODE_WRITE)
    atomic_store(&log->limit, ps_segments_end(&log->segments));
  log->topics = ps_topics_new();
  log->queues = log->topics == NULL ? NULL : ps_queues_new(log->topics);
  if (log->queues == NULL)
    status = ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory", root);
  if (status == PS_OK)
    status = prepare_writer(log, error);
  if (status != PS_OK) {
    ps_log_free(log);
    return status;
  }
  *opened = log;
  return PS_OK;
}

ps_status ps_log_open(const char *root, const ps_options *options,
                      ps_live *live, ps_log **log, ps_error *error) {
  const ps_env *anchor = NULL;
  const ps_env *env = ps_env_posix();
  if (ps_env_anchor(root, &anchor) == 0) /* else the listing says what fails */
    env = anchor;
  ps_status status = ps_log_open_env(env, root, options, live, log, error);
  if (status == PS_OK)
    (*log)->anchor = anchor;
  else
    ps_env_close(anchor);
  return status;
}

/* Writes [from, to) again as it reads, and syncs it (A12): after a failed
 * sync the page cache may hold what the disk does not. */
static ps_status rewrite(ps_log *log, uint64_t from, uint64_t to,
                         ps_error *error) {
  ps_segments *list = &log->segments;
  while (from < to) {
    ps_segment *segment = ps_segments_find(list, from);
    assert(segment != NULL);
    uint64_t stop = segment->base + segment->size;
    if (stop > to)
      stop = to;
    ps_status status = ps_segment_open_file(list, segment, error);
    while (status == PS_OK && from < stop) {
      uint64_t size = stop - from < PS_PIECE ? stop - from : PS_PIECE;
      const uint8_t *data = NULL;
      status = ps_segment_populate(list, segment, from, size, &data, error);
      if (status != PS_OK)
        break;
      memcpy(log->writer.staging, data, size);
      uint64_t written = 0;
      status = ps_segment_write(list, segment, from, log->writer.staging, size,
                                &written, error);
      from += size;
    }
    if (status == PS_OK)
      status = ps_sync_segment(log, segment, error);
    if (status == PS_OK && segment != log->writer.active)
      ps_segment_close_file(list, segment);
    ps_segment_release(list, segment);
    if (status != PS_OK)
      return status;
  }
  return PS_OK;
}

static ps_status check_start(ps_log *log, const ps_start *start,
                             ps_error *error) {
  if (log->options.mode != PS_MODE_WRITE || atomic_load(&log->is_started))
    return ps_fail(error, PS_E_INVALID, start->end,
                   "the log is not opened for writing, or already started");
  uint64_t first = ps_segments_first(&log->segments);
  uint64_t last = ps_segments_end(&log->segments);
  if (last == 0 && start->end % log->segments.segment_size != 0)
    return ps_fail(error, PS_E_INVALID, start->end,
                   "cannot start at %" PRIu64 ": an empty log starts where a "
                   "segment of %" PRIu64 " bytes can",
                   start->end, log->segments.segment_size);
  if (start->end == 0 && start->synced_end == 0)
    return PS_OK; /* nothing stays, wherever it began */
  if (start->end < first || start->end > last || start->synced_end > start->end)
    if (last > 0 || start->synced_end > start->end)
      return ps_fail(error, PS_E_INVALID, start->end,
                     "cannot start at %" PRIu64 " (synced %" PRIu64
                     "): the log has [%" PRIu64 ", %" PRIu64 "]",
                     start->end, start->synced_end, first, last);
  return PS_OK;
}

/* The work of a start that does not trust the store to be clean. */
static ps_status start_unclean(ps_log *log, ps_start *start, ps_error *error) {
  ps_status status = ps_tail_clear(log, start->end, &start->segments_removed,
                                   &start->bytes_zeroed, error);
  uint64_t from = start->synced_end;
  uint64_t first = ps_segments_first(&log->segments);
  if (from < first)
    from = first;
  if (status == PS_OK)
    status = rewrite(log, from, start->end, error);
  if (status == PS_OK)
    start->bytes_rewritten = start->end - from;
  /* The names of the segments, too, must survive a power cut. */
  if (status == PS_OK)
    status = ps_segments_sync_directory(&log->segments, error);
  return status;
}

static ps_status start_clean(ps_log *log, const ps_start *start,
                             ps_error *error) {
  ps_writer *writer = &log->writer;
  writer->active = ps_segments_find(&log->segments, start->end);
  writer->staged_from = start->end;
  writer->received_end = start->end;
  if (writer->active == NULL)
    return PS_OK;
  return ps_segment_open_file(&log->segments, writer->active, error);
}

ps_status ps_log_start(ps_log *log, ps_start *start, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  log->incarnation = atomic_load(&log->shared->incarnation);
  status = check_start(log, start, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  /* The newest segment, if it takes the next appends; an older one that a cut
   * makes the newest is copied. */
  if (status == PS_OK &&
      start->end + log->segments.segment_size > ps_segments_end(&log->segments))
    status = ps_detach_refuse(&log->segments, start->end, error);
  uint32_t stranded = 0;
  start->segments_removed = 0;
  start->bytes_zeroed = start->bytes_rewritten = 0;
  if (status == PS_OK)
    status = ps_stranded_remove(&log->segments, &stranded, error);
  if (status == PS_OK)
    status = start->clean ? start_clean(log, start, error)
                          : start_unclean(log, start, error);
  start->segments_removed += stranded;
  if (status == PS_OK) {
    log->writer.store_ms = start->store_ms;
    ps_clock_start(log);
    atomic_store(&log->writer.last_offset, start->last_offset);
    ps_page_start(log, start);
    atomic_store(&log->limit, PS_NO_OFFSET);
    status = ps_flusher_start(log, error);
  }
  if (status == PS_OK)
    atomic_store(&log->is_started, 1);
  ps_log_leave(log);
  return status;
}

/* Waits until no other call runs; new ones are refused by now. */
static void wait_for_users(ps_log *log) {
  struct timespec pause = {.tv_nsec = 100000};
  while (atomic_load(&log->users) > 0)
    nanosleep(&pause, NULL);
}

/* The last work of a log: above its end all is zero, below it all is on disk,
 * or the status says so. No other thread writes or syncs. */
static ps_status finish(ps_log *log, ps_error *error) {
  ps_error tail;
  /* Zeros are written only where no other writer may be. */
  ps_status status = ps_sync_check_guard(log, error);
  if (status != PS_OK)
    return status;
  if (!log->writer.is_broken)
    status = ps_tail_zero(log, &tail);
  ps_status synced = ps_sync_published(log, error);
  ps_segment *active = log->writer.active;
  if (synced == PS_OK && active != NULL && active->file >= 0)
    synced = ps_sync_check_file(log, active, error);
  if (synced != PS_OK)
    return synced;
  if (status == PS_OK && log->writer.is_broken)
    status = ps_fail(&tail, PS_E_IO, log->cut_offset,
                     "%s: bytes above offset %" PRIu64
                     " could not be removed: opening the log removes them",
                     log->segments.directory, log->cut_offset);
  if (status != PS_OK)
    *error = tail;
  return status;
}

/* Stops and closes all that calls use; is_closed refuses new calls. */
static void shut_down(ps_log *log) {
  ps_flusher_stop(log);
  wait_for_users(log);
  if (log->writer.active != NULL)
    ps_segment_release(&log->segments, log->writer.active);
  log->writer.active = NULL;
  ps_segments_close(&log->segments);
}

ps_status ps_log_close(ps_log *log, ps_error *error) {
  if (!ps_log_is_forked(log))
    ps_log_abandon_cut(
        log); /* or closing would wait for the cut of its own thread */
  ps_status status = ps_log_enter(log, error);
  if (status == PS_E_CLOSED)
    return PS_OK;
  if (status != PS_OK)
    return status;
  /* All other commits are held back: what is synced now is all. */
  ps_commit commit = {.kind = PS_COMMIT_QUIESCE};
  int32_t leads = ps_commit_queue_enter(&log->commit_queue, &commit);
  assert(leads);
  (void)leads;
  int32_t was_closed = (int32_t)atomic_exchange(&log->is_closed, 1);
  if (!was_closed && atomic_load(&log->is_started))
    status = finish(log, error);
  ps_commit_queue_leave(&log->commit_queue, &commit);
  ps_log_leave(log);
  if (!was_closed)
    shut_down(log);
  return status;
}

void ps_log_free(ps_log *log) {
  if (log == NULL)
    return;
  /* In a forked child only memory is freed: threads are gone, locks may be
   * held for ever, files are the parent's. */
  if (!ps_log_is_forked(log)) {
    ps_error ignored; /* a caller that needs the status closes first */
    (void)ps_log_close(log, &ignored);
    ps_queues_free(log->queues);
    ps_topics_free(log->topics);
  }
  ps_live_close(log->live);
  ps_lock_drop(log->lock);
  ps_waiters_free(log->writer.waiters);
  free(log->writer.staging);
  ps_log_release(log);
}
