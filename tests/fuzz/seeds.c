/* Writes the seed corpora: seeds TARGET FOLDER, both targets alike random. */
#include <stdio.h>

#include "check.h"
#include "format.h"
#include "support_records.h"

enum { SEEDS = 60, SEED_MAX = 16384 };

static void save(const char *folder, int number, const uint8_t *data,
                 uint32_t size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/seed-%02d", folder, number);
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
    perror(path);
    exit(1);
  }
}

/* A segment of a few records, some with the property CRC of another one, with
 * a blank record, zeros or nothing behind. */
static uint32_t scan_seed(uint8_t *seed) {
  static uint8_t memory[4096];
  check_random_fill(seed, 2);
  seed[1] &= 13;
  ps_store16(seed + 2, 0xFFFF);
  uint32_t at = 4;
  for (uint64_t left = check_random() % 4 + 1; left > 0; left--) {
    ps_message message = random_message(memory, 40);
    ps_stamp stamp = vector_stamp();
    stamp.offset = 4096 + at - 4;
    stamp.property_crc = check_random() & 1;
    at += slow_encode(seed + at, &message, &stamp, 0);
    if (stamp.property_crc && check_random() % 4 == 0)
      seed[at - 2] ^= 1; /* still a digit */
  }
  uint32_t rest = (uint32_t)(check_random() % 40);
  memset(seed + at, 0, rest);
  if (check_random() & 1 && rest >= 8) {
    ps_store32(seed + at, rest);
    ps_store32(seed + at + 4, PS_MAGIC_BLANK);
  }
  return at + rest;
}

/* Messages in message form, a client batch, or columns. */
static uint32_t source_seed(uint8_t *seed, uint32_t number) {
  static uint8_t memory[4096];
  seed[0] = (uint8_t)(number % 3);
  seed[1] = (uint8_t)check_random();
  ps_store16(seed + 2, 4096);
  ps_store16(seed + 4, 16384);
  uint32_t at = 6;
  if (number % 3 == 1) {
    seed[at++] = 8;
    for (uint32_t i = 0; i < 36; i++)
      seed[at++] = (uint8_t)(i % 9 * 5);
    check_random_fill(seed + at, 60);
    return at + 60;
  }
  uint32_t form = 0;
  if (number % 3 == 2) {
    memcpy(seed + at, "\1\0T", 3);
    at += 3;
  }
  for (uint64_t left = check_random() % 3 + 1; left > 0; left--) {
    ps_message message = random_message(memory, 40);
    message.topic_size = 1 + message.topic_size % 127;
    form = put_form(seed + at, &message);
    if (number % 3 == 2) {
      uint32_t skipped = PS_MESSAGE_HEAD + message.topic_size;
      memmove(seed + at, seed + at + skipped, form - skipped);
      form -= skipped;
    }
    at += form;
  }
  return at;
}

/* A heartbeat, an ack, a frame of a later version, one frame more. */
static uint32_t wire_seed(uint8_t *seed, uint32_t number) {
  static const uint32_t types[] = {6, 7, 16, 4};
  ps_store16(seed, 4096);
  seed[2] = (uint8_t)check_random();
  uint32_t at = 3;
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t length = 24 + 64 + (number + i) % 4 * 16;
    uint8_t *frame = seed + at;
    memset(frame, 0, length);
    ps_store32(frame, length);
    ps_store32(frame + 4, types[(number + i) % 4]);
    ps_store32(frame + 24 + 48, length - 88);
    at += length;
  }
  return at;
}

static uint32_t seed_of(const char *target, uint8_t *seed, uint32_t number) {
  if (strcmp(target, "fuzz_scan") == 0)
    return scan_seed(seed);
  if (strcmp(target, "fuzz_wire") == 0)
    return wire_seed(seed, number);
  return source_seed(seed, number);
}

int main(int argc, char **argv) {
  static uint8_t seed[SEED_MAX];
  if (argc != 3)
    return 2;
  check_random_state = 7;
  for (int i = 0; i < SEEDS; i++)
    save(argv[2], i, seed, seed_of(argv[1], seed, (uint32_t)i));
  return 0;
}
