/* The next record behind damage: found by what proves its place, and only so.
 */
#include "check.h"
#include "format.h"
#include "support_log.h"
#include "support_records.h"

#include <errno.h>

enum { SEGMENT = 12288, LARGE = 2 * 1048576 + 3 * MEMORY_PAGE };

#define BASE_NAME STORE_LOG "00000000000000000000"

/* The bytes of a log's first segment, as every mapping sees them. */
static uint8_t *bytes_of(store *s) {
  return memory_at(s->fs, BASE_NAME)->cache;
}

/* A log of `count` records with bodies of `body` bytes. */
static store *store_with(uint64_t segment, uint32_t count, uint32_t body) {
  store *s = store_new(segment);
  for (uint32_t i = 0; i < count; i++)
    CHECK(PS_OK, store_append(s, body, PS_ACK_LEADER));
  return s;
}

static uint64_t found_from(store *s, uint64_t offset, uint64_t limit) {
  uint64_t found = 7;
  CHECK(PS_OK, ps_log_resync(s->log, offset, limit, &found, &s->error));
  return found;
}

/* ---- Pages that cannot be read ------------------------------------------ */

enum { PAGES = LARGE / MEMORY_PAGE };

static bool is_bad_page[PAGES];
static int32_t (*populate_good)(void *self, int32_t file, const uint8_t *data,
                                uint64_t at, uint64_t size);
static uint32_t populated; /* calls */

static int32_t populate_some(void *self, int32_t file, const uint8_t *data,
                             uint64_t at, uint64_t size) {
  populated++;
  for (uint64_t page = at / MEMORY_PAGE; page * MEMORY_PAGE < at + size; page++)
    if (is_bad_page[page])
      return -EIO;
  return populate_good(self, file, data, at, size);
}

/* From now on some pages of the log, none at first, cannot be read. */
static void watch_pages(store *s) {
  memset(is_bad_page, 0, sizeof is_bad_page);
  populated = 0;
  populate_good = s->fs->env.populate;
  s->fs->env.populate = populate_some;
}

/* ---- Against a slow reader ---------------------------------------------- */

static bool is_readable(uint64_t from, uint64_t size) {
  for (uint64_t at = from; at < from + size; at++)
    if (is_bad_page[at / MEMORY_PAGE])
      return false;
  return true;
}

/* Tries every offset of the first segment, byte by byte. */
static uint64_t slow_resync(const uint8_t *bytes, uint64_t segment,
                            uint64_t offset, uint64_t stop) {
  for (; offset + 8 <= stop; offset++) {
    ps_record record;
    uint32_t reason = slow_read(bytes + offset, segment - offset, offset,
                                PS_CHECK_OFFSET, &record);
    if (reason == SLOW_BLANK && segment <= stop && is_readable(offset, 8))
      return offset;
    if (reason == 0 && record.size <= stop - offset &&
        is_readable(offset, record.size))
      return offset;
  }
  return PS_NO_OFFSET;
}

/* Flips bits near the starts of records, zeroes a page, copies a record. */
static void damage(store *s, uint8_t *bytes) {
  uint64_t at = s->records[check_random() % s->count].offset % SEGMENT;
  for (uint64_t left = check_random() % 12; left > 0; left--) {
    uint64_t start = s->records[check_random() % s->count].offset;
    start = (start + check_random() % 40) % SEGMENT;
    bytes[start] ^= (uint8_t)(1 << check_random() % 8);
  }
  if (check_random() % 4 == 0)
    memset(bytes + check_random() % 3 * MEMORY_PAGE, 0, MEMORY_PAGE);
  if (check_random() % 4 == 0)
    memmove(bytes + check_random() % (SEGMENT - 200), bytes + at % 12000, 200);
  for (uint32_t page = 0; page < 3; page++)
    is_bad_page[page] = check_random() % 8 == 0;
}

/* Whatever the damage, the same is found as by trying every offset; the seed
 * is printed with a difference. */
static void random_damage_equals_the_slow_reader(void) {
  static uint8_t whole[SEGMENT];
  store *s = store_with(SEGMENT, 0, 0);
  while (store_ends(s).published_end <= SEGMENT)
    CHECK(PS_OK,
          store_append(s, 8 + (uint32_t)(check_random() % 900), PS_ACK_LEADER));
  s->count--; /* it is in the next segment */
  uint8_t *bytes = bytes_of(s);
  memcpy(whole, bytes, SEGMENT);
  watch_pages(s);
  uint32_t hits = 0;
  for (uint32_t round = 0; round < 4000 && check_failures == 0; round++) {
    memcpy(bytes, whole, SEGMENT);
    damage(s, bytes);
    uint64_t offset = check_random() % SEGMENT;
    uint64_t limit = PS_NO_OFFSET;
    if (check_random() & 1)
      limit = check_random() % (SEGMENT + 100);
    uint64_t stop = limit < SEGMENT ? limit : SEGMENT;
    uint64_t expected = slow_resync(bytes, SEGMENT, offset, stop);
    if (!CHECK(expected, found_from(s, offset, limit)))
      fprintf(stderr,
              "from %" PRIu64 ", limit %" PRIu64 ", round %" PRIu32
              ", PS_SEED=%" PRIu64 "\n",
              offset, limit, round, check_seed);
    hits += expected != PS_NO_OFFSET;
  }
  CHECK_TRUE(hits > 1000);
  CHECK(0, store_free(s));
}

/* ---- What is found ------------------------------------------------------ */

/* Behind a flipped byte of a record's size or magic the next record is found,
 * and the bad one is not, also if the search begins at it. */
static void the_next_record_behind_a_flipped_head_is_found(void) {
  store *s = store_with(SEGMENT, 9, 1000);
  uint8_t *bytes = bytes_of(s);
  for (uint32_t i = 0; i < 7; i++) {
    uint64_t offset = s->records[i].offset;
    CHECK(offset, found_from(s, offset, PS_NO_OFFSET));
    for (uint32_t at = 0; at < PS_AT_MAGIC + 4; at++) {
      bytes[offset + at] ^= 0x11;
      CHECK(s->records[i].end, found_from(s, offset, PS_NO_OFFSET));
      CHECK(s->records[i].end, found_from(s, offset + 1, PS_NO_OFFSET));
      bytes[offset + at] ^= 0x11;
    }
  }
  CHECK(0, store_free(s));
}

/* Behind a zeroed page the first record that begins behind it is found. */
static void the_next_record_behind_a_zeroed_page_is_found(void) {
  store *s = store_with(SEGMENT, 9, 1000);
  uint32_t next = 0;
  while (s->records[next].offset < 2 * MEMORY_PAGE)
    next++;
  memset(bytes_of(s) + MEMORY_PAGE, 0, MEMORY_PAGE);
  CHECK(s->records[next].offset, found_from(s, MEMORY_PAGE, PS_NO_OFFSET));
  CHECK(0, store_free(s));
}

/* A blank record is found if its size is that of the rest, and it is all below
 * the limit; then it ends the segment. */
static void a_blank_record_is_found(void) {
  store *s = store_with(SEGMENT, 20, 1000);
  uint8_t *bytes = bytes_of(s);
  uint32_t last = 0;
  while (s->records[last + 1].offset < SEGMENT)
    last++;
  uint64_t blank = s->records[last].end;
  CHECK(PS_MAGIC_BLANK, ps_load32(bytes + blank + PS_AT_MAGIC));
  uint64_t from = s->records[last].offset + 1;
  CHECK(blank, found_from(s, from, PS_NO_OFFSET));
  CHECK(blank, found_from(s, blank, SEGMENT));
  CHECK(PS_NO_OFFSET, found_from(s, from, SEGMENT - 1));
  CHECK(PS_NO_OFFSET, found_from(s, from, blank + PS_BLANK_SIZE));
  bytes[blank + 3] ^= 1;
  CHECK(PS_NO_OFFSET, found_from(s, from, PS_NO_OFFSET));
  CHECK(0, store_free(s));
}

/* A whole record within a body is passed over, since it says it is elsewhere;
 * one that says it is there proves its place, right or not. */
static void a_record_within_a_body_is_passed_over(void) {
  store *s = store_with(SEGMENT, 4, 1000);
  uint8_t *bytes = bytes_of(s);
  uint64_t inner = s->records[2].offset + 300;
  uint32_t size = 200;
  memcpy(bytes + inner, bytes, 100);
  ps_store32(bytes + inner, size);
  ps_store32(bytes + inner + PS_AT_BODY + 16 - 4, 50);
  bytes[inner + 88 + 50] = 5; /* the topic */
  ps_store16(bytes + inner + 88 + 50 + 6, (uint16_t)(size - 88 - 50 - 8));
  ps_record record;
  CHECK(PS_OK,
        ps_record_check(bytes + inner, size, inner, 0, &record, &s->error));
  CHECK(0, ps_load64(bytes + inner + PS_AT_OFFSET));
  uint64_t from = s->records[2].offset + 1;
  CHECK(s->records[3].offset, found_from(s, from, PS_NO_OFFSET));
  ps_store64(bytes + inner + PS_AT_OFFSET, inner);
  CHECK(inner, found_from(s, from, PS_NO_OFFSET));
  bytes[inner + 88 + 50 + 7] ^= 1; /* the lengths do not add up */
  CHECK(s->records[3].offset, found_from(s, from, PS_NO_OFFSET));
  CHECK(0, store_free(s));
}

/* ---- Where the search ends ---------------------------------------------- */

/* What is found ends at or below the limit, the end of the log and that of the
 * segment, in which the search stays. */
static void the_search_stays_below_its_limit(void) {
  store *s = store_with(SEGMENT, 20, 1000);
  uint64_t from = s->records[1].offset + 1;
  CHECK(s->records[2].offset, found_from(s, from, s->records[2].end));
  for (uint64_t limit = from - 9; limit < s->records[2].end; limit++)
    CHECK(PS_NO_OFFSET, found_from(s, from, limit));
  uint32_t next = 0;
  while (s->records[next].offset < SEGMENT)
    next++;
  memset(bytes_of(s) + s->records[next - 1].offset, 0,
         SEGMENT - s->records[next - 1].offset);
  from = s->records[next - 1].offset;
  CHECK(PS_NO_OFFSET, found_from(s, from, PS_NO_OFFSET));
  CHECK(SEGMENT, found_from(s, SEGMENT, PS_NO_OFFSET));
  ps_log *writer = s->log;
  s->options.mode = PS_MODE_READ;
  CHECK(PS_OK, store_open(s));
  CHECK(PS_OK, ps_log_limit(s->log, s->records[2].end - 1, &s->error));
  CHECK(PS_NO_OFFSET, found_from(s, s->records[2].offset, PS_NO_OFFSET));
  CHECK(PS_OK, ps_log_limit(s->log, s->records[2].end, &s->error));
  CHECK(s->records[2].offset,
        found_from(s, s->records[2].offset, PS_NO_OFFSET));
  ps_log_free(writer);
  CHECK(0, store_free(s));
}

/* Where nothing proves its place there is no offset, and where no segment is
 * there is no search. */
static void nothing_is_found_where_nothing_is(void) {
  store *s = store_with(SEGMENT, 3, 1000);
  uint64_t end = store_ends(s).published_end;
  uint64_t found = 7;
  CHECK(PS_NO_OFFSET, found_from(s, s->records[2].offset + 1, PS_NO_OFFSET));
  for (uint64_t offset = end - 9; offset < end + 9; offset++)
    CHECK(PS_NO_OFFSET, found_from(s, offset, PS_NO_OFFSET));
  CHECK(PS_NO_OFFSET, found_from(s, SEGMENT - 1, PS_NO_OFFSET));
  memset(bytes_of(s), 0, SEGMENT);
  CHECK(PS_NO_OFFSET, found_from(s, 0, PS_NO_OFFSET));
  memset(bytes_of(s), 0xDA, SEGMENT);
  CHECK(PS_NO_OFFSET, found_from(s, 0, PS_NO_OFFSET));
  memset(bytes_of(s), 0xCB, SEGMENT);
  CHECK(PS_NO_OFFSET, found_from(s, 0, PS_NO_OFFSET));
  CHECK(PS_E_RANGE,
        ps_log_resync(s->log, SEGMENT, PS_NO_OFFSET, &found, &s->error));
  CHECK(PS_NO_OFFSET, found);
  CHECK(SEGMENT, s->error.offset);
  CHECK(0, store_free(s));
}

/* ---- What cannot be read ------------------------------------------------ */

/* Only the pages that cannot be read are passed over: the first record wholly
 * in the others is found, wherever the search begins. */
static void pages_that_cannot_be_read_are_passed_over(void) {
  store *s = store_with(SEGMENT, 9, 1000);
  uint64_t end = store_ends(s).published_end;
  watch_pages(s);
  for (uint32_t bad = 1; bad < 8; bad++) {
    for (uint32_t page = 0; page < 3; page++)
      is_bad_page[page] = bad >> page & 1;
    for (uint64_t from = 0; from < end && check_failures == 0; from += 7) {
      uint64_t expected = slow_resync(bytes_of(s), SEGMENT, from, end);
      if (!CHECK(expected, found_from(s, from, PS_NO_OFFSET)))
        fprintf(stderr, "from %" PRIu64 ", pages %" PRIu32 "\n", from, bad);
    }
  }
  CHECK(PS_NO_OFFSET, found_from(s, 0, PS_NO_OFFSET)); /* all are bad */
  CHECK(0, store_free(s));
}

/* Where reading fails throughout, nothing is found; where it failed once, the
 * same is found as without. */
static void a_failed_read_is_passed_over(void) {
  store *s = store_with(SEGMENT, 9, 1000);
  memory_fail(s->fs, CALL_POPULATE, 1, EIO, true);
  CHECK(PS_NO_OFFSET, found_from(s, 1, PS_NO_OFFSET));
  CHECK_TRUE(s->fs->faults_fired > 0);
  memory_heal(s->fs);
  memory_fail(s->fs, CALL_POPULATE, 1, EIO, false);
  CHECK(s->records[1].offset, found_from(s, 1, PS_NO_OFFSET));
  CHECK(1, s->fs->faults_fired);
  CHECK(0, store_free(s));
}

/* In a large segment, records are found on every side of where the search
 * takes up its next piece, and one bad page hides no other. */
static void a_record_is_found_across_the_pieces_of_a_search(void) {
  store *s = store_with(LARGE, 1, 20000);
  uint8_t *bytes = bytes_of(s);
  uint8_t head[MEMORY_PAGE];
  while (store_ends(s).published_end < 2 * 1048576 + MEMORY_PAGE)
    CHECK(PS_OK, store_append(s, 20000, PS_ACK_LEADER));
  memcpy(head, bytes, sizeof head);
  memset(bytes, 0, LARGE);
  watch_pages(s);
  ps_store32(head, 200);
  ps_store32(head + PS_AT_BODY + 16 - 4, 88);
  memset(head + 88 + 88, 0, 24);
  ps_store16(head + 88 + 88 + 1, 200 - 88 - 88 - 3);
  for (uint64_t shift = 0; shift < 210; shift++) {
    uint64_t at = 1048576 - shift;
    ps_store64(head + PS_AT_OFFSET, at);
    memcpy(bytes + at, head, 200);
    CHECK(at, found_from(s, 5, PS_NO_OFFSET));
    CHECK(at, found_from(s, at, PS_NO_OFFSET));
    is_bad_page[3] = is_bad_page[at / MEMORY_PAGE - 1] = true;
    CHECK(at, found_from(s, 5, PS_NO_OFFSET));
    is_bad_page[3] = is_bad_page[at / MEMORY_PAGE - 1] = false;
    memset(bytes + at, 0, 200);
  }
  memset(bytes, 0xCB, LARGE); /* no magic, however often its first byte */
  populated = 0;
  CHECK(PS_NO_OFFSET, found_from(s, 5, PS_NO_OFFSET));
  CHECK_TRUE(populated < 10);
  is_bad_page[3] = true; /* its megabyte is read page by page, no other */
  CHECK(PS_NO_OFFSET, found_from(s, 5, PS_NO_OFFSET));
  CHECK_TRUE(populated < 1100);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(random_damage_equals_the_slow_reader),
           CASE(the_next_record_behind_a_flipped_head_is_found),
           CASE(the_next_record_behind_a_zeroed_page_is_found),
           CASE(a_blank_record_is_found),
           CASE(a_record_within_a_body_is_passed_over),
           CASE(the_search_stays_below_its_limit),
           CASE(nothing_is_found_where_nothing_is),
           CASE(pages_that_cannot_be_read_are_passed_over),
           CASE(a_failed_read_is_passed_over),
           CASE(a_record_is_found_across_the_pieces_of_a_search))
