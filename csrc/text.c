/* UTF-8 as Java reads it: string hashes and validity. */
#include "text.h"

#include <assert.h>

#define MALFORMED UINT32_C(0xFFFFFFFF)
#define REPLACEMENT UINT32_C(0xFFFD)

static int32_t continues(const uint8_t *at, const uint8_t *end) {
  return at < end && (*at & 0xC0) == 0x80;
}

/* 1 if the second byte could follow the first in a sequence of 3 or 4. */
static int32_t second_fits(uint8_t first, uint8_t second) {
  switch (first) {
  case 0xE0:
    return second >= 0xA0;
  case 0xF0:
    return second >= 0x90;
  case 0xF4:
    return second < 0x90;
  default:
    return 1;
  }
}

/* Reads one code point and moves *at behind it. A malformed part is as long as
 * a sequence could have begun; a surrogate is one part of three bytes. */
static uint32_t next_point(const uint8_t **at, const uint8_t *end) {
  assert(*at < end);
  const uint8_t *from = *at;
  uint8_t first = *from++;
  *at = from;
  if (first < 0x80)
    return first;
  if (first < 0xC2 || first > 0xF4 || !continues(from, end))
    return MALFORMED;
  if (first < 0xE0) {
    *at = from + 1;
    return (first & 0x1Fu) << 6 | (from[0] & 0x3Fu);
  }
  if (!second_fits(first, from[0]))
    return MALFORMED;
  *at = from + 1;
  if (!continues(from + 1, end))
    return MALFORMED;
  *at = from + 2;
  uint32_t low = (from[0] & 0x3Fu) << 6 | (from[1] & 0x3Fu);
  if (first < 0xF0) {
    uint32_t point = (first & 0x0Fu) << 12 | low;
    return point >= 0xD800 && point < 0xE000 ? MALFORMED : point;
  }
  if (!continues(from + 2, end))
    return MALFORMED;
  *at = from + 3;
  return (first & 0x07u) << 18 | low << 6 | (from[2] & 0x3Fu);
}

int32_t ps_java_hash(const uint8_t *text, uint32_t size) {
  assert(text || size == 0);
  uint32_t hash = 0;
  const uint8_t *at = text;
  const uint8_t *end = text + size;
  while (at < end) {
    uint32_t point = next_point(&at, end);
    if (point == MALFORMED)
      point = REPLACEMENT;
    if (point >= 0x10000) {
      hash = 31 * hash + (0xD800 + ((point - 0x10000) >> 10));
      point = 0xDC00 + (point & 0x3FF);
    }
    hash = 31 * hash + point;
  }
  return (int32_t)hash;
}

int32_t ps_is_utf8(const uint8_t *text, uint32_t size) {
  assert(text || size == 0);
  const uint8_t *at = text;
  const uint8_t *end = text + size;
  while (at < end)
    if (next_point(&at, end) == MALFORMED)
      return 0;
  return 1;
}

/* Where the decimal digits of Unicode 13 (Java 17) begin, each a row of ten:
 * those of one UTF-16 unit, which is what Java asks for. */
static const uint16_t digits[] = {
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6,
    0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6, 0x0E50, 0x0ED0,
    0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80,
    0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900,
    0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10};

int32_t ps_java_digit(const uint8_t **at, const uint8_t *end) {
  uint32_t point = next_point(at, end);
  for (uint32_t i = 0; i < sizeof digits / sizeof digits[0]; i++)
    if (point - digits[i] < 10)
      return (int32_t)(point - digits[i]);
  return -1;
}
