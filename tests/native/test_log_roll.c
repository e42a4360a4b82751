/* Rolling: segments follow one another, and a failure leaves no half of one. */
#include "check.h"
#include "format.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 12288 };

#define TMP "store/meta/tmp/"

/* A record that does not fit goes to the next segment, behind a blank record
 * that names the rest's size. */
static void a_full_segment_ends_with_a_blank_record(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  CHECK(SEGMENT, s->records[1].offset);
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  CHECK(SEGMENT - end, ps_load32(file->cache + end));
  CHECK(PS_MAGIC_BLANK, ps_load32(file->cache + end + 4));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(2, store_ends(s).segments);
  CHECK(0, memory_count(s->fs, TMP));
  CHECK(0, store_free(s));
}

/* As in RocketMQ, a record needs 8 bytes more than its size: with exactly
 * these it stays, with one less it goes on. */
static void a_record_leaves_room_for_a_blank_one(void) {
  for (uint32_t extra = 0; extra < 2; extra++) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
    uint32_t around = (uint32_t)store_ends(s).published_end - 8;
    uint32_t left = SEGMENT - around - 8;
    CHECK(PS_OK, store_append(s, left - 8 - around + extra, PS_ACK_LEADER));
    CHECK(extra == 0 ? around + 8 : SEGMENT, s->records[1].offset);
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(0, store_free(s));
  }
}

/* A segment is whole and durable, name included, before an end passes into
 * it: a power cut right behind the append's answer finds it. */
static void a_new_segment_is_durable_before_it_is_used(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  memory_name *name = NULL;
  for (uint32_t i = 0; i < s->fs->names_count; i++)
    if (strcmp(s->fs->names[i].path, STORE_LOG "00000000000000012288") == 0)
      name = &s->fs->names[i];
  REQUIRE(name != NULL);
  CHECK(1, name->count);
  CHECK_TRUE(name->states[0] >= 0);
  CHECK(SEGMENT, memory_at(s->fs, name->path)->disk_size);
  CHECK(0, store_free(s));
}

/* A disk without room for a segment fails the append, says what it needs, and
 * leaves neither a file nor a blank record; with room it works again. */
static void a_full_disk_while_rolling_leaves_nothing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  s->fs->space = 2 * MEMORY_PAGE;
  for (uint32_t i = 0; i < 3; i++) {
    CHECK(PS_E_FULL, store_append(s, 9000, PS_ACK_LEADER));
    CHECK(ENOSPC, s->error.system_errno);
    CHECK_TRUE(strstr(s->error.text, "needs 12288 bytes, 8192 are free"));
    CHECK(0, memory_count(s->fs, TMP));
    CHECK(1, memory_count(s->fs, STORE_LOG));
    CHECK_HOLDS(store_verify_zero(s));
  }
  CHECK(PS_E_FULL, ps_log_roll(s->log, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER)); /* it still fits */
  s->fs->space = SEGMENT;
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  CHECK(3, s->count);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* The next segment may be there already (a roll failed behind its creation):
 * if it cannot be opened, this one does not end. */
static void a_roll_into_a_segment_that_is_there(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  memory_fail(s->fs, CALL_WRITE, 1, EIO, false);
  CHECK(PS_E_IO, ps_log_roll(s->log, &s->error));
  CHECK(2, memory_count(s->fs, STORE_LOG));
  /* Now with descriptors that were closed meanwhile. */
  uint64_t end = store_ends(s).published_end;
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = end, .synced_end = end, .clean = 1};
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  CHECK(PS_OK, store_count_queues(s));
  memory_fail(s->fs, CALL_OPEN, 1, EIO, true);
  CHECK(PS_E_IO, store_append(s, 9000, PS_ACK_LEADER));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  memory_heal(s->fs);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(SEGMENT, s->records[2].offset);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* A blank record that is half written is taken back. */
static void a_blank_record_is_written_whole_or_not(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  memory_fail_short(s->fs, 3, EIO);
  CHECK(PS_E_IO, ps_log_roll(s->log, &s->error));
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  uint64_t end = store_ends(s).published_end;
  CHECK(0, ps_load32(file->disk + end));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_OK, ps_log_roll(s->log, &s->error));
  CHECK(SEGMENT, store_ends(s).published_end);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* Segments that are wholly synced keep no descriptor for writing open. */
static void synced_segments_hold_no_descriptor(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 40; i++)
    CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK_TRUE(memory_held(s->fs) <= 4);
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

/* An empty log begins where it is told to, if a segment may begin there. */
static void an_empty_log_begins_at_a_segment(void) {
  store *s = store_new(SEGMENT);
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = 1000, .synced_end = 1000};
  CHECK(PS_E_INVALID, ps_log_start(s->log, &start, &s->error));
  start.end = start.synced_end = 5 * SEGMENT;
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(5 * SEGMENT, s->records[0].offset);
  CHECK(5 * SEGMENT, store_ends(s).min_offset);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_full_segment_ends_with_a_blank_record),
           CASE(a_record_leaves_room_for_a_blank_one),
           CASE(a_new_segment_is_durable_before_it_is_used),
           CASE(a_full_disk_while_rolling_leaves_nothing),
           CASE(a_roll_into_a_segment_that_is_there),
           CASE(a_blank_record_is_written_whole_or_not),
           CASE(synced_segments_hold_no_descriptor),
           CASE(an_empty_log_begins_at_a_segment))
