/* The commit queue: threads write together and are synced together.
 *
 * Two locks pass from thread to thread: at most one thread holds the write
 * lock, at most one the sync lock. A thread that finds the write lock held
 * queues its request and sleeps. The next holder takes all queued requests and
 * writes them together; if some of them want a sync, it takes the sync lock,
 * which only a holder of the write lock may do, and syncs for all of them.
 * During that sync the write lock is free for requests that are only written;
 * requests for a sync gather for the next one.
 *
 * A leader wakes one of the threads that it served and goes on; each woken
 * thread wakes others. By default it wakes two, so that all processors help. In
 * line it wakes the next one only, and yields to the one before it first: where
 * threads need one lock to go on, such as an interpreter's, many that are awake
 * at once only contend for it.
 */
#ifndef PS_COMMIT_QUEUE_H
#define PS_COMMIT_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "pystore.h"

#define PS_COMMIT_QUEUE_MANY 16U

typedef enum ps_commit_kind {
  PS_COMMIT_WRITE = 0,     /* be written */
  PS_COMMIT_SYNC = 1,      /* be written and synced */
  PS_COMMIT_EXCLUSIVE = 2, /* hold the write lock, serve no other request */
  PS_COMMIT_QUIESCE = 3    /* exclusive, and no sync runs either */
} ps_commit_kind;

/* One thread's request, on its stack until it is served. */
typedef struct ps_commit {
  struct ps_commit *next;
  ps_commit_kind kind;
  _Atomic uint32_t state;
  uint32_t entered; /* the queue's count when this thread was woken */
} ps_commit;

typedef struct ps_commit_queue {
  pthread_mutex_t lock;
#ifndef __linux__
  pthread_cond_t changed;
#endif
  ps_commit *first;
  ps_commit *last;
  uint32_t is_writing;
  uint32_t is_syncing;
  uint32_t quiesces;        /* queued; no later request may overtake them */
  _Atomic uint32_t entered; /* how often a thread came, so far */
  uint32_t one_by_one;      /* a woken thread wakes one other, not two */
} ps_commit_queue;

void ps_commit_queue_init(ps_commit_queue *queue, uint32_t one_by_one);

/* Waits. Answers 1: the caller leads, it holds the write lock (and for
 * PS_COMMIT_QUIESCE the sync lock); 0: another thread has served it. */
int32_t ps_commit_queue_enter(ps_commit_queue *queue, ps_commit *commit);

/* For a leader that writes or syncs: takes all queued requests that it may
 * serve, in order; linked by `next`. A leader that only writes takes none that
 * wants a sync: it must not wait for one. */
ps_commit *ps_commit_queue_take(ps_commit_queue *queue, ps_commit_kind kind);

/* Passes the write lock on. `keep_sync` 1: takes the sync lock first. */
void ps_commit_queue_release_write(ps_commit_queue *queue, int32_t keep_sync);

/* Passes the sync lock on. */
void ps_commit_queue_release_sync(ps_commit_queue *queue);

/* Passes the sync lock on and answers NULL; or, where PS_COMMIT_QUEUE_MANY
 * requests gathered for the next sync, takes the write lock for it and answers
 * them as `ps_commit_queue_take` does: a thread that is awake serves them
 * sooner than one of them that has to be woken. With few of them, this thread's
 * own next append would be missing from their group. */
ps_commit *ps_commit_queue_take_again(ps_commit_queue *queue);

/* Passes on all that an exclusive leader holds. */
void ps_commit_queue_leave(ps_commit_queue *queue, ps_commit *commit);

/* Wakes the threads of a list of served requests, linked by `next`; the
 * requests are gone after this. */
void ps_commit_queue_wake(ps_commit_queue *queue, ps_commit *list);

#endif
