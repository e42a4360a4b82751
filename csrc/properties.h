/* The property string of a record, and the CRC that may end it. */
#ifndef PS_PROPERTIES_H
#define PS_PROPERTIES_H

#include "format.h"

/* What the last 20 bytes of the properties are. */
#define PS_AREA_NONE 0
#define PS_AREA_WHOLE 1
#define PS_AREA_DAMAGED 2 /* one to three bytes differ from the form */

/* Bytes that differ from the form in a damaged area. More are another thing:
 * a record that never had a property CRC. */
#define PS_AREA_DAMAGE_MAX 3

/* Effect: as ps_crc_area; not the exact form. */
uint32_t ps_crc_area_damage(const uint8_t *area);

/* 1 if all eight bytes are ASCII digits. */
static inline int32_t ps_are_digits(uint64_t bytes) {
  uint64_t high = UINT64_C(0xF0F0F0F0F0F0F0F0);
  uint64_t zeros = UINT64_C(0x3030303030303030);
  uint64_t sixes = UINT64_C(0x0606060606060606);
  return (((bytes & high) ^ zeros) | (((bytes + sixes) & high) ^ zeros)) == 0;
}

/* Says what 20 bytes are; the slow part only gets what resembles one. */
static inline uint32_t ps_crc_area(const uint8_t *area) {
  uint64_t name = UINT64_C(0x5F5F435243333223); /* __CRC32# */
  uint64_t differs = ps_load64(area) ^ name;
  uint64_t digits = ps_load64(area + 9);
  if (differs == 0 && area[8] == PS_NAME_END && area[19] == PS_ENTRY_END &&
      ps_are_digits(digits) && (uint8_t)(area[17] - '0') < 10 &&
      (uint8_t)(area[18] - '0') < 10)
    return PS_AREA_WHOLE;
  /* Counts the bytes of the name that differ: by far most often nearly all. */
  differs |= differs >> 4;
  differs |= differs >> 2;
  differs |= differs >> 1;
  uint64_t ones = UINT64_C(0x0101010101010101);
  if (((differs & ones) * ones) >> 56 > PS_AREA_DAMAGE_MAX)
    return PS_AREA_NONE;
  return ps_crc_area_damage(area);
}

/* Reads the ten digits of a whole area, least significant first. */
static inline uint64_t ps_crc_area_value(const uint8_t *area) {
  uint64_t pairs = ps_load64(area + 9) - UINT64_C(0x3030303030303030);
  uint64_t mask = UINT64_C(0x000000FF000000FF);
  pairs = pairs * 10 + (pairs >> 8);
  uint64_t fours = (pairs & mask) * UINT64_C(0x000F424000000064);
  fours += ((pairs >> 16) & mask) * UINT64_C(0x0000271000000001);
  uint64_t last = area[17] - (uint64_t)'0' + 10 * (area[18] - (uint64_t)'0');
  return (fours >> 32) + last * 100000000;
}

/* Writes the area for a masked CRC. */
void ps_crc_area_store(uint8_t *area, uint32_t crc);

/* Copies the properties without `__CRC32#` entries and returns the size of
 * the copy, which `to` has room for; `to` may be NULL. *is_closed becomes 1
 * if nothing is left or 0x02 ends it, else 0. Threads: [any]. */
uint32_t ps_properties_strip(uint8_t *to, const uint8_t *from, uint32_t size,
                             uint32_t *is_closed);

/* 1 if a `#` is in the properties: only then ps_properties_strip has work. */
static inline int32_t ps_properties_may_strip(const uint8_t *properties,
                                              uint32_t size) {
  return size > PS_CRC_NAME_SIZE && memchr(properties, '#', size) != NULL;
}

/* 1 if the string begins with a name of up to 16 bytes and a value: most do,
 * and that is all that ps_properties_parse asks for. */
static inline int32_t ps_properties_begins(const uint8_t *properties,
                                           uint32_t size) {
  uint32_t most = size < 17 ? size : 17;
  uint32_t at = 0;
  while (at < most && properties[at] > PS_ENTRY_END)
    at++;
  return at > 0 && at < most && properties[at] == PS_NAME_END &&
         at + 1 < size && properties[at + 1] != PS_ENTRY_END;
}

/* 1 if RocketMQ's parser finds an entry, or the string is empty. It drops
 * chunks without name or value silently, so a string without any entry is the
 * least that it does not understand. */
int32_t ps_properties_parse(const uint8_t *properties, uint32_t size);

/* Finds the value of a name as RocketMQ's parser does: the last entry wins,
 * one without a value is none. Returns 1 and fills, or 0. */
int32_t ps_properties_find(const uint8_t *properties, uint32_t size,
                           const char *name, const uint8_t **value,
                           uint32_t *value_size);

/* The tags code of a record: Java's hash of TAGS, 0 without one; on the
 * schedule topic with DELAY above 0 the time of delivery. */
int64_t ps_tags_code(const uint8_t *topic, uint32_t topic_size,
                     const uint8_t *properties, uint32_t size,
                     int64_t store_ms);

/* The value of DELAY if Java reads it as an integer above 0, else 0. */
int32_t ps_delay_level(const uint8_t *properties, uint32_t size);

#endif
