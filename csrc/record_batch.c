/* Many records at once: where a property is, and copies for another log. */
#include <assert.h>
#include <inttypes.h>

#include "parse.h"
#include "record_place.h"

#define MOVE_CHECKS                                                            \
  (PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET | PS_CHECK_ONCE |       \
   PS_WANT_TAGS)

ps_status ps_fail_outside(ps_error *error, uint64_t record, uint64_t offset,
                          uint64_t size) {
  return ps_fail(error, PS_E_INVALID, record,
                 "record at offset %" PRIu64 ": it does not lie in the %" PRIu64
                 " bytes from %" PRIu64 " on",
                 record, size, offset);
}

ps_status ps_records_property(const uint8_t *data, uint64_t size,
                              uint64_t offset, const ps_record *rows,
                              uint32_t count, const char *name, uint64_t *at,
                              uint32_t *sizes, ps_error *error) {
  assert(data && rows && name && at && sizes && error);
  for (uint32_t i = 0; i < count; i++) {
    const ps_record *row = &rows[i];
    const uint8_t *record = ps_record_place(data, size, offset, row);
    if (!record)
      return ps_fail_outside(error, row->offset, offset, size);
    const uint8_t *properties = record + row->properties_at;
    const uint8_t *value = properties;
    sizes[i] = 0;
    ps_properties_find(properties, row->properties_size, name, &value,
                       &sizes[i]);
    at[i] = (uint64_t)(value - data);
  }
  return PS_OK;
}

/* Makes a checked record, copied to `data`, one that stands at `offset`. */
static void stamp(uint8_t *data, ps_record *record, uint64_t offset) {
  ps_store64(data + PS_AT_OFFSET, offset);
  record->offset = offset;
  if (!(record->proof & PS_HAS_PROPERTY))
    return;
  uint32_t end = record->size - PS_CRC_AREA;
  ps_crc_area_store(data + end, ps_crc32(0, data, end) & PS_CRC_MASK);
}

ps_status ps_records_move(const uint8_t *data, uint64_t size, uint64_t offset,
                          const uint64_t *from, const uint64_t *to,
                          uint32_t count, uint8_t *buffer, uint64_t capacity,
                          ps_record *rows, ps_error *error) {
  assert(data && from && to && buffer && rows && error);
  uint64_t filled = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (from[i] < offset || from[i] - offset >= size)
      return ps_fail_outside(error, from[i], offset, size);
    const uint8_t *source = data + (from[i] - offset);
    ps_status status = ps_record_check(source, size - (from[i] - offset),
                                       from[i], MOVE_CHECKS, &rows[i], error);
    if (status != PS_OK)
      return status;
    if (rows[i].size > capacity - filled)
      return ps_fail(error, PS_E_SPACE, from[i],
                     "record at offset %" PRIu64 ": %" PRIu64
                     " bytes are too few for the copies",
                     from[i], capacity);
    memcpy(buffer + filled, source, rows[i].size);
    stamp(buffer + filled, &rows[i], to[i]);
    filled += rows[i].size;
  }
  return PS_OK;
}
