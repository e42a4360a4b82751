/* What is appended: three ways in become the same messages. */
#include "source.h"

#include "check.h"
#include "format.h"
#include "support_records.h"

static const uint8_t host[8] = {10, 0, 0, 1, 0, 0, 0x2a, 0x9f};

/* Everything a check is held against, with room to change it. */
typedef struct bench {
  ps_stamp stamp;
  ps_limits limits;
  ps_totals totals;
  ps_error error;
} bench;

static bench *bench_new(void) {
  static bench all;
  all = (bench){.stamp = {.store_host = host,
                          .store_host_size = 8,
                          .property_crc = 1,
                          .store_ms = 77},
                .limits = {.message_size_max = 65536, .segment_size = 1 << 20}};
  all.limits.stamp = &all.stamp;
  return &all;
}

/* Messages in message form come out as they went in, and the totals are those
 * of their records. */
static void message_form_goes_both_ways(void) {
  static uint8_t memory[20][4096];
  static uint8_t forms[20 * 2048];
  static uint8_t expected[4096];
  static uint8_t actual[4096];
  for (int round = 0; round < 300; round++) {
    bench *all = bench_new();
    ps_message given[20];
    uint32_t size = 0;
    uint64_t bytes = 0;
    uint64_t bytes_max = 0;
    for (uint32_t i = 0; i < 20; i++) {
      given[i] = random_message(memory[i], 300);
      given[i].keys_size = given[i].tags_size = 0;
      if (given[i].topic_size > 127)
        memcpy(memory[i] + 1024, "%RETRY%", 7);
      size += put_form(forms + size, &given[i]);
      uint32_t record = slow_encode(expected, &given[i], &all->stamp, 0);
      bytes += record;
      bytes_max = record > bytes_max ? record : bytes_max;
    }
    ps_source source;
    ps_source_messages(&source, forms, size);
    CHECK(PS_OK,
          ps_source_check(&source, &all->limits, &all->totals, &all->error));
    CHECK(20, all->totals.count);
    CHECK(bytes, all->totals.bytes);
    CHECK(bytes_max, all->totals.bytes_max);
    for (uint32_t i = 0; i < 40; i++) {
      ps_message message;
      ps_record_cache cache = {0};
      REQUIRE(ps_source_next(&source, &message) == 1);
      uint32_t length = slow_encode(expected, &given[i % 20], &all->stamp, 0);
      CHECK(length, ps_record_encode(actual, &message, &all->stamp, &cache));
      CHECK_BYTES(expected, actual, length);
      if (i % 20 < 19)
        continue;
      CHECK(0, ps_source_next(&source, &message));
      ps_source_rewind(&source);
    }
  }
}

/* RocketMQ's batch of two becomes the two records that RocketMQ writes. */
static void a_client_batch_becomes_the_published_records(void) {
  uint8_t batch[128];
  uint32_t size =
      from_hex(batch, "00000026 00000000 00000000 00000000 00000002 6230"
                      "000e 6101310257414954017472756502"
                      "00000026 00000000 00000000 00000001 00000002 6231"
                      "000e 6101310257414954017472756502");
  for (uint32_t crc = 0; crc < 2; crc++) {
    bench *all = bench_new();
    ps_message vector = vector_message();
    all->stamp = vector_stamp();
    all->stamp.property_crc = crc;
    ps_route route = {.topic = vector.topic,
                      .topic_size = vector.topic_size,
                      .queue_id = vector.queue_id,
                      .born_ms = vector.born_ms,
                      .born_host_size = 8};
    memcpy(route.born_host, vector.born_host, 8);
    ps_source source;
    ps_source_client_batch(&source, &route, batch, size);
    CHECK(PS_OK,
          ps_source_check(&source, &all->limits, &all->totals, &all->error));
    CHECK(2, all->totals.count);
    uint32_t expected_size = crc ? 133 : 113;
    static const uint32_t body_crcs[] = {0x30cb2b76, 0x47cc1be0};
    static const char *digits[] = {"7343629410", "3061320461"};
    ps_message message;
    for (uint32_t i = 0; ps_source_next(&source, &message); i++) {
      uint8_t record[256];
      ps_record_cache cache = {0};
      CHECK(expected_size,
            ps_record_encode(record, &message, &all->stamp, &cache));
      CHECK(body_crcs[i], ps_load32(record + PS_AT_BODY_CRC));
      CHECK(i, ps_load32(record + PS_AT_FLAG));
      CHECK(5 + i, ps_load64(record + PS_AT_QUEUE_OFFSET));
      CHECK(0, ps_load64(record + PS_AT_PREPARED_OFFSET + 16));
      if (crc)
        CHECK_BYTES(digits[i], record + 122, 10);
      all->stamp.offset += expected_size;
      all->stamp.queue_offset++;
    }
  }
}

/* Columns with offsets of 4 and of 8 bytes give the same messages. */
static void columns_are_read_row_by_row(void) {
  static const uint8_t bodies[] = "--onetwothree";
  static const int32_t body32[] = {2, 5, 8, 8, 13};
  static const int64_t body64[] = {2, 5, 8, 8, 13};
  static const uint8_t keys[] = "k1k2";
  static const int32_t keys32[] = {0, 2, 2, 2, 4};
  static const int64_t keys64[] = {0, 2, 2, 2, 4};
  static const int32_t queue_ids[] = {4, 5, 6, 7};
  static const int64_t born[] = {1, 2, 3, 0};
  static const char *expected_bodies[] = {"one", "two", "", "three"};
  static const char *expected_keys[] = {"k1", "", "", "k2"};
  for (uint32_t size = 4; size <= 8; size += 4) {
    bench *all = bench_new();
    ps_columns columns = {.count = 4,
                          .topic = (const uint8_t *)"T",
                          .topic_size = 1,
                          .body_data = bodies,
                          .keys_data = keys,
                          .queue_ids = queue_ids,
                          .born_ms = born,
                          .offset_size = size};
    columns.body_offsets = size == 4 ? (const void *)body32 : body64;
    columns.keys_offsets = size == 4 ? (const void *)keys32 : keys64;
    ps_source source;
    ps_source_columns(&source, &columns);
    CHECK(PS_OK,
          ps_source_check(&source, &all->limits, &all->totals, &all->error));
    CHECK(4, all->totals.count);
    CHECK(4 * (92 + 20) + 11 + 2 * 8, all->totals.bytes);
    ps_message message;
    for (uint32_t i = 0; i < 4; i++) {
      REQUIRE(ps_source_next(&source, &message) == 1);
      CHECK(4 + i, message.queue_id);
      CHECK(born[i], message.born_ms);
      CHECK(strlen(expected_bodies[i]), message.body_size);
      CHECK_BYTES(expected_bodies[i], message.body, message.body_size);
      CHECK(strlen(expected_keys[i]), message.keys_size);
      CHECK_BYTES(expected_keys[i], message.keys, message.keys_size);
      CHECK(0, message.tags_size);
      CHECK(0, message.properties_size);
    }
    CHECK(0, ps_source_next(&source, &message));
  }
}

/* Nothing is a valid thing to append: the totals are zero. */
static void an_empty_source_counts_nothing(void) {
  bench *all = bench_new();
  ps_source source;
  ps_route route = {.topic = (const uint8_t *)"T", .topic_size = 1};
  ps_columns columns = {.offset_size = 8};
  ps_message message;
  for (int kind = 0; kind < 3; kind++) {
    if (kind == 0)
      ps_source_messages(&source, NULL, 0);
    else if (kind == 1)
      ps_source_columns(&source, &columns);
    else
      ps_source_client_batch(&source, &route, NULL, 0);
    CHECK(PS_OK,
          ps_source_check(&source, &all->limits, &all->totals, &all->error));
    CHECK(0, all->totals.count);
    CHECK(0, all->totals.bytes_max);
    CHECK(0, ps_source_next(&source, &message));
  }
}

CHECK_MAIN(CASE(message_form_goes_both_ways),
           CASE(a_client_batch_becomes_the_published_records),
           CASE(columns_are_read_row_by_row),
           CASE(an_empty_source_counts_nothing))
