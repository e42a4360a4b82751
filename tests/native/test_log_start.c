/* Opening and starting: what is no store is named, what is left is settled. */
#include "check.h"
#include "format.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 12288 };

static const uint8_t zeros[2 * SEGMENT];

/* Opens what the file system holds; the text must name what is wrong. */
static void is_refused(store *s, ps_status expected, const char *text) {
  s->log = NULL;
  CHECK(expected, store_open(s));
  if (!CHECK_TRUE(strstr(s->error.text, text) != NULL))
    fprintf(stderr, "%s\n", s->error.text);
  CHECK(0, memory_held(s->fs));
}

static store *closed(void) {
  store *s = store_new(SEGMENT);
  ps_log_free(s->log);
  s->log = NULL;
  return s;
}

/* A name that no segment has. */
static void a_foreign_name_is_refused(void) {
  store *s = closed();
  memory_put(s->fs, STORE_LOG "00000000000000000000", zeros, SEGMENT);
  memory_put(s->fs, STORE_LOG "notes.txt", zeros, 5);
  is_refused(s, PS_E_NOT_STORE, "notes.txt: not the name of a segment");
  CHECK(0, store_free(s));
}

static void a_name_of_wrong_length_is_refused(void) {
  store *s = closed();
  memory_put(s->fs, STORE_LOG "0000000000000000000", zeros, SEGMENT);
  is_refused(s, PS_E_NOT_STORE, "not the name of a segment");
  CHECK(0, store_free(s));
}

/* One byte behind the hole is enough, wherever it stands. */
static void a_gap_before_a_byte_is_refused(void) {
  static const uint64_t places[] = {0, 1, SEGMENT / 2, SEGMENT - 1};
  for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
    store *s = closed();
    uint8_t data[SEGMENT] = {0};
    data[places[i]] = 1;
    memory_put(s->fs, STORE_LOG "00000000000000000000", zeros, SEGMENT);
    memory_put(s->fs, STORE_LOG "00000000000000024576", zeros, SEGMENT);
    memory_put(s->fs, STORE_LOG "00000000000000036864", data, SEGMENT);
    is_refused(s, PS_E_NOT_STORE,
               "segment 00000000000000012288 is missing before "
               "00000000000000036864, which is not empty");
    CHECK(SEGMENT, s->error.offset);
    CHECK(0, store_free(s));
  }
}

/* RocketMQ allocates ahead, and was killed in a cut: what is left behind the
 * hole holds nothing. It is no part of the log, and goes. */
static void an_empty_segment_behind_a_gap_goes(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  ps_log_free(s->log);
  memory_put(s->fs, STORE_LOG "00000000000000024576", zeros, SEGMENT);
  memory_put(s->fs, STORE_LOG "00000000000000049152", zeros, SEGMENT);
  memory_put(s->fs, STORE_LOG "00000000000000073728", zeros, 0);
  s->log = NULL;
  CHECK(PS_OK, store_open(s));
  uint64_t bases[4] = {0};
  uint32_t count = 0;
  CHECK(PS_OK, ps_log_stranded(s->log, bases, 4, &count, &s->error));
  CHECK(2, count);
  CHECK(24576, bases[0]);
  CHECK(49152, bases[1]);
  CHECK(1, store_ends(s).segments);
  ps_log_free(s->log);
  CHECK(PS_OK, store_recover(s, 0));
  CHECK(PS_OK, ps_log_stranded(s->log, bases, 4, &count, &s->error));
  CHECK(0, count);
  CHECK(0, memory_count(s->fs, STORE_LOG "00000000000000024576"));
  CHECK(0, memory_count(s->fs, STORE_LOG "00000000000000049152"));
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(2 * SEGMENT, s->records[2].offset);
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

/* The start checks the segments that the opening took for empty again before it
 * removes them. */
static void a_segment_that_got_bytes_meanwhile_stays(void) {
  store *s = closed();
  uint8_t data[SEGMENT] = {1};
  memory_put(s->fs, STORE_LOG "00000000000000000000", zeros, SEGMENT);
  memory_put(s->fs, STORE_LOG "00000000000000024576", zeros, SEGMENT);
  CHECK(PS_OK, store_open(s));
  memory_put(s->fs, STORE_LOG "00000000000000024576", data, SEGMENT);
  ps_start start = {.last_offset = PS_NO_OFFSET};
  CHECK(PS_E_NOT_STORE, ps_log_start(s->log, &start, &s->error));
  CHECK(1, memory_count(s->fs, STORE_LOG "00000000000000024576"));
  CHECK(0, store_free(s));
}

static void a_segment_of_a_wrong_size_is_refused(void) {
  store *s = closed();
  memory_put(s->fs, STORE_LOG "00000000000000000000", zeros, SEGMENT);
  memory_put(s->fs, STORE_LOG "00000000000000012288", zeros, SEGMENT - 1);
  is_refused(s, PS_E_NOT_STORE, "12287 bytes, a segment here has 12288");
  CHECK(0, store_free(s));
}

/* An empty last file is a crash in its creation: it is no segment, and the
 * next one takes its place. */
static void an_empty_last_file_is_no_segment(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  ps_log_free(s->log);
  memory_put(s->fs, STORE_LOG "00000000000000012288", zeros, 0);
  CHECK(PS_OK, store_recover(s, 0));
  CHECK(1, store_ends(s).segments);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(SEGMENT, s->records[1].offset);
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

/* The files give the segment size when the options do not. */
static void the_files_say_the_segment_size(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  ps_log_free(s->log);
  s->options.segment_size = 0;
  CHECK(PS_OK, store_recover(s, 0));
  CHECK(SEGMENT, store_ends(s).segment_size);
  ps_log_free(s->log);
  s->options.segment_size = 2 * SEGMENT;
  is_refused(s, PS_E_NOT_STORE, "a segment here has 24576");
  CHECK(0, store_free(s));
}

static void options_that_make_no_log_are_refused(void) {
  store *s = closed();
  ps_options good = s->options;
  s->options.segment_size = 50;
  is_refused(s, PS_E_INVALID, "segment size 50");
  s->options = good;
  s->options.segment_size = UINT64_C(1) << 31;
  is_refused(s, PS_E_INVALID, "segment size 2147483648");
  s->options = good;
  s->options.store_host_size = 4;
  is_refused(s, PS_E_INVALID, "8 or 20 bytes, not 4");
  s->options = good;
  s->options.mode = 3;
  is_refused(s, PS_E_INVALID, "no such mode");
  CHECK(0, store_free(s));
}

/* Stale whole records above the end, over several segments, are gone from the
 * disk when a start has succeeded, and can never come back. */
static void a_start_removes_what_is_above_its_end(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_SYNCED));
  uint64_t end = s->records[3].end;
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = end, .synced_end = end};
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  CHECK(4, start.segments_removed);
  CHECK_TRUE(start.bytes_zeroed > 0 && start.bytes_zeroed <= SEGMENT - end);
  CHECK(0, start.bytes_rewritten);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(1, memory_count(s->fs, STORE_LOG));
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, 0));
  CHECK(end, store_ends(s).published_end);
  CHECK(0, store_free(s));
}

/* A log starts once, within what is there, on a handle for writing. */
static void a_start_needs_an_end_within_the_log(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 1500, PS_ACK_SYNCED));
  uint64_t end = s->records[0].end;
  ps_start start = {.end = end, .synced_end = end};
  CHECK(PS_E_INVALID, ps_log_start(s->log, &start, &s->error));
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  start.end = SEGMENT + 1;
  CHECK(PS_E_INVALID, ps_log_start(s->log, &start, &s->error));
  start.end = end;
  start.synced_end = end + 1;
  CHECK(PS_E_INVALID, ps_log_start(s->log, &start, &s->error));
  start.synced_end = end;
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  CHECK(0, store_free(s));
}

/* Opening works on a full disk, also where zeroing gives space away; appends
 * answer that it is full, and work again by themselves. */
static void opening_works_on_a_full_disk(void) {
  for (uint32_t punches = 0; punches < 2; punches++) {
    store *s = store_new(SEGMENT);
    for (uint32_t i = 0; i < 12; i++)
      CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
    uint64_t end = store_ends(s).published_end;
    memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000012288");
    memset(file->cache + (end - SEGMENT), 0x55, 700); /* a torn tail */
    store_crash(s, memory_after_kill(s->fs));
    s->fs->punches = punches;
    s->fs->space = 0;
    CHECK(PS_OK, store_recover(s, 0));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(12, s->count);
    s->fs->space = 0; /* another took what was punched */
    ps_status status = store_append(s, 9000, PS_ACK_LEADER);
    CHECK(PS_E_FULL, status);
    s->fs->space = 3 * SEGMENT;
    CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_free(s));
  }
}

/* A start that failed leaves a log that reads, and can be tried again. */
static void a_start_that_failed_can_be_tried_again(void) {
  static const memory_call kinds[] = {CALL_ZERO, CALL_WRITE, CALL_REMOVE,
                                      CALL_SYNC_DIRECTORY, CALL_OPEN};
  for (uint32_t k = 0; k < 5; k++) {
    store *s = store_new(SEGMENT);
    for (uint32_t i = 0; i < 30; i++)
      CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
    s->count = 20;
    uint64_t end = s->records[19].end;
    ps_log_free(s->log);
    CHECK(PS_OK, store_open(s));
    ps_start start = {.end = end};
    memory_fail(s->fs, kinds[k], 1, EIO, false);
    CHECK(PS_E_IO, ps_log_start(s->log, &start, &s->error));
    CHECK(PS_E_CLOSED, store_append(s, 10, PS_ACK_LEADER));
    uint8_t byte;
    CHECK(PS_OK, store_copy(s->log, end - 1, end, &byte, &s->error));
    CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
    CHECK(end, start.bytes_rewritten);
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_free(s));
  }
}

/* Rewriting many segments leaves one file open for writing. */
static void a_start_keeps_only_the_active_file_open(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 60; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end;
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = end};
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  uint32_t writable = 0;
  uint64_t bases[32];
  uint32_t count = 0;
  CHECK(PS_OK, ps_log_segments(s->log, bases, 32, &count, &s->error));
  for (uint32_t i = 0; i < count; i++)
    writable += s->log->segments.items[i]->file >= 0;
  CHECK(1, writable);
  CHECK(0, store_free(s));
}

/* Store times given out before a restart are not undercut after it. */
static void store_times_never_fall_back(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t end = s->records[0].end;
  int64_t newest = s->fs->wall_ms + 100000;
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = end, .synced_end = end, .store_ms = newest};
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  uint8_t bytes[300];
  uint64_t size = store_message(bytes, 0, 9, 100);
  ps_appended appended;
  CHECK(PS_OK, ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL, 0,
                             &appended, &s->error));
  CHECK(newest, appended.store_ms);
  s->fs->wall_ms = newest + 5;
  CHECK(PS_OK, ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL, 0,
                             &appended, &s->error));
  CHECK(newest + 5, appended.store_ms);
  s->fs->wall_ms = newest - 5;
  CHECK(PS_OK, ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL, 0,
                             &appended, &s->error));
  CHECK(newest + 5, appended.store_ms);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_foreign_name_is_refused),
           CASE(a_name_of_wrong_length_is_refused),
           CASE(a_gap_before_a_byte_is_refused),
           CASE(an_empty_segment_behind_a_gap_goes),
           CASE(a_segment_that_got_bytes_meanwhile_stays),
           CASE(a_segment_of_a_wrong_size_is_refused),
           CASE(an_empty_last_file_is_no_segment),
           CASE(the_files_say_the_segment_size),
           CASE(options_that_make_no_log_are_refused),
           CASE(a_start_removes_what_is_above_its_end),
           CASE(a_start_needs_an_end_within_the_log),
           CASE(opening_works_on_a_full_disk),
           CASE(a_start_that_failed_can_be_tried_again),
           CASE(a_start_keeps_only_the_active_file_open),
           CASE(store_times_never_fall_back))
