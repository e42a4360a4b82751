/* Numbers and hosts as text. Each function returns the end of what it wrote. */
#ifndef PS_PUT_TEXT_H
#define PS_PUT_TEXT_H

#include <assert.h>

#include "format.h"

#define PS_DECIMAL_MAX 20 /* digits of a number of 64 bits, or a sign and 19 */

static inline uint8_t *ps_put_decimal(uint8_t *to, uint64_t value) {
  uint8_t digits[20];
  uint32_t first = sizeof digits;
  do {
    digits[--first] = (uint8_t)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  memcpy(to, digits + first, sizeof digits - first);
  return to + (sizeof digits - first);
}

static inline uint8_t *ps_put_group(uint8_t *to, uint32_t group) {
  assert(group <= UINT16_MAX);
  uint32_t shift = 12;
  while (shift > 0 && group >> shift == 0)
    shift -= 4;
  for (;; shift -= 4) {
    *to++ = (uint8_t) "0123456789abcdef"[group >> shift & 15];
    if (shift == 0)
      return to;
  }
}

/* Writes a host of 8 or 20 bytes; returns the end. */
static inline uint8_t *ps_put_host(uint8_t *to, const uint8_t *host,
                                   uint32_t size) {
  if (size == PS_HOST_IPV4) {
    for (uint32_t i = 0; i < 4; i++) {
      to = ps_put_decimal(to, host[i]);
      *to++ = i < 3 ? '.' : ':';
    }
  } else {
    *to++ = '[';
    for (uint32_t i = 0; i < 16; i += 2) {
      to = ps_put_group(to, ps_load16(host + i));
      *to++ = i < 14 ? ':' : ']';
    }
    *to++ = ':';
  }
  uint32_t port = ps_load32(host + size - 4);
  if (port > INT32_MAX) {
    *to++ = '-';
    port = 0 - port;
  }
  return ps_put_decimal(to, port);
}

/* Writes four bytes as eight digits: each half byte into a byte of its own,
 * and 7 more where it is above 9, to get from '9' to 'A'. */
static inline void ps_put_hex(uint8_t *to, const uint8_t *bytes) {
  uint64_t wide = ps_load32(bytes);
  wide = (wide | wide << 16) & UINT64_C(0x0000FFFF0000FFFF);
  wide = (wide | wide << 8) & UINT64_C(0x00FF00FF00FF00FF);
  wide = (wide | wide << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  uint64_t is_letter =
      (wide + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
  ps_store64(to, wide + UINT64_C(0x3030303030303030) + 7 * is_letter);
}

#endif
