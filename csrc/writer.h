/* What the holder of the write lock does: stage, write, publish, roll. */
#ifndef PS_WRITER_H
#define PS_WRITER_H

#include "log_state.h"

/* May this log be appended to now? Status as of an append. */
ps_status ps_writer_check(ps_log *log, uint32_t ack, ps_error *error);
/* Is the authority still good, for what this ack promises? */
ps_status ps_writer_authority(ps_log *log, uint32_t ack, ps_error *error);
/* Has the active segment room for `bytes` and a blank record? */
int32_t ps_writer_has_room(const ps_log *log, uint64_t bytes);
/* Does what is staged reach the end of a piece? */
static inline int32_t ps_writer_has_piece(const ps_writer *writer) {
  return writer->staged_from % PS_PIECE + writer->staged >= PS_PIECE;
}
/* Writes what is staged: whole pieces only, or `all`. */
ps_status ps_writer_flush(ps_log *log, int32_t all, ps_error *error);
/* Writes everything staged and moves the published end over it. */
ps_status ps_writer_publish(ps_log *log, ps_error *error);
/* Drops what was not published and zeroes what of it was written. */
void ps_writer_discard(ps_log *log);
/* Ends the active segment, begins the next; nothing may be staged. */
ps_status ps_writer_roll(ps_log *log, ps_error *error);

#endif
