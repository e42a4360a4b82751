/* The contract of pystore's C core, second part: columns of scanned rows.
 *
 * The fields of a record that are no numbers are taken from the bytes that a
 * scan's rows point into, for all rows at once, in Arrow's layout and in the
 * caller's memory. The conventions are those of pystore.h, and this header is
 * the cdef as well.
 *
 * Rows are checked: each call tests that the record and its parts lie within
 * the bytes. Property strings are whatever a client wrote.
 */
#ifndef PS_COLUMNS_H
#define PS_COLUMNS_H

#include "pystore.h"

/* Scanned rows, in any order, and the bytes of the log that hold their records:
 * `size` bytes from `offset` on. */
typedef struct ps_rows {
  const ps_record *rows;
  const uint8_t *data;
  uint64_t size;
  uint64_t offset;
  uint32_t count;
  uint32_t reserved;
} ps_rows;

/* A column of text or bytes: value i is bytes[offsets[i]..offsets[i + 1]), in
 * memory of the caller. Room for PS_COLUMN_SLACK bytes more than there are
 * makes it faster: what lies behind the last value may be overwritten. */
typedef struct ps_text_column {
  int32_t *offsets; /* one more than values */
  uint8_t *bytes;
  uint64_t capacity; /* of bytes; below 2 GiB are used */
  uint8_t *present;  /* a bit for each value, lowest first; NULL: all are */
} ps_text_column;

#define PS_COLUMN_SLACK 32

/* What room the columns of some rows take. */
typedef struct ps_column_sizes {
  uint64_t body_bytes;
  uint64_t property_bytes; /* most that a column of properties can take */
  uint64_t entries;        /* most that the property strings can have */
  uint64_t born_bytes;     /* most that the hosts can take as text */
  uint64_t store_bytes;
  uint64_t id_bytes;
} ps_column_sizes;

/* Adds up what room the columns take: with capacities as large as these no call
 * below answers PS_E_SPACE.
 * Threads: [any]. Status: PS_E_INVALID (a row that is not of these bytes). */
PS_API ps_status ps_rows_measure(const ps_rows *rows, ps_column_sizes *sizes,
                                 ps_error *error);

/* Copies the bodies. Threads: [any].
 * Status: PS_E_INVALID (a row that is not of these bytes), PS_E_SPACE. */
PS_API ps_status ps_rows_bodies(const ps_rows *rows, ps_text_column *bodies,
                                ps_error *error);

#define PS_HOST_BORN 0
#define PS_HOST_STORE 1

/* Writes the hosts as `address:port`, IPv6 as `[address]:port` with all eight
 * groups, the port signed. Threads: [any].
 * Status: as ps_rows_bodies; PS_E_INVALID (neither PS_HOST_BORN nor _STORE). */
PS_API ps_status ps_rows_hosts(const ps_rows *rows, uint32_t which,
                               ps_text_column *hosts, ps_error *error);

/* Writes the message ids: store host and offset, in upper hex. Threads: [any].
 * Status: as ps_rows_bodies. */
PS_API ps_status ps_rows_ids(const ps_rows *rows, ps_text_column *ids,
                             ps_error *error);

/* The properties of records as maps, and three of them as columns of their own.
 * A column whose offsets are NULL is not wanted; no `present` is NULL but those
 * of names and values. */
typedef struct ps_property_columns {
  int32_t *maps;         /* count + 1: the first entry of each; NULL: no maps */
  uint64_t entries_max;  /* for so many names and values there is room */
  ps_text_column names;  /* of the entries, behind each other */
  ps_text_column values; /* likewise */
  ps_text_column keys;   /* of KEYS */
  ps_text_column tags;   /* of TAGS */
  ps_text_column unique; /* of UNIQ_KEY */
  uint32_t is_utf8; /* out: 0: a string is no text, and nothing is filled */
  uint32_t reserved;
} ps_property_columns;

/* Parses the property strings as RocketMQ does: entries end with 0x02 or with
 * the string, the first 0x01 ends the name, one without name or value is none,
 * and the last one of a name is the one that counts, where it stands.
 * Effect: fills the columns; not any of them if *is_utf8 becomes 0.
 * Threads: [any]. Status: as ps_rows_bodies. */
PS_API ps_status ps_rows_properties(const ps_rows *rows,
                                    ps_property_columns *columns,
                                    ps_error *error);

#endif
