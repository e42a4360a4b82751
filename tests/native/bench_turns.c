/* Synchronous appends of 1 and of 64 threads beside a bare write-and-sync. */

/* Usage: bench_turns DIRECTORY [ROUNDS]. In each round, one after another: a
 * loop of pwrite and fdatasync of one record's size into an allocated file,
 * one thread that appends and waits for the disk, and 64 that do so. Printed
 * are the medians with their spread, and the two ratios that count:
 * one thread of the log against the bare loop, and 64 threads against one.
 */
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support_log.h"

enum { BODY = 1024, ROUNDS_MAX = 99, THREADS = 64 };

static const uint64_t SECONDS_NS = 1000000000;
static const uint64_t SEGMENT = UINT64_C(1) << 28;

typedef struct bench {
  const char *root;
  ps_log *log;
  _Atomic uint64_t appended;
  _Atomic uint32_t stops;
} bench;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * SECONDS_NS + (uint64_t)now.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void *append_until_stopped(void *argument) {
  bench *b = argument;
  uint8_t message[BODY + STORE_MESSAGE_EXTRA];
  uint64_t size = store_message(message, 0, 1, BODY);
  while (!atomic_load(&b->stops)) {
    ps_error error;
    ps_appended appended;
    if (ps_log_append(b->log, message, size, PS_ACK_SYNCED, NULL, 0, &appended,
                      &error) != PS_OK)
      fail(error.text);
    atomic_fetch_add(&b->appended, 1);
  }
  return NULL;
}

/* Appends of so many threads in a second. */
static double appends(bench *b, uint32_t threads) {
  pthread_t workers[THREADS];
  atomic_store(&b->stops, 0);
  atomic_store(&b->appended, 0);
  uint64_t begun = now_ns();
  for (uint32_t i = 0; i < threads; i++)
    pthread_create(&workers[i], NULL, append_until_stopped, b);
  struct timespec second = {.tv_sec = 1};
  nanosleep(&second, NULL);
  atomic_store(&b->stops, 1);
  for (uint32_t i = 0; i < threads; i++)
    pthread_join(workers[i], NULL);
  uint64_t took = now_ns() - begun;
  return (double)atomic_load(&b->appended) * 1e9 / (double)took;
}

/* The same bytes without a log. */
static double bare(const bench *b, uint64_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/bare", b->root);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || posix_fallocate(file, 0, (off_t)SEGMENT) != 0 ||
      fsync(file) < 0)
    fail("cannot make the file of the bare loop");
  uint8_t bytes[2 * BODY];
  memset(bytes, 'b', sizeof bytes);
  uint64_t done = 0, begun = now_ns();
  while (now_ns() - begun < SECONDS_NS) {
    if (pwrite(file, bytes, size, (off_t)(done++ * size)) < 0 ||
        fdatasync(file) < 0)
      fail("the bare loop cannot write");
  }
  uint64_t took = now_ns() - begun;
  close(file);
  unlink(path);
  return (double)done * 1e9 / (double)took;
}

static int by_value(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

static double print_row(const char *name, double *rates, uint32_t count) {
  qsort(rates, count, sizeof *rates, by_value);
  double median = rates[count / 2];
  printf("%-26s %10.0f /s   (%.0f to %.0f)\n", name, median, rates[0],
         rates[count - 1]);
  return median;
}

static void make_folder(const char *root, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", root, name);
  (void)mkdir(path, 0755);
}

static void open_log(bench *b) {
  make_folder(b->root, "commitlog");
  make_folder(b->root, "meta");
  make_folder(b->root, "meta/tmp");
  ps_error error;
  ps_options options = {.segment_size = SEGMENT,
                        .mode = PS_MODE_WRITE,
                        .property_crc = 1,
                        .store_host_size = 8};
  ps_start start = {.end = 0};
  if (ps_log_open(b->root, &options, NULL, &b->log, &error) != PS_OK ||
      ps_log_start(b->log, &start, &error) != PS_OK)
    fail(error.text);
}

int main(int argc, char **argv) {
  if (argc < 2)
    fail("usage: bench_turns DIRECTORY [ROUNDS]");
  uint32_t rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 5;
  if (rounds < 1 || rounds > ROUNDS_MAX)
    fail("rounds are from 1 to 99");
  bench b = {.root = argv[1]};
  open_log(&b);
  double loop[ROUNDS_MAX], one[ROUNDS_MAX], many[ROUNDS_MAX];
  ps_error error;
  ps_ends ends;
  (void)appends(&b, 1); /* the segment, the caches */
  (void)ps_log_ends(b.log, &ends, &error);
  uint64_t record = ends.published_end / atomic_load(&b.appended);
  for (uint32_t i = 0; i < rounds; i++) {
    loop[i] = bare(&b, record);
    one[i] = appends(&b, 1);
    many[i] = appends(&b, THREADS);
  }
  if (ps_log_close(b.log, &error) != PS_OK)
    fail(error.text);
  ps_log_free(b.log);
  printf("records of %" PRIu64 " bytes, %u rounds of a second each\n", record,
         rounds);
  double limit = print_row("bare pwrite + fdatasync", loop, rounds);
  double single = print_row("synchronous, 1 thread", one, rounds);
  double group = print_row("synchronous, 64 threads", many, rounds);
  printf("1 thread / bare loop       %9.2f      (at least 0.90)\n",
         single / limit);
  printf("64 threads / 1 thread      %9.1f      (at least 15)\n",
         group / single);
  return 0;
}
