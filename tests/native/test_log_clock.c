/* Store times under clocks that step: they never fall, and never run ahead of
 * what boot time confirms (A21). */
#include "check.h"
#include "support_log.h"

#include "control.h"

enum { SEGMENT = 1 << 20, STEPS = 4000 };

static const int64_t DAY_MS = 86400000;

/* The store time of one more record. */
static int64_t stamp(store *s) {
  uint8_t bytes[300];
  uint64_t size = store_message(bytes, 0, s->next_id++, 20);
  ps_appended appended = {0};
  CHECK(PS_OK, ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL, 0,
                             &appended, &s->error));
  return appended.store_ms;
}

static void advance(store *s, int64_t ms) {
  s->fs->wall_ms += ms;
  s->fs->boottime_ns += ms * 1000000;
}

/* Opens again at its end, with the newest store time that it had. */
static void open_again(store *s, uint64_t boot, int64_t newest) {
  uint64_t end = store_ends(s).published_end;
  ps_log_free(s->log);
  s->log = NULL;
  ps_live_words words = {.published_end = end, .synced_end = end};
  memcpy(words.boot_id, &boot, sizeof boot);
  CHECK(PS_OK, ps_live_begin(s->live, &words, &s->error));
  CHECK(PS_OK, store_open(s));
  ps_start start = {.end = end, .synced_end = end, .store_ms = newest};
  CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
}

static ps_clock_state look(store *s, uint32_t is_accepted) {
  ps_clock_state state = {0};
  CHECK(PS_OK, ps_log_clock(s->log, is_accepted, &state, &s->error));
  return state;
}

/* While no clock steps, records have the time of the wall clock, also after a
 * long sleep of the machine, which boot time counts. */
static void a_clock_that_does_not_step_is_stamped_as_it_is(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  for (int64_t i = 0; i < 50; i++) {
    CHECK(s->fs->wall_ms, stamp(s));
    advance(s, i * i * i * 1000);
  }
  CHECK(0, look(s, 0).ahead_ms);
  CHECK(0, store_free(s));
}

/* One append while the clock is ten years ahead: neither it nor any later one
 * is stamped so, before and after a restart; the state says how far ahead. */
static void a_step_forward_is_not_stamped(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  int64_t right = stamp(s);
  s->fs->wall_ms += 3650 * DAY_MS;
  CHECK(right, stamp(s));
  advance(s, 5000);
  CHECK(right + 5000, stamp(s));
  CHECK(3650 * DAY_MS, look(s, 0).ahead_ms);
  CHECK(right + 5000, look(s, 0).now_ms);
  open_again(s, 1, right + 5000);
  CHECK(right + 5000, stamp(s));
  s->fs->wall_ms -= 3650 * DAY_MS;
  advance(s, 7);
  CHECK(right + 5007, stamp(s));
  CHECK(0, look(s, 0).ahead_ms);
  CHECK(0, store_free(s));
}

/* A step back and the return from it are taken; the times stay meanwhile. */
static void a_step_back_and_its_correction_are_taken(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  int64_t right = stamp(s);
  s->fs->wall_ms -= DAY_MS;
  advance(s, 60000);
  CHECK(right, stamp(s));
  s->fs->wall_ms += DAY_MS;
  CHECK(right + 60000, stamp(s));
  CHECK(0, store_free(s));
}

/* A caller that knows better, and another boot, take the clock as it is. */
static void an_accepted_clock_and_another_boot_begin_anew(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  int64_t right = stamp(s);
  s->fs->wall_ms += DAY_MS;
  CHECK(right, stamp(s));
  CHECK(right + DAY_MS, look(s, 1).now_ms);
  CHECK(right + DAY_MS, stamp(s));
  open_again(s, 1, right + DAY_MS);
  CHECK(right + DAY_MS, stamp(s));
  s->fs->wall_ms += DAY_MS;
  CHECK(right + DAY_MS, stamp(s));
  open_again(s, 2, right + DAY_MS);
  CHECK(right + 2 * DAY_MS, stamp(s));
  CHECK(0, store_free(s));
}

/* A machine starts with a clock that is behind the log, which is then set:
 * that step is taken, the next one is not. */
static void a_clock_that_was_behind_the_log_may_be_set(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  int64_t newest = stamp(s);
  s->fs->wall_ms = 1000;
  open_again(s, 2, newest);
  CHECK(newest, stamp(s));
  s->fs->wall_ms = newest + 9 * DAY_MS;
  CHECK(newest + 9 * DAY_MS, stamp(s));
  s->fs->wall_ms += DAY_MS;
  CHECK(newest + 9 * DAY_MS, stamp(s));
  CHECK(0, store_free(s));
}

static uint64_t draw(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* Histories with steps both ways, restarts, and small corrections. */
static void no_history_of_steps_runs_ahead_of_boot_time(void) {
  for (uint64_t first = 1; first <= 20; first++) {
    uint64_t seed = first;
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_go_live(s));
    int64_t newest = stamp(s);
    int64_t offset = newest - s->fs->boottime_ns / 1000000;
    for (uint32_t i = 0; i < STEPS / 20 && check_failures < 10; i++) {
      advance(s, (int64_t)(draw(&seed) % 3000));
      int64_t step = (int64_t)(draw(&seed) % (uint64_t)(20 * DAY_MS));
      switch (draw(&seed) % 6) {
      case 0:
        s->fs->wall_ms += step;
        break;
      case 1:
        s->fs->wall_ms -= step;
        break;
      case 2: /* set right */
        s->fs->wall_ms = offset + s->fs->boottime_ns / 1000000;
        break;
      case 3:
        s->fs->wall_ms += 900;
        break;
      case 4:
        open_again(s, 1, newest);
        break;
      default:
        break;
      }
      int64_t confirmed = offset + s->fs->boottime_ns / 1000000;
      int64_t wall = s->fs->wall_ms;
      int64_t expected = wall <= confirmed + 1000 ? wall : confirmed;
      if (expected < newest)
        expected = newest;
      newest = stamp(s);
      CHECK(expected, newest);
      if (check_failures > 0)
        fprintf(stderr, "seed %" PRIu64 ", step %" PRIu32 "\n", first, i);
    }
    CHECK(0, store_free(s));
  }
}

/* Boot time is not read for each record. */
static void boot_time_is_read_once_in_a_second(void) {
  store *s = store_new(SEGMENT);
  uint64_t before = s->fs->boottime_reads;
  for (uint32_t i = 0; i < 500; i++) {
    (void)stamp(s);
    advance(s, 10);
  }
  CHECK_TRUE(s->fs->boottime_reads - before <= 7);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_clock_that_does_not_step_is_stamped_as_it_is),
           CASE(a_step_forward_is_not_stamped),
           CASE(a_step_back_and_its_correction_are_taken),
           CASE(an_accepted_clock_and_another_boot_begin_anew),
           CASE(a_clock_that_was_behind_the_log_may_be_set),
           CASE(no_history_of_steps_runs_ahead_of_boot_time),
           CASE(boot_time_is_read_once_in_a_second))
