/* Every call to the system fails, one after another, in every operation.
 *
 * Whatever failed: the operation says so with a status that fits, nothing of
 * it is half there, no descriptor or mapping is left behind, and what comes
 * next works, if need be after the log is opened again.
 */
#include "check.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 12288 };

typedef ps_status (*operation)(store *s);

static const char *fault_name;
static memory_call fault_kind;
static uint64_t fault_nth;
static int32_t fault_error;

static bool holds(bool claim, const char *what, const char *text) {
  if (!claim)
    fprintf(stderr, "%s, %s number %" PRIu64 " fails with %d: %s: %s\n",
            fault_name, memory_call_name(fault_kind), fault_nth, fault_error,
            what, text);
  return CHECK_TRUE(claim);
}

static bool is_whole(store *s, const char *when) {
  const char *wrong = store_verify(s, ACK_LEADER);
  return holds(wrong == NULL, when, wrong == NULL ? "" : wrong);
}

static bool fits(ps_status status) {
  switch (status) {
  case PS_E_FULL:
    return fault_error == ENOSPC;
  case PS_E_IO:
    return fault_error == EIO;
  case PS_E_POISONED: /* a sync or a write-back, whatever the errno */
    return fault_kind == CALL_SYNC || fault_kind == CALL_WRITEBACK;
  default:
    return false;
  }
}

/* Opens again what does not go on by itself, and appends. */
static void goes_on(store *s) {
  ps_status status = store_append(s, 700, PS_ACK_SYNCED);
  if (status != PS_OK) {
    (void)holds(status == PS_E_POISONED || status == PS_E_BUSY ||
                    status == PS_E_CLOSED,
                "the next append", s->error.text);
    uint64_t bound = store_acked(s, ACK_SYNCED);
    if (s->intent < bound)
      bound = s->intent;
    ps_log_free(s->log);
    s->log = NULL;
    if (!holds(store_recover(s, bound) == PS_OK, "opening", s->error.text))
      return;
    (void)is_whole(s, "opened again");
    (void)holds(store_append(s, 700, PS_ACK_SYNCED) == PS_OK,
                "an append after opening", s->error.text);
  }
  if (!is_whole(s, "after the next append"))
    return;
  const char *wrong = store_verify_zero(s);
  (void)holds(wrong == NULL, "above the end", wrong == NULL ? "" : wrong);
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  if (holds(store_recover(s, 0) == PS_OK, "a power cut", s->error.text)) {
    wrong = store_verify(s, ACK_SYNCED);
    (void)holds(wrong == NULL, "after a power cut", wrong == NULL ? "" : wrong);
  }
}

/* One failure in one operation; answers whether it came that far. */
static bool fail_one(operation run, bool punches) {
  store *s = store_new(SEGMENT);
  s->fs->punches = punches;
  for (uint32_t i = 0; i < 9; i++)
    CHECK(PS_OK, store_append(s, 1500, i == 3 ? PS_ACK_SYNCED : PS_ACK_LEADER));
  memory_fail(s->fs, fault_kind, fault_nth, fault_error, false);
  ps_status status = run(s);
  bool fired = s->fs->faults[0].nth == 0; /* the one armed here */
  memory_heal(s->fs);
  if (!fired)
    (void)holds(status == PS_OK, "without a fault", s->error.text);
  else if (status != PS_OK)
    (void)holds(fits(status), "the status", s->error.text);
  if (s->log == NULL)
    (void)holds(store_recover(s, 0) == PS_OK, "opening", s->error.text);
  if (s->log != NULL && is_whole(s, "after the fault"))
    goes_on(s);
  CHECK(0, store_free(s));
  return fired && check_failures < 10;
}

static void fail_everywhere(const char *name, operation run) {
  static const int32_t errors[] = {EIO, ENOSPC};
  fault_name = name;
  for (uint32_t e = 0; e < 2; e++)
    for (uint32_t kind = 0; kind < CALL_ANY; kind++)
      for (uint32_t punches = 0; punches < 2; punches++) {
        fault_error = errors[e];
        fault_kind = (memory_call)kind;
        fault_nth = 1;
        while (kind != CALL_CLOSE && fail_one(run, punches))
          fault_nth++;
      }
}

/* ---- Operations -------------------------------------------------------- */

static ps_status append_one(store *s) {
  return store_append(s, 300, PS_ACK_LEADER);
}

static ps_status append_synced(store *s) {
  return store_append(s, 300, PS_ACK_SYNCED);
}

static ps_status append_columns(store *s) {
  return store_append_columns(s, 25, 1300, PS_ACK_SYNCED);
}

static ps_status roll(store *s) {
  return ps_log_roll(s->log, &s->error);
}

static ps_status cut(store *s) {
  return store_cut(s, s->records[2].offset);
}

static ps_status delete_front(store *s) {
  uint32_t removed = 0;
  ps_status status = ps_log_delete_before(s->log, SEGMENT, &removed, &s->error);
  return status;
}

/* A write that fails, so that what makes it good can fail, too. */
static ps_status append_short(store *s) {
  memory_fail_short(s->fs, 200, EIO);
  ps_status status = store_append(s, 300, PS_ACK_LEADER);
  CHECK_TRUE(status != PS_OK);
  return PS_OK;
}

static ps_status open_again(store *s) {
  ps_error ignored;
  (void)ps_log_close(s->log, &ignored);
  ps_log_free(s->log);
  s->log = NULL;
  ps_status status = store_recover(s, 0);
  if (status != PS_OK) {
    ps_log_free(s->log);
    s->log = NULL;
  }
  return status;
}

static ps_status open_what_was_killed(store *s) {
  uint64_t bound = store_acked(s, ACK_SYNCED);
  ps_log_free(s->log);
  s->log = NULL;
  ps_status status = store_recover(s, bound);
  if (status != PS_OK) {
    ps_log_free(s->log);
    s->log = NULL;
  }
  return status;
}

/* ---- Cases ------------------------------------------------------------- */

static void appends_survive_any_failure(void) {
  fail_everywhere("append", append_one);
  fail_everywhere("synced append", append_synced);
  fail_everywhere("columns", append_columns);
  fail_everywhere("short write", append_short);
}

static void rolls_survive_any_failure(void) {
  fail_everywhere("roll", roll);
}

static void cuts_survive_any_failure(void) {
  fail_everywhere("cut", cut);
}

static void deletions_survive_any_failure(void) {
  fail_everywhere("delete", delete_front);
}

static void openings_survive_any_failure(void) {
  fail_everywhere("open", open_again);
  fail_everywhere("open unsynced", open_what_was_killed);
}

CHECK_MAIN(CASE(appends_survive_any_failure), CASE(rolls_survive_any_failure),
           CASE(cuts_survive_any_failure), CASE(deletions_survive_any_failure),
           CASE(openings_survive_any_failure))
