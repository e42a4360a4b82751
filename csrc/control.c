/* What else holds the write lock: rolls, authority, confirm offset, queues. */
#include "control.h"

#include <inttypes.h>

#include "clock.h"
#include "error.h"
#include "log_state.h"
#include "page_words.h"
#include "tail.h"
#include "waiters.h"
#include "writer.h"

ps_status ps_log_roll(ps_log *log, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  status = ps_writer_check(log, PS_ACK_LEADER, error);
  if (status == PS_OK)
    status = ps_tail_repair(log, error);
  const ps_segment *active = log->writer.active;
  if (status == PS_OK && active != NULL &&
      log->writer.staged_from > active->base)
    status = ps_writer_roll(log, error);
  ps_log_leave_exclusive(log, &commit);
  return status;
}

/* What a failed append wrote lies above the end, and no raw record begins
 * there. */
static int32_t has_refused_bytes(const ps_log *log) {
  const ps_writer *writer = &log->writer;
  return writer->is_tail_dirty && !writer->is_broken &&
         atomic_load(&writer->received_end) ==
             atomic_load(&log->page->published_end);
}

ps_status ps_log_undo(ps_log *log, uint64_t *cut_offset, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  ps_writer *writer = &log->writer;
  status = ps_log_check_open(log, error);
  if (status == PS_OK && has_refused_bytes(log)) {
    ps_error ignored; /* the failure of the append is the one to report */
    if (ps_tail_zero(log, &ignored) != PS_OK) {
      writer->is_broken = 1;
      log->cut_offset = writer->staged_from;
    }
  }
  *cut_offset = writer->is_broken ? log->cut_offset : PS_NO_OFFSET;
  ps_log_leave_exclusive(log, &commit);
  return status;
}

ps_status ps_log_clock(ps_log *log, uint32_t is_accepted, ps_clock_state *state,
                       ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  status = ps_log_check_open(log, error);
  if (status == PS_OK) {
    if (is_accepted)
      ps_clock_accept(log);
    const ps_env *env = log->env;
    int64_t wall_ms = env->wall_ms(env->self);
    state->store_ms = log->writer.store_ms;
    state->now_ms = ps_clock_check(log, wall_ms);
    state->ahead_ms = wall_ms - state->now_ms;
  }
  ps_log_leave_exclusive(log, &commit);
  return status;
}

ps_status ps_log_authority(ps_log *log, uint64_t epoch, uint64_t boottime_ns,
                           uint64_t wall_ms, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  ps_authority *authority = &log->writer.authority;
  uint64_t granted = atomic_load(&authority->epoch);
  if (epoch < granted) {
    status =
        ps_fail(error, PS_E_FENCED, PS_NO_OFFSET,
                "epoch %" PRIu64 " is over: epoch %" PRIu64 " has been granted",
                epoch, granted);
  } else {
    atomic_store(&authority->epoch, epoch);
    atomic_store(&authority->boottime_ns, boottime_ns);
    atomic_store(&authority->wall_ms, wall_ms);
  }
  ps_log_leave_exclusive(log, &commit);
  return status;
}

ps_status ps_log_confirm(ps_log *log, uint64_t offset, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  uint64_t end = atomic_load(&log->page->published_end);
  status = ps_log_check_open(log, error); /* a reader's page is read-only */
  if (status == PS_OK && offset > end)
    status = ps_fail(error, PS_E_RANGE, offset,
                     "cannot confirm %" PRIu64 ": the log ends at %" PRIu64,
                     offset, end);
  else if (status == PS_OK && offset > atomic_load(&log->page->confirm_offset))
    ps_page_confirm(log, offset);
  ps_log_leave_exclusive(log, &commit);
  return status;
}

ps_status ps_log_notify(ps_log *log, ps_waiters *waiters, ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  ps_waiters *before = log->writer.waiters;
  if (waiters != NULL)
    ps_waiters_hold(waiters);
  log->writer.waiters = waiters;
  ps_waiters_free(before);
  ps_log_leave_exclusive(log, &commit);
  return PS_OK;
}

/* A cut holds the write lock already while its caller rebuilds the queues. */
static ps_status begin_queues(ps_log *log, ps_commit *commit, int32_t *in_cut,
                              ps_error *error) {
  *in_cut = atomic_load(&log->cut_owner) == ps_this_thread();
  return *in_cut
             ? ps_log_enter(log, error)
             : ps_log_enter_exclusive(log, commit, PS_COMMIT_EXCLUSIVE, error);
}

static ps_status end_queues(ps_log *log, ps_commit *commit, int32_t in_cut,
                            ps_status status) {
  if (in_cut)
    ps_log_leave(log);
  else
    ps_log_leave_exclusive(log, commit);
  return status;
}

ps_status ps_log_queues_load(ps_log *log, const uint8_t *queues, uint64_t size,
                             ps_error *error) {
  ps_commit commit;
  int32_t in_cut = 0;
  ps_status status = begin_queues(log, &commit, &in_cut, error);
  if (status != PS_OK)
    return status;
  status = ps_queues_load(log->queues, queues, size, error);
  return end_queues(log, &commit, in_cut, status);
}

ps_status ps_log_queues_note(ps_log *log, const ps_record *rows, uint32_t count,
                             ps_error *error) {
  ps_commit commit;
  int32_t in_cut = 0;
  ps_status status = begin_queues(log, &commit, &in_cut, error);
  if (status != PS_OK)
    return status;
  status = ps_queues_note(log->queues, rows, count, error);
  return end_queues(log, &commit, in_cut, status);
}

ps_status ps_log_queues_reset(ps_log *log, ps_error *error) {
  ps_commit commit;
  int32_t in_cut = 0;
  ps_status status = begin_queues(log, &commit, &in_cut, error);
  if (status != PS_OK)
    return status;
  ps_queues_reset(log->queues);
  return end_queues(log, &commit, in_cut, PS_OK);
}

ps_status ps_log_queues_fill(ps_log *log, int32_t changed, uint8_t *buffer,
                             uint64_t capacity, uint64_t *size, uint64_t *end,
                             ps_error *error) {
  ps_commit commit;
  int32_t in_cut = 0;
  ps_status status = begin_queues(log, &commit, &in_cut, error);
  if (status != PS_OK)
    return status;
  status = changed ? ps_queues_take(log->queues, buffer, capacity, size, error)
                   : ps_queues_fill(log->queues, buffer, capacity, size, error);
  *end = atomic_load(&log->page->published_end);
  return end_queues(log, &commit, in_cut, status);
}
