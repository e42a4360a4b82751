/* One iterator over the three ways in: message form, columns, client batch. */
#ifndef PS_SOURCE_H
#define PS_SOURCE_H

#include "pystore.h"
#include "record.h"

typedef struct ps_limits {
  uint32_t message_size_max; /* of a body; a record may have 64 KiB more */
  uint64_t segment_size;
  const ps_stamp *stamp; /* property_crc and store_host_size count */
} ps_limits;

typedef struct ps_totals {
  uint64_t count;
  uint64_t bytes;     /* of all records */
  uint64_t bytes_max; /* of the largest record */
} ps_totals;

#define PS_SOURCE_MESSAGES 1
#define PS_SOURCE_COLUMNS 2
#define PS_SOURCE_CLIENT_BATCH 3

/* Private to source.c; lives in the caller's memory. The bytes behind it are
 * borrowed until the last call. */
typedef struct ps_source {
  const uint8_t *data; /* message form or client batch */
  uint64_t size;
  const ps_columns *columns;
  const ps_route *route;
  uint64_t at; /* next byte, or next row */
  uint32_t kind;
} ps_source;

/* Begin an iteration; nothing is read yet. Threads: [owner]. */
void ps_source_messages(ps_source *source, const uint8_t *messages,
                        uint64_t size);
void ps_source_columns(ps_source *source, const ps_columns *columns);
void ps_source_client_batch(ps_source *source, const ps_route *route,
                            const uint8_t *batch, uint64_t size);

/* Validates everything that came from outside and fills *totals:
 *  - sizes that add up, offsets of columns that never fall;
 *  - topics of 1 to 127 bytes, 255 behind `%RETRY%` (RocketMQ's limits): UTF-8
 *    without NUL and `/`, neither `.` nor `..` (it names a folder);
 *  - properties that, with all that is added, fit 32767 bytes, and that no
 *    later scan calls torn: no NUL, at least one whole entry unless empty, and
 *    no end that reads as a property CRC which is not one;
 *  - keys and tags of columns without NUL, 0x01 and 0x02;
 *  - queue ids from 0; hosts of 8 or 20 bytes;
 *  - bodies within message_size_max, records within that + 65536, and with 8
 *    bytes for a blank record within a segment; all of the message form or a
 *    client batch within one segment; a client batch as a whole within
 *    message_size_max, neither transactional nor delayed.
 * Ownership: all memory stays the caller's. Threads: [any].
 * Status: PS_E_INVALID; the text says which message, counted from 0. */
ps_status ps_source_check(const ps_source *source, const ps_limits *limits,
                          ps_totals *totals, ps_error *error);

/* Fills *message and returns 1, or returns 0 at the end. Only after
 * ps_source_check passed. What *message points to is the source's.
 * Threads: [owner]. */
int32_t ps_source_next(ps_source *source, ps_message *message);

/* Goes back to the first message. Threads: [owner]. */
void ps_source_rewind(ps_source *source);

#endif
