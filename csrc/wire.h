/* The contract of pystore's C core, third part: transfer frames in batches.
 *
 * A single head costs less in Python than one crossing does; many heads, or a
 * whole received buffer with the checksums of its blocks, cost less here. The
 * conventions are those of pystore.h, and this header is the cdef as well.
 * Layouts: docs/protocol.md, chapter 1. Threads: [any], for both calls.
 */
#ifndef PS_WIRE_H
#define PS_WIRE_H

#include "pystore.h"

/* A TRANSFER_DATA frame without its block, and the header of every frame. */
#define PS_DATA_HEAD 88
#define PS_FRAME_HEADER 24

/* One mastership. */
typedef struct ps_epoch {
  int64_t epoch;
  uint64_t start;
} ps_epoch;

/* What a master sends, and what is the same in all heads of one call. */
typedef struct ps_transfer {
  const ps_epoch *epochs; /* ascending in both; not checked again */
  uint64_t epoch_count;
  uint64_t min_offset;
  uint64_t end_offset;
  uint64_t segment_size;
  uint64_t confirm_offset;
  int64_t session_epoch;
  int64_t session_id;
  int64_t sent_ms;
  uint32_t block_bytes_max; /* of one block */
  uint32_t flags;           /* but for "epoch begins", which is added */
} ps_transfer;

/* One frame. From `block_epoch` on, only TRANSFER_DATA fills it, others 0. */
typedef struct ps_frame {
  int64_t epoch;
  int64_t sent_ms;
  uint64_t body_at; /* from the first byte of the data, or of the heads */
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

/* Writes up to `frames_max` heads of PS_DATA_HEAD bytes, back to back, for the
 * blocks that follow one another from `offset` on: each in one segment and one
 * epoch, and labelled with the epoch of its first byte. Their blocks end at
 * `offset + size` at the latest. `data`, if not NULL, holds these `size` bytes
 * of the log, and each head gets the checksum of its block. *count may be 0.
 * Status: PS_E_RANGE (the log does not hold `offset`), PS_E_INVALID (no epoch
 * covers a block, or a size of 0 or too large). */
PS_API ps_status ps_frames_fill(const ps_transfer *transfer, uint64_t offset,
                                const uint8_t *data, uint64_t size,
                                uint8_t *heads, ps_frame *frames,
                                uint32_t frames_max, uint32_t *count,
                                ps_error *error);

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
