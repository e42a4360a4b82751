/* Transfer frames of protocol v3, many in one call. */
#include "wire.h"

#include "checksum.h"
#include "error.h"
#include "format.h"

/* docs/protocol.md, 1.1, 1.2 and 1.9. */
enum {
  TYPE_DATA = 6,
  TYPE_LAST = 7,
  TYPE_UNKNOWN = 16,
  BODY_MIN = PS_DATA_HEAD - PS_FRAME_HEADER,
  FLAG_EPOCH_BEGINS = 2
};

/* How many epochs start at `offset` or below; the last of them covers it. */
static uint64_t epochs_below(const ps_transfer *t, uint64_t offset) {
  uint64_t low = 0, high = t->epoch_count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (t->epochs[middle].start <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static uint64_t lower(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static ps_status check_transfer(const ps_transfer *t, uint64_t offset,
                                ps_error *error) {
  if (offset < t->min_offset || offset > t->end_offset)
    return ps_fail(error, PS_E_RANGE, offset,
                   "a slave goes on at %lld, the log holds %lld to %lld: it "
                   "has to be filled anew",
                   (long long)offset, (long long)t->min_offset,
                   (long long)t->end_offset);
  if (t->segment_size == 0 || t->block_bytes_max == 0 ||
      t->block_bytes_max > INT32_MAX - PS_DATA_HEAD)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "a segment of %llu bytes, blocks of up to %u bytes",
                   (unsigned long long)t->segment_size, t->block_bytes_max);
  return PS_OK;
}

static void put_head(uint8_t *head, const ps_frame *frame) {
  ps_store32(head, PS_DATA_HEAD + frame->block_size);
  ps_store32(head + 4, (uint32_t)frame->type);
  ps_store64(head + 8, (uint64_t)frame->sent_ms);
  ps_store64(head + 16, (uint64_t)frame->epoch);
  ps_store64(head + 24, (uint64_t)frame->block_epoch);
  ps_store64(head + 32, (uint64_t)frame->epoch_start);
  ps_store64(head + 40, (uint64_t)frame->confirm_offset);
  ps_store64(head + 48, (uint64_t)frame->offset);
  ps_store64(head + 56, (uint64_t)frame->end_offset);
  ps_store64(head + 64, (uint64_t)frame->session_id);
  ps_store32(head + 72, frame->block_size);
  ps_store32(head + 76, frame->crc);
  ps_store32(head + 80, (uint32_t)frame->flags);
  ps_store32(head + 84, 0);
}

ps_status ps_frames_fill(const ps_transfer *transfer, uint64_t offset,
                         const uint8_t *data, uint64_t size, uint8_t *heads,
                         ps_frame *frames, uint32_t frames_max, uint32_t *count,
                         ps_error *error) {
  const ps_transfer *t = transfer;
  *count = 0;
  ps_status status = check_transfer(t, offset, error);
  if (status != PS_OK)
    return status;
  uint64_t first = offset;
  uint64_t last = t->end_offset - offset < size ? t->end_offset : offset + size;
  uint64_t known = epochs_below(t, offset);
  if (offset < last && known == 0)
    return ps_fail(error, PS_E_INVALID, offset,
                   "no epoch covers %llu: bytes without a label are not sent",
                   (unsigned long long)offset);
  for (uint32_t i = 0; i < frames_max && offset < last; i++) {
    while (known < t->epoch_count && t->epochs[known].start <= offset)
      known++;
    const ps_epoch *epoch = &t->epochs[known - 1];
    uint64_t end = offset - offset % t->segment_size + t->segment_size;
    if (known < t->epoch_count)
      end = lower(end, epoch[1].start);
    end = lower(lower(end, last), offset + t->block_bytes_max);
    int32_t flags = (int32_t)t->flags;
    if (epoch->start == offset)
      flags |= FLAG_EPOCH_BEGINS;
    uint32_t block = (uint32_t)(end - offset);
    ps_frame *frame = &frames[i];
    *frame = (ps_frame){.epoch = t->session_epoch,
                        .sent_ms = t->sent_ms,
                        .body_at = (uint64_t)i * PS_DATA_HEAD + PS_FRAME_HEADER,
                        .body_size = BODY_MIN + block,
                        .type = TYPE_DATA,
                        .block_epoch = epoch->epoch,
                        .epoch_start = (int64_t)epoch->start,
                        .confirm_offset = (int64_t)t->confirm_offset,
                        .offset = (int64_t)offset,
                        .end_offset = (int64_t)t->end_offset,
                        .session_id = t->session_id,
                        .block_size = block,
                        .flags = flags};
    if (data != NULL) {
      frame->crc = ps_crc32(0, data + (offset - first), block);
      frame->crc_holds = 1;
    }
    put_head(heads + (uint64_t)i * PS_DATA_HEAD, frame);
    *count = i + 1;
    offset = end;
  }
  return PS_OK;
}

/* Looks at one frame. PS_OK with *length 0: it is not whole yet. */
static ps_status look(const uint8_t *data, uint64_t size, uint32_t max,
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
    ps_status status =
        look(data + at, size - at, frame_bytes_max, &length, &type, error);
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
