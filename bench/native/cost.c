/* What one append of a record costs, part by part. */

/* Usage: cost ROOT BODY_SIZE SEGMENT_SIZE RECORDS
 *
 * ROOT has the empty folders commitlog and meta/tmp. Prints ns per record,
 * name by name: `copy` (memcpy of the body), `checksum` (what it adds to the
 * copy), `encode` (what the whole encoder adds to both), `pwrite` (one record
 * per call), `pwrite-64k` (its share of a piece of 64 KiB), and `append` (one
 * ps_log_append of one message, with all of the above). The least of 21
 * rounds counts, since nothing makes a part cheaper than it is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "pystore.h"
#include "records.h"

enum { ROUNDS = 21, STAGE = 256 << 10, BATCH = 1024 };

static records *from;
static uint8_t *stage;
static files plain;
static ps_log *log_;
static uint64_t record_size;
static uint64_t count;
static ps_record_cache cache;
static uint8_t form[1 << 17];
static uint64_t form_size;

static uint8_t *place(uint64_t i) {
  return stage + i * record_size % (STAGE - record_size);
}

static void copy(void) {
  for (uint64_t i = 0; i < count; i++)
    memcpy(place(i), from->messages[i % BATCH].body, from->body_size);
  __asm__ volatile("" ::"r"(stage) : "memory");
}

static void copy_checksum(void) {
  for (uint64_t i = 0; i < count; i++)
    ps_crc32_copy(0, place(i), from->messages[i % BATCH].body, from->body_size);
}

static void encode(void) {
  for (uint64_t i = 0; i < count; i++) {
    from->stamp.offset = i * record_size;
    ps_record_encode(place(i), &from->messages[i % BATCH], &from->stamp,
                     &cache);
  }
}

/* Continues at the end of the last call, so an append gets new pages, too. */
static void write_pieces(uint64_t piece) {
  static uint64_t at;
  uint64_t pieces = count * record_size / piece;
  for (uint64_t i = 0; i < pieces; i++, at += piece) {
    if (at + piece > plain.file_size)
      at = 0;
    if (pwrite(plain.file[0], stage, piece, (off_t)at) != (ssize_t)piece)
      die("pwrite");
  }
}

static void write_each(void) {
  write_pieces(record_size);
}

static void write_large(void) {
  write_pieces(PIECE);
}

static void append(void) {
  for (uint64_t i = 0; i < count; i++) {
    ps_appended appended;
    ps_error error;
    if (ps_log_append(log_, form, form_size, PS_ACK_LEADER, NULL, 0, &appended,
                      &error) != PS_OK) {
      fprintf(stderr, "%s\n", error.text);
      exit(1);
    }
  }
}

static double least(void (*part)(void)) {
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    double start = seconds();
    part();
    double taken = seconds() - start;
    best = taken < best ? taken : best;
  }
  return best / (double)count * 1e9;
}

static void open_log(const char *root, uint64_t segment_size) {
  ps_options options = {.segment_size = segment_size,
                        .mode = PS_MODE_WRITE,
                        .property_crc = 1,
                        .message_size_max = 4u << 20,
                        .writeback_bytes = EARLY,
                        .store_host_size = 8,
                        .store_host = {127, 0, 0, 1, 0, 0, 0x2a, 0x9f}};
  ps_error error;
  ps_start start = {.last_offset = PS_NO_OFFSET, .clean = 1};
  if (ps_log_open(root, &options, NULL, &log_, &error) != PS_OK ||
      ps_log_start(log_, &start, &error) != PS_OK) {
    fprintf(stderr, "%s\n", error.text);
    exit(1);
  }
}

int main(int argc, char **argv) {
  if (argc != 5)
    return 2;
  from = records_new(BATCH, (uint32_t)strtoul(argv[2], NULL, 0));
  uint64_t segment_size = strtoull(argv[3], NULL, 0);
  count = strtoull(argv[4], NULL, 0);
  stage = malloc(STAGE + PIECE);
  if (!stage)
    die("malloc");
  memset(stage, 1, STAGE + PIECE);
  record_size = ps_record_size(&from->messages[0], &from->stamp);
  form_size = records_form(from, 0, form);
  files_begin(&plain, argv[1], segment_size, 0);
  files_add(&plain);
  double copied = least(copy);
  double summed = least(copy_checksum);
  double encoded = least(encode);
  double each = least(write_each);
  double large = least(write_large);
  files_end(&plain);
  open_log(argv[1], segment_size);
  double appended = least(append);
  printf("copy %.1f\nchecksum %.1f\nencode %.1f\npwrite %.1f\n"
         "pwrite-64k %.1f\nappend %.1f\n",
         copied, summed - copied, encoded - summed, each, large, appended);
  ps_error error;
  ps_log_close(log_, &error);
  ps_log_free(log_);
  return 0;
}
