/* Threads that wait for an offset: each that is woken wakes the next.
 *
 * A waiter is in the list of its mark until the mark reaches it, and then in
 * the one wake list of all waiters that are to be woken. A woken thread takes
 * the next waiter out of that list. A raise begins this only where no woken
 * thread is doing it: with two chains of wakes, threads that share an
 * interpreter contend for its lock after all.
 */
#include "waiters.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__) && !defined(PS_PORTABLE)
#include <linux/futex.h>
#include <sys/syscall.h>
#define HAS_FUTEX 1
#else
#define HAS_FUTEX 0
#endif

#include "env.h"
#include "error.h"
#include "spin.h"

#define WAITS 0U
#define REACHED 1U /* in the wake list: another thread will wake it */
#define WOKEN 2U
#define NO_WAITER UINT64_MAX /* the first end of an empty list */
#define FOREVER UINT64_MAX

/* One thread that waits, on its stack until it comes back. */
typedef struct waiter {
  struct waiter *next; /* in the mark's list, or in the wake list */
  struct waiter *before;
  uint64_t end;
  _Atomic uint32_t state;
  uint32_t entered;  /* the handle's count when this thread was woken */
  uint32_t is_alone; /* woken by a raise, and no other waiter after it */
#if !HAS_FUTEX
  pthread_cond_t woken;
#endif
} waiter;

typedef struct mark {
  _Atomic uint64_t offset;
  _Atomic uint64_t
      first_end; /* of the list's first waiter; changes under the lock */
  waiter *first; /* ends ascend */
  waiter *last;
} mark;

struct ps_waiters {
  pthread_mutex_t lock;
  _Atomic uint32_t waiting;
  _Atomic uint32_t entered; /* how often a thread came, so far */
  _Atomic uint32_t has_ended;
  _Atomic uint32_t pays_to_spin; /* the last sleep was no longer than a spin */
  _Atomic uint32_t is_spinning;  /* one thread at a time does */
  _Atomic uint32_t holders;
  waiter *wake_first; /* the wake list */
  waiter *wake_last;
  uint32_t awake;      /* woken threads that have not woken others yet */
  uint32_t one_by_one; /* a woken thread wakes one other, not two */
  uint32_t count;      /* of marks */
  pid_t owner;         /* a child has neither the threads nor a sound lock */
  mark marks[PS_WAITS_MARKS];
};

/* ---- Sleeping ---------------------------------------------------------- */

static struct timespec timespec_of(uint64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                           .tv_nsec = (long)(ns % 1000000000)};
}

#if HAS_FUTEX
/* Sleeps once, as long as the state is `seen`; may return for no reason. */
static void sleep_while(ps_waiters *waits, waiter *w, uint32_t seen,
                        uint64_t deadline) {
  (void)waits;
  struct timespec until = timespec_of(deadline);
  syscall(SYS_futex, &w->state, FUTEX_WAIT_BITSET_PRIVATE, seen,
          deadline == FOREVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* After the store the waiter may be gone with its thread's stack: the wake
 * uses the address only, and a stray wake is harmless to any futex. */
static void wake(ps_waiters *waits, waiter *w) {
  w->entered = atomic_load(&waits->entered);
  atomic_store(&w->state, WOKEN);
  syscall(SYS_futex, &w->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void begin(waiter *w) {
  atomic_store(&w->state, WAITS);
}

static void finish(waiter *w) {
  (void)w;
}
#else
static void sleep_while(ps_waiters *waits, waiter *w, uint32_t seen,
                        uint64_t deadline) {
  pthread_mutex_lock(&waits->lock);
  if (atomic_load(&w->state) != seen) {
    pthread_mutex_unlock(&waits->lock);
    return;
  }
  if (deadline == FOREVER) {
    pthread_cond_wait(&w->woken, &waits->lock);
  } else {
#ifdef __APPLE__
    uint64_t now = ps_monotonic_ns();
    struct timespec rest = timespec_of(deadline > now ? deadline - now : 0);
    pthread_cond_timedwait_relative_np(&w->woken, &waits->lock, &rest);
#else
    struct timespec until = timespec_of(deadline);
    pthread_cond_timedwait(&w->woken, &waits->lock, &until);
#endif
  }
  pthread_mutex_unlock(&waits->lock);
}

/* Under the lock: the waiter is gone once its thread has seen the state. */
static void wake(ps_waiters *waits, waiter *w) {
  pthread_mutex_lock(&waits->lock);
  w->entered = atomic_load(&waits->entered);
  atomic_store(&w->state, WOKEN);
  pthread_cond_signal(&w->woken);
  pthread_mutex_unlock(&waits->lock);
}

static void begin(waiter *w) {
  atomic_store(&w->state, WAITS);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
#ifndef __APPLE__
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
  pthread_cond_init(&w->woken, &attributes);
  pthread_condattr_destroy(&attributes);
}

static void finish(waiter *w) {
  pthread_cond_destroy(&w->woken);
}
#endif

/* ---- The list of a mark; the lock is held ------------------------------ */

/* Searches from the end of the list: a later waiter mostly waits for a higher
 * offset. */
static void insert(ps_waiters *waits, mark *m, waiter *w) {
  waiter *before = m->last;
  while (before != NULL && before->end > w->end)
    before = before->before;
  w->before = before;
  w->next = before == NULL ? m->first : before->next;
  if (w->next == NULL)
    m->last = w;
  else
    w->next->before = w;
  if (before == NULL) {
    m->first = w;
    atomic_store(&m->first_end, w->end);
  } else {
    before->next = w;
  }
  atomic_fetch_add(&waits->waiting, 1);
}

/* Lets a list begin with `first`; NULL: it is empty. */
static void set_first(mark *m, waiter *first) {
  m->first = first;
  if (first == NULL)
    m->last = NULL;
  else
    first->before = NULL;
  atomic_store(&m->first_end, first == NULL ? NO_WAITER : first->end);
}

static void remove_from(ps_waiters *waits, mark *m, waiter *w) {
  if (w->before == NULL) {
    set_first(m, w->next);
  } else {
    w->before->next = w->next;
    if (w->next == NULL)
      m->last = w->before;
    else
      w->next->before = w->before;
  }
  atomic_fetch_sub(&waits->waiting, 1);
}

/* Moves the waiters for at most `offset` from a list into the wake list. */
static void move_reached(ps_waiters *waits, mark *m, uint64_t offset) {
  waiter *first = m->first, *last = NULL;
  uint32_t count = 0;
  waiter *w = first;
  for (; w != NULL && w->end <= offset; w = w->next) {
    atomic_store(&w->state, REACHED);
    last = w;
    count++;
  }
  if (last == NULL)
    return;
  last->next = NULL;
  if (waits->wake_first == NULL)
    waits->wake_first = first;
  else
    waits->wake_last->next = first;
  waits->wake_last = last;
  set_first(m, w);
  atomic_fetch_sub(&waits->waiting, count);
}

/* Takes the next waiter out of the wake list; NULL: none is left. */
static waiter *take_next(ps_waiters *waits) {
  waiter *w = waits->wake_first;
  if (w != NULL) {
    waits->wake_first = w->next;
    waits->awake++;
  }
  return w;
}

/* ---- Waking -------------------------------------------------------------- */

/* Wakes the next waiters, on a thread that was woken. A single waiter does not
 * yield to the thread that raised the mark: that would take a fifth of the time
 * from one append to the next, or more. */
static void wake_others(ps_waiters *waits, const waiter *w) {
  if (waits->one_by_one && !w->is_alone)
    ps_yield_until_entered(&waits->entered, w->entered);
  pthread_mutex_lock(&waits->lock);
  waits->awake--;
  waiter *one = take_next(waits);
  waiter *other = waits->one_by_one ? NULL : take_next(waits);
  pthread_mutex_unlock(&waits->lock);
  if (one != NULL)
    wake(waits, one);
  if (other != NULL)
    wake(waits, other);
}

/* Wakes the first of the wake list, unless a woken thread will; gives the lock
 * up. */
static void start_waking(ps_waiters *waits) {
  waiter *first = waits->awake == 0 ? take_next(waits) : NULL;
  if (first != NULL)
    first->is_alone = waits->wake_first == NULL;
  pthread_mutex_unlock(&waits->lock);
  if (first != NULL)
    wake(waits, first);
}

/* Leaves the list, unless the mark reached the waiter meanwhile. */
static int32_t give_up(ps_waiters *waits, mark *m, waiter *w) {
  pthread_mutex_lock(&waits->lock);
  int32_t is_listed = atomic_load(&w->state) == WAITS;
  if (is_listed)
    remove_from(waits, m, w);
  pthread_mutex_unlock(&waits->lock);
  return is_listed;
}

/* Sleeps until woken, and wakes others then; or until the deadline. A waiter in
 * the wake list has no deadline any more: it is woken soon, and others are
 * woken after it. */
static void sleep_until(ps_waiters *waits, mark *m, waiter *w,
                        uint64_t deadline) {
  uint32_t seen;
  while ((seen = atomic_load(&w->state)) != WOKEN) {
    sleep_while(waits, w, seen, seen == WAITS ? deadline : FOREVER);
    if (atomic_load(&w->state) == WAITS && ps_monotonic_ns() >= deadline &&
        give_up(waits, m, w))
      return;
  }
  wake_others(waits, w);
}

/* ---- The calls --------------------------------------------------------- */

static ps_status no_mark(const ps_waiters *waits, uint32_t number,
                         ps_error *error) {
  return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                 "no mark %u: there are %u, from 0 on", number, waits->count);
}

/* A forked child has none of the threads that wait, and a lock that one of
 * them may have held. */
static int32_t is_forked(const ps_waiters *waits) {
  return waits->owner != getpid();
}

ps_status ps_waiters_open(uint32_t marks, uint32_t one_by_one,
                          ps_waiters **waits, ps_error *error) {
  if (marks < 1 || marks > PS_WAITS_MARKS)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "%u marks: 1 to %d can be waited for", marks,
                   PS_WAITS_MARKS);
  ps_waiters *made = calloc(1, sizeof *made);
  if (made == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET,
                   "no memory for %u marks to wait for", marks);
  pthread_mutex_init(&made->lock, NULL);
  for (uint32_t i = 0; i < marks; i++)
    atomic_store(&made->marks[i].first_end, NO_WAITER);
  atomic_store(&made->holders, 1);
  made->one_by_one = one_by_one;
  made->count = marks;
  made->owner = getpid();
  *waits = made;
  return PS_OK;
}

/* Wakes the waiters for at most `offset`, where the mark is. */
static void wake_reached(ps_waiters *waits, mark *m, uint64_t offset) {
  /* A waiter stores its end first and reads the mark then, a raise does both in
   * the other order: one of the two sees the other. */
  if (atomic_load(&m->first_end) > offset || is_forked(waits))
    return;
  pthread_mutex_lock(&waits->lock);
  move_reached(waits, m, offset);
  start_waking(waits);
}

ps_status ps_waiters_raise(ps_waiters *waits, uint32_t mark_number,
                           uint64_t offset, ps_error *error) {
  if (mark_number >= waits->count)
    return no_mark(waits, mark_number, error);
  mark *m = &waits->marks[mark_number];
  uint64_t now = atomic_load(&m->offset);
  do {
    if (offset <= now)
      return PS_OK;
  } while (!atomic_compare_exchange_weak(&m->offset, &now, offset));
  wake_reached(waits, m, offset);
  return PS_OK;
}

ps_status ps_waiters_notify(ps_waiters *waits, uint32_t mark_number,
                            ps_error *error) {
  if (mark_number >= waits->count)
    return no_mark(waits, mark_number, error);
  mark *m = &waits->marks[mark_number];
  wake_reached(waits, m, atomic_fetch_add(&m->offset, 1) + 1);
  return PS_OK;
}

ps_status ps_waiters_advance(ps_waiters *waits, uint32_t mark_number,
                             ps_error *error) {
  if (mark_number >= waits->count)
    return no_mark(waits, mark_number, error);
  atomic_fetch_add(&waits->marks[mark_number].offset, 1);
  return PS_OK;
}

/* Answers 0 if the mark is there already, or no thread may wait any more. */
static int32_t enlist(ps_waiters *waits, mark *m, waiter *w) {
  pthread_mutex_lock(&waits->lock);
  int32_t waits_now = !atomic_load(&waits->has_ended);
  if (waits_now) {
    insert(waits, m, w);
    if (atomic_load(&m->offset) >= w->end) {
      remove_from(waits, m, w);
      waits_now = 0;
    }
  }
  pthread_mutex_unlock(&waits->lock);
  return waits_now;
}

/* Spins for a while, if no other thread waits and the last sleep was short: to
 * be woken takes longer than most waits last. Answers 1 if the mark came. */
static int32_t spin_for(ps_waiters *waits, mark *m, uint64_t end, uint64_t now,
                        uint64_t deadline) {
  if (!atomic_load(&waits->pays_to_spin) || atomic_load(&waits->waiting) > 0 ||
      atomic_exchange(&waits->is_spinning, 1))
    return 0;
  uint32_t receives = atomic_load(&ps_receives);
  uint64_t until = now + PS_SPIN_NS < deadline ? now + PS_SPIN_NS : deadline;
  while (atomic_load(&m->offset) < end && !atomic_load(&waits->has_ended) &&
         atomic_load(&waits->waiting) == 0 && ps_monotonic_ns() < until) {
    receives = atomic_load(&ps_receives);
    sched_yield(); /* the raising thread may need this very processor */
  }
  atomic_store(&waits->is_spinning, 0);
  if (atomic_load(&m->offset) < end)
    return 0;
  /* The thread that raised the mark, mostly a link's receiver, holds the
   * interpreter's lock until it is back in the core: a thread that asks for
   * that lock now would sleep for it. */
  if (waits->one_by_one)
    ps_yield_until_entered(&ps_receives, receives);
  return 1;
}

/* After a sleep that a spin would have spared, the next wait spins. */
static void note_sleep(ps_waiters *waits, mark *m, uint64_t end,
                       uint64_t begun) {
  uint32_t is_short =
      atomic_load(&m->offset) >= end && ps_monotonic_ns() < begun + PS_SPIN_NS;
  atomic_store(&waits->pays_to_spin, is_short);
}

ps_status ps_waiters_wait(ps_waiters *waits, uint32_t mark_number, uint64_t end,
                          uint64_t timeout_ns, uint32_t *outcome,
                          ps_error *error) {
  if (mark_number >= waits->count)
    return no_mark(waits, mark_number, error);
  mark *m = &waits->marks[mark_number];
  atomic_fetch_add(&waits->entered, 1);
  if (atomic_load(&m->offset) < end && timeout_ns != 0) {
    if (is_forked(waits))
      return ps_fail(error, PS_E_FORKED, end,
                     "made before a fork: the parent's threads raise what is "
                     "waited for");
    uint64_t now = ps_monotonic_ns();
    uint64_t deadline =
        timeout_ns > INT64_MAX - now ? FOREVER : now + timeout_ns;
    waiter w = {.end = end};
    if (!spin_for(waits, m, end, now, deadline)) {
      begin(&w);
      if (enlist(waits, m, &w))
        sleep_until(waits, m, &w, deadline);
      finish(&w);
      note_sleep(waits, m, end, now);
    }
  }
  if (atomic_load(&m->offset) >= end)
    *outcome = PS_WAIT_REACHED;
  else
    *outcome = atomic_load(&waits->has_ended) ? PS_WAIT_ENDED : PS_WAIT_EXPIRED;
  return PS_OK;
}

uint64_t ps_waiters_mark(ps_waiters *waits, uint32_t mark_number) {
  if (mark_number >= waits->count)
    return PS_NO_OFFSET;
  return atomic_load(&waits->marks[mark_number].offset);
}

const uint64_t *ps_waiters_word(ps_waiters *waits, uint32_t mark_number) {
  if (mark_number >= waits->count)
    return NULL;
  _Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "one word");
  return (const uint64_t *)&waits->marks[mark_number].offset;
}

uint32_t ps_waiters_waiting(ps_waiters *waits) {
  return atomic_load(&waits->waiting);
}

void ps_waiters_end(ps_waiters *waits) {
  if (is_forked(waits))
    return;
  pthread_mutex_lock(&waits->lock);
  atomic_store(&waits->has_ended, 1);
  for (uint32_t i = 0; i < waits->count; i++)
    move_reached(waits, &waits->marks[i], UINT64_MAX);
  start_waking(waits);
}

void ps_waiters_hold(ps_waiters *waits) {
  atomic_fetch_add(&waits->holders, 1);
}

void ps_waiters_free(ps_waiters *waits) {
  if (waits == NULL || atomic_fetch_sub(&waits->holders, 1) > 1)
    return;
  if (!is_forked(waits))
    pthread_mutex_destroy(&waits->lock);
  free(waits);
}
