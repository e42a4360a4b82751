/* Topic names and the small numbers that stand for them. */
#include "topics.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64u

typedef struct topic {
  uint32_t size;
  uint32_t hash;
  uint8_t name[];
} topic;

struct ps_topics {
  pthread_mutex_t mutex;
  topic **topics;  /* by id */
  uint32_t *slots; /* id + 1, 0: free; at most half are taken */
  uint32_t count;
  uint32_t slots_mask;
};

/* FNV-1a: names are short, and each is hashed once per change of topic. */
static uint32_t hash_of(const uint8_t *name, uint32_t size) {
  uint32_t hash = UINT32_C(2166136261);
  for (uint32_t i = 0; i < size; i++)
    hash = (hash ^ name[i]) * UINT32_C(16777619);
  return hash ^ hash >> 15;
}

ps_topics *ps_topics_new(void) {
  ps_topics *topics = calloc(1, sizeof *topics);
  if (!topics)
    return NULL;
  topics->slots_mask = SLOTS_FIRST - 1;
  topics->slots = calloc(SLOTS_FIRST, sizeof *topics->slots);
  topics->topics = malloc(SLOTS_FIRST / 2 * sizeof(topic *));
  if (!topics->slots || !topics->topics ||
      pthread_mutex_init(&topics->mutex, NULL) != 0) {
    free(topics->slots);
    free(topics->topics);
    free(topics);
    return NULL;
  }
  assert(topics->count == 0);
  return topics;
}

void ps_topics_free(ps_topics *topics) {
  if (!topics)
    return;
  for (uint32_t i = 0; i < topics->count; i++)
    free(topics->topics[i]);
  pthread_mutex_destroy(&topics->mutex);
  free(topics->slots);
  free(topics->topics);
  free(topics);
}

/* The slot of the name, or the free one where it belongs. */
static uint32_t *slot_of(const ps_topics *topics, const uint8_t *name,
                         uint32_t size, uint32_t hash) {
  uint32_t at = hash & topics->slots_mask;
  for (;; at = (at + 1) & topics->slots_mask) {
    uint32_t *slot = &topics->slots[at];
    if (*slot == 0)
      return slot;
    const topic *here = topics->topics[*slot - 1];
    if (here->hash == hash && here->size == size &&
        memcmp(here->name, name, size) == 0)
      return slot;
  }
}

/* Doubles the room. On failure nothing has changed that counts. */
static int32_t grow(ps_topics *topics) {
  uint64_t slots = 2 * ((uint64_t)topics->slots_mask + 1);
  if (slots > UINT32_MAX)
    return 0;
  topic **names = realloc(topics->topics, slots / 2 * sizeof(topic *));
  if (!names)
    return 0;
  topics->topics = names;
  uint32_t *fresh = calloc(slots, sizeof *fresh);
  if (!fresh)
    return 0;
  free(topics->slots);
  topics->slots = fresh;
  topics->slots_mask = (uint32_t)(slots - 1);
  for (uint32_t i = 0; i < topics->count; i++) {
    const topic *here = names[i];
    uint32_t *slot = slot_of(topics, here->name, here->size, here->hash);
    assert(*slot == 0);
    *slot = i + 1;
  }
  return 1;
}

static uint32_t intern(ps_topics *topics, const uint8_t *name, uint32_t size,
                       uint32_t hash) {
  uint32_t *slot = slot_of(topics, name, size, hash);
  if (*slot != 0)
    return *slot - 1;
  if (topics->count > topics->slots_mask / 2) {
    if (!grow(topics))
      return PS_NO_TOPIC;
    slot = slot_of(topics, name, size, hash);
  }
  topic *fresh = malloc(sizeof *fresh + size);
  if (!fresh)
    return PS_NO_TOPIC;
  fresh->size = size;
  fresh->hash = hash;
  if (size > 0)
    memcpy(fresh->name, name, size);
  topics->topics[topics->count] = fresh;
  *slot = ++topics->count;
  return topics->count - 1;
}

uint32_t ps_topics_intern(ps_topics *topics, const uint8_t *name,
                          uint32_t size) {
  assert(topics && (name || size == 0));
  uint32_t hash = hash_of(name, size);
  pthread_mutex_lock(&topics->mutex);
  uint32_t id = intern(topics, name, size, hash);
  pthread_mutex_unlock(&topics->mutex);
  return id;
}

int32_t ps_topics_name(ps_topics *topics, uint32_t id, const uint8_t **name,
                       uint32_t *size) {
  assert(topics && name && size);
  pthread_mutex_lock(&topics->mutex);
  const topic *found = id < topics->count ? topics->topics[id] : NULL;
  pthread_mutex_unlock(&topics->mutex);
  if (!found)
    return 0;
  *name = found->name;
  *size = found->size;
  return 1;
}
