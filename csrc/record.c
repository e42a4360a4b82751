/* Encodes one message as a record of the commit log. */
#include "record.h"

#include <assert.h>

#include "format.h"
#include "properties.h"

/* Below this, one pass over the head and body beats a combination. */
#define SMALL_BODY 64

/* How the properties of a message become those of its record. */
typedef struct stored_properties {
  uint32_t given;     /* of the message's, without `__CRC32#` entries */
  uint32_t size;      /* all, with separators and the CRC area */
  uint32_t is_closed; /* 1: nothing to add behind the given ones */
  uint32_t is_copy;   /* 1: the given ones are copied as they are */
} stored_properties;

static inline uint32_t entry_size(uint32_t name_size, uint32_t value_size) {
  return value_size == 0 ? 0 : name_size + value_size + 2;
}

static inline stored_properties plan(const ps_message *message,
                                     const ps_stamp *stamp) {
  uint32_t size = message->properties_size;
  stored_properties all = {size, 0, 1, 1};
  if (size > 0)
    all.is_closed = message->properties[size - 1] == PS_ENTRY_END;
  if (__builtin_expect(ps_properties_may_strip(message->properties, size), 0)) {
    all.given =
        ps_properties_strip(NULL, message->properties, size, &all.is_closed);
    all.is_copy = all.given == size;
  }
  uint32_t added = entry_size(4, message->keys_size) +
                   entry_size(4, message->tags_size) +
                   (stamp->property_crc ? PS_CRC_AREA : 0);
  if (added == 0)
    all.is_closed = 1;
  all.size = all.given + added + !all.is_closed;
  return all;
}

static inline uint32_t record_size(const ps_message *message,
                                   const ps_stamp *stamp,
                                   uint32_t properties_size) {
  uint32_t born = message->born_host_size ? message->born_host_size
                                          : stamp->store_host_size;
  uint32_t topic_length = message->topic_size > PS_TOPIC_V1_MAX ? 2 : 1;
  return PS_AT_BODY + born + stamp->store_host_size + message->body_size +
         topic_length + message->topic_size + 2 + properties_size;
}

uint32_t ps_record_size(const ps_message *message, const ps_stamp *stamp) {
  assert(message && stamp);
  return record_size(message, stamp, plan(message, stamp).size);
}

/* Writes everything before the body and returns its size. */
static inline uint32_t put_head(uint8_t *to, const ps_message *message,
                                const ps_stamp *stamp, uint32_t size,
                                uint32_t body_crc) {
  const uint8_t *born = message->born_host;
  uint32_t born_size = message->born_host_size;
  uint32_t store_size = stamp->store_host_size;
  if (born_size == 0) {
    born = stamp->store_host;
    born_size = store_size;
  }
  uint32_t flags = message->sys_flag & ~(PS_SYS_BORN_IPV6 | PS_SYS_STORE_IPV6);
  flags |= born_size == PS_HOST_IPV6 ? PS_SYS_BORN_IPV6 : 0;
  flags |= store_size == PS_HOST_IPV6 ? PS_SYS_STORE_IPV6 : 0;
  uint64_t queue_offset =
      ps_is_queued(flags) ? (uint64_t)stamp->queue_offset : 0;
  int64_t born_ms = message->born_ms ? message->born_ms : stamp->store_ms;
  ps_store32(to + PS_AT_SIZE, size);
  ps_store32(to + PS_AT_MAGIC,
             message->topic_size > PS_TOPIC_V1_MAX ? PS_MAGIC_V2 : PS_MAGIC_V1);
  ps_store32(to + PS_AT_BODY_CRC, body_crc);
  ps_store32(to + PS_AT_QUEUE_ID, (uint32_t)message->queue_id);
  ps_store32(to + PS_AT_FLAG, (uint32_t)message->flag);
  ps_store64(to + PS_AT_QUEUE_OFFSET, queue_offset);
  ps_store64(to + PS_AT_OFFSET, stamp->offset);
  ps_store32(to + PS_AT_SYS_FLAG, flags);
  ps_store64(to + PS_AT_BORN_MS, (uint64_t)born_ms);
  memcpy(to + PS_AT_BORN_HOST, born, born_size);
  ps_store64(to + PS_AT_BORN_HOST + born_size, (uint64_t)stamp->store_ms);
  memcpy(to + PS_AT_BORN_HOST + born_size + 8, stamp->store_host, store_size);
  to += born_size + store_size;
  ps_store32(to + PS_AT_RECONSUME_TIMES, (uint32_t)message->reconsume_times);
  ps_store64(to + PS_AT_PREPARED_OFFSET, (uint64_t)message->prepared_offset);
  ps_store32(to + PS_AT_BODY_SIZE, message->body_size);
  return PS_AT_BODY + born_size + store_size;
}

static inline uint8_t *put_entry(uint8_t *to, const char *name,
                                 const uint8_t *value, uint32_t size) {
  if (size == 0)
    return to;
  memcpy(to, name, 4);
  to[4] = PS_NAME_END;
  memcpy(to + 5, value, size);
  to[5 + size] = PS_ENTRY_END;
  return to + 6 + size;
}

/* Writes the properties but for the CRC area; returns their end. */
static inline uint8_t *put_properties(uint8_t *to, const ps_message *message,
                                      stored_properties all) {
  if (!all.is_copy)
    ps_properties_strip(to, message->properties, message->properties_size,
                        &(uint32_t){0});
  else if (all.given > 0)
    memcpy(to, message->properties, all.given);
  to += all.given;
  if (!all.is_closed)
    *to++ = PS_ENTRY_END;
  to = put_entry(to, "KEYS", message->keys, message->keys_size);
  return put_entry(to, "TAGS", message->tags, message->tags_size);
}

/* Writes what follows the body but for the CRC area; returns its end. */
static inline uint8_t *put_tail(uint8_t *to, const ps_message *message,
                                stored_properties all) {
  uint32_t topic_size = message->topic_size;
  if (topic_size > PS_TOPIC_V1_MAX) {
    ps_store16(to, (uint16_t)topic_size);
    to += 2;
  } else {
    *to++ = (uint8_t)topic_size;
  }
  memcpy(to, message->topic, topic_size);
  to += topic_size;
  ps_store16(to, (uint16_t)all.size);
  return put_properties(to + 2, message, all);
}

uint32_t ps_record_properties(uint8_t *to, const ps_message *message,
                              const ps_stamp *stamp) {
  assert(message && stamp);
  stored_properties all = plan(message, stamp);
  if (to)
    put_properties(to, message, all);
  return all.size;
}

uint32_t ps_record_encode(uint8_t *to, const ps_message *message,
                          const ps_stamp *stamp, ps_record_cache *cache) {
  assert(message->topic_size > 0 && message->topic_size <= PS_TOPIC_V2_MAX);
  stored_properties all = plan(message, stamp);
  assert(all.size <= PS_PROPERTIES_MAX);
  uint32_t size = record_size(message, stamp, all.size);
  uint32_t body_size = message->body_size;
  uint32_t born = message->born_host_size ? message->born_host_size
                                          : stamp->store_host_size;
  uint8_t *body = to + PS_AT_BODY + born + stamp->store_host_size;
  /* The body goes first: its CRC belongs into the head. */
  uint32_t body_crc = 0;
  if (body_size > 0)
    body_crc = ps_crc32_copy(0, body, message->body, body_size);
  uint32_t head = put_head(to, message, stamp, size, body_crc & PS_CRC_MASK);
  uint8_t *tail = body + body_size;
  uint8_t *end = put_tail(tail, message, all);
  if (stamp->property_crc) {
    uint32_t crc = ps_crc32(0, to, head);
    if (body_size < SMALL_BODY)
      crc = ps_crc32(crc, body, body_size);
    else
      crc = ps_crc32_combine_cached(&cache->body, crc, body_crc, body_size);
    crc = ps_crc32(crc, tail, (size_t)(end - tail));
    ps_crc_area_store(end, crc & PS_CRC_MASK);
    end += PS_CRC_AREA;
  }
  assert((uint64_t)(end - to) == size);
  return size;
}
