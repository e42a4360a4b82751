/* The messages that every bench appends, as C structs. */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "format.h"

records *records_new(uint64_t count, uint32_t body_size) {
  static const uint8_t host[] = {127, 0, 0, 1, 0, 0, 0x2a, 0x9f};
  records *all = calloc(1, sizeof *all);
  if (!all)
    die("calloc");
  all->count = count;
  all->body_size = body_size;
  all->messages = calloc(count, sizeof *all->messages);
  all->bodies = malloc(count * body_size + 8);
  all->keys = malloc(count * KEY_SIZE + 1);
  if (!all->messages || !all->bodies || !all->keys)
    die("malloc");
  uint64_t state = 1;
  for (uint64_t at = 0; at < count * body_size; at += 8) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    memcpy(all->bodies + at, &state, 8);
  }
  for (uint64_t i = 0; i < count; i++) {
    char *key = all->keys + i * KEY_SIZE;
    snprintf(key, KEY_SIZE + 1, "key-%08u", (unsigned)i);
    all->messages[i] = (ps_message){
        .topic = (const uint8_t *)TOPIC,
        .topic_size = sizeof TOPIC - 1,
        .body = all->bodies + i * body_size,
        .body_size = body_size,
        .keys = (const uint8_t *)key,
        .keys_size = KEY_SIZE,
        .tags = (const uint8_t *)TAG,
        .tags_size = sizeof TAG - 1,
        .queue_id = (int32_t)(i % 4),
    };
  }
  all->stamp = (ps_stamp){.store_ms = 1700000000000,
                          .store_host = host,
                          .store_host_size = sizeof host,
                          .property_crc = 1};
  return all;
}

uint64_t records_form(const records *all, uint64_t index, uint8_t *to) {
  const ps_message *message = &all->messages[index];
  uint8_t properties[64];
  int size = snprintf((char *)properties, sizeof properties,
                      "KEYS\1%.*s\2TAGS\1" TAG "\2", KEY_SIZE,
                      (const char *)message->keys);
  uint32_t entry = PS_ENTRY_MIN + message->body_size + (uint32_t)size;
  uint8_t *at = to + PS_MESSAGE_HEAD + message->topic_size;
  memset(to, 0, (size_t)(at - to) + PS_ENTRY_AT_BODY);
  ps_store32(to, PS_MESSAGE_HEAD + message->topic_size + entry);
  ps_store32(to + 4, (uint32_t)message->queue_id);
  ps_store16(to + 54, (uint16_t)message->topic_size);
  memcpy(to + PS_MESSAGE_HEAD, message->topic, message->topic_size);
  ps_store32(at, entry);
  ps_store32(at + PS_ENTRY_AT_BODY_SIZE, message->body_size);
  memcpy(at + PS_ENTRY_AT_BODY, message->body, message->body_size);
  at += PS_ENTRY_AT_BODY + message->body_size;
  ps_store16(at, (uint16_t)size);
  memcpy(at + 2, properties, (size_t)size);
  return (uint64_t)(at + 2 + size - to);
}
