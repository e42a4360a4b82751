/* The next queue offset of each (topic, queue id). */
#include "queues.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "format.h"

/* Queues live in blocks, so that they never move. */
#define BLOCK_QUEUES 256u
#define SLOTS_FIRST 64u
#define RECENT 16u

/* Sizes in queue form around the topic: u16 in front; i32, i64 behind. */
#define FORM_AROUND 14u

/* No log holds that many records of a queue. */
#define QUEUE_OFFSET_MAX (INT64_C(1) << 62)

typedef struct queue {
  const uint8_t *topic; /* owned by the topics */
  uint32_t topic_size;
  uint32_t hash;
  int32_t queue_id;
  int64_t next;
  struct queue *changed; /* the next changed one; itself: the last; NULL: not */
} queue;

struct ps_queues {
  ps_topics *topics;
  queue **blocks;
  uint32_t *slots;       /* number + 1, 0: free; at most half are taken */
  queue *recent[RECENT]; /* the last hits, by the low bits of their queue id */
  queue *changed;        /* since the last take */
  uint32_t count;
  uint32_t blocks_count;
  uint32_t slots_mask;
};

static uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ hash >> 32;
}

/* Eight bytes at a time; the last ones may be taken twice. */
static uint32_t hash_of(const uint8_t *topic, uint32_t size, int32_t queue_id) {
  uint64_t hash = mix(size, (uint32_t)queue_id);
  if (size >= 8) {
    for (uint32_t at = 0; at + 8 < size; at += 8)
      hash = mix(hash, ps_load64(topic + at));
    hash = mix(hash, ps_load64(topic + size - 8));
  } else {
    uint64_t word = 0;
    for (uint32_t at = 0; at < size; at++)
      word = word << 8 | topic[at];
    hash = mix(hash, word);
  }
  return (uint32_t)mix(hash, 0);
}

ps_queues *ps_queues_new(ps_topics *topics) {
  assert(topics);
  ps_queues *queues = calloc(1, sizeof *queues);
  if (!queues)
    return NULL;
  queues->topics = topics;
  queues->slots_mask = SLOTS_FIRST - 1;
  queues->slots = calloc(SLOTS_FIRST, sizeof *queues->slots);
  if (!queues->slots) {
    free(queues);
    return NULL;
  }
  return queues;
}

void ps_queues_free(ps_queues *queues) {
  if (!queues)
    return;
  assert(queues->count <= queues->blocks_count * BLOCK_QUEUES);
  for (uint32_t i = 0; i < queues->blocks_count; i++)
    free(queues->blocks[i]);
  free(queues->blocks);
  free(queues->slots);
  free(queues);
}

void ps_queues_reset(ps_queues *queues) {
  assert(queues);
  memset(queues->slots, 0,
         ((size_t)queues->slots_mask + 1) * sizeof *queues->slots);
  queues->count = 0;
  queues->changed = NULL;
  memset(queues->recent, 0, sizeof queues->recent);
}

static queue *queue_at(const ps_queues *queues, uint32_t number) {
  assert(number < queues->blocks_count * BLOCK_QUEUES);
  return &queues->blocks[number / BLOCK_QUEUES][number % BLOCK_QUEUES];
}

static int32_t is_queue(const queue *here, const uint8_t *topic, uint32_t size,
                        int32_t queue_id) {
  return here->queue_id == queue_id && here->topic_size == size &&
         memcmp(here->topic, topic, size) == 0;
}

/* The slot of the queue, or the free one where it belongs. */
static uint32_t *slot_of(const ps_queues *queues, const uint8_t *topic,
                         uint32_t size, int32_t queue_id, uint32_t hash) {
  uint32_t at = hash & queues->slots_mask;
  for (;; at = (at + 1) & queues->slots_mask) {
    uint32_t *slot = &queues->slots[at];
    if (*slot == 0)
      return slot;
    const queue *here = queue_at(queues, *slot - 1);
    if (here->hash == hash && is_queue(here, topic, size, queue_id))
      return slot;
  }
}

static int32_t grow_slots(ps_queues *queues) {
  uint64_t slots = 2 * ((uint64_t)queues->slots_mask + 1);
  if (slots > UINT32_MAX)
    return 0;
  uint32_t *fresh = calloc(slots, sizeof *fresh);
  if (!fresh)
    return 0;
  free(queues->slots);
  queues->slots = fresh;
  queues->slots_mask = (uint32_t)(slots - 1);
  for (uint32_t i = 0; i < queues->count; i++) {
    const queue *here = queue_at(queues, i);
    uint32_t *slot = slot_of(queues, here->topic, here->topic_size,
                             here->queue_id, here->hash);
    assert(*slot == 0);
    *slot = i + 1;
  }
  return 1;
}

static int32_t grow_blocks(ps_queues *queues) {
  size_t blocks = (size_t)queues->blocks_count + 1;
  queue **more = realloc(queues->blocks, blocks * sizeof *more);
  if (!more)
    return 0;
  queues->blocks = more;
  more[queues->blocks_count] = malloc(BLOCK_QUEUES * sizeof(queue));
  if (!more[queues->blocks_count])
    return 0;
  queues->blocks_count++;
  return 1;
}

/* Adds the queue, or answers NULL: out of memory. */
static queue *add(ps_queues *queues, const uint8_t *topic, uint32_t size,
                  int32_t queue_id, uint32_t hash) {
  uint32_t id = ps_topics_intern(queues->topics, topic, size);
  if (id == PS_NO_TOPIC)
    return NULL;
  if (queues->count > queues->slots_mask / 2 && !grow_slots(queues))
    return NULL;
  if (queues->count == queues->blocks_count * BLOCK_QUEUES &&
      !grow_blocks(queues))
    return NULL;
  uint32_t *slot = slot_of(queues, topic, size, queue_id, hash);
  assert(*slot == 0);
  queue *fresh = queue_at(queues, queues->count);
  *fresh = (queue){.hash = hash, .queue_id = queue_id};
  ps_topics_name(queues->topics, id, &fresh->topic, &fresh->topic_size);
  *slot = ++queues->count;
  return fresh;
}

/* The caller may change the offset. */
static int64_t *next_of(ps_queues *queues, queue *here) {
  if (!here->changed) {
    here->changed = queues->changed ? queues->changed : here;
    queues->changed = here;
  }
  return &here->next;
}

int64_t *ps_queues_next(ps_queues *queues, const uint8_t *topic,
                        uint32_t topic_size, int32_t queue_id) {
  assert(queues && (topic || topic_size == 0));
  queue **recent = &queues->recent[(uint32_t)queue_id % RECENT];
  if (*recent && is_queue(*recent, topic, topic_size, queue_id))
    return next_of(queues, *recent);
  uint32_t hash = hash_of(topic, topic_size, queue_id);
  const uint32_t *slot = slot_of(queues, topic, topic_size, queue_id, hash);
  queue *found = *slot != 0 ? queue_at(queues, *slot - 1)
                            : add(queues, topic, topic_size, queue_id, hash);
  if (!found)
    return NULL;
  *recent = found;
  return next_of(queues, found);
}

static ps_status no_memory(ps_error *error) {
  return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "no memory for the queues");
}

/* Checks queue form as a whole, so that a bad one changes nothing. */
static ps_status check_form(const uint8_t *data, uint64_t size,
                            ps_error *error) {
  for (uint64_t at = 0; at < size;) {
    uint64_t left = size - at;
    uint32_t topic = left < FORM_AROUND ? 0 : ps_load16(data + at);
    if (left < FORM_AROUND + topic)
      return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                     "queue form of %" PRIu64 " bytes: the entry at %" PRIu64
                     " is cut short",
                     size, at);
    int64_t next = (int64_t)ps_load64(data + at + topic + 6);
    if (next < 0 || next > QUEUE_OFFSET_MAX)
      return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                     "queue form: the entry at %" PRIu64
                     " has next queue offset %" PRId64,
                     at, next);
    at += FORM_AROUND + topic;
  }
  return PS_OK;
}

ps_status ps_queues_load(ps_queues *queues, const uint8_t *data, uint64_t size,
                         ps_error *error) {
  assert(queues && (data || size == 0));
  ps_status status = check_form(data, size, error);
  if (status != PS_OK)
    return status;
  for (uint64_t at = 0; at < size;) {
    uint32_t topic = ps_load16(data + at);
    const uint8_t *behind = data + at + 2 + topic;
    int64_t *next = ps_queues_next(queues, data + at + 2, topic,
                                   (int32_t)ps_load32(behind));
    if (!next)
      return no_memory(error);
    int64_t loaded = (int64_t)ps_load64(behind + 4);
    if (loaded > *next)
      *next = loaded;
    at += FORM_AROUND + topic;
  }
  return PS_OK;
}

ps_status ps_queues_note(ps_queues *queues, const ps_record *rows,
                         uint32_t count, ps_error *error) {
  assert(queues && (rows || count == 0));
  const uint8_t *topic = NULL;
  uint32_t topic_size = 0;
  uint32_t topic_id = PS_NO_TOPIC;
  for (uint32_t i = 0; i < count; i++) {
    const ps_record *row = &rows[i];
    if (row->topic_id == PS_NO_TOPIC || !ps_is_queued(row->sys_flag))
      continue;
    if (row->queue_offset < 0 || row->queue_offset >= QUEUE_OFFSET_MAX)
      return ps_fail(error, PS_E_CORRUPT, row->offset,
                     "record at offset %" PRIu64 ": queue offset %" PRId64,
                     row->offset, row->queue_offset);
    if (row->topic_id != topic_id &&
        !ps_topics_name(queues->topics, row->topic_id, &topic, &topic_size))
      return ps_fail(error, PS_E_INVALID, row->offset,
                     "row of the record at offset %" PRIu64
                     ": no topic has id %" PRIu32,
                     row->offset, row->topic_id);
    topic_id = row->topic_id;
    int64_t *next = ps_queues_next(queues, topic, topic_size, row->queue_id);
    if (!next)
      return no_memory(error);
    /* A topic that was deleted and made again begins at 0. */
    if (row->queue_offset >= *next || row->queue_offset == 0)
      *next = row->queue_offset + 1;
  }
  return PS_OK;
}

static ps_status no_space(uint64_t needed, uint64_t capacity, ps_error *error) {
  return ps_fail(error, PS_E_SPACE, PS_NO_OFFSET,
                 "the queues need %" PRIu64 " bytes, there are %" PRIu64,
                 needed, capacity);
}

static uint8_t *put(uint8_t *to, const queue *here) {
  ps_store16(to, (uint16_t)here->topic_size);
  memcpy(to + 2, here->topic, here->topic_size);
  to += 2 + here->topic_size;
  ps_store32(to, (uint32_t)here->queue_id);
  ps_store64(to + 4, (uint64_t)here->next);
  return to + 12;
}

ps_status ps_queues_fill(const ps_queues *queues, uint8_t *buffer,
                         uint64_t capacity, uint64_t *size, ps_error *error) {
  assert(queues && size && (buffer || capacity == 0));
  uint64_t needed = 0;
  for (uint32_t i = 0; i < queues->count; i++)
    needed += FORM_AROUND + queue_at(queues, i)->topic_size;
  *size = needed;
  if (needed > capacity)
    return no_space(needed, capacity, error);
  uint8_t *to = buffer;
  for (uint32_t i = 0; i < queues->count; i++)
    to = put(to, queue_at(queues, i));
  assert((uint64_t)(to - buffer) == needed);
  return PS_OK;
}

/* The changed queue after this one; NULL: it is the last. */
static queue *changed_after(const queue *here) {
  return here->changed == here ? NULL : here->changed;
}

ps_status ps_queues_take(ps_queues *queues, uint8_t *buffer, uint64_t capacity,
                         uint64_t *size, ps_error *error) {
  assert(queues && size && (buffer || capacity == 0));
  uint64_t needed = 0;
  for (const queue *at = queues->changed; at; at = changed_after(at))
    needed += FORM_AROUND + at->topic_size;
  *size = needed;
  if (needed > capacity)
    return no_space(needed, capacity, error);
  uint8_t *to = buffer;
  for (queue *at = queues->changed, *after; at; at = after) {
    to = put(to, at);
    after = changed_after(at);
    at->changed = NULL;
  }
  queues->changed = NULL;
  assert((uint64_t)(to - buffer) == needed);
  return PS_OK;
}
