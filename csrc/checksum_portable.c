/* CRC-32 by tables: what runs on every processor. */

#include <assert.h>

#include "checksum_kinds.h"

static uint32_t load_le32(const uint8_t *data) {
  return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
         (uint32_t)data[3] << 24;
}

/* Moves four bytes, already joined with the state, `slice` + 3 to `slice`
 * bytes ahead.
 */
static uint32_t four_bytes(uint32_t word, int slice) {
  return ps_crc_slices[slice + 3][word & 255] ^
         ps_crc_slices[slice + 2][word >> 8 & 255] ^
         ps_crc_slices[slice + 1][word >> 16 & 255] ^
         ps_crc_slices[slice][word >> 24];
}

static uint32_t extend_portable(uint32_t crc, const uint8_t *data,
                                size_t size) {
  assert(data || size == 0);
  uint32_t state = ~crc;
  for (; size >= 16; size -= 16, data += 16) {
    state = four_bytes(load_le32(data) ^ state, 12) ^
            four_bytes(load_le32(data + 4), 8) ^
            four_bytes(load_le32(data + 8), 4) ^
            four_bytes(load_le32(data + 12), 0);
  }
  for (; size >= 4; size -= 4, data += 4)
    state = four_bytes(load_le32(data) ^ state, 0);
  for (; size > 0; size--, data++)
    state = state >> 8 ^ ps_crc_slices[0][(state ^ *data) & 255];
  return ~state;
}

/* Four bits of `a` at a time against the sixteen multiples of `b`. The
 * product times x is a register of 64 bits; its upper half has the degrees
 * from 32 on and leaves four bytes' worth of state.
 */
uint32_t ps_crc_multiply_portable(uint32_t a, uint32_t b) {
  uint64_t multiples[16] = {0, b};
  for (unsigned i = 1; i < 8; i++) {
    multiples[2 * i] = multiples[i] << 1;
    multiples[2 * i + 1] = multiples[2 * i] ^ b;
  }
  uint64_t product = 0;
  for (unsigned shift = 0; shift < 32; shift += 4)
    product ^= multiples[a >> shift & 15] << shift;
  assert(product >> 63 == 0);
  product <<= 1;
  return (uint32_t)(product >> 32) ^ four_bytes((uint32_t)product, 0);
}

const ps_crc_kind *ps_crc_portable(void) {
  static const ps_crc_kind kind = {extend_portable, NULL,
                                   ps_crc_multiply_portable};
  return &kind;
}
