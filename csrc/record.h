/* Encodes one message as a record of the commit log. */
#ifndef PS_RECORD_H
#define PS_RECORD_H

#include "checksum.h"
#include "pystore.h"

/* One message, borrowed from its encoder. `keys` and `tags` become KEYS and
 * TAGS properties behind `properties`; NULL or empty: none. */
typedef struct ps_message {
  const uint8_t *topic;
  const uint8_t *body;
  const uint8_t *properties;
  const uint8_t *keys;
  const uint8_t *tags;
  const uint8_t *born_host;
  int64_t born_ms; /* 0: the store time */
  int64_t prepared_offset;
  uint32_t topic_size;
  uint32_t body_size;
  uint32_t properties_size;
  uint32_t keys_size;
  uint32_t tags_size;
  uint32_t born_host_size; /* 8 or 20; 0: the store host */
  int32_t queue_id;
  int32_t flag;
  int32_t reconsume_times;
  uint32_t sys_flag; /* the host bits are set from the hosts' sizes */
} ps_message;

/* What the log adds. */
typedef struct ps_stamp {
  uint64_t offset;
  int64_t queue_offset; /* stored as 0 for PREPARED and ROLLBACK records */
  int64_t store_ms;
  const uint8_t *store_host;
  uint32_t store_host_size; /* 8 or 20 */
  uint32_t property_crc;    /* 1: end the record with the property CRC */
} ps_stamp;

/* The multiplier for the body size seen last; all zero is a valid start. One
 * thread at a time. */
typedef struct ps_record_cache {
  ps_crc_shift body;
} ps_record_cache;

/* The size of the record that ps_record_encode would write. Of the stamp only
 * store_host_size and property_crc count. The message passed ps_source_check.
 * Threads: [any]. */
uint32_t ps_record_size(const ps_message *message, const ps_stamp *stamp);

/* The size of the properties that the record would hold, the CRC area
 * included; sizes of the message's parts are at most 65535 each. `to`, unless
 * NULL, receives them without the CRC area. Threads: [any]. */
uint32_t ps_record_properties(uint8_t *to, const ps_message *message,
                              const ps_stamp *stamp);

/* Writes the record to to[0 .. ps_record_size) and returns its size.
 *
 * V2 is written when the topic is longer than 127 bytes: RocketMQ counts UTF-16
 * units, but no reader can read a V1 topic over 127 bytes. `__CRC32#`
 * properties of the message are dropped, as RocketMQ does with the CRC option
 * on: such a property is the checksum of another record. A separator missing
 * behind the properties is added where something follows.
 * Ownership: all memory stays the caller's.
 * Threads: [any], one per cache. */
uint32_t ps_record_encode(uint8_t *to, const ps_message *message,
                          const ps_stamp *stamp, ps_record_cache *cache);

#endif
