/* The contract of pystore's C core: scanned rows as lines of JSON.
 *
 * The conventions are those of pystore.h and columns.h, and this header is the
 * cdef as well.
 */
#ifndef PS_JSON_LINES_H
#define PS_JSON_LINES_H

#include "columns.h"

#define PS_JSON_BODIES 1 /* with the bodies */

/* What ps_rows_json wrote. */
typedef struct ps_json_lines {
  uint8_t *bytes;
  uint64_t capacity;
  uint64_t size;    /* out: bytes of the lines */
  uint64_t needed;  /* out: bytes that the next line may take */
  uint32_t count;   /* out: lines, one for each of the first rows */
  uint32_t is_left; /* out: 1: the next row is not for this function */
} ps_json_lines;

/* Writes rows as JSON objects with RocketMQ's names, one on each line, in UTF-8
 * and with Python's spaces. It stops before a row that may not fit, and before
 * one that it leaves to the caller: text that is not UTF-8, more than 64
 * properties, or a bit of `left_flags` in its sys_flag.
 * Threads: [any]. Status: PS_E_INVALID (a row that is not of these bytes). */
PS_API ps_status ps_rows_json(const ps_rows *rows, uint32_t options,
                              uint32_t left_flags, ps_json_lines *lines,
                              ps_error *error);

#endif
