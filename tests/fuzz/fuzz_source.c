/* Fuzz target: any bytes as something to append. Accepted input can be
 * encoded, has the reported size, and a scan finds no damage in it. */

/* Input: kind, flags, message_size_max (u16), segment size (u16), then the
 * bytes. Flags: 1 property CRC, 2 an IPv6 store host, 4 offsets of 8 bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "source.h"

enum { HEAD = 6, ROWS_MAX = 8 };

#define MUST(claim)                                                            \
  do {                                                                         \
    if (!(claim))                                                              \
      abort();                                                                 \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static const uint8_t host[20] = {1};

/* Encodes everything, each record into memory of exactly its size. */
static void encode_all(ps_source *source, const ps_totals *totals,
                       ps_stamp *stamp) {
  ps_totals found = {0};
  ps_record_cache cache = {0};
  ps_message message;
  while (ps_source_next(source, &message)) {
    uint32_t size = ps_record_size(&message, stamp);
    uint8_t *to = malloc(size);
    MUST(to);
    MUST(ps_record_encode(to, &message, stamp, &cache) == size);
    ps_record record;
    ps_error error;
    uint32_t checks =
        PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET | PS_WANT_TAGS;
    if (stamp->property_crc)
      checks |= PS_NEED_PROPERTY;
    MUST(ps_record_check(to, size, stamp->offset, checks, &record, &error) ==
         PS_OK);
    MUST(stamp->property_crc != 0 || (record.proof & PS_HAS_PROPERTY) == 0);
    free(to);
    found.count++;
    found.bytes += size;
    found.bytes_max = size > found.bytes_max ? size : found.bytes_max;
    stamp->offset += size;
  }
  MUST(memcmp(&found, totals, sizeof found) == 0);
}

/* One column of strings: offsets from the input, which may fall but never
 * leave the data, since the core cannot know where that ends. */
static const void *offsets_from(const uint8_t *bytes, uint64_t size,
                                uint64_t data_size, int64_t *wide,
                                int32_t *narrow, uint32_t is_wide) {
  for (uint32_t i = 0; i <= ROWS_MAX; i++) {
    uint64_t value = i < size ? bytes[i] : data_size;
    value = value == 255 ? (uint64_t)-1 : value % (data_size + 1);
    wide[i] = (int64_t)value;
    narrow[i] = (int32_t)value;
  }
  return is_wide ? (const void *)wide : narrow;
}

static void check_and_encode(ps_source *source, const ps_limits *limits,
                             ps_stamp *stamp) {
  ps_totals totals;
  ps_error error;
  ps_status status = ps_source_check(source, limits, &totals, &error);
  MUST(status == PS_OK || status == PS_E_INVALID);
  if (status == PS_OK)
    encode_all(source, &totals, stamp);
}

static void append_columns(const uint8_t *data, uint64_t size, uint32_t flags,
                           const ps_limits *limits, ps_stamp *stamp) {
  int64_t wide[4][ROWS_MAX + 1];
  int32_t narrow[4][ROWS_MAX + 1];
  uint64_t used = 4 * (ROWS_MAX + 1) + 1;
  if (size < used)
    return;
  const uint8_t *bytes = data + 1;
  const uint8_t *strings = data + used;
  uint64_t left = size - used;
  ps_columns columns = {.count = data[0] % (ROWS_MAX + 1),
                        .topic = (const uint8_t *)"topic",
                        .topic_size = 5,
                        .offset_size = flags & 4 ? 8 : 4,
                        .body_data = strings,
                        .keys_data = flags & 8 ? strings : NULL,
                        .tags_data = flags & 16 ? strings : NULL,
                        .properties_data = flags & 32 ? strings : NULL};
  const void *offsets[4];
  for (uint32_t i = 0; i < 4; i++)
    offsets[i] = offsets_from(bytes + i * (ROWS_MAX + 1), ROWS_MAX + 1, left,
                              wide[i], narrow[i], flags & 4);
  columns.body_offsets = offsets[0];
  columns.keys_offsets = offsets[1];
  columns.tags_offsets = offsets[2];
  columns.properties_offsets = offsets[3];
  ps_source source;
  ps_source_columns(&source, &columns);
  check_and_encode(&source, limits, stamp);
}

static void append_batch(const uint8_t *data, uint64_t size,
                         const ps_limits *limits, ps_stamp *stamp) {
  if (size < 2 || data[0] > size - 2)
    return;
  ps_route route = {.topic = data + 2,
                    .topic_size = data[0],
                    .sys_flag = data[1],
                    .born_host_size = data[1] & 1 ? 8 : 0};
  ps_source source;
  ps_source_client_batch(&source, &route, data + 2 + data[0],
                         size - 2 - data[0]);
  check_and_encode(&source, limits, stamp);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  if (size < HEAD)
    return 0;
  ps_stamp stamp = {.offset = 1000,
                    .store_ms = 1,
                    .store_host = host,
                    .store_host_size = input[1] & 2 ? 20 : 8,
                    .property_crc = input[1] & 1};
  ps_limits limits = {.message_size_max = ps_load16(input + 2),
                      .segment_size = ps_load16(input + 4),
                      .stamp = &stamp};
  uint64_t left = size - HEAD;
  uint8_t *exact = malloc(left + 1);
  MUST(exact);
  memcpy(exact + 1, input + HEAD, left);
  if (input[0] % 3 == 0) {
    ps_source source;
    ps_source_messages(&source, exact + 1, left);
    check_and_encode(&source, &limits, &stamp);
  } else if (input[0] % 3 == 1) {
    append_columns(exact + 1, left, input[1], &limits, &stamp);
  } else {
    append_batch(exact + 1, left, &limits, &stamp);
  }
  free(exact);
  return 0;
}
