/* Records: RocketMQ's own vectors, a slow encoder, and every kind of damage. */
#include "pystore.h"
#include "record.h"

#include "check.h"
#include "format.h"
#include "properties.h"
#include "support_records.h"
#include "text.h"

#define ALL_CHECKS (PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET)

static const char vector_v1[] =
    "0000007b daa320a7 3cd1c123 00000003 00000007 0000000000000005"
    "0000000000000000 00000000 0000018bcfe56800 7f00000100002328"
    "0000018bcfe5687b 645100fa00002a9f 00000002 0000000000000000"
    "00000008 68656c6c6f217121 06 546f70696341"
    "0012 4b455953016b310254414753015441473102";
static const char vector_v2[] =
    "0000007c daa320ab 3cd1c123 00000003 00000007 0000000000000005"
    "0000000000000000 00000000 0000018bcfe56800 7f00000100002328"
    "0000018bcfe5687b 645100fa00002a9f 00000002 0000000000000000"
    "00000008 68656c6c6f217121 0006 546f70696341"
    "0012 4b455953016b310254414753015441473102";
static const char vector_ipv6[] =
    "00000093 daa320a7 3cd1c123 00000003 00000007 0000000000000005"
    "0000000000000000 00000030 0000018bcfe56800"
    "105000000000000000050600300c326b00002328"
    "0000018bcfe5687b 0000000000000000000000000000000100002a9f"
    "00000002 0000000000000000 00000008 68656c6c6f217121 06 546f70696341"
    "0012 4b455953016b310254414753015441473102";
static const char vector_crc[] =
    "0000008f daa320a7 3cd1c123 00000003 00000007 0000000000000005"
    "0000000000000000 00000000 0000018bcfe56800 7f00000100002328"
    "0000018bcfe5687b 645100fa00002a9f 00000002 0000000000000000"
    "00000008 68656c6c6f217121 06 546f70696341"
    "0026 4b455953016b310254414753015441473102"
    "5f5f435243333223 01 32323738343934363230 02";

static void encodes_to(const char *hex, const ps_message *message,
                       const ps_stamp *stamp) {
  uint8_t expected[512];
  uint8_t actual[512];
  ps_record_cache cache = {0};
  uint32_t size = from_hex(expected, hex);
  CHECK(size, ps_record_size(message, stamp));
  CHECK(size, ps_record_encode(actual, message, stamp, &cache));
  CHECK_BYTES(expected, actual, size);
}

/* ---- RocketMQ's vectors ------------------------------------------------ */

/* A message is encoded as RocketMQ's classes encoded it. */
static void a_message_becomes_the_published_bytes(void) {
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  encodes_to(vector_v1, &message, &stamp);
  message.born_host = (const uint8_t *)"\x10\x50\0\0\0\0\0\0\0\5\6\0\x30\x0c"
                                       "\x32\x6b\0\0\x23\x28";
  message.born_host_size = 20;
  stamp.store_host = (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
                                      "\0\0\x2a\x9f";
  stamp.store_host_size = 20;
  encodes_to(vector_ipv6, &message, &stamp);
}

/* The property CRC is that of RocketMQ, with and without a last separator. */
static void a_property_crc_is_the_published_one(void) {
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  stamp.property_crc = 1;
  encodes_to(vector_crc, &message, &stamp);
  message.properties_size--;
  encodes_to(vector_crc, &message, &stamp);
  message.properties_size = 0;
  uint8_t record[256];
  ps_record_cache cache = {0};
  CHECK(125, ps_record_encode(record, &message, &stamp, &cache));
  CHECK(0x7d, ps_load32(record));
  CHECK(0x14, ps_load16(record + 103));
  CHECK_BYTES("__CRC32#\1"
              "8746807061\2",
              record + 105, 20);
}

/* The shortest useful record has 92 bytes. */
static void the_shortest_record_is_92_bytes(void) {
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  message.topic = (const uint8_t *)"T";
  message.topic_size = 1;
  message.body_size = message.properties_size = 0;
  message.body = message.properties = NULL;
  uint8_t record[92];
  ps_record_cache cache = {0};
  CHECK(92, ps_record_encode(record, &message, &stamp, &cache));
  CHECK(0, ps_load32(record + PS_AT_BODY_CRC));
  CHECK_BYTES("\0\0\0\0\1T\0\0", record + 84, 8);
}

/* Every vector passes every check, and its fields are read back. */
static void vectors_pass_all_checks(void) {
  static const char *vectors[] = {vector_v1, vector_v2, vector_ipv6,
                                  vector_crc};
  for (uint32_t i = 0; i < 4; i++) {
    uint8_t data[256];
    uint32_t size = from_hex(data, vectors[i]);
    ps_record record;
    ps_error error;
    CHECK(PS_OK, ps_record_check(data, size, 0, ALL_CHECKS | PS_WANT_TAGS,
                                 &record, &error));
    CHECK(size, record.size);
    CHECK(3, record.queue_id);
    CHECK(7, record.flag);
    CHECK(5, record.queue_offset);
    CHECK(2, record.reconsume_times);
    CHECK(1700000000000, record.born_ms);
    CHECK(1700000000123, record.store_ms);
    CHECK(2567159, record.tags_code);
    CHECK(0x3cd1c123, record.body_crc);
    CHECK(PS_NO_TOPIC, record.topic_id);
    CHECK(i == 1 ? 2 : 1, record.version);
    CHECK_BYTES("TopicA", data + record.topic_at, record.topic_size);
    CHECK_BYTES("hello!q!", data + record.body_at, record.body_size);
    CHECK_BYTES("KEYS\1k1\2", data + record.properties_at, 8);
    CHECK(i == 3 ? PS_PROOF_BODY | PS_HAS_PROPERTY | PS_PROOF_PROPERTY
                 : PS_PROOF_BODY,
          record.proof);
  }
}

/* ---- Encoding ---------------------------------------------------------- */

/* A random message is encoded byte for byte as the slow encoder does it. */
static void random_messages_equal_the_slow_encoder(void) {
  uint8_t memory[4096];
  uint8_t expected[4096];
  uint8_t actual[4096];
  ps_record_cache cache = {0};
  for (int i = 0; i < 4000; i++) {
    ps_message message = random_message(memory, i % 2 ? 1024 : 130);
    uint8_t host[20];
    check_random_fill(host, sizeof host);
    ps_stamp stamp = {.offset = check_random(),
                      .queue_offset = (int64_t)check_random(),
                      .store_ms = (int64_t)check_random(),
                      .store_host = host,
                      .store_host_size = check_random() & 1 ? 8 : 20,
                      .property_crc = check_random() & 1};
    uint32_t size = slow_encode(expected, &message, &stamp, 0);
    CHECK(size, ps_record_size(&message, &stamp));
    CHECK(size, ps_record_encode(actual, &message, &stamp, &cache));
    if (!CHECK_BYTES(expected, actual, size))
      return;
    ps_record record;
    ps_error error;
    CHECK(PS_OK,
          ps_record_check(actual, size, stamp.offset,
                          PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET,
                          &record, &error));
  }
}

/* A `__CRC32#` property of the message is dropped wherever it stands; what
 * merely resembles one stays. */
static void a_foreign_property_crc_is_dropped(void) {
  static const struct {
    const char *given;
    const char *stored;
  } cases[] = {
      {"__CRC32#\1"
       "123\2",
       ""},
      {"__CRC32#\1"
       "123",
       ""},
      {"__CRC32#\1", ""},
      {"a\1b\2__CRC32#\1"
       "123\2",
       "a\1b\2"},
      {"a\1b\2__CRC32#\1"
       "123",
       "a\1b\2"},
      {"__CRC32#\1"
       "123\2a\1b\2",
       "a\1b\2"},
      {"__CRC32#\1"
       "1\2a\1b\2__CRC32#\1"
       "2\2c\1d",
       "a\1b\2c\1d"},
      {"__CRC32#x\1y\2", "__CRC32#x\1y\2"},
      {"x__CRC32#\1y\2", "x__CRC32#\1y\2"},
      {"a\1__CRC32#\1y\2", "a\1__CRC32#\1y\2"},
      {"__CRC32#\2a\1b\2", "__CRC32#\2a\1b\2"},
  };
  for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (uint32_t crc = 0; crc < 2; crc++) {
      uint8_t expected[256];
      uint8_t actual[256];
      ps_record_cache cache = {0};
      ps_stamp stamp = vector_stamp();
      stamp.property_crc = crc;
      ps_message message = vector_message();
      message.properties = (const uint8_t *)cases[i].stored;
      message.properties_size = (uint32_t)strlen(cases[i].stored);
      uint32_t size = slow_encode(expected, &message, &stamp, 0);
      message.properties = (const uint8_t *)cases[i].given;
      message.properties_size = (uint32_t)strlen(cases[i].given);
      CHECK(size, ps_record_size(&message, &stamp));
      CHECK(size, ps_record_encode(actual, &message, &stamp, &cache));
      CHECK_BYTES(expected, actual, size);
    }
  }
}

/* A topic of more than 127 bytes makes a V2 record, 127 a V1 record. */
static void a_long_topic_makes_a_v2_record(void) {
  uint8_t topic[128];
  memset(topic, 't', sizeof topic);
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  uint8_t record[512];
  ps_record_cache cache = {0};
  message.topic = topic;
  message.topic_size = 127;
  CHECK(123 - 6 + 127, ps_record_encode(record, &message, &stamp, &cache));
  CHECK(PS_MAGIC_V1, ps_load32(record + PS_AT_MAGIC));
  message.topic_size = 128;
  CHECK(124 - 6 + 128, ps_record_encode(record, &message, &stamp, &cache));
  CHECK(PS_MAGIC_V2, ps_load32(record + PS_AT_MAGIC));
}

/* Ten digits are written and read back, the least significant first. */
static void digits_of_the_property_crc_go_both_ways(void) {
  for (int i = 0; i < 20000; i++) {
    uint32_t crc = (uint32_t)check_random() & PS_CRC_MASK;
    crc >>= check_random() % 31;
    if (i < 3)
      crc = i == 0 ? 0 : i == 1 ? PS_CRC_MASK : 1999999999;
    uint8_t area[20];
    uint8_t text[11];
    ps_crc_area_store(area, crc);
    snprintf((char *)text, sizeof text, "%010" PRIu32, crc);
    for (int j = 0; j < 10; j++)
      CHECK(text[9 - j], area[9 + j]);
    CHECK(PS_AREA_WHOLE, ps_crc_area(area));
    CHECK(crc, ps_crc_area_value(area));
  }
  CHECK(9999999999, ps_crc_area_value((const uint8_t *)"__CRC32#\1"
                                                       "9999999999\2"));
}

/* One to three wrong bytes make a damaged area, four make none. */
static void a_damaged_area_is_not_taken_for_a_missing_one(void) {
  for (int i = 0; i < 20000; i++) {
    uint8_t area[20];
    ps_crc_area_store(area, (uint32_t)check_random() & PS_CRC_MASK);
    uint32_t wrong = 1 + (uint32_t)(check_random() % 4);
    for (uint32_t done = 0; done < wrong;) {
      uint32_t at = (uint32_t)(check_random() % 20);
      if (area[at] & 0x80)
        continue;
      area[at] |= 0x80;
      done++;
    }
    CHECK(wrong < 4 ? PS_AREA_DAMAGED : PS_AREA_NONE, ps_crc_area(area));
  }
}

/* ---- Tags -------------------------------------------------------------- */

static int64_t tags_of(const char *topic, const char *properties) {
  return ps_tags_code((const uint8_t *)topic, (uint32_t)strlen(topic),
                      (const uint8_t *)properties, (uint32_t)strlen(properties),
                      1000000);
}

/* The tags code is Java's hash of the last TAGS value. */
static void the_tags_code_is_javas_hash(void) {
  CHECK(2567159, tags_of("T", "KEYS\1k1\2TAGS\1TAG1\2"));
  CHECK(2598919, tags_of("T", "TAGS\1TagA"));
  CHECK(2112, tags_of("T", "TAGS\1Aa\2"));
  CHECK(2112, tags_of("T", "TAGS\1BB\2"));
  CHECK(-2147483648LL, tags_of("T", "TAGS\1polygenelubricants\2"));
  CHECK(2112, tags_of("T", "TAGS\1x\2TAGS\1Aa\2TAGS\1\2"));
  CHECK(0, tags_of("T", ""));
  CHECK(0, tags_of("T", "TAGS\1\2"));
  CHECK(0, tags_of("T", "TAGS\2xTAGS\1a\2"));
}

/* On the schedule topic the tags code is the time of delivery. */
static void a_delayed_record_is_coded_by_its_delivery(void) {
  CHECK(1005000, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1"
                                                "2\2TAGS\1Aa\2"));
  CHECK(8200000, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1"
                                                "40\2"));
  CHECK(2112, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1"
                                             "0\2TAGS\1Aa\2"));
  CHECK(2112, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1"
                                             "2x\2TAGS\1Aa\2"));
  /* As Integer.parseInt reads it: a sign, and the digits of any script. */
  CHECK(1010000, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1+3\2"));
  CHECK(1010000, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1\xd9\xa3\2"));
  CHECK(2112, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1+\2TAGS\1Aa\2"));
  CHECK(2112, tags_of("SCHEDULE_TOPIC_XXXX", "DELAY\1-3\2TAGS\1Aa\2"));
  CHECK(2112, tags_of("SCHEDULE_TOPIC_XXX", "DELAY\1"
                                            "2\2TAGS\1Aa\2"));
}

/* Malformed UTF-8 is hashed as Java decodes it (values made by Java 17). */
static void a_hash_of_malformed_text_is_javas(void) {
  static const struct {
    const char *hex;
    int32_t hash;
  } cases[] = {
      {"c2", 65533},
      {"c241", 2031588},
      {"c1bf", 2097056},
      {"e2", 65533},
      {"e282", 65533},
      {"e28241", 2031588},
      {"e241", 2031588},
      {"e09f80", 65074269},
      {"e080", 2097056},
      {"eda080", 65533},
      {"eda0", 65533},
      {"edbfbf41", 2031588},
      {"f0", 65533},
      {"f09f", 65533},
      {"f09f98", 65533},
      {"f09f9880", 1772899},
      {"f09f9841", 2031588},
      {"f08f8080", 2017367872},
      {"f4908080", 2017367872},
      {"f48fbfbf", 1803232},
      {"f5808080", 2017367872},
      {"80", 65533},
      {"bfbf41", 65008801},
      {"f880808080", -1886039875},
      {"e4bda0e5a5bd", 652829},
      {"c3a9", 233},
      {"efbfbd", 65533},
      {"fe41ff", 63044761},
      {"f09f41", 2031588},
      {"eda080edb080", 2097056},
      {"f09f98c3a9", 2031756},
      {"e0a0", 65533},
  };
  for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t text[64];
    uint32_t size = from_hex(text, cases[i].hex);
    if (!CHECK(cases[i].hash, ps_java_hash(text, size)))
      fprintf(stderr, "of %s\n", cases[i].hex);
  }
}

/* ---- Damage ------------------------------------------------------------ */

/* With a property CRC no changed byte goes unseen. */
static void every_flip_under_a_property_crc_is_seen(void) {
  uint8_t data[256];
  uint32_t size = from_hex(data, vector_crc);
  for (uint32_t at = 0; at < size; at++) {
    for (uint32_t flip = 1; flip < 256; flip++) {
      ps_record record;
      ps_error error;
      data[at] ^= (uint8_t)flip;
      CHECK(PS_E_CORRUPT,
            ps_record_check(data, size, 0, PS_CHECK_PROPERTY | PS_CHECK_OFFSET,
                            &record, &error));
      data[at] ^= (uint8_t)flip;
    }
  }
}

/* Without a property CRC, flips are not found in these fields, and in no
 * others: queue id, flag, queue offset, sys flag (but for its host bits), born
 * and store time and host, reconsume times, prepared offset, topic, properties.
 * */
static void flips_without_a_property_crc_pass_in_known_fields(void) {
  uint8_t data[256];
  uint32_t size = from_hex(data, vector_v1);
  for (uint32_t at = 0; at < size; at++) {
    int is_named = (at >= 12 && at < 28) || (at >= 36 && at < 84) ||
                   (at >= 97 && at < 103) || at >= 105;
    for (uint32_t flip = 1; flip < 256; flip++) {
      ps_record record;
      ps_error error;
      data[at] ^= (uint8_t)flip;
      int is_seen =
          ps_record_check(data, size, 0,
                          PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET,
                          &record, &error) != PS_OK;
      data[at] ^= (uint8_t)flip;
      CHECK(!is_named || (at == 39 && (flip & 0x30) != 0), is_seen);
    }
  }
}

/* Checked once, a record with a property CRC has no other proof, and no flip
 * goes unseen; a record without one is proved by its body CRC. */
static void one_proof_is_enough(void) {
  uint8_t data[256];
  ps_record record;
  ps_error error;
  uint32_t checks = PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_ONCE;
  uint32_t size = from_hex(data, vector_crc);
  CHECK(PS_OK, ps_record_check(data, size, 0, checks, &record, &error));
  CHECK(PS_HAS_PROPERTY | PS_PROOF_PROPERTY, record.proof);
  for (uint32_t at = 0; at < size; at++) {
    data[at] ^= 1;
    CHECK(PS_E_CORRUPT,
          ps_record_check(data, size, 0, checks, &record, &error));
    data[at] ^= 1;
  }
  size = from_hex(data, vector_v1);
  CHECK(PS_OK, ps_record_check(data, size, 0, checks, &record, &error));
  CHECK(PS_PROOF_BODY, record.proof);
  data[90] ^= 1;
  CHECK(PS_E_CORRUPT, ps_record_check(data, size, 0, checks, &record, &error));
}

/* A record cut at any byte is bad, and nothing behind the cut is read. */
static void a_record_cut_anywhere_is_bad(void) {
  static const char *vectors[] = {vector_v1, vector_v2, vector_ipv6,
                                  vector_crc};
  for (uint32_t i = 0; i < 4; i++) {
    uint8_t data[256];
    uint32_t size = from_hex(data, vectors[i]);
    for (uint32_t cut = 0; cut < size; cut++) {
      uint8_t *exact = malloc(cut + (cut == 0));
      REQUIRE(exact);
      memcpy(exact, data, cut);
      ps_record record = {.size = 1};
      ps_error error;
      CHECK(PS_E_CORRUPT,
            ps_record_check(exact, cut, 0, ALL_CHECKS, &record, &error));
      CHECK(PS_STOP_SIZE, error.system_errno);
      CHECK(1, record.size);
      free(exact);
    }
  }
}

static void is_bad(uint32_t at, uint32_t size, uint64_t value, uint32_t checks,
                   uint32_t reason, const char *text) {
  uint8_t data[256];
  ps_record record;
  ps_error error;
  uint32_t data_size = from_hex(data, vector_crc);
  if ((checks & PS_CHECK_PROPERTY) == 0)
    data_size = from_hex(data, vector_v1);
  for (uint32_t i = 0; i < size; i++)
    data[at + i] = (uint8_t)(value >> (8 * (size - 1 - i)));
  CHECK(PS_E_CORRUPT,
        ps_record_check(data, data_size, 0, checks, &record, &error));
  CHECK(PS_E_CORRUPT, error.status);
  CHECK(reason, error.system_errno);
  CHECK(0, error.offset);
  CHECK_TEXT(text, error.text);
}

/* Each kind of damage has its reason and its line. */
static void a_bad_record_says_what_is_wrong(void) {
  is_bad(0, 4, 90, 0, PS_STOP_SIZE,
         "record at offset 0: size 90 is not from 91 to the 123 that remain");
  is_bad(0, 4, 0x80000000, 0, PS_STOP_SIZE,
         "record at offset 0: size -2147483648 is not from 91 to the 123 that "
         "remain");
  is_bad(4, 4, PS_MAGIC_BLANK, 0, PS_STOP_MAGIC,
         "record at offset 0: magic 0xcbd43194 is neither of a record nor "
         "blank");
  is_bad(84, 4, 0xFFFFFFFF, 0, PS_STOP_LENGTHS,
         "record at offset 0: body size -1 does not fit size 123");
  is_bad(96, 1, 0x80, 0, PS_STOP_LENGTHS,
         "record at offset 0: topic size -128 does not fit size 123 with a "
         "body of 8");
  is_bad(96, 1, 25, 0, PS_STOP_LENGTHS,
         "record at offset 0: topic size 25 does not fit size 123 with a body "
         "of 8");
  is_bad(103, 2, 0xFFFF, 0, PS_STOP_LENGTHS,
         "record at offset 0: properties size -1, but size 123 leaves 18 "
         "behind a body of 8 and a topic of 6");
  is_bad(8, 4, 1, PS_CHECK_BODY, PS_STOP_BODY,
         "record at offset 0: body CRC 0x00000001 stored, 0x3cd1c123 computed "
         "over 8 bytes");
  is_bad(28, 8, 7, PS_CHECK_OFFSET, PS_STOP_OFFSET,
         "record at offset 0: it says it is at 7");
  is_bad(
      12, 4, 4, PS_CHECK_PROPERTY, PS_STOP_PROPERTY,
      "record at offset 0: property CRC 264948722 stored, 833454617 computed");
  is_bad(142, 1, 3, PS_CHECK_PROPERTY, PS_STOP_PROPERTY,
         "record at offset 0: its property CRC is no longer one");
  is_bad(0, 0, 0, PS_NEED_PROPERTY, PS_STOP_PROPERTY,
         "record at offset 0: it has no property CRC");
  is_bad(36, 4, 0x30, 0, PS_STOP_LENGTHS,
         "record at offset 0: body size 1392601905 does not fit size 123");
}

/* Hosts that do not fit a short record are lengths that do not add up. */
static void hosts_beyond_the_size_are_seen(void) {
  uint8_t data[256];
  from_hex(data, vector_v1);
  ps_store32(data, 91);
  ps_store32(data + PS_AT_SYS_FLAG, 0x30);
  uint8_t *exact = malloc(91);
  REQUIRE(exact);
  memcpy(exact, data, 91);
  ps_record record;
  ps_error error;
  CHECK(PS_E_CORRUPT, ps_record_check(exact, 91, 0, 0, &record, &error));
  CHECK_TEXT("record at offset 0: size 91 is below the 115 that its hosts "
             "need",
             error.text);
  free(exact);
}

/* A random record, changed anywhere, is judged as the slow reader judges. */
static void damaged_records_equal_the_slow_reader(void) {
  uint8_t memory[4096];
  uint8_t data[4096];
  for (int i = 0; i < 30000; i++) {
    ps_message message = random_message(memory, 40);
    ps_stamp stamp = vector_stamp();
    stamp.property_crc = check_random() & 1;
    stamp.offset = check_random() % 3;
    uint32_t size = slow_encode(data, &message, &stamp, 0);
    for (uint64_t left = check_random() % 4; left > 0; left--)
      data[check_random() % size] ^= (uint8_t)(1 << check_random() % 8);
    uint32_t checks =
        (uint32_t)check_random() &
        (ALL_CHECKS | PS_PASS_COPIED | PS_NEED_PROPERTY | PS_CHECK_ONCE);
    ps_record expected;
    ps_record actual;
    ps_error error;
    uint32_t reason = slow_read(data, size, 1, checks, &expected);
    ps_status status = ps_record_check(data, size, 1, checks, &actual, &error);
    if (reason == PS_STOP_ZERO || reason == SLOW_BLANK ||
        reason == PS_STOP_BLANK)
      reason = PS_STOP_MAGIC;
    CHECK(reason, status == PS_OK ? 0 : error.system_errno);
    if (reason == 0 && !CHECK_BYTES(&expected, &actual, sizeof actual))
      return;
  }
}

CHECK_MAIN(CASE(a_message_becomes_the_published_bytes),
           CASE(a_property_crc_is_the_published_one),
           CASE(the_shortest_record_is_92_bytes), CASE(vectors_pass_all_checks),
           CASE(random_messages_equal_the_slow_encoder),
           CASE(a_foreign_property_crc_is_dropped),
           CASE(a_long_topic_makes_a_v2_record),
           CASE(digits_of_the_property_crc_go_both_ways),
           CASE(a_damaged_area_is_not_taken_for_a_missing_one),
           CASE(the_tags_code_is_javas_hash),
           CASE(a_delayed_record_is_coded_by_its_delivery),
           CASE(a_hash_of_malformed_text_is_javas),
           CASE(every_flip_under_a_property_crc_is_seen),
           CASE(flips_without_a_property_crc_pass_in_known_fields),
           CASE(one_proof_is_enough), CASE(a_record_cut_anywhere_is_bad),
           CASE(a_bad_record_says_what_is_wrong),
           CASE(hosts_beyond_the_size_are_seen),
           CASE(damaged_records_equal_the_slow_reader))
