/* Cutting the log's end in four steps. */
#include "cut.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "control.h"
#include "error.h"
#include "keep.h"
#include "page_words.h"
#include "sync.h"
#include "tail.h"

/* How long a cut waits for blocks above it (B14), and how often it looks. */
#define HELD_MOST_NS 1000000000
#define LOOK_NS 1000000

#define STEP_NONE 0
#define STEP_BEGUN 1
#define STEP_PUBLISHED 2
#define STEP_APPLIED 3

/* Steps that must follow one another, in one thread. */
static ps_status expect_step(ps_log *log, uint32_t step, ps_error *error) {
  if (atomic_load(&log->cut_owner) != ps_this_thread())
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "this thread has begun no cut");
  if (log->cut_step == step)
    return PS_OK;
  return ps_fail(error, PS_E_INVALID, log->cut_offset,
                 "steps of a cut out of order: at step %" PRIu32
                 ", expected %" PRIu32,
                 log->cut_step, step);
}

/* Walks the records from the segment's base: is `offset` where one ends? */
static ps_status check_boundary(ps_log *log, uint64_t offset, ps_error *error) {
  uint64_t size = log->segments.segment_size;
  uint64_t first = ps_segments_first(&log->segments);
  uint64_t end = atomic_load(&log->page->published_end);
  if (offset == 0)
    return PS_OK; /* all of it goes, wherever it begins */
  if (offset < first || offset > end)
    return ps_fail(error, PS_E_RANGE, offset,
                   "cannot cut at %" PRIu64 ": the log has [%" PRIu64
                   ", %" PRIu64 "]",
                   offset, first, end);
  if (offset == end)
    return PS_OK;
  uint64_t base = first + (offset - first) / size * size;
  ps_cursor cursor = {.offset = base,
                      .limit = offset,
                      .record_start = PS_NO_OFFSET,
                      .checks = PS_CHECK_OFFSET};
  uint32_t count = 0;
  ps_status status = ps_log_scan(log, &cursor, NULL, 0, &count, error);
  if (status == PS_OK && cursor.stop >= PS_STOP_SIZE)
    return error->status; /* a bad record, or one that cannot be read */
  if (status == PS_OK && cursor.offset != offset)
    status = ps_fail(error, PS_E_INVALID, offset,
                     "cannot cut at %" PRIu64 ": no record ends there, the "
                     "nearest end below is %" PRIu64,
                     offset, cursor.offset);
  return status;
}

/* Waits a while until no reader holds bytes that the cut zeroes; those that are
 * held on get a private copy. From here on no block above it is given out. */
static ps_status part_from_blocks(ps_log *log, uint64_t offset,
                                  ps_error *error) {
  const ps_env *env = log->env;
  ps_segments *list = &log->segments;
  if (ps_keep_is_held(list, offset)) {
    int64_t until = env->boottime_ns(env->self) + HELD_MOST_NS;
    while (ps_keep_is_held(list, offset) && env->boottime_ns(env->self) < until)
      env->pause(env->self, LOOK_NS);
  }
  pthread_mutex_lock(&list->lock);
  log->cut_limit = offset;
  pthread_mutex_unlock(&list->lock);
  pthread_mutex_lock(&log->flusher.work);
  ps_status status = ps_keep_held(list, &log->writer.active, offset, error);
  pthread_mutex_unlock(&log->flusher.work);
  return status;
}

static void release_cut(ps_log *log) {
  pthread_mutex_lock(&log->segments.lock);
  log->cut_limit = PS_NO_OFFSET;
  pthread_mutex_unlock(&log->segments.lock);
  log->cut_step = STEP_NONE;
  atomic_store(&log->cut_owner, 0);
  ps_commit commit = {.kind = PS_COMMIT_QUIESCE};
  ps_commit_queue_leave(&log->commit_queue, &commit);
}

void ps_log_abandon_cut(ps_log *log) {
  if (atomic_load(&log->cut_owner) == ps_this_thread())
    release_cut(log);
}

/* Begins the cut; all other commits are held back. */
static ps_status begin(ps_log *log, uint64_t offset, ps_error *error) {
  ps_status status = ps_log_check_open(log, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  if (status == PS_OK)
    status = check_boundary(log, offset, error);
  if (status == PS_OK)
    status = part_from_blocks(log, offset, error);
  log->cut_offset = offset;
  log->cut_step = STEP_BEGUN;
  atomic_store(&log->cut_owner, ps_this_thread());
  if (status != PS_OK)
    release_cut(log);
  return status;
}

/* Waits until no other commit runs, and holds all others back. */
static ps_status enter_alone(ps_log *log, uint64_t offset, ps_error *error) {
  if (atomic_load(&log->cut_owner) == ps_this_thread())
    return ps_fail(error, PS_E_INVALID, offset,
                   "this thread has begun a cut already: end it first");
  ps_commit commit = {.kind = PS_COMMIT_QUIESCE};
  int32_t leads = ps_commit_queue_enter(&log->commit_queue, &commit);
  assert(leads);
  (void)leads;
  return PS_OK;
}

ps_status ps_log_cut_begin(ps_log *log, uint64_t offset, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = enter_alone(log, offset, error);
  if (status == PS_OK)
    status = begin(log, offset, error);
  ps_log_leave(log);
  return status;
}

ps_status ps_log_hold(ps_log *log, uint64_t *end, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = enter_alone(log, PS_NO_OFFSET, error);
  if (status == PS_OK) {
    *end = atomic_load(&log->page->published_end);
    status = begin(log, *end, error);
    if (status == PS_OK && (status = ps_sync_published(log, error)) != PS_OK)
      release_cut(log);
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_cut_publish(ps_log *log, uint64_t generation,
                             ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = expect_step(log, STEP_BEGUN, error);
  if (status == PS_OK) {
    ps_writer *writer = &log->writer;
    writer->is_broken = 1; /* no appends until all of it has worked */
    log->cut_received = writer->received_end;
    writer->staged_from = log->cut_offset;
    writer->received_end = log->cut_offset;
    ps_page_cut(log, log->cut_offset, generation);
    int32_t result = log->live != NULL ? ps_live_sync(log->live) : 0;
    log->cut_step = STEP_PUBLISHED;
    if (result < 0)
      status = ps_fail_system(error, result, log->cut_offset,
                              "meta/live: cannot sync");
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_cut_apply(ps_log *log, ps_cut_report *report,
                           ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = expect_step(log, STEP_PUBLISHED, error);
  if (status == PS_OK) {
    uint64_t zeroed = 0;
    memset(report, 0, sizeof *report);
    pthread_mutex_lock(&log->flusher.work);
    status = ps_tail_clear(log, log->cut_offset, &report->segments_removed,
                           &zeroed, error);
    log->flusher.written_back = log->cut_offset;
    pthread_mutex_unlock(&log->flusher.work);
    ps_queues_reset(log->queues);
    if (status == PS_OK) {
      if (log->cut_offset == 0) /* no segment may be left to begin with */
        ps_page_begin(log, 0);
      log->writer.is_tail_dirty = 0;
      report->bytes_cut = log->cut_received - log->cut_offset;
      log->cut_step = STEP_APPLIED;
    }
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_cut_end(ps_log *log, uint32_t is_done, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  if (is_done)
    status = expect_step(log, STEP_APPLIED, error);
  else if (atomic_load(&log->cut_owner) != ps_this_thread())
    status = ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                     "this thread has begun no cut");
  if (status == PS_OK) {
    if (is_done)
      log->writer.is_broken = 0;
    release_cut(log);
  }
  ps_log_leave(log);
  return status;
}
