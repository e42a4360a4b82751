/* The contract of pystore's C core, ninth part: a reader beside other programs.
 *
 * A reader follows the live page. If the page belongs to no writer of this boot
 * and mount, a scan finds the end, and the reader awaits a writer: with its
 * first call after one has begun it follows the page, and hears of what the
 * opening and the writer cut.
 *
 * No program of ours makes a segment shorter. If another one does, memory that
 * is mapped behind the new end raises SIGBUS: in a block that is held, and in a
 * call that reads there at that moment. Calls that begin afterwards answer
 * PS_E_CORRUPT. A copy is read without a mapping.
 *
 * The conventions are those of pystore.h, and this header is the cdef as well.
 */
#ifndef PS_READER_H
#define PS_READER_H

#include "pystore.h"

/* Makes a reader await the writer of `seen->boot_id` and `seen->mount_id` whose
 * incarnation is not `seen->incarnation`; the other words of `seen` are those
 * of the page. Until that writer begins, the end is that of the last segment or
 * what ps_log_limit says, and no synced end is known. An opening that finds a
 * lower end raises the cut generation.
 * Threads: [owner]. Status: PS_E_INVALID (opened for writing, or without a live
 * page). */
PS_API ps_status ps_log_await(ps_log *log, const ps_live_words *seen,
                              ps_error *error);

/* Copies bytes from `offset` on, of one segment, without mapping them: a file
 * that is shorter than it should be is a status, whenever it became so.
 * Effect: *copied is the number of bytes, at most size_max.
 * Threads: [any]. Status: as ps_block_acquire, PS_E_IO. */
PS_API ps_status ps_log_copy(ps_log *log, uint64_t offset, uint64_t size_max,
                             uint8_t *buffer, uint64_t *copied,
                             ps_error *error);

#endif
