/* CRC-32: the choice of an implementation, and combination. */

#include "checksum.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "checksum_kinds.h"

/* Answers NULL for what is not built in or does not run here. */
static const ps_crc_kind *kind_of(int which) {
  switch (which) {
  case PS_CRC_PORTABLE:
    return ps_crc_portable();
#ifdef PS_CRC_X86_BUILT
  case PS_CRC_PCLMUL:
    return ps_crc_pclmul();
  case PS_CRC_VPCLMUL:
    return ps_crc_vpclmul();
#endif
#ifdef PS_CRC_ARM_BUILT
  case PS_CRC_ARM:
    return ps_crc_arm();
  case PS_CRC_ARM_PMULL:
    return ps_crc_arm_pmull();
#endif
  default:
    return NULL;
  }
}

/* NULL until the first call. What it points to is constant, so relaxed order
 * is enough, and racing first calls store the same pointer.
 */
static _Atomic(const ps_crc_kind *) kind_in_use;

int ps_crc32_use(int which) {
  /* Better ones have higher numbers. */
  int last = which == PS_CRC_AUTO ? PS_CRC_PORTABLE : which;
  int first = which == PS_CRC_AUTO ? PS_CRC_ARM_PMULL : which;
  for (int i = first; i >= last; i--) {
    const ps_crc_kind *kind = kind_of(i);
    if (kind) {
      atomic_store_explicit(&kind_in_use, kind, memory_order_relaxed);
      return i;
    }
  }
  assert(which != PS_CRC_AUTO && which != PS_CRC_PORTABLE);
  return -1;
}

static const ps_crc_kind *first_kind(void) {
  int which = ps_crc32_use(PS_CRC_AUTO);
  assert(which >= PS_CRC_PORTABLE);
  return kind_of(which);
}

static inline const ps_crc_kind *kind(void) {
  const ps_crc_kind *found =
      atomic_load_explicit(&kind_in_use, memory_order_relaxed);
  return __builtin_expect(found != NULL, 1) ? found : first_kind();
}

uint32_t ps_crc32(uint32_t crc, const void *data, size_t size) {
  return kind()->extend(crc, data, size);
}

static uint32_t copy_in_two_passes(uint32_t crc, uint8_t *target,
                                   const uint8_t *source, size_t size) {
  assert((target && source) || size == 0);
  if (size > 0)
    memcpy(target, source, size);
  return kind()->extend(crc, source, size);
}

uint32_t ps_crc32_copy(uint32_t crc, void *target, const void *source,
                       size_t size) {
  const ps_crc_kind *by = kind();
  return (by->copy ? by->copy : copy_in_two_passes)(crc, target, source, size);
}

/* x^(8 size) mod P, one multiplication per further digit of base 16. */
static uint32_t shift_factor(const ps_crc_kind *by, uint64_t size) {
  /* x^(8(2^32-1)) = 1: what does not fit 32 bits is added to what does. */
  size = (size >> 32) + (size & 0xFFFFFFFF);
  size = (size >> 32) + (size & 0xFFFFFFFF);
  assert(size <= 0xFFFFFFFF);
  uint32_t factor = ps_crc_powers[0][size & 15];
  for (unsigned k = 1; (size >>= 4) != 0; k++) {
    unsigned digit = size & 15;
    if (digit != 0)
      factor = by->multiply(factor, ps_crc_powers[k][digit]);
  }
  return factor;
}

uint32_t ps_crc32_shift(uint32_t crc, uint64_t size) {
  const ps_crc_kind *by = kind();
  return by->multiply(crc, shift_factor(by, size));
}

uint32_t ps_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b) {
  return ps_crc32_shift(crc_a, size_b) ^ crc_b;
}

uint32_t ps_crc32_combine_cached(ps_crc_shift *last, uint32_t crc_a,
                                 uint32_t crc_b, uint64_t size_b) {
  const ps_crc_kind *by = kind();
  /* A factor is never 0: that is the mark of one not yet computed. */
  if (last->size != size_b || last->factor == 0) {
    last->factor = shift_factor(by, size_b);
    last->size = size_b;
  }
  assert(last->factor != 0);
  return by->multiply(crc_a, last->factor) ^ crc_b;
}
