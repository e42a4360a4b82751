/* Raw appends: the bytes of another log, in pieces of any size. */
#include "check.h"
#include "format.h"
#include "record.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 4096, RECORDS = 12 };

/* The bytes of a log of some records over three segments. */
typedef struct source {
  uint8_t bytes[4 * SEGMENT];
  uint64_t size;
  uint64_t ends[RECORDS + 8]; /* where a record or a blank one ends */
  uint32_t ends_count;
} source;

static void make_source(source *from) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < RECORDS; i++)
    CHECK(PS_OK, store_append(s, 300 + 71 * i, PS_ACK_LEADER));
  from->size = store_ends(s).published_end;
  CHECK(PS_OK, store_copy(s->log, 0, from->size, from->bytes, &s->error));
  from->ends_count = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    from->ends[from->ends_count++] = s->records[i].end;
    uint64_t next = i + 1 < s->count ? s->records[i + 1].offset : from->size;
    if (next != s->records[i].end)
      from->ends[from->ends_count++] = next;
  }
  CHECK(0, store_free(s));
}

static uint64_t whole_below(const source *from, uint64_t received) {
  uint64_t whole = 0;
  for (uint32_t i = 0; i < from->ends_count; i++)
    if (from->ends[i] <= received)
      whole = from->ends[i];
  return whole;
}

static bool feed(store *s, const source *from, uint64_t at, uint64_t size) {
  uint64_t received = 0;
  ps_status status = ps_log_append_raw(s->log, at, from->bytes + at, size,
                                       &received, &s->error);
  if (!CHECK(PS_OK, status)) {
    fprintf(stderr, "%s\n", s->error.text);
    return false;
  }
  return CHECK(at + size, received) &&
         CHECK(at + size, store_ends(s).received_end) &&
         CHECK(whole_below(from, at + size), store_ends(s).published_end);
}

static void same_bytes(store *s, const source *from) {
  uint8_t bytes[sizeof from->bytes];
  CHECK(from->size, store_ends(s).published_end);
  CHECK(from->ends[from->ends_count - 2], store_ends(s).last_offset);
  CHECK(PS_OK, store_copy(s->log, 0, from->size, bytes, &s->error));
  CHECK_BYTES(from->bytes, bytes, from->size);
}

/* Fed in two parts, split at any byte, a log becomes the same as fed whole;
 * only whole records are published. */
static void split_feeding_equals_whole_feeding(void) {
  source from;
  make_source(&from);
  for (uint64_t split = 0; split <= from.size; split++) {
    store *s = store_new(SEGMENT);
    if (feed(s, &from, 0, split) && feed(s, &from, split, from.size - split))
      same_bytes(s, &from);
    CHECK(0, store_free(s));
    if (check_failures > 0)
      return;
  }
}

/* The same byte by byte, and in random pieces with syncs between them: a sync
 * leaves half a record where it is. */
static void pieces_of_any_size_make_the_same_log(void) {
  source from;
  make_source(&from);
  for (uint64_t most = 1; most < 9000; most = most * 3 + 1) {
    store *s = store_new(SEGMENT);
    for (uint64_t at = 0; at < from.size;) {
      uint64_t size = most == 1 ? 1 : check_random() % most + 1;
      if (size > from.size - at)
        size = from.size - at;
      if (!feed(s, &from, at, size))
        break;
      at += size;
      if (check_random() % 4 == 0)
        CHECK(PS_OK, store_sync(s));
    }
    same_bytes(s, &from);
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_free(s));
  }
}

/* Bytes that do not follow the received end are refused. */
static void raw_bytes_follow_one_another(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  uint64_t received = 77;
  CHECK_TRUE(feed(s, &from, 0, 100));
  CHECK(PS_E_RANGE,
        ps_log_append_raw(s->log, 0, from.bytes, 100, &received, &s->error));
  CHECK(PS_E_RANGE,
        ps_log_append_raw(s->log, 101, from.bytes, 100, &received, &s->error));
  CHECK(77, received);
  CHECK_TRUE(feed(s, &from, 100, from.size - 100));
  same_bytes(s, &from);
  CHECK(0, store_free(s));
}

/* Does only the property CRC cover this byte of the record? A record with
 * another property CRC is taken as a copy, by its body (A6). */
static bool is_taken(const source *from, uint64_t offset, uint64_t at) {
  ps_record record;
  ps_error error;
  uint64_t size = ps_load32(from->bytes + offset);
  CHECK(PS_OK, ps_record_check(from->bytes + offset, size, offset, 0, &record,
                               &error));
  at -= offset;
  return (at >= PS_AT_QUEUE_ID && at < PS_AT_OFFSET) ||
         (at >= PS_AT_SYS_FLAG && at < record.body_at - 4) ||
         (at >= record.topic_at && at < record.properties_at - 2) ||
         at >= record.properties_at;
}

/* A flipped byte that more than the property CRC covers is refused when its
 * record gets whole; the records before it are in, nothing of it is left, and
 * the right bytes can follow. */
static void a_flipped_byte_is_refused_and_zeroed(void) {
  source from;
  make_source(&from);
  uint64_t first = from.ends[0], second = from.ends[1];
  for (uint64_t at = first; at < second; at++) {
    if (is_taken(&from, first, at))
      continue;
    store *s = store_new(SEGMENT);
    source wrong = from;
    wrong.bytes[at] ^= 0x40;
    uint64_t received = 0;
    ps_status status = ps_log_append_raw(s->log, 0, wrong.bytes, from.ends[2],
                                         &received, &s->error);
    uint64_t from_record = at - first;
    if (status == PS_OK) {
      /* Its size grew, so that it is not whole yet; nothing is published. */
      CHECK_TRUE(from_record < 4);
    } else {
      CHECK(PS_E_CORRUPT, status);
      CHECK_HOLDS(store_verify_zero(s));
      CHECK(first, store_ends(s).received_end);
      CHECK_TRUE(feed(s, &from, first, from.size - first));
    }
    CHECK(0, store_free(s));
    if (check_failures > 0)
      return;
  }
}

/* A property CRC that differs is that of another record, or of bytes that
 * changed: among records whose CRC holds it is refused, with nothing around it
 * to compare it is taken (A6). */
static void
a_property_crc_that_differs_is_weighed_against_its_neighbours(void) {
  source from;
  make_source(&from);
  uint64_t first = from.ends[0], second = from.ends[1];
  uint32_t refused = 0;
  for (uint64_t at = first; at < second; at++) {
    if (!is_taken(&from, first, at))
      continue;
    from.bytes[at] ^= 2; /* no queue offset gets too high */
    store *s = store_new(SEGMENT);
    uint64_t received = 0;
    CHECK(PS_E_CORRUPT, ps_log_append_raw(s->log, 0, from.bytes, from.size,
                                          &received, &s->error));
    CHECK(first, store_ends(s).published_end);
    from.bytes[at] ^= 2;
    CHECK_TRUE(feed(s, &from, first, from.size - first));
    CHECK(0, store_free(s));
    refused++;
    if (check_failures > 0)
      return;
  }
  CHECK(16 + 48 + 5 + 20, refused); /* head, topic, property CRC */
  from.bytes[12] ^= 2;
  store *s = store_new(SEGMENT);
  CHECK_TRUE(feed(s, &from, 0, first));
  CHECK(first, store_ends(s).published_end);
  CHECK(0, store_free(s));
}

/* Zero bytes are no record. */
static void raw_zero_bytes_are_refused(void) {
  store *s = store_new(SEGMENT);
  uint8_t zeros[64] = {0};
  uint64_t received = 0;
  CHECK(PS_E_CORRUPT, ps_log_append_raw(s->log, 0, zeros, sizeof zeros,
                                        &received, &s->error));
  CHECK(0, store_ends(s).received_end);
  CHECK(0, store_free(s));
}

/* An append of the log's own takes the place of half a record. */
static void an_append_takes_the_place_of_half_a_record(void) {
  source from;
  make_source(&from);
  for (uint32_t rolls = 0; rolls < 2; rolls++) {
    store *s = store_new(SEGMENT);
    CHECK_TRUE(feed(s, &from, 0, from.ends[0] - 5));
    CHECK(0, store_ends(s).published_end);
    if (rolls)
      CHECK(PS_OK, ps_log_roll(s->log, &s->error));
    CHECK(PS_OK, store_append(s, 20, PS_ACK_LEADER));
    CHECK(0, s->records[0].offset); /* an empty segment does not roll */
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_free(s));
  }
}

/* Closing leaves nothing above the end, not even half a record: the clean mark
 * that is set then is true. */
static void closing_zeroes_half_a_record(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  CHECK_TRUE(feed(s, &from, 0, from.ends[1] - 5));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  for (uint64_t at = from.ends[0]; at < SEGMENT; at++)
    CHECK(0, file->disk[at]);
  CHECK(0, store_free(s));
}

/* A write that fails leaves the log at its published end, and the same bytes
 * can be fed again. */
static void a_failed_raw_append_can_be_repeated(void) {
  source from;
  make_source(&from);
  static const memory_call kinds[] = {CALL_WRITE, CALL_POPULATE, CALL_RENAME,
                                      CALL_ALLOCATE};
  for (uint32_t k = 0; k < 4; k++)
    for (uint64_t nth = 1; nth < 4; nth++) {
      store *s = store_new(SEGMENT);
      uint64_t fed = from.ends[0] + 50, received = fed;
      CHECK_TRUE(feed(s, &from, 0, fed));
      memory_fail(s->fs, kinds[k], nth, EIO, false);
      ps_status status = ps_log_append_raw(
          s->log, fed, from.bytes + fed, from.size - fed, &received, &s->error);
      if (s->fs->faults_fired == 0) {
        CHECK(PS_OK, status);
        memory_heal(s->fs); /* fewer such calls than that */
      } else {
        CHECK(PS_E_IO, status);
        CHECK_HOLDS(store_verify_zero(s));
        uint64_t at = store_ends(s).received_end;
        CHECK(store_ends(s).published_end, at);
        CHECK_TRUE(feed(s, &from, at, from.size - at));
      }
      same_bytes(s, &from);
      CHECK(0, store_free(s));
    }
}

/* Cut at 0, a log is as new, whatever it began with. */
static void cut_all(store *s) {
  ps_cut_report report;
  CHECK(PS_OK, ps_log_cut_begin(s->log, 0, &s->error));
  CHECK(PS_OK, ps_log_cut_publish(s->log, s->generation + 1, &s->error));
  s->generation++;
  CHECK(PS_OK, ps_log_cut_apply(s->log, &report, &s->error));
  CHECK(PS_OK, ps_log_cut_end(s->log, 1, &s->error));
  CHECK(0, store_ends(s).received_end);
  CHECK(0, store_ends(s).published_end);
  CHECK(0, store_ends(s).min_offset);
}

/* What a log holds from `base` on goes raw into a new one that begins there. */
static void an_empty_log_begins_at_any_segment(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  for (uint64_t base = SEGMENT; base < from.size; base += SEGMENT) {
    uint64_t received = 0;
    CHECK(PS_OK, ps_log_begin_at(s->log, base, &s->error));
    CHECK(base, store_ends(s).min_offset);
    CHECK(base, store_ends(s).published_end);
    CHECK(base, store_ends(s).synced_end);
    CHECK(PS_OK, ps_log_append_raw(s->log, base, from.bytes + base,
                                   from.size - base, &received, &s->error));
    CHECK(from.size, store_ends(s).published_end);
    CHECK(PS_OK, store_sync(s));
    CHECK_HOLDS(store_verify_zero(s));
    cut_all(s);
    CHECK(0, store_ends(s).segments);
  }
  CHECK_TRUE(feed(s, &from, 0, from.size));
  same_bytes(s, &from);
  CHECK(0, store_free(s));
}

/* A first segment without a byte makes way; one with half a record does not. */
static void only_an_empty_log_begins_elsewhere(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  CHECK(PS_E_INVALID, ps_log_begin_at(s->log, SEGMENT + 1, &s->error));
  CHECK(PS_E_INVALID,
        ps_log_begin_at(s->log, INT64_MAX / SEGMENT * SEGMENT, &s->error));
  CHECK_TRUE(feed(s, &from, 0, 50));
  CHECK(PS_E_INVALID, ps_log_begin_at(s->log, SEGMENT, &s->error));
  cut_all(s);
  CHECK(1, store_ends(s).segments);
  CHECK(PS_OK, ps_log_begin_at(s->log, 0, &s->error));
  CHECK(PS_OK, ps_log_begin_at(s->log, SEGMENT, &s->error));
  CHECK(1, store_ends(s).segments);
  CHECK(PS_E_INVALID, ps_log_begin_at(s->log, 2 * SEGMENT, &s->error));
  CHECK(0, store_free(s));
}

/* A call that fails leaves an empty log, which begins at the next try. */
static void a_beginning_that_fails_can_be_repeated(void) {
  source from;
  make_source(&from);
  static const memory_call kinds[] = {CALL_RENAME, CALL_ALLOCATE, CALL_SYNC};
  for (uint32_t k = 0; k < 3; k++) {
    store *s = store_new(SEGMENT);
    CHECK_TRUE(feed(s, &from, 0, 50));
    cut_all(s);
    memory_fail(s->fs, kinds[k], 1, ENOSPC, false);
    CHECK(PS_E_FULL, ps_log_begin_at(s->log, SEGMENT, &s->error));
    CHECK(0, store_ends(s).published_end);
    CHECK(0, store_ends(s).received_end);
    CHECK(PS_OK, ps_log_begin_at(s->log, SEGMENT, &s->error));
    uint64_t received = 0;
    CHECK(PS_OK, ps_log_append_raw(s->log, SEGMENT, from.bytes + SEGMENT,
                                   from.size - SEGMENT, &received, &s->error));
    CHECK(from.size, store_ends(s).published_end);
    CHECK(0, store_free(s));
  }
}

CHECK_MAIN(CASE(split_feeding_equals_whole_feeding),
           CASE(pieces_of_any_size_make_the_same_log),
           CASE(raw_bytes_follow_one_another),
           CASE(a_flipped_byte_is_refused_and_zeroed),
           CASE(a_property_crc_that_differs_is_weighed_against_its_neighbours),
           CASE(raw_zero_bytes_are_refused),
           CASE(an_append_takes_the_place_of_half_a_record),
           CASE(closing_zeroes_half_a_record),
           CASE(a_failed_raw_append_can_be_repeated),
           CASE(an_empty_log_begins_at_any_segment),
           CASE(only_an_empty_log_begins_elsewhere),
           CASE(a_beginning_that_fails_can_be_repeated))
