/* Synchronous appends from many threads: how far one sync serves them all. */

/* Usage: threads ROOT THREADS RECORDS BODY_SIZE SEGMENT_SIZE
 *
 * ROOT has the empty folders commitlog and meta/tmp. Every thread appends its
 * share of RECORDS messages one by one through ps_log_append and waits for
 * each to be on disk. Prints the seconds from the first append to the last
 * answer, and the records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "pystore.h"
#include "records.h"

enum { THREADS_MAX = 256 };

static ps_log *log_;
static records *messages;
static uint64_t each;
static pthread_barrier_t barrier;

static void fail(const ps_error *error) {
  fprintf(stderr, "%s\n", error->text);
  exit(1);
}

static void *run(void *argument) {
  uint64_t number = *(const uint64_t *)argument;
  uint8_t *form = malloc(messages->body_size + 4096);
  if (!form)
    die("malloc");
  uint64_t size = records_form(messages, number % messages->count, form);
  pthread_barrier_wait(&barrier);
  for (uint64_t i = 0; i < each; i++) {
    ps_appended appended;
    ps_error error;
    if (ps_log_append(log_, form, size, PS_ACK_SYNCED, NULL, 0, &appended,
                      &error) != PS_OK)
      fail(&error);
  }
  free(form);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 6)
    return 2;
  uint64_t threads = strtoull(argv[2], NULL, 0);
  uint64_t count = strtoull(argv[3], NULL, 0);
  messages = records_new(64, (uint32_t)strtoul(argv[4], NULL, 0));
  ps_options options = {.segment_size = strtoull(argv[5], NULL, 0),
                        .mode = PS_MODE_WRITE,
                        .property_crc = 1,
                        .message_size_max = 4u << 20,
                        .flush_interval_ms = 500,
                        .writeback_bytes = EARLY,
                        .store_host_size = 8,
                        .store_host = {127, 0, 0, 1, 0, 0, 0x2a, 0x9f}};
  ps_error error;
  ps_start start = {.last_offset = PS_NO_OFFSET, .clean = 1};
  if (ps_log_open(argv[1], &options, NULL, &log_, &error) != PS_OK ||
      ps_log_start(log_, &start, &error) != PS_OK)
    fail(&error);
  if (threads == 0 || threads > THREADS_MAX)
    return 2;
  each = count / threads;
  pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
  static pthread_t thread[THREADS_MAX];
  static uint64_t numbers[THREADS_MAX];
  for (uint64_t i = 0; i < threads; i++) {
    numbers[i] = i;
    if (pthread_create(&thread[i], NULL, run, &numbers[i]) != 0)
      die("pthread_create");
  }
  /* The first segment is made outside the timed region. */
  ps_appended appended;
  uint8_t form[1u << 16];
  uint64_t size = records_form(messages, 0, form);
  if (ps_log_append(log_, form, size, PS_ACK_SYNCED, NULL, 0, &appended,
                    &error) != PS_OK)
    fail(&error);
  double begun = seconds();
  pthread_barrier_wait(&barrier);
  for (uint64_t i = 0; i < threads; i++)
    pthread_join(thread[i], NULL);
  printf("%.9f %" PRIu64 "\n", seconds() - begun, each * threads);
  if (ps_log_close(log_, &error) != PS_OK)
    fail(&error);
  ps_log_free(log_);
  return 0;
}
