/* Whose turn it is: write combining and group commit in one queue. */
#include "commit_queue.h"

#include <assert.h>
#include <stddef.h>

#ifdef __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "spin.h"

#define WAITS 0U
#define LEADS 1U
#define SERVED 2U

#ifdef __linux__
static void wait_for_change(ps_turns *turns, ps_turn *turn) {
  (void)turns;
  while (atomic_load(&turn->state) == WAITS)
    syscall(SYS_futex, &turn->state, FUTEX_WAIT_PRIVATE, WAITS, NULL, NULL, 0);
}

/* After the store the turn may be gone with its thread's stack: the wake uses
 * the address only, and a stray wake is harmless to any futex. */
static void change(ps_turns *turns, ps_turn *turn, uint32_t state) {
  (void)turns;
  atomic_store(&turn->state, state);
  syscall(SYS_futex, &turn->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static void wait_for_change(ps_turns *turns, ps_turn *turn) {
  pthread_mutex_lock(&turns->lock);
  while (atomic_load(&turn->state) == WAITS)
    pthread_cond_wait(&turns->changed, &turns->lock);
  pthread_mutex_unlock(&turns->lock);
}

static void change(ps_turns *turns, ps_turn *turn, uint32_t state) {
  pthread_mutex_lock(&turns->lock);
  atomic_store(&turn->state, state);
  pthread_cond_broadcast(&turns->changed);
  pthread_mutex_unlock(&turns->lock);
}
#endif

void ps_turns_init(ps_turns *turns, uint32_t in_line) {
  pthread_mutex_init(&turns->lock, NULL);
#ifndef __linux__
  pthread_cond_init(&turns->changed, NULL);
#endif
  turns->first = turns->last = NULL;
  turns->is_writing = turns->is_syncing = turns->standstills = 0;
  atomic_store(&turns->entered, 0);
  turns->in_line = in_line;
}

/* May this wish lead now? The lock is held. */
static int32_t may_lead(const ps_turns *turns, const ps_turn *turn) {
  if (turns->is_writing)
    return 0;
  if (turn->wish == PS_WISH_WRITE || turn->wish == PS_WISH_ALONE)
    return 1;
  return !turns->is_syncing;
}

static void take_turn(ps_turns *turns, const ps_turn *turn) {
  assert(!turns->is_writing);
  turns->is_writing = 1;
  if (turn->wish == PS_WISH_STANDSTILL)
    turns->is_syncing = 1;
}

/* Unlinks the first queued turn that may lead now; the lock is held. */
static ps_turn *choose_next(ps_turns *turns) {
  ps_turn *before = NULL;
  for (ps_turn *turn = turns->first; turn != NULL; turn = turn->next) {
    if (may_lead(turns, turn)) {
      if (before == NULL)
        turns->first = turn->next;
      else
        before->next = turn->next;
      if (turns->last == turn)
        turns->last = before;
      turn->next = NULL;
      if (turn->wish == PS_WISH_STANDSTILL)
        turns->standstills--;
      take_turn(turns, turn);
      return turn;
    }
    /* A standstill must not be overtaken for ever by later writers. */
    if (turn->wish == PS_WISH_STANDSTILL)
      return NULL;
    before = turn;
  }
  return NULL;
}

/* Do PS_TURNS_MANY wait to be synced, and nobody to be alone? The lock is
 * held. */
static int32_t has_many(const ps_turns *turns) {
  uint32_t count = 0;
  for (const ps_turn *turn = turns->first; turn != NULL; turn = turn->next) {
    if (turn->wish >= PS_WISH_ALONE)
      return 0;
    count += turn->wish == PS_WISH_SYNC;
  }
  return count >= PS_TURNS_MANY;
}

/* Cuts a list after its first half; answers the other half. */
static ps_turn *split(ps_turn *list) {
  ps_turn *middle = list;
  for (ps_turn *end = list->next; end != NULL && end->next != NULL;
       end = end->next->next)
    middle = middle->next;
  ps_turn *half = middle->next;
  middle->next = NULL;
  return half;
}

/* Wakes others that were served with this one: its turn is still its own, and
 * theirs wait. */
static void wake_others(ps_turns *turns, ps_turn *turn) {
  if (turns->in_line)
    ps_let_ahead(&turns->entered, turn->entered);
  ps_turn *list = turn->next;
  if (list == NULL)
    return;
  ps_turn *half = turns->in_line ? NULL : split(list);
  list->entered = atomic_load(&turns->entered);
  change(turns, list, SERVED);
  if (half != NULL)
    change(turns, half, SERVED);
}

int32_t ps_turns_enter(ps_turns *turns, ps_turn *turn) {
  turn->next = NULL;
  atomic_store(&turn->state, WAITS);
  pthread_mutex_lock(&turns->lock);
  atomic_fetch_add(&turns->entered, 1);
  if (may_lead(turns, turn) && turns->standstills == 0) {
    take_turn(turns, turn);
    pthread_mutex_unlock(&turns->lock);
    return 1;
  }
  if (turns->last == NULL)
    turns->first = turn;
  else
    turns->last->next = turn;
  turns->last = turn;
  if (turn->wish == PS_WISH_STANDSTILL)
    turns->standstills++;
  pthread_mutex_unlock(&turns->lock);
  wait_for_change(turns, turn);
  if (atomic_load(&turn->state) == LEADS)
    return 1;
  wake_others(turns, turn);
  return 0;
}

ps_turn *ps_turns_take(ps_turns *turns, ps_wish wish) {
  ps_turn *taken = NULL;
  ps_turn **tail = &taken;
  pthread_mutex_lock(&turns->lock);
  assert(turns->is_writing && wish < PS_WISH_ALONE);
  ps_turn *before = NULL;
  ps_turn *turn = turns->first;
  while (turn != NULL && turn->wish < PS_WISH_ALONE) {
    ps_turn *next = turn->next;
    if (turn->wish == PS_WISH_SYNC &&
        (turns->is_syncing || wish != PS_WISH_SYNC)) {
      before = turn; /* it gathers for the next sync */
    } else {
      if (before == NULL)
        turns->first = next;
      else
        before->next = next;
      if (turns->last == turn)
        turns->last = before;
      turn->next = NULL;
      *tail = turn;
      tail = &turn->next;
    }
    turn = next;
  }
  pthread_mutex_unlock(&turns->lock);
  return taken;
}

/* Ends a hold and wakes the next leader, if there is one. */
static void give_on(ps_turns *turns, uint32_t wrote, uint32_t synced) {
  pthread_mutex_lock(&turns->lock);
  if (wrote)
    turns->is_writing = 0;
  if (synced)
    turns->is_syncing = 0;
  ps_turn *next = choose_next(turns);
  pthread_mutex_unlock(&turns->lock);
  if (next != NULL)
    change(turns, next, LEADS);
}

void ps_turns_wrote(ps_turns *turns, int32_t keep_sync) {
  assert(turns->is_writing);
  if (keep_sync) {
    pthread_mutex_lock(&turns->lock);
    assert(!turns->is_syncing);
    turns->is_syncing = 1;
    pthread_mutex_unlock(&turns->lock);
  }
  give_on(turns, 1, 0);
}

void ps_turns_synced(ps_turns *turns) {
  assert(turns->is_syncing);
  give_on(turns, 0, 1);
}

ps_turn *ps_turns_again(ps_turns *turns) {
  pthread_mutex_lock(&turns->lock);
  assert(turns->is_syncing);
  int32_t goes_on = !turns->is_writing && has_many(turns);
  if (goes_on) {
    turns->is_writing = 1;
    turns->is_syncing = 0;
  }
  pthread_mutex_unlock(&turns->lock);
  if (goes_on)
    return ps_turns_take(turns, PS_WISH_SYNC);
  ps_turns_synced(turns);
  return NULL;
}

void ps_turns_leave(ps_turns *turns, ps_turn *turn) {
  assert(turn->wish >= PS_WISH_ALONE);
  give_on(turns, 1, turn->wish == PS_WISH_STANDSTILL);
}

void ps_turns_served(ps_turns *turns, ps_turn *list) {
  if (list == NULL)
    return;
  list->entered = atomic_load(&turns->entered);
  change(turns, list, SERVED);
}
