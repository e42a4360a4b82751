/* Waits for an offset: who is reached comes back, and nobody else. */
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

enum { MARKS = 3, MANY = 24, TANGLED = 12, RAISES = 6000, HANGS_S = 20 };

/* One thread with one wait. */
typedef struct waiter {
  pthread_t thread;
  ps_waits *waits;
  uint64_t end;
  uint64_t timeout_ns;
  uint32_t mark;
  uint32_t outcome;
  ps_status status;
} waiter;

static ps_waits *open_marks(uint32_t marks, uint32_t in_line) {
  ps_waits *waits = NULL;
  ps_error error;
  CHECK(PS_OK, ps_waits_open(marks, in_line, &waits, &error));
  return waits;
}

static void raise_to(ps_waits *waits, uint32_t mark, uint64_t offset) {
  ps_error error;
  CHECK(PS_OK, ps_waits_raise(waits, mark, offset, &error));
}

static uint32_t wait_for(ps_waits *waits, uint32_t mark, uint64_t end,
                         uint64_t timeout_ns) {
  uint32_t outcome = 0;
  ps_error error;
  CHECK(PS_OK, ps_waits_wait(waits, mark, end, timeout_ns, &outcome, &error));
  return outcome;
}

static void *wait_once(void *argument) {
  waiter *w = argument;
  ps_error error;
  w->status = ps_waits_wait(w->waits, w->mark, w->end, w->timeout_ns,
                            &w->outcome, &error);
  return NULL;
}

/* Comes back when the thread waits, as the last of `waiting`. */
static void start(waiter *w, ps_waits *waits, uint32_t mark, uint64_t end,
                  uint64_t timeout_ns, uint32_t waiting) {
  *w = (waiter){
      .waits = waits, .mark = mark, .end = end, .timeout_ns = timeout_ns};
  pthread_create(&w->thread, NULL, wait_once, w);
  while (ps_waits_waiting(waits) < waiting)
    sched_yield();
}

static void ends_as(waiter *w, uint32_t outcome) {
  pthread_join(w->thread, NULL);
  CHECK(PS_OK, w->status);
  CHECK(outcome, w->outcome);
}

/* ---- Without sleep ----------------------------------------------------- */

/* A mark that is there is a wait's end, whatever time there is. */
static void a_mark_that_is_there_is_not_waited_for(void) {
  ps_waits *waits = open_marks(MARKS, 0);
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 0, 0));
  raise_to(waits, 1, 500);
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 500, 0));
  CHECK(PS_WAIT_REACHED, wait_for(waits, 1, 500, FOREVER));
  CHECK(PS_WAIT_EXPIRED, wait_for(waits, 1, 501, 0));
  CHECK(PS_WAIT_EXPIRED, wait_for(waits, 0, 1, 0));
  CHECK(0, ps_waits_waiting(waits));
  ps_waits_free(waits);
}

/* Raises come in any order from several threads: the highest stays. */
static void a_mark_never_falls(void) {
  ps_waits *waits = open_marks(MARKS, 0);
  raise_to(waits, 2, 700);
  raise_to(waits, 2, 300);
  CHECK(700, ps_waits_mark(waits, 2));
  CHECK(0, ps_waits_mark(waits, 0));
  CHECK(PS_WAIT_REACHED, wait_for(waits, 2, 700, 0));
  ps_waits_free(waits);
}

/* A number that no mark has, and handles without marks or with too many. */
static void what_no_handle_has_is_refused(void) {
  ps_waits *waits = NULL;
  ps_error error;
  uint32_t outcome;
  CHECK(PS_E_INVALID, ps_waits_open(0, 0, &waits, &error));
  CHECK(PS_E_INVALID, ps_waits_open(PS_WAITS_MARKS + 1, 0, &waits, &error));
  waits = open_marks(PS_WAITS_MARKS, 0);
  raise_to(waits, PS_WAITS_MARKS - 1, 1);
  CHECK(PS_E_INVALID, ps_waits_raise(waits, PS_WAITS_MARKS, 1, &error));
  CHECK(PS_E_INVALID,
        ps_waits_wait(waits, PS_WAITS_MARKS, 1, 0, &outcome, &error));
  CHECK(PS_NO_OFFSET, ps_waits_mark(waits, PS_WAITS_MARKS));
  ps_waits_free(waits);
  ps_waits_free(NULL);
}

/* ---- With sleep -------------------------------------------------------- */

/* Ends from the highest to the lowest, between, and equal: each raise wakes
 * those it reaches. */
static void a_raise_wakes_whom_it_reaches_and_no_others(void) {
  for (uint32_t in_line = 0; in_line < 2; in_line++) {
    static const uint64_t ends[] = {400, 300, 100, 350, 200, 200, 500, 101};
    enum { COUNT = sizeof ends / sizeof ends[0] };
    ps_waits *waits = open_marks(MARKS, in_line);
    waiter waiters[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
      start(&waiters[i], waits, 1, ends[i], FOREVER, i + 1);
    raise_to(waits, 1, 99);
    CHECK(COUNT, ps_waits_waiting(waits));
    uint64_t reached = 99;
    for (uint64_t offset = 100; offset <= 500; offset += 50) {
      raise_to(waits, 1, offset);
      uint32_t waiting = 0;
      for (uint32_t i = 0; i < COUNT; i++) {
        if (ends[i] > reached && ends[i] <= offset)
          ends_as(&waiters[i], PS_WAIT_REACHED);
        waiting += ends[i] > offset;
      }
      CHECK(waiting, ps_waits_waiting(waits));
      reached = offset;
    }
    ps_waits_free(waits);
  }
}

/* What is waited for at one mark no other one brings. */
static void each_mark_has_waits_of_its_own(void) {
  ps_waits *waits = open_marks(MARKS, 1);
  waiter waiters[MARKS];
  for (uint32_t i = 0; i < MARKS; i++)
    start(&waiters[i], waits, i, 100, FOREVER, i + 1);
  for (uint32_t i = 0; i < MARKS; i++) {
    CHECK(MARKS - i, ps_waits_waiting(waits));
    raise_to(waits, i, 100 + i);
    ends_as(&waiters[i], PS_WAIT_REACHED);
  }
  ps_waits_free(waits);
}

/* The first, one in the middle and the last of a list expire; the list holds
 * together, and whoever is left is woken. */
static void who_expires_leaves_the_others_waiting(void) {
  ps_waits *waits = open_marks(1, 1);
  waiter stay[MANY], leave[3];
  for (uint32_t i = 0; i < MANY; i++)
    start(&stay[i], waits, 0, 100 + i, FOREVER, i + 1);
  static const uint64_t ends[] = {50, 100 + MANY / 2, 100 + MANY};
  for (uint32_t i = 0; i < 3; i++) {
    uint64_t begun = ps_monotonic_ns();
    leave[i] =
        (waiter){.waits = waits, .end = ends[i], .timeout_ns = (i + 1) * MS};
    pthread_create(&leave[i].thread, NULL, wait_once, &leave[i]);
    ends_as(&leave[i], PS_WAIT_EXPIRED);
    CHECK_TRUE(ps_monotonic_ns() - begun >= (i + 1) * MS);
    CHECK(MANY, ps_waits_waiting(waits));
  }
  raise_to(waits, 0, 99 + MANY / 2);
  for (uint32_t i = 0; i < MANY / 2; i++)
    ends_as(&stay[i], PS_WAIT_REACHED);
  CHECK(MANY / 2, ps_waits_waiting(waits));
  raise_to(waits, 0, 99 + MANY);
  for (uint32_t i = MANY / 2; i < MANY; i++)
    ends_as(&stay[i], PS_WAIT_REACHED);
  CHECK(0, ps_waits_waiting(waits));
  ps_waits_free(waits);
}

/* Everyone comes back at the end, and who comes later does not sleep. */
static void after_the_end_nobody_waits(void) {
  for (uint32_t in_line = 0; in_line < 2; in_line++) {
    ps_waits *waits = open_marks(MARKS, in_line);
    waiter waiters[MANY];
    for (uint32_t i = 0; i < MANY; i++)
      start(&waiters[i], waits, i % MARKS, 100 + i, FOREVER, i + 1);
    ps_waits_end(waits);
    for (uint32_t i = 0; i < MANY; i++)
      ends_as(&waiters[i], PS_WAIT_ENDED);
    CHECK(0, ps_waits_waiting(waits));
    CHECK(PS_WAIT_ENDED, wait_for(waits, 0, 1, FOREVER));
    CHECK(PS_WAIT_ENDED, wait_for(waits, 0, 1, 0));
    raise_to(waits, 0, 1);
    CHECK(PS_WAIT_REACHED, wait_for(waits, 0, 1, FOREVER));
    ps_waits_end(waits);
    ps_waits_free(waits);
  }
}

/* A child has none of the threads that raise: it hears so at once. */
static void a_forked_child_does_not_wait(void) {
  ps_waits *waits = open_marks(1, 0);
  waiter waiting;
  start(&waiting, waits, 0, 100, FOREVER, 1);
  pid_t child = fork();
  if (child == 0) {
    alarm(HANGS_S);
    uint32_t outcome = 0;
    ps_error error;
    int failed =
        ps_waits_wait(waits, 0, 10, FOREVER, &outcome, &error) != PS_E_FORKED;
    failed |= ps_waits_raise(waits, 0, 200, &error) != PS_OK;
    ps_waits_end(waits);
    failed |= ps_waits_wait(waits, 0, 200, FOREVER, &outcome, &error) != PS_OK;
    ps_waits_free(waits);
    _exit(failed || outcome != PS_WAIT_REACHED);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(0, status);
  CHECK(1, ps_waits_waiting(waits));
  raise_to(waits, 0, 100);
  ends_as(&waiting, PS_WAIT_REACHED);
  ps_waits_free(waits);
}

/* ---- All at once ------------------------------------------------------- */

typedef struct tangle {
  pthread_t thread;
  ps_waits *waits;
  uint64_t random;
  uint32_t outcomes[4];
  uint32_t wrong;
} tangle;

static uint64_t random_of(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return *state >> 33;
}

/* Waits for something a little ahead, now for ever, now for a moment. */
static void *wait_again_and_again(void *argument) {
  tangle *t = argument;
  uint32_t outcome = 0;
  while (outcome != PS_WAIT_ENDED) {
    uint32_t mark = (uint32_t)(random_of(&t->random) % MARKS);
    uint64_t seen = ps_waits_mark(t->waits, mark);
    uint64_t end = seen + random_of(&t->random) % 4;
    uint64_t timeout =
        random_of(&t->random) % 2 ? random_of(&t->random) % 150000 : FOREVER;
    uint64_t begun = ps_monotonic_ns();
    ps_error error;
    t->wrong +=
        ps_waits_wait(t->waits, mark, end, timeout, &outcome, &error) != PS_OK;
    uint64_t now = ps_waits_mark(t->waits, mark);
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
  tangle *t = argument;
  for (uint32_t i = 0; i < RAISES; i++) {
    uint32_t mark = (uint32_t)(random_of(&t->random) % MARKS);
    uint64_t offset = ps_waits_mark(t->waits, mark) + random_of(&t->random) % 3;
    ps_error error;
    t->wrong +=
        ps_waits_raise(t->waits, mark, offset - (offset > 0), &error) != PS_OK;
    uint64_t pause = ps_monotonic_ns() + random_of(&t->random) % 60000;
    while (ps_monotonic_ns() < pause)
      sched_yield();
  }
  return NULL;
}

/* Waits enter, are reached and expire at once: every outcome is true, and no
 * thread is forgotten behind one that had expired. */
static void tangled(uint32_t in_line) {
  ps_waits *waits = open_marks(MARKS, in_line);
  tangle threads[TANGLED + 2] = {0};
  for (uint32_t i = 0; i < TANGLED + 2; i++) {
    threads[i] = (tangle){.waits = waits, .random = check_random()};
    pthread_create(&threads[i].thread, NULL,
                   i < TANGLED ? wait_again_and_again : raise_again_and_again,
                   &threads[i]);
  }
  alarm(HANGS_S); /* a thread that nobody wakes */
  for (uint32_t i = TANGLED; i < TANGLED + 2; i++)
    pthread_join(threads[i].thread, NULL);
  ps_waits_end(waits);
  uint32_t outcomes[4] = {0};
  for (uint32_t i = 0; i < TANGLED + 2; i++) {
    if (i < TANGLED)
      pthread_join(threads[i].thread, NULL);
    CHECK(0, threads[i].wrong);
    for (uint32_t k = 0; k < 4; k++)
      outcomes[k] += threads[i].outcomes[k];
  }
  alarm(0);
  CHECK(0, outcomes[0]);
  CHECK_TRUE(outcomes[PS_WAIT_REACHED] > TANGLED);
  CHECK_TRUE(outcomes[PS_WAIT_EXPIRED] > TANGLED);
  CHECK(TANGLED, outcomes[PS_WAIT_ENDED]);
  CHECK(0, ps_waits_waiting(waits));
  ps_waits_free(waits);
}

/* Each wakes two. */
static void a_tangle_of_waits_comes_apart(void) {
  tangled(0);
}

/* Each wakes the next. */
static void a_tangle_of_waits_in_line_comes_apart(void) {
  tangled(1);
}

CHECK_MAIN(CASE(a_mark_that_is_there_is_not_waited_for),
           CASE(a_mark_never_falls), CASE(what_no_handle_has_is_refused),
           CASE(a_raise_wakes_whom_it_reaches_and_no_others),
           CASE(each_mark_has_waits_of_its_own),
           CASE(who_expires_leaves_the_others_waiting),
           CASE(after_the_end_nobody_waits), CASE(a_forked_child_does_not_wait),
           CASE(a_tangle_of_waits_comes_apart),
           CASE(a_tangle_of_waits_in_line_comes_apart))
