/* The property string of a record, and the CRC that may end it. */
#include "properties.h"

#include <assert.h>

#include "text.h"

static const char schedule_topic[] = "SCHEDULE_TOPIC_XXXX";

/* RocketMQ's messageDelayLevel, from level 1, in ms. */
static const int32_t delay_ms[] = {
    1000,   5000,   10000,  30000,  60000,  120000,  180000,  240000,  300000,
    360000, 420000, 480000, 540000, 600000, 1200000, 1800000, 3600000, 7200000};
#define DELAY_LEVELS ((int32_t)(sizeof delay_ms / sizeof delay_ms[0]))

uint32_t ps_crc_area_damage(const uint8_t *area) {
  static const uint8_t name[] = PS_CRC_NAME "\x01";
  uint32_t wrong = area[PS_CRC_AREA - 1] != PS_ENTRY_END;
  for (uint32_t i = 0; i <= PS_CRC_NAME_SIZE; i++)
    wrong += area[i] != name[i];
  for (uint32_t i = PS_CRC_NAME_SIZE + 1; i < PS_CRC_AREA - 1; i++)
    wrong += (uint8_t)(area[i] - '0') >= 10;
  assert(wrong > 0);
  return wrong <= PS_AREA_DAMAGE_MAX ? PS_AREA_DAMAGED : PS_AREA_NONE;
}

/* Eight digits at once: the number is split into halves, and each half into
 * halves, all in their own lanes of one word. */
void ps_crc_area_store(uint8_t *area, uint32_t crc) {
  assert(crc <= PS_CRC_MASK);
  memcpy(area, PS_CRC_NAME "\x01", PS_CRC_NAME_SIZE + 1);
  uint32_t top = crc / 100000000;
  uint32_t rest = crc % 100000000;
  uint64_t fours = rest / 10000 | (uint64_t)(rest % 10000) << 32;
  uint64_t high = (fours * 10486 >> 20) & UINT64_C(0x0000007F0000007F);
  uint64_t twos = high | (fours - 100 * high) << 16;
  uint64_t tens = (twos * 103 >> 10) & UINT64_C(0x000F000F000F000F);
  uint64_t ones = tens | (twos - 10 * tens) << 8;
  ps_store64(area + 9, ones + UINT64_C(0x3030303030303030));
  area[17] = (uint8_t)('0' + top % 10);
  area[18] = (uint8_t)('0' + top / 10);
  area[19] = PS_ENTRY_END;
}

/* One chunk of the string; *at moves behind its separator. */
typedef struct chunk {
  const uint8_t *data;
  uint32_t size;
  uint32_t taken; /* with the separator, if there is one */
} chunk;

static chunk chunk_at(const uint8_t *properties, uint32_t size, uint32_t at) {
  assert(at < size);
  const uint8_t *data = properties + at;
  const uint8_t *end = memchr(data, PS_ENTRY_END, size - at);
  chunk found = {data, size - at, size - at};
  if (end) {
    found.size = (uint32_t)(end - data);
    found.taken = found.size + 1;
  }
  return found;
}

/* Returns the value if the chunk is an entry of that name, also an empty one;
 * else NULL. */
static const uint8_t *value_of(chunk found, const char *name,
                               uint32_t name_size) {
  if (found.size <= name_size || found.data[name_size] != PS_NAME_END ||
      memcmp(found.data, name, name_size) != 0)
    return NULL;
  return found.data + name_size + 1;
}

uint32_t ps_properties_strip(uint8_t *to, const uint8_t *from, uint32_t size,
                             uint32_t *is_closed) {
  assert(from || size == 0);
  uint32_t kept = 0;
  *is_closed = 1;
  for (uint32_t at = 0; at < size;) {
    chunk found = chunk_at(from, size, at);
    at += found.taken;
    if (value_of(found, PS_CRC_NAME, PS_CRC_NAME_SIZE))
      continue;
    if (to)
      memcpy(to + kept, found.data, found.taken);
    kept += found.taken;
    *is_closed = found.taken > found.size;
  }
  return kept;
}

int32_t ps_properties_parse(const uint8_t *properties, uint32_t size) {
  assert(properties || size == 0);
  for (uint32_t at = 0; at < size;) {
    chunk found = chunk_at(properties, size, at);
    at += found.taken;
    const uint8_t *split = memchr(found.data, PS_NAME_END, found.size);
    if (split && split != found.data && split + 1 < found.data + found.size)
      return 1;
  }
  return size == 0;
}

int32_t ps_properties_find(const uint8_t *properties, uint32_t size,
                           const char *name, const uint8_t **value,
                           uint32_t *value_size) {
  assert(properties || size == 0);
  uint32_t name_size = (uint32_t)strlen(name);
  int32_t is_found = 0;
  for (uint32_t at = 0; at < size;) {
    chunk found = chunk_at(properties, size, at);
    at += found.taken;
    const uint8_t *here = value_of(found, name, name_size);
    if (!here || here == found.data + found.size)
      continue;
    *value = here;
    *value_size = (uint32_t)(found.data + found.size - here);
    is_found = 1;
  }
  return is_found;
}

/* Integer.parseInt for what matters: values above 0. */
int32_t ps_delay_level(const uint8_t *properties, uint32_t size) {
  const uint8_t *text = NULL;
  uint32_t left = 0;
  if (!ps_properties_find(properties, size, "DELAY", &text, &left))
    return 0;
  const uint8_t *end = text + left;
  if (left > 1 && *text == '+')
    text++;
  int64_t level = 0;
  while (text < end) {
    int32_t digit = ps_java_digit(&text, end);
    if (digit < 0)
      return 0;
    level = level * 10 + digit;
    if (level > INT32_MAX)
      return 0;
  }
  assert(level >= 0);
  return (int32_t)level;
}

int64_t ps_tags_code(const uint8_t *topic, uint32_t topic_size,
                     const uint8_t *properties, uint32_t size,
                     int64_t store_ms) {
  assert(topic || topic_size == 0);
  if (topic_size == sizeof schedule_topic - 1 &&
      memcmp(topic, schedule_topic, topic_size) == 0) {
    int32_t level = ps_delay_level(properties, size);
    if (level > DELAY_LEVELS)
      level = DELAY_LEVELS;
    /* A garbled store time may be anything: no signed overflow. */
    if (level > 0)
      return (int64_t)((uint64_t)store_ms + (uint64_t)delay_ms[level - 1]);
  }
  const uint8_t *tags = NULL;
  uint32_t tags_size = 0;
  if (!ps_properties_find(properties, size, "TAGS", &tags, &tags_size))
    return 0;
  return ps_java_hash(tags, tags_size);
}
