/* A segment with several names, given a file of its own. */
#ifndef PS_DETACH_H
#define PS_DETACH_H

#include "segment_list.h"

/* Makes sure that the file of the listed segment that holds `end`, if one does,
 * has no other name, before it is changed from there on: a backup by hard links
 * shares it. The bytes below `end` are copied, the copy takes the name, and the
 * segment in the list becomes another one; blocks of the old one stay readable.
 * No other thread writes or changes the list.
 * Status: PS_E_IO, PS_E_FULL, PS_E_MEMORY: nothing was changed. */
ps_status ps_detach(ps_segments *list, uint64_t end, ps_error *error);

/* The same for a segment that must be the store's alone already.
 * Status: PS_E_NOT_STORE. */
ps_status ps_detach_refuse(ps_segments *list, uint64_t end, ps_error *error);

#endif
