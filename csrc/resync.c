/* Finding the next record behind damage: the bytes that prove where they are.
 */
#include <string.h>

#include "error.h"
#include "format.h"
#include "log_state.h"
#include "parse.h"
#include "read.h"

#define WINDOW 1048576U /* bytes that are made readable at once */
#define MAGIC_BYTE 0xDA /* the first byte of both magics of records */
#define BLANK_BYTE 0xCB /* that of the blank record's magic */

/* What is searched: one segment, up to `stop`. */
typedef struct search {
  ps_log *log;
  ps_segment *segment;
  uint64_t stop; /* exclusive, at most the end of the segment */
} search;

/* Makes [from, end) readable. Answers where `from` is mapped, or NULL. */
static const uint8_t *readable(const search *s, uint64_t from, uint64_t end) {
  ps_error error;
  const uint8_t *data = NULL;
  ps_status status = ps_segment_populate(&s->log->segments, s->segment, from,
                                         end - from, &data, &error);
  return status == PS_OK ? data : NULL;
}

/* Does a record begin at `offset`, by its magic, its lengths and the offset
 * that stands in it? Or a blank record, by its magic and its size? */
static int32_t begins(const search *s, uint64_t offset) {
  uint64_t rest = s->segment->base + s->segment->size - offset;
  uint64_t below = s->stop - offset;
  if (below < PS_BLANK_SIZE)
    return 0;
  const uint8_t *data = readable(s, offset, offset + PS_BLANK_SIZE);
  if (data == NULL)
    return 0;
  uint32_t size = ps_load32(data);
  uint32_t magic = ps_load32(data + PS_AT_MAGIC);
  if (magic == PS_MAGIC_BLANK)
    return size == rest && rest <= below;
  if ((magic != PS_MAGIC_V1 && magic != PS_MAGIC_V2) || size < PS_RECORD_MIN ||
      size > below || size > PS_RECORD_SIZE_MAX)
    return 0;
  data = readable(s, offset, offset + PS_RECORD_MIN);
  if (data == NULL || ps_load64(data + PS_AT_OFFSET) != offset)
    return 0;
  data = readable(s, offset, offset + size);
  ps_record record;
  return data != NULL && ps_parse(data, size, offset, &record) == PS_WHOLE;
}

/* The first such byte at or behind `from`; `size` without one. */
static uint64_t find_byte(const uint8_t *data, uint64_t from, uint64_t size,
                          int32_t byte) {
  const uint8_t *found =
      from < size ? memchr(data + from, byte, size - from) : NULL;
  return found ? (uint64_t)(found - data) : size;
}

/* Is it a magic, as far as its bytes are among the `size`? */
static int32_t may_be_magic(const uint8_t *data, uint64_t size) {
  uint32_t magic = size < 4 ? PS_MAGIC_V1 : ps_load32(data);
  return magic == PS_MAGIC_V1 || magic == PS_MAGIC_V2 ||
         magic == PS_MAGIC_BLANK;
}

/* Searches the magics that begin in the `size` bytes from `at` on. */
static uint64_t search_window(const search *s, const uint8_t *data, uint64_t at,
                              uint64_t size) {
  uint64_t record = find_byte(data, 0, size, MAGIC_BYTE);
  uint64_t blank = find_byte(data, 0, size, BLANK_BYTE);
  while (record < size || blank < size) {
    uint64_t i = record < blank ? record : blank;
    if (may_be_magic(data + i, size - i) && begins(s, at + i - PS_AT_MAGIC))
      return at + i - PS_AT_MAGIC;
    if (i == record)
      record = find_byte(data, i + 1, size, MAGIC_BYTE);
    else
      blank = find_byte(data, i + 1, size, BLANK_BYTE);
  }
  return PS_NO_OFFSET;
}

/* The magic stands 4 bytes behind the beginning of its record. */
static uint64_t search_segment(const search *s, uint64_t offset) {
  uint64_t at = offset + PS_AT_MAGIC;
  uint64_t window = WINDOW;
  while (at < s->stop) {
    /* Windows end on their own multiples, so that pages are not torn apart. */
    uint64_t end = at + window - (at - s->segment->base) % window;
    if (end > s->stop)
      end = s->stop;
    const uint8_t *data = readable(s, at, end);
    if (data == NULL && window == WINDOW) {
      window = PS_PAGE; /* only the pages that cannot be read are skipped */
      continue;
    }
    if (data != NULL) {
      uint64_t found = search_window(s, data, at, end - at);
      if (found != PS_NO_OFFSET)
        return found;
    }
    at = end;
    if ((at - s->segment->base) % WINDOW == 0)
      window = WINDOW;
  }
  return PS_NO_OFFSET;
}

ps_status ps_log_resync(ps_log *log, uint64_t offset, uint64_t limit,
                        uint64_t *found, ps_error *error) {
  *found = PS_NO_OFFSET;
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t end = ps_log_read_end(log);
  search s = {.log = log};
  status = ps_log_find_segment(log, offset, &s.segment, error);
  if (status == PS_OK) {
    s.stop = ps_segment_stop(s.segment, offset, end);
    if (s.stop > limit)
      s.stop = limit;
    *found = search_segment(&s, offset);
    ps_segment_release(&log->segments, s.segment);
  }
  ps_log_leave(log);
  return status;
}
