/* Fuzz target: any bytes as a segment, compared with the slow reader. */

/* Input: checks, flags, limit (u16), then the segment. Flags: 1 a limit, 4 rows
 * (few of them), 8 the checks that need a topic or tags. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "scan.h"
#include "support_records.h"

enum { HEAD = 4, BASE = 4096, FEW = 3 };

#define MUST(claim)                                                            \
  do {                                                                         \
    if (!(claim))                                                              \
      abort();                                                                 \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Scans in windows that grow on request, each in memory of exactly its size. */
static int32_t scan_windows(ps_topics *topics, const uint8_t *segment,
                            uint64_t size, ps_cursor *cursor, ps_record *rows,
                            uint32_t *count, ps_error *error) {
  ps_scan scan;
  ps_scan_init(&scan, topics);
  for (uint64_t readable = 0;;) {
    uint8_t *exact = malloc(readable + 1);
    MUST(exact);
    memcpy(exact + 1, segment, readable);
    ps_window window = {exact + 1, BASE, size, readable};
    uint64_t wanted = 0;
    int32_t answer = ps_scan_window(&scan, &window, cursor, rows, FEW, count,
                                    &wanted, error);
    free(exact);
    if (answer != PS_SCAN_MORE)
      return answer;
    MUST(wanted > readable && wanted <= size);
    readable = wanted;
  }
}

/* Rows of the slow reader have no topic and no tags. */
static void compare_rows(const ps_record *slow, const ps_record *rows,
                         uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    ps_record row = rows[i];
    row.topic_id = PS_NO_TOPIC;
    row.tags_code = 0;
    MUST(memcmp(&slow[i], &row, sizeof row) == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  static ps_record rows[FEW];
  static ps_record slow_rows[4096];
  if (size < HEAD || size > 65536)
    return 0;
  uint32_t flags = input[1];
  ps_cursor cursor = {
      .offset = BASE, .limit = PS_NO_OFFSET, .record_start = PS_NO_OFFSET};
  cursor.checks = input[0] & ~(uint32_t)(PS_WANT_TAGS | PS_WANT_TOPIC);
  if (flags & 1)
    cursor.limit = BASE + ps_load16(input + 2);
  const uint8_t *segment = input + HEAD;
  size -= HEAD;
  ps_cursor slow = cursor;
  uint32_t slow_count = 0;
  int32_t expected = slow_scan(segment, size, BASE, &slow, slow_rows,
                               flags & 4 ? FEW : 4096, &slow_count);
  if (flags & 8)
    cursor.checks |= PS_WANT_TAGS | PS_WANT_TOPIC;
  ps_topics *topics = ps_topics_new();
  MUST(topics);
  ps_error error;
  uint32_t count = 0;
  int32_t answer = scan_windows(topics, segment, size, &cursor,
                                flags & 4 ? rows : NULL, &count, &error);
  MUST(expected == answer);
  MUST(cursor.offset == slow.offset && cursor.records == slow.records);
  MUST(cursor.record_ms == slow.record_ms && cursor.blanks == slow.blanks);
  MUST(cursor.unproved == slow.unproved && cursor.differs == slow.differs);
  if (answer >= PS_STOP_SIZE)
    MUST(error.offset == cursor.offset && memchr(error.text, 0, 496));
  if (flags & 4) {
    MUST(count == slow_count);
    compare_rows(slow_rows, rows, count);
  }
  ps_topics_free(topics);
  return 0;
}
