/* Cutting and deleting: what is gone is gone, what is held keeps its bytes. */
#include "check.h"
#include "format.h"
#include "support_log.h"

#include <errno.h>
#include <stdlib.h>

enum { SEGMENT = 12288 };

static store *filled(uint32_t count) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < count; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  return s;
}

/* A log can be cut at every record end and at every segment's base. */
static void a_log_can_be_cut_at_every_end(void) {
  for (uint32_t kept = 0; kept <= 20; kept++)
    for (uint32_t at_end = 0; at_end < 2; at_end++) {
      store *s = filled(20);
      uint64_t offset = 0;
      if (kept > 0 && at_end)
        offset = s->records[kept - 1].end;
      else if (kept < 20)
        offset = s->records[kept].offset;
      else
        offset = store_ends(s).published_end;
      CHECK(PS_OK, store_cut(s, offset));
      CHECK(offset, store_ends(s).published_end);
      CHECK_HOLDS(store_verify_zero(s));
      for (uint32_t i = 0; i < 12; i++)
        CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
      CHECK_HOLDS(store_verify(s, ACK_LEADER));
      CHECK(kept + 12, s->count);
      CHECK(0, store_free(s));
    }
}

/* Anywhere else it cannot, and appends go on. */
static void a_cut_within_a_record_is_refused(void) {
  store *s = filled(10);
  uint64_t end = store_ends(s).published_end;
  static const uint64_t wrong[] = {1, 7, 1000, SEGMENT - 1, SEGMENT + 5};
  for (uint32_t i = 0; i < 5; i++)
    CHECK(PS_E_INVALID, ps_log_cut_begin(s->log, wrong[i], &s->error));
  CHECK(PS_E_RANGE, ps_log_cut_begin(s->log, end + 1, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* The ends go down with the cut, and never a word says more is synced. */
static void a_cut_takes_the_ends_with_it(void) {
  store *s = filled(5);
  CHECK(PS_OK, store_go_live(s));
  CHECK(PS_OK, store_sync(s));
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_OK, ps_log_confirm(s->log, end, &s->error));
  uint64_t offset = s->records[2].offset;
  CHECK(PS_OK, store_cut(s, offset));
  ps_live_words words;
  ps_live_read(s->live, &words);
  CHECK(offset, words.published_end);
  CHECK(offset, words.synced_end);
  CHECK(offset, words.confirm_offset);
  CHECK(1, words.cut_generation);
  CHECK(offset, words.cut_offset);
  CHECK(PS_E_RANGE, ps_log_confirm(s->log, end, &s->error));
  CHECK(0, store_free(s));
}

/* A block that is held for ever delays a cut by one second, and shows the same
 * bytes after it, after later appends and after the log was closed (B14). */
static void a_held_block_delays_a_cut_by_one_second(void) {
  store *s = filled(20);
  ps_block low, high;
  CHECK(PS_OK, ps_block_acquire(s->log, 0, 100, &low, &s->error));
  CHECK(PS_OK,
        ps_block_acquire(s->log, s->records[4].offset, 100, &high, &s->error));
  uint8_t copy[100];
  memcpy(copy, high.data, sizeof copy);
  CHECK(PS_OK, store_cut(s, s->records[3].offset));
  CHECK(1000000000, s->fs->paused_ns);
  CHECK_BYTES(copy, high.data, sizeof copy);
  for (uint32_t i = 0; i < 12; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  CHECK_BYTES(copy, high.data, sizeof copy);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(PS_OK, store_cut(s, s->records[1].offset)); /* needs no second wait */
  CHECK(1000000000, s->fs->paused_ns);
  CHECK_BYTES(copy, high.data, sizeof copy);
  ps_block_release(&high);
  ps_block_release(&high); /* again is fine: it holds nothing any more */
  ps_block_release(&low);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

static ps_block *released_by_pause;
static uint32_t pauses_left;

static void release_in_a_pause(void *argument) {
  (void)argument;
  if (pauses_left > 0 && --pauses_left == 0)
    ps_block_release(released_by_pause);
}

/* Only a block that is held above the cut in the segment that stays is waited
 * for, and no longer than it is held. */
static void a_cut_waits_no_longer_than_a_block_is_held(void) {
  store *s = filled(20);
  ps_block low, removed, high;
  CHECK(PS_OK, ps_block_acquire(s->log, 0, 100, &low, &s->error));
  CHECK(PS_OK, ps_block_acquire(s->log, s->records[18].offset, 100, &removed,
                                &s->error));
  CHECK(PS_OK, store_cut(s, s->records[5].offset));
  CHECK(0, s->fs->paused_ns);
  CHECK(PS_OK,
        ps_block_acquire(s->log, s->records[4].offset, 100, &high, &s->error));
  released_by_pause = &high;
  pauses_left = 7;
  s->fs->pause_hook = release_in_a_pause;
  CHECK(PS_OK, store_cut(s, s->records[3].offset));
  CHECK(7000000, s->fs->paused_ns);
  CHECK(0, s->fs->kept_count);
  ps_block_release(&low);
  ps_block_release(&removed);
  CHECK(0, store_free(s));
}

/* A copy that the system refuses refuses the cut, which changes nothing. */
static void a_cut_whose_copies_are_refused_changes_nothing(void) {
  store *s = filled(5);
  ps_block block;
  CHECK(PS_OK,
        ps_block_acquire(s->log, s->records[4].offset, 9, &block, &s->error));
  uint64_t end = store_ends(s).published_end;
  memory_fail(s->fs, CALL_MAP, 1, ENOMEM, false);
  CHECK(PS_E_MEMORY, store_cut(s, s->records[2].offset));
  CHECK(end, store_ends(s).published_end);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  ps_block_release(&block);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* A cut that is given up behind the copies leaves a log that goes on, and
 * whose readers see what is appended. */
static void a_cut_that_is_given_up_behind_its_copies_changes_nothing(void) {
  store *s = filled(5);
  ps_block block;
  CHECK(PS_OK,
        ps_block_acquire(s->log, s->records[4].offset, 90, &block, &s->error));
  uint8_t copy[90];
  memcpy(copy, block.data, sizeof copy);
  CHECK(PS_OK, ps_log_cut_begin(s->log, s->records[2].offset, &s->error));
  CHECK(1, s->fs->kept_count);
  CHECK(PS_OK, ps_log_cut_end(s->log, 0, &s->error));
  for (uint32_t i = 0; i < 9; i++)
    CHECK(PS_OK, store_append(s, 1200, PS_ACK_SYNCED));
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK_BYTES(copy, block.data, sizeof copy);
  ps_block_release(&block);
  CHECK(0, store_free(s));
}

/* What a holder was given. */
typedef struct holding {
  ps_block block;
  uint8_t *bytes;
} holding;

enum { HOLDERS = 12, STEPS = 150 };

static uint32_t check_holders(const holding *held) {
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < HOLDERS; i++)
    if (held[i].bytes != NULL)
      wrong +=
          memcmp(held[i].bytes, held[i].block.data, held[i].block.size) != 0;
  return wrong;
}

static void let_go(holding *one) {
  ps_block_release(&one->block);
  free(one->bytes);
  one->bytes = NULL;
}

static void hold_some(store *s, holding *one) {
  ps_ends ends = store_ends(s);
  if (ends.published_end == 0)
    return;
  uint64_t at = check_random() % ends.published_end;
  uint64_t size = 1 + check_random() % 9000;
  CHECK(PS_OK, ps_block_acquire(s->log, at, size, &one->block, &s->error));
  one->bytes = malloc(one->block.size);
  memcpy(one->bytes, one->block.data, one->block.size);
}

/* Blocks come and go between appends and cuts, and each one shows the bytes it
 * was given, in whatever order they come. */
static void held_blocks_never_show_other_bytes(void) {
  for (uint32_t round = 0; round < 6; round++) {
    store *s = filled(10);
    holding held[HOLDERS] = {0};
    for (uint32_t step = 0; step < STEPS; step++) {
      holding *one = &held[check_random() % HOLDERS];
      uint64_t dice = check_random() % 10;
      if (dice < 5)
        CHECK(PS_OK, store_append(s, 200 + (uint32_t)(check_random() % 1500),
                                  PS_ACK_LEADER));
      else if (dice < 9 && one->bytes != NULL)
        let_go(one);
      else if (dice < 9)
        hold_some(s, one);
      else if (s->count > 0)
        CHECK(PS_OK,
              store_cut(s, s->records[check_random() % s->count].offset));
      CHECK(0, check_holders(held));
    }
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
    for (uint32_t i = 0; i < HOLDERS; i++)
      let_go(&held[i]);
    CHECK(0, store_free(s));
  }
}

/* While a cut runs no block above it is given out, below it one is. */
static void no_block_above_a_running_cut_is_given_out(void) {
  store *s = filled(20);
  uint64_t offset = s->records[3].offset;
  ps_block block;
  CHECK(PS_OK, ps_log_cut_begin(s->log, offset, &s->error));
  CHECK(PS_E_BUSY, ps_block_acquire(s->log, offset, 100, &block, &s->error));
  CHECK(PS_E_BUSY,
        ps_block_acquire(s->log, offset - 50, 100, &block, &s->error));
  CHECK(PS_OK, ps_block_acquire(s->log, offset - 50, 50, &block, &s->error));
  ps_block_release(&block);
  CHECK(PS_OK, ps_log_cut_end(s->log, 0, &s->error));
  CHECK(PS_OK, ps_block_acquire(s->log, offset, 100, &block, &s->error));
  ps_block_release(&block);
  CHECK(0, store_free(s));
}

/* Steps follow one another. */
static void the_steps_of_a_cut_have_an_order(void) {
  store *s = filled(5);
  ps_cut_report report;
  CHECK(PS_E_INVALID, ps_log_cut_publish(s->log, 1, &s->error));
  CHECK(PS_E_INVALID, ps_log_cut_apply(s->log, &report, &s->error));
  CHECK(PS_E_INVALID, ps_log_cut_end(s->log, 0, &s->error));
  CHECK(PS_OK, ps_log_cut_begin(s->log, 0, &s->error));
  CHECK(PS_E_INVALID, ps_log_cut_begin(s->log, 0, &s->error));
  CHECK(PS_E_INVALID, ps_log_cut_apply(s->log, &report, &s->error));
  CHECK(PS_E_INVALID, ps_log_cut_end(s->log, 1, &s->error));
  CHECK(PS_OK, ps_log_cut_end(s->log, 0, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* A cut that was published and not done takes the appends with it: behind an
 * intent that is still open they would be cut by the next opening. */
static void a_cut_that_is_not_done_takes_no_appends(void) {
  for (uint32_t applied = 0; applied < 2; applied++) {
    store *s = filled(20);
    uint64_t offset = s->records[3].offset;
    ps_cut_report report;
    CHECK(PS_OK, ps_log_cut_begin(s->log, offset, &s->error));
    CHECK(PS_OK, ps_log_cut_publish(s->log, 1, &s->error));
    if (applied)
      CHECK(PS_OK, ps_log_cut_apply(s->log, &report, &s->error));
    CHECK(PS_OK, ps_log_cut_end(s->log, 0, &s->error));
    CHECK(PS_E_BUSY, store_append(s, 1500, PS_ACK_LEADER));
    CHECK(PS_E_BUSY, ps_log_roll(s->log, &s->error));
    CHECK(offset, store_ends(s).published_end);
    CHECK(PS_E_IO, ps_log_close(s->log, &s->error));
    s->intent = offset;
    s->count = 3;
    store_crash(s, memory_after_kill(s->fs));
    CHECK(PS_OK, store_recover(s, 0));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
    CHECK(0, store_free(s));
  }
}

/* Closing in the midst of a cut neither waits for ever nor zeroes. */
static void closing_gives_up_a_cut(void) {
  store *s = filled(20);
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_OK, ps_log_cut_begin(s->log, s->records[3].offset, &s->error));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  store_crash(s, memory_after_kill(s->fs));
  CHECK(PS_OK, store_recover(s, end));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(20, s->count);
  CHECK(0, store_free(s));
}

/* Deletion takes whole segments, never the active one, and leaves what is
 * held readable. */
static void deletion_takes_whole_segments(void) {
  store *s = filled(20);
  ps_block block;
  uint8_t copy[500];
  CHECK(PS_OK, ps_block_acquire(s->log, 0, sizeof copy, &block, &s->error));
  memcpy(copy, block.data, sizeof copy);
  uint32_t removed = 9;
  CHECK(PS_OK, ps_log_delete_before(s->log, SEGMENT - 1, &removed, &s->error));
  CHECK(0, removed);
  CHECK(PS_OK, ps_log_delete_before(s->log, 2 * SEGMENT, &removed, &s->error));
  CHECK(2, removed);
  CHECK(2 * SEGMENT, store_ends(s).min_offset);
  CHECK_BYTES(copy, block.data, sizeof copy);
  ps_block_release(&block);
  CHECK(PS_E_RANGE, ps_block_acquire(s->log, 0, 10, &block, &s->error));
  CHECK(PS_OK, ps_log_delete_before(s->log, UINT64_MAX, &removed, &s->error));
  CHECK(1, store_ends(s).segments);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(PS_OK, store_append(s, 1500, PS_ACK_SYNCED));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_log_can_be_cut_at_every_end),
           CASE(a_cut_within_a_record_is_refused),
           CASE(a_cut_takes_the_ends_with_it),
           CASE(a_held_block_delays_a_cut_by_one_second),
           CASE(a_cut_waits_no_longer_than_a_block_is_held),
           CASE(a_cut_whose_copies_are_refused_changes_nothing),
           CASE(a_cut_that_is_given_up_behind_its_copies_changes_nothing),
           CASE(held_blocks_never_show_other_bytes),
           CASE(no_block_above_a_running_cut_is_given_out),
           CASE(the_steps_of_a_cut_have_an_order),
           CASE(a_cut_that_is_not_done_takes_no_appends),
           CASE(closing_gives_up_a_cut), CASE(deletion_takes_whole_segments))
