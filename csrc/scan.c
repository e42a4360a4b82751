/* The scan kernel: finds and checks records in one window of memory. */
#include "scan.h"

#include <assert.h>
#include <inttypes.h>

#include "error.h"
#include "parse.h"

/* How far ahead the next heads and tails are fetched, in records of the last
 * size: memory answers later than a record takes. */
#define AHEAD 6
#define LINE 64

void ps_scan_init(ps_scan *scan, ps_topics *topics) {
  assert(scan);
  memset(scan, 0, sizeof *scan);
  scan->topics = topics;
  scan->topic_id = PS_NO_TOPIC;
}

/* Fetches what surrounds the border of two records: a tail and a head. A hint
 * only, so an address that is not there does no harm. */
static inline void fetch_border(const uint8_t *data, uint32_t size) {
  uintptr_t border = (uintptr_t)data + (uintptr_t)size * AHEAD;
  for (int32_t line = -1; line <= 1; line++)
    __builtin_prefetch((const void *)(border + (uintptr_t)(line * LINE)));
}

/* Finds the id of the record's topic; 0: out of memory. */
static inline int32_t name_topic(ps_scan *scan, const uint8_t *data,
                                 ps_record *record) {
  const uint8_t *topic = data + record->topic_at;
  uint32_t size = record->topic_size;
  if (scan->topic_id == PS_NO_TOPIC || scan->topic_size != size ||
      memcmp(scan->topic, topic, size) != 0) {
    if (!scan->topics)
      return 1;
    uint32_t id = ps_topics_intern(scan->topics, topic, size);
    if (id == PS_NO_TOPIC)
      return 0;
    int32_t is_named =
        ps_topics_name(scan->topics, id, &scan->topic, &scan->topic_size);
    assert(is_named);
    (void)is_named;
    scan->topic_id = id;
  }
  record->topic_id = scan->topic_id;
  return 1;
}

/* What begins at a place that does not begin a record. */
static uint32_t no_record(uint64_t size, uint32_t magic, uint64_t rest) {
  if (size == 0 && magic == 0)
    return PS_STOP_ZERO;
  if (magic != PS_MAGIC_BLANK)
    return PS_STOP_MAGIC;
  return size == rest ? PS_WHOLE : PS_STOP_BLANK;
}

/* The last 1 to 7 bytes of a segment. */
static uint32_t no_room(const uint8_t *data, uint64_t rest) {
  assert(rest < PS_BLANK_SIZE);
  for (uint64_t i = 0; i < rest; i++)
    if (data[i] != 0)
      return PS_STOP_SIZE;
  return PS_STOP_ZERO;
}

/* Where the scan stands: the cursor's fields that every record moves. */
typedef struct place {
  const uint8_t *data;
  uint64_t offset;
  uint64_t rest;     /* of the segment */
  uint64_t readable; /* of the rest */
} place;

static inline place place_at(const ps_window *window, uint64_t offset) {
  uint64_t at = offset - window->base;
  place here = {window->data + at, offset, window->size - at, 0};
  if (window->readable > at)
    here.readable = window->readable - at;
  return here;
}

/* Answers one of these, or a PS_STOP_*. */
#define FOUND_RECORD 0u
#define FOUND_BLANK 100u
#define FOUND_MORE 101u

/* Reads the next 8 bytes. FOUND_RECORD: *size bytes are readable and below the
 * limit. FOUND_MORE: *size bytes of the rest must be readable. */
static inline uint32_t read_next(const place *here, uint64_t limit,
                                 uint64_t *size) {
  uint64_t least = here->rest < PS_BLANK_SIZE ? here->rest : PS_BLANK_SIZE;
  uint64_t below = limit > here->offset ? limit - here->offset : 0;
  *size = least;
  if (below < least)
    return PS_STOP_LIMIT;
  if (here->readable < least)
    return FOUND_MORE;
  if (least < PS_BLANK_SIZE)
    return no_room(here->data, here->rest);
  uint32_t magic = ps_load32(here->data + PS_AT_MAGIC);
  *size = ps_load32(here->data + PS_AT_SIZE);
  if (__builtin_expect(magic != PS_MAGIC_V1 && magic != PS_MAGIC_V2, 0)) {
    uint32_t reason = no_record(*size, magic, here->rest);
    if (reason != PS_WHOLE)
      return reason;
    return *size > below ? PS_STOP_LIMIT : FOUND_BLANK;
  }
  if (*size < PS_RECORD_MIN || *size > here->rest || *size > PS_RECORD_SIZE_MAX)
    return PS_STOP_SIZE;
  if (*size > below)
    return PS_STOP_LIMIT;
  return *size > here->readable ? FOUND_MORE : FOUND_RECORD;
}

/* Checks one record, every byte of it readable, into *record. */
static inline uint32_t take(ps_scan *scan, const place *here, uint32_t size,
                            const ps_cursor *cursor, ps_record *record) {
  uint32_t reason = ps_parse(here->data, size, here->offset, record);
  if (__builtin_expect(reason != PS_WHOLE, 0))
    return reason;
  return ps_parse_checks(here->data, record, cursor->checks, &scan->cache);
}

/* The record is whole: the cursor moves behind it. */
static inline void pass(ps_cursor *cursor, const ps_record *record) {
  cursor->record_start = record->offset;
  cursor->record_end = record->offset + record->size;
  cursor->record_ms = record->store_ms;
  cursor->records++;
  cursor->unproved +=
      (record->proof & (PS_HAS_PROPERTY | PS_PROOF_DIFFERS)) != PS_HAS_PROPERTY;
  cursor->differs += (record->proof & PS_PROOF_DIFFERS) != 0;
  cursor->offset = cursor->record_end;
}

/* Ends the scan for a reason that is a PS_STOP_*. */
static int32_t stop(ps_cursor *cursor, const place *here, uint32_t reason,
                    ps_error *error) {
  cursor->stop = reason;
  if (reason >= PS_STOP_SIZE)
    ps_parse_describe(error, reason, here->data, here->readable, here->rest,
                      here->offset);
  return (int32_t)reason;
}

int32_t ps_scan_window(ps_scan *scan, const ps_window *window,
                       ps_cursor *cursor, ps_record *rows, uint32_t capacity,
                       uint32_t *count, uint64_t *wanted, ps_error *error) {
  assert(window->readable <= window->size);
  assert(cursor->offset >= window->base &&
         cursor->offset - window->base <= window->size);
  ps_record scratch;
  for (;;) {
    place here = place_at(window, cursor->offset);
    if (here.rest == 0)
      return PS_SEGMENT_DONE;
    if (rows && *count >= capacity)
      return stop(cursor, &here, PS_STOP_ROWS, error);
    uint64_t size;
    uint32_t found = read_next(&here, cursor->limit, &size);
    ps_record *record = rows ? &rows[*count] : &scratch;
    if (__builtin_expect(found == FOUND_RECORD, 1)) {
      fetch_border(here.data, (uint32_t)size);
      found = take(scan, &here, (uint32_t)size, cursor, record);
    } else if (found == FOUND_MORE) {
      *wanted = window->size - here.rest + size;
      return PS_SCAN_MORE;
    } else if (found == FOUND_BLANK) {
      cursor->blanks++;
      cursor->offset += size;
      return PS_SEGMENT_DONE;
    }
    if (__builtin_expect(found != PS_WHOLE, 0))
      return stop(cursor, &here, found, error);
    if ((cursor->checks & PS_WANT_TOPIC) &&
        !name_topic(scan, here.data, record)) {
      ps_fail(error, PS_E_MEMORY, here.offset,
              "no memory for the topic of the record at offset %" PRIu64,
              here.offset);
      return PS_SCAN_MEMORY;
    }
    pass(cursor, record);
    *count += rows != NULL;
  }
}
