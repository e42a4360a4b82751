/* Scanned rows as lines of JSON: what fits, what is left, what is refused. What
 * a line has in it is compared with Python's encoder in tests/unit/cli/lib. */
#include "json_lines.h"

#include "check.h"
#include "format.h"
#include "support_records.h"

enum { RECORDS = 60, BASE = 4096, ROOM = 1 << 18 };

/* Records back to back; their memory ends with the last one, so that a
 * sanitizer sees what reads behind it. */
typedef struct block {
  uint8_t *data;
  uint64_t size;
  ps_record rows[RECORDS];
} block;

static block make_block(void) {
  static uint8_t memory[ROOM];
  block made = {.size = 0};
  for (uint32_t i = 0; i < RECORDS; i++) {
    uint8_t parts[4096];
    ps_message message = random_message(parts, 1000);
    ps_stamp stamp = vector_stamp();
    ps_error error;
    stamp.offset = BASE + made.size;
    stamp.property_crc = i % 2;
    uint32_t size = slow_encode(memory + made.size, &message, &stamp, 0);
    CHECK(PS_OK, ps_record_check(memory + made.size, size, stamp.offset, 0,
                                 &made.rows[i], &error));
    made.size += size;
  }
  made.data = malloc(made.size);
  memcpy(made.data, memory, made.size);
  return made;
}

static ps_rows rows_of(const block *made, uint32_t first) {
  return (ps_rows){made->rows + first, made->data, made->size, BASE,
                   RECORDS - first,    0};
}

/* One line after the other, each in as little room as it asks for, is as all of
 * them at once. Every byte of a second body is escaped. */
static void each_line_fits_into_what_it_asks_for(void) {
  block made = make_block();
  for (uint32_t i = 0; i < RECORDS; i += 2)
    memset(made.data + made.rows[i].offset - BASE + made.rows[i].body_at, 3,
           made.rows[i].body_size);
  ps_error error;
  uint8_t *whole = malloc(ROOM * 8);
  ps_rows rows = rows_of(&made, 0);
  ps_json_lines all = {.bytes = whole, .capacity = ROOM * 8};
  CHECK(PS_OK, ps_rows_json(&rows, PS_JSON_BODIES, 0, &all, &error));
  CHECK(RECORDS, all.count);
  uint64_t at = 0;
  for (uint32_t i = 0; i < RECORDS; i++) {
    ps_json_lines one = {.capacity = 0};
    rows = rows_of(&made, i);
    rows.count = 1;
    CHECK(PS_OK, ps_rows_json(&rows, PS_JSON_BODIES, 0, &one, &error));
    CHECK(0, one.count);
    CHECK(0, one.is_left);
    one.capacity = one.needed;
    one.bytes = malloc(one.capacity);
    CHECK(PS_OK, ps_rows_json(&rows, PS_JSON_BODIES, 0, &one, &error));
    CHECK(1, one.count);
    CHECK(1, at + one.size <= all.size);
    CHECK_BYTES(whole + at, one.bytes, one.size);
    at += one.size;
    free(one.bytes);
  }
  CHECK(all.size, at);
  free(whole);
  free(made.data);
}

/* The lines before it are there. */
static void a_row_with_a_left_flag_or_broken_text_is_left(void) {
  block made = make_block();
  ps_error error;
  uint8_t *whole = malloc(ROOM * 8);
  ps_json_lines lines = {.bytes = whole, .capacity = ROOM * 8};
  for (uint32_t i = 0; i < RECORDS; i++)
    made.rows[i].sys_flag &= ~(uint32_t)PS_SYS_COMPRESSED;
  made.rows[7].sys_flag |= PS_SYS_COMPRESSED;
  ps_rows rows = rows_of(&made, 0);
  CHECK(PS_OK, ps_rows_json(&rows, 0, PS_SYS_COMPRESSED, &lines, &error));
  CHECK(7, lines.count);
  CHECK(1, lines.is_left);
  CHECK('\n', whole[lines.size - 1]);
  const ps_record *fourth = &made.rows[3];
  made.data[fourth->offset - BASE + fourth->topic_at] = 0xFF;
  CHECK(PS_OK, ps_rows_json(&rows, 0, 0, &lines, &error));
  CHECK(3, lines.count);
  CHECK(1, lines.is_left);
  free(whole);
  free(made.data);
}

/* No part of a row is believed. */
static void a_row_outside_of_the_bytes_is_refused(void) {
  block made = make_block();
  ps_error error;
  uint8_t *whole = malloc(ROOM * 8);
  ps_json_lines lines = {.bytes = whole, .capacity = ROOM * 8};
  ps_rows rows = rows_of(&made, RECORDS - 1);
  ps_record *last = &made.rows[RECORDS - 1];
  ps_record good = *last;
  last->topic_at = last->size - last->topic_size + 1;
  CHECK(PS_E_INVALID, ps_rows_json(&rows, 0, 0, &lines, &error));
  *last = good;
  last->body_size = last->size;
  CHECK(PS_E_INVALID, ps_rows_json(&rows, 0, 0, &lines, &error));
  *last = good;
  last->offset += 1;
  CHECK(PS_E_INVALID, ps_rows_json(&rows, 0, 0, &lines, &error));
  free(whole);
  free(made.data);
}

CHECK_MAIN(CASE(each_line_fits_into_what_it_asks_for),
           CASE(a_row_with_a_left_flag_or_broken_text_is_left),
           CASE(a_row_outside_of_the_bytes_is_refused))
