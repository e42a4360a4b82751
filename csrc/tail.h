/* The tail: the bytes above the log's end, which must be zero. For the holder
 * of the write lock. */
#ifndef PS_TAIL_H
#define PS_TAIL_H

#include "log_state.h"

/* Ends the log at `end` on disk (A2): removes later segments, newest first,
 * zeroes the rest of the one that holds it, which becomes the active one. */
ps_status ps_tail_clear(ps_log *log, uint64_t end, uint32_t *removed,
                        uint64_t *zeroed, ps_error *error);

/* Makes the tail zero after a failure, or above half a raw record. */
ps_status ps_tail_zero(ps_log *log, ps_error *error);
/* The same, and gives it its space back. */
ps_status ps_tail_repair(ps_log *log, ps_error *error);

#endif
