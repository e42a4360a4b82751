/* What the CRC-32 implementations share: their shape and their constants. */

/* Private to the checksum files.
 *
 * Notation. A bit-reflected register of w bits is a polynomial over GF(2):
 * bit i is the coefficient of x^(w-1-i). P is the CRC polynomial, and every
 * 32-bit constant is some x^e mod P. A carry-less product of two reflected
 * registers of a and b bits is read as a register of a+b bits: it then
 * stands for the product times x, and the constants make up for it by
 * holding x^(e-1) where x^e is meant.
 */
#ifndef PS_CHECKSUM_KINDS_H
#define PS_CHECKSUM_KINDS_H

#include <stddef.h>
#include <stdint.h>

#if !defined(PS_PORTABLE) && defined(__x86_64__)
#define PS_CRC_X86_BUILT 1
#endif

/* clang offers the AArch64 intrinsics only where they are the baseline. */
#if !defined(PS_PORTABLE) && defined(__aarch64__) &&                           \
    !defined(__AARCH64EB__) &&                                                 \
    (!defined(__clang__) ||                                                    \
     (defined(__ARM_FEATURE_CRC32) &&                                          \
      (defined(__ARM_FEATURE_AES) || defined(__ARM_FEATURE_CRYPTO))))
#define PS_CRC_ARM_BUILT 1
#endif

#define PS_CRC_HIDDEN __attribute__((visibility("hidden")))

/* One implementation. `extend` and `copy` do what ps_crc32 and ps_crc32_copy
 * promise, `copy` is NULL where one pass gains nothing; `multiply` returns
 * a * b mod P. All reentrant.
 */
typedef struct ps_crc_kind {
  uint32_t (*extend)(uint32_t crc, const uint8_t *data, size_t size);
  uint32_t (*copy)(uint32_t crc, uint8_t *target, const uint8_t *source,
                   size_t size);
  uint32_t (*multiply)(uint32_t a, uint32_t b);
} ps_crc_kind;

/* Each returns its implementation, or NULL if this processor lacks it; the
 * portable one is always there.
 */
PS_CRC_HIDDEN const ps_crc_kind *ps_crc_portable(void);
PS_CRC_HIDDEN const ps_crc_kind *ps_crc_pclmul(void);
PS_CRC_HIDDEN const ps_crc_kind *ps_crc_vpclmul(void);
PS_CRC_HIDDEN const ps_crc_kind *ps_crc_arm(void);
PS_CRC_HIDDEN const ps_crc_kind *ps_crc_arm_pmull(void);

/* The portable multiplication, for implementations without one of their own. */
PS_CRC_HIDDEN uint32_t ps_crc_multiply_portable(uint32_t a, uint32_t b);

/* slices[k][b]: the state left by byte b followed by k zero bytes, that is
 * b (as a register of 8 bits) * x^(8k+32) mod P.
 */
extern PS_CRC_HIDDEN const uint32_t ps_crc_slices[16][256];

/* powers[k][j]: x^(8 j 16^k) mod P. P is primitive, so x^(2^32-1) = 1 and
 * eight digits reach every size.
 */
extern PS_CRC_HIDDEN const uint32_t ps_crc_powers[8][16];

/* weights[s][i]: x^(64(31-i) + 31 - 8s) mod P, which multiplies 64-bit word
 * i of a window of 32 words whose last s bytes lie behind the data. Words
 * are at most 39 as whole words behind the data move the window by up to 7.
 */
extern PS_CRC_HIDDEN const uint32_t ps_crc_weights[8][40];

#endif
