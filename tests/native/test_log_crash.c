/* Killed or cut off from power before every call that changes a file.
 *
 * A scenario runs until its nth such call. Then the process is dead, and the
 * log is opened again from every kind of state that may be left: the page
 * cache after a kill, and after a power cut the disk with none, all, or some
 * of what was not synced. What was acknowledged must be there, nothing that
 * was not appended may be, and above the end all must be zero. Then the log is
 * appended to and crashes once more, so that stale bytes would show.
 */
#include "check.h"
#include "support_log.h"

enum { SEGMENT = 12288, STATES = 6, KILL = STATES };

typedef void (*scenario)(store *s);

/* Where a crash is that a check failed after. */
static const char *crash_name;
static uint64_t crash_call, crash_state;

static bool holds(const char *wrong, const char *when) {
  if (wrong != NULL)
    fprintf(stderr, "%s, call %" PRIu64 ", state %" PRIu64 ", %s: %s\n",
            crash_name, crash_call, crash_state, when, wrong);
  return CHECK_TRUE(wrong == NULL);
}

static bool works(store *s, ps_status status, const char *when) {
  return holds(status == PS_OK ? NULL : s->error.text, when);
}

/* The state that a crash leaves. */
static memory *successor(const memory *last, uint64_t which) {
  return which == KILL ? memory_after_kill(last)
                       : memory_after_power_cut(last, which, check_seed);
}

/* Opens what a crash left and checks it, whole and above its end. */
static bool survives(store *s, store_ack ack, const char *when) {
  uint64_t bound = crash_state % 2 == 0 ? 0 : store_acked(s, ACK_SYNCED);
  if (s->intent < bound)
    bound = s->intent;
  return works(s, store_recover(s, bound), when) &&
         holds(store_verify(s, ack), when) && holds(store_verify_zero(s), when);
}

/* After an open, all of it is durable: a power cut takes nothing. Records of
 * another size, so that stale ones would begin in their midst or behind. */
static bool goes_on(store *s) {
  for (uint32_t i = 0; i < s->count; i++)
    s->records[i].ack = ACK_SYNCED;
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  if (!survives(s, ACK_SYNCED, "opened again"))
    return false;
  for (uint32_t i = 0; i < 3; i++)
    if (!works(s, store_append(s, 300, PS_ACK_LEADER), "appending on"))
      return false;
  if (!works(s, store_sync(s), "syncing"))
    return false;
  store_crash(s, memory_after_power_cut(s->fs, 2, check_seed));
  return survives(s, ACK_SYNCED, "after more appends");
}

static bool run_one(scenario run, uint64_t call, uint64_t which) {
  store *s = store_new(SEGMENT);
  crash_call = call;
  crash_state = which;
  s->fs->writeback_seed = check_seed + call * 31 + which;
  s->fs->dies_at = s->fs->changes + call;
  run(s);
  bool died = s->fs->is_dead;
  if (died) {
    memory *left = successor(s->fs->last, which);
    store_crash(s, left);
    store_ack ack = which == KILL ? ACK_LEADER : ACK_SYNCED;
    if (survives(s, ack, "opened"))
      (void)goes_on(s);
  } else {
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
  }
  CHECK(0, store_free(s));
  return died;
}

static void crash_everywhere(const char *name, scenario run) {
  crash_name = name;
  bool died = true;
  for (uint64_t call = 1; died && check_failures < 10; call++)
    for (uint64_t which = 0; which <= KILL; which++)
      died = run_one(run, call, which);
}

/* ---- Scenarios --------------------------------------------------------- */

static void append_some(store *s) {
  for (uint32_t i = 0; i < 6 && !s->fs->is_dead; i++)
    (void)store_append(s, 100 + i * 700,
                       i % 3 == 2 ? PS_ACK_SYNCED : PS_ACK_LEADER);
}

static void append_columns(store *s) {
  (void)store_append(s, 100, PS_ACK_SYNCED);
  (void)store_append_columns(s, 30, 900, PS_ACK_LEADER);
  if (!s->fs->is_dead)
    (void)store_append_columns(s, 20, 900, PS_ACK_SYNCED);
}

static void roll_by_hand(store *s) {
  (void)store_append(s, 500, PS_ACK_LEADER);
  if (!s->fs->is_dead)
    (void)ps_log_roll(s->log, &s->error);
  if (!s->fs->is_dead)
    (void)store_append(s, 500, PS_ACK_LEADER);
  if (!s->fs->is_dead)
    (void)store_sync(s);
}

/* Fills some segments, cuts, and appends records of the same sizes. */
static void cut_to(store *s, uint32_t kept) {
  for (uint32_t i = 0; i < 30 && !s->fs->is_dead; i++)
    (void)store_append(s, 1500,
                       i == 10 || i == 25 ? PS_ACK_SYNCED : PS_ACK_LEADER);
  if (!s->fs->is_dead)
    (void)store_cut(s, s->records[kept].offset);
  for (uint32_t i = 0; i < 4 && !s->fs->is_dead; i++)
    (void)store_append(s, 1500, PS_ACK_LEADER);
  if (!s->fs->is_dead)
    (void)store_sync(s);
}

static void cut_across_segments(store *s) {
  cut_to(s, 5);
}

static void cut_within_the_last_segment(store *s) {
  cut_to(s, 28);
}

static void cut_all(store *s) {
  cut_to(s, 0);
}

/* A log with unsynced records over several segments, killed in a write; its
 * opening then is what crashes. */
static bool open_what_was_killed(uint64_t call, uint64_t which, bool is_cut) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 24; i++)
    CHECK(PS_OK, store_append(s, 1500, i == 9 ? PS_ACK_SYNCED : PS_ACK_LEADER));
  if (is_cut) { /* dies with the intent durable, before anything is removed */
    s->fs->dies_at = s->fs->changes + 1;
    (void)store_cut(s, s->records[3].offset);
  } else {
    s->fs->writeback_seed = check_seed + 7;
    s->fs->dies_at = s->fs->changes + 1;
    (void)store_append(s, 6000, PS_ACK_LEADER);
  }
  crash_call = call;
  crash_state = which;
  store_crash(s, memory_after_kill(s->fs->last));
  s->fs->dies_at = call;
  uint64_t bound = store_acked(s, ACK_SYNCED);
  (void)store_recover(s, s->intent < bound ? s->intent : bound);
  bool died = s->fs->is_dead;
  if (died) {
    store_crash(s, successor(s->fs->last, which));
    if (survives(s, which == KILL ? ACK_LEADER : ACK_SYNCED, "opened"))
      (void)goes_on(s);
  } else {
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK_HOLDS(store_verify_zero(s));
  }
  CHECK(0, store_free(s));
  return died;
}

/* ---- Cases ------------------------------------------------------------- */

/* A crash anywhere in single appends loses nothing acknowledged. */
static void a_crash_in_appends_loses_nothing_acknowledged(void) {
  crash_everywhere("append", append_some);
}

/* The same for columns that fill several segments, so with rolls. */
static void a_crash_in_columns_loses_nothing_acknowledged(void) {
  crash_everywhere("columns", append_columns);
}

/* The same for a roll that was asked for. */
static void a_crash_in_a_roll_loses_nothing_acknowledged(void) {
  crash_everywhere("roll", roll_by_hand);
}

/* A cut whose intent is durable is completed, and nothing of what it cut comes
 * back, whenever the crash is. */
static void a_crash_in_a_cut_brings_nothing_back(void) {
  crash_everywhere("cut across segments", cut_across_segments);
  crash_everywhere("cut within the last segment", cut_within_the_last_segment);
  crash_everywhere("cut of everything", cut_all);
}

/* An opening that crashes can be repeated: it loses nothing, and completes a
 * cut that was intended. */
static void a_crash_in_an_opening_loses_nothing_acknowledged(void) {
  for (uint32_t is_cut = 0; is_cut < 2; is_cut++) {
    crash_name = is_cut ? "open with a cut intent" : "open";
    bool died = true;
    for (uint64_t call = 1; died && check_failures < 10; call++)
      for (uint64_t which = 0; which <= KILL; which++)
        died = open_what_was_killed(call, which, is_cut);
  }
}

/* However far a deletion from the front came, the rest is there. */
static void a_crash_in_a_deletion_leaves_no_gap(void) {
  for (uint64_t call = 1; call < 12; call++)
    for (uint64_t which = 0; which <= KILL; which++) {
      store *s = store_new(SEGMENT);
      for (uint32_t i = 0; i < 30; i++)
        CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
      CHECK(PS_OK, store_sync(s));
      uint64_t end = store_ends(s).published_end;
      uint32_t removed = 0;
      s->fs->dies_at = s->fs->changes + call;
      (void)ps_log_delete_before(s->log, 3 * SEGMENT, &removed, &s->error);
      if (s->fs->is_dead)
        store_crash(s, successor(s->fs->last, which));
      else
        store_crash(s, memory_after_kill(s->fs));
      crash_name = "delete", crash_call = call, crash_state = which;
      if (works(s, store_recover(s, end), "opened")) {
        CHECK(end, store_ends(s).published_end);
        CHECK_TRUE(store_ends(s).min_offset <= 3 * SEGMENT);
        CHECK_HOLDS(store_verify(s, ACK_SYNCED));
      }
      CHECK(0, store_free(s));
    }
}

CHECK_MAIN(CASE(a_crash_in_appends_loses_nothing_acknowledged),
           CASE(a_crash_in_columns_loses_nothing_acknowledged),
           CASE(a_crash_in_a_roll_loses_nothing_acknowledged),
           CASE(a_crash_in_a_cut_brings_nothing_back),
           CASE(a_crash_in_an_opening_loses_nothing_acknowledged),
           CASE(a_crash_in_a_deletion_leaves_no_gap))
