/* The contract of pystore's C core, fourth part: waiting for an offset.
 *
 * An append is acknowledged when enough replicas hold it, and what they hold is
 * one offset that rises: a mark. An appending thread waits here until the mark
 * passes the end of its append; the thread that receives the replicas' acks
 * raises it. One handle has a few marks, one per kind of acknowledgement. The
 * conventions are those of pystore.h, and this header is the cdef as well.
 *
 * A thread that raises a mark wakes one of the waiters it reached and goes on;
 * a woken thread wakes others, as in commit_queue.h. While woken threads are
 * doing so, a raise wakes none: the waiters that it reached are woken after
 * those.
 */
#ifndef PS_WAITERS_H
#define PS_WAITERS_H

#include "pystore.h"

#define PS_WAITS_MARKS 8

/* How a wait ended. */
#define PS_WAIT_REACHED 1 /* the mark is at the end, or above it */
#define PS_WAIT_EXPIRED 2 /* the mark was not there within the time */
#define PS_WAIT_ENDED 3   /* ps_waiters_end was called */

typedef struct ps_waiters ps_waiters;

/* Makes marks 0 to `marks` - 1, at most PS_WAITS_MARKS, all at offset 0.
 * `one_by_one`: 1 where the threads that wait share a lock, as in
 * `wake_one_by_one`.
 * Ownership: *waits is the caller's until ps_waiters_free. Threads: [any].
 * Status: PS_E_INVALID (no marks, or too many), PS_E_MEMORY. */
PS_API ps_status ps_waiters_open(uint32_t marks, uint32_t one_by_one,
                                 ps_waiters **waits, ps_error *error);

/* Moves a mark up to `offset`, never back, and wakes the threads that wait for
 * at most that. Its cost grows with the waiters that it reaches; if there are
 * none, it takes no lock.
 * Threads: [any]. Status: PS_E_INVALID (no such mark), PS_E_FORKED. */
PS_API ps_status ps_waiters_raise(ps_waiters *waits, uint32_t mark,
                                  uint64_t offset, ps_error *error);

/* Waits until a mark is at `end` or above it. Does not sleep if it is there
 * already, also after ps_waiters_end, nor with a timeout of 0. With
 * PS_WAIT_EXPIRED the thread may have slept a little longer, but the mark was
 * not there.
 * Effect: *outcome is a PS_WAIT_*.
 * Threads: [any]. Status: PS_E_INVALID (no such mark), PS_E_FORKED (only if it
 * would sleep). */
PS_API ps_status ps_waiters_wait(ps_waiters *waits, uint32_t mark, uint64_t end,
                                 uint64_t timeout_ns, uint32_t *outcome,
                                 ps_error *error);

/* Moves a mark up by one, and wakes the threads that wait for that: for threads
 * that wait for any change, not for an offset. Without such a waiter it takes
 * no lock.
 * Threads: [any]. Status: PS_E_INVALID (no such mark). */
PS_API ps_status ps_waiters_notify(ps_waiters *waits, uint32_t mark,
                                   ps_error *error);

/* Moves a mark up by one, as ps_waiters_notify does, and wakes no thread: a
 * thread that comes to wait sees it, one that sleeps does not.
 * Threads: [any]. Status: PS_E_INVALID (no such mark). */
PS_API ps_status ps_waiters_advance(ps_waiters *waits, uint32_t mark,
                                    ps_error *error);

/* Appends as ps_log_append does, and waits until a mark is at the end of that.
 * One call for both, since a thread that returns to an interpreter for a moment
 * only contends for its lock.
 * Effect: *appended as of the append, *outcome a PS_WAIT_* of the wait.
 * Threads, status: as ps_log_append and ps_waiters_wait; on failure nothing was
 * appended, but for what ps_log_append says. */
PS_API ps_status ps_waiters_append(ps_waiters *waits, uint32_t mark,
                                   uint64_t timeout_ns, ps_log *log,
                                   const uint8_t *messages, uint64_t size,
                                   ps_appended *appended, uint32_t *outcome,
                                   ps_error *error);

/* Appends as ps_log_append does, with PS_ACK_SHARED, and advances mark 0 of the
 * log's waiters without waking any: the caller does at once, in its own thread,
 * what they would do, and calls ps_waiters_notify for what it leaves to them.
 * Threads, status: as ps_log_append. */
PS_API ps_status ps_log_append_no_wake(ps_log *log, const uint8_t *messages,
                                       uint64_t size, ps_appended *appended,
                                       ps_error *error);

/* From now on each publication of the log moves mark 0 of `waiters` up by one,
 * as ps_waiters_notify does, until this is called with another one, or NULL.
 * The log holds it as long.
 * Threads: [serial]. Status: PS_E_CLOSED, PS_E_FORKED. */
PS_API ps_status ps_log_notify(ps_log *log, ps_waiters *waiters,
                               ps_error *error);

/* Answers where a mark is; PS_NO_OFFSET: there is no such mark. Threads: [any].
 */
PS_API uint64_t ps_waiters_mark(ps_waiters *waits, uint32_t mark);

/* Answers where a mark is kept, for threads that read it too often to call: one
 * word, read at once, as long as the handle lives; NULL: no such mark. */
PS_API const uint64_t *ps_waiters_word(ps_waiters *waits, uint32_t mark);

/* Answers how many threads wait now, at all marks. Threads: [any]. */
PS_API uint32_t ps_waiters_waiting(ps_waiters *waits);

/* Ends every wait, and no thread waits from here on; marks rise as before.
 * Calling it again is fine, and so is a forked child, where no thread waits.
 * Threads: [any]. */
PS_API void ps_waiters_end(ps_waiters *waits);

/* Keeps the handle until one more ps_waiters_free. Threads: [any]. */
PS_API void ps_waiters_hold(ps_waiters *waits);

/* Frees the handle, once no other holder keeps it; NULL is fine.
 * Threads: [owner]. */
PS_API void ps_waiters_free(ps_waiters *waits);

#endif
