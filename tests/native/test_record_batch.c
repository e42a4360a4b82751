/* Many records at once: against what is true of each one. */
#include "pystore.h"

#include "check.h"
#include "format.h"
#include "support_records.h"

enum { RECORDS = 40, BASE = 4096, ROOM = 65536 };

/* Records of every kind, back to back, as they stand at BASE. */
typedef struct block {
  uint8_t data[ROOM];
  uint64_t size;
  uint64_t from[RECORDS];
  ps_record rows[RECORDS];
} block;

static block *make_block(void) {
  static block made;
  memset(&made, 0, sizeof made);
  for (uint32_t i = 0; i < RECORDS; i++) {
    uint8_t memory[4096];
    ps_message message = random_message(memory, 300);
    ps_stamp stamp = vector_stamp();
    ps_error error;
    stamp.offset = made.from[i] = BASE + made.size;
    stamp.property_crc = i % 2;
    made.size += slow_encode(made.data + made.size, &message, &stamp, 0);
    ps_record_check(made.data + (stamp.offset - BASE), made.size, stamp.offset,
                    0, &made.rows[i], &error);
  }
  return &made;
}

/* Every copy passes every check at its new place, and nothing but the offset
 * and the CRC over it is another. */
static void copies_are_whole_at_their_new_places(void) {
  static uint8_t copies[ROOM];
  block *given = make_block();
  uint64_t from[RECORDS];
  uint64_t to[RECORDS];
  ps_record rows[RECORDS];
  ps_error error;
  uint64_t place = 77;
  for (uint32_t i = 0; i < RECORDS; i++) { /* in any order */
    uint32_t which = (i * 7 + 3) % RECORDS;
    from[i] = given->from[which];
    to[i] = place;
    place += given->rows[which].size;
  }
  CHECK(PS_OK, ps_records_move(given->data, given->size, BASE, from, to,
                               RECORDS, copies, given->size, rows, &error));
  uint32_t checks = PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET;
  for (uint32_t i = 0; i < RECORDS; i++) {
    uint8_t *copy = copies + (to[i] - 77);
    const uint8_t *original = given->data + (from[i] - BASE);
    ps_record record;
    CHECK(PS_OK,
          ps_record_check(copy, rows[i].size, to[i], checks, &record, &error));
    CHECK(to[i], rows[i].offset);
    CHECK(record.proof & PS_HAS_PROPERTY, rows[i].proof & PS_HAS_PROPERTY);
    uint32_t end = rows[i].size;
    end -= (rows[i].proof & PS_HAS_PROPERTY) ? PS_CRC_AREA : 0;
    CHECK_BYTES(original, copy, PS_AT_OFFSET);
    CHECK_BYTES(original + PS_AT_OFFSET + 8, copy + PS_AT_OFFSET + 8,
                end - PS_AT_OFFSET - 8);
  }
}

/* A record that is no longer whole is not copied, let alone signed anew. */
static void damage_is_found_before_a_new_checksum(void) {
  static uint8_t copies[ROOM];
  block *given = make_block();
  ps_record row;
  ps_error error;
  uint64_t to = 0;
  uint64_t from = given->from[3]; /* it has a property CRC */
  given->data[from - BASE + PS_AT_FLAG] ^= 1;
  CHECK(PS_E_CORRUPT,
        ps_records_move(given->data, given->size, BASE, &from, &to, 1, copies,
                        sizeof copies, &row, &error));
  CHECK(from, error.offset);
}

/* Places outside the bytes, and a buffer that is full, are refused. */
static void what_does_not_fit_is_refused(void) {
  static uint8_t copies[ROOM];
  block *given = make_block();
  ps_record row;
  ps_error error;
  uint64_t to = 0;
  uint64_t outside[] = {BASE - 1, BASE + given->size, PS_NO_OFFSET};
  for (uint32_t i = 0; i < 3; i++)
    CHECK(PS_E_INVALID,
          ps_records_move(given->data, given->size, BASE, &outside[i], &to, 1,
                          copies, sizeof copies, &row, &error));
  CHECK(PS_E_SPACE,
        ps_records_move(given->data, given->size, BASE, given->from, &to, 1,
                        copies, given->rows[0].size - 1, &row, &error));
  uint64_t at;
  uint32_t size;
  CHECK(PS_E_INVALID, ps_records_property(given->data, given->size - 1, BASE,
                                          &given->rows[RECORDS - 1], 1, "KEYS",
                                          &at, &size, &error));
}

/* A property is found in the record that has it; without one its size is 0. */
static void a_property_is_found_where_it_is(void) {
  uint8_t data[512];
  ps_record rows[2];
  ps_error error;
  uint64_t at[2];
  uint32_t sizes[2];
  ps_message message = vector_message();
  ps_stamp stamp = vector_stamp();
  stamp.offset = 0;
  uint32_t first = slow_encode(data, &message, &stamp, 0);
  message.properties_size = 0;
  stamp.offset = first;
  uint32_t size = first + slow_encode(data + first, &message, &stamp, 0);
  ps_record_check(data, size, 0, 0, &rows[0], &error);
  ps_record_check(data + first, size - first, first, 0, &rows[1], &error);
  CHECK(PS_OK,
        ps_records_property(data, size, 0, rows, 2, "KEYS", at, sizes, &error));
  CHECK(2, sizes[0]);
  CHECK_BYTES("k1", data + at[0], 2);
  CHECK(0, sizes[1]);
  CHECK_TRUE(at[1] >= first && at[1] <= size);
}

CHECK_MAIN(CASE(copies_are_whole_at_their_new_places),
           CASE(damage_is_found_before_a_new_checksum),
           CASE(what_does_not_fit_is_refused),
           CASE(a_property_is_found_where_it_is))
