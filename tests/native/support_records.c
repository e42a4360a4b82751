/* Records the slow way: written and read byte by byte, as docs/format.md has
 * it, to hold the C core against. */
#include "support_records.h"

#include "check.h"
#include "format.h"
#include "scan.h"

uint32_t slow_crc(const uint8_t *data, uint64_t size) {
  uint32_t state = 0xFFFFFFFF;
  for (uint64_t at = 0; at < size; at++) {
    state ^= data[at];
    for (int bit = 0; bit < 8; bit++)
      state = state & 1 ? state >> 1 ^ 0xEDB88320 : state >> 1;
  }
  return ~state & 0x7FFFFFFF;
}

ps_message vector_message(void) {
  return (ps_message){
      .topic = (const uint8_t *)"TopicA",
      .topic_size = 6,
      .body = (const uint8_t *)"hello!q!",
      .body_size = 8,
      .properties = (const uint8_t *)"KEYS\1k1\2TAGS\1TAG1\2",
      .properties_size = 18,
      .born_host = (const uint8_t *)"\x7f\0\0\1\0\0\x23\x28",
      .born_host_size = 8,
      .born_ms = 1700000000000,
      .queue_id = 3,
      .flag = 7,
      .reconsume_times = 2,
  };
}

ps_stamp vector_stamp(void) {
  return (ps_stamp){
      .offset = 0,
      .queue_offset = 5,
      .store_ms = 1700000000123,
      .store_host = (const uint8_t *)"\x64\x51\0\xfa\0\0\x2a\x9f",
      .store_host_size = 8,
  };
}

/* ---- Writing ----------------------------------------------------------- */

static uint8_t *put(uint8_t *to, uint64_t value, int size) {
  for (int i = size - 1; i >= 0; i--)
    *to++ = (uint8_t)(value >> (8 * i));
  return to;
}

static uint8_t *put_bytes(uint8_t *to, const uint8_t *from, uint32_t size) {
  for (uint32_t i = 0; i < size; i++)
    *to++ = from[i];
  return to;
}

static uint8_t *put_property(uint8_t *to, const uint8_t *begin,
                             const char *name, const uint8_t *value,
                             uint32_t size) {
  if (to > begin && to[-1] != 2)
    *to++ = 2;
  to = put_bytes(to, (const uint8_t *)name, (uint32_t)strlen(name));
  *to++ = 1;
  to = put_bytes(to, value, size);
  *to++ = 2;
  return to;
}

static void put_crc(uint8_t *record, uint8_t *area) {
  uint32_t crc = slow_crc(record, (uint64_t)(area - record));
  area = put_bytes(area, (const uint8_t *)"__CRC32#\1", 9);
  for (int i = 0; i < 10; i++, crc /= 10)
    *area++ = (uint8_t)('0' + crc % 10);
  *area = 2;
}

uint32_t slow_encode(uint8_t *to, const ps_message *message,
                     const ps_stamp *stamp, uint32_t version) {
  const uint8_t *born = message->born_host;
  uint32_t born_size = message->born_host_size;
  if (born_size == 0) {
    born = stamp->store_host;
    born_size = stamp->store_host_size;
  }
  if (version == 0)
    version = message->topic_size > 127 ? 2 : 1;
  uint32_t transaction = message->sys_flag & 0xC;
  uint32_t flags = (message->sys_flag & ~0x30u) |
                   (born_size == 20 ? 0x10u : 0) |
                   (stamp->store_host_size == 20 ? 0x20u : 0);
  uint8_t *at = to + 4;
  at = put(at, version == 2 ? 0xDAA320AB : 0xDAA320A7, 4);
  at = put(at, slow_crc(message->body, message->body_size), 4);
  at = put(at, (uint32_t)message->queue_id, 4);
  at = put(at, (uint32_t)message->flag, 4);
  at = put(at,
           transaction == 0x4 || transaction == 0xC
               ? 0
               : (uint64_t)stamp->queue_offset,
           8);
  at = put(at, stamp->offset, 8);
  at = put(at, flags, 4);
  at = put(
      at, (uint64_t)(message->born_ms ? message->born_ms : stamp->store_ms), 8);
  at = put_bytes(at, born, born_size);
  at = put(at, (uint64_t)stamp->store_ms, 8);
  at = put_bytes(at, stamp->store_host, stamp->store_host_size);
  at = put(at, (uint32_t)message->reconsume_times, 4);
  at = put(at, (uint64_t)message->prepared_offset, 8);
  at = put(at, message->body_size, 4);
  at = put_bytes(at, message->body, message->body_size);
  at = put(at, message->topic_size, (int)version);
  at = put_bytes(at, message->topic, message->topic_size);
  uint8_t *length = at;
  uint8_t *begin = at + 2;
  at = put_bytes(begin, message->properties, message->properties_size);
  if (message->keys_size > 0)
    at = put_property(at, begin, "KEYS", message->keys, message->keys_size);
  if (message->tags_size > 0)
    at = put_property(at, begin, "TAGS", message->tags, message->tags_size);
  if (stamp->property_crc && at > begin && at[-1] != 2)
    *at++ = 2;
  uint8_t *end = at + (stamp->property_crc ? 20 : 0);
  put(length, (uint64_t)(end - begin), 2);
  put(to, (uint64_t)(end - to), 4);
  if (stamp->property_crc)
    put_crc(to, at);
  return (uint32_t)(end - to);
}

static uint32_t random_text(uint8_t *to, uint32_t size) {
  for (uint32_t i = 0; i < size; i++)
    to[i] = (uint8_t)('a' + check_random() % 26);
  return size;
}

ps_message random_message(uint8_t *memory, uint32_t body_max) {
  ps_message message = {0};
  uint32_t kind = (uint32_t)check_random();
  message.body = memory;
  message.body_size = kind & 1 ? (uint32_t)(check_random() % body_max) : 0;
  check_random_fill(memory, message.body_size);
  memory += 1024;
  message.topic = memory;
  message.topic_size = 1 + (uint32_t)(check_random() % 127);
  if (kind & 2)
    message.topic_size = 128 + (uint32_t)(check_random() % 128);
  random_text(memory, message.topic_size);
  memory += 256;
  message.properties = memory;
  if (kind & 4) {
    uint8_t *at = memory;
    for (uint64_t left = check_random() % 5 + 1; left > 0; left--) {
      at += random_text(at, 1 + (uint32_t)(check_random() % 12));
      *at++ = 1;
      at += random_text(at, 1 + (uint32_t)(check_random() % 40));
      *at++ = 2;
    }
    message.properties_size = (uint32_t)(at - memory) - (kind >> 3 & 1);
  }
  memory += 512;
  message.keys = memory;
  message.keys_size = kind & 16 ? random_text(memory, 7) : 0;
  message.tags = memory + 16;
  message.tags_size = kind & 32 ? random_text(memory + 16, 5) : 0;
  message.born_host = memory + 32;
  message.born_host_size = kind & 64 ? 0 : kind & 128 ? 20 : 8;
  check_random_fill(memory + 32, 20);
  message.born_ms = kind & 256 ? 0 : (int64_t)(check_random() >> 2);
  message.prepared_offset = (int64_t)check_random();
  message.queue_id = (int32_t)(check_random() >> 33);
  message.flag = (int32_t)check_random();
  message.reconsume_times = (int32_t)check_random();
  message.sys_flag = (uint32_t)check_random() & 0xFFFF;
  return message;
}

/* ---- Reading ----------------------------------------------------------- */

static int64_t take(const uint8_t *data, uint64_t at, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; i++)
    value = value << 8 | data[at + (uint64_t)i];
  int unused = 64 - 8 * size;
  return (int64_t)(value << unused) >> unused;
}

/* 1: a property CRC. 2: one with one to three wrong bytes. */
static int read_area(const uint8_t *area, uint64_t *value) {
  static const char form[] = "__CRC32#\1dddddddddd\2";
  int wrong = 0;
  *value = 0;
  for (int i = 19; i >= 0; i--) {
    if (form[i] == 'd') {
      wrong += area[i] < '0' || area[i] > '9';
      *value = *value * 10 + (uint64_t)(area[i] - '0');
    } else {
      wrong += area[i] != (uint8_t)form[i];
    }
  }
  return wrong == 0 ? 1 : wrong <= 3 ? 2 : 0;
}

static uint32_t slow_lengths(const uint8_t *data, uint64_t size,
                             ps_record *record) {
  uint64_t flags = (uint64_t)take(data, 36, 4);
  uint64_t born = flags & 0x10 ? 20 : 8;
  uint64_t hosts = born + (flags & 0x20 ? 20 : 8);
  uint32_t version = take(data, 4, 4) == (int32_t)0xDAA320AB ? 2 : 1;
  uint64_t at = 72 + hosts;
  if (at > size)
    return PS_STOP_LENGTHS;
  int64_t body = take(data, 68 + hosts, 4);
  record->body_at = (uint32_t)at;
  if (body < 0 || at + (uint64_t)body + version > size)
    return PS_STOP_LENGTHS;
  at += (uint64_t)body;
  int64_t topic = take(data, at, (int)version);
  at += version;
  record->topic_at = (uint32_t)at;
  if (topic < 0 || at + (uint64_t)topic + 2 > size)
    return PS_STOP_LENGTHS;
  at += (uint64_t)topic;
  int64_t properties = take(data, at, 2);
  at += 2;
  record->properties_at = (uint32_t)at;
  if (properties < 0 || at + (uint64_t)properties != size)
    return PS_STOP_LENGTHS;
  record->body_size = (uint32_t)body;
  record->topic_size = (uint16_t)topic;
  record->properties_size = (uint16_t)properties;
  record->version = (uint16_t)version;
  record->store_ms = take(data, 48 + born, 8);
  record->reconsume_times = (int32_t)take(data, 56 + hosts, 4);
  record->prepared_offset = take(data, 60 + hosts, 8);
  return 0;
}

static uint32_t slow_checks(const uint8_t *data, uint32_t checks,
                            ps_record *record) {
  if ((checks & PS_CHECK_OFFSET) &&
      (uint64_t)take(data, 28, 8) != record->offset)
    return PS_STOP_OFFSET;
  uint64_t value = 0;
  const uint8_t *area = data + record->size - 20;
  int found = record->properties_size < 20 ? 0 : read_area(area, &value);
  int is_once =
      found == 1 && (checks & PS_CHECK_PROPERTY) && (checks & PS_CHECK_ONCE);
  if ((checks & PS_CHECK_BODY) && !is_once) {
    if (slow_crc(data + record->body_at, record->body_size) != record->body_crc)
      return PS_STOP_BODY;
    record->proof |= PS_PROOF_BODY;
  }
  if (found == 1)
    record->proof |= PS_HAS_PROPERTY;
  if (found != 1 && (checks & PS_NEED_PROPERTY))
    return PS_STOP_PROPERTY;
  if (found == 0 || !(checks & PS_CHECK_PROPERTY))
    return 0;
  if (found == 1 && slow_crc(data, record->size - 20) == value) {
    record->proof |= PS_PROOF_PROPERTY;
    return 0;
  }
  if (!(checks & PS_PASS_COPIED))
    return PS_STOP_PROPERTY;
  if (slow_crc(data + record->body_at, record->body_size) != record->body_crc)
    return PS_STOP_BODY;
  record->proof |= PS_PROOF_BODY | PS_PROOF_DIFFERS;
  return 0;
}

uint32_t slow_read(const uint8_t *data, uint64_t rest, uint64_t offset,
                   uint32_t checks, ps_record *record) {
  if (rest < 8) {
    for (uint64_t i = 0; i < rest; i++)
      if (data[i] != 0)
        return PS_STOP_SIZE;
    return PS_STOP_ZERO;
  }
  int64_t size = take(data, 0, 4);
  uint32_t magic = (uint32_t)take(data, 4, 4);
  if (size == 0 && magic == 0)
    return PS_STOP_ZERO;
  if (magic == 0xCBD43194)
    return (uint64_t)size == rest ? SLOW_BLANK : PS_STOP_BLANK;
  if (magic != 0xDAA320A7 && magic != 0xDAA320AB)
    return PS_STOP_MAGIC;
  if (size < 91 || (uint64_t)size > rest)
    return PS_STOP_SIZE;
  *record = (ps_record){
      .offset = offset, .size = (uint32_t)size, .topic_id = PS_NO_TOPIC};
  record->body_crc = (uint32_t)take(data, 8, 4);
  record->queue_id = (int32_t)take(data, 12, 4);
  record->flag = (int32_t)take(data, 16, 4);
  record->queue_offset = take(data, 20, 8);
  record->sys_flag = (uint32_t)take(data, 36, 4);
  record->born_ms = take(data, 40, 8);
  uint32_t reason = slow_lengths(data, (uint64_t)size, record);
  return reason ? reason : slow_checks(data, checks, record);
}

int32_t slow_scan(const uint8_t *segment, uint64_t size, uint64_t base,
                  ps_cursor *cursor, ps_record *rows, uint32_t capacity,
                  uint32_t *count) {
  for (;;) {
    uint64_t at = cursor->offset - base;
    uint64_t rest = size - at;
    uint64_t below =
        cursor->limit > cursor->offset ? cursor->limit - cursor->offset : 0;
    ps_record record;
    if (rest == 0)
      return PS_SEGMENT_DONE;
    if (*count == capacity)
      return PS_STOP_ROWS;
    if (below < (rest < 8 ? rest : 8))
      return PS_STOP_LIMIT;
    uint32_t structure =
        slow_read(segment + at, rest, cursor->offset, 0, &record);
    if ((structure == 0 || structure == PS_STOP_LENGTHS) &&
        ps_load32(segment + at) > below)
      return PS_STOP_LIMIT;
    if (structure == SLOW_BLANK && rest > below)
      return PS_STOP_LIMIT;
    uint32_t reason =
        slow_read(segment + at, rest, cursor->offset, cursor->checks, &record);
    if (reason == SLOW_BLANK) {
      cursor->blanks++;
      cursor->offset += rest;
      return PS_SEGMENT_DONE;
    }
    if (reason != 0)
      return (int32_t)reason;
    rows[(*count)++] = record;
    cursor->record_start = record.offset;
    cursor->offset = cursor->record_end = record.offset + record.size;
    cursor->record_ms = record.store_ms;
    cursor->records++;
    cursor->unproved +=
        !(record.proof & PS_HAS_PROPERTY) || (record.proof & PS_PROOF_DIFFERS);
    cursor->differs += !!(record.proof & PS_PROOF_DIFFERS);
  }
}

/* ---- Message form --------------------------------------------------- */

uint32_t put_form(uint8_t *to, const ps_message *message) {
  memset(to, 0, PS_MESSAGE_HEAD);
  ps_store32(to + 4, (uint32_t)message->queue_id);
  ps_store32(to + 8, message->sys_flag);
  ps_store32(to + 12, (uint32_t)message->reconsume_times);
  ps_store64(to + 16, (uint64_t)message->born_ms);
  ps_store64(to + 24, (uint64_t)message->prepared_offset);
  if (message->born_host_size <= 20 && message->born_host)
    memcpy(to + 32, message->born_host, message->born_host_size);
  ps_store16(to + 52, (uint16_t)message->born_host_size);
  ps_store16(to + 54, (uint16_t)message->topic_size);
  uint8_t *at = to + PS_MESSAGE_HEAD;
  memcpy(at, message->topic, message->topic_size);
  uint8_t *entry = at + message->topic_size;
  ps_store32(entry, 22 + message->body_size + message->properties_size);
  ps_store32(entry + 4, 0xDEADBEEF);
  ps_store32(entry + 8, 0xDEADBEEF);
  ps_store32(entry + 12, (uint32_t)message->flag);
  ps_store32(entry + 16, message->body_size);
  at = entry + 20;
  if (message->body_size > 0)
    memcpy(at, message->body, message->body_size);
  at += message->body_size;
  ps_store16(at, (uint16_t)message->properties_size);
  if (message->properties_size > 0)
    memcpy(at + 2, message->properties, message->properties_size);
  at += 2 + message->properties_size;
  ps_store32(to, (uint32_t)(at - to));
  return (uint32_t)(at - to);
}

static int digit(char c) {
  return c >= 'a' ? c - 'a' + 10 : c - '0';
}

uint32_t from_hex(uint8_t *to, const char *text) {
  uint32_t size = 0;
  for (; *text != 0; text++) {
    if (*text == ' ' || *text == '\n')
      continue;
    to[size++] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
    text++;
  }
  return size;
}
