/* A segment whose file another program replaced. */
#ifndef PS_RENEW_H
#define PS_RENEW_H

#include "segment_list.h"

/* Has the name of the segment at `offset` a whole file that is not the one read
 * so far, as a repair leaves it? Then the list gets a segment of that file, and
 * blocks of the old one stay readable. *seen is `renewals` of the list before
 * the caller read; also what another thread found since then counts.
 * Answers 1 if it is worth to read once more. */
int32_t ps_renew(ps_segments *list, uint64_t offset, uint64_t *seen);

#endif
