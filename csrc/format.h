/* The record layout of RocketMQ's commit log: constants, loads and stores. */

/* Layouts and their sources: docs/format.md. Every integer in a file is
 * big-endian. `B` and `S` are the sizes of the born and the store host (8 for
 * IPv4, 20 for IPv6), `N` that of the body, `t` that of the topic length.
 *
 *     0 TOTALSIZE   4 MAGICCODE     8 BODYCRC      12 QUEUEID    16 FLAG
 *    20 QUEUEOFFSET 28 PHYSICALOFFSET              36 SYSFLAG
 *    40 BORNTIMESTAMP              48 BORNHOST (B)
 *  48+B STORETIMESTAMP           56+B STOREHOSTADDRESS (S)
 *   then RECONSUMETIMES (4), PREPAREDTRANSACTIONOFFSET (8), BODYLENGTH (4),
 *   BODY (N), TOPICLENGTH (t), TOPIC, PROPERTIESLENGTH (2), PROPERTIES
 */
#ifndef PS_FORMAT_H
#define PS_FORMAT_H

#include <stdint.h>
#include <string.h>

#define PS_MAGIC_V1 UINT32_C(0xDAA320A7)    /* topic length of one byte */
#define PS_MAGIC_V2 UINT32_C(0xDAA320AB)    /* topic length of two bytes */
#define PS_MAGIC_BLANK UINT32_C(0xCBD43194) /* the rest of a segment */
#define PS_BLANK_SIZE 8                     /* the least, and what is written */

#define PS_QUEUE_ENTRY 20 /* bytes of a consume queue's entry */

#define PS_AT_SIZE 0
#define PS_AT_MAGIC 4
#define PS_AT_BODY_CRC 8
#define PS_AT_QUEUE_ID 12
#define PS_AT_FLAG 16
#define PS_AT_QUEUE_OFFSET 20
#define PS_AT_OFFSET 28
#define PS_AT_SYS_FLAG 36
#define PS_AT_BORN_MS 40
#define PS_AT_BORN_HOST 48

/* Positions behind the hosts, to which both hosts' sizes are added. */
#define PS_AT_RECONSUME_TIMES 56
#define PS_AT_PREPARED_OFFSET 60
#define PS_AT_BODY_SIZE 68
#define PS_AT_BODY 72

#define PS_HOST_IPV4 8
#define PS_HOST_IPV6 20
#define PS_HEAD_MAX (PS_AT_BODY + 2 * PS_HOST_IPV6)
#define PS_RECORD_MIN 91 /* V1, IPv4 hosts, no body, topic nor properties */
#define PS_RECORD_SIZE_MAX INT32_MAX

/* A record may be larger than the body's limit by this much. */
#define PS_RECORD_EXTRA_MAX 65536
#define PS_TOPIC_V1_MAX 127 /* a V1 length is read back signed */
#define PS_TOPIC_V2_MAX 32767
#define PS_PROPERTIES_MAX 32767

/* Bits of SYSFLAG. */
#define PS_SYS_COMPRESSED 0x001
#define PS_SYS_TRANSACTION 0x00C /* mask: none, prepared, commit, rollback */
#define PS_SYS_PREPARED 0x004
#define PS_SYS_COMMIT 0x008
#define PS_SYS_ROLLBACK 0x00C
#define PS_SYS_BORN_IPV6 0x010u
#define PS_SYS_STORE_IPV6 0x020u

/* Properties are `name 0x01 value 0x02`, back to back. */
#define PS_NAME_END 0x01
#define PS_ENTRY_END 0x02

/* The property CRC: `__CRC32#` 0x01, ten digits, least significant first,
 * 0x02, as the last bytes of the record. */
#define PS_CRC_NAME "__CRC32#"
#define PS_CRC_NAME_SIZE 8
#define PS_CRC_AREA 20
#define PS_CRC_DIGITS 10
#define PS_CRC_MASK UINT32_C(0x7FFFFFFF)

/* One entry of the client batch form:
 *     0 size  4 magic  8 body CRC (both ignored)  12 flag  16 body size
 *    20 body, properties size (2), properties */
#define PS_ENTRY_AT_FLAG 12
#define PS_ENTRY_AT_BODY_SIZE 16
#define PS_ENTRY_AT_BODY 20
#define PS_ENTRY_MIN 22

/* 1 if the record takes a place in its queue. PREPARED and ROLLBACK records
 * do not: their QUEUEOFFSET is written as 0. */
static inline int32_t ps_is_queued(uint32_t sys_flag) {
  return (sys_flag & PS_SYS_PREPARED) == 0;
}

static inline uint32_t ps_born_host_size(uint32_t sys_flag) {
  return sys_flag & PS_SYS_BORN_IPV6 ? PS_HOST_IPV6 : PS_HOST_IPV4;
}

static inline uint32_t ps_store_host_size(uint32_t sys_flag) {
  return sys_flag & PS_SYS_STORE_IPV6 ? PS_HOST_IPV6 : PS_HOST_IPV4;
}

/* Big-endian loads and stores at any address. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define PS_BIG16(value) __builtin_bswap16(value)
#define PS_BIG32(value) __builtin_bswap32(value)
#define PS_BIG64(value) __builtin_bswap64(value)
#else
#define PS_BIG16(value) (value)
#define PS_BIG32(value) (value)
#define PS_BIG64(value) (value)
#endif

static inline uint16_t ps_load16(const uint8_t *from) {
  uint16_t value;
  memcpy(&value, from, sizeof value);
  return PS_BIG16(value);
}

static inline uint32_t ps_load32(const uint8_t *from) {
  uint32_t value;
  memcpy(&value, from, sizeof value);
  return PS_BIG32(value);
}

static inline uint64_t ps_load64(const uint8_t *from) {
  uint64_t value;
  memcpy(&value, from, sizeof value);
  return PS_BIG64(value);
}

static inline void ps_store16(uint8_t *to, uint16_t value) {
  value = PS_BIG16(value);
  memcpy(to, &value, sizeof value);
}

static inline void ps_store32(uint8_t *to, uint32_t value) {
  value = PS_BIG32(value);
  memcpy(to, &value, sizeof value);
}

static inline void ps_store64(uint8_t *to, uint64_t value) {
  value = PS_BIG64(value);
  memcpy(to, &value, sizeof value);
}

#endif
