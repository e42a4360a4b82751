/* CRC-32 on AArch64 by its CRC32 instructions, three lanes at a time. */

/* One crc32x has to wait for the one before it, but three chains run side by
 * side. Three equal lanes are checksummed apart and combined: a * x^(16 lane)
 * + b * x^(8 lane) + c. With PMULL a combination is cheap, so lanes may be
 * short; without it only long lanes pay.
 */
#include "checksum_kinds.h"

#ifdef PS_CRC_ARM_BUILT

#include <arm_acle.h>
#include <arm_neon.h>
#include <assert.h>
#include <string.h>

#ifdef __linux__
#include <sys/auxv.h>
#endif

#ifdef __clang__
/* Both are in the baseline, or this is not compiled at all. */
#define BY_CRC
#define BY_PMULL
#else
#define BY_CRC __attribute__((target("+crc")))
#define BY_PMULL __attribute__((target("+crc+crypto")))
#endif
#define INLINE static inline __attribute__((always_inline))

/* As <asm/hwcap.h> has them. */
#define CAN_PMULL (1ul << 4)
#define CAN_CRC32 (1ul << 7)

INLINE uint64_t load_64(const uint8_t *data) {
  uint64_t word;
  memcpy(&word, data, 8);
  return word;
}

/* Three lanes of one size: their states, each begun at 0 but the first. */
typedef struct lanes {
  uint32_t a, b, c;
} lanes;

BY_CRC INLINE lanes three_lanes(uint32_t state, const uint8_t *data,
                                size_t lane) {
  assert(lane % 8 == 0);
  lanes of = {state, 0, 0};
  for (size_t at = 0; at < lane; at += 8) {
    of.a = __crc32d(of.a, load_64(data + at));
    of.b = __crc32d(of.b, load_64(data + lane + at));
    of.c = __crc32d(of.c, load_64(data + 2 * lane + at));
  }
  return of;
}

/* One chain: what is too short for lanes. */
BY_CRC INLINE uint32_t one_lane(uint32_t state, const uint8_t *data,
                                size_t size) {
  assert(data || size == 0);
  for (; size >= 8; size -= 8, data += 8)
    state = __crc32d(state, load_64(data));
  if (size & 4) {
    uint32_t word;
    memcpy(&word, data, 4);
    state = __crc32w(state, word);
    data += 4;
  }
  if (size & 2) {
    uint16_t half;
    memcpy(&half, data, 2);
    state = __crc32h(state, half);
    data += 2;
  }
  if (size & 1)
    state = __crc32b(state, *data);
  return state;
}

/* ---- without PMULL ---------------------------------------------------- */

/* x^(8 * 1024) and x^(8 * 2048) */
#define FACTOR_1024 ps_crc_powers[2][4]
#define FACTOR_2048 ps_crc_powers[2][8]

BY_CRC static uint32_t extend_arm(uint32_t crc, const uint8_t *data,
                                  size_t size) {
  uint32_t state = ~crc;
  for (; size >= 3072; size -= 3072, data += 3072) {
    lanes of = three_lanes(state, data, 1024);
    state = ps_crc_multiply_portable(of.a, FACTOR_2048) ^
            ps_crc_multiply_portable(of.b, FACTOR_1024) ^ of.c;
  }
  return ~one_lane(state, data, size);
}

/* ---- with PMULL ------------------------------------------------------- */

/* x^(8 lane) and x^(16 lane) for lanes of 64 and 256 bytes */
#define FACTOR_64 ps_crc_powers[1][4]
#define FACTOR_128 ps_crc_powers[1][8]
#define FACTOR_256 ps_crc_powers[2][1]
#define FACTOR_512 ps_crc_powers[2][2]

/* The product times x, not reduced: a register of 64 bits. */
BY_PMULL INLINE uint64_t product(uint32_t a, uint32_t b) {
  poly128_t bits = vmull_p64((poly64_t)a, (poly64_t)b);
  return (uint64_t)bits << 1;
}

/* Its lower half has the degrees from 32 on: four bytes' worth of state. */
BY_PMULL INLINE uint32_t reduce(uint64_t bits) {
  return (uint32_t)(bits >> 32) ^ __crc32w(0, (uint32_t)bits);
}

BY_PMULL INLINE uint32_t joined(lanes of, uint32_t two_lanes,
                                uint32_t one_lane_on) {
  return reduce(product(of.a, two_lanes) ^ product(of.b, one_lane_on)) ^ of.c;
}

BY_PMULL static uint32_t extend_arm_pmull(uint32_t crc, const uint8_t *data,
                                          size_t size) {
  uint32_t state = ~crc;
  for (; size >= 3072; size -= 3072, data += 3072)
    state = joined(three_lanes(state, data, 1024), FACTOR_2048, FACTOR_1024);
  for (; size >= 768; size -= 768, data += 768)
    state = joined(three_lanes(state, data, 256), FACTOR_512, FACTOR_256);
  for (; size >= 192; size -= 192, data += 192)
    state = joined(three_lanes(state, data, 64), FACTOR_128, FACTOR_64);
  return ~one_lane(state, data, size);
}

BY_PMULL static uint32_t multiply_arm_pmull(uint32_t a, uint32_t b) {
  return reduce(product(a, b));
}

/* ---- what this processor can do --------------------------------------- */

static unsigned long abilities(void) {
#if defined(__linux__)
  return getauxval(AT_HWCAP);
#elif defined(__APPLE__)
  /* Every 64-bit Mac has both. */
  return CAN_CRC32 | CAN_PMULL;
#else
  return 0;
#endif
}

const ps_crc_kind *ps_crc_arm(void) {
  static const ps_crc_kind kind = {extend_arm, NULL, ps_crc_multiply_portable};
  return abilities() & CAN_CRC32 ? &kind : NULL;
}

const ps_crc_kind *ps_crc_arm_pmull(void) {
  static const ps_crc_kind kind = {extend_arm_pmull, NULL, multiply_arm_pmull};
  return ps_crc_arm() && (abilities() & CAN_PMULL) ? &kind : NULL;
}

#endif
