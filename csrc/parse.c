/* Checks one record, and says in words what is wrong with a bad one. */
#include "parse.h"

#include <assert.h>
#include <inttypes.h>

#include "error.h"

/* Describes a record whose inner lengths do not add up. Reads only what lies
 * within `size` readable bytes. */
static void describe_lengths(ps_error *error, const uint8_t *data,
                             uint32_t size, uint64_t offset) {
  uint32_t sys_flag = ps_load32(data + PS_AT_SYS_FLAG);
  uint32_t hosts = ps_born_host_size(sys_flag) + ps_store_host_size(sys_flag);
  uint32_t wide = ps_load32(data + PS_AT_MAGIC) == PS_MAGIC_V2;
  uint32_t around = PS_AT_BODY + hosts + 1 + wide + 2;
  if (size < around) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": size %" PRIu32
            " is below the %" PRIu32 " that its hosts need",
            offset, size, around);
    return;
  }
  uint32_t body = ps_load32(data + PS_AT_BODY_SIZE + hosts);
  if (body > size - around) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": body size %" PRId32
            " does not fit size %" PRIu32,
            offset, (int32_t)body, size);
    return;
  }
  const uint8_t *tail = data + PS_AT_BODY + hosts + body;
  int32_t topic = wide ? (int16_t)ps_load16(tail) : (int8_t)tail[0];
  uint32_t left = size - around - body;
  if (topic < 0 || (uint32_t)topic > left) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": topic size %" PRId32
            " does not fit size %" PRIu32 " with a body of %" PRIu32,
            offset, topic, size, body);
    return;
  }
  uint16_t properties = ps_load16(tail + 1 + wide + topic);
  ps_fail(error, PS_E_CORRUPT, offset,
          "record at offset %" PRIu64 ": properties size %d, but size %" PRIu32
          " leaves %" PRIu32 " behind a body of %" PRIu32
          " and a topic of %" PRId32,
          offset, (int16_t)properties, size, left - (uint32_t)topic, body,
          topic);
}

static void describe_property(ps_error *error, const uint8_t *data,
                              const ps_record *record) {
  const uint8_t *area = data + record->size - PS_CRC_AREA;
  uint32_t found = PS_AREA_NONE;
  if (record->properties_size >= PS_CRC_AREA)
    found = ps_crc_area(area);
  if (found != PS_AREA_WHOLE) {
    ps_fail(error, PS_E_CORRUPT, record->offset,
            "record at offset %" PRIu64 ": %s", record->offset,
            found == PS_AREA_NONE ? "it has no property CRC"
                                  : "its property CRC is no longer one");
    return;
  }
  uint32_t crc = ps_crc32(0, data, record->size - PS_CRC_AREA);
  ps_fail(error, PS_E_CORRUPT, record->offset,
          "record at offset %" PRIu64 ": property CRC %" PRIu64
          " stored, %" PRIu32 " computed",
          record->offset, ps_crc_area_value(area), crc & PS_CRC_MASK);
}

/* A cut, and what is appended after it, write where others read: what was wrong
 * a moment ago need not be wrong in the bytes that are there now. */
static void describe_change(ps_error *error, uint64_t offset) {
  ps_fail(error, PS_E_CORRUPT, offset,
          "record at offset %" PRIu64 ": its bytes changed while it was read",
          offset);
}

/* Describes a record that could be taken apart. */
static void describe_content(ps_error *error, uint32_t reason,
                             const uint8_t *data, const ps_record *record) {
  uint64_t offset = record->offset;
  if (reason == PS_STOP_OFFSET) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": it says it is at %" PRIu64, offset,
            ps_load64(data + PS_AT_OFFSET));
  } else if (reason == PS_STOP_BODY) {
    uint32_t crc = ps_crc32(0, data + record->body_at, record->body_size);
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": body CRC 0x%08" PRIx32
            " stored, 0x%08" PRIx32 " computed over %" PRIu32 " bytes",
            offset, record->body_crc, crc & PS_CRC_MASK, record->body_size);
  } else {
    assert(reason == PS_STOP_PROPERTY);
    describe_property(error, data, record);
  }
}

void ps_parse_describe(ps_error *error, uint32_t reason, const uint8_t *data,
                       uint64_t readable, uint64_t rest, uint64_t offset) {
  assert(reason >= PS_STOP_SIZE && readable <= rest);
  if (readable < PS_BLANK_SIZE) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": %" PRIu64
            " bytes remain in the segment, none starts in so few",
            offset, rest);
    return;
  }
  uint32_t size = ps_load32(data + PS_AT_SIZE);
  uint32_t magic = ps_load32(data + PS_AT_MAGIC);
  if (reason == PS_STOP_MAGIC) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": magic 0x%08" PRIx32
            " is neither of a record nor blank",
            offset, magic);
  } else if (reason == PS_STOP_SIZE) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "record at offset %" PRIu64 ": size %" PRId32
            " is not from %d to the %" PRIu64 " that remain",
            offset, (int32_t)size, PS_RECORD_MIN, rest);
  } else if (reason == PS_STOP_BLANK) {
    ps_fail(error, PS_E_CORRUPT, offset,
            "blank record at offset %" PRIu64 ": size %" PRId32
            " is not the %" PRIu64 " that remain in the segment",
            offset, (int32_t)size, rest);
  } else {
    ps_record record;
    uint32_t found = PS_STOP_SIZE;
    if (size >= PS_RECORD_MIN && size <= readable)
      found = ps_parse(data, size, offset, &record);
    if (found == PS_STOP_LENGTHS)
      describe_lengths(error, data, size, offset);
    else if (found != PS_WHOLE || reason == PS_STOP_LENGTHS)
      describe_change(error, offset);
    else
      describe_content(error, reason, data, &record);
  }
}

ps_status ps_record_check(const uint8_t *data, uint64_t size, uint64_t offset,
                          uint32_t checks, ps_record *record, ps_error *error) {
  assert(data && record && error);
  uint32_t reason = PS_WHOLE;
  ps_record found;
  if (size < PS_BLANK_SIZE) {
    reason = PS_STOP_SIZE;
  } else {
    uint32_t magic = ps_load32(data + PS_AT_MAGIC);
    uint32_t total = ps_load32(data + PS_AT_SIZE);
    ps_record_cache cache = {0};
    if (magic != PS_MAGIC_V1 && magic != PS_MAGIC_V2)
      reason = PS_STOP_MAGIC;
    else if (total < PS_RECORD_MIN || total > size ||
             total > PS_RECORD_SIZE_MAX)
      reason = PS_STOP_SIZE;
    else
      reason = ps_parse(data, total, offset, &found);
    if (reason == PS_WHOLE)
      reason = ps_parse_checks(data, &found, checks, &cache);
  }
  if (reason != PS_WHOLE) {
    ps_parse_describe(error, reason, data, size, size, offset);
    error->system_errno = (int32_t)reason;
    return PS_E_CORRUPT;
  }
  *record = found;
  return PS_OK;
}
