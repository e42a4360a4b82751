/* CRC-32: every implementation against one that works bit by bit. */

#include "checksum.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "checksum_kinds.h"

/* The polynomial, bit-reflected: bit 31 is the coefficient of x^0. */
#define POLYNOMIAL 0xEDB88320
#define ORDER 0xFFFFFFFF

enum { SIZE_MAX_TRIED = 4096, ALIGNMENTS = 64 };

/* ---- The slow truth --------------------------------------------------- */

static uint32_t times_x(uint32_t value) {
  return value >> 1 ^ (value & 1 ? POLYNOMIAL : 0);
}

static uint32_t slow_byte(uint32_t crc, uint8_t byte) {
  uint32_t state = ~crc ^ byte;
  for (int bit = 0; bit < 8; bit++)
    state = times_x(state);
  return ~state;
}

static uint32_t slow_crc(uint32_t crc, const uint8_t *data, size_t size) {
  for (size_t at = 0; at < size; at++)
    crc = slow_byte(crc, data[at]);
  return crc;
}

static uint32_t slow_multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int power = 0; power < 32; power++, a = times_x(a))
    if (b >> (31 - power) & 1)
      product ^= a;
  return product;
}

/* x^exponent; of a negative one, too, as x^(2^32-1) is 1. */
static uint32_t slow_power(int64_t exponent) {
  uint64_t left = (uint64_t)((exponent % ORDER + ORDER) % ORDER);
  uint32_t power = 0x80000000, square = 0x40000000;
  for (; left != 0; left >>= 1, square = slow_multiply(square, square))
    if (left & 1)
      power = slow_multiply(power, square);
  return power;
}

/* Calls `body` with each implementation in use that runs here. */
static void with_each_kind(void (*body)(void)) {
  unsigned tried = 0;
  for (int which = PS_CRC_PORTABLE; which <= PS_CRC_ARM_PMULL; which++) {
    if (ps_crc32_use(which) != which)
      continue;
    unsigned before = check_failures;
    body();
    tried++;
    if (check_failures != before)
      fprintf(stderr, "with implementation %d\n", which);
  }
  CHECK_TRUE(tried > 0);
  ps_crc32_use(PS_CRC_AUTO);
}

/* ---- Constants -------------------------------------------------------- */

/* The powers of x by which checksums move are those of the polynomial. */
static void powers_follow_from_the_polynomial(void) {
  for (int k = 0; k < 8; k++)
    for (int j = 0; j < 16; j++)
      CHECK(slow_power(INT64_C(8) * j << (4 * k)), ps_crc_powers[k][j]);
}

/* The weights of the carry-less windows are powers of x. */
static void weights_follow_from_the_polynomial(void) {
  for (int s = 0; s < 8; s++)
    for (int i = 0; i < 40; i++)
      CHECK(slow_power(64 * (31 - i) + 31 - 8 * s), ps_crc_weights[s][i]);
}

/* A slice holds what a byte leaves after further zero bytes. */
static void slices_follow_from_the_polynomial(void) {
  for (int k = 0; k < 16; k++)
    for (unsigned byte = 0; byte < 256; byte++)
      CHECK(slow_multiply(byte, slow_power(8 * k + 8)), ps_crc_slices[k][byte]);
}

/* ---- Buffers ---------------------------------------------------------- */

/* The check value that every description of this CRC gives. */
static void body_known(void) {
  CHECK(0xCBF43926, ps_crc32(0, "123456789", 9));
  CHECK(0, ps_crc32(0, "", 0));
  CHECK(0, ps_crc32(0, NULL, 0));
  CHECK(0x12345678, ps_crc32(0x12345678, NULL, 0));
  CHECK(0x12345678, ps_crc32_copy(0x12345678, NULL, NULL, 0));
}

static void known_values_come_out(void) {
  with_each_kind(body_known);
}

static void body_all_sizes(void) {
  static uint8_t data[SIZE_MAX_TRIED + ALIGNMENTS]
      __attribute__((aligned(ALIGNMENTS)));
  check_random_fill(data, sizeof data);
  for (size_t from = 0; from < ALIGNMENTS; from++) {
    uint32_t begun = from % 2 ? (uint32_t)check_random() : 0;
    uint32_t expected = begun;
    for (size_t size = 0; size <= SIZE_MAX_TRIED; size++) {
      if (!CHECK(expected, ps_crc32(begun, data + from, size)))
        fprintf(stderr, "size %zu, alignment %zu\n", size, from);
      expected = slow_byte(expected, data[from + size]);
    }
  }
}

/* Every size up to 4 KiB at every alignment equals the slow checksum. */
static void every_size_at_every_alignment_agrees(void) {
  with_each_kind(body_all_sizes);
}

static void body_long(void) {
  enum { SIZE = 300000 };
  uint8_t *data = malloc(SIZE);
  REQUIRE(data);
  check_random_fill(data, SIZE);
  for (int round = 0; round < 20; round++) {
    size_t from = check_random() % 5000;
    size_t size = SIZE - from - check_random() % 5000;
    CHECK(slow_crc(0, data + from, size), ps_crc32(0, data + from, size));
  }
  free(data);
}

/* Long buffers agree: the loops over whole windows run many times. */
static void long_buffers_agree(void) {
  with_each_kind(body_long);
}

static void body_chain(void) {
  uint8_t data[2000];
  check_random_fill(data, sizeof data);
  for (int round = 0; round < 3000; round++) {
    size_t size = check_random() % sizeof data;
    size_t first = check_random() % (size + 1);
    size_t second = first + check_random() % (size - first + 1);
    uint32_t crc = ps_crc32(0, data, first);
    crc = ps_crc32(crc, data + first, second - first);
    crc = ps_crc32(crc, data + second, size - second);
    CHECK(ps_crc32(0, data, size), crc);
  }
}

/* Checksumming in pieces gives the checksum of the whole. */
static void pieces_chain_to_the_whole(void) {
  with_each_kind(body_chain);
}

static void body_flip(void) {
  uint8_t data[400];
  check_random_fill(data, sizeof data);
  uint32_t whole = ps_crc32(0, data, sizeof data);
  for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK_TRUE(whole != ps_crc32(0, data, sizeof data));
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

/* No single bit goes unseen. */
static void a_flipped_bit_changes_the_checksum(void) {
  with_each_kind(body_flip);
}

/* ---- Copies ----------------------------------------------------------- */

static void body_copies(void) {
  static uint8_t source[SIZE_MAX_TRIED + ALIGNMENTS];
  static uint8_t target[SIZE_MAX_TRIED + 3 * ALIGNMENTS];
  static uint8_t expected[sizeof target];
  check_random_fill(source, sizeof source);
  for (size_t size = 0; size <= SIZE_MAX_TRIED; size += 1 + size / 700) {
    size_t from = check_random() % ALIGNMENTS;
    size_t to = ALIGNMENTS + check_random() % ALIGNMENTS;
    uint32_t begun = (uint32_t)check_random();
    memset(target, 0xA5, sizeof target);
    memset(expected, 0xA5, sizeof expected);
    memcpy(expected + to, source + from, size);
    CHECK(ps_crc32(begun, source + from, size),
          ps_crc32_copy(begun, target + to, source + from, size));
    CHECK_BYTES(expected, target, sizeof target);
  }
}

/* A copy has the bytes, the checksum, and nothing written beside it. */
static void a_copy_is_equal_and_stays_in_its_bounds(void) {
  with_each_kind(body_copies);
}

/* Memory of `pages` pages between two that must not be touched. */
static uint8_t *guarded(size_t pages) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *all = mmap(NULL, (pages + 2) * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED)
    return NULL;
  mprotect(all, page, PROT_NONE);
  mprotect(all + (pages + 1) * page, page, PROT_NONE);
  return all + page;
}

static void body_guarded(void) {
  size_t room = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *data = guarded(1), *copy = guarded(1);
  REQUIRE(data && copy);
  check_random_fill(data, room);
  for (size_t size = 0; size <= 700; size++) {
    uint8_t *last = data + room - size;
    uint32_t expected = slow_crc(0, last, size);
    CHECK(expected, ps_crc32(0, last, size));
    CHECK(expected, ps_crc32_copy(0, copy + room - size, last, size));
    CHECK_BYTES(last, copy + room - size, size);
    CHECK(slow_crc(0, data, size), ps_crc32_copy(0, copy, data, size));
  }
  munmap(data - room, 3 * room);
  munmap(copy - room, 3 * room);
}

/* At the edges of mapped memory nothing beside the data is touched. */
static void the_edges_of_a_mapping_are_not_crossed(void) {
  with_each_kind(body_guarded);
}

/* ---- Combination ------------------------------------------------------ */

static void body_combine(void) {
  enum { SIZE = 20000 };
  static uint8_t data[SIZE];
  check_random_fill(data, SIZE);
  ps_crc_shift last = {0};
  for (int round = 0; round < 2000; round++) {
    size_t a = check_random() % 500;
    size_t b = check_random() % (round % 10 ? 1500 : SIZE - 500);
    uint32_t crc_a = ps_crc32(0, data, a);
    uint32_t crc_b = ps_crc32(0, data + a, b);
    uint32_t whole = ps_crc32(crc_a, data + a, b);
    CHECK(whole, ps_crc32_combine(crc_a, crc_b, b));
    CHECK(whole, ps_crc32_shift(crc_a, b) ^ crc_b);
    CHECK(whole, ps_crc32_combine_cached(&last, crc_a, crc_b, b));
    CHECK(whole, ps_crc32_combine_cached(&last, crc_a, crc_b, b));
    CHECK(b, last.size);
  }
}

/* The checksums of two parts and the size of the second give the whole's. */
static void parts_combine_to_the_whole(void) {
  with_each_kind(body_combine);
}

static void body_sizes(void) {
  for (int round = 0; round < 2000; round++) {
    uint32_t crc = (uint32_t)check_random();
    uint64_t size = check_random() >> check_random() % 64;
    int64_t exponent = (int64_t)(size % ORDER) * 8;
    CHECK(slow_multiply(crc, slow_power(exponent)), ps_crc32_shift(crc, size));
  }
  CHECK(0x12345678, ps_crc32_shift(0x12345678, 0));
  CHECK(0x12345678, ps_crc32_shift(0x12345678, ORDER));
  CHECK(ps_crc32_shift(0x12345678, UINT64_C(1) << 32),
        ps_crc32_shift(0x12345678, 1));
  CHECK(0x12345678, ps_crc32_shift(0x12345678, UINT64_MAX));
}

/* Parts may be longer than memory: any 64-bit size moves rightly. */
static void any_size_can_be_moved_over(void) {
  with_each_kind(body_sizes);
}

static void body_empty_parts(void) {
  ps_crc_shift last = {0};
  uint32_t crc = ps_crc32(0, "head", 4);
  CHECK(crc, ps_crc32_combine(crc, 0, 0));
  CHECK(crc, ps_crc32_combine_cached(&last, crc, 0, 0));
  CHECK(crc, ps_crc32_combine_cached(&last, 0, crc, 4));
  CHECK(crc, ps_crc32_combine_cached(&last, crc, 0, 0));
}

/* An empty part changes nothing, in a zeroed cache neither. */
static void empty_parts_combine_to_the_other(void) {
  with_each_kind(body_empty_parts);
}

/* ---- Choice ----------------------------------------------------------- */

static void *first_call(void *result) {
  *(uint32_t *)result = ps_crc32(0, "123456789", 9);
  return NULL;
}

/* Threads that make the first calls of a process at once all get it right;
 * this case has to be the first one for that.
 */
static void first_calls_may_race(void) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  uint32_t results[THREADS] = {0};
  for (int i = 0; i < THREADS; i++)
    REQUIRE(pthread_create(&threads[i], NULL, first_call, &results[i]) == 0);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(0xCBF43926, results[i]);
  }
}

/* An implementation that is not here is refused, and nothing changes. */
static void an_absent_implementation_is_refused(void) {
  int best = ps_crc32_use(PS_CRC_AUTO);
  CHECK_TRUE(best >= PS_CRC_PORTABLE);
  CHECK(PS_CRC_PORTABLE, ps_crc32_use(PS_CRC_PORTABLE));
  CHECK(-1, ps_crc32_use(99));
  CHECK(-1, ps_crc32_use(-1));
#ifdef __aarch64__
  CHECK(-1, ps_crc32_use(PS_CRC_PCLMUL));
#else
  CHECK(-1, ps_crc32_use(PS_CRC_ARM));
#endif
  CHECK(0xCBF43926, ps_crc32(0, "123456789", 9));
  CHECK(best, ps_crc32_use(PS_CRC_AUTO));
#ifdef PS_PORTABLE
  CHECK(PS_CRC_PORTABLE, best);
#endif
}

CHECK_MAIN(CASE(first_calls_may_race),
           CASE(an_absent_implementation_is_refused),
           CASE(powers_follow_from_the_polynomial),
           CASE(weights_follow_from_the_polynomial),
           CASE(slices_follow_from_the_polynomial), CASE(known_values_come_out),
           CASE(every_size_at_every_alignment_agrees), CASE(long_buffers_agree),
           CASE(pieces_chain_to_the_whole),
           CASE(a_flipped_bit_changes_the_checksum),
           CASE(a_copy_is_equal_and_stays_in_its_bounds),
           CASE(the_edges_of_a_mapping_are_not_crossed),
           CASE(parts_combine_to_the_whole), CASE(any_size_can_be_moved_over),
           CASE(empty_parts_combine_to_the_other))
