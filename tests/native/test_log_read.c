/* Reading: blocks, records, scans, and a reader that follows a writer. */
#include "check.h"
#include "format.h"
#include "reader.h"
#include "support_log.h"

#include <errno.h>

enum { SEGMENT = 12288 };

/* A store with a writer, and a reader that sees what another process sees. */
typedef struct pair {
  store *s;
  ps_log *reader;
  ps_live *live;
  uint32_t to; /* for hooks: the record to cut at */
} pair;

static pair *pair_new(uint32_t count) {
  pair *p = calloc(1, sizeof *p);
  p->s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(p->s));
  for (uint32_t i = 0; i < count; i++)
    CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
  CHECK(PS_OK, store_open_reader(p->s, &p->reader, &p->live));
  return p;
}

static void pair_free(pair *p) {
  ps_log_free(p->reader);
  ps_live_close(p->live);
  CHECK(0, store_free(p->s));
  free(p);
}

/* The reader sees just what the list holds. */
static void reader_agrees(pair *p) {
  ps_log *writer = p->s->log;
  p->s->log = p->reader;
  CHECK_HOLDS(store_verify(p->s, ACK_LEADER));
  p->s->log = writer;
}

/* A reader follows into every new segment, and never past the end. */
static void a_reader_follows_its_writer(void) {
  pair *p = pair_new(0);
  reader_agrees(p);
  for (uint32_t i = 0; i < 30; i++) {
    CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
    ps_block block;
    uint64_t at = p->s->records[i].offset;
    CHECK(PS_OK,
          ps_block_acquire(p->reader, at, UINT64_MAX, &block, &p->s->error));
    CHECK(p->s->records[i].end - at, block.size);
    ps_block_release(&block);
    CHECK(PS_E_RANGE, ps_block_acquire(p->reader, p->s->records[i].end, 1,
                                       &block, &p->s->error));
  }
  reader_agrees(p);
  CHECK(30, p->s->count);
  pair_free(p);
}

/* What a reader has mapped is another file once a cut has removed it and the
 * log has grown again: the reader reads the new one. */
static void a_reader_reads_a_segment_that_was_made_again(void) {
  for (uint32_t kept = 0; kept < 25; kept += 4) {
    pair *p = pair_new(30);
    reader_agrees(p); /* every segment is mapped */
    CHECK(PS_OK, store_cut(p->s, p->s->records[kept].offset));
    for (uint32_t i = 0; i < 25; i++)
      CHECK(PS_OK, store_append(p->s, 1400, PS_ACK_LEADER));
    reader_agrees(p);
    CHECK(kept + 25, p->s->count);
    pair_free(p);
  }
}

/* The same where the reader lists the directory between the first words of the
 * cut and the removal, when the old files are still there. */
static void refresh_while_cutting(void *argument, memory_call kind,
                                  int32_t file) {
  pair *p = argument;
  (void)file;
  if (kind != CALL_REMOVE)
    return;
  ps_block block;
  ps_error error;
  p->s->fs->hook = NULL;
  if (ps_block_acquire(p->reader, p->s->intent - 10, 10, &block, &error) ==
      PS_OK)
    ps_block_release(&block);
  else
    CHECK_TEXT("", error.text);
}

static void a_reader_that_refreshes_during_a_cut_reads_on_after_it(void) {
  pair *p = pair_new(30);
  reader_agrees(p);
  p->s->fs->hook_argument = p;
  p->s->fs->hook = refresh_while_cutting;
  CHECK(PS_OK, store_cut(p->s, p->s->records[4].offset));
  CHECK_TRUE(p->s->fs->hook == NULL);
  for (uint32_t i = 0; i < 25; i++)
    CHECK(PS_OK, store_append(p->s, 1400, PS_ACK_LEADER));
  reader_agrees(p);
  CHECK(29, p->s->count);
  pair_free(p);
}

/* While the reader makes its pages readable, the log is cut and grows on. */
static void cut_and_grow(void *argument, memory_call kind, int32_t file) {
  pair *p = argument;
  (void)file;
  if (kind != CALL_POPULATE)
    return;
  p->s->fs->hook = NULL;
  CHECK(PS_OK, store_cut(p->s, p->s->records[p->to].offset));
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
}

static void arm(pair *p, uint32_t to) {
  p->to = to;
  p->s->fs->hook_argument = p;
  p->s->fs->hook = cut_and_grow;
}

/* A block, a record or rows that a cut reached while they were read are void:
 * the call says so. Those below the cut are not. */
static void what_a_cut_reached_is_void(void) {
  for (uint32_t to = 0; to < 20; to += 3) {
    for (uint32_t at = 0; at < 20; at += 3) {
      pair *p = pair_new(20);
      ps_error *error = &p->s->error;
      uint64_t offset = p->s->records[at].offset;
      ps_status expected = at < to ? PS_OK : PS_E_CUT;
      ps_block block;
      arm(p, to);
      CHECK(expected, ps_block_acquire(p->reader, offset, 1000, &block, error));
      if (expected == PS_OK)
        ps_block_release(&block);
      offset = p->s->records[at].offset;
      uint8_t buffer[4096];
      uint32_t size = 0;
      ps_record record;
      arm(p, to);
      CHECK(expected, ps_log_read(p->reader, offset, PS_CHECK_BODY, buffer,
                                  sizeof buffer, &size, &record, error));
      ps_record rows[1];
      uint32_t count = 0;
      ps_cursor cursor = {.offset = p->s->records[at].offset,
                          .limit = PS_NO_OFFSET,
                          .checks = PS_CHECK_BODY | PS_CHECK_OFFSET};
      arm(p, to);
      CHECK(expected, ps_log_scan(p->reader, &cursor, rows, 1, &count, error));
      pair_free(p);
    }
  }
}

/* A scan whose very first record a cut zeroed does not call it corrupt. */
static void a_record_zeroed_by_a_cut_is_not_corrupt(void) {
  pair *p = pair_new(20);
  uint32_t count = 0;
  ps_cursor cursor = {.offset = p->s->records[15].offset,
                      .limit = PS_NO_OFFSET,
                      .checks = PS_CHECK_BODY | PS_CHECK_OFFSET};
  arm(p, 2);
  CHECK(PS_E_CUT,
        ps_log_scan(p->reader, &cursor, NULL, 0, &count, &p->s->error));
  pair_free(p);
}

/* What was read before a cut can be asked about afterwards. */
static void a_reader_asks_whether_what_it_read_still_holds(void) {
  pair *p = pair_new(20);
  uint64_t generation = store_ends(p->s).cut_generation;
  uint64_t cut = p->s->records[7].offset;
  ps_error *error = &p->s->error;
  CHECK(PS_OK, ps_log_unchanged(p->reader, generation, PS_NO_OFFSET, error));
  CHECK(PS_OK, store_cut(p->s, cut));
  CHECK(PS_OK, ps_log_unchanged(p->reader, generation, cut, error));
  CHECK(PS_E_CUT, ps_log_unchanged(p->reader, generation, cut + 1, error));
  CHECK(cut, error->offset);
  CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
  CHECK(PS_OK, store_cut(p->s, store_ends(p->s).published_end));
  /* Of two cuts only the newer is known, so the answer is the careful one. */
  CHECK(PS_E_CUT, ps_log_unchanged(p->reader, generation, 10, error));
  pair_free(p);
}

/* Segments that retention removed are out of range for a reader, too. */
static void a_reader_follows_deletions(void) {
  pair *p = pair_new(30);
  reader_agrees(p);
  uint32_t removed = 0;
  CHECK(PS_OK,
        ps_log_delete_before(p->s->log, 2 * SEGMENT, &removed, &p->s->error));
  ps_ends ends;
  CHECK(PS_OK, ps_log_ends(p->reader, &ends, &p->s->error));
  CHECK(2 * SEGMENT, ends.min_offset);
  for (uint32_t i = 0; i < 25; i++)
    CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
  reader_agrees(p);
  CHECK(55, p->s->count);
  pair_free(p);
}

/* A reader that awaits a writer has its own end until one begins. */
static void a_reader_follows_the_writer_that_it_awaited(void) {
  pair *p = pair_new(9);
  ps_error *error = &p->s->error;
  ps_live_words seen;
  ps_live_read(p->live, &seen);
  ps_live_words words = seen;
  words.incarnation++;
  ps_log_free(p->reader);
  ps_live_close(p->live);
  CHECK(PS_OK, store_open_reader(p->s, &p->reader, &p->live));
  CHECK(PS_OK, ps_log_await(p->reader, &seen, error));
  ps_ends ends;
  CHECK(PS_OK, ps_log_ends(p->reader, &ends, error));
  CHECK(2 * SEGMENT, ends.published_end);
  CHECK(0, ends.synced_end);
  CHECK(PS_OK, ps_log_limit(p->reader, p->s->records[4].end, error));
  CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_SYNCED));
  CHECK(PS_OK, ps_log_ends(p->reader, &ends, error));
  CHECK(p->s->records[4].end, ends.published_end);
  /* It begins with what the page has. */
  ps_live_read(p->live, &seen);
  words.published_end = seen.published_end;
  words.synced_end = seen.synced_end;
  CHECK(PS_OK, ps_live_begin(p->s->live, &words, error));
  CHECK(PS_OK, ps_log_limit(p->reader, p->s->records[4].end, error));
  CHECK(PS_OK, ps_log_ends(p->reader, &ends, error));
  CHECK(p->s->records[9].end, ends.published_end);
  CHECK(p->s->records[9].end, ends.synced_end);
  words.incarnation--;
  CHECK(PS_OK, ps_live_begin(p->s->live, &words, error));
  CHECK(PS_E_INVALID, ps_log_await(p->s->log, &seen, error));
  reader_agrees(p);
  pair_free(p);
}

/* A scan does not go on where a cut has put other records meanwhile. */
static void a_scan_hears_of_a_cut_between_two_calls(void) {
  pair *p = pair_new(9);
  ps_error *error = &p->s->error;
  ps_record rows[6];
  uint32_t count = 0;
  ps_cursor below = {.limit = PS_NO_OFFSET};
  ps_cursor above = {.limit = PS_NO_OFFSET};
  CHECK(PS_OK, ps_log_scan(p->reader, &below, rows, 3, &count, error));
  CHECK(PS_OK, ps_log_scan(p->reader, &above, rows, 4, &count, error));
  CHECK(PS_OK, store_cut(p->s, p->s->records[3].offset));
  for (uint32_t i = 0; i < 6; i++)
    CHECK(PS_OK, store_append(p->s, 1500, PS_ACK_LEADER));
  CHECK(PS_OK, ps_log_scan(p->reader, &below, rows, 6, &count, error));
  CHECK(6, count);
  CHECK(PS_E_CUT, ps_log_scan(p->reader, &above, rows, 6, &count, error));
  CHECK(p->s->records[3].offset, error->offset);
  pair_free(p);
}

/* Without a live page a reader sees what it is told to. */
static void a_reader_without_a_live_page_has_a_limit(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 9; i++)
    CHECK(PS_OK, store_append(s, 1500, PS_ACK_LEADER));
  ps_log *writer = s->log;
  uint64_t end = s->records[4].end;
  s->options.mode = PS_MODE_READ;
  CHECK(PS_OK, store_open(s));
  CHECK(2 * SEGMENT, store_ends(s).published_end);
  CHECK(PS_E_RANGE, ps_log_limit(s->log, 2 * SEGMENT + 1, &s->error));
  CHECK(PS_OK, ps_log_limit(s->log, end, &s->error));
  CHECK(end, store_ends(s).published_end);
  ps_block block;
  CHECK(PS_E_RANGE, ps_block_acquire(s->log, end, 1, &block, &s->error));
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(5, s->count);
  CHECK(PS_E_INVALID, ps_log_limit(writer, end, &s->error));
  ps_log_free(writer);
  CHECK(0, store_free(s));
}

/* A file that another program cut short is an error with the offset, not a
 * signal; a scan stops there. */
static void a_file_cut_short_is_an_error(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 9; i++)
    CHECK(PS_OK, store_append(s, 1000, PS_ACK_LEADER));
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  for (uint32_t mapped = 0; mapped < 2; mapped++) {
    file->size = MEMORY_PAGE;
    ps_block block;
    CHECK(PS_E_CORRUPT,
          ps_block_acquire(s->log, 4000, 5000, &block, &s->error));
    CHECK(4000, s->error.offset);
    ps_cursor cursor = {.limit = PS_NO_OFFSET};
    uint32_t count = 0;
    CHECK(PS_OK, ps_log_scan(s->log, &cursor, NULL, 0, &count, &s->error));
    CHECK(PS_STOP_UNREADABLE, cursor.stop);
    file->size = SEGMENT;
    CHECK_HOLDS(store_verify(s, ACK_LEADER)); /* now it is mapped */
  }
  CHECK(0, store_free(s));
}

/* An entry of a consume queue leads to its record; a filler, half an entry and
 * one that cannot be read lead nowhere. */
static void an_entry_leads_to_its_record(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 3; i++)
    CHECK(PS_OK, store_append(s, 1000, PS_ACK_LEADER));
  uint8_t entries[2 * PS_QUEUE_ENTRY + 7] = {0};
  ps_store64(entries, s->records[2].offset);
  ps_store32(entries + 8, 1234);
  ps_store32(entries + PS_QUEUE_ENTRY + 8, INT32_MAX);
  memory_put(s->fs, "queue", entries, sizeof entries);
  int32_t file = s->fs->env.open(s->fs, "queue", PS_FILE_READ);
  uint8_t buffer[4096];
  uint32_t size = 0;
  ps_record record;
  ps_error *error = &s->error;
  CHECK(PS_OK, ps_log_read_entry(s->log, file, 0, PS_CHECK_BODY, buffer,
                                 sizeof buffer, &size, &record, error));
  CHECK(s->records[2].offset, record.offset);
  CHECK(1000, record.body_size);
  for (uint64_t at = PS_QUEUE_ENTRY; at < 4 * PS_QUEUE_ENTRY;
       at += PS_QUEUE_ENTRY)
    CHECK(PS_E_RANGE, ps_log_read_entry(s->log, file, at, PS_CHECK_BODY, buffer,
                                        sizeof buffer, &size, &record, error));
  memory_fail(s->fs, CALL_READ, 1, EIO, false);
  CHECK(PS_E_IO, ps_log_read_entry(s->log, file, 0, PS_CHECK_BODY, buffer,
                                   sizeof buffer, &size, &record, error));
  s->fs->env.close(s->fs, file);
  CHECK(0, store_free(s));
}

/* What is mapped ahead ends with the segment and with the log. */
static void a_range_is_mapped_ahead_within_its_segment(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 20; i++)
    CHECK(PS_OK, store_append(s, 1000, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end;
  uint64_t size = 100000;
  CHECK(PS_OK, ps_log_populate(s->log, 5000, &size, &s->error));
  CHECK(SEGMENT - 5000, size);
  size = 100000;
  CHECK(PS_OK, ps_log_populate(s->log, end - 7, &size, &s->error));
  CHECK(7, size);
  CHECK(PS_E_RANGE, ps_log_populate(s->log, end, &size, &s->error));
  memory_at(s->fs, STORE_LOG "00000000000000000000")->size = MEMORY_PAGE;
  size = 100;
  CHECK(PS_E_CORRUPT, ps_log_populate(s->log, 5000, &size, &s->error));
  CHECK(0, store_free(s));
}

/* A record is copied whole, or its size is told. */
static void a_record_that_does_not_fit_tells_its_size(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 9000, PS_ACK_LEADER));
  uint8_t *buffer = malloc(SEGMENT);
  uint32_t size = 0;
  ps_record record;
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_E_SPACE, ps_log_read(s->log, 0, PS_CHECK_BODY, buffer, 100, &size,
                                &record, &s->error));
  CHECK(end, size);
  CHECK(PS_OK, ps_log_read(s->log, 0, PS_CHECK_BODY, buffer, size, &size,
                           &record, &s->error));
  CHECK(9000, record.body_size);
  CHECK(PS_E_CORRUPT, ps_log_read(s->log, 9, PS_CHECK_BODY, buffer, SEGMENT,
                                  &size, &record, &s->error));
  CHECK(PS_E_RANGE, ps_log_read(s->log, end, PS_CHECK_BODY, buffer, SEGMENT,
                                &size, &record, &s->error));
  free(buffer);
  CHECK(0, store_free(s));
}

/* A read that checks bodies refuses one that was changed on disk; one that does
 * not delivers it. */
static void a_changed_body_is_not_delivered(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  CHECK(PS_OK, store_append(s, 300, PS_ACK_LEADER));
  uint64_t offset = s->records[1].offset;
  uint8_t buffer[1000];
  uint32_t size = 0;
  ps_record record;
  CHECK(PS_OK, ps_log_read(s->log, offset, PS_CHECK_BODY, buffer, sizeof buffer,
                           &size, &record, &s->error));
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  REQUIRE(file != NULL);
  file->cache[offset + record.body_at + 299] ^= 1;
  CHECK(PS_E_CORRUPT, ps_log_read(s->log, offset, PS_CHECK_BODY, buffer,
                                  sizeof buffer, &size, &record, &s->error));
  CHECK(offset, s->error.offset);
  CHECK(PS_OK, ps_log_read(s->log, offset, 0, buffer, sizeof buffer, &size,
                           &record, &s->error));
  CHECK(0, store_free(s));
}

/* A block outlives the closing of its log. */
static void a_block_outlives_the_closing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 1000, PS_ACK_LEADER));
  ps_block block;
  CHECK(PS_OK, ps_block_acquire(s->log, 0, 5000, &block, &s->error));
  CHECK(PS_E_INVALID, ps_block_acquire(s->log, 0, 0, &block, &s->error));
  uint8_t *copy = malloc(block.size);
  memcpy(copy, block.data, block.size);
  CHECK(PS_OK, ps_log_close(s->log, &s->error));
  CHECK_BYTES(copy, block.data, block.size);
  CHECK(1, s->fs->mappings);
  ps_block_release(&block);
  CHECK(0, s->fs->mappings);
  free(copy);
  CHECK(0, store_free(s));
}

/* And its freeing: a garbage collector frees in any order. The mapping and the
 * lock that guards it stay as long as the block. */
static void a_block_outlives_its_log(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 1000, PS_ACK_LEADER));
  ps_block blocks[2];
  for (uint32_t i = 0; i < 2; i++)
    CHECK(PS_OK, ps_block_acquire(s->log, i, 900, &blocks[i], &s->error));
  uint8_t copy[900];
  memcpy(copy, blocks[1].data, sizeof copy);
  ps_log_free(s->log);
  s->log = NULL;
  ps_block_release(&blocks[0]);
  CHECK(1, s->fs->mappings);
  CHECK_BYTES(copy, blocks[1].data, sizeof copy);
  ps_block_release(&blocks[1]);
  CHECK(0, s->fs->mappings);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_reader_follows_its_writer),
           CASE(a_reader_reads_a_segment_that_was_made_again),
           CASE(a_reader_that_refreshes_during_a_cut_reads_on_after_it),
           CASE(what_a_cut_reached_is_void),
           CASE(a_record_zeroed_by_a_cut_is_not_corrupt),
           CASE(a_reader_asks_whether_what_it_read_still_holds),
           CASE(a_reader_follows_deletions),
           CASE(a_reader_follows_the_writer_that_it_awaited),
           CASE(a_scan_hears_of_a_cut_between_two_calls),
           CASE(a_reader_without_a_live_page_has_a_limit),
           CASE(a_file_cut_short_is_an_error),
           CASE(an_entry_leads_to_its_record),
           CASE(a_range_is_mapped_ahead_within_its_segment),
           CASE(a_record_that_does_not_fit_tells_its_size),
           CASE(a_changed_body_is_not_delivered),
           CASE(a_block_outlives_the_closing), CASE(a_block_outlives_its_log))
