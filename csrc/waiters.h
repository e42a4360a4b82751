/* The contract of pystore's C core, fourth part: waits for an offset.
 *
 * An append is acknowledged when enough replicas hold it, and what they hold is
 * one offset that rises: a mark. Whoever appended waits here until the mark
 * passes the end of their append; whoever hears of the replicas raises it. One
 * handle has a few marks, one per kind of acknowledgement. The conventions are
 * those of pystore.h, and this header is the cdef as well.
 *
 * Who raises a mark wakes one of those it reached and goes on; who is woken
 * wakes others, as commit_queue.h has it. While they are at it, a raise wakes
 * nobody: whom it reached is woken after those.
 */
#ifndef PS_WAITERS_H
#define PS_WAITERS_H

#include "pystore.h"

#define PS_WAITS_MARKS 8

/* How a wait ended. */
#define PS_WAIT_REACHED 1 /* the mark is at the end, or above it */
#define PS_WAIT_EXPIRED 2 /* it was not within the time */
#define PS_WAIT_ENDED 3   /* nobody waits here any more */

typedef struct ps_waits ps_waits;

/* Makes marks 0 to `marks` - 1, at most PS_WAITS_MARKS, all at offset 0.
 * `in_line`: 1 where the threads that wait share a lock, as `wake_in_line`.
 * Ownership: *waits is the caller's until ps_waits_free. Threads: [any].
 * Status: PS_E_INVALID (no marks, or too many), PS_E_MEMORY. */
PS_API ps_status ps_waits_open(uint32_t marks, uint32_t in_line,
                               ps_waits **waits, ps_error *error);

/* Moves a mark up to `offset`, never back, and wakes who waits for at most
 * that. Costs what it reaches; if that is nobody it takes no lock.
 * Threads: [any]. Status: PS_E_INVALID (no such mark), PS_E_FORKED. */
PS_API ps_status ps_waits_raise(ps_waits *waits, uint32_t mark, uint64_t offset,
                                ps_error *error);

/* Waits until a mark is at `end` or above it. Does not sleep if it is there
 * already, also after ps_waits_end, nor with a timeout of 0. Whoever is told
 * PS_WAIT_EXPIRED may have slept a little longer, but the mark was not there.
 * Effect: *outcome is a PS_WAIT_*. Threads: [any].
 * Status: PS_E_INVALID (no such mark), PS_E_FORKED (only who would sleep). */
PS_API ps_status ps_waits_wait(ps_waits *waits, uint32_t mark, uint64_t end,
                               uint64_t timeout_ns, uint32_t *outcome,
                               ps_error *error);

/* Moves a mark up by one, and wakes who waits for that: a bell for those who
 * wait for news, not for an offset. Without anybody to wake it takes no lock.
 * Threads: [any]. Status: PS_E_INVALID (no such mark). */
PS_API ps_status ps_waits_ring(ps_waits *waits, uint32_t mark, ps_error *error);

/* Moves a mark up by one, as ps_waits_ring does, and wakes no thread: one that
 * comes to wait sees it, one that sleeps does not.
 * Threads: [any]. Status: PS_E_INVALID (no such mark). */
PS_API ps_status ps_waits_advance(ps_waits *waits, uint32_t mark,
                                  ps_error *error);

/* Appends as ps_log_append does, and waits until a mark is at the end of that:
 * in one crossing, since a thread that comes back to an interpreter for a
 * moment only pushes others aside.
 * Effect: *appended as of the append, *outcome a PS_WAIT_* of the wait.
 * Threads, status: as ps_log_append and ps_waits_wait; on failure nothing was
 * appended, but for what ps_log_append says. */
PS_API ps_status ps_waits_append(ps_waits *waits, uint32_t mark,
                                 uint64_t timeout_ns, ps_log *log,
                                 const uint8_t *messages, uint64_t size,
                                 ps_appended *appended, uint32_t *outcome,
                                 ps_error *error);

/* Appends as ps_log_append does, with PS_ACK_SHARED, and rings the log's bell
 * without waking anybody: the caller does at once, in its own thread, what
 * those who sleep would do, and rings the bell itself for what it has to leave.
 * Threads, status: as ps_log_append. */
PS_API ps_status ps_log_append_quietly(ps_log *log, const uint8_t *messages,
                                       uint64_t size, ps_appended *appended,
                                       ps_error *error);

/* From now on each publication of the log rings mark 0 of `bell`, until this is
 * called with another one, or NULL. The log holds the bell as long.
 * Threads: [serial]. Status: PS_E_CLOSED, PS_E_FORKED. */
PS_API ps_status ps_log_ring(ps_log *log, ps_waits *bell, ps_error *error);

/* Answers where a mark is; PS_NO_OFFSET: there is no such mark. Threads: [any].
 */
PS_API uint64_t ps_waits_mark(ps_waits *waits, uint32_t mark);

/* Answers where a mark is kept, for who looks too often to call: one word, read
 * at once, as long as the handle lives; NULL: there is no such mark. */
PS_API const uint64_t *ps_waits_word(ps_waits *waits, uint32_t mark);

/* Answers how many wait now, at all marks. Threads: [any]. */
PS_API uint32_t ps_waits_waiting(ps_waits *waits);

/* Everyone who waits comes back, and nobody waits from here on; marks rise as
 * before. Again is fine, and so is a forked child, where nobody waits.
 * Threads: [any]. */
PS_API void ps_waits_end(ps_waits *waits);

/* Keeps the handle until one more ps_waits_free. Threads: [any]. */
PS_API void ps_waits_hold(ps_waits *waits);

/* Frees the handle, once nobody else holds it; NULL is fine. Threads: [owner].
 */
PS_API void ps_waits_free(ps_waits *waits);

#endif
