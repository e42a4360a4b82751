/* CRC-32 on x86-64 by carry-less multiplication: 128 and 512 bits wide. */

/* How both work. The state is joined with the first four bytes; then only
 * the value of the whole data, as one polynomial, modulo P counts. Up to four
 * accumulators hold a window of data; folding multiplies their 64-bit words
 * by x^(window) and adds the next window. In the end each 64-bit word w of
 * the window is multiplied by its own weight, the power of x that is its
 * distance from the end plus 32: the sum has 96 bits and one Barrett
 * reduction makes 32 of them. The last, partial piece is padded with zeros
 * behind the data, and the weights are those of a window that ends later:
 * so no tail is ever walked bytewise.
 */
#include "checksum_kinds.h"

#ifdef PS_CRC_X86_BUILT

#include <assert.h>
#include <immintrin.h>
#include <string.h>

/* AVX for the encoding alone: where some other code left the upper halves of
 * the registers dirty, the old one must merge with them and runs at half speed.
 */
#define BY_128 __attribute__((target("avx,pclmul")))
#define BY_512                                                                 \
  __attribute__((                                                              \
      target("avx512f,avx512bw,avx512vl,vpclmulqdq,avx,pclmul,bmi2")))
#define INLINE static inline __attribute__((always_inline))

/* Fold constants: x^(64+d-1) for the first word of a pair, x^(d-1) for the
 * second, moved up by 32 bits so that the product keeps its place.
 */
#define FOLD_512_FIRST 0x653d982200000000
#define FOLD_512_SECOND 0xcad38e8f00000000
#define FOLD_2048_FIRST 0x7cc8e1e700000000
#define FOLD_2048_SECOND 0x03f9f86300000000

/* floor(x^96 / P) without its last bit, and P, both reflected. */
#define QUOTIENT 0xb4e5b025f7011641
#define POLYNOMIAL 0x00000001db710641

/* The weights of a window whose last `pad` bytes lie behind the data. */
INLINE const uint32_t *weights(size_t pad) {
  return ps_crc_weights[pad & 7] + (pad >> 3);
}

/* Reduces 96 bits, a register in the lower bits of `sum`, modulo P. */
BY_128 INLINE uint32_t reduce(__m128i sum) {
  const __m128i k = _mm_set_epi64x((long long)POLYNOMIAL, (long long)QUOTIENT);
  __m128i quotient = _mm_clmulepi64_si128(sum, k, 0x00);
  __m128i multiple = _mm_clmulepi64_si128(quotient, k, 0x10);
  return (uint32_t)_mm_extract_epi32(_mm_xor_si128(sum, multiple), 2);
}

/* Adds two words by their weights. */
BY_128 INLINE __m128i weigh(__m128i sum, __m128i words, const uint32_t *by) {
  __m128i k = _mm_cvtepu32_epi64(_mm_loadl_epi64((const __m128i *)by));
  sum = _mm_xor_si128(sum, _mm_clmulepi64_si128(words, k, 0x00));
  return _mm_xor_si128(sum, _mm_clmulepi64_si128(words, k, 0x11));
}

/* What of the state lies behind data of fewer than four bytes. */
INLINE uint32_t state_behind(uint32_t state, size_t size) {
  return size < 4 ? state >> (8 * size) : 0;
}

/* Where the next piece goes; nowhere if nothing is copied. */
INLINE uint8_t *later(uint8_t *target, size_t size) {
  return target ? target + size : NULL;
}

/* ---- 128 bits wide ---------------------------------------------------- */

BY_128 INLINE __m128i load_128(uint8_t *target, const uint8_t *source) {
  __m128i words = _mm_loadu_si128((const __m128i *)source);
  if (target)
    _mm_storeu_si128((__m128i *)target, words);
  return words;
}

/* The last 16 - pad bytes before `end`, moved to the front, zeros behind. At
 * least 16 bytes lie before `end`.
 */
BY_128 INLINE __m128i load_last_128(uint8_t *target_end, const uint8_t *end,
                                    size_t pad) {
  static const uint8_t places[32] = {0,   1,   2,   3,   4,   5,   6,   7,
                                     8,   9,   10,  11,  12,  13,  14,  15,
                                     128, 128, 128, 128, 128, 128, 128, 128,
                                     128, 128, 128, 128, 128, 128, 128, 128};
  __m128i words = load_128(target_end ? target_end - 16 : NULL, end - 16);
  return _mm_shuffle_epi8(words,
                          _mm_loadu_si128((const __m128i *)(places + pad)));
}

INLINE uint64_t load_64(const uint8_t *data) {
  uint64_t word;
  memcpy(&word, data, 8);
  return word;
}

INLINE uint32_t load_32(const uint8_t *data) {
  uint32_t word;
  memcpy(&word, data, 4);
  return word;
}

/* Under 16 bytes: two general registers, loads that overlap. */
BY_128 INLINE uint32_t extend_under_16(uint32_t state, const uint8_t *data,
                                       size_t size) {
  const __m128i none = _mm_setzero_si128();
  if (size >= 8) {
    size_t pad = 16 - size;
    uint64_t first = load_64(data) ^ state;
    /* Two shifts: one by 64 is undefined. */
    uint64_t second = load_64(data + size - 8) >> 8 >> (8 * (pad - 1));
    __m128i words = _mm_set_epi64x((long long)second, (long long)first);
    return reduce(weigh(none, words, weights(pad) + 30));
  }
  uint64_t word;
  if (size >= 4)
    word = (load_32(data) | (uint64_t)load_32(data + size - 4)
                                << (8 * (size - 4))) ^
           state;
  else if (size > 0)
    word = (data[0] | (uint32_t)data[size / 2] << (8 * (size / 2)) |
            (uint32_t)data[size - 1] << (8 * (size - 1))) ^
           (state & ((UINT32_C(1) << (8 * size)) - 1));
  else
    return state;
  __m128i words = _mm_cvtsi64_si128((long long)word);
  return reduce(weigh(none, words, weights(8 - size) + 31)) ^
         state_behind(state, size);
}

/* Adds `size` further bytes, the last of the data, by their weights. Before
 * them lie at least 16 bytes of data, or they are at least 16.
 */
BY_128 INLINE __m128i weigh_rest_128(__m128i sum, uint8_t *target,
                                     const uint8_t *source, size_t size,
                                     const uint32_t *by) {
  size_t pad = -size & 15;
  for (; size >= 16; size -= 16, source += 16, by += 2) {
    sum = weigh(sum, load_128(target, source), by);
    target = later(target, 16);
  }
  if (size > 0) {
    __m128i words = load_last_128(later(target, size), source + size, pad);
    sum = weigh(sum, words, by);
  }
  return sum;
}

BY_128 INLINE __m128i fold_128(__m128i words, __m128i k, __m128i next) {
  __m128i first = _mm_clmulepi64_si128(words, k, 0x00);
  __m128i second = _mm_clmulepi64_si128(words, k, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), next);
}

/* 16 to 256 bytes fit the window as they are. */
BY_128 INLINE uint32_t extend_to_256(uint32_t state, uint8_t *target,
                                     const uint8_t *source, size_t size) {
  const uint32_t *by = weights(-size & 15) + 32 - 2 * ((size + 15) / 16);
  __m128i first =
      _mm_xor_si128(load_128(target, source), _mm_cvtsi32_si128((int)state));
  __m128i sum = weigh(_mm_setzero_si128(), first, by);
  return reduce(
      weigh_rest_128(sum, later(target, 16), source + 16, size - 16, by + 2));
}

/* The accumulators are four variables: an array would live in memory. */
BY_128 INLINE uint32_t extend_beyond_256(uint32_t state, uint8_t *target,
                                         const uint8_t *source, size_t size) {
  const __m128i k =
      _mm_set_epi64x((long long)FOLD_512_SECOND, (long long)FOLD_512_FIRST);
  __m128i a = load_128(target, source);
  __m128i b = load_128(later(target, 16), source + 16);
  __m128i c = load_128(later(target, 32), source + 32);
  __m128i d = load_128(later(target, 48), source + 48);
  a = _mm_xor_si128(a, _mm_cvtsi32_si128((int)state));
  for (;;) {
    target = later(target, 64);
    source += 64;
    size -= 64;
    if (size < 64)
      break;
    a = fold_128(a, k, load_128(target, source));
    b = fold_128(b, k, load_128(later(target, 16), source + 16));
    c = fold_128(c, k, load_128(later(target, 32), source + 32));
    d = fold_128(d, k, load_128(later(target, 48), source + 48));
  }
  /* The folded 64 bytes and those left are one window again. */
  const uint32_t *by = weights(-size & 15) + 24 - 2 * ((size + 15) / 16);
  __m128i sum = weigh(_mm_setzero_si128(), a, by);
  sum = weigh(sum, b, by + 2);
  sum = weigh(sum, c, by + 4);
  sum = weigh(sum, d, by + 6);
  return reduce(weigh_rest_128(sum, target, source, size, by + 8));
}

BY_128 INLINE uint32_t extend_128(uint32_t crc, uint8_t *target,
                                  const uint8_t *source, size_t size) {
  assert(source || size == 0);
  if (size < 16) {
    if (target && size > 0)
      memcpy(target, source, size);
    return ~extend_under_16(~crc, source, size);
  }
  if (size <= 256)
    return ~extend_to_256(~crc, target, source, size);
  return ~extend_beyond_256(~crc, target, source, size);
}

BY_128 static uint32_t extend_pclmul(uint32_t crc, const uint8_t *data,
                                     size_t size) {
  return extend_128(crc, NULL, data, size);
}

BY_128 static uint32_t copy_pclmul(uint32_t crc, uint8_t *target,
                                   const uint8_t *source, size_t size) {
  assert(target || size == 0);
  return extend_128(crc, target, source, size);
}

BY_128 static uint32_t multiply_pclmul(uint32_t a, uint32_t b) {
  /* 32 by 33 bits, shifted so that the product ends where `reduce` reads. */
  __m128i x = _mm_cvtsi64_si128((long long)((uint64_t)a << 32));
  __m128i y = _mm_cvtsi64_si128((long long)((uint64_t)b << 1));
  return reduce(_mm_clmulepi64_si128(x, y, 0x00));
}

const ps_crc_kind *ps_crc_pclmul(void) {
  static const ps_crc_kind kind = {extend_pclmul, copy_pclmul, multiply_pclmul};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx"))
    return &kind;
  return NULL;
}

/* ---- 512 bits wide ---------------------------------------------------- */

/* Masked loads and stores touch only the bytes of the mask: a partial piece
 * needs no care at the end of a page.
 */
BY_512 INLINE __m512i load_512(uint8_t *target, const uint8_t *source) {
  __m512i words = _mm512_loadu_si512(source);
  if (target)
    _mm512_storeu_si512(target, words);
  return words;
}

BY_512 INLINE __m512i load_part_512(uint8_t *target, const uint8_t *source,
                                    __mmask64 mask) {
  __m512i words = _mm512_maskz_loadu_epi8(mask, source);
  if (target)
    _mm512_mask_storeu_epi8(target, mask, words);
  return words;
}

/* XOR of three. */
BY_512 INLINE __m512i sum_of(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

/* The product of the words with `k`, plus `other`. */
BY_512 INLINE __m512i fold_512(__m512i words, __m512i k, __m512i other) {
  return sum_of(_mm512_clmulepi64_epi128(words, k, 0x00),
                _mm512_clmulepi64_epi128(words, k, 0x11), other);
}

BY_512 INLINE __m512i weigh_512(__m512i sum, __m512i words,
                                const uint32_t *by) {
  __m256i k = _mm256_loadu_si256((const __m256i *)by);
  return fold_512(words, _mm512_cvtepu32_epi64(k), sum);
}

BY_512 INLINE uint32_t reduce_512(__m512i sum) {
  __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(sum),
                                  _mm512_extracti64x4_epi64(sum, 1));
  return reduce(_mm_xor_si128(_mm256_castsi256_si128(half),
                              _mm256_extracti128_si256(half, 1)));
}

/* The state as the first four bytes of a piece. */
BY_512 INLINE __m512i state_512(uint32_t state) {
  return _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
}

BY_512 INLINE uint32_t extend_to_16(uint32_t state, uint8_t *target,
                                    const uint8_t *source, size_t size) {
  __mmask16 mask = (__mmask16)_bzhi_u32(0xFFFF, (unsigned)size);
  __m128i words = _mm_maskz_loadu_epi8(mask, source);
  if (target)
    _mm_mask_storeu_epi8(target, mask, words);
  words = _mm_xor_si128(words, _mm_cvtsi32_si128((int)state));
  words = _mm_maskz_mov_epi8(mask, words);
  return reduce(weigh(_mm_setzero_si128(), words, weights(16 - size) + 30)) ^
         state_behind(state, size);
}

BY_512 INLINE uint32_t extend_to_64(uint32_t state, uint8_t *target,
                                    const uint8_t *source, size_t size) {
  size_t pad = 64 - size;
  __m512i words = load_part_512(target, source, ~UINT64_C(0) >> pad);
  words = _mm512_xor_si512(words, state_512(state));
  return reduce_512(
      weigh_512(_mm512_setzero_si512(), words, weights(pad) + 24));
}

/* 65 to 256 bytes: one to three whole pieces, and one that may be partial. */
BY_512 INLINE uint32_t extend_to_256_wide(uint32_t state, uint8_t *target,
                                          const uint8_t *source, size_t size) {
  size_t pad = -size & 63;
  size_t whole = (size - 1) / 64;
  const uint32_t *by = weights(pad) + 24 - 8 * whole;
  __m512i words = load_512(target, source);
  words = _mm512_xor_si512(words, state_512(state));
  __m512i sum = weigh_512(_mm512_setzero_si512(), words, by);
  if (whole > 1)
    sum = weigh_512(sum, load_512(later(target, 64), source + 64), by + 8);
  if (whole > 2)
    sum = weigh_512(sum, load_512(later(target, 128), source + 128), by + 16);
  words = load_part_512(later(target, 64 * whole), source + 64 * whole,
                        ~UINT64_C(0) >> pad);
  return reduce_512(weigh_512(sum, words, by + 8 * whole));
}

/* Piece `i` of those left, the last of which may be partial. */
BY_512 INLINE __m512i load_left_512(uint8_t *target, const uint8_t *source,
                                    size_t size, size_t i) {
  source += 64 * i;
  target = later(target, 64 * i);
  if (size >= 64 * (i + 1))
    return load_512(target, source);
  return load_part_512(target, source, ~UINT64_C(0) >> (-size & 63));
}

BY_512 INLINE uint32_t extend_beyond_256_wide(uint32_t state, uint8_t *target,
                                              const uint8_t *source,
                                              size_t size) {
  const __m512i k = _mm512_set4_epi64(
      (long long)FOLD_2048_SECOND, (long long)FOLD_2048_FIRST,
      (long long)FOLD_2048_SECOND, (long long)FOLD_2048_FIRST);
  __m512i a = load_512(target, source);
  __m512i b = load_512(later(target, 64), source + 64);
  __m512i c = load_512(later(target, 128), source + 128);
  __m512i d = load_512(later(target, 192), source + 192);
  a = _mm512_xor_si512(a, state_512(state));
  for (;;) {
    target = later(target, 256);
    source += 256;
    size -= 256;
    if (size < 256)
      break;
    a = fold_512(a, k, load_512(target, source));
    b = fold_512(b, k, load_512(later(target, 64), source + 64));
    c = fold_512(c, k, load_512(later(target, 128), source + 128));
    d = fold_512(d, k, load_512(later(target, 192), source + 192));
  }
  /* The rest folds into the first accumulators; the others then stand before
   * them, and the weights go round with them.
   */
  if (size > 0)
    a = fold_512(a, k, load_left_512(target, source, size, 0));
  if (size > 64)
    b = fold_512(b, k, load_left_512(target, source, size, 1));
  if (size > 128)
    c = fold_512(c, k, load_left_512(target, source, size, 2));
  if (size > 192)
    d = fold_512(d, k, load_left_512(target, source, size, 3));
  const uint32_t *by = weights(-size & 63);
  size_t moved = (size + 63) / 64;
  __m512i sum = weigh_512(_mm512_setzero_si512(), a, by + 8 * (-moved & 3));
  sum = weigh_512(sum, b, by + 8 * ((1 - moved) & 3));
  sum = weigh_512(sum, c, by + 8 * ((2 - moved) & 3));
  return reduce_512(weigh_512(sum, d, by + 8 * ((3 - moved) & 3)));
}

BY_512 INLINE uint32_t extend_512(uint32_t crc, uint8_t *target,
                                  const uint8_t *source, size_t size) {
  assert(source || size == 0);
  if (size <= 16)
    return ~extend_to_16(~crc, target, source, size);
  if (size <= 64)
    return ~extend_to_64(~crc, target, source, size);
  if (size <= 256)
    return ~extend_to_256_wide(~crc, target, source, size);
  return ~extend_beyond_256_wide(~crc, target, source, size);
}

BY_512 static uint32_t extend_vpclmul(uint32_t crc, const uint8_t *data,
                                      size_t size) {
  return extend_512(crc, NULL, data, size);
}

BY_512 static uint32_t copy_vpclmul(uint32_t crc, uint8_t *target,
                                    const uint8_t *source, size_t size) {
  assert(target || size == 0);
  return extend_512(crc, target, source, size);
}

const ps_crc_kind *ps_crc_vpclmul(void) {
  static const ps_crc_kind kind = {extend_vpclmul, copy_vpclmul,
                                   multiply_pclmul};
  /* The built-in asks the system, too, whether it saves these registers. */
  __builtin_cpu_init();
  if (ps_crc_pclmul() && __builtin_cpu_supports("vpclmulqdq") &&
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2"))
    return &kind;
  return NULL;
}

#endif
