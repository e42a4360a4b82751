/* Another program in an open store: a RocketMQ broker removes segments above
 * the end that it saw, before it finds the lock taken. */
#include "check.h"
#include "support_log.h"

enum { SEGMENT = 12288 };

static void remove_file(store *s, const char *path) {
  CHECK(0, s->fs->env.remove(s->fs, path));
}

/* Bytes in a file without a name are on no disk: a sync does not vouch for
 * them, and every later one says so. */
static void a_sync_notices_that_the_segment_was_removed(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  uint64_t synced = store_ends(s).synced_end;
  remove_file(s, STORE_LOG "00000000000000012288");
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_SYNCED));
  CHECK_TRUE(strstr(s->error.text, "another program removed the file"));
  CHECK(SEGMENT, s->error.offset);
  CHECK(PS_E_POISONED, store_append(s, 100, PS_ACK_LEADER));
  CHECK(synced, store_ends(s).synced_end);
  CHECK(PS_E_POISONED, ps_log_close(s->log, &s->error));
  CHECK(0, store_free(s));
}

/* Nor does a segment follow one that is gone, or is gone itself. */
static void a_roll_notices_that_a_segment_was_removed(void) {
  for (uint32_t is_next = 0; is_next < 2; is_next++) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
    if (is_next) { /* a roll that failed has made the next segment */
      memory_fail(s->fs, CALL_WRITE, 1, 5, false);
      CHECK(PS_E_IO, ps_log_roll(s->log, &s->error));
      remove_file(s, STORE_LOG "00000000000000012288");
    } else {
      remove_file(s, STORE_LOG "00000000000000000000");
    }
    CHECK(PS_E_POISONED, store_append(s, 9000, PS_ACK_LEADER));
    CHECK(1, store_ends(s).poisoned);
    CHECK(0, store_free(s));
  }
}

/* A log that has nothing left to sync checks its file before it closes. */
static void closing_notices_that_the_segment_was_removed(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  remove_file(s, STORE_LOG "00000000000000000000");
  CHECK(PS_E_POISONED, ps_log_close(s->log, &s->error));
  CHECK(0, store_free(s));
}

/* A segment that the log itself removed is no error. */
static void a_deletion_of_its_own_poisons_nothing(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 6; i++)
    CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  uint32_t removed = 0;
  CHECK(PS_OK, ps_log_delete_before(s->log, 3 * SEGMENT, &removed, &s->error));
  CHECK(3, removed);
  CHECK(PS_OK, store_cut(s, 4 * SEGMENT));
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_SYNCED));
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_sync_notices_that_the_segment_was_removed),
           CASE(a_roll_notices_that_a_segment_was_removed),
           CASE(closing_notices_that_the_segment_was_removed),
           CASE(a_deletion_of_its_own_poisons_nothing))
