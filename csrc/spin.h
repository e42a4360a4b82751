/* Looking instead of sleeping: for a while, and giving the processor on.
 *
 * To be woken takes longer than most that is waited for. Who looks yields,
 * since whoever brings it may need this very processor, and looks no longer
 * than it takes to be woken a few times over.
 */
#ifndef PS_SPIN_H
#define PS_SPIN_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "env.h"

#define PS_LOOK_NS 300000U /* for an ack */
#define PS_AHEAD_NS 20000U /* an interpreter is given on within this, mostly */

/* How often a thread came to receive from a socket, so far. */
extern _Atomic uint32_t ps_receives;

/* Lets another thread go ahead until one comes in, which is counted from `seen`
 * on: it has given the interpreter on then, and to sleep for that lock costs
 * more than to wait. Not for long, for it may have gone elsewhere. */
static inline void ps_let_ahead(const _Atomic uint32_t *entered,
                                uint32_t seen) {
  uint64_t deadline = ps_monotonic_ns() + PS_AHEAD_NS;
  while (atomic_load(entered) == seen && ps_monotonic_ns() < deadline)
    sched_yield();
}

#endif
