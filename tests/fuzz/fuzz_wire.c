/* Fuzz target: any bytes as input of a peer. Every frame that is found is
 * within the bytes and the limit, and pieces find the same frames. */

/* Input: longest frame (u16), a piece's size, then the bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "wire.h"

enum { HEAD = 3, ROWS = 8 };

#define MUST(claim)                                                            \
  do {                                                                         \
    if (!(claim))                                                              \
      abort();                                                                 \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Scans a copy of exactly `size` bytes, and checks what was found. */
static ps_status scan(const uint8_t *data, uint64_t size, uint32_t limit,
                      ps_frame *rows, uint32_t *count, uint64_t *taken) {
  uint8_t *exact = malloc(size + 1);
  MUST(exact);
  memcpy(exact + 1, data, size);
  ps_error error;
  ps_status status = ps_frames_scan(exact + 1, size, limit, 1, rows, ROWS,
                                    count, taken, &error);
  free(exact);
  MUST(status == PS_OK || status == PS_E_CORRUPT);
  if (status != PS_OK)
    return status;
  MUST(*count <= ROWS && *taken <= size);
  uint64_t end = 0;
  for (uint32_t i = 0; i < *count; i++) {
    MUST(rows[i].body_at >= end + PS_FRAME_HEADER);
    end = rows[i].body_at + rows[i].body_size;
    MUST(rows[i].body_size + PS_FRAME_HEADER <= limit && end <= *taken);
    MUST(rows[i].block_size <= rows[i].body_size);
  }
  return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  if (size < HEAD)
    return 0;
  uint32_t limit = ps_load16(input);
  const uint8_t *data = input + HEAD;
  uint64_t left = size - HEAD, step = (uint64_t)input[2] + 1, part = 0;
  while (left > 0) {
    ps_frame whole[ROWS], piece[ROWS];
    uint32_t count, few;
    uint64_t taken, some;
    ps_status status = scan(data, left, limit, whole, &count, &taken);
    part = part + step < left ? part + step : left;
    ps_status partly = scan(data, part, limit, piece, &few, &some);
    MUST(partly == PS_OK || status == partly);
    if (partly == PS_OK && status == PS_OK) {
      MUST(few <= count && some <= taken);
      MUST(memcmp(whole, piece, few * sizeof *whole) == 0);
    }
    if (partly != PS_OK || (some == 0 && part == left))
      return 0;
    data += some;
    left -= some;
    part -= some;
  }
  return 0;
}
