/* The messages that every bench appends, as C structs. */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include "record.h"

/* As messages.py makes them: topic, KEYS of 12 bytes, TAGS of 4. */
#define TOPIC "bench-topic"
#define KEY_SIZE 12
#define TAG "TagA"

typedef struct records {
  uint64_t count;
  ps_message *messages;
  uint8_t *bodies; /* count times body_size, back to back */
  char *keys;
  ps_stamp stamp;
  uint32_t body_size;
} records;

/* Makes `count` distinct messages; never freed. */
records *records_new(uint64_t count, uint32_t body_size);

/* The message form of one of them; answers its size. */
uint64_t records_form(const records *all, uint64_t index, uint8_t *to);

#endif
