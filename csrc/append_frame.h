/* The contract of pystore's C core: a received frame is appended and acked.
 *
 * An `all` of a master waits until a slave has taken a frame, appended its
 * block and made the ack: in Python some sixty calls. So a frame of a link in
 * step, which nearly each is, takes one. The conventions are those of
 * pystore.h, and this header is the cdef as well. Layouts: docs/protocol.md,
 * chapter 1.
 */
#ifndef PS_APPEND_FRAME_H
#define PS_APPEND_FRAME_H

#include "pystore.h"

/* A whole TRANSFER_ACK. */
#define PS_TRANSFER_ACK_BYTES 80

/* A slave so many bytes behind acks many blocks at once. */
#define PS_FAR_BEHIND 4194304

/* The status of an ack: a write-back failed. */
#define PS_TRANSFER_ACK_POISONED 5

/* One frame of a link, and its ack. */
typedef struct ps_step {
  /* in: what the frame must have in common with the one before */
  int64_t session_epoch;
  int64_t block_epoch;
  int64_t epoch_start;
  int64_t session_id;
  uint64_t frame_bytes_max; /* of the session */
  int64_t now_ms;           /* the send time of the ack */
  /* out: what else the frame has */
  int64_t sent_ms;
  int64_t confirm_offset;
  int64_t end_offset;
  uint64_t offset;
  uint64_t block_size;
  uint8_t ack[PS_TRANSFER_ACK_BYTES];
} ps_step;

/* Appends the block of a frame as ps_log_append_raw does, if the frame is all
 * of the data and in step: a TRANSFER_DATA of this label with a block and
 * without checksum and flags, which begins at the received end and leaves the
 * log less than PS_FAR_BEHIND behind. *taken: 1: it is appended, `ack` acks it,
 * and `ends` are those of the log after it; 0: nothing was done, and the caller
 * takes the frame in another way. With an error `offset` and `block_size` are
 * set, and *taken is 0.
 * Threads: [serial]. Status: as ps_log_append_raw. */
PS_API ps_status ps_log_append_frame(ps_log *log, const uint8_t *data,
                                     uint64_t size, ps_step *step,
                                     ps_ends *ends, uint32_t *taken,
                                     ps_error *error);

#endif
