/* Puts values into a column of text, one behind the other. */
#ifndef PS_COLUMNS_PUT_H
#define PS_COLUMNS_PUT_H

#include <inttypes.h>

#include "columns.h"
#include "record_place.h"

/* Copies bytes from [from, from_end) to [to, to_end). Most texts are short: two
 * moves of a constant size, where more may be read and overwritten, take a
 * quarter of the time of a call of memcpy. */
static inline void ps_put_short(uint8_t *to, const uint8_t *to_end,
                                const uint8_t *from, const uint8_t *from_end,
                                uint32_t size) {
  if (size > PS_COLUMN_SLACK || to_end - to < PS_COLUMN_SLACK ||
      from_end - from < PS_COLUMN_SLACK) {
    memcpy(to, from, size);
    return;
  }
  memcpy(to, from, PS_COLUMN_SLACK / 2);
  if (size > PS_COLUMN_SLACK / 2)
    memcpy(to + PS_COLUMN_SLACK / 2, from + PS_COLUMN_SLACK / 2,
           PS_COLUMN_SLACK / 2);
}

/* Bytes that the offsets of Arrow can count. */
static inline uint64_t ps_column_room(const ps_text_column *column) {
  return column->capacity < INT32_MAX ? column->capacity : INT32_MAX;
}

static inline ps_status ps_fail_room(ps_error *error, const ps_record *row,
                                     uint64_t room) {
  return ps_fail(error, PS_E_SPACE, row->offset,
                 "record at offset %" PRIu64 ": %" PRIu64
                 " bytes are too few for the column",
                 row->offset, room);
}

static inline const uint8_t *ps_rows_place(const ps_rows *rows,
                                           const ps_record *row) {
  return ps_record_place(rows->data, rows->size, rows->offset, row);
}

/* So many rows ahead bytes are fetched. A batch is larger than the caches, and
 * one value of each record is no pattern that a processor sees: waiting would
 * be half of the time. */
#define PS_ROWS_AHEAD 8

static inline const ps_record *ps_rows_ahead(const ps_rows *rows, uint32_t i) {
  uint32_t left = rows->count - i;
  return &rows->rows[left > PS_ROWS_AHEAD ? i + PS_ROWS_AHEAD : i];
}

/* Fetches what is `at` bytes behind a record's first one. The row was not
 * checked: it is no pointer before that. */
static inline void ps_rows_fetch(const ps_rows *rows, const ps_record *row,
                                 uint32_t at) {
  uint64_t place = row->offset - rows->offset + at;
  __builtin_prefetch((const void *)((uintptr_t)rows->data + place));
}

static inline ps_status ps_fail_row(ps_error *error, const ps_rows *rows,
                                    const ps_record *row) {
  return ps_fail_outside(error, row->offset, rows->offset, rows->size);
}

#endif
