/* Appending: what is acknowledged is there, what fails is not. */
#include "check.h"
#include "control.h"
#include "format.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 16384 };

/* Records come back in order, with their queue offsets. */
static void what_is_appended_is_read_back(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 20; i++)
    CHECK(PS_OK, store_append(s, 8 + i * 50, PS_ACK_LEADER));
  CHECK(20, s->count);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(20, s->count);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(0, store_free(s));
}

/* Bodies larger than the pieces that are written come back, too. */
static void records_larger_than_a_piece_come_back(void) {
  store *s = store_new(1 << 20);
  ps_log_free(s->log);
  s->options.message_size_max = 1 << 19;
  CHECK(PS_OK, store_recover(s, 0));
  for (uint32_t i = 0; i < 12; i++)
    CHECK(PS_OK, store_append(s, 70000 * (i % 5 + 1) + i, PS_ACK_LEADER));
  CHECK(PS_OK, store_append_columns(s, 400, 3001, PS_ACK_LEADER));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(412, s->count);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(0, store_free(s));
}

/* Written pieces end on pages of the file, but for the last of a call. */
static void pieces_end_on_pages(void) {
  store *s = store_new(1 << 20);
  uint64_t before = s->fs->calls[CALL_WRITE];
  CHECK(PS_OK, store_append_columns(s, 500, 1000, PS_ACK_LEADER));
  uint64_t bytes = store_ends(s).published_end;
  uint64_t writes = s->fs->calls[CALL_WRITE] - before;
  CHECK_TRUE(writes >= bytes / PS_PIECE);
  CHECK_TRUE(writes <= bytes / PS_PIECE + 3);
  CHECK(0, store_free(s));
}

/* Bytes above the end stay zero, whatever a failed write had written. */
static void a_short_write_leaves_nothing_half_there(void) {
  for (uint64_t piece = 1; piece < 5000; piece += 611) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
    uint64_t end = store_ends(s).published_end;
    memory_fail_short(s->fs, piece, EIO);
    CHECK(PS_E_IO, store_append(s, 5000, PS_ACK_LEADER));
    CHECK(EIO, s->error.system_errno);
    CHECK(end, store_ends(s).published_end);
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_ends(s).last_offset);
    CHECK(PS_OK, ps_log_roll(s->log, &s->error));
    CHECK(0, store_ends(s).last_offset);
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    CHECK(SEGMENT, store_ends(s).last_offset);
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(2, s->count);
    CHECK(0, store_free(s));
  }
}

/* A short write that is no failure is gone on with. */
static void a_short_write_without_an_error_is_gone_on_with(void) {
  store *s = store_new(SEGMENT);
  memory_fail_short(s->fs, 777, 0);
  CHECK(PS_OK, store_append(s, 5000, PS_ACK_LEADER));
  CHECK(1, s->fs->faults_fired);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* A last record that was deleted with its segment is none any more. */
static void a_deleted_last_record_is_unknown(void) {
  store *s = store_new(SEGMENT);
  uint32_t removed = 0;
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  CHECK(PS_OK, ps_log_roll(s->log, &s->error));
  CHECK(PS_OK, ps_log_delete_before(s->log, SEGMENT, &removed, &s->error));
  CHECK(1, removed);
  CHECK(PS_NO_OFFSET, store_ends(s).last_offset);
  CHECK(0, store_free(s));
}

/* If even the zeroing fails, it is made good before the next append. */
static void a_tail_that_could_not_be_zeroed_is_zeroed_later(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  memory_fail_short(s->fs, 4000, EIO);
  memory_fail(s->fs, CALL_ZERO, 1, EIO, true);
  CHECK(PS_E_IO, store_append(s, 5000, PS_ACK_LEADER));
  CHECK(PS_E_IO, store_append(s, 10, PS_ACK_LEADER));
  memory_heal(s->fs);
  CHECK(PS_OK, store_append(s, 10, PS_ACK_SYNCED));
  CHECK_HOLDS(store_verify_zero(s));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(2, s->count);
  CHECK(0, store_free(s));
}

/* Where zeroing gives the space away, it is taken again before an append; a
 * full disk then fails that append alone. */
static void a_punched_tail_gets_its_space_back(void) {
  store *s = store_new(SEGMENT);
  s->fs->punches = true;
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  memory_fail_short(s->fs, 4000, EIO);
  memory_fail(s->fs, CALL_ALLOCATE, 1, ENOSPC, true);
  CHECK(PS_E_IO, store_append(s, 5000, PS_ACK_LEADER));
  CHECK(PS_E_FULL, store_append(s, 5000, PS_ACK_LEADER));
  CHECK(ENOSPC, s->error.system_errno);
  memory_heal(s->fs);
  CHECK(PS_OK, store_append(s, 5000, PS_ACK_LEADER));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(2, s->count);
  CHECK(0, store_free(s));
}

/* A full disk fails columns where they stand: what was published before is
 * counted and there, and appends work again when there is space. */
static void columns_on_a_full_disk_say_how_far_they_came(void) {
  store *s = store_new(SEGMENT);
  s->fs->space = 2 * SEGMENT;
  CHECK(PS_E_FULL, store_append_columns(s, 60, 900, PS_ACK_LEADER));
  CHECK_TRUE(s->count > 20 && s->count < 60);
  uint32_t before = s->count;
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(before, s->count);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(PS_E_FULL, store_append(s, 3000, PS_ACK_LEADER));
  s->fs->space = 2 * SEGMENT;
  CHECK(PS_OK, store_append(s, 3000, PS_ACK_LEADER));
  CHECK(before + 1, s->count);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* Columns that fail name the end of the last record that is in. */
static void columns_that_fail_name_the_end_they_came_to(void) {
  store *s = store_new(SEGMENT);
  s->fs->space = 0;
  uint8_t bodies[40 * 900];
  uint64_t offsets[41];
  for (uint32_t i = 0; i <= 40; i++)
    offsets[i] = i * 900;
  memset(bodies, 'b', sizeof bodies);
  ps_columns columns = {.count = 40,
                        .topic = (const uint8_t *)"t",
                        .topic_size = 1,
                        .body_data = bodies,
                        .body_offsets = offsets,
                        .offset_size = 8};
  ps_position positions[40];
  ps_appended appended = {.count = 99};
  CHECK(PS_E_FULL, ps_log_append_columns(s->log, &columns, PS_ACK_LEADER,
                                         positions, 40, &appended, &s->error));
  CHECK(0, appended.count);
  s->fs->space = SEGMENT;
  CHECK(PS_E_FULL, ps_log_append_columns(s->log, &columns, PS_ACK_LEADER,
                                         positions, 40, &appended, &s->error));
  REQUIRE(appended.count > 0 && appended.count < 40);
  uint64_t record = positions[1].offset - positions[0].offset;
  CHECK(0, appended.offset);
  CHECK(appended.count * record, appended.end);
  CHECK(0, store_free(s));
}

static void end_stays(void *argument, memory_call kind, int32_t file) {
  store *s = argument;
  (void)file;
  if (kind == CALL_WRITE)
    s->intent = store_ends(s).published_end; /* a place that is free here */
}

/* A batch of many pieces: each piece is written before the end moves, once and
 * over all of them (A19). */
static void a_batch_of_many_pieces_is_published_at_once(void) {
  enum { COUNT = 40, BODY = 9000 };
  store *s = store_new(1 << 20);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end, size = 0;
  uint8_t *batch = malloc(COUNT * (BODY + STORE_MESSAGE_EXTRA));
  REQUIRE(batch != NULL);
  for (uint64_t i = 0; i < COUNT; i++)
    size += store_message(batch + size, 0, 100 + i, BODY);
  uint64_t writes = s->fs->calls[CALL_WRITE];
  s->fs->hook_argument = s;
  s->fs->hook = end_stays;
  ps_appended appended;
  CHECK(PS_OK, ps_log_append(s->log, batch, size, PS_ACK_LEADER, NULL, 0,
                             &appended, &s->error));
  s->fs->hook = NULL;
  CHECK_TRUE(s->fs->calls[CALL_WRITE] - writes > 2);
  CHECK(end, s->intent);
  CHECK(appended.end, store_ends(s).published_end);
  s->intent = PS_NO_OFFSET;
  free(batch);
  CHECK(0, store_free(s));
}

/* ---- What failed ------------------------------------------------------- */

/* A write that gets half-way: what it left is zeroed by the append itself, so
 * nothing is left to undo. */
static void nothing_is_left_to_undo_after_an_append_that_failed(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  uint64_t cut_offset = 0;
  CHECK(PS_OK, ps_log_undo(s->log, &cut_offset, &s->error));
  CHECK(PS_NO_OFFSET, cut_offset);
  memory_fail_short(s->fs, 200, EIO);
  CHECK(PS_E_IO, store_append(s, 300, PS_ACK_LEADER));
  s->count--;
  CHECK(PS_OK, ps_log_undo(s->log, &cut_offset, &s->error));
  CHECK(PS_NO_OFFSET, cut_offset);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  CHECK(0, store_free(s));
}

/* Where zeroing fails, too, undoing tries again, and names the end where the
 * log is to be cut if it cannot: no append goes on behind that (A19). */
static void a_log_that_cannot_undo_takes_no_appends(void) {
  for (uint32_t heals = 0; heals < 2; heals++) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    uint64_t end = store_ends(s).published_end, cut_offset = 0;
    memory_fail_short(s->fs, 200, EIO);
    memory_fail(s->fs, CALL_ZERO, 1, EIO, true);
    CHECK(PS_E_IO, store_append(s, 300, PS_ACK_LEADER));
    s->count--;
    if (heals)
      memory_heal(s->fs);
    CHECK(PS_OK, ps_log_undo(s->log, &cut_offset, &s->error));
    CHECK(heals ? PS_NO_OFFSET : end, cut_offset);
    memory_heal(s->fs);
    CHECK(heals ? PS_OK : PS_E_BUSY, store_append(s, 300, PS_ACK_LEADER));
    s->count -= !heals;
    CHECK(heals ? PS_OK : PS_E_IO, ps_log_close(s->log, &s->error));
    CHECK(0, store_free(s));
  }
}

/* Half a raw record above the end is no failed append: it stays. */
static void half_a_raw_record_is_not_undone(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end, received = 0, cut_offset = 0;
  uint8_t bytes[300];
  CHECK(PS_OK, store_copy(s->log, 0, end, bytes, &s->error));
  CHECK(PS_OK, store_cut(s, 0));
  CHECK(PS_OK, ps_log_append_raw(s->log, 0, bytes, 50, &received, &s->error));
  CHECK(PS_OK, ps_log_undo(s->log, &cut_offset, &s->error));
  CHECK(PS_NO_OFFSET, cut_offset);
  CHECK(PS_OK, ps_log_append_raw(s->log, 50, bytes + 50, end - 50, &received,
                                 &s->error));
  CHECK(end, store_ends(s).published_end);
  CHECK(0, store_free(s));
}

/* ---- Authority --------------------------------------------------------- */

/* Behind either deadline nothing is written. */
static void an_append_behind_the_deadline_is_fenced(void) {
  for (uint32_t is_wall = 0; is_wall < 2; is_wall++) {
    store *s = store_new(SEGMENT);
    uint64_t boottime = (uint64_t)s->fs->boottime_ns + 1000;
    uint64_t wall = (uint64_t)s->fs->wall_ms + 1000;
    CHECK(PS_OK, ps_log_authority(s->log, 7, is_wall ? PS_NO_OFFSET : boottime,
                                  is_wall ? wall : PS_NO_OFFSET, &s->error));
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    uint64_t writes = s->fs->calls[CALL_WRITE];
    s->fs->boottime_ns += 1000;
    s->fs->wall_ms += 1000;
    CHECK(PS_E_FENCED, store_append(s, 100, PS_ACK_LEADER));
    s->count--;
    CHECK(PS_E_FENCED, ps_log_roll(s->log, &s->error));
    CHECK(writes, s->fs->calls[CALL_WRITE]);
    CHECK(PS_E_FENCED,
          ps_log_authority(s->log, 6, PS_NO_OFFSET, PS_NO_OFFSET, &s->error));
    CHECK(PS_OK,
          ps_log_authority(s->log, 8, PS_NO_OFFSET, PS_NO_OFFSET, &s->error));
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(0, store_free(s));
  }
}

/* C3: what others vouch for needs no lease, but a mastership. */
static void a_shared_append_ends_with_the_authority_alone(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, ps_log_authority(s->log, 7, 1, 1, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SHARED));
  CHECK(PS_E_FENCED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_E_FENCED, store_append(s, 100, PS_ACK_SYNCED));
  s->count -= 2;
  for (uint64_t none = 0; none < 2; none++) {
    CHECK(PS_OK, ps_log_authority(s->log, 7, none ? 0 : PS_NO_OFFSET,
                                  none ? PS_NO_OFFSET : 0, &s->error));
    CHECK(PS_E_FENCED, store_append(s, 100, PS_ACK_SHARED));
    s->count--;
  }
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

static void time_passes(void *argument, memory_call kind, int32_t file) {
  memory *fs = argument;
  (void)file;
  if (kind == CALL_WRITE)
    fs->boottime_ns += 5000;
}

/* A deadline that passes while the bytes are written takes the answer. */
static void an_append_is_not_answered_behind_the_deadline(void) {
  for (uint32_t ack = 0; ack < 2; ack++) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK,
          ps_log_authority(s->log, 1, (uint64_t)s->fs->boottime_ns + 1000,
                           PS_NO_OFFSET, &s->error));
    s->fs->hook_argument = s->fs;
    s->fs->hook = time_passes;
    CHECK(PS_E_FENCED, store_append(s, 100, ack));
    s->fs->hook = NULL;
    CHECK(PS_OK,
          ps_log_authority(s->log, 2, PS_NO_OFFSET, PS_NO_OFFSET, &s->error));
    CHECK(PS_OK, store_append(s, 100, ack));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(0, store_free(s));
  }
}

/* ---- Handles that cannot append ---------------------------------------- */

/* Every call that writes refuses on a handle for reading, and leaves its live
 * page, which it cannot write, alone. */
static void a_reader_writes_nothing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  ps_log *reader = NULL;
  ps_live *live = NULL;
  REQUIRE(store_open_reader(s, &reader, &live) == PS_OK);
  ps_log *writer = s->log;
  s->log = reader;
  uint32_t removed = 0;
  uint64_t received = 0;
  CHECK(PS_E_CLOSED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_E_CLOSED, store_append(s, 100, PS_ACK_SYNCED));
  CHECK(PS_E_CLOSED, store_append_columns(s, 3, 100, PS_ACK_LEADER));
  CHECK(PS_E_CLOSED, store_sync(s));
  CHECK(PS_E_CLOSED, ps_log_roll(s->log, &s->error));
  CHECK(PS_E_CLOSED, ps_log_confirm(s->log, 10, &s->error));
  CHECK(PS_E_CLOSED, store_cut(s, 0));
  CHECK(PS_E_CLOSED, ps_log_append_raw(s->log, 0, (const uint8_t *)"x", 1,
                                       &received, &s->error));
  CHECK(PS_E_CLOSED, ps_log_delete_before(s->log, 0, &removed, &s->error));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  CHECK(PS_E_CLOSED, store_append(s, 100, PS_ACK_LEADER));
  s->log = writer;
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  ps_log_free(reader);
  ps_live_close(live);
  CHECK(0, store_free(s));
}

/* A log that is not started yet takes nothing either. */
static void a_log_that_is_not_started_takes_nothing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  ps_log_free(s->log);
  CHECK(PS_OK, store_open(s));
  CHECK(PS_E_CLOSED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_E_CLOSED, store_sync(s));
  CHECK(PS_E_CLOSED, ps_log_confirm(s->log, 0, &s->error));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(what_is_appended_is_read_back),
           CASE(records_larger_than_a_piece_come_back),
           CASE(pieces_end_on_pages),
           CASE(a_short_write_leaves_nothing_half_there),
           CASE(a_batch_of_many_pieces_is_published_at_once),
           CASE(nothing_is_left_to_undo_after_an_append_that_failed),
           CASE(a_log_that_cannot_undo_takes_no_appends),
           CASE(half_a_raw_record_is_not_undone),
           CASE(a_short_write_without_an_error_is_gone_on_with),
           CASE(a_deleted_last_record_is_unknown),
           CASE(a_tail_that_could_not_be_zeroed_is_zeroed_later),
           CASE(a_punched_tail_gets_its_space_back),
           CASE(columns_on_a_full_disk_say_how_far_they_came),
           CASE(columns_that_fail_name_the_end_they_came_to),
           CASE(an_append_behind_the_deadline_is_fenced),
           CASE(a_shared_append_ends_with_the_authority_alone),
           CASE(an_append_is_not_answered_behind_the_deadline),
           CASE(a_reader_writes_nothing),
           CASE(a_log_that_is_not_started_takes_nothing))
