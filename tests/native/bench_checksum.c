/* Speed of CRC-32 by size, every implementation beside a rival. */

/* A library, so that bench_checksum.py can hand over a rival's function that
 * lives in a Python extension. Inside the timed region: the calls, over data
 * that is in the cache and begins at changing alignments. Rounds of all
 * columns take turns; the median counts.
 */
#include "checksum.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 11, STARTS = 8, COLUMNS_MAX = 8, BYTES_MAX = 1 << 20 };

typedef uint32_t rival_crc(uint32_t crc, const uint8_t *data, uint64_t size);
typedef uint32_t timed_call(uint32_t crc, const uint8_t *data, size_t size);

/* One column of a table: a name, what is called, with which implementation,
 * and whether the call reads the data, so that it has a rate.
 */
typedef struct column {
  const char *name;
  timed_call *call;
  int kind;
  int reads;
} column;

static rival_crc *rival;
static uint8_t *copies;
static ps_crc_shift last_shift;

static uint32_t call_rival(uint32_t crc, const uint8_t *data, size_t size) {
  assert(rival);
  return rival(crc, data, size);
}

static uint32_t call_crc(uint32_t crc, const uint8_t *data, size_t size) {
  return ps_crc32(crc, data, size);
}

static uint32_t call_copy(uint32_t crc, const uint8_t *data, size_t size) {
  return ps_crc32_copy(crc, copies, data, size);
}

static uint32_t call_two_passes(uint32_t crc, const uint8_t *data,
                                size_t size) {
  memcpy(copies, data, size);
  return ps_crc32(crc, data, size);
}

static uint32_t call_combine(uint32_t crc, const uint8_t *data, size_t size) {
  return ps_crc32_combine(crc, *data, size);
}

static uint32_t call_cached(uint32_t crc, const uint8_t *data, size_t size) {
  return ps_crc32_combine_cached(&last_shift, crc, *data, size);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Nanoseconds a call; with `chained` each call waits for the one before. */
static double time_calls(const column *of, const uint8_t *data, size_t size,
                         int chained) {
  size_t calls = 500000 / (size + 100) + 20;
  uint32_t crc = 0;
  ps_crc32_use(of->kind);
  double start = seconds();
  for (size_t i = 0; i < calls; i++) {
    crc = of->call(chained ? crc : 0, data + i % STARTS * 13, size);
    __asm__ volatile("" ::"r"(crc));
  }
  return (seconds() - start) / (double)calls * 1e9;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_row(const column *columns, size_t count, const uint8_t *data,
                      size_t size, int chained) {
  double times[COLUMNS_MAX][ROUNDS];
  assert(count <= COLUMNS_MAX);
  for (size_t round = 0; round < ROUNDS; round++)
    for (size_t i = 0; i < count; i++)
      times[i][round] = time_calls(&columns[i], data, size, chained);
  printf("%8zu", size);
  for (size_t i = 0; i < count; i++) {
    qsort(times[i], ROUNDS, sizeof times[i][0], by_value);
    double median = times[i][ROUNDS / 2];
    printf(" %11.1f", median);
    if (columns[i].reads)
      printf(" %6.1f", (double)size / median);
    else
      printf(" %6s", "");
  }
  printf("\n");
}

static void print_table(const char *title, const column *columns, size_t count,
                        const uint8_t *data, int chained) {
  static const size_t sizes[] = {16,   64,   88,    128,   256,      1000,
                                 1024, 4096, 16384, 65536, BYTES_MAX};
  printf("\n%s (ns a call, GB/s)\n    size", title);
  for (size_t i = 0; i < count; i++)
    printf(" %18s", columns[i].name);
  printf("\n");
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    print_row(columns, count, data, sizes[i], chained);
}

/* Prints all tables. `rival_or_null` stays the caller's. Returns 0. */
__attribute__((visibility("default"))) int
bench_checksum(rival_crc *rival_or_null) {
  static const char *names[] = {"",        "portable", "pclmul",
                                "vpclmul", "arm",      "arm+pmull"};
  column columns[COLUMNS_MAX];
  size_t count = 0;
  uint8_t *data = malloc(BYTES_MAX + 4096);
  copies = malloc(BYTES_MAX + 4096);
  if (!data || !copies)
    abort();
  for (size_t i = 0; i < BYTES_MAX + 4096; i++)
    data[i] = (uint8_t)(i * 2654435761u >> 13);
  memset(copies, 0, BYTES_MAX + 4096);
  rival = rival_or_null;
  if (rival)
    columns[count++] = (column){"rival", call_rival, PS_CRC_AUTO, 1};
  for (int kind = PS_CRC_ARM_PMULL; kind >= PS_CRC_PORTABLE; kind--)
    if (ps_crc32_use(kind) == kind)
      columns[count++] = (column){names[kind], call_crc, kind, 1};
  print_table("checksum, calls overlap", columns, count, data, 0);
  print_table("checksum, calls wait for each other", columns, count, data, 1);
  const column both[] = {
      {"one pass", call_copy, PS_CRC_AUTO, 1},
      {"copy, then checksum", call_two_passes, PS_CRC_AUTO, 1}};
  print_table("copy and checksum", both, 2, data, 0);
  const column combining[] = {
      {"combine", call_combine, PS_CRC_AUTO, 0},
      {"combine_cached", call_cached, PS_CRC_AUTO, 0},
      {"combine, portable", call_combine, PS_CRC_PORTABLE, 0},
      {"cached, portable", call_cached, PS_CRC_PORTABLE, 0}};
  print_table("combination of parts", combining, 4, data, 1);
  ps_crc32_use(PS_CRC_AUTO);
  free(data);
  free(copies);
  return 0;
}
