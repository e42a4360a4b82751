/* Takes one record apart and checks it: the inner loop of every scan. */
#ifndef PS_PARSE_H
#define PS_PARSE_H

#include "checksum.h"
#include "format.h"
#include "properties.h"
#include "pystore.h"
#include "record.h"

/* Returned by the functions here: nothing wrong. */
#define PS_WHOLE 0

/* Fills *error for the bad record at `data`, of which `readable` bytes may be
 * touched and `rest` remain in its segment. `reason` is a PS_STOP_*; the bytes
 * may have changed since it was found.
 * The text is one line: what is wrong, with the values. */
void ps_parse_describe(ps_error *error, uint32_t reason, const uint8_t *data,
                       uint64_t readable, uint64_t rest, uint64_t offset);

/* Takes apart a record of `size` bytes, all of them readable, at least
 * PS_RECORD_MIN; its magic was seen to be V1 or V2. Fills *record but for
 * topic_id and tags_code. Answers PS_WHOLE or PS_STOP_LENGTHS. */
static inline uint32_t ps_parse(const uint8_t *data, uint32_t size,
                                uint64_t offset, ps_record *record) {
  uint32_t sys_flag = ps_load32(data + PS_AT_SYS_FLAG);
  uint32_t born = ps_born_host_size(sys_flag);
  uint32_t hosts = born + ps_store_host_size(sys_flag);
  uint32_t is_v2 = ps_load32(data + PS_AT_MAGIC) == PS_MAGIC_V2;
  uint32_t body_at = PS_AT_BODY + hosts;
  uint32_t around = body_at + 1 + is_v2 + 2;
  if (size < around)
    return PS_STOP_LENGTHS;
  /* Negative lengths are above every size. */
  uint32_t body_size = ps_load32(data + PS_AT_BODY_SIZE + hosts);
  if (body_size > size - around)
    return PS_STOP_LENGTHS;
  const uint8_t *tail = data + body_at + body_size;
  uint32_t topic_size = is_v2 ? ps_load16(tail) : tail[0];
  uint32_t topic_max = is_v2 ? PS_TOPIC_V2_MAX : PS_TOPIC_V1_MAX;
  uint32_t left = size - around - body_size;
  if (topic_size > topic_max || topic_size > left)
    return PS_STOP_LENGTHS;
  uint32_t properties_size = ps_load16(tail + 1 + is_v2 + topic_size);
  left -= topic_size;
  if (properties_size != left || left > PS_PROPERTIES_MAX)
    return PS_STOP_LENGTHS;
  record->offset = offset;
  record->queue_offset = (int64_t)ps_load64(data + PS_AT_QUEUE_OFFSET);
  record->store_ms = (int64_t)ps_load64(data + PS_AT_BORN_HOST + born);
  record->born_ms = (int64_t)ps_load64(data + PS_AT_BORN_MS);
  record->tags_code = 0;
  record->prepared_offset =
      (int64_t)ps_load64(data + PS_AT_PREPARED_OFFSET + hosts);
  record->size = size;
  record->queue_id = (int32_t)ps_load32(data + PS_AT_QUEUE_ID);
  record->flag = (int32_t)ps_load32(data + PS_AT_FLAG);
  record->sys_flag = sys_flag;
  record->reconsume_times =
      (int32_t)ps_load32(data + PS_AT_RECONSUME_TIMES + hosts);
  record->body_crc = ps_load32(data + PS_AT_BODY_CRC);
  record->body_at = body_at;
  record->body_size = body_size;
  record->topic_at = body_at + body_size + 1 + is_v2;
  record->topic_id = PS_NO_TOPIC;
  record->properties_at = record->topic_at + topic_size + 2;
  record->topic_size = (uint16_t)topic_size;
  record->properties_size = (uint16_t)properties_size;
  record->version = (uint16_t)(1 + is_v2);
  record->proof = 0;
  record->reserved = 0;
  return PS_WHOLE;
}

/* Computes the CRC of everything before the area, and that of the body if it
 * is asked for. Each byte is read once: the body's part is combined. */
static inline uint32_t ps_parse_crc(const uint8_t *data,
                                    const ps_record *record,
                                    ps_record_cache *cache,
                                    uint32_t *body_crc) {
  uint32_t end = record->size - PS_CRC_AREA;
  if (!body_crc)
    return ps_crc32(0, data, end);
  uint32_t body_size = record->body_size;
  const uint8_t *body = data + record->body_at;
  *body_crc = ps_crc32(0, body, body_size);
  uint32_t crc = ps_crc32(0, data, record->body_at);
  crc = ps_crc32_combine_cached(&cache->body, crc, *body_crc, body_size);
  return ps_crc32(crc, body + body_size, end - record->body_at - body_size);
}

/* A property CRC differs. It may be that of another record, which a broker
 * copied with the properties: then the body's CRC decides, if `checks` says so,
 * and the caller weighs the rest (A6). */
static inline uint32_t ps_parse_differs(const uint8_t *data, ps_record *record,
                                        uint32_t checks, uint32_t is_checked) {
  if (!(checks & PS_PASS_COPIED))
    return PS_STOP_PROPERTY;
  if (!is_checked) {
    uint32_t crc = ps_crc32(0, data + record->body_at, record->body_size);
    if ((crc & PS_CRC_MASK) != record->body_crc)
      return PS_STOP_BODY;
  }
  record->proof |= PS_PROOF_BODY | PS_PROOF_DIFFERS;
  return PS_WHOLE;
}

/* Checks the checksums that `checks` asks for and fills record->proof.
 * Answers PS_WHOLE, PS_STOP_BODY or PS_STOP_PROPERTY. */
static inline uint32_t ps_parse_proof(const uint8_t *data, ps_record *record,
                                      uint32_t checks, ps_record_cache *cache) {
  const uint8_t *area = data + record->size - PS_CRC_AREA;
  uint32_t found = PS_AREA_NONE;
  if (record->properties_size >= PS_CRC_AREA)
    found = ps_crc_area(area);
  uint32_t body_crc = 0;
  uint32_t crc = 0;
  uint32_t is_property =
      found == PS_AREA_WHOLE && (checks & PS_CHECK_PROPERTY) != 0;
  uint32_t is_body = (checks & PS_CHECK_BODY) != 0;
  if (is_property && (checks & PS_CHECK_ONCE))
    is_body = 0;
  if (is_property)
    crc = ps_parse_crc(data, record, cache, is_body ? &body_crc : NULL);
  else if (is_body && record->body_size > 0)
    body_crc = ps_crc32(0, data + record->body_at, record->body_size);
  if (is_body) {
    if ((body_crc & PS_CRC_MASK) != record->body_crc)
      return PS_STOP_BODY;
    record->proof = PS_PROOF_BODY;
  }
  if (found == PS_AREA_WHOLE)
    record->proof |= PS_HAS_PROPERTY;
  else if (checks & PS_NEED_PROPERTY)
    return PS_STOP_PROPERTY;
  if (is_property && (crc & PS_CRC_MASK) == ps_crc_area_value(area))
    record->proof |= PS_PROOF_PROPERTY;
  else if (is_property ||
           (found == PS_AREA_DAMAGED && (checks & PS_CHECK_PROPERTY)))
    return ps_parse_differs(data, record, checks, is_body);
  return PS_WHOLE;
}

/* Makes all checks of `checks` on a parsed record, and fills proof and
 * tags_code. Answers PS_WHOLE or a PS_STOP_*. */
static inline uint32_t ps_parse_checks(const uint8_t *data, ps_record *record,
                                       uint32_t checks,
                                       ps_record_cache *cache) {
  if ((checks & PS_CHECK_OFFSET) &&
      ps_load64(data + PS_AT_OFFSET) != record->offset)
    return PS_STOP_OFFSET;
  uint32_t reason = ps_parse_proof(data, record, checks, cache);
  if (__builtin_expect(reason != PS_WHOLE, 0))
    return reason;
  if (checks & PS_WANT_TAGS)
    record->tags_code =
        ps_tags_code(data + record->topic_at, record->topic_size,
                     data + record->properties_at, record->properties_size,
                     record->store_ms);
  return PS_WHOLE;
}

#endif
