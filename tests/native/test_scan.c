/* The scan kernel: against a slow reader, at every cut and every limit. */
#include "scan.h"

#include "check.h"
#include "format.h"
#include "parse.h"
#include "support_records.h"

enum { SEGMENT = 4096, BASE = 3 * SEGMENT, ROWS = 64 };

#define ALL_CHECKS (PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET)
#define RANDOM_CHECKS                                                          \
  (ALL_CHECKS | PS_PASS_COPIED | PS_NEED_PROPERTY | PS_CHECK_ONCE)

static ps_cursor cursor_at(uint64_t offset, uint32_t checks) {
  return (ps_cursor){.offset = offset,
                     .limit = PS_NO_OFFSET,
                     .record_start = PS_NO_OFFSET,
                     .checks = checks};
}

/* Writes one record of `body` bytes at *at; moves *at. */
static void add(uint8_t *segment, uint32_t *at, const char *topic,
                uint32_t body, uint32_t property_crc, int64_t store_ms) {
  static uint8_t bytes[1024];
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  message.topic = (const uint8_t *)topic;
  message.topic_size = (uint32_t)strlen(topic);
  message.body = bytes;
  message.body_size = body;
  stamp.offset = BASE + *at;
  stamp.store_ms = store_ms;
  stamp.property_crc = property_crc;
  *at += slow_encode(segment + *at, &message, &stamp, 0);
}

static void add_blank(uint8_t *segment, uint32_t at) {
  ps_store32(segment + at, SEGMENT - at);
  ps_store32(segment + at + 4, PS_MAGIC_BLANK);
}

/* Scans a segment of which all bytes are readable. */
static int32_t scan_all(const uint8_t *segment, ps_cursor *cursor,
                        ps_record *rows, uint32_t *count, ps_error *error) {
  ps_scan scan;
  ps_window window = {segment, BASE, SEGMENT, SEGMENT};
  uint64_t wanted;
  ps_scan_init(&scan, NULL);
  *count = 0;
  return ps_scan_window(&scan, &window, cursor, rows, ROWS, count, &wanted,
                        error);
}

/* ---- Against the slow reader ------------------------------------------- */

/* Scans in windows that grow as asked, each in memory of exactly its size. */
static int32_t scan_in_windows(const uint8_t *segment, ps_cursor *cursor,
                               ps_record *rows, uint32_t capacity,
                               uint32_t *count, ps_error *error) {
  ps_scan scan;
  ps_scan_init(&scan, NULL);
  uint64_t readable = cursor->offset - BASE;
  for (;;) {
    uint8_t *exact = malloc(readable + 1);
    memcpy(exact + 1, segment, readable);
    ps_window window = {exact + 1, BASE, SEGMENT, readable};
    uint64_t wanted = 0;
    int32_t answer = ps_scan_window(&scan, &window, cursor, rows, capacity,
                                    count, &wanted, error);
    free(exact);
    if (answer != PS_SCAN_MORE)
      return answer;
    CHECK_TRUE(wanted > readable && wanted <= SEGMENT);
    if (wanted <= readable)
      return answer;
    readable = wanted;
  }
}

/* Fills a segment with random records; returns where they end. */
static uint32_t random_segment(uint8_t *segment, uint32_t *starts,
                               uint32_t *count) {
  uint8_t memory[4096];
  uint8_t record[4096];
  uint32_t at = 0;
  memset(segment, 0, SEGMENT);
  *count = 0;
  for (;;) {
    ps_message message = random_message(memory, check_random() & 1 ? 20 : 500);
    ps_stamp stamp = vector_stamp();
    stamp.offset = BASE + at;
    stamp.store_ms += (int64_t)(check_random() % 8000);
    stamp.property_crc = check_random() & 1;
    uint32_t size = slow_encode(record, &message, &stamp, 0);
    if (at + size > SEGMENT)
      return at;
    if (stamp.property_crc && check_random() % 16 == 0)
      record[size - 2] ^= 1; /* another one, but still a property CRC */
    memcpy(segment + at, record, size);
    starts[(*count)++] = at;
    at += size;
    if (check_random() % 16 == 0)
      return at;
  }
}

/* Damages some bytes, most of them near the starts of records. */
static void damage(uint8_t *segment, const uint32_t *starts, uint32_t count) {
  for (uint64_t left = check_random() % 4; left > 0; left--) {
    uint32_t near = (uint32_t)(check_random() % 100);
    uint32_t at = starts[check_random() % count] + near;
    segment[at % SEGMENT] ^= (uint8_t)(1 << check_random() % 8);
  }
}

/* A random segment, also a damaged one, is scanned as the slow reader does. */
static void random_segments_equal_the_slow_reader(void) {
  static uint8_t segment[SEGMENT];
  static ps_record expected[ROWS];
  static ps_record actual[ROWS];
  for (int i = 0; i < 6000; i++) {
    uint32_t starts[ROWS];
    uint32_t records;
    uint32_t end = random_segment(segment, starts, &records);
    if (check_random() & 1 && end + 8 <= SEGMENT)
      add_blank(segment, end);
    if (check_random() & 1)
      damage(segment, starts, records);
    ps_cursor cursor = cursor_at(BASE + starts[check_random() % records],
                                 (uint32_t)check_random() & RANDOM_CHECKS);
    if (check_random() % 4 == 0)
      cursor.limit = BASE + check_random() % (SEGMENT + 9);
    uint32_t capacity =
        check_random() & 1 ? ROWS : (uint32_t)(check_random() % 8);
    ps_cursor slow = cursor;
    uint32_t slow_count = 0;
    uint32_t count = 0;
    ps_error error;
    int32_t wanted = slow_scan(segment, SEGMENT, BASE, &slow, expected,
                               capacity, &slow_count);
    int32_t answer =
        scan_in_windows(segment, &cursor, actual, capacity, &count, &error);
    CHECK(wanted, answer);
    CHECK(answer > 0 ? (uint32_t)answer : 0, cursor.stop);
    cursor.stop = 0;
    CHECK(slow_count, count);
    CHECK_BYTES(&slow, &cursor, sizeof slow);
    CHECK_BYTES(expected, actual, count * sizeof *actual);
    if (answer >= PS_STOP_SIZE)
      CHECK(cursor.offset, error.offset);
    if (check_failures > 0)
      return;
  }
}

/* ---- Where a scan ends -------------------------------------------------- */

/* A blank record leads to the next segment, and is counted. */
static void a_blank_record_ends_the_segment(void) {
  static uint8_t segment[SEGMENT];
  uint32_t at = 0;
  add(segment, &at, "A", 10, 1, 5000);
  add_blank(segment, at);
  ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
  uint32_t count;
  ps_error error;
  CHECK(PS_SEGMENT_DONE, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK(BASE + SEGMENT, cursor.offset);
  CHECK(1, cursor.blanks);
  CHECK(1, cursor.records);
  CHECK(0, cursor.unproved);
  CHECK(BASE, cursor.record_start);
  CHECK(BASE + at, cursor.record_end);
  CHECK(5000, cursor.record_ms);
  CHECK(0, count);
}

/* The exact end of a segment leads to the next one. */
static void the_exact_end_is_the_next_base(void) {
  static uint8_t segment[SEGMENT];
  ps_cursor cursor = cursor_at(BASE + SEGMENT, ALL_CHECKS);
  uint32_t count;
  ps_error error;
  CHECK(PS_SEGMENT_DONE, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK(BASE + SEGMENT, cursor.offset);
  CHECK(0, cursor.blanks);
}

/* A blank record that does not cover the rest is bad. */
static void a_blank_record_of_a_wrong_size_is_bad(void) {
  static uint8_t segment[SEGMENT];
  add_blank(segment, 8);
  memmove(segment, segment + 8, 8);
  ps_cursor cursor = cursor_at(BASE, 0);
  uint32_t count;
  ps_error error;
  CHECK(PS_STOP_BLANK, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK_TEXT("blank record at offset 12288: size 4088 is not the 4096 that "
             "remain in the segment",
             error.text);
  CHECK(BASE, cursor.offset);
  CHECK(0, cursor.blanks);
}

/* Fewer than eight bytes at the end are zero, or they are bad. */
static void the_last_bytes_of_a_segment_are_zero_or_bad(void) {
  static uint8_t segment[SEGMENT];
  for (uint32_t rest = 1; rest < 8; rest++) {
    for (uint32_t set = 0; set <= rest; set++) {
      memset(segment, 0, SEGMENT);
      if (set > 0)
        segment[SEGMENT - set] = 1;
      ps_cursor cursor = cursor_at(BASE + SEGMENT - rest, 0);
      uint32_t count;
      ps_error error;
      CHECK(set ? PS_STOP_SIZE : PS_STOP_ZERO,
            scan_all(segment, &cursor, NULL, &count, &error));
      CHECK(BASE + SEGMENT - rest, cursor.offset);
    }
  }
}

/* Rows that are full stop the scan, and the next call goes on. */
static void a_scan_goes_on_where_the_rows_were_full(void) {
  static uint8_t segment[SEGMENT];
  ps_record rows[2];
  uint32_t at = 0;
  for (int i = 0; i < 5; i++)
    add(segment, &at, "A", 3, 1, 1);
  ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
  ps_scan scan;
  ps_scan_init(&scan, NULL);
  ps_window window = {segment, BASE, SEGMENT, SEGMENT};
  for (uint32_t round = 0; round < 3; round++) {
    uint32_t count = 0;
    uint64_t wanted;
    ps_error error;
    CHECK(round < 2 ? PS_STOP_ROWS : PS_STOP_ZERO,
          ps_scan_window(&scan, &window, &cursor, rows, 2, &count, &wanted,
                         &error));
    CHECK(round < 2 ? 2 : 1, count);
    CHECK(BASE + at / 5 * 2 * round, rows[0].offset);
  }
  CHECK(5, cursor.records);
  CHECK(BASE + at, cursor.offset);
}

/* How many of three records end at or before a place. */
static uint32_t ends_up_to(const uint32_t *ends, uint32_t place) {
  uint32_t whole = 0;
  for (uint32_t i = 1; i < 4; i++)
    whole += place >= ends[i];
  return whole;
}

/* At every limit the scan stops at the first record not wholly below it, and
 * reads nothing from the limit on. */
static void no_byte_at_the_limit_is_read(void) {
  static uint8_t segment[SEGMENT];
  uint32_t ends[4] = {0};
  uint32_t at = 0;
  for (uint32_t i = 1; i < 4; i++) {
    add(segment, &at, "A", 3 * i, i & 1, 1);
    ends[i] = at;
  }
  for (uint32_t limit = 0; limit <= at; limit++) {
    uint8_t *exact = malloc(limit + 1);
    REQUIRE(exact);
    memcpy(exact + 1, segment, limit);
    ps_window window = {exact + 1, BASE, SEGMENT, SEGMENT};
    ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
    cursor.limit = BASE + limit;
    ps_scan scan;
    ps_scan_init(&scan, NULL);
    uint32_t count = 0;
    uint64_t wanted;
    ps_error error;
    CHECK(PS_STOP_LIMIT, ps_scan_window(&scan, &window, &cursor, NULL, 0,
                                        &count, &wanted, &error));
    uint32_t whole = ends_up_to(ends, limit);
    CHECK(whole, cursor.records);
    CHECK(BASE + ends[whole], cursor.offset);
    free(exact);
  }
}

/* A segment cut at any byte, zero behind it, keeps its whole records, and the
 * scan stops at the one that is not: a bad record, or zero bytes. Only a
 * property CRC that is needed proves the properties. */
static void a_segment_cut_anywhere_keeps_its_whole_records(void) {
  static uint8_t whole[SEGMENT];
  static uint8_t segment[SEGMENT];
  for (uint32_t property_crc = 0; property_crc < 2; property_crc++) {
    uint32_t unproved = property_crc ? 0 : vector_message().properties_size;
    uint32_t ends[4] = {0};
    uint32_t at = 0;
    memset(whole, 0, SEGMENT);
    for (uint32_t i = 1; i < 4; i++) {
      add(whole, &at, "Topic", 20 * i, property_crc, 1700000000000);
      ends[i] = at;
    }
    for (uint32_t cut = 0; cut <= at; cut++) {
      memset(segment, 0, SEGMENT);
      memcpy(segment, whole, cut);
      uint32_t records = ends_up_to(ends, cut + unproved);
      /* The first three bytes of a small size are zero anyhow. */
      uint32_t at_border = cut <= ends[records] + 3;
      ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
      cursor.checks |= property_crc ? PS_NEED_PROPERTY : 0;
      uint32_t count;
      ps_error error;
      int32_t answer = scan_all(segment, &cursor, NULL, &count, &error);
      CHECK(records, cursor.records);
      CHECK(BASE + ends[records], cursor.offset);
      CHECK(at_border, answer == PS_STOP_ZERO);
      CHECK(!at_border, answer >= PS_STOP_SIZE);
    }
  }
}

/* ---- What a scan finds --------------------------------------------------- */

/* Each topic has one id, in the order of appearance, if it is wanted. */
static void topics_are_numbered_as_they_appear(void) {
  static const char *names[] = {"A", "A", "Bee", "A", "B", "Bee"};
  static const uint32_t ids[] = {0, 0, 1, 0, 2, 1};
  static uint8_t segment[SEGMENT];
  uint32_t at = 0;
  for (uint32_t i = 0; i < 6; i++)
    add(segment, &at, names[i], 1, 0, 1);
  ps_topics *topics = ps_topics_new();
  REQUIRE(topics);
  ps_scan scan;
  ps_scan_init(&scan, topics);
  ps_window window = {segment, BASE, SEGMENT, SEGMENT};
  ps_record rows[ROWS];
  for (uint32_t wanted_bits = 0; wanted_bits < 2; wanted_bits++) {
    ps_cursor cursor = cursor_at(BASE, wanted_bits ? PS_WANT_TOPIC : 0);
    uint32_t count = 0;
    uint64_t wanted;
    ps_error error;
    CHECK(PS_STOP_ZERO, ps_scan_window(&scan, &window, &cursor, rows, ROWS,
                                       &count, &wanted, &error));
    CHECK(6, count);
    for (uint32_t i = 0; i < 6; i++)
      CHECK(wanted_bits ? ids[i] : PS_NO_TOPIC, rows[i].topic_id);
  }
  ps_topics_free(topics);
}

/* Tags codes are filled only if they are wanted. */
static void tags_codes_are_filled_if_wanted(void) {
  static uint8_t segment[SEGMENT];
  uint32_t at = 0;
  add(segment, &at, "A", 1, 1, 1);
  ps_record rows[ROWS];
  uint32_t count;
  ps_error error;
  ps_cursor cursor = cursor_at(BASE, PS_WANT_TAGS);
  CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, rows, &count, &error));
  CHECK(2567159, rows[0].tags_code);
  cursor = cursor_at(BASE, 0);
  CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, rows, &count, &error));
  CHECK(0, rows[0].tags_code);
}

/* Records without a property CRC are counted, or bad if one is needed. */
static void records_without_a_property_crc_are_counted(void) {
  static uint8_t segment[SEGMENT];
  uint32_t at = 0;
  add(segment, &at, "A", 1, 1, 1);
  uint32_t second = at;
  add(segment, &at, "A", 1, 0, 1);
  uint32_t count;
  ps_error error;
  ps_cursor cursor = cursor_at(BASE, 0);
  CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK(2, cursor.records);
  CHECK(1, cursor.unproved);
  cursor = cursor_at(BASE, PS_NEED_PROPERTY);
  CHECK(PS_STOP_PROPERTY, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK(BASE + second, cursor.offset);
  CHECK_TEXT("record at offset 12419: it has no property CRC", error.text);
}

/* ---- Copied property CRCs ----------------------------------------------- */

/* Three records with property CRCs; starts[3] is their end. */
static void add_three(uint8_t *segment, uint32_t *starts) {
  memset(segment, 0, SEGMENT);
  starts[0] = 0;
  for (uint32_t i = 0; i < 3; i++) {
    starts[i + 1] = starts[i];
    add(segment, &starts[i + 1], "A", 10 + i, 1, 1);
  }
}

/* The second record gets the property CRC of the first, as a broker writes it
 * that copies a message with its properties. */
static void copy_crc(uint8_t *segment, const uint32_t *starts) {
  memcpy(segment + starts[2] - PS_CRC_AREA, segment + starts[1] - PS_CRC_AREA,
         PS_CRC_AREA);
}

/* The property CRC of another record is a stop, or is passed, told in its row
 * and counted, if the body CRC holds. */
static void a_copied_property_crc_is_passed_on_request(void) {
  static uint8_t segment[SEGMENT];
  uint32_t starts[4], count;
  ps_record rows[ROWS];
  ps_error error;
  add_three(segment, starts);
  copy_crc(segment, starts);
  ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
  CHECK(PS_STOP_PROPERTY, scan_all(segment, &cursor, NULL, &count, &error));
  CHECK(BASE + starts[1], cursor.offset);
  CHECK(0, cursor.differs);
  for (uint32_t has_rows = 0; has_rows < 2; has_rows++) {
    cursor = cursor_at(BASE, ALL_CHECKS | PS_PASS_COPIED);
    CHECK(PS_STOP_ZERO,
          scan_all(segment, &cursor, has_rows ? rows : NULL, &count, &error));
    CHECK(BASE + starts[3], cursor.offset);
    CHECK(has_rows ? 3 : 0, count);
    CHECK(3, cursor.records);
    CHECK(1, cursor.unproved);
    CHECK(1, cursor.differs);
  }
  for (uint32_t i = 0; i < 3; i++)
    CHECK(PS_PROOF_BODY | PS_HAS_PROPERTY |
              (i == 1 ? PS_PROOF_DIFFERS : PS_PROOF_PROPERTY),
          rows[i].proof);
  cursor = cursor_at(BASE, PS_CHECK_BODY | PS_PASS_COPIED);
  CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, rows, &count, &error));
  CHECK(PS_PROOF_BODY | PS_HAS_PROPERTY, rows[1].proof); /* it was not asked */
  CHECK(0, cursor.unproved);
  CHECK(0, cursor.differs);
}

/* Checked once, only a record whose property CRC differs is proved by its body
 * CRC, and so it is where the body is not to be checked. */
static void one_proof_becomes_the_body_where_the_property_crc_differs(void) {
  static uint8_t segment[SEGMENT];
  uint32_t starts[4], count;
  ps_record rows[ROWS];
  ps_error error;
  add_three(segment, starts);
  copy_crc(segment, starts);
  for (uint32_t is_once = 0; is_once < 2; is_once++) {
    ps_cursor cursor = cursor_at(BASE, PS_CHECK_PROPERTY | PS_PASS_COPIED);
    if (is_once)
      cursor.checks |= PS_CHECK_BODY | PS_CHECK_ONCE;
    CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, rows, &count, &error));
    CHECK(3, count);
    CHECK(PS_HAS_PROPERTY | PS_PROOF_PROPERTY, rows[0].proof);
    CHECK(PS_HAS_PROPERTY | PS_PROOF_BODY | PS_PROOF_DIFFERS, rows[1].proof);
    CHECK(PS_HAS_PROPERTY | PS_PROOF_PROPERTY, rows[2].proof);
    CHECK(1, cursor.unproved);
    CHECK(1, cursor.differs);
  }
}

/* Where the body CRC does not hold either, the record is bad, whichever checks
 * are asked for. */
static void a_copied_property_crc_does_not_excuse_the_body(void) {
  static const uint32_t more[] = {0, PS_CHECK_BODY,
                                  PS_CHECK_BODY | PS_CHECK_ONCE};
  static uint8_t segment[SEGMENT];
  uint32_t starts[4], count;
  ps_error error;
  add_three(segment, starts);
  segment[starts[1] + 90] ^= 1; /* in the body */
  for (uint32_t is_copied = 0; is_copied < 2; is_copied++) {
    if (is_copied)
      copy_crc(segment, starts);
    for (uint32_t i = 0; i < 3; i++) {
      ps_cursor cursor =
          cursor_at(BASE, PS_CHECK_PROPERTY | PS_PASS_COPIED | more[i]);
      CHECK(PS_STOP_BODY, scan_all(segment, &cursor, NULL, &count, &error));
      CHECK(BASE + starts[1], cursor.offset);
      CHECK(1, cursor.records);
      CHECK(0, cursor.unproved);
      CHECK(0, cursor.differs);
      CHECK_TRUE(strstr(error.text, ": body CRC 0x") != NULL);
    }
  }
}

/* A property CRC of which a few bytes changed is passed as one that differs,
 * but is not there where one is needed. */
static void a_damaged_property_crc_is_passed_like_a_copied_one(void) {
  static uint8_t segment[SEGMENT];
  uint32_t starts[4], count;
  ps_record rows[ROWS];
  ps_error error;
  for (uint32_t at = 1; at <= PS_CRC_AREA; at++) {
    add_three(segment, starts);
    segment[starts[2] - at] ^= 0x80;
    ps_cursor cursor = cursor_at(BASE, ALL_CHECKS);
    CHECK(PS_STOP_PROPERTY, scan_all(segment, &cursor, NULL, &count, &error));
    cursor = cursor_at(BASE, ALL_CHECKS | PS_PASS_COPIED);
    CHECK(PS_STOP_ZERO, scan_all(segment, &cursor, rows, &count, &error));
    CHECK(3, count);
    CHECK(PS_PROOF_BODY | PS_PROOF_DIFFERS, rows[1].proof);
    CHECK(1, cursor.unproved);
    CHECK(1, cursor.differs);
    cursor = cursor_at(BASE, ALL_CHECKS | PS_PASS_COPIED | PS_NEED_PROPERTY);
    CHECK(PS_STOP_PROPERTY, scan_all(segment, &cursor, NULL, &count, &error));
    CHECK(BASE + starts[1], cursor.offset);
    CHECK(0, cursor.differs);
  }
}

/* ---- Descriptions ------------------------------------------------------- */

/* A cut writes where others read, so a bad record may have become anything by
 * the time it is described: another size, whole, garbage. No byte behind the
 * readable ones is touched, and there is always a line. */
static void a_record_that_changes_under_its_reader_is_described(void) {
  static const uint32_t reasons[] = {
      PS_STOP_SIZE, PS_STOP_MAGIC,    PS_STOP_BLANK, PS_STOP_LENGTHS,
      PS_STOP_BODY, PS_STOP_PROPERTY, PS_STOP_OFFSET};
  static uint8_t segment[SEGMENT];
  uint32_t size = 0;
  add(segment, &size, "A", 100, 1, 1);
  uint8_t *bytes = malloc(size); /* not one byte more */
  uint64_t random = 7;
  for (uint32_t i = 0; i < 20000; i++) {
    memcpy(bytes, segment, size);
    for (uint32_t k = 0; k < i % 4; k++) {
      random = random * UINT64_C(6364136223846793005) + 99;
      bytes[(random >> 33) % (k == 0 ? 4 : size)] = (uint8_t)(random >> 56);
    }
    ps_error error = {0};
    ps_parse_describe(&error, reasons[i / 4 % 7], bytes, size, SEGMENT, BASE);
    CHECK(PS_E_CORRUPT, error.status);
  }
  memcpy(bytes, segment, size);
  ps_store32(bytes, 1u << 30);
  ps_error error = {0};
  ps_parse_describe(&error, PS_STOP_BODY, bytes, size, SEGMENT, BASE);
  CHECK_TEXT("record at offset 12288: its bytes changed while it was read",
             error.text);
  memcpy(bytes, segment, size);
  ps_parse_describe(&error, PS_STOP_LENGTHS, bytes, size, SEGMENT, BASE);
  CHECK_TEXT("record at offset 12288: its bytes changed while it was read",
             error.text);
  free(bytes);
}

CHECK_MAIN(CASE(random_segments_equal_the_slow_reader),
           CASE(a_blank_record_ends_the_segment),
           CASE(the_exact_end_is_the_next_base),
           CASE(a_blank_record_of_a_wrong_size_is_bad),
           CASE(the_last_bytes_of_a_segment_are_zero_or_bad),
           CASE(a_scan_goes_on_where_the_rows_were_full),
           CASE(no_byte_at_the_limit_is_read),
           CASE(a_segment_cut_anywhere_keeps_its_whole_records),
           CASE(topics_are_numbered_as_they_appear),
           CASE(tags_codes_are_filled_if_wanted),
           CASE(records_without_a_property_crc_are_counted),
           CASE(a_copied_property_crc_is_passed_on_request),
           CASE(one_proof_becomes_the_body_where_the_property_crc_differs),
           CASE(a_copied_property_crc_does_not_excuse_the_body),
           CASE(a_damaged_property_crc_is_passed_like_a_copied_one),
           CASE(a_record_that_changes_under_its_reader_is_described))
