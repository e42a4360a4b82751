/* The contract of pystore's C core, eighth part: reading an ill log.
 *
 * A log is ill if a segment of it is missing, has lost bytes at its end, or
 * cannot be opened. PS_MODE_READ refuses it; PS_MODE_READ_ILL serves the rest:
 * a read of the bytes that are not there is PS_E_CORRUPT, a scan stops before
 * them with PS_STOP_UNREADABLE, and both go on behind them when asked to. The
 * conventions are those of pystore.h, and this header is the cdef as well.
 */
#ifndef PS_ILL_H
#define PS_ILL_H

#include "pystore.h"

/* A mode of ps_options. A segment that is restored meanwhile is read from its
 * new file; ps_log_ill says what the last read found. */
#define PS_MODE_READ_ILL 2

/* Finds the first range at or behind `from` whose bytes are not there, within
 * one segment.
 * Effect: [*offset, *end), and *error is what a read there says, with the errno
 * if the file cannot be opened; without a range *offset is PS_NO_OFFSET.
 * Threads: [any].
 * Status: PS_E_CLOSED, PS_E_FORKED, PS_E_IO. */
PS_API ps_status ps_log_ill(ps_log *log, uint64_t from, uint64_t *offset,
                            uint64_t *end, ps_error *error);

#endif
