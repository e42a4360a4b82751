/* Waiting for an offset: the waiters that a mark reaches return, no others do.
 * */
#include "check.h"
#include "env.h"
#include "waiters.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOREVER UINT64_MAX
#define MS UINT64_C(1000000)

enum { MARKS = 3, MANY = 24, WAITERS = 12, RAISES = 6000, HANGS_S = 20 };

/* One thread with one wait. */
typedef struct waiter {
  pthread_t thread;
  ps_waiters *waits;
  uint64_t end;
  uint64_t timeout_ns;
  uint32_t mark;
  uint32_t outcome;
  ps_status status;
} waiter;

static ps_waiters *open_marks(uint32_t marks, uint32_t one_by_one) {
  ps_waiters *waits = NULL;
  ps_error error;
  CHECK(PS_OK, ps_waiters_open(marks, one_by_one, &waits, &error));
  return waits;
}

static void raise_to(ps_waiters *waits, uint32_t mark, uint64_t offset) {
  ps_error error;
  CHECK(PS_OK, ps_waiters_raise(waits, mark, offset, &error));
}

static uint32_t wait_for(ps_waiters *waits, uint32_t mark, uint64_t end,
                         uint64_t timeout_ns) {
  uint32_t outcome = 0;
  ps_error error;
  CHECK(PS_OK, ps_waiters_wait(waits, mark, end, timeout_ns, &outcome, &error));
  return outcome;
}

static void *wait_once(void *argument) {
  waiter *w = argument;
  ps_error error;
  w->status = ps_waiters_wait(w->waits, w->mark, w->end, w->timeout_ns,
                              &w->outcome, &error);
  return NULL;
}

/* Comes back when the thread waits, as the last of `waiting`. */
static void start(waiter *w, ps_waiters *waits, uint32_t mark, uint64_t end,
                  uint64_t timeout_ns, uint32_t waiting) {
  *w = (waiter){
      .waits = waits, .mark = mark, .end = end, .timeout_ns = timeout_ns};
  pthread_create(&w->thread, NULL, wait_once, w);
  while (ps_waiters_waiting(waits) < waiting)
    sched_yield();
}

static void join_as(waiter *w, uint32_t outcome) {
  pthread_join(w->thread, NULL);
  CHECK(PS_OK, w->status);
  CHECK(outcome, w->outcome);
}

/* ---- Without sleep ----------------------------------------------------- */

/* A wait for a mark that is there already returns, with any timeout. */
static void a_wait_for_a_reached_mark_returns_at_once(void) {
  ps_waiters *waits = open_marks(MARKS, 0);
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 0, 0));
  raise_to(waits, 1, 500);
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 500, 0));
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 500, FOREVER));
  CHECK(PS_WAIT_EXPIRED, wait_for(waits, 1, 501, 0));
  CHECK(PS_WAIT_EXPIRED, wait_for(waits, 0, 1, 0));
  CHECK(0, ps_waiters_waiting(waits));
  ps_waiters_free(waits);
}

/* Raises come in any order from several threads: the highest stays. */
static void a_mark_never_falls(void) {
  ps_waiters *waits = open_marks(MARKS, 0);
  raise_to(waits, 2, 700);
  raise_to(waits, 2, 300);
  CHECK(700, ps_waiters_mark(waits, 2));
  CHECK(0, ps_waiters_mark(waits, 0));
  CHECK(PS_WAIT_REACHED, wait_for(waits, 2, 700, 0));
  ps_waiters_free(waits);
}

/* A number that no mark has, and handles without marks or with too many. */
static void an_unknown_mark_is_refused(void) {
  ps_waiters *waits = NULL;
  ps_error error;
  uint32_t outcome;
  CHECK(PS_E_INVALID, ps_waiters_open(0, 0, &waits, &error));
  CHECK(PS_E_INVALID, ps_waiters_open(PS_WAITS_MARKS + 1, 0, &waits, &error));
  waits = open_marks(PS_WAITS_MARKS, 0);
  raise_to(waits, PS_WAITS_MARKS - 1, 1);
  CHECK(PS_E_INVALID, ps_waiters_raise(waits, PS_WAITS_MARKS, 1, &error));
  CHECK(PS_E_INVALID,
        ps_waiters_wait(waits, PS_WAITS_MARKS, 1, 0, &outcome, &error));
  CHECK(PS_NO_OFFSET, ps_waiters_mark(waits, PS_WAITS_MARKS));
  ps_waiters_free(waits);
  ps_waiters_free(NULL);
}

/* ---- With sleep -------------------------------------------------------- */

/* Ends from the highest to the lowest, between, and equal: each raise wakes
 * those it reaches. */
static void a_raise_wakes_only_the_waiters_it_reaches(void) {
  for (uint32_t one_by_one = 0; one_by_one < 2; one_by_one++) {
    static const uint64_t ends[] = {400, 300, 100, 350, 200, 200, 500, 101};
    enum { COUNT = sizeof ends / sizeof ends[0] };
    ps_waiters *waits = open_marks(MARKS, one_by_one);
    waiter waiters[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
      start(&waiters[i], waits, 1, ends[i], FOREVER, i + 1);
    raise_to(waits, 1, 99);
    CHECK(COUNT, ps_waiters_waiting(waits));
    uint64_t reached = 99;
    for (uint64_t offset = 100; offset <= 500; offset += 50) {
      raise_to(waits, 1, offset);
      uint32_t waiting = 0;
      for (uint32_t i = 0; i < COUNT; i++) {
        if (ends[i] > reached && ends[i] <= offset)
          join_as(&waiters[i], PS_WAIT_REACHED);
        waiting += ends[i] > offset;
      }
      CHECK(waiting, ps_waiters_waiting(waits));
      reached = offset;
    }
    ps_waiters_free(waits);
  }
}

/* A waiter of one mark is woken by no other mark. */
static void each_mark_has_waits_of_its_own(void) {
  ps_waiters *waits = open_marks(MARKS, 1);
  waiter waiters[MARKS];
  for (uint32_t i = 0; i < MARKS; i++)
    start(&waiters[i], waits, i, 100, FOREVER, i + 1);
  for (uint32_t i = 0; i < MARKS; i++) {
    CHECK(MARKS - i, ps_waiters_waiting(waits));
    raise_to(waits, i, 100 + i);
    join_as(&waiters[i], PS_WAIT_REACHED);
  }
  ps_waiters_free(waits);
}

/* The first, one in the middle and the last of a list expire; the list stays
 * linked, and the waiters that are left are woken. */
static void an_expired_wait_leaves_the_others_waiting(void) {
  ps_waiters *waits = open_marks(1, 1);
  waiter stay[MANY], leave[3];
  for (uint32_t i = 0; i < MANY; i++)
    start(&stay[i], waits, 0, 100 + i, FOREVER, i + 1);
  static const uint64_t ends[] = {50, 100 + MANY / 2, 100 + MANY};
  for (uint32_t i = 0; i < 3; i++) {
    uint64_t begun = ps_monotonic_ns();
    leave[i] =
        (waiter){.waits = waits, .end = ends[i], .timeout_ns = (i + 1) * MS};
    pthread_create(&leave[i].thread, NULL, wait_once, &leave[i]);
    join_as(&leave[i], PS_WAIT_EXPIRED);
    CHECK_TRUE(ps_monotonic_ns() - begun >= (i + 1) * MS);
    CHECK(MANY, ps_waiters_waiting(waits));
  }
  raise_to(waits, 0, 99 + MANY / 2);
  for (uint32_t i = 0; i < MANY / 2; i++)
    join_as(&stay[i], PS_WAIT_REACHED);
  CHECK(MANY / 2, ps_waiters_waiting(waits));
  raise_to(waits, 0, 99 + MANY);
  for (uint32_t i = MANY / 2; i < MANY; i++)
    join_as(&stay[i], PS_WAIT_REACHED);
  CHECK(0, ps_waiters_waiting(waits));
  ps_waiters_free(waits);
}

/* Every wait ends, and a thread that comes later does not sleep. */
static void after_the_end_no_thread_waits(void) {
  for (uint32_t one_by_one = 0; one_by_one < 2; one_by_one++) {
    ps_waiters *waits = open_marks(MARKS, one_by_one);
    waiter waiters[MANY];
    for (uint32_t i = 0; i < MANY; i++)
      start(&waiters[i], waits, i % MARKS, 100 + i, FOREVER, i + 1);
    ps_waiters_end(waits);
    for (uint32_t i = 0; i < MANY; i++)
      join_as(&waiters[i], PS_WAIT_ENDED);
    CHECK(0, ps_waiters_waiting(waits));
    CHECK(PS_WAIT_ENDED, wait_for(waits, 0, 1, FOREVER));
    CHECK(PS_WAIT_ENDED, wait_for(waits, 0, 1, 0));
    raise_to(waits, 0, 1);
    CHECK(PS_WAIT_REACHED, wait_for(waits, 0, 1, FOREVER));
    ps_waiters_end(waits);
    ps_waiters_free(waits);
  }
}

/* A child has none of the threads that raise: it hears so at once. */
static void a_forked_child_does_not_wait(void) {
  ps_waiters *waits = open_marks(1, 0);
  waiter waiting;
  start(&waiting, waits, 0, 100, FOREVER, 1);
  pid_t child = fork();
  if (child == 0) {
    alarm(HANGS_S);
    uint32_t outcome = 0;
    ps_error error;
    int failed =
        ps_waiters_wait(waits, 0, 10, FOREVER, &outcome, &error) != PS_E_FORKED;
    failed |= ps_waiters_raise(waits, 0, 200, &error) != PS_OK;
    ps_waiters_end(waits);
    failed |=
        ps_waiters_wait(waits, 0, 200, FOREVER, &outcome, &error) != PS_OK;
    ps_waiters_free(waits);
    _exit(failed || outcome != PS_WAIT_REACHED);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(0, status);
  CHECK(1, ps_waiters_waiting(waits));
  raise_to(waits, 0, 100);
  join_as(&waiting, PS_WAIT_REACHED);
  ps_waiters_free(waits);
}

/* ---- All at once ------------------------------------------------------- */

typedef struct concurrent {
  pthread_t thread;
  ps_waiters *waits;
  uint64_t random;
  uint32_t outcomes[4];
  uint32_t wrong;
} concurrent;

static uint64_t random_of(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return *state >> 33;
}

/* Waits for something a little ahead, now for ever, now for a moment. */
static void *wait_again_and_again(void *argument) {
  concurrent *t = argument;
  uint32_t outcome = 0;
  while (outcome != PS_WAIT_ENDED) {
    uint32_t mark = (uint32_t)(random_of(&t->random) % MARKS);
    uint64_t seen = ps_waiters_mark(t->waits, mark);
    uint64_t end = seen + random_of(&t->random) % 4;
    uint64_t timeout =
        random_of(&t->random) % 2 ? random_of(&t->random) % 150000 : FOREVER;
    uint64_t begun = ps_monotonic_ns();
    ps_error error;
    t->wrong += ps_waiters_wait(t->waits, mark, end, timeout, &outcome,
                                &error) != PS_OK;
    uint64_t now = ps_waiters_mark(t->waits, mark);
    t->wrong += outcome == PS_WAIT_REACHED && now < end;
    t->wrong += outcome == PS_WAIT_EXPIRED &&
                (timeout == FOREVER || ps_monotonic_ns() - begun < timeout);
    t->wrong += now < seen;
    t->outcomes[outcome & 3]++;
  }
  return NULL;
}

/* Two threads raise; a third of the raises are late, and change nothing. */
static void *raise_again_and_again(void *argument) {
  concurrent *t = argument;
  for (uint32_t i = 0; i < RAISES; i++) {
    uint32_t mark = (uint32_t)(random_of(&t->random) % MARKS);
    uint64_t offset =
        ps_waiters_mark(t->waits, mark) + random_of(&t->random) % 3;
    ps_error error;
    t->wrong += ps_waiters_raise(t->waits, mark, offset - (offset > 0),
                                 &error) != PS_OK;
    uint64_t pause = ps_monotonic_ns() + random_of(&t->random) % 60000;
    while (ps_monotonic_ns() < pause)
      sched_yield();
  }
  return NULL;
}

/* Waits begin, are reached and expire at once: every outcome is true, and each
 * thread returns, also behind one that had expired. */
static void run_concurrently(uint32_t one_by_one) {
  ps_waiters *waits = open_marks(MARKS, one_by_one);
  concurrent threads[WAITERS + 2] = {0};
  for (uint32_t i = 0; i < WAITERS + 2; i++) {
    threads[i] = (concurrent){.waits = waits, .random = check_random()};
    pthread_create(&threads[i].thread, NULL,
                   i < WAITERS ? wait_again_and_again : raise_again_and_again,
                   &threads[i]);
  }
  alarm(HANGS_S); /* ends the test if a thread is never woken */
  for (uint32_t i = WAITERS; i < WAITERS + 2; i++)
    pthread_join(threads[i].thread, NULL);
  ps_waiters_end(waits);
  uint32_t outcomes[4] = {0};
  for (uint32_t i = 0; i < WAITERS + 2; i++) {
    if (i < WAITERS)
      pthread_join(threads[i].thread, NULL);
    CHECK(0, threads[i].wrong);
    for (uint32_t k = 0; k < 4; k++)
      outcomes[k] += threads[i].outcomes[k];
  }
  alarm(0);
  CHECK(0, outcomes[0]);
  CHECK_TRUE(outcomes[PS_WAIT_REACHED] > WAITERS);
  CHECK_TRUE(outcomes[PS_WAIT_EXPIRED] > WAITERS);
  CHECK(WAITERS, outcomes[PS_WAIT_ENDED]);
  CHECK(0, ps_waiters_waiting(waits));
  ps_waiters_free(waits);
}

/* Each wakes two. */
static void concurrent_waits_and_raises_all_end(void) {
  run_concurrently(0);
}

/* Each wakes the next. */
static void concurrent_waits_in_line_all_end(void) {
  run_concurrently(1);
}

CHECK_MAIN(CASE(a_wait_for_a_reached_mark_returns_at_once),
           CASE(a_mark_never_falls), CASE(an_unknown_mark_is_refused),
           CASE(a_raise_wakes_only_the_waiters_it_reaches),
           CASE(each_mark_has_waits_of_its_own),
           CASE(an_expired_wait_leaves_the_others_waiting),
           CASE(after_the_end_no_thread_waits),
           CASE(a_forked_child_does_not_wait),
           CASE(concurrent_waits_and_raises_all_end),
           CASE(concurrent_waits_in_line_all_end))
