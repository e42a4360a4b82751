/* Properties of scanned rows as columns: whatever the strings are. */
#include "columns.h"

#include "check.h"
#include "format.h"
#include "properties.h"
#include "text.h"

enum { BASE = 512, HEAD = PS_AT_BODY + 2 * PS_HOST_IPV4, ROWS = 8 };

/* Records that are their property strings alone. */
typedef struct strings {
  ps_record rows[ROWS];
  uint8_t *data;
  ps_rows of;
} strings;

static void add(strings *to, const void *text, uint32_t size) {
  ps_record *row = &to->rows[to->of.count++];
  *row = (ps_record){.offset = BASE + to->of.size,
                     .size = HEAD + size,
                     .body_at = HEAD,
                     .properties_at = HEAD,
                     .properties_size = (uint16_t)size};
  to->data = realloc(to->data, to->of.size + row->size);
  memset(to->data + to->of.size, 0xEE, HEAD);
  memcpy(to->data + to->of.size + HEAD, text, size);
  to->of.size += row->size;
  to->of.data = to->data;
  to->of.rows = to->rows;
  to->of.offset = BASE;
}

/* Columns with the room that is measured, and no more. */
typedef struct filled {
  ps_property_columns columns;
  ps_status status;
  ps_error error;
} filled;

static ps_text_column make_column(uint64_t values, uint64_t bytes) {
  return (ps_text_column){.offsets = malloc((values + 1) * sizeof(int32_t)),
                          .bytes = malloc(bytes ? bytes : 1),
                          .capacity = bytes,
                          .present = malloc(values / 8 + 1)};
}

static filled fill(const strings *from, uint64_t slack) {
  filled made = {.status = PS_OK};
  ps_column_sizes sizes;
  CHECK(PS_OK, ps_rows_measure(&from->of, &sizes, &made.error));
  uint64_t bytes = sizes.property_bytes + slack;
  uint64_t count = from->of.count;
  made.columns.maps = malloc((count + 1) * sizeof(int32_t));
  made.columns.entries_max = sizes.entries;
  made.columns.names = make_column(sizes.entries, bytes);
  made.columns.values = make_column(sizes.entries, bytes);
  made.columns.keys = make_column(count, bytes);
  made.columns.tags = make_column(count, bytes);
  made.columns.unique = make_column(count, bytes);
  made.status = ps_rows_properties(&from->of, &made.columns, &made.error);
  return made;
}

static void free_all(strings *from, filled *made) {
  ps_text_column *all[] = {&made->columns.names, &made->columns.values,
                           &made->columns.keys, &made->columns.tags,
                           &made->columns.unique};
  for (uint32_t i = 0; i < 5; i++) {
    free(all[i]->offsets);
    free(all[i]->bytes);
    free(all[i]->present);
  }
  free(made->columns.maps);
  free(from->data);
}

static int32_t is_text(const ps_text_column *column, int64_t i,
                       const uint8_t *text, uint32_t size) {
  return column->offsets[i + 1] - column->offsets[i] == (int32_t)size &&
         memcmp(column->bytes + column->offsets[i], text, size) == 0;
}

/* The map of a row as `name=value,` one behind the other. */
static const char *shown(const filled *made, uint32_t row) {
  static char text[4096];
  uint32_t used = 0;
  const ps_property_columns *from = &made->columns;
  for (int32_t i = from->maps[row]; i < from->maps[row + 1]; i++) {
    const ps_text_column *parts[] = {&from->names, &from->values};
    for (uint32_t part = 0; part < 2; part++) {
      int32_t at = parts[part]->offsets[i];
      uint32_t size = (uint32_t)(parts[part]->offsets[i + 1] - at);
      memcpy(text + used, parts[part]->bytes + at, size);
      used += size;
      text[used++] = part ? ',' : '=';
    }
  }
  text[used] = 0;
  return text;
}

#define ADD(to, text) add(to, text, sizeof(text) - 1)

/* What is no entry is left out, the last of a name wins where it stands. */
static void entries_are_those_of_the_parser(void) {
  strings given = {0};
  ADD(&given, "a\1b\2c\1d\2");
  ADD(&given, "");
  ADD(&given, "a\1b\2KEYS\1k\2a\1c\2TAGS\1t");
  ADD(&given, "\1x\2y\1\2z\2\2a\1b\1c\2\1\1\2last\1");
  ADD(&given, "KEYS\1one\2KEYS\1two\2UNIQ_KEY\1id\2KEYS\1\2");
  for (uint64_t slack = 0; slack <= 2 * PS_COLUMN_SLACK; slack += 32) {
    filled made = fill(&given, slack);
    CHECK(PS_OK, made.status);
    CHECK(1, made.columns.is_utf8);
    CHECK_TEXT("a=b,c=d,", shown(&made, 0));
    CHECK_TEXT("", shown(&made, 1));
    CHECK_TEXT("KEYS=k,a=c,TAGS=t,", shown(&made, 2));
    CHECK_TEXT("a=b\1c,", shown(&made, 3));
    CHECK_TEXT("KEYS=two,UNIQ_KEY=id,", shown(&made, 4));
    CHECK(4 | 16, made.columns.keys.present[0]);
    CHECK(4, made.columns.tags.present[0]);
    CHECK(16, made.columns.unique.present[0]);
    CHECK_TRUE(is_text(&made.columns.keys, 4, (const uint8_t *)"two", 3));
    strings nothing = {0};
    free_all(&nothing, &made);
  }
  free(given.data);
}

/* Fills `text` with the bytes that make entries, and some that make none. */
static uint32_t random_string(uint8_t *text, uint32_t size_max) {
  static const char bytes[] = "abABKEYS\1\1\1\2\2\2\3\0\x7F\xC3\xA4";
  uint32_t size = (uint32_t)(check_random() % (size_max + 1));
  for (uint32_t i = 0; i < size; i++)
    text[i] = (uint8_t)bytes[check_random() % (sizeof bytes - 1)];
  return size;
}

/* Every name of a map is found in the string with that value, none comes twice,
 * and KEYS is what the parser of one record finds. */
static void check_row(const strings *given, const filled *made, uint32_t row) {
  const ps_property_columns *from = &made->columns;
  const uint8_t *string = given->data + (given->rows[row].offset - BASE) + HEAD;
  uint32_t size = given->rows[row].properties_size;
  const uint8_t *value = NULL;
  uint32_t value_size = 0;
  for (int32_t i = from->maps[row]; i < from->maps[row + 1]; i++) {
    char name[4096];
    uint32_t name_size =
        (uint32_t)(from->names.offsets[i + 1] - from->names.offsets[i]);
    const uint8_t *bytes = from->names.bytes + from->names.offsets[i];
    memcpy(name, bytes, name_size);
    name[name_size] = 0;
    for (int32_t other = from->maps[row]; other < i; other++)
      CHECK_TRUE(!is_text(&from->names, other, bytes, name_size));
    if (memchr(name, 0, name_size))
      continue; /* the parser of one record takes names that end with NUL */
    REQUIRE(ps_properties_find(string, size, name, &value, &value_size));
    CHECK_TRUE(is_text(&from->values, i, value, value_size));
  }
  uint32_t is_there = (from->keys.present[0] >> row) & 1;
  CHECK(ps_properties_find(string, size, "KEYS", &value, &value_size),
        is_there);
  if (is_there)
    CHECK_TRUE(is_text(&from->keys, row, value, value_size));
}

/* Any bytes, in strings of any size: against the parser of one record. */
static void random_strings_give_what_one_by_one_gives(void) {
  for (uint32_t round = 0; round < 400; round++) {
    strings given = {0};
    int32_t is_utf8 = 1;
    for (uint32_t i = 0; i < ROWS; i++) {
      uint8_t text[4000];
      uint32_t size = random_string(text, i == 0 ? 4000 : 60);
      if (!ps_is_utf8(text, size) && check_random() % 8 > 0)
        for (uint32_t at = 0; at < size; at++)
          text[at] &= 0x7F;
      is_utf8 &= ps_is_utf8(text, size);
      add(&given, text, size);
    }
    filled made = fill(&given, round % 2 * PS_COLUMN_SLACK);
    CHECK(PS_OK, made.status);
    CHECK(is_utf8, made.columns.is_utf8);
    for (uint32_t row = 0; row < ROWS && made.columns.is_utf8; row++)
      check_row(&given, &made, row);
    free_all(&given, &made);
  }
}

/* As many entries as a string can have, all of one name or none twice. */
static void the_longest_string_has_room(void) {
  static uint8_t same[PS_PROPERTIES_MAX];
  static uint8_t other[PS_PROPERTIES_MAX];
  for (uint32_t i = 0; i < PS_PROPERTIES_MAX; i += 1) {
    same[i] = (uint8_t) "a\1b\2"[i % 4];
    other[i] = (uint8_t) "xy\1v\2"[i % 5];
    if (i % 5 == 0)
      other[i] = (uint8_t)(3 + i / 5 % 120);
    if (i % 5 == 1)
      other[i] = (uint8_t)(3 + i / 600);
  }
  strings given = {0};
  add(&given, same, sizeof same);
  add(&given, other, sizeof other);
  filled made = fill(&given, 0);
  CHECK(PS_OK, made.status);
  CHECK(1, made.columns.maps[1]);
  CHECK(PS_PROPERTIES_MAX / 5, made.columns.maps[2] - made.columns.maps[1]);
  free_all(&given, &made);
}

/* Room for less than measured is an answer, and what is not wanted stays. */
static void too_little_room_is_refused(void) {
  strings given = {0};
  ADD(&given, "KEYS\1k\2");
  filled made = fill(&given, 0);
  ps_property_columns *columns = &made.columns;
  columns->keys.capacity = 0;
  CHECK(PS_E_SPACE, ps_rows_properties(&given.of, columns, &made.error));
  columns->keys.capacity = 7;
  columns->names.capacity = 6;
  CHECK(PS_E_SPACE, ps_rows_properties(&given.of, columns, &made.error));
  columns->names.capacity = 7;
  columns->entries_max = 1;
  CHECK(PS_E_SPACE, ps_rows_properties(&given.of, columns, &made.error));
  int32_t *maps = columns->maps;
  columns->maps = NULL; /* then names and values have no part in it */
  CHECK(PS_OK, ps_rows_properties(&given.of, columns, &made.error));
  CHECK(1, columns->keys.present[0]);
  columns->maps = maps;
  free_all(&given, &made);
}

CHECK_MAIN(CASE(entries_are_those_of_the_parser),
           CASE(random_strings_give_what_one_by_one_gives),
           CASE(the_longest_string_has_room), CASE(too_little_room_is_refused))
