/* Appending: one leader encodes, writes and syncs for all threads that wait. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "error.h"
#include "format.h"
#include "sync.h"
#include "tail.h"
#include "waiters.h"
#include "writer.h"

/* Groups that one leader syncs before another takes over. */
enum { GROUPS_MAX = 4 };

/* One append, on its caller's stack. `commit` comes first, so that what the
 * commit queue links are these requests. */
typedef struct request {
  ps_commit commit;
  ps_source source;
  ps_totals totals;
  ps_position *positions;
  uint64_t capacity;
  uint64_t encoded;     /* messages encoded and not yet published */
  uint64_t encoded_end; /* of the last one */
  ps_appended appended; /* count: messages published */
  ps_error *error;
  ps_status status;
  uint32_t ack;      /* PS_ACK_* */
  uint32_t may_span; /* columns: more than one segment */
  uint32_t is_quiet; /* its publication wakes no waiter of the log */
} request;

static request *request_of(ps_commit *commit) {
  return (request *)commit;
}

static int32_t takes_queue_offset(const ps_message *message) {
  uint32_t kind = message->sys_flag & PS_SYS_TRANSACTION;
  return kind != PS_SYS_PREPARED && kind != PS_SYS_ROLLBACK;
}

/* Takes back the queue offsets of what was not published. */
static void forget_unpublished(ps_log *log, request *r) {
  ps_message message;
  ps_source_rewind(&r->source);
  uint64_t skip = r->appended.count;
  for (uint64_t i = 0; i < skip + r->encoded; i++) {
    int32_t found = ps_source_next(&r->source, &message);
    assert(found);
    (void)found;
    if (i < skip || !takes_queue_offset(&message))
      continue;
    int64_t *next = ps_queues_next(log->queues, message.topic,
                                   message.topic_size, message.queue_id);
    assert(next != NULL && *next > 0); /* it was there when it was raised */
    *next -= 1;
  }
  r->encoded = 0;
}

/* The requests that one leader writes together, up to the one it is at. */
typedef struct batch {
  request *first;
  request *last;
} batch;

/* Publishes all that was encoded, and counts it in the requests it is of. */
static ps_status publish(ps_log *log, batch *b, ps_error *error) {
  ps_status status = ps_writer_publish(log, error);
  if (status != PS_OK)
    return status;
  for (ps_commit *commit = &b->first->commit;; commit = commit->next) {
    request *r = request_of(commit);
    if (r->encoded > 0)
      r->appended.end = r->encoded_end;
    r->appended.count += r->encoded;
    r->encoded = 0;
    if (r == b->last)
      return PS_OK;
  }
}

/* Fails each request that has unpublished bytes, for one reason. */
static void fail_unpublished(ps_log *log, batch *b, ps_status status,
                             ps_error reason) {
  for (ps_commit *commit = &b->first->commit;; commit = commit->next) {
    request *r = request_of(commit);
    if (r->encoded > 0) {
      forget_unpublished(log, r);
      r->status = status;
      *r->error = reason;
    }
    if (r == b->last)
      break;
  }
  ps_writer_discard(log);
}

/* Makes room in the active segment, or begins the next one. */
static ps_status make_room(ps_log *log, batch *b, uint64_t bytes) {
  if (ps_writer_has_room(log, bytes))
    return PS_OK;
  ps_status status = publish(log, b, b->last->error);
  if (status == PS_OK)
    status = ps_writer_roll(log, b->last->error);
  return status;
}

/* Encodes the next message of a request behind what is staged. */
static ps_status encode_next(ps_log *log, batch *b) {
  ps_writer *writer = &log->writer;
  request *r = b->last;
  ps_message message;
  int32_t found = ps_source_next(&r->source, &message);
  assert(found);
  (void)found;
  if (r->may_span) {
    uint32_t size = ps_record_size(&message, &writer->stamp);
    ps_status status = make_room(log, b, size);
    if (status != PS_OK)
      return status;
  }
  int64_t *next = ps_queues_next(log->queues, message.topic, message.topic_size,
                                 message.queue_id);
  if (next == NULL)
    return ps_fail(r->error, PS_E_MEMORY, writer->staged_from,
                   "no memory for a queue");
  ps_stamp *stamp = &writer->stamp;
  stamp->offset = writer->staged_from + writer->staged;
  stamp->queue_offset = *next;
  stamp->store_ms = r->appended.store_ms;
  assert(writer->staged + r->totals.bytes_max <= writer->capacity);
  uint32_t size = ps_record_encode(writer->staging + writer->staged, &message,
                                   stamp, &writer->cache);
  assert(size <= r->totals.bytes_max);
  writer->staged += size;
  writer->last_staged = stamp->offset;
  if (takes_queue_offset(&message))
    *next += 1;
  uint64_t index = r->appended.count + r->encoded;
  if (index < r->capacity) {
    r->positions[index].offset = stamp->offset;
    r->positions[index].queue_offset = stamp->queue_offset;
  }
  if (index == 0) {
    r->appended.offset = stamp->offset;
    r->appended.queue_offset = stamp->queue_offset;
  }
  r->encoded++;
  r->encoded_end = stamp->offset + size;
  return PS_OK;
}

/* Encodes a whole request; what fills a piece is written on the way. */
static ps_status encode_request(ps_log *log, batch *b) {
  ps_writer *writer = &log->writer;
  request *r = b->last;
  ps_status status = ps_writer_check(log, r->ack, r->error);
  /* Bytes that an earlier failure or half a raw record left above the end go
   * first; what this batch has written itself is no such tail. */
  if (status == PS_OK && writer->staged == 0 &&
      writer->staged_from == atomic_load(&log->page->published_end))
    status = ps_tail_repair(log, r->error);
  if (status == PS_OK && !r->may_span)
    status = make_room(log, b, r->totals.bytes);
  if (status != PS_OK)
    return status;
  int64_t now = ps_clock_now(log);
  if (now > writer->store_ms)
    writer->store_ms = now;
  r->appended.store_ms = writer->store_ms;
  while (status == PS_OK && r->appended.count + r->encoded < r->totals.count) {
    status = encode_next(log, b);
    if (status == PS_OK && ps_writer_has_piece(writer))
      status = ps_writer_flush(log, 0, r->error);
  }
  return status;
}

/* Writes a list of requests together; each gets its own status. */
static void write_requests(ps_log *log, request *first, uint32_t is_quiet) {
  batch b = {.first = first, .last = first};
  log->writer.is_quiet = is_quiet;
  log->writer.wants_sync = first->commit.kind == PS_COMMIT_SYNC;
  for (ps_commit *commit = &first->commit; commit != NULL;
       commit = commit->next) {
    request *r = b.last = request_of(commit);
    if (r->totals.count == 0)
      continue; /* only wants a sync */
    r->status = encode_request(log, &b);
    /* A request refused before it staged a byte fails no other request. */
    if (r->status != PS_OK && (r->encoded > 0 || log->writer.has_failed))
      fail_unpublished(log, &b, r->status, *r->error);
  }
  ps_error reason;
  ps_status status = publish(log, &b, &reason);
  if (status != PS_OK)
    fail_unpublished(log, &b, status, reason);
  log->writer.is_quiet = 0;
  /* A request whose deadline passed while the bytes were written fails. */
  for (ps_commit *commit = &first->commit; commit != NULL;
       commit = commit->next) {
    request *r = request_of(commit);
    if (r->status == PS_OK && r->totals.count > 0)
      r->status = ps_writer_authority(log, r->ack, r->error);
  }
}

/* Sets the result of a request that wanted a sync, after the sync. */
static void finish_synced(ps_log *log, request *r, ps_status status,
                          const ps_error *reason) {
  if (r->status != PS_OK)
    return;
  if (status == PS_OK && r->totals.count > 0)
    status = ps_writer_authority(log, r->ack, r->error);
  else if (status != PS_OK)
    *r->error = *reason;
  r->status = status;
}

/* Splits a list by kind, and leaves out the leader's own request: its thread
 * is awake. */
static void split_kinds(const request *own, ps_commit *list, ps_commit **writes,
                        ps_commit **syncs) {
  *writes = *syncs = NULL;
  for (ps_commit *next; list != NULL; list = next) {
    ps_commit ***tail = list->kind == PS_COMMIT_SYNC ? &syncs : &writes;
    next = list->next;
    if (list == &own->commit)
      continue;
    **tail = list;
    *tail = &list->next;
    list->next = NULL;
  }
}

/* Syncs for all of `list`, and for the leader unless it has its result, with
 * the sync lock held, which it gives up. Answers the requests to serve next. */
static ps_commit *sync_for(ps_log *log, request *own, ps_commit *list,
                           int32_t is_last) {
  ps_error reason;
  ps_commit *next = NULL;
  ps_status status = ps_sync_published(log, &reason);
  if (is_last)
    ps_commit_queue_release_sync(&log->commit_queue);
  else
    next = ps_commit_queue_take_again(&log->commit_queue);
  if (own != NULL)
    finish_synced(log, own, status, &reason);
  for (ps_commit *commit = list; commit != NULL; commit = commit->next)
    finish_synced(log, request_of(commit), status, &reason);
  ps_commit_queue_wake(&log->commit_queue, list);
  return next;
}

/* Serves the leader and all requests that wait with it. Where many more have
 * gathered during a sync, it serves those too: the disk would idle while one
 * of their threads is woken. It stops after GROUPS_MAX groups, since its own
 * result is there after the first. */
static void lead(ps_log *log, request *own) {
  ps_commit *writes;
  ps_commit *syncs;
  ps_commit *list = &own->commit;
  int32_t wants_sync = own->commit.kind == PS_COMMIT_SYNC;
  assert(!(wants_sync && own->is_quiet));
  list->next = ps_commit_queue_take(&log->commit_queue, own->commit.kind);
  for (int32_t group = 1; list != NULL; group++) {
    /* Other threads' requests are published as this thread's own is: after a
     * quiet append this thread does what the log's waiters would do. */
    write_requests(log, request_of(list), own->is_quiet);
    split_kinds(own, list, &writes, &syncs);
    /* A leader that only writes took no request that wants a sync. */
    assert(wants_sync || syncs == NULL);
    ps_commit_queue_release_write(&log->commit_queue, wants_sync);
    ps_commit_queue_wake(&log->commit_queue, writes);
    if (!wants_sync)
      return;
    list = sync_for(log, group == 1 ? own : NULL, syncs, group == GROUPS_MAX);
  }
}

/* Runs one request to its end. */
static ps_status run(ps_log *log, request *r) {
  r->status = PS_OK;
  if (ps_commit_queue_enter(&log->commit_queue, &r->commit))
    lead(log, r);
  return r->status;
}

static ps_status check_request(ps_log *log, request *r) {
  ps_limits limits = {.message_size_max = log->options.message_size_max,
                      .segment_size = log->segments.segment_size,
                      .stamp = &log->writer.stamp};
  return ps_source_check(&r->source, &limits, &r->totals, r->error);
}

static ps_status append(ps_log *log, request *r, uint32_t ack,
                        ps_appended *appended) {
  ps_status status = ps_log_enter(log, r->error);
  if (status != PS_OK)
    return status;
  if (ack > PS_ACK_SHARED)
    status =
        ps_fail(r->error, PS_E_INVALID, PS_NO_OFFSET,
                "ack %" PRIu32 " is neither leader, synced nor shared", ack);
  if (status == PS_OK)
    status = check_request(log, r);
  if (status == PS_OK && r->totals.count == 0)
    status = ps_fail(r->error, PS_E_INVALID, PS_NO_OFFSET,
                     "an append of no messages");
  if (status == PS_OK) {
    r->ack = ack;
    r->commit.kind = ack == PS_ACK_SYNCED ? PS_COMMIT_SYNC : PS_COMMIT_WRITE;
    status = run(log, r);
    if (status == PS_OK || r->may_span)
      *appended = r->appended;
  } else if (r->may_span) {
    appended->count = 0;
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_append(ps_log *log, const uint8_t *messages, uint64_t size,
                        uint32_t ack, ps_position *positions, uint64_t capacity,
                        ps_appended *appended, ps_error *error) {
  request r;
  memset(&r.appended, 0, sizeof r.appended);
  r.positions = positions;
  r.capacity = positions == NULL ? 0 : capacity;
  r.encoded = 0;
  r.error = error;
  r.may_span = 0;
  r.is_quiet = 0;
  ps_source_messages(&r.source, messages, size);
  return append(log, &r, ack, appended);
}

ps_status ps_log_append_no_wake(ps_log *log, const uint8_t *messages,
                                uint64_t size, ps_appended *appended,
                                ps_error *error) {
  request r = {.error = error, .is_quiet = 1};
  ps_source_messages(&r.source, messages, size);
  return append(log, &r, PS_ACK_SHARED, appended);
}

ps_status ps_waiters_append(ps_waiters *waits, uint32_t mark,
                            uint64_t timeout_ns, ps_log *log,
                            const uint8_t *messages, uint64_t size,
                            ps_appended *appended, uint32_t *outcome,
                            ps_error *error) {
  /* Does not sleep: a mark that does not exist is refused before anything is
   * appended, and a thread that yields to this one sees that it came again. */
  ps_status status = ps_waiters_wait(waits, mark, 0, 0, outcome, error);
  if (status == PS_OK)
    status = ps_log_append(log, messages, size, PS_ACK_SHARED, NULL, 0,
                           appended, error);
  if (status != PS_OK)
    return status;
  return ps_waiters_wait(waits, mark, appended->end, timeout_ns, outcome,
                         error);
}

ps_status ps_log_append_columns(ps_log *log, const ps_columns *columns,
                                uint32_t ack, ps_position *positions,
                                uint64_t capacity, ps_appended *appended,
                                ps_error *error) {
  request r = {.positions = positions,
               .capacity = positions == NULL ? 0 : capacity,
               .error = error,
               .may_span = 1};
  ps_source_columns(&r.source, columns);
  return append(log, &r, ack, appended);
}

ps_status ps_log_append_client_batch(ps_log *log, const ps_route *route,
                                     const uint8_t *batch, uint64_t size,
                                     uint32_t ack, ps_position *positions,
                                     uint64_t capacity, ps_appended *appended,
                                     ps_error *error) {
  request r = {.positions = positions,
               .capacity = positions == NULL ? 0 : capacity,
               .error = error};
  ps_source_client_batch(&r.source, route, batch, size);
  return append(log, &r, ack, appended);
}

ps_status ps_log_sync(ps_log *log, uint64_t end, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t published = atomic_load(&log->page->published_end);
  if (end == PS_NO_OFFSET)
    end = published;
  if (!atomic_load(&log->is_started))
    status =
        ps_fail(error, PS_E_CLOSED, end, "the log is not started for writing");
  else if (end > published)
    status = ps_fail(error, PS_E_RANGE, end,
                     "cannot sync up to %" PRIu64 ": the log ends at %" PRIu64,
                     end, published);
  else if (atomic_load(&log->page->synced_end) < end) {
    request r = {.error = error, .commit = {.kind = PS_COMMIT_SYNC}};
    status = run(log, &r);
  } else {
    status = ps_sync_check_guard(log, error);
  }
  ps_log_leave(log);
  return status;
}
