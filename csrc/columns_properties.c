/* Columns of scanned rows: properties as maps, and three of them by name. */
#include "columns.h"

#include <assert.h>

#include "columns_put.h"
#include "properties.h"
#include "text.h"

#define BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))
#define ENTRIES_MAX ((PS_PROPERTIES_MAX + 1) / 4)
#define COMPARED_MAX 32 /* so many earlier names are compared one by one */

/* Properties with a column of their own. */
enum { KEYS, TAGS, UNIQUE, NAMED };

/* A range of the bytes. */
typedef struct span {
  const uint8_t *data;
  uint32_t size;
} span;

/* What is being filled. */
typedef struct filling {
  ps_property_columns *to;
  const uint8_t *data_end;
  uint64_t name_room;
  uint64_t value_room;
  uint64_t entries;
  uint64_t name_bytes;
  uint64_t value_bytes;
  /* Of the record that is parsed: */
  uint64_t first; /* entry */
  uint64_t seen;  /* a bit for some of a name's first bytes and its size */
  int32_t may_repeat;
  span named[NAMED];
} filling;

static span name_at(const filling *f, uint64_t entry) {
  const int32_t *offsets = f->to->names.offsets + entry;
  return (span){f->to->names.bytes + offsets[0],
                (uint32_t)(offsets[1] - offsets[0])};
}

/* Whether the name is among those of the record, as far as that is quickly
 * known: 1 is checked once more when the record is complete. */
static int32_t may_repeat(const filling *f, span name) {
  if (f->entries - f->first > COMPARED_MAX)
    return 1;
  for (uint64_t entry = f->first; entry < f->entries; entry++) {
    span other = name_at(f, entry);
    if (other.size == name.size &&
        memcmp(other.data, name.data, name.size) == 0)
      return 1;
  }
  return 0;
}

static inline void note_named(filling *f, span name, span value) {
  if (name.size == 4) {
    if (memcmp(name.data, "KEYS", 4) == 0)
      f->named[KEYS] = value;
    else if (memcmp(name.data, "TAGS", 4) == 0)
      f->named[TAGS] = value;
  } else if (name.size == 8 && memcmp(name.data, "UNIQ_KEY", 8) == 0) {
    f->named[UNIQUE] = value;
  }
}

/* Room for all entries of the record was seen to be there. */
static inline void take_entry(filling *f, span name, span value) {
  note_named(f, name, value);
  ps_property_columns *to = f->to;
  if (!to->maps)
    return;
  uint32_t mixed =
      name.data[0] + 5u * name.data[name.size - 1] + 23 * name.size;
  uint64_t bit = UINT64_C(1) << (mixed & 63);
  if ((f->seen & bit) && !f->may_repeat)
    f->may_repeat = may_repeat(f, name);
  f->seen |= bit;
  ps_put_short(to->names.bytes + f->name_bytes, to->names.bytes + f->name_room,
               name.data, f->data_end, name.size);
  ps_put_short(to->values.bytes + f->value_bytes,
               to->values.bytes + f->value_room, value.data, f->data_end,
               value.size);
  f->name_bytes += name.size;
  f->value_bytes += value.size;
  f->entries++;
  to->names.offsets[f->entries] = (int32_t)f->name_bytes;
  to->values.offsets[f->entries] = (int32_t)f->value_bytes;
}

static inline void take_chunk(filling *f, const uint8_t *from,
                              const uint8_t *split, const uint8_t *end) {
  if (split && split > from && end - split > 1)
    take_entry(f, (span){from, (uint32_t)(split - from)},
               (span){split + 1, (uint32_t)(end - split - 1)});
}

/* Eight bytes, the first one lowest; behind the end they are 0xFF. */
static inline uint64_t load_word(const uint8_t *at, const uint8_t *data_end,
                                 uint32_t left) {
  uint64_t word;
  if (__builtin_expect(data_end - at >= 8, 1)) {
    word = __builtin_bswap64(ps_load64(at));
  } else {
    uint8_t bytes[8] = {0};
    memcpy(bytes, at, (size_t)(data_end - at));
    word = __builtin_bswap64(ps_load64(bytes));
  }
  return left < 8 ? word | ~UINT64_C(0) << 8 * left : word;
}

/* Takes the entries of a string, eight bytes at a time: the separators are the
 * bytes below 3, but for NUL. Answers whether all of it is ASCII. */
static int32_t take_entries(filling *f, span string) {
  const uint8_t *end = string.data + string.size;
  const uint8_t *from = string.data;
  const uint8_t *split = NULL;
  uint64_t all = 0;
  for (uint32_t at = 0; at < string.size; at += 8) {
    const uint8_t *here = string.data + at;
    uint32_t left = string.size - at;
    uint64_t word = load_word(here, f->data_end, left);
    all |= left < 8 ? word & ~(~UINT64_C(0) << 8 * left) : word;
    uint64_t above = ((word & BYTES(0x7F)) + BYTES(0x7D)) | word;
    for (uint64_t low = ~above & BYTES(0x80); low; low &= low - 1) {
      const uint8_t *found = here + (__builtin_ctzll(low) >> 3);
      if (*found == PS_ENTRY_END) {
        take_chunk(f, from, split, found);
        from = found + 1;
        split = NULL;
      } else if (*found == PS_NAME_END && !split) {
        split = found;
      }
    }
  }
  take_chunk(f, from, split, end);
  return (all & BYTES(0x80)) == 0;
}

/* ---- Names that come twice ------------------------------------------- */

/* Below 0 if the name of entry a, counted from the record's first, stands
 * before that of b; equal names in the order of their entries. */
static int32_t compare(const filling *f, uint16_t a, uint16_t b) {
  span one = name_at(f, f->first + a);
  span other = name_at(f, f->first + b);
  if (one.size != other.size)
    return one.size < other.size ? -1 : 1;
  int32_t found = memcmp(one.data, other.data, one.size);
  return found ? found : (int32_t)a - (int32_t)b;
}

static void sift(const filling *f, uint16_t *order, uint32_t root,
                 uint32_t count) {
  for (;;) {
    uint32_t child = 2 * root + 1;
    if (child >= count)
      return;
    if (child + 1 < count && compare(f, order[child], order[child + 1]) < 0)
      child++;
    if (compare(f, order[root], order[child]) >= 0)
      return;
    uint16_t moved = order[root];
    order[root] = order[child];
    order[child] = moved;
    root = child;
  }
}

/* Heapsort: whatever the names are, no string takes quadratic time. */
static void sort(const filling *f, uint16_t *order, uint32_t count) {
  for (uint32_t root = count / 2; root > 0; root--)
    sift(f, order, root - 1, count);
  for (uint32_t left = count; left > 1; left--) {
    uint16_t largest = order[0];
    order[0] = order[left - 1];
    order[left - 1] = largest;
    sift(f, order, 0, left - 1);
  }
}

/* Moves a value of an entry to where the ones kept before it end. */
static void move_back(ps_text_column *column, uint64_t to, int32_t from,
                      int32_t end) {
  int32_t at = column->offsets[to];
  memmove(column->bytes + at, column->bytes + from, (size_t)(end - from));
  column->offsets[to + 1] = at + (end - from);
}

/* Keeps the last entry of each name of the record. */
static void keep_last(filling *f) {
  uint16_t order[ENTRIES_MAX];
  uint8_t is_dropped[ENTRIES_MAX] = {0};
  uint32_t count = (uint32_t)(f->entries - f->first);
  assert(count <= ENTRIES_MAX);
  for (uint32_t i = 0; i < count; i++)
    order[i] = (uint16_t)i;
  sort(f, order, count);
  for (uint32_t i = 0; i + 1 < count; i++) {
    span one = name_at(f, f->first + order[i]);
    span next = name_at(f, f->first + order[i + 1]);
    is_dropped[order[i]] =
        one.size == next.size && memcmp(one.data, next.data, one.size) == 0;
  }
  ps_text_column *names = &f->to->names;
  ps_text_column *values = &f->to->values;
  uint64_t kept = f->first;
  int32_t name = names->offsets[kept];
  int32_t value = values->offsets[kept];
  for (uint32_t i = 0; i < count; i++) {
    int32_t name_end = names->offsets[f->first + i + 1];
    int32_t value_end = values->offsets[f->first + i + 1];
    if (!is_dropped[i]) {
      move_back(names, kept, name, name_end);
      move_back(values, kept, value, value_end);
      kept++;
    }
    name = name_end;
    value = value_end;
  }
  f->entries = kept;
  f->name_bytes = (uint64_t)names->offsets[kept];
  f->value_bytes = (uint64_t)values->offsets[kept];
}

/* ---- The columns ------------------------------------------------------ */

static void begin_named(ps_text_column *column, uint32_t count) {
  if (!column->offsets)
    return;
  column->offsets[0] = 0;
  memset(column->present, 0, (count + 7u) / 8);
}

/* Puts a named property of record i, or none. */
static int32_t put_named(ps_text_column *column, uint32_t i, span value,
                         const uint8_t *data_end) {
  if (!column->offsets)
    return 1;
  uint64_t room = ps_column_room(column);
  uint64_t used = (uint64_t)column->offsets[i];
  if (value.size > room - used)
    return 0;
  if (value.data) {
    ps_put_short(column->bytes + used, column->bytes + room, value.data,
                 data_end, value.size);
    column->present[i / 8] |= (uint8_t)(1u << i % 8);
  }
  column->offsets[i + 1] = (int32_t)(used + value.size);
  return 1;
}

static int32_t has_room(const filling *f, uint32_t size) {
  return !f->to->maps || (size <= f->name_room - f->name_bytes &&
                          size <= f->value_room - f->value_bytes &&
                          (size + 1u) / 4 <= f->to->entries_max - f->entries);
}

/* Makes the row of one record. */
static ps_status fill_row(filling *f, const ps_record *row, uint32_t i,
                          span string, ps_error *error) {
  ps_property_columns *to = f->to;
  if (!has_room(f, string.size))
    return ps_fail_room(error, row, to->entries_max);
  f->first = f->entries;
  f->seen = 0;
  f->may_repeat = 0;
  memset(f->named, 0, sizeof f->named);
  if (!take_entries(f, string) && !ps_is_utf8(string.data, string.size)) {
    to->is_utf8 = 0;
    return PS_OK;
  }
  if (__builtin_expect(f->may_repeat, 0))
    keep_last(f);
  if (to->maps)
    to->maps[i + 1] = (int32_t)f->entries;
  if (!put_named(&to->keys, i, f->named[KEYS], f->data_end) ||
      !put_named(&to->tags, i, f->named[TAGS], f->data_end) ||
      !put_named(&to->unique, i, f->named[UNIQUE], f->data_end))
    return ps_fail_room(error, row, to->keys.capacity);
  return PS_OK;
}

ps_status ps_rows_properties(const ps_rows *rows, ps_property_columns *columns,
                             ps_error *error) {
  assert(rows && columns && error);
  filling f = {.to = columns,
               .data_end = rows->data + rows->size,
               .name_room = ps_column_room(&columns->names),
               .value_room = ps_column_room(&columns->values)};
  columns->is_utf8 = 1;
  if (columns->maps) {
    columns->maps[0] = 0;
    columns->names.offsets[0] = 0;
    columns->values.offsets[0] = 0;
  }
  begin_named(&columns->keys, rows->count);
  begin_named(&columns->tags, rows->count);
  begin_named(&columns->unique, rows->count);
  for (uint32_t i = 0; i < rows->count && columns->is_utf8; i++) {
    const ps_record *row = &rows->rows[i];
    const ps_record *ahead = ps_rows_ahead(rows, i);
    ps_rows_fetch(rows, ahead, ahead->properties_at);
    ps_rows_fetch(rows, ahead, ahead->properties_at + ahead->properties_size);
    const uint8_t *record = ps_rows_place(rows, row);
    if (!record)
      return ps_fail_row(error, rows, row);
    span string = {record + row->properties_at, row->properties_size};
    ps_status status = fill_row(&f, row, i, string, error);
    if (status != PS_OK)
      return status;
  }
  return PS_OK;
}
