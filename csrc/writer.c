/* What the holder of the write lock does: stage, write, publish, roll. */
#include "writer.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "format.h"
#include "page_words.h"
#include "sync.h"
#include "tail.h"
#include "waiters.h"

/* Where replicas decide over an append (PS_ACK_SHARED), a master that was
 * replaced does not get their acks: only the end of the mastership ends it, no
 * clock (B8, C3). */
ps_status ps_writer_authority(ps_log *log, uint32_t ack, ps_error *error) {
  ps_authority *authority = &log->writer.authority;
  const ps_env *env = log->env;
  uint64_t boottime_ns = atomic_load(&authority->boottime_ns);
  uint64_t wall_ms = atomic_load(&authority->wall_ms);
  int32_t is_over = boottime_ns == 0 || wall_ms == 0;
  int32_t is_timed = ack != PS_ACK_SHARED;
  if (is_timed && boottime_ns != PS_NO_OFFSET)
    is_over |= (uint64_t)env->boottime_ns(env->self) >= boottime_ns;
  if (is_timed && wall_ms != PS_NO_OFFSET)
    is_over |= (uint64_t)env->wall_ms(env->self) >= wall_ms;
  if (is_over)
    return ps_fail(error, PS_E_FENCED, atomic_load(&log->page->published_end),
                   "the write authority of epoch %" PRIu64
                   " has run out: renew it or step down",
                   atomic_load(&authority->epoch));
  return PS_OK;
}

ps_status ps_writer_check(ps_log *log, uint32_t ack, ps_error *error) {
  uint64_t end = atomic_load(&log->page->published_end);
  ps_status status = ps_log_check_open(log, error);
  if (status != PS_OK)
    return status;
  if (atomic_load(&log->is_poisoned))
    return ps_log_poisoned(log, end, error);
  /* Its bytes would go over another writer's, or others cannot see them. */
  if (!ps_log_has_page(log) || atomic_load(&log->is_changed))
    return ps_sync_check_guard(log, error);
  if (log->writer.is_broken)
    return ps_fail(error, PS_E_BUSY, end,
                   "bytes above offset %" PRIu64 " could not be removed, by a "
                   "cut or after a failed append: close the log and open it "
                   "again",
                   log->cut_offset);
  return ps_writer_authority(log, ack, error);
}

/* Finds or creates the segment that begins at `base`, open for writing. The
 * caller gets a reference. */
static ps_status prepare_segment(ps_log *log, uint64_t base,
                                 ps_segment **prepared, ps_error *error) {
  ps_segments *list = &log->segments;
  ps_status status = PS_OK;
  if (ps_segments_end(list) <= base)
    status = ps_segments_create(list, base, error);
  if (status != PS_OK)
    return status;
  ps_segment *next = ps_segments_find(list, base);
  assert(next != NULL && next->base == base);
  status = ps_segment_open_file(list, next, error);
  if (status == PS_OK)
    *prepared = next;
  else
    ps_segment_release(list, next);
  return status;
}

/* May the active segment end, and the next one begin? */
static ps_status check_roll(ps_log *log, uint64_t left, ps_segment *next,
                            ps_error *error) {
  ps_writer *writer = &log->writer;
  if (left > 0 && left < PS_BLANK_SIZE)
    return ps_fail(error, PS_E_CORRUPT, writer->staged_from,
                   "the last record leaves %" PRIu64
                   " bytes of its segment, too "
                   "few for a blank record: no RocketMQ writes so: cut it",
                   left);
  ps_status status = PS_OK;
  if (left > 0)
    status = ps_sync_check_file(log, writer->active, error);
  if (status == PS_OK)
    status = ps_sync_check_file(log, next, error);
  return status;
}

/* Makes a prepared segment the active one. */
static void activate(ps_log *log, ps_segment *next) {
  ps_writer *writer = &log->writer;
  assert(next->base == writer->staged_from && writer->staged == 0);
  if (writer->active != NULL)
    ps_segment_release(&log->segments, writer->active);
  writer->active = next;
}

/* Bytes between the writer's end and the end of the active segment. */
static uint64_t room_left(const ps_writer *writer) {
  if (writer->active == NULL)
    return 0;
  uint64_t end = writer->staged_from + writer->staged;
  return writer->active->base + writer->active->size - end;
}

ps_status ps_writer_roll(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  assert(writer->staged == 0);
  uint64_t end = writer->staged_from;
  uint64_t left = room_left(writer);
  /* The next segment first: a full disk then leaves this one as it is. */
  ps_segment *next = NULL;
  ps_status status = ps_sync_check_guard(log, error);
  if (status == PS_OK)
    status = prepare_segment(log, end + left, &next, error);
  if (status != PS_OK)
    return status;
  status = check_roll(log, left, next, error);
  if (status != PS_OK) {
    ps_segment_release(&log->segments, next);
    return status;
  }
  if (left > 0) {
    assert(left >= PS_BLANK_SIZE);
    uint8_t blank[PS_BLANK_SIZE];
    ps_store32(blank, (uint32_t)left);
    ps_store32(blank + 4, PS_MAGIC_BLANK);
    uint64_t written = 0;
    status = ps_segment_write(&log->segments, writer->active, end, blank,
                              sizeof blank, &written, error);
  }
  if (status != PS_OK) {
    ps_segment_release(&log->segments, next);
    writer->is_tail_dirty = 1;
    ps_error ignored; /* the write's failure is the one to report */
    (void)ps_tail_repair(log, &ignored);
    return status;
  }
  writer->staged_from = end + left;
  writer->received_end = end + left;
  activate(log, next);
  return ps_writer_publish(log, error);
}

int32_t ps_writer_has_room(const ps_log *log, uint64_t bytes) {
  return room_left(&log->writer) >= bytes + PS_BLANK_SIZE;
}

/* Puts zeros behind the end of what is staged, up to a multiple of PS_PAD or
 * PS_PAD_SYNCED, unless that was done before, and answers where they end. The
 * page cache then makes large folios of them, and the file system one written
 * extent, before the small appends that follow fill it: those need no memory,
 * and their syncs no journal. */
static uint64_t pad(ps_writer *writer, uint64_t end) {
  const ps_segment *active = writer->active;
  int32_t is_far = writer->wants_sync && writer->staged < PS_PIECE;
  uint64_t unit = is_far ? PS_PAD_SYNCED : PS_PAD;
  uint64_t stop = end + (unit - end % unit) % unit;
  if (stop > active->base + active->size)
    stop = active->base + active->size;
  if (end <= writer->padded_end)
    return end;
  writer->padded_end = stop;
  assert(writer->staged + (stop - end) <= writer->capacity);
  memset(writer->staging + writer->staged, 0, stop - end);
  return stop;
}

ps_status ps_writer_flush(ps_log *log, int32_t all, ps_error *error) {
  ps_writer *writer = &log->writer;
  uint64_t end = writer->staged_from + writer->staged;
  uint64_t stop = all ? end : end - end % PS_PIECE;
  if (stop <= writer->staged_from)
    return PS_OK;
  writer->is_tail_dirty = 1;
  uint64_t write_stop = all ? pad(writer, end) : stop;
  uint64_t written = 0;
  ps_status status = ps_segment_write(
      &log->segments, writer->active, writer->staged_from, writer->staging,
      write_stop - writer->staged_from, &written, error);
  if (status != PS_OK) {
    writer->has_failed = 1;
    return status;
  }
  uint64_t done = stop - writer->staged_from;
  writer->staged -= done;
  writer->staged_from = stop;
  if (writer->staged > 0)
    memmove(writer->staging, writer->staging + done, writer->staged);
  return PS_OK;
}

ps_status ps_writer_publish(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  ps_status status = ps_writer_flush(log, 1, error);
  if (status != PS_OK)
    return status;
  uint64_t end = writer->staged_from;
  /* Nothing new: half a raw record, or a tail that could not be zeroed, may
   * lie above the end and stays what it is. */
  if (end <= atomic_load(&log->page->published_end))
    return PS_OK;
  assert(writer->active != NULL);
  writer->is_tail_dirty = 0;
  writer->received_end = end;
  if (writer->last_staged != PS_NO_OFFSET)
    atomic_store(&writer->last_offset, writer->last_staged);
  ps_page_publish(log, end);
  ps_flusher_grown(log, end);
  if (writer->waiters != NULL) {
    ps_error ignored; /* every handle has a mark 0 */
    if (writer->is_quiet)
      (void)ps_waiters_advance(writer->waiters, 0, &ignored);
    else
      (void)ps_waiters_notify(writer->waiters, 0, &ignored);
  }
  return PS_OK;
}

void ps_writer_discard(ps_log *log) {
  ps_writer *writer = &log->writer;
  writer->staged = 0;
  writer->last_staged = PS_NO_OFFSET;
  writer->has_failed = 0;
  writer->last_staged = PS_NO_OFFSET;
  writer->staged_from = atomic_load(&log->page->published_end);
  writer->received_end = writer->staged_from;
  ps_error ignored; /* a tail that stays dirty is repaired before any append */
  (void)ps_tail_repair(log, &ignored);
}
