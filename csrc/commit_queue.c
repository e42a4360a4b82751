/* The commit queue: threads write together and are synced together. */
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
static void wait_for_change(ps_commit_queue *queue, ps_commit *commit) {
  (void)queue;
  while (atomic_load(&commit->state) == WAITS)
    syscall(SYS_futex, &commit->state, FUTEX_WAIT_PRIVATE, WAITS, NULL, NULL,
            0);
}

/* After the store the request may be gone with its thread's stack: the wake
 * uses the address only, and a stray wake is harmless to any futex. */
static void change(ps_commit_queue *queue, ps_commit *commit, uint32_t state) {
  (void)queue;
  atomic_store(&commit->state, state);
  syscall(SYS_futex, &commit->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#else
static void wait_for_change(ps_commit_queue *queue, ps_commit *commit) {
  pthread_mutex_lock(&queue->lock);
  while (atomic_load(&commit->state) == WAITS)
    pthread_cond_wait(&queue->changed, &queue->lock);
  pthread_mutex_unlock(&queue->lock);
}

static void change(ps_commit_queue *queue, ps_commit *commit, uint32_t state) {
  pthread_mutex_lock(&queue->lock);
  atomic_store(&commit->state, state);
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->lock);
}
#endif

void ps_commit_queue_init(ps_commit_queue *queue, uint32_t one_by_one) {
  pthread_mutex_init(&queue->lock, NULL);
#ifndef __linux__
  pthread_cond_init(&queue->changed, NULL);
#endif
  queue->first = queue->last = NULL;
  queue->is_writing = queue->is_syncing = queue->quiesces = 0;
  atomic_store(&queue->entered, 0);
  queue->one_by_one = one_by_one;
}

/* May this request lead now? The queue's lock is held. */
static int32_t may_lead(const ps_commit_queue *queue, const ps_commit *commit) {
  if (queue->is_writing)
    return 0;
  if (commit->kind == PS_COMMIT_WRITE || commit->kind == PS_COMMIT_EXCLUSIVE)
    return 1;
  return !queue->is_syncing;
}

static void take_locks(ps_commit_queue *queue, const ps_commit *commit) {
  assert(!queue->is_writing);
  queue->is_writing = 1;
  if (commit->kind == PS_COMMIT_QUIESCE)
    queue->is_syncing = 1;
}

/* Unlinks the first queued request that may lead now; the queue's lock is
 * held. */
static ps_commit *choose_next(ps_commit_queue *queue) {
  ps_commit *before = NULL;
  for (ps_commit *commit = queue->first; commit != NULL;
       commit = commit->next) {
    if (may_lead(queue, commit)) {
      if (before == NULL)
        queue->first = commit->next;
      else
        before->next = commit->next;
      if (queue->last == commit)
        queue->last = before;
      commit->next = NULL;
      if (commit->kind == PS_COMMIT_QUIESCE)
        queue->quiesces--;
      take_locks(queue, commit);
      return commit;
    }
    /* Later writers must not overtake a quiesce for ever. */
    if (commit->kind == PS_COMMIT_QUIESCE)
      return NULL;
    before = commit;
  }
  return NULL;
}

/* Do PS_COMMIT_QUEUE_MANY requests wait for a sync, and none to be exclusive?
 * The queue's lock is held. */
static int32_t has_many(const ps_commit_queue *queue) {
  uint32_t count = 0;
  for (const ps_commit *commit = queue->first; commit != NULL;
       commit = commit->next) {
    if (commit->kind >= PS_COMMIT_EXCLUSIVE)
      return 0;
    count += commit->kind == PS_COMMIT_SYNC;
  }
  return count >= PS_COMMIT_QUEUE_MANY;
}

/* Cuts a list after its first half; answers the other half. */
static ps_commit *split(ps_commit *list) {
  ps_commit *middle = list;
  for (ps_commit *end = list->next; end != NULL && end->next != NULL;
       end = end->next->next)
    middle = middle->next;
  ps_commit *half = middle->next;
  middle->next = NULL;
  return half;
}

/* Wakes other threads that were served together with this one: its request is
 * still its own, and theirs stay, since their threads sleep. */
static void wake_others(ps_commit_queue *queue, ps_commit *commit) {
  if (queue->one_by_one)
    ps_yield_until_entered(&queue->entered, commit->entered);
  ps_commit *list = commit->next;
  if (list == NULL)
    return;
  ps_commit *half = queue->one_by_one ? NULL : split(list);
  list->entered = atomic_load(&queue->entered);
  change(queue, list, SERVED);
  if (half != NULL)
    change(queue, half, SERVED);
}

int32_t ps_commit_queue_enter(ps_commit_queue *queue, ps_commit *commit) {
  commit->next = NULL;
  atomic_store(&commit->state, WAITS);
  pthread_mutex_lock(&queue->lock);
  atomic_fetch_add(&queue->entered, 1);
  if (may_lead(queue, commit) && queue->quiesces == 0) {
    take_locks(queue, commit);
    pthread_mutex_unlock(&queue->lock);
    return 1;
  }
  if (queue->last == NULL)
    queue->first = commit;
  else
    queue->last->next = commit;
  queue->last = commit;
  if (commit->kind == PS_COMMIT_QUIESCE)
    queue->quiesces++;
  pthread_mutex_unlock(&queue->lock);
  wait_for_change(queue, commit);
  if (atomic_load(&commit->state) == LEADS)
    return 1;
  wake_others(queue, commit);
  return 0;
}

ps_commit *ps_commit_queue_take(ps_commit_queue *queue, ps_commit_kind kind) {
  ps_commit *taken = NULL;
  ps_commit **tail = &taken;
  pthread_mutex_lock(&queue->lock);
  assert(queue->is_writing && kind < PS_COMMIT_EXCLUSIVE);
  ps_commit *before = NULL;
  ps_commit *commit = queue->first;
  while (commit != NULL && commit->kind < PS_COMMIT_EXCLUSIVE) {
    ps_commit *next = commit->next;
    if (commit->kind == PS_COMMIT_SYNC &&
        (queue->is_syncing || kind != PS_COMMIT_SYNC)) {
      before = commit; /* it gathers for the next sync */
    } else {
      if (before == NULL)
        queue->first = next;
      else
        before->next = next;
      if (queue->last == commit)
        queue->last = before;
      commit->next = NULL;
      *tail = commit;
      tail = &commit->next;
    }
    commit = next;
  }
  pthread_mutex_unlock(&queue->lock);
  return taken;
}

/* Gives locks up and wakes the next leader, if there is one. */
static void release(ps_commit_queue *queue, uint32_t wrote, uint32_t synced) {
  pthread_mutex_lock(&queue->lock);
  if (wrote)
    queue->is_writing = 0;
  if (synced)
    queue->is_syncing = 0;
  ps_commit *next = choose_next(queue);
  pthread_mutex_unlock(&queue->lock);
  if (next != NULL)
    change(queue, next, LEADS);
}

void ps_commit_queue_release_write(ps_commit_queue *queue, int32_t keep_sync) {
  assert(queue->is_writing);
  if (keep_sync) {
    pthread_mutex_lock(&queue->lock);
    assert(!queue->is_syncing);
    queue->is_syncing = 1;
    pthread_mutex_unlock(&queue->lock);
  }
  release(queue, 1, 0);
}

void ps_commit_queue_release_sync(ps_commit_queue *queue) {
  assert(queue->is_syncing);
  release(queue, 0, 1);
}

ps_commit *ps_commit_queue_take_again(ps_commit_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  assert(queue->is_syncing);
  int32_t goes_on = !queue->is_writing && has_many(queue);
  if (goes_on) {
    queue->is_writing = 1;
    queue->is_syncing = 0;
  }
  pthread_mutex_unlock(&queue->lock);
  if (goes_on)
    return ps_commit_queue_take(queue, PS_COMMIT_SYNC);
  ps_commit_queue_release_sync(queue);
  return NULL;
}

void ps_commit_queue_leave(ps_commit_queue *queue, ps_commit *commit) {
  assert(commit->kind >= PS_COMMIT_EXCLUSIVE);
  release(queue, 1, commit->kind == PS_COMMIT_QUIESCE);
}

void ps_commit_queue_wake(ps_commit_queue *queue, ps_commit *list) {
  if (list == NULL)
    return;
  list->entered = atomic_load(&queue->entered);
  change(queue, list, SERVED);
}
