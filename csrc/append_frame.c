/* A received frame is appended and acked, in one call. */
#include "append_frame.h"

#include <stdatomic.h>

#include "format.h"
#include "wire.h"
#include "writer.h"

/* docs/protocol.md, 1.1, 1.2, 1.9 and 1.10. */
enum { TYPE_DATA = 6, TYPE_ACK = 7 };

static int64_t number(const uint8_t *at) {
  return (int64_t)ps_load64(at);
}

/* Whether the data is a frame of this label with a block and nothing more. */
static int32_t is_plain(const uint8_t *data, uint64_t size,
                        const ps_step *step) {
  if (size <= PS_DATA_HEAD || size > step->frame_bytes_max ||
      ps_load32(data) != size || ps_load32(data + 4) != TYPE_DATA)
    return 0;
  const uint8_t *body = data + PS_FRAME_HEADER;
  return number(data + 16) == step->session_epoch &&
         number(body) == step->block_epoch &&
         number(body + 8) == step->epoch_start &&
         number(body + 40) == step->session_id &&
         ps_load32(body + 48) == size - PS_DATA_HEAD && /* its block */
         ps_load32(body + 52) == 0 && ps_load32(body + 56) == 0;
}

/* Whether the block goes on where the log ends, nearly at the master's end. */
static int32_t goes_on(ps_log *log, const ps_step *step) {
  uint64_t received = atomic_load(&log->writer.received_end);
  uint64_t until = step->offset + step->block_size;
  return step->offset == received && step->end_offset >= 0 &&
         (uint64_t)step->end_offset >= until &&
         (uint64_t)step->end_offset - until < PS_FAR_BEHIND;
}

static void make_ack(ps_step *step, const ps_ends *ends) {
  uint64_t status = ends->poisoned ? PS_TRANSFER_ACK_POISONED : 0;
  const uint64_t words[] = {
      (uint64_t)step->now_ms,
      (uint64_t)step->session_epoch,
      (uint64_t)step->session_id,
      ends->received_end,
      ends->synced_end,
      ends->confirm_offset,
      (uint64_t)step->sent_ms,
      (uint64_t)step->end_offset,
      status << 32, /* no flags */
  };
  uint8_t *at = step->ack;
  ps_store32(at, PS_TRANSFER_ACK_BYTES);
  ps_store32(at + 4, TYPE_ACK);
  for (uint32_t i = 0; i < sizeof words / sizeof *words; i++)
    ps_store64(at + 8 + 8 * i, words[i]);
}

ps_status ps_log_append_frame(ps_log *log, const uint8_t *data, uint64_t size,
                              ps_step *step, ps_ends *ends, uint32_t *taken,
                              ps_error *error) {
  *taken = 0;
  if (!is_plain(data, size, step))
    return PS_OK;
  const uint8_t *body = data + PS_FRAME_HEADER;
  step->sent_ms = number(data + 8);
  step->confirm_offset = number(body + 16);
  step->offset = ps_load64(body + 24);
  step->end_offset = number(body + 32);
  step->block_size = size - PS_DATA_HEAD;
  if (!goes_on(log, step))
    return PS_OK;
  uint64_t received;
  ps_status status = ps_log_append_raw(log, step->offset, data + PS_DATA_HEAD,
                                       step->block_size, &received, error);
  if (status == PS_OK)
    status = ps_log_ends(log, ends, error);
  if (status != PS_OK)
    return status;
  make_ack(step, ends);
  *taken = 1;
  return PS_OK;
}
