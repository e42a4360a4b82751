/* Where a scanned record lies in bytes of the log that hold it. */

/* Rows come from the caller: nothing in them is believed. */
#ifndef PS_RECORD_PLACE_H
#define PS_RECORD_PLACE_H

#include <stddef.h>

#include "error.h"
#include "format.h"

/* The first byte of the record in the `size` bytes that `data` holds from
 * `offset` on; NULL if it, or a part of it, does not lie in them. */
static inline const uint8_t *ps_record_place(const uint8_t *data, uint64_t size,
                                             uint64_t offset,
                                             const ps_record *row) {
  uint64_t at = row->offset - offset;
  uint64_t body_end = (uint64_t)row->body_at + row->body_size;
  uint64_t properties_end = (uint64_t)row->properties_at + row->properties_size;
  uint32_t head = PS_AT_BODY + ps_born_host_size(row->sys_flag) +
                  ps_store_host_size(row->sys_flag);
  if (row->offset < offset || at > size || row->size > size - at ||
      body_end > row->size || properties_end > row->size ||
      row->properties_size > PS_PROPERTIES_MAX || head > row->size)
    return NULL;
  return data + at;
}

/* Says that it does not, and returns PS_E_INVALID. */
ps_status ps_fail_outside(ps_error *error, uint64_t record, uint64_t offset,
                          uint64_t size);

#endif
