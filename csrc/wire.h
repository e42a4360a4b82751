/* The contract of pystore's C core, third part: transfer frames in batches.
 *
 * A whole received buffer with the checksums of its blocks costs less here than
 * in Python; a single head costs more, so heads are not made here. The
 * conventions are those of pystore.h, and this header is the cdef as well.
 * Layouts: docs/protocol.md, chapter 1. Threads: [any].
 */
#ifndef PS_WIRE_H
#define PS_WIRE_H

#include "pystore.h"

/* A TRANSFER_DATA frame without its block, and the header of every frame. */
#define PS_DATA_HEAD 88
#define PS_FRAME_HEADER 24

/* One frame. From `block_epoch` on, only TRANSFER_DATA fills it, others 0. */
typedef struct ps_frame {
  int64_t epoch;
  int64_t sent_ms;
  uint64_t body_at; /* from the first byte of the data */
  uint32_t body_size;
  int32_t type;
  int64_t block_epoch;
  int64_t epoch_start;
  int64_t confirm_offset;
  int64_t offset;
  int64_t end_offset;
  int64_t session_id;
  uint32_t block_size;
  uint32_t crc;
  int32_t flags;
  uint32_t crc_holds; /* 1 if it was compared and is right */
} ps_frame;

/* Finds up to `frames_max` whole frames at the front of received bytes. Frames
 * of types from 16 on are skipped. *taken is where the next call goes on: at
 * half a frame, at a frame that did not fit into the rows, or at one that is
 * bad. A bad frame is an error only if it is the first: those before it count.
 * Of TRANSFER_DATA the size of the block is checked, of other types nothing
 * but the length. `check_crc`: whether the checksums of blocks are compared.
 * Status: PS_E_CORRUPT (a length or a type that no frame has, or a block that
 * does not fill its frame). */
PS_API ps_status ps_frames_scan(const uint8_t *data, uint64_t size,
                                uint32_t frame_bytes_max, uint32_t check_crc,
                                ps_frame *frames, uint32_t frames_max,
                                uint32_t *count, uint64_t *taken,
                                ps_error *error);

#endif
