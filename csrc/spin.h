/* Spinning before sleeping: checks for a while, and yields the processor.
 *
 * To be woken takes longer than most waits last. A thread that spins yields
 * between two checks, since the thread it waits for may need this very
 * processor, and spins no longer than a few wake-ups take.
 */
#ifndef PS_SPIN_H
#define PS_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "env.h"

#define PS_SPIN_NS 300000U /* for an ack */
#define PS_YIELD_NS 20000U /* an interpreter's lock is mostly passed on in it */

/* How often a thread came to receive from a socket, so far. */
extern _Atomic uint32_t ps_receives;

/* Yields until another thread enters: until the counter `entered` differs from
 * `seen`. That thread has given its interpreter's lock up by then, and sleeping
 * for that lock costs more than this wait. The wait is short, for that thread
 * may have gone elsewhere. */
static inline void ps_yield_until_entered(const _Atomic uint32_t *entered,
                                          uint32_t seen) {
  uint64_t deadline = ps_monotonic_ns() + PS_YIELD_NS;
  while (atomic_load(entered) == seen && ps_monotonic_ns() < deadline)
    sched_yield();
}

#endif
