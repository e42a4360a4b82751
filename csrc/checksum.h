/* CRC-32 of whole buffers and of parts: the checksum of every record. */

/* The polynomial is that of IEEE 802.3 and zlib (0x04C11DB7, bit-reflected,
 * all ones before and after), so every value here equals zlib's `crc32`.
 * RocketMQ stores it with bit 31 cleared; masking is the format's business.
 *
 * Conventions of this header:
 * - Nothing here allocates, fails, blocks or keeps a pointer it was given.
 * - Thread class of every call: any thread. The fastest implementation of
 *   this processor is chosen at the first call; threads that race there
 *   choose the same one.
 * - A buffer may be NULL only if its size is 0.
 */
#ifndef PS_CHECKSUM_H
#define PS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Effect: returns the checksum of the bytes seen so far followed by `data`.
 * `crc` is the checksum of the bytes seen so far, 0 for none.
 * Ownership: `data` is read, never past `size`; it stays the caller's.
 */
uint32_t ps_crc32(uint32_t crc, const void *data, size_t size);

/* Effect: copies `size` bytes from `source` to `target` and returns what
 * ps_crc32(crc, source, size) does. One pass: cheaper than both in turn.
 * Ownership: both stay the caller's; they must not overlap. Nothing beside
 * the `size` bytes of `target` is written, not even with its own value, so
 * neighbours may be written by other threads meanwhile.
 */
uint32_t ps_crc32_copy(uint32_t crc, void *target, const void *source,
                       size_t size);

/* Effect: moves a checksum in front of `size` further bytes: returns
 * crc * x^(8 size) modulo the polynomial. This is *not* the checksum after
 * `size` zero bytes; it is the left term of a combination:
 *     crc(A B) == ps_crc32_shift(crc(A), size of B) ^ crc(B)
 */
uint32_t ps_crc32_shift(uint32_t crc, uint64_t size);

/* Effect: returns the checksum of A followed by B from the checksums of A
 * and B, each begun at 0, and the size of B. Reads no data.
 */
uint32_t ps_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b);

/* The multiplier for one size. All zero bytes are a valid start. */
typedef struct ps_crc_shift {
  uint64_t size;
  uint32_t factor;
} ps_crc_shift;

/* Effect: as ps_crc32_combine, but keeps the multiplier of the last size in
 * `last`: records of one size in a row cost one multiplication each.
 * Ownership: `last` stays the caller's; one thread at a time per `last`.
 */
uint32_t ps_crc32_combine_cached(ps_crc_shift *last, uint32_t crc_a,
                                 uint32_t crc_b, uint64_t size_b);

/* The implementations, for ps_crc32_use. */
enum {
  PS_CRC_AUTO = 0,     /* the fastest that runs here */
  PS_CRC_PORTABLE = 1, /* tables; always there */
  PS_CRC_PCLMUL = 2,   /* x86-64: PCLMULQDQ and AVX */
  PS_CRC_VPCLMUL = 3,  /* x86-64: VPCLMULQDQ and AVX-512 */
  PS_CRC_ARM = 4,      /* AArch64: CRC32 */
  PS_CRC_ARM_PMULL = 5 /* AArch64: CRC32 and PMULL */
};

/* Effect: for tests and benches: makes all calls of the process use one
 * implementation. Returns the one now in use (PS_CRC_AUTO is resolved), or
 * -1, changing nothing, if it is not built in or this processor lacks it.
 */
int ps_crc32_use(int which);

#endif
