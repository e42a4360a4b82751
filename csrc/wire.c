/* Transfer frames of protocol v3, many in one call. */
#include "wire.h"

#include "checksum.h"
#include "error.h"
#include "format.h"

/* docs/protocol.md, 1.1, 1.2 and 1.9. */
enum {
  TYPE_DATA = 6,
  TYPE_LAST = 11,
  TYPE_UNKNOWN = 16,
  BODY_MIN = PS_DATA_HEAD - PS_FRAME_HEADER
};

/* Reads one frame. PS_OK with *length 0: it is not whole yet. */
static ps_status read_frame(const uint8_t *data, uint64_t size, uint32_t max,
                            uint64_t *length, int32_t *type, ps_error *error) {
  *length = 0;
  *type = 0;
  if (size < 4)
    return PS_OK;
  int32_t said = (int32_t)ps_load32(data);
  if (said < PS_FRAME_HEADER || (uint32_t)said > max)
    return ps_fail(error, PS_E_CORRUPT, PS_NO_OFFSET,
                   "a frame of %d bytes: %d to %u are taken", said,
                   PS_FRAME_HEADER, max);
  if (size < 8)
    return PS_OK;
  *type = (int32_t)ps_load32(data + 4);
  if (*type < 1 || (*type > TYPE_LAST && *type < TYPE_UNKNOWN))
    return ps_fail(error, PS_E_CORRUPT, PS_NO_OFFSET,
                   "a frame of type %d has no meaning", *type);
  if (size < (uint64_t)said)
    return PS_OK;
  *length = (uint64_t)said;
  return PS_OK;
}

/* Fills what TRANSFER_DATA says behind its header. */
static ps_status take_data(ps_frame *frame, const uint8_t *body,
                           uint32_t check_crc, ps_error *error) {
  if (frame->body_size < BODY_MIN)
    return ps_fail(error, PS_E_CORRUPT, PS_NO_OFFSET,
                   "TRANSFER_DATA: %u bytes are too few", frame->body_size);
  uint32_t block = frame->body_size - BODY_MIN;
  if (ps_load32(body + 48) != block)
    return ps_fail(error, PS_E_CORRUPT, PS_NO_OFFSET,
                   "a block of %d bytes in a frame with %u",
                   (int32_t)ps_load32(body + 48), block);
  frame->block_epoch = (int64_t)ps_load64(body);
  frame->epoch_start = (int64_t)ps_load64(body + 8);
  frame->confirm_offset = (int64_t)ps_load64(body + 16);
  frame->offset = (int64_t)ps_load64(body + 24);
  frame->end_offset = (int64_t)ps_load64(body + 32);
  frame->session_id = (int64_t)ps_load64(body + 40);
  frame->block_size = block;
  frame->crc = ps_load32(body + 52);
  frame->flags = (int32_t)ps_load32(body + 56);
  if (check_crc)
    frame->crc_holds = ps_crc32(0, body + BODY_MIN, block) == frame->crc;
  return PS_OK;
}

ps_status ps_frames_scan(const uint8_t *data, uint64_t size,
                         uint32_t frame_bytes_max, uint32_t check_crc,
                         ps_frame *frames, uint32_t frames_max, uint32_t *count,
                         uint64_t *taken, ps_error *error) {
  *count = 0;
  *taken = 0;
  while (*count < frames_max) {
    uint64_t at = *taken, length;
    int32_t type;
    ps_status status = read_frame(data + at, size - at, frame_bytes_max,
                                  &length, &type, error);
    if (status == PS_OK && length == 0)
      return PS_OK;
    if (status == PS_OK && type < TYPE_UNKNOWN) {
      ps_frame *frame = &frames[*count];
      *frame = (ps_frame){.epoch = (int64_t)ps_load64(data + at + 16),
                          .sent_ms = (int64_t)ps_load64(data + at + 8),
                          .body_at = at + PS_FRAME_HEADER,
                          .body_size = (uint32_t)length - PS_FRAME_HEADER,
                          .type = type};
      if (type == TYPE_DATA)
        status = take_data(frame, data + frame->body_at, check_crc, error);
      if (status == PS_OK)
        ++*count;
    }
    if (status != PS_OK) /* what stands before it counts, skipped frames too */
      return at == 0 ? status : PS_OK;
    *taken = at + length;
  }
  return PS_OK;
}
