/* What is appended: everything that is refused, and with which words. */
#include "source.h"

#include "check.h"
#include "format.h"
#include "properties.h"
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

/* Checks one message; the answer and its text. */
static void one_is(ps_status expected, const ps_message *message, bench *all,
                   const char *text) {
  static uint8_t form[1 << 18];
  ps_source source;
  ps_source_messages(&source, form, put_form(form, message));
  CHECK(expected,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  if (expected != PS_OK)
    CHECK_TEXT(text, all->error.text);
}

static void topic_is(ps_status expected, const char *topic, uint32_t size,
                     const char *text) {
  ps_message message = vector_message();
  message.topic = (const uint8_t *)topic;
  message.topic_size = size;
  one_is(expected, &message, bench_new(), text);
}

/* Topics are those that RocketMQ's brokers accept and that can be folders. */
static void a_topic_that_rocketmq_refuses_is_refused(void) {
  static char name[300];
  memset(name, 't', sizeof name);
  topic_is(PS_OK, name, 127, "");
  topic_is(PS_E_INVALID, name, 0,
           "message 0: a topic of 0 bytes is not from 1 to 127");
  topic_is(PS_E_INVALID, name, 128,
           "message 0: a topic of 128 bytes is not from 1 to 127");
  memcpy(name, "%RETRY%", 7);
  topic_is(PS_OK, name, 128, "");
  topic_is(PS_OK, name, 255, "");
  topic_is(PS_E_INVALID, name, 256,
           "message 0: a topic of 256 bytes is not from 1 to 255");
  static const char *folders[] = {".", "..", "a/b", "/", "a\0b"};
  static const uint32_t sizes[] = {1, 2, 3, 1, 3};
  for (int i = 0; i < 5; i++)
    topic_is(PS_E_INVALID, folders[i], sizes[i],
             "message 0: the topic names a folder: no NUL, no /, not . nor "
             "..");
  topic_is(PS_OK, "...", 3, "");
  topic_is(PS_OK, "\xe8\xae\xa2\xe5\x8d\x95-6", 8, "");
  topic_is(PS_E_INVALID, "a\xff", 2, "message 0: the topic is no UTF-8");
}

static void properties_are(ps_status expected, const char *properties,
                           uint32_t size, uint32_t property_crc,
                           const char *text) {
  ps_message message = vector_message();
  bench *all = bench_new();
  all->stamp.property_crc = property_crc;
  message.properties = (const uint8_t *)properties;
  message.properties_size = size;
  one_is(expected, &message, all, text);
}

/* Properties that a later scan would take for torn do not get in. */
static void properties_that_a_scan_calls_torn_are_refused(void) {
  for (uint32_t crc = 0; crc < 2; crc++) {
    properties_are(PS_OK, "", 0, crc, "");
    properties_are(PS_OK, "a\1b", 3, crc, "");
    properties_are(PS_OK, "aaa\2a\1b\2", 8, crc, "");
    properties_are(PS_OK, "__CRC32#\1x\2", 11, crc, "");
    properties_are(PS_E_INVALID, "a\1\0\2", 4, crc,
                   "message 0: the properties hold a NUL");
    properties_are(
        PS_E_INVALID, "aaa", 3, crc,
        "message 0: the properties hold no entry (name 0x01 value 0x02)");
    properties_are(
        PS_E_INVALID, "a\2__CRC32#\1x\2", 13, crc,
        "message 0: the properties hold no entry (name 0x01 value 0x02)");
  }
}

/* Without the option, no message may end like a property CRC: a scan would
 * check it. With the option the true one stands behind. */
static void an_end_like_a_property_crc_is_refused(void) {
  static const char text[] =
      "message 0: the properties end like a property CRC";
  properties_are(PS_E_INVALID,
                 "a\1b__CRC32#\1"
                 "0123456789\2",
                 23, 0, text);
  properties_are(PS_E_INVALID, "a\1b__CRC32#:0123456789\2", 23, 0, text);
  properties_are(PS_OK,
                 "a\1b__CRC32#\1"
                 "0123456789",
                 22, 0, "");
  properties_are(PS_OK,
                 "a\1b__CRC32#\1"
                 "0123456789\2",
                 23, 1, "");
  properties_are(PS_OK,
                 "a\1b\2__CRC32#\1"
                 "0123456789\2",
                 24, 0, "");
  properties_are(PS_OK,
                 "a\1b__CRC32#\1"
                 "0123456789\2c\1d\2",
                 27, 0, "");
}

/* Properties, with all that is added, fit the length field. */
static void properties_that_are_too_long_are_refused(void) {
  static char properties[PS_PROPERTIES_MAX + 2];
  static const char text[] = "message 0: the properties would take more than "
                             "32767 bytes, with KEYS, TAGS and CRC";
  memset(properties, 'p', sizeof properties);
  properties[1] = PS_NAME_END;
  properties_are(PS_OK, properties, 32767, 0, "");
  properties_are(PS_E_INVALID, properties, 32768, 0, text);
  properties_are(PS_OK, properties, 32746, 1, "");
  properties_are(PS_E_INVALID, properties, 32747, 1, text);
  properties[32746] = PS_ENTRY_END;
  properties_are(PS_OK, properties, 32747, 1, "");
  properties_are(PS_E_INVALID, properties, 32748, 1, text);
}

/* Bodies, records and all of them together have their limits. */
static void sizes_above_the_limits_are_refused(void) {
  static uint8_t body[65537];
  bench *all = bench_new();
  ps_message message = vector_message();
  message.body = body;
  message.body_size = 65536;
  one_is(PS_OK, &message, all, "");
  message.body_size = 65537;
  one_is(PS_E_INVALID, &message, all,
         "message 0: a body of 65537 bytes is above the 65536 of "
         "message_size_max");
  message = vector_message();
  all->limits.segment_size = 143 + 8;
  one_is(PS_OK, &message, all, "");
  all->limits.segment_size = 143 + 7;
  one_is(PS_E_INVALID, &message, all,
         "message 0: a record of 143 bytes does not fit a segment of 150");
  uint8_t forms[1024];
  uint32_t size = put_form(forms, &message);
  size += put_form(forms + size, &message);
  ps_source source;
  ps_source_messages(&source, forms, size);
  all->limits.segment_size = 2 * 143 + 8;
  CHECK(PS_OK,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  all->limits.segment_size--;
  all->totals.count = 99;
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT("2 messages of together 286 bytes do not fit a segment of 293",
             all->error.text);
  CHECK(99, all->totals.count);
}

/* Queue ids and born hosts are what the format can hold. */
static void a_wrong_queue_id_or_host_is_refused(void) {
  ps_message message = vector_message();
  message.queue_id = -1;
  one_is(PS_E_INVALID, &message, bench_new(),
         "message 0: queue id -1 is below 0");
  message = vector_message();
  message.born_host_size = 9;
  message.born_host = NULL;
  one_is(PS_E_INVALID, &message, bench_new(),
         "message 0: a born host of 9 bytes is not 0, 8 or 20");
}

/* Message form cut at any byte is refused, and nothing behind it is read. The
 * text names the message. */
static void message_form_cut_anywhere_is_refused(void) {
  bench *all = bench_new();
  uint8_t forms[1024];
  ps_message message = vector_message();
  uint32_t size = put_form(forms, &message);
  CHECK(size, put_form(forms + size, &message));
  for (uint32_t cut = 1; cut < 2 * size; cut++) {
    uint8_t *exact = malloc(cut);
    REQUIRE(exact);
    memcpy(exact, forms, cut);
    ps_source source;
    ps_source_messages(&source, exact, cut);
    ps_status status =
        ps_source_check(&source, &all->limits, &all->totals, &all->error);
    CHECK(cut == size ? PS_OK : PS_E_INVALID, status);
    if (status != PS_OK)
      CHECK_BYTES(cut < size ? "message 0: " : "message 1: ", all->error.text,
                  11);
    free(exact);
  }
}

/* Whatever the bytes of a form are, only what is whole passes, and then every
 * record can be written. */
static void damaged_forms_are_refused_or_whole(void) {
  static uint8_t memory[4096];
  static uint8_t record[8192];
  for (int round = 0; round < 30000; round++) {
    bench *all = bench_new();
    ps_message message = random_message(memory, 60);
    message.keys_size = message.tags_size = 0;
    uint8_t form[2048];
    uint32_t size = put_form(form, &message);
    for (uint64_t left = check_random() % 3; left > 0; left--)
      form[check_random() % size] ^= (uint8_t)(1 << check_random() % 8);
    uint8_t *exact = malloc(size);
    REQUIRE(exact);
    memcpy(exact, form, size);
    ps_source source;
    ps_source_messages(&source, exact, size);
    if (ps_source_check(&source, &all->limits, &all->totals, &all->error) ==
        PS_OK) {
      ps_record_cache cache = {0};
      ps_record parsed;
      CHECK(1, ps_source_next(&source, &message));
      uint32_t written =
          ps_record_encode(record, &message, &all->stamp, &cache);
      CHECK(all->totals.bytes, written);
      CHECK(PS_OK, ps_record_check(record, written, 0,
                                   PS_CHECK_BODY | PS_CHECK_PROPERTY |
                                       PS_CHECK_OFFSET | PS_NEED_PROPERTY,
                                   &parsed, &all->error));
    }
    free(exact);
  }
}

/* What passes without a property CRC is a whole record that no scan takes for
 * one with such a CRC, and its properties hold an entry and no NUL. */
static void what_passes_is_never_called_torn(void) {
  static uint8_t memory[4096];
  static uint8_t record[8192];
  static const char alphabet[] = {0, 1, 2, 'a', '_', 'C', '3', '#', '9', 'R'};
  uint32_t passed = 0;
  for (int round = 0; round < 30000; round++) {
    bench *all = bench_new();
    all->stamp.property_crc = 0;
    ps_message message = random_message(memory, 60);
    uint8_t properties[40];
    message.properties = properties;
    message.properties_size = (uint32_t)(check_random() % 30);
    for (uint32_t i = 0; i < message.properties_size; i++)
      properties[i] = (uint8_t)alphabet[check_random() % 10 | (round & 1)];
    if (check_random() & 1)
      memcpy(properties, "__CRC32#\1", 9);
    message.keys_size = message.tags_size = 0;
    uint8_t form[2048];
    ps_source source;
    ps_source_messages(&source, form, put_form(form, &message));
    if (ps_source_check(&source, &all->limits, &all->totals, &all->error) !=
        PS_OK)
      continue;
    ps_record_cache cache = {0};
    ps_record parsed;
    CHECK(1, ps_source_next(&source, &message));
    uint32_t written = ps_record_encode(record, &message, &all->stamp, &cache);
    CHECK(PS_OK,
          ps_record_check(record, written, 0,
                          PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET,
                          &parsed, &all->error));
    CHECK(PS_PROOF_BODY, parsed.proof);
    const uint8_t *stored = record + parsed.properties_at;
    CHECK_TRUE(memchr(stored, 0, parsed.properties_size) == NULL);
    CHECK_TRUE(ps_properties_parse(stored, parsed.properties_size));
    passed++;
  }
  CHECK_TRUE(passed > 1000);
}

/* A transactional, delayed or oversized client batch is refused, and one whose
 * sizes do not add up. */
static void a_client_batch_that_rocketmq_refuses_is_refused(void) {
  uint8_t batch[128];
  uint32_t size = from_hex(batch, "00000021 00000000 00000000 00000000"
                                  "00000002 6230 0009 4445 4c41 5901 3102 61");
  bench *all = bench_new();
  ps_route route = {.topic = (const uint8_t *)"T", .topic_size = 1};
  ps_source source;
  ps_source_client_batch(&source, &route, batch, size);
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT("message 0: a client batch is never delayed", all->error.text);
  batch[size - 3] = '0';
  CHECK(PS_OK,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  route.sys_flag = PS_SYS_PREPARED;
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT("message 0: a client batch is never transactional",
             all->error.text);
  route.sys_flag = 0;
  all->limits.message_size_max = size - 1;
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT("message 0: a client batch of 33 bytes is above the 32 of "
             "message_size_max",
             all->error.text);
  all->limits.message_size_max = 1000;
  batch[3]--;
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT("message 0: properties size 9, but entry size 32 leaves 8 behind "
             "a body of 2",
             all->error.text);
}

static void columns_are_refused(const ps_columns *columns, const char *text) {
  bench *all = bench_new();
  ps_source source;
  ps_source_columns(&source, columns);
  CHECK(PS_E_INVALID,
        ps_source_check(&source, &all->limits, &all->totals, &all->error));
  CHECK_TEXT(text, all->error.text);
}

/* Offsets of columns that fall, that are missing or too large, and values
 * that a property cannot hold, are refused with row and column. */
static void columns_that_make_no_sense_are_refused(void) {
  static const uint8_t data[] = "abcdef";
  static const int32_t right[] = {0, 1, 2, 3};
  static const int32_t falling[] = {0, 2, 1, 3};
  static const int32_t negative[] = {-1, 2, 2, 3};
  static const int64_t huge[] = {0, INT64_C(1) << 40, INT64_C(1) << 40,
                                 INT64_C(1) << 40};
  const ps_columns good = {.count = 3,
                           .topic = (const uint8_t *)"T",
                           .topic_size = 1,
                           .body_data = data,
                           .body_offsets = right,
                           .offset_size = 4};
  ps_columns columns = good;
  columns.offset_size = 2;
  columns_are_refused(&columns, "offsets of columns have 4 or 8 bytes, not 2");
  columns = good;
  columns.body_offsets = falling;
  columns_are_refused(&columns,
                      "message 1: column body: no string from 2 to 1");
  columns.body_offsets = negative;
  columns_are_refused(&columns, "message 0: column body: offset -1 is below 0");
  columns.body_offsets = NULL;
  columns_are_refused(&columns, "message 0: column body has no offsets");
  columns.body_offsets = huge;
  columns.offset_size = 8;
  columns_are_refused(
      &columns, "message 0: column body: no string from 0 to 1099511627776");
  columns = good;
  columns.body_data = NULL;
  columns_are_refused(&columns,
                      "message 0: column body: no string from 0 to 1");
  columns = good;
  columns.keys_data = (const uint8_t *)"a\2b";
  columns.keys_offsets = right;
  columns_are_refused(
      &columns, "message 1: column keys: byte 0x02 cannot stand in a property");
  columns = good;
  columns.tags_data = (const uint8_t *)"ab\1";
  columns.tags_offsets = right;
  columns_are_refused(
      &columns, "message 2: column tags: byte 0x01 cannot stand in a property");
  columns = good;
  columns.properties_data = data;
  columns.properties_offsets = falling;
  columns_are_refused(&columns,
                      "message 1: column properties: no string from 2 to 1");
  static const int32_t queue_ids[] = {0, 0, -5};
  columns = good;
  columns.queue_ids = queue_ids;
  columns_are_refused(&columns, "message 2: queue id -5 is below 0");
}

CHECK_MAIN(CASE(a_topic_that_rocketmq_refuses_is_refused),
           CASE(properties_that_a_scan_calls_torn_are_refused),
           CASE(an_end_like_a_property_crc_is_refused),
           CASE(properties_that_are_too_long_are_refused),
           CASE(sizes_above_the_limits_are_refused),
           CASE(a_wrong_queue_id_or_host_is_refused),
           CASE(message_form_cut_anywhere_is_refused),
           CASE(damaged_forms_are_refused_or_whole),
           CASE(what_passes_is_never_called_torn),
           CASE(a_client_batch_that_rocketmq_refuses_is_refused),
           CASE(columns_that_make_no_sense_are_refused))
