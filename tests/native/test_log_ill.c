/* An ill log: what is missing, short or unreadable is named, and hides nothing
 * else. */
#include "check.h"
#include "format.h"
#include "ill.h"
#include "support_log.h"

#include <errno.h>
#include <inttypes.h>

enum { SEGMENT = 12288, RECORDS = 40, BODY = 1500, MOST = 8 };

static const uint8_t zeros[SEGMENT];

/* A closed log of several segments, as PS_MODE_READ_ILL opens it. */
static store *full(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < RECORDS; i++)
    CHECK(PS_OK, store_append(s, BODY, PS_ACK_SYNCED));
  ps_log_free(s->log);
  s->log = NULL;
  s->options.mode = PS_MODE_READ_ILL;
  s->options.segment_size = 0;
  return s;
}

static const char *path_of(uint64_t base) {
  static char path[64];
  snprintf(path, sizeof path, STORE_LOG "%020" PRIu64, base);
  return path;
}

static void lose(store *s, uint64_t base) {
  CHECK(0, s->fs->env.remove(s->fs->env.self, path_of(base)));
}

/* Every record outside of [from, end) is read, and none inside. */
static void only_these_are_gone(store *s, uint64_t from, uint64_t end) {
  static uint8_t data[4096];
  for (uint32_t i = 0; i < s->count; i++) {
    const store_record *one = &s->records[i];
    int32_t is_gone = one->offset < end && one->end > from;
    uint32_t size = 0;
    ps_record record;
    ps_status status = ps_log_read(s->log, one->offset, PS_CHECK_BODY, data,
                                   sizeof data, &size, &record, &s->error);
    CHECK(is_gone ? PS_E_CORRUPT : PS_OK, status);
    if (is_gone)
      CHECK(one->offset, s->error.offset);
  }
}

/* The ranges that the log lists are these. */
static void are_ill(store *s, const uint64_t (*expected)[2], uint32_t count) {
  uint64_t from = 0;
  uint64_t offset = 0;
  uint64_t end = 0;
  for (uint32_t i = 0; i < count; i++) {
    CHECK(PS_OK, ps_log_ill(s->log, from, &offset, &end, &s->error));
    CHECK(expected[i][0], offset);
    CHECK(expected[i][1], end);
    from = end;
  }
  CHECK(PS_OK, ps_log_ill(s->log, from, &offset, &end, &s->error));
  CHECK(PS_NO_OFFSET, offset);
}

/* Wherever it stands, but for the ends, of which no file tells. */
static void a_missing_segment_hides_no_other(void) {
  for (uint64_t base = SEGMENT; base < 4 * SEGMENT; base += SEGMENT) {
    store *s = full();
    lose(s, base);
    CHECK(PS_OK, store_open(s));
    are_ill(s, &(const uint64_t[2]){base, base + SEGMENT}, 1);
    only_these_are_gone(s, base, base + SEGMENT);
    CHECK(0, store_free(s));
  }
}

/* Several at once, next to each other and not. */
static void every_missing_segment_is_listed(void) {
  store *s = full();
  lose(s, SEGMENT);
  lose(s, 2 * SEGMENT);
  lose(s, 4 * SEGMENT);
  CHECK(PS_OK, store_open(s));
  const uint64_t ranges[][2] = {{SEGMENT, 2 * SEGMENT},
                                {2 * SEGMENT, 3 * SEGMENT},
                                {4 * SEGMENT, 5 * SEGMENT}};
  are_ill(s, ranges, 3);
  CHECK(0, store_free(s));
}

/* Neither a short file nor a gap behind it says how large a segment is. */
static void a_whole_file_says_the_segment_size(void) {
  store *s = full();
  memory_at(s->fs, path_of(0))->size = 5000;
  lose(s, SEGMENT);
  CHECK(PS_OK, store_open(s));
  CHECK(SEGMENT, store_ends(s).segment_size);
  const uint64_t ranges[][2] = {{5000, SEGMENT}, {SEGMENT, 2 * SEGMENT}};
  are_ill(s, ranges, 2);
  CHECK(0, store_free(s));
}

/* A file of any size serves the records that end within it. */
static void a_short_segment_serves_what_it_has(void) {
  for (uint64_t size = 1; size < SEGMENT; size += 401)
    for (uint64_t base = 0; base < 2 * SEGMENT; base += SEGMENT) {
      store *s = full();
      memory_at(s->fs, path_of(base))->size = size;
      CHECK(PS_OK, store_open(s));
      are_ill(s, &(const uint64_t[2]){base + size, base + SEGMENT}, 1);
      only_these_are_gone(s, base + size, base + SEGMENT);
      CHECK(0, store_free(s));
    }
}

/* A scan stops before the range, and goes on behind it from there. */
static void a_scan_stops_before_an_ill_range(void) {
  store *s = full();
  memory_at(s->fs, path_of(SEGMENT))->size = 5000;
  CHECK(PS_OK, store_open(s));
  ps_cursor cursor = {.limit = PS_NO_OFFSET};
  uint32_t count = 0;
  CHECK(PS_OK, ps_log_scan(s->log, &cursor, NULL, 0, &count, &s->error));
  CHECK(PS_STOP_UNREADABLE, cursor.stop);
  CHECK_TRUE(cursor.offset <= SEGMENT + 5000);
  CHECK_TRUE(strstr(s->error.text, "has 5000 bytes, a segment here has 12288"));
  uint64_t found = 0;
  CHECK(PS_OK,
        ps_log_resync(s->log, cursor.offset, 2 * SEGMENT, &found, &s->error));
  CHECK(PS_NO_OFFSET, found);
  uint64_t before = cursor.records;
  cursor.offset = 2 * SEGMENT;
  CHECK(PS_OK, ps_log_scan(s->log, &cursor, NULL, 0, &count, &s->error));
  CHECK_TRUE(cursor.records > before);
  CHECK_TRUE(cursor.stop != PS_STOP_UNREADABLE);
  CHECK(0, store_free(s));
}

/* A block ends where the file does. */
static void a_block_ends_with_a_short_file(void) {
  store *s = full();
  memory_at(s->fs, path_of(SEGMENT))->size = 5000;
  CHECK(PS_OK, store_open(s));
  ps_block block;
  CHECK(PS_OK, ps_block_acquire(s->log, SEGMENT, SEGMENT, &block, &s->error));
  CHECK(5000, block.size);
  ps_block_release(&block);
  CHECK(PS_E_CORRUPT,
        ps_block_acquire(s->log, SEGMENT + 5000, 9, &block, &s->error));
  CHECK(SEGMENT + 5000, s->error.offset);
  CHECK(0, store_free(s));
}

/* The system's reason is in the text; once the file can be opened, it is read.
 */
static void a_segment_that_cannot_be_opened_hides_no_other(void) {
  store *s = full();
  /* One after the other is opened. */
  memory_fail(s->fs, CALL_OPEN, 2, EACCES, false);
  CHECK(PS_OK, store_open(s));
  uint64_t offset = 0;
  uint64_t end = 0;
  CHECK(PS_OK, ps_log_ill(s->log, 0, &offset, &end, &s->error));
  CHECK_TRUE(strstr(s->error.text, "Permission denied: allow this user"));
  are_ill(s, &(const uint64_t[2]){SEGMENT, 2 * SEGMENT}, 1);
  memory_fail(s->fs, CALL_OPEN, 1, EACCES, true);
  ps_block block;
  CHECK(PS_E_CORRUPT, ps_block_acquire(s->log, SEGMENT, 9, &block, &s->error));
  memory_heal(s->fs);
  only_these_are_gone(s, 0, 0);
  are_ill(s, NULL, 0);
  CHECK(0, store_free(s));
}

/* All other ways of opening refuse what is ill. */
static void the_other_modes_refuse_it(void) {
  for (uint32_t mode = PS_MODE_READ; mode <= PS_MODE_WRITE; mode++) {
    store *s = full();
    s->options.mode = mode;
    lose(s, SEGMENT);
    CHECK(PS_E_NOT_STORE, store_open(s));
    CHECK(SEGMENT, s->error.offset);
    CHECK(0, store_free(s));
  }
}

/* What holds nothing behind a gap is no part of the log, and no gap before it
 * is one. */
static void an_empty_segment_behind_a_gap_is_not_ill(void) {
  store *s = full();
  memory_put(s->fs, path_of(9 * SEGMENT), zeros, SEGMENT);
  memory_put(s->fs, path_of(12 * SEGMENT), zeros, SEGMENT);
  CHECK(PS_OK, store_open(s));
  are_ill(s, NULL, 0);
  uint64_t bases[2] = {0};
  uint32_t count = 0;
  CHECK(PS_OK, ps_log_stranded(s->log, bases, 2, &count, &s->error));
  CHECK(2, count);
  CHECK(9 * SEGMENT, bases[0]);
  ps_log_free(s->log);
  s->log = NULL;
  lose(s, SEGMENT);
  CHECK(PS_OK, store_open(s));
  are_ill(s, &(const uint64_t[2]){SEGMENT, 2 * SEGMENT}, 1);
  CHECK(PS_OK, ps_log_stranded(s->log, bases, 2, &count, &s->error));
  CHECK(2, count);
  CHECK(0, store_free(s));
}

/* ---- A listing that is not one moment ------------------------------------ */

static int32_t (*list_all)(void *self, const char *path, ps_env_visit visit,
                           void *argument);
static uint32_t listings;

typedef struct passed {
  ps_env_visit visit;
  void *argument;
} passed;

static void visit_but_one(void *argument, const char *name, int64_t size) {
  const passed *p = argument;
  if (strcmp(name, "00000000000000012288") != 0)
    p->visit(p->argument, name, size);
}

/* The first one misses a segment, as where a writer made two meanwhile. */
static int32_t list_in_part(void *self, const char *path, ps_env_visit visit,
                            void *argument) {
  passed p = {visit, argument};
  return listings++ == 0 ? list_all(self, path, visit_but_one, &p)
                         : list_all(self, path, visit, argument);
}

static void a_gap_in_one_listing_is_none(void) {
  for (uint32_t mode = PS_MODE_READ; mode <= PS_MODE_READ_ILL; mode++) {
    store *s = full();
    s->options.mode = mode;
    s->options.segment_size = SEGMENT;
    listings = 0;
    list_all = s->fs->env.list;
    s->fs->env.list = list_in_part;
    CHECK(PS_OK, store_open(s));
    CHECK(2, listings);
    are_ill(s, NULL, 0);
    CHECK(0, store_free(s));
  }
}

static int32_t (*open_one)(void *self, const char *path, int32_t mode);
static uint32_t removed_after; /* so many tries to open the first segment */
static uint32_t removed;       /* segments, from the first one on */

/* A writer deletes the oldest segments just after the first one was opened. */
static int32_t open_and_remove(void *self, const char *path, int32_t mode) {
  memory *fs = self;
  int32_t file = open_one(self, path, mode);
  if (strcmp(path, path_of(0)) == 0 && file >= 0 && removed_after > 0 &&
      --removed_after == 0)
    for (uint32_t i = 0; i < removed; i++)
      CHECK(0, fs->env.remove(self, path_of((uint64_t)i * SEGMENT)));
  return file;
}

static void segments_that_a_writer_deletes_meanwhile_are_no_gap(void) {
  for (removed = 1; removed <= 4; removed++) {
    store *s = full();
    removed_after = 1;
    open_one = s->fs->env.open;
    s->fs->env.open = open_and_remove;
    CHECK(PS_OK, store_open(s));
    CHECK(0, removed_after);
    if (removed > 1) { /* else it was there when it was looked for */
      are_ill(s, NULL, 0);
      CHECK((uint64_t)removed * SEGMENT, store_ends(s).min_offset);
    }
    CHECK(0, store_free(s));
  }
}

/* Nor does a segment that is missing further up bring them back. */
static void a_gap_above_deleted_segments_is_listed_alone(void) {
  store *s = full();
  lose(s, 3 * SEGMENT);
  removed_after = 1;
  removed = 2;
  open_one = s->fs->env.open;
  s->fs->env.open = open_and_remove;
  CHECK(PS_OK, store_open(s));
  are_ill(s, &(const uint64_t[2]){3 * SEGMENT, 4 * SEGMENT}, 1);
  CHECK(2 * SEGMENT, store_ends(s).min_offset);
  CHECK(0, store_free(s));
}

/* A file far away is no log with a hole of petabytes. */
static void a_distant_segment_is_refused(void) {
  store *s = full();
  uint8_t data[SEGMENT] = {1};
  memory_put(s->fs, path_of(SEGMENT * (UINT64_C(1) << 40)), data, SEGMENT);
  CHECK(PS_E_NOT_STORE, store_open(s));
  CHECK_TRUE(strstr(s->error.text, "segments are missing"));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_missing_segment_hides_no_other),
           CASE(every_missing_segment_is_listed),
           CASE(a_whole_file_says_the_segment_size),
           CASE(a_short_segment_serves_what_it_has),
           CASE(a_scan_stops_before_an_ill_range),
           CASE(a_block_ends_with_a_short_file),
           CASE(a_segment_that_cannot_be_opened_hides_no_other),
           CASE(the_other_modes_refuse_it),
           CASE(an_empty_segment_behind_a_gap_is_not_ill),
           CASE(a_gap_in_one_listing_is_none),
           CASE(segments_that_a_writer_deletes_meanwhile_are_no_gap),
           CASE(a_gap_above_deleted_segments_is_listed_alone),
           CASE(a_distant_segment_is_refused))
