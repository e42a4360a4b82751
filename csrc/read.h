/* Finding what a reader needs. */
#ifndef PS_READ_H
#define PS_READ_H

#include "log_state.h"

/* The segment at `offset`, acquired; `offset` lies below the end. A reader
 * lists the directory again when the writer has cut, or begun a new segment.
 * Status: PS_E_RANGE: no segment is there. */
ps_status ps_log_find_segment(ps_log *log, uint64_t offset,
                              ps_segment **segment, ps_error *error);

/* Is `offset` below `end`? Status: PS_E_RANGE. */
ps_status ps_log_check_range(ps_log *log, uint64_t offset, uint64_t end,
                             ps_error *error);

#endif
