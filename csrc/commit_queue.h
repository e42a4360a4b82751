/* Whose turn it is: write combining and group commit in one queue.
 *
 * At most one thread holds the write turn and at most one the sync turn. A
 * thread that finds the write turn taken queues its request and sleeps; the
 * next holder takes all that queued, writes them together, and if some want
 * to be synced it takes the sync turn (only a holder of the write turn may)
 * and syncs for all of them. While it syncs, the write turn is free for those
 * who only want to be written; those who want a sync gather for the next one.
 *
 * A leader wakes one of those whom it served and goes on; who is woken wakes
 * others. Each wakes two, so that all processors help; or, in line, the next
 * one only, and lets the one before it go ahead: where threads need one lock to
 * go on, such as an interpreter's, many that awake at once only push each other
 * aside.
 */
#ifndef PS_COMMIT_QUEUE_H
#define PS_COMMIT_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "pystore.h"

#define PS_TURNS_MANY 16U

typedef enum ps_wish {
  PS_WISH_WRITE = 0,     /* be written */
  PS_WISH_SYNC = 1,      /* be written and synced */
  PS_WISH_ALONE = 2,     /* hold the write turn, serve nobody else */
  PS_WISH_STANDSTILL = 3 /* alone, and nobody syncs either */
} ps_wish;

/* One thread's wish, on its stack until it is served. */
typedef struct ps_turn {
  struct ps_turn *next;
  ps_wish wish;
  _Atomic uint32_t state;
  uint32_t entered; /* of the queue, when it was woken */
} ps_turn;

typedef struct ps_turns {
  pthread_mutex_t lock;
#ifndef __linux__
  pthread_cond_t changed;
#endif
  ps_turn *first;
  ps_turn *last;
  uint32_t is_writing;
  uint32_t is_syncing;
  uint32_t standstills;     /* queued; nobody may overtake them */
  _Atomic uint32_t entered; /* how often a thread came, so far */
  uint32_t in_line;         /* who is woken wakes one other, not two */
} ps_turns;

void ps_turns_init(ps_turns *turns, uint32_t in_line);

/* Waits. Answers 1: the caller leads, it holds the write turn (and for a
 * standstill the sync turn); 0: another thread has served the wish. */
int32_t ps_turns_enter(ps_turns *turns, ps_turn *turn);

/* For a leader with a wish to write or sync: takes all queued turns that it
 * may serve, in order; linked by `next`. Who only wants to be written takes
 * none that wants a sync: it must not wait for one. */
ps_turn *ps_turns_take(ps_turns *turns, ps_wish wish);

/* Gives the write turn on. `keep_sync` 1: takes the sync turn first. */
void ps_turns_wrote(ps_turns *turns, int32_t keep_sync);

/* Gives the sync turn on. */
void ps_turns_synced(ps_turns *turns);

/* Gives the sync turn on and answers NULL; or, where PS_TURNS_MANY gathered
 * for the next sync, takes the write turn for it and answers them as
 * `ps_turns_take` does: who is awake serves them sooner than one of them that
 * has to be woken. With few it would be missed among them. */
ps_turn *ps_turns_again(ps_turns *turns);

/* Gives everything on that a lone leader holds. */
void ps_turns_leave(ps_turns *turns, ps_turn *turn);

/* Wakes the threads of a list of turns, linked by `next`, whose wishes were
 * served; the turns are gone after this. */
void ps_turns_served(ps_turns *turns, ps_turn *list);

#endif
