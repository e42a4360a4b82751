/* The scan kernel: finds and checks records in one window of memory. */
#ifndef PS_SCAN_H
#define PS_SCAN_H

#include "pystore.h"
#include "record.h"
#include "topics.h"

/* One segment, as far as it may be touched. */
typedef struct ps_window {
  const uint8_t *data; /* first byte of the segment */
  uint64_t base;       /* its offset in the log */
  uint64_t size;       /* size of the segment */
  uint64_t readable;   /* bytes of it that may be touched; <= size */
} ps_window;

/* What a scan remembers between windows. */
typedef struct ps_scan {
  ps_topics *topics;    /* NULL: topic ids stay PS_NO_TOPIC */
  const uint8_t *topic; /* the last topic's name, owned by topics */
  uint32_t topic_size;
  uint32_t topic_id;
  ps_record_cache cache;
} ps_scan;

/* Answers beside PS_STOP_*. */
#define PS_SCAN_MORE 0     /* the window must reach *wanted */
#define PS_SEGMENT_DONE -1 /* cursor->offset is the next segment's base */
#define PS_SCAN_MEMORY -2  /* a topic did not fit: PS_E_MEMORY */

/* Makes *scan ready. Ownership: `topics` is borrowed as long as it is used. */
void ps_scan_init(ps_scan *scan, ps_topics *topics);

/* Scans on from cursor->offset, which lies in the window's segment or at its
 * end, until something stops it. Every whole record is counted in the cursor
 * and, if rows is not NULL, put into rows[*count] and *count raised.
 *
 * Answers PS_SCAN_MORE: the next record needs *wanted bytes of the segment to
 * be readable (readable < *wanted <= size); the caller calls again with a
 * larger window, or stops with PS_STOP_UNREADABLE. PS_STOP_ROWS, _LIMIT,
 * _ZERO or a bad record's reason: cursor->stop is the same. PS_SEGMENT_DONE:
 * a blank record or the exact end.
 *
 * Order of the checks of one record: limit, magic, size, lengths, embedded
 * offset, body CRC, property CRC. Bytes at and behind the limit are never
 * read. PS_STOP_ZERO: size and magic are zero, or
 * fewer than 8 bytes remain and all are zero.
 *
 * A property CRC is there if the properties end with its exact form. An end
 * that differs from that form in one to three bytes (a digit counts as one
 * when it is no digit) is a damaged one: PS_STOP_PROPERTY with
 * PS_CHECK_PROPERTY.
 *
 * Effect: error is filled for a bad record (PS_E_CORRUPT, its offset, what is
 * wrong) and for PS_SCAN_MEMORY. Ownership: all memory stays the caller's.
 * Threads: [any], one per scan. */
int32_t ps_scan_window(ps_scan *scan, const ps_window *window,
                       ps_cursor *cursor, ps_record *rows, uint32_t capacity,
                       uint32_t *count, uint64_t *wanted, ps_error *error);

#endif
