/* Appending bytes of another log as they are: what a slave does. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "format.h"
#include "page_words.h"
#include "scan.h"
#include "tail.h"
#include "writer.h"

#define RAW_ROWS 32

/* Writes end on multiples of this: see PS_PIECE. No messages are gathered here,
 * so a write may be as long as a block. */
#define RAW_PIECE 262144U

/* The published end moves to `whole`, where a record ends. */
static void publish_raw(ps_log *log, const ps_cursor *cursor, uint64_t whole) {
  ps_writer *writer = &log->writer;
  assert(whole >= atomic_load(&log->page->published_end));
  if (cursor->records > 0) {
    atomic_store(&writer->last_offset, cursor->record_start);
    if (cursor->record_ms > writer->store_ms)
      writer->store_ms = cursor->record_ms;
  }
  writer->staged_from = whole;
  ps_page_publish(log, whole);
  ps_flusher_grown(log, whole);
}

/* Remembers whether the nearest record has a property CRC that holds, but for
 * those that differ (A6). */
static void note_proof(ps_writer *writer, const ps_record *rows,
                       uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    int32_t differs = (rows[i].proof & PS_PROOF_DIFFERS) != 0;
    if (!differs || writer->proof_end != rows[i].offset)
      writer->is_proved = !differs && (rows[i].proof & PS_PROOF_PROPERTY) != 0;
    writer->proof_end = rows[i].offset + rows[i].size;
  }
}

/* Scans up to so many records, and counts them in the queue table: a slave that
 * becomes master goes on behind them. */
static ps_status scan_rows(ps_log *log, ps_scan *scan, const ps_window *window,
                           ps_cursor *cursor, uint32_t rows_max,
                           int32_t *answer, uint64_t *wanted, ps_error *error) {
  ps_record rows[RAW_ROWS];
  uint32_t count = 0;
  assert(rows_max <= RAW_ROWS);
  *answer = ps_scan_window(scan, window, cursor, rows, rows_max, &count, wanted,
                           error);
  if (*answer == PS_SCAN_MEMORY)
    return PS_E_MEMORY;
  note_proof(&log->writer, rows, count);
  ps_error counted; /* the scan's own text stays */
  ps_status status = ps_queues_note(log->queues, rows, count, &counted);
  if (status != PS_OK)
    *error = counted;
  return status;
}

/* The bytes of one append that belong in one segment. */
typedef struct raw_range {
  const uint8_t *data;
  uint64_t from; /* log offset of data[0] */
  uint64_t size;
} raw_range;

/* The range as a window that a scan may read. */
static ps_window window_of(const ps_log *log, const raw_range *given) {
  const ps_segment *segment = log->writer.active;
  ps_window window = {.data = given->data,
                      .base = given->from,
                      .size = segment->base + segment->size - given->from,
                      .readable = given->size};
  return window;
}

/* Scans the record that began before the range: it is in the file alone, and
 * only its own pages are mapped. */
static ps_status scan_begun(ps_log *log, const raw_range *given, ps_scan *scan,
                            ps_cursor *cursor, int32_t *answer,
                            ps_error *error) {
  ps_segment *segment = log->writer.active;
  uint64_t received = given->from + given->size, start = cursor->offset;
  uint64_t size =
      given->from - start + PS_BLANK_SIZE; /* its own size is there */
  if (size > received - start)
    size = received - start;
  for (;;) {
    const uint8_t *data = NULL;
    ps_status status =
        ps_segment_populate(&log->segments, segment, start, size, &data, error);
    if (status != PS_OK)
      return status;
    ps_window window = {.data = data,
                        .base = start,
                        .size = segment->base + segment->size - start,
                        .readable = size};
    uint64_t wanted = 0;
    status = scan_rows(log, scan, &window, cursor, 1, answer, &wanted, error);
    if (status != PS_OK || *answer != PS_SCAN_MORE || wanted <= size ||
        wanted > received - start)
      return status;
    size = wanted;
  }
}

/* Scans the records that begin within the range, while its bytes are in the
 * processor's cache. */
static ps_status scan_given(ps_log *log, const raw_range *given, ps_scan *scan,
                            ps_cursor *cursor, int32_t *answer,
                            ps_error *error) {
  ps_window window = window_of(log, given);
  ps_status status = PS_OK;
  do {
    uint64_t wanted = 0;
    status =
        scan_rows(log, scan, &window, cursor, RAW_ROWS, answer, &wanted, error);
  } while (status == PS_OK && *answer == PS_STOP_ROWS);
  return status;
}

/* What is known of the property CRC of a neighbour. */
enum { UNPROVED, PROVED, UNKNOWN };

/* The nearest record behind the one at `offset`, as far as it is whole within
 * the range, but for those that differ, too. */
static int32_t proof_behind(const ps_log *log, const raw_range *given,
                            uint64_t offset) {
  ps_cursor cursor = {.offset = offset,
                      .limit = given->from + given->size,
                      .record_start = PS_NO_OFFSET,
                      .checks = PS_CHECK_BODY | PS_CHECK_PROPERTY |
                                PS_PASS_COPIED | PS_CHECK_OFFSET};
  ps_window window = window_of(log, given);
  ps_scan scan;
  ps_scan_init(&scan, NULL);
  ps_record row = {0};
  do {
    uint32_t count = 0;
    uint64_t wanted = 0;
    ps_error error;
    ps_scan_window(&scan, &window, &cursor, &row, 1, &count, &wanted, &error);
    if (count == 0)
      return UNKNOWN;
  } while (row.proof & PS_PROOF_DIFFERS);
  return row.proof & PS_PROOF_PROPERTY ? PROVED : UNPROVED;
}

/* The property CRC of the record at the cursor differs. Is it that of another
 * record, which a broker copied (A6)? Not if the records around it have one
 * that holds. What is behind it may not have arrived: then the record is
 * refused behind a proved one, and the master sends it again. */
static int32_t is_copied(const ps_log *log, const raw_range *given,
                         const ps_cursor *cursor) {
  const ps_writer *writer = &log->writer;
  int32_t before = UNKNOWN;
  if (writer->proof_end == cursor->offset && cursor->offset > 0)
    before = writer->is_proved ? PROVED : UNPROVED;
  if (before == UNPROVED)
    return 1;
  int32_t behind = UNKNOWN;
  if (cursor->offset >= given->from)
    behind = proof_behind(log, given, cursor->offset);
  return before == PROVED ? behind == UNPROVED : behind != PROVED;
}

/* Scans on to the end of the range, or to a bad record. */
static ps_status scan_range(ps_log *log, const raw_range *given, ps_scan *scan,
                            ps_cursor *cursor, int32_t *answer,
                            ps_error *error) {
  ps_status status = PS_OK;
  *answer = PS_STOP_ROWS;
  while (status == PS_OK && *answer == PS_STOP_ROWS &&
         cursor->offset < given->from)
    status = scan_begun(log, given, scan, cursor, answer, error);
  if (status == PS_OK && *answer == PS_STOP_ROWS)
    status = scan_given(log, given, scan, cursor, answer, error);
  return status;
}

/* Scans one record. */
static ps_status pass_one(ps_log *log, const raw_range *given, ps_scan *scan,
                          ps_cursor *cursor, int32_t *answer, ps_error *error) {
  if (cursor->offset < given->from)
    return scan_begun(log, given, scan, cursor, answer, error);
  ps_window window = window_of(log, given);
  uint64_t wanted = 0;
  return scan_rows(log, scan, &window, cursor, 1, answer, &wanted, error);
}

/* Moves the published end over every record that is whole by now (A1), also
 * if one behind them is bad. */
static ps_status publish_whole(ps_log *log, const raw_range *given,
                               ps_error *error) {
  const ps_segment *segment = log->writer.active;
  uint64_t end = atomic_load(&log->page->published_end);
  uint64_t received = given->from + given->size;
  ps_cursor cursor = {.offset = end,
                      .limit = segment->base + segment->size,
                      .record_start = PS_NO_OFFSET,
                      .record_end = end,
                      .checks = PS_CHECK_BODY | PS_CHECK_PROPERTY |
                                PS_CHECK_OFFSET | PS_WANT_TOPIC};
  ps_scan scan;
  ps_scan_init(&scan, log->topics);
  int32_t answer = PS_STOP_ROWS;
  ps_status status = scan_range(log, given, &scan, &cursor, &answer, error);
  while (status == PS_OK && answer == PS_STOP_PROPERTY &&
         is_copied(log, given, &cursor)) {
    cursor.checks |= PS_PASS_COPIED;
    status = pass_one(log, given, &scan, &cursor, &answer, error);
    cursor.checks &= ~(uint32_t)PS_PASS_COPIED;
    if (status == PS_OK && answer == PS_STOP_ROWS)
      status = scan_range(log, given, &scan, &cursor, &answer, error);
  }
  if (status != PS_OK)
    return status;
  /* A blank record is whole only when all of it has arrived. */
  publish_raw(log, &cursor,
              cursor.offset <= received ? cursor.offset : cursor.record_end);
  if (answer == PS_STOP_ZERO && cursor.offset < received)
    return ps_fail(error, PS_E_CORRUPT, cursor.offset,
                   "raw bytes at %" PRIu64 " are zero: no record begins there",
                   cursor.offset);
  return answer >= PS_STOP_SIZE ? PS_E_CORRUPT : PS_OK;
}

/* Writes a range, and publishes the records that it completes. */
static ps_status append_range(ps_log *log, const raw_range *given,
                              ps_error *error) {
  ps_writer *writer = &log->writer;
  uint64_t done = 0;
  writer->is_tail_dirty = 1;
  while (done < given->size) {
    uint64_t piece = RAW_PIECE - writer->received_end % RAW_PIECE;
    if (piece > given->size - done)
      piece = given->size - done;
    uint64_t written = 0;
    ps_status status =
        ps_segment_write(&log->segments, writer->active, writer->received_end,
                         given->data + done, piece, &written, error);
    if (status != PS_OK)
      return status;
    writer->received_end += piece;
    done += piece;
  }
  return publish_whole(log, given, error);
}

/* The segment that the next raw byte belongs to becomes the active one. */
static ps_status raw_segment(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  uint64_t received = writer->received_end;
  if (writer->active != NULL &&
      received < writer->active->base + writer->active->size)
    return PS_OK;
  if (received != atomic_load(&log->page->published_end))
    return ps_fail(error, PS_E_CORRUPT, received,
                   "raw bytes fill the segment, but its last record is not "
                   "whole");
  writer->staged_from = received;
  return ps_writer_roll(log, error);
}

static ps_status append_raw(ps_log *log, uint64_t offset, const uint8_t *data,
                            uint64_t size, ps_error *error) {
  ps_writer *writer = &log->writer;
  ps_status status = ps_writer_check(log, PS_ACK_LEADER, error);
  if (status != PS_OK)
    return status;
  uint64_t received = writer->received_end;
  if (offset != received)
    return ps_fail(error, PS_E_RANGE, offset,
                   "raw bytes for %" PRIu64 " do not follow the received end "
                   "%" PRIu64,
                   offset, received);
  if (received == atomic_load(&log->page->published_end))
    status = ps_tail_repair(log, error);
  while (status == PS_OK && size > 0) {
    status = raw_segment(log, error);
    if (status != PS_OK)
      break;
    uint64_t room =
        writer->active->base + writer->active->size - writer->received_end;
    uint64_t piece = size < room ? size : room;
    raw_range given = {data, writer->received_end, piece};
    status = append_range(log, &given, error);
    data += piece;
    size -= piece;
  }
  if (status != PS_OK)
    ps_writer_discard(log);
  else if (writer->received_end == atomic_load(&log->page->published_end))
    writer->is_tail_dirty = 0;
  return status;
}

ps_status ps_log_append_raw(ps_log *log, uint64_t offset, const uint8_t *data,
                            uint64_t size, uint64_t *received,
                            ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_EXCLUSIVE, error);
  if (status != PS_OK)
    return status;
  status = append_raw(log, offset, data, size, error);
  if (status == PS_OK)
    *received = log->writer.received_end;
  ps_log_leave_exclusive(log, &commit);
  return status;
}
