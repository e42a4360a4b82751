/* Durability: what a sync promises, and what a failed one takes back. */
#include "check.h"
#include "support_log.h"

#include <errno.h>
#include <sched.h>

#include "sync.h"

enum { SEGMENT = 12288 };

/* A sync that fails once poisons the log: no append and no sync is answered
 * well any more, closing says so, and reading goes on. */
static void a_failed_sync_poisons_the_log(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t synced = store_ends(s).synced_end;
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  memory_fail(s->fs, CALL_SYNC, 1, EIO, false);
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_SYNCED));
  CHECK(PS_E_POISONED, store_sync(s));
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_E_POISONED, ps_log_roll(s->log, &s->error));
  CHECK(synced, store_ends(s).synced_end);
  CHECK(1, store_ends(s).poisoned);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(PS_OK, ps_log_sync(s->log, synced, &s->error));
  CHECK(PS_E_POISONED, ps_log_close(s->log, &s->error));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  CHECK(0, store_free(s));
}

/* EIO once, SIGKILL, reopen, power cut: opening has written the unsynced range
 * again, so that a later sync does not vouch for pages the disk never got. */
static void opening_rewrites_what_a_failed_sync_left(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t synced = store_ends(s).synced_end;
  for (uint32_t i = 0; i < 20; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  memory_fail(s->fs, CALL_SYNC, 1, EIO, false);
  CHECK(PS_E_POISONED, store_sync(s));
  store_crash(s, memory_after_kill(s->fs));
  CHECK(PS_OK, store_recover(s, synced));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  uint64_t end = store_ends(s).published_end;
  CHECK(end, store_ends(s).synced_end);
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, end));
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(21, s->count);
  CHECK(0, store_free(s));
}

/* Zeroing after a failed write syncs the file; if that sync fails, an error
 * that the records before it had is reported there and nowhere else. */
static void a_failed_sync_of_a_zeroed_tail_poisons_the_log(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  s->fs->space = 0;
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  REQUIRE(file != NULL);
  file->allocated[1] = 0; /* so that the write gets no further than a page */
  memory_fail(s->fs, CALL_SYNC, 1, EIO, false);
  CHECK(PS_E_FULL, store_append(s, 5000, PS_ACK_LEADER));
  CHECK(1, s->fs->faults_fired);
  CHECK(PS_E_POISONED, store_sync(s));
  CHECK(PS_E_POISONED, store_append(s, 10, PS_ACK_LEADER));
  CHECK(0, store_free(s));
}

/* The same in a cut: what stays below it was not proven durable. */
static void a_failed_sync_in_a_cut_poisons_the_log(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  memory_fail(s->fs, CALL_SYNC, 1, EIO, false);
  CHECK_TRUE(store_cut(s, s->records[1].offset) != PS_OK);
  CHECK(1, s->fs->faults_fired);
  CHECK(PS_E_POISONED, store_sync(s));
  CHECK(0, store_free(s));
}

/* A failed write-back is no smaller failure than that of a sync. */
static void a_failed_write_back_poisons_the_log(void) {
  store *s = store_new(1 << 20);
  ps_log_free(s->log);
  s->options.writeback_bytes = 8192;
  CHECK(PS_OK, store_recover(s, 0));
  memory_fail(s->fs, CALL_WRITEBACK, 1, EIO, false);
  CHECK(PS_OK, store_append(s, 20000, PS_ACK_LEADER));
  for (uint32_t i = 0; i < 1000000 && !store_ends(s).poisoned; i++)
    sched_yield(); /* its thread starts it */
  CHECK(PS_E_POISONED, store_sync(s));
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(0, store_free(s));
}

/* A sync covers every segment that holds unsynced records. */
static void a_sync_covers_all_segments(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  CHECK(PS_OK, store_sync(s));
  CHECK(store_ends(s).published_end, store_ends(s).synced_end);
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, 0));
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(30, s->count);
  CHECK(0, store_free(s));
}

/* Deleting unsynced segments from the front keeps the others' promise. */
static void a_sync_after_a_deletion_covers_what_is_left(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  uint32_t removed = 0;
  CHECK(PS_OK, ps_log_delete_before(s->log, 2 * SEGMENT, &removed, &s->error));
  CHECK(2, removed);
  CHECK(PS_OK, store_sync(s));
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, 0));
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(30, s->count);
  CHECK(0, store_free(s));
}

/* A sync up to an end that is synced costs nothing; one above the published
 * end is refused. */
static void a_sync_of_what_is_synced_costs_nothing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t before = s->fs->calls[CALL_SYNC];
  CHECK(PS_OK, store_sync(s));
  CHECK(PS_OK, ps_log_sync(s->log, 10, &s->error));
  CHECK(before, s->fs->calls[CALL_SYNC]);
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_E_RANGE, ps_log_sync(s->log, end + 1, &s->error));
  CHECK(0, store_free(s));
}

/* A log that is written all the time is synced in time all the same. */
static void timed_syncs_happen_under_load(void) {
  store *s = store_new(1 << 20);
  ps_log_free(s->log);
  s->options.writeback_bytes = 4096;
  s->options.flush_interval_ms = 2;
  CHECK(PS_OK, store_recover(s, 0));
  uint8_t bytes[5000 + STORE_MESSAGE_EXTRA];
  uint64_t size = store_message(bytes, 0, 1, 5000);
  uint32_t appends = 0;
  while (store_ends(s).synced_end == 0 && appends++ < 20000) {
    ps_appended appended;
    CHECK(PS_OK, ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL, 0,
                               &appended, &s->error));
    if (appended.offset > 30 << 20) /* the files in memory are few */
      break;
  }
  CHECK_TRUE(store_ends(s).synced_end > 0);
  CHECK(0, store_free(s));
}

/* Early write-back goes on behind segments that were deleted. */
static void write_back_goes_on_after_a_deletion(void) {
  store *s = store_new(SEGMENT);
  ps_log_free(s->log);
  s->options.writeback_bytes = 3 * SEGMENT;
  CHECK(PS_OK, store_recover(s, 0));
  for (uint32_t i = 0; i < 15; i++) /* less than makes it begin */
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  uint32_t removed = 0;
  CHECK(PS_OK, ps_log_delete_before(s->log, SEGMENT, &removed, &s->error));
  CHECK(1, removed);
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  for (bool begun = false; !begun;) {
    pthread_mutex_lock(&s->fs->lock);
    begun = s->fs->calls[CALL_WRITEBACK] > 0;
    pthread_mutex_unlock(&s->fs->lock);
  }
  CHECK(0, store_free(s));
}

static void poison_at_sync(void *argument, memory_call kind, int32_t file) {
  store *s = argument;
  (void)file;
  if (kind != CALL_SYNC)
    return;
  ps_error ignored;
  (void)ps_log_poison(s->log, -EIO, 0, &ignored);
}

/* A write-back that fails while a sync runs may have taken the error with it:
 * the sync went well, and proves nothing (A12). */
static void poison_that_comes_during_a_sync_counts(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t synced = store_ends(s).synced_end;
  s->fs->hook_argument = s;
  s->fs->hook = poison_at_sync;
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_SYNCED));
  s->fs->hook = NULL;
  CHECK(synced, store_ends(s).synced_end);
  CHECK(0, store_free(s));
}

/* After the sync of a zeroed tail failed, the page cache reads zero where the
 * disk does not: opening zeroes it again (A2, A12). */
static void a_tail_that_reads_zero_is_zeroed_again(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  uint64_t end = store_ends(s).published_end;
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  REQUIRE(file != NULL);
  memset(file->disk + end, 0xff, 300);
  store_crash(s, memory_after_kill(s->fs));
  CHECK(PS_OK, store_recover(s, end));
  CHECK_HOLDS(store_verify_zero(s));
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, end));
  CHECK(end, store_ends(s).published_end);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_failed_sync_poisons_the_log),
           CASE(poison_that_comes_during_a_sync_counts),
           CASE(a_tail_that_reads_zero_is_zeroed_again),
           CASE(opening_rewrites_what_a_failed_sync_left),
           CASE(a_failed_sync_of_a_zeroed_tail_poisons_the_log),
           CASE(a_failed_sync_in_a_cut_poisons_the_log),
           CASE(a_failed_write_back_poisons_the_log),
           CASE(a_sync_covers_all_segments),
           CASE(a_sync_after_a_deletion_covers_what_is_left),
           CASE(timed_syncs_happen_under_load),
           CASE(write_back_goes_on_after_a_deletion),
           CASE(a_sync_of_what_is_synced_costs_nothing))
