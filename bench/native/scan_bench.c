/* Speed of the scan kernel and the encoder beside one pass of the checksum. */

/* Usage: scan_bench [BODY_BYTES [MEBIBYTES]], 1024 and 256 by default.
 *
 * The records (topic, keys, tags, property CRC) fill a file in the working
 * directory, which is in the page cache and mapped, as a segment is. Inside
 * the timed region: one call of ps_crc32 over all of them; the scans, 1024
 * rows at a time; encoding all of them into a staging buffer of 256 KiB, which
 * stays in the cache, with the properties in one piece or as columns. Rounds
 * of all of them take turns; the median of each counts, the spread is the
 * distance of the quartiles against it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checksum.h"
#include "format.h"
#include "record.h"
#include "scan.h"

enum { ROUNDS = 31, ROWS = 1024, STAGE = 256 << 10 };

static struct {
  uint8_t *segment;
  uint64_t size;
  uint64_t end;
  uint64_t records;
  uint8_t *stage;
  ps_topics *topics;
  ps_message message;
  ps_stamp stamp;
  ps_record rows[ROWS];
} bench;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void fill(uint32_t body_size) {
  ps_record_cache cache = {0};
  uint8_t *body = malloc(body_size + 1);
  if (!body)
    abort();
  for (uint32_t i = 0; i < body_size; i++)
    body[i] = (uint8_t)(i * 2654435761u >> 13);
  bench.message = (ps_message){
      .topic = (const uint8_t *)"bench-topic",
      .topic_size = 11,
      .body = body,
      .body_size = body_size,
      .properties = (const uint8_t *)"KEYS\1key-123456\2TAGS\1TagA\2",
      .properties_size = 26,
      .born_ms = 1700000000000,
  };
  bench.stamp = (ps_stamp){
      .store_ms = 1700000000123,
      .store_host = (const uint8_t *)"\x7f\0\0\1\0\0\x2a\x9f",
      .store_host_size = 8,
      .property_crc = 1,
  };
  uint32_t size = ps_record_size(&bench.message, &bench.stamp);
  memset(bench.segment, 0, bench.size);
  while (bench.end + size + PS_BLANK_SIZE <= bench.size) {
    bench.stamp.offset = bench.end;
    bench.end += ps_record_encode(bench.segment + bench.end, &bench.message,
                                  &bench.stamp, &cache);
    bench.records++;
  }
}

static void checksum(uint32_t unused) {
  (void)unused;
  uint32_t crc = ps_crc32(0, bench.segment, bench.end);
  __asm__ volatile("" ::"r"(crc));
}

static void scan_rows(uint32_t checks, ps_record *rows) {
  ps_scan state;
  ps_scan_init(&state, bench.topics);
  ps_window window = {bench.segment, 0, bench.size, bench.size};
  ps_cursor cursor = {
      .limit = PS_NO_OFFSET, .record_start = PS_NO_OFFSET, .checks = checks};
  for (int32_t answer = PS_STOP_ROWS; answer == PS_STOP_ROWS;) {
    uint32_t count = 0;
    uint64_t wanted;
    ps_error error;
    answer = ps_scan_window(&state, &window, &cursor, rows, ROWS, &count,
                            &wanted, &error);
  }
  if (cursor.records != bench.records)
    abort();
}

static void scan(uint32_t checks) {
  scan_rows(checks, bench.rows);
}

static void scan_only(uint32_t checks) {
  scan_rows(checks, NULL);
}

static void encode(uint32_t is_columns) {
  ps_record_cache cache = {0};
  ps_message message = bench.message;
  if (is_columns) {
    message.properties_size = 0;
    message.keys = message.properties + 5;
    message.keys_size = 10;
    message.tags = message.properties + 21;
    message.tags_size = 4;
  }
  uint64_t at = 0;
  for (uint64_t i = 0; i < bench.records; i++) {
    bench.stamp.offset = i;
    /* Bodies come from memory, not from the cache. */
    message.body = bench.segment + i * (bench.end / bench.records);
    at += ps_record_encode(bench.stage + at, &message, &bench.stamp, &cache);
    if (at > STAGE - 8192 - message.body_size)
      at = 0;
  }
}

static void copy(uint32_t unused) {
  (void)unused;
  uint64_t piece = STAGE;
  for (uint64_t at = 0; at + piece <= bench.end; at += piece)
    memcpy(bench.stage, bench.segment + at, piece);
  __asm__ volatile("" ::"r"(bench.stage) : "memory");
}

/* A mapping of a new file that has no name any more. */
static uint8_t *map_file(uint64_t size) {
  char name[] = "scan_bench.XXXXXX";
  int file = mkstemp(name);
  if (file < 0 || unlink(name) != 0 || ftruncate(file, (off_t)size) != 0)
    abort();
  void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED)
    abort();
  close(file);
  return data;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}

#define PROOF (PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET)

static const struct {
  const char *name;
  void (*run)(uint32_t argument);
  uint32_t argument;
} columns[] = {
    {"one checksum pass", checksum, 0},
    {"scan: body, property, offset", scan, PROOF},
    {"scan: the same and topic", scan, PROOF | PS_WANT_TOPIC},
    {"scan: one proof, offset", scan, PROOF | PS_CHECK_ONCE},
    {"scan: one proof, offset, no rows", scan_only, PROOF | PS_CHECK_ONCE},
    {"scan: body and offset", scan, PS_CHECK_BODY | PS_CHECK_OFFSET},
    {"scan: headers", scan, 0},
    {"scan: headers, topic, tags", scan, PS_WANT_TOPIC | PS_WANT_TAGS},
    {"copy", copy, 0},
    {"encode, properties as they are", encode, 0},
    {"encode, keys and tags apart", encode, 1},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

int main(int argc, char **argv) {
  static double times[COLUMNS][ROUNDS];
  uint32_t body = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) : 1024;
  bench.size = (argc > 2 ? strtoull(argv[2], NULL, 0) : 256) << 20;
  bench.segment = map_file(bench.size);
  bench.stage = malloc(STAGE + 65536 + body);
  bench.topics = ps_topics_new();
  if (!bench.stage || !bench.topics)
    abort();
  memset(bench.stage, 0, STAGE);
  fill(body);
  for (int round = -1; round < ROUNDS; round++)
    for (int i = 0; i < COLUMNS; i++) {
      double start = seconds();
      columns[i].run(columns[i].argument);
      if (round >= 0)
        times[i][round] = seconds() - start;
    }
  printf("%llu records of %llu bytes\n%-32s %8s %9s %8s %7s\n",
         (unsigned long long)bench.records,
         (unsigned long long)(bench.end / bench.records), "", "GB/s",
         "ns/record", "ratio", "spread");
  double first = 0;
  for (int i = 0; i < COLUMNS; i++) {
    qsort(times[i], ROUNDS, sizeof(double), by_value);
    double median = times[i][ROUNDS / 2];
    first = i == 0 ? median : first;
    printf("%-32s %8.2f %9.1f %7.0f%% %6.0f%%\n", columns[i].name,
           (double)bench.end / median * 1e-9,
           median / (double)bench.records * 1e9, first / median * 100,
           (times[i][ROUNDS * 3 / 4] - times[i][ROUNDS / 4]) / median * 100);
  }
  ps_topics_free(bench.topics);
  munmap(bench.segment, bench.size);
  free(bench.stage);
  return 0;
}
