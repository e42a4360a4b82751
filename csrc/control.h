/* The contract of pystore's C core, seventh part: around appends.
 *
 * What the program around a log does between appends: it undoes one that
 * failed, holds all of them back, and looks at the clock that stamps records.
 * The conventions are those of pystore.h,
 * and this header is the cdef as well.
 */
#ifndef PS_CONTROL_H
#define PS_CONTROL_H

#include "pystore.h"

/* After an append that failed: what it wrote is zeroed, if that was not done
 * yet. Where that fails the log takes no appends any more, and the caller makes
 * an intent to cut at *cut_offset durable (A19).
 * Effect: *cut_offset is the end of the log then, else PS_NO_OFFSET.
 * Threads: [serial]. Status: PS_E_CLOSED, PS_E_FORKED. */
PS_API ps_status ps_log_undo(ps_log *log, uint64_t *cut_offset,
                             ps_error *error);

/* Holds back appends, syncs and cuts of other threads as a cut does, with all
 * that is published synced, until this thread calls ps_log_cut_end with
 * is_done 0. Effect: *end is the published end meanwhile.
 * Threads: [serial]. Status: PS_E_POISONED, PS_E_INVALID (this thread has begun
 * a cut), PS_E_CLOSED. */
PS_API ps_status ps_log_hold(ps_log *log, uint64_t *end, ps_error *error);

/* The clock that stamps records (A21). */
typedef struct ps_clock_state {
  int64_t store_ms; /* the newest store time */
  int64_t now_ms;   /* the time that boot time confirms */
  int64_t ahead_ms; /* of it, the wall clock: a step that is not stamped */
} ps_clock_state;

/* Looks at the clock. With is_accepted 1 the wall clock counts as right from
 * now on, whatever boot time confirms. Threads: [serial].
 * Status: PS_E_CLOSED. */
PS_API ps_status ps_log_clock(ps_log *log, uint32_t is_accepted,
                              ps_clock_state *state, ps_error *error);

#endif
