/* What the views of held blocks keep when the log is cut (B14). */
#ifndef PS_KEEP_H
#define PS_KEEP_H

#include "segment_list.h"

/* Is a block held above `end` whose bytes a cut there would zero? The blocks of
 * segments that a cut removes need nothing: a removed file keeps its bytes as
 * long as it is mapped. */
int32_t ps_keep_is_held(ps_segments *list, uint64_t end);

/* If so, gives the bytes of all blocks held in that segment a private copy at
 * the same address; the list goes on with a new segment of the same file, and
 * so does *active, if it is that one. The caller sees to it that no block above
 * `end` is given out, and that nobody uses the segment's file.
 * On failure the list is as it was. Status: PS_E_MEMORY, PS_E_IO, PS_E_FULL. */
ps_status ps_keep_held(ps_segments *list, ps_segment **active, uint64_t end,
                       ps_error *error);

#endif
