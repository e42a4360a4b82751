/* The contract of pystore's C core, seventh part: around appends.
 *
 * What the program around a log does between appends: it undoes one that
 * failed, holds all of them back, looks at the clock that stamps records, and
 * gives the log a repaired segment.
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

/* Gives the log a repaired segment: the file BASE.pull, with 20 digits, in the
 * directory of new segments takes the name of a segment, or becomes the one
 * before the first. The caller has written all of it, and what belongs to it,
 * and has given the damaged file another name if it is to stay. Before the
 * first one nothing that has the name is replaced.
 * Effect: name and bytes are on disk, the segment is read from the new file,
 * blocks of the old one stay; a new beginning is published last.
 * Threads: [serial]. Status: PS_E_INVALID (the log has no synced segment at
 * `base`, and none can begin there; or the size differs from that of a
 * segment), PS_E_IO, PS_E_MEMORY, PS_E_CLOSED. */
PS_API ps_status ps_log_install(ps_log *log, uint64_t base, ps_error *error);

/* Starts to write bytes of any open file back, without waiting: a large file
 * that is written in pieces delays no sync of the log. Only a hint.
 * Threads: [any]. */
PS_API void ps_file_writeback(int32_t file, uint64_t at, uint64_t size);

#endif
