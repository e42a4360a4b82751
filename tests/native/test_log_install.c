/* A repaired segment becomes the log's, and readers see it. */
#include "check.h"
#include "control.h"
#include "support_log.h"

#include <errno.h>
#include <inttypes.h>

enum { SEGMENT = 12288, BODY = 1500, RECORDS = 40 };

static const char *path_of(uint64_t base) {
  static char path[64];
  snprintf(path, sizeof path, STORE_LOG "%020" PRIu64, base);
  return path;
}

static const char *pulled_of(uint64_t base) {
  static char path[64];
  snprintf(path, sizeof path, STORE_ROOT "/meta/tmp/%020" PRIu64 ".pull", base);
  return path;
}

/* A log of several synced segments; `bytes` is a copy of it. */
static store *full(uint8_t *bytes) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  for (uint32_t i = 0; i < RECORDS; i++)
    CHECK(PS_OK, store_append(s, BODY, PS_ACK_SYNCED));
  uint64_t end = store_ends(s).published_end;
  CHECK(PS_OK, store_copy(s->log, 0, end, bytes, &s->error));
  return s;
}

static void write_pulled(store *s, uint64_t base, const uint8_t *bytes,
                         uint64_t size) {
  const ps_env *env = &s->fs->env;
  int32_t file = env->open(env->self, pulled_of(base), PS_FILE_CREATE);
  CHECK_TRUE(file >= 0);
  CHECK(0, env->allocate(env->self, file, 0, size));
  CHECK((int64_t)size, env->write(env->self, file, bytes + base, size, 0));
  CHECK(0, env->close(env->self, file));
}

static void lose(store *s, uint64_t base) {
  CHECK(0, s->fs->env.remove(s->fs->env.self, path_of(base)));
}

static ps_status read_first(ps_log *log, uint64_t base, ps_error *error) {
  static uint8_t data[4096];
  uint32_t size = 0;
  ps_record record;
  return ps_log_read(log, base, PS_CHECK_BODY, data, sizeof data, &size,
                     &record, error);
}

static uint8_t original[8 * SEGMENT];

static uint64_t last_base(store *s) {
  uint64_t end = store_ends(s).published_end;
  return end - end % SEGMENT;
}

/* The writer and an open reader have mapped a damaged file that was moved away:
 * both read the new one, and a block that is held stays as it was. */
static void a_damaged_segment_is_replaced_under_writer_and_reader(void) {
  store *s = full(original);
  ps_log *reader = NULL;
  ps_live *live = NULL;
  memory_at(s->fs, path_of(SEGMENT))->cache[100] ^= 1;
  CHECK(PS_OK, store_open_reader(s, &reader, &live));
  CHECK(PS_E_CORRUPT, read_first(reader, SEGMENT, &s->error));
  CHECK(PS_E_CORRUPT, read_first(s->log, SEGMENT, &s->error));
  ps_block held;
  CHECK(PS_OK, ps_block_acquire(s->log, SEGMENT, SEGMENT, &held, &s->error));
  write_pulled(s, SEGMENT, original, SEGMENT);
  CHECK(PS_OK, ps_log_install(s->log, SEGMENT, &s->error));
  CHECK(PS_OK, read_first(s->log, SEGMENT, &s->error));
  CHECK(PS_OK, read_first(reader, SEGMENT, &s->error));
  CHECK(original[SEGMENT + 100] ^ 1, held.data[100]);
  ps_block_release(&held);
  ps_log_free(reader);
  ps_live_close(live);
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

/* A scan of a reader goes on in the new file. */
static void a_scan_goes_on_in_the_new_file(void) {
  store *s = full(original);
  ps_log *reader = NULL;
  ps_live *live = NULL;
  memory_at(s->fs, path_of(SEGMENT))->cache[100] ^= 1;
  CHECK(PS_OK, store_open_reader(s, &reader, &live));
  ps_cursor cursor = {.limit = PS_NO_OFFSET, .checks = PS_CHECK_BODY};
  uint32_t count = 0;
  CHECK(PS_OK, ps_log_scan(reader, &cursor, NULL, 0, &count, &s->error));
  CHECK(SEGMENT, cursor.offset);
  CHECK_TRUE(cursor.stop >= PS_STOP_SIZE);
  lose(s, SEGMENT);
  write_pulled(s, SEGMENT, original, SEGMENT);
  CHECK(PS_OK, ps_log_install(s->log, SEGMENT, &s->error));
  CHECK(PS_OK, ps_log_scan(reader, &cursor, NULL, 0, &count, &s->error));
  CHECK(store_ends(s).published_end, cursor.offset);
  ps_log_free(reader);
  ps_live_close(live);
  CHECK(0, store_free(s));
}

/* From the first one down to offset 0, while appends go on. */
static void a_log_that_began_late_is_filled_downwards(void) {
  store *s = full(original);
  uint32_t removed = 0;
  uint64_t begin = 3 * SEGMENT;
  CHECK(PS_OK, ps_log_delete_before(s->log, begin, &removed, &s->error));
  ps_log *reader = NULL;
  ps_live *live = NULL;
  CHECK(PS_OK, store_open_reader(s, &reader, &live));
  CHECK(PS_E_RANGE, read_first(reader, 2 * SEGMENT, &s->error));
  while (begin > 0) {
    write_pulled(s, begin - SEGMENT, original, SEGMENT);
    CHECK(PS_OK, ps_log_install(s->log, begin - SEGMENT, &s->error));
    begin -= SEGMENT;
    CHECK(begin, store_ends(s).min_offset);
    ps_ends ends;
    CHECK(PS_OK, ps_log_ends(reader, &ends, &s->error));
    CHECK(begin, ends.min_offset);
    CHECK(PS_OK, read_first(reader, begin, &s->error));
    CHECK(PS_OK, store_append(s, BODY, PS_ACK_SYNCED));
  }
  ps_log_free(reader);
  ps_live_close(live);
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

/* What is refused changes nothing. */
static void only_a_synced_or_the_preceding_segment_is_installed(void) {
  store *s = full(original);
  uint32_t removed = 0;
  CHECK(PS_OK, ps_log_delete_before(s->log, 2 * SEGMENT, &removed, &s->error));
  uint64_t last = last_base(s);
  write_pulled(s, 0, original, SEGMENT);
  CHECK(PS_E_INVALID, ps_log_install(s->log, 0, &s->error));
  write_pulled(s, last, original, SEGMENT);
  CHECK(PS_E_INVALID, ps_log_install(s->log, last, &s->error));
  write_pulled(s, last + SEGMENT, original, SEGMENT);
  CHECK(PS_E_INVALID, ps_log_install(s->log, last + SEGMENT, &s->error));
  write_pulled(s, SEGMENT, original, SEGMENT - 1);
  CHECK(PS_E_INVALID, ps_log_install(s->log, SEGMENT, &s->error));
  CHECK_TRUE(strstr(s->error.text, "has 12287 bytes"));
  CHECK(PS_E_IO, ps_log_install(s->log, 2 * SEGMENT, &s->error));
  CHECK(0, s->fs->env.remove(s->fs->env.self, pulled_of(SEGMENT)));
  write_pulled(s, SEGMENT, original, SEGMENT);
  memory_put(s->fs, path_of(SEGMENT), original, 100);
  CHECK(PS_E_INVALID, ps_log_install(s->log, SEGMENT, &s->error));
  CHECK_TRUE(strstr(s->error.text, "a file is there that is not the log's"));
  lose(s, SEGMENT);
  CHECK(2 * SEGMENT, store_ends(s).min_offset);
  CHECK_HOLDS(store_verify(s, ACK_NONE));
  CHECK(0, store_free(s));
}

/* Whatever call fails, the log is as before, or has the segment. */
static void a_failed_installation_can_be_repeated(void) {
  static const memory_call kinds[] = {CALL_OPEN, CALL_SIZE, CALL_SYNC,
                                      CALL_RENAME, CALL_SYNC_DIRECTORY};
  for (uint32_t k = 0; k < 5; k++) {
    store *s = full(original);
    uint32_t removed = 0;
    CHECK(PS_OK, ps_log_delete_before(s->log, SEGMENT, &removed, &s->error));
    write_pulled(s, 0, original, SEGMENT);
    memory_fail(s->fs, kinds[k], 1, EIO, false);
    CHECK(PS_E_IO, ps_log_install(s->log, 0, &s->error));
    CHECK(SEGMENT, store_ends(s).min_offset);
    CHECK(PS_OK, ps_log_install(s->log, 0, &s->error));
    CHECK(0, store_ends(s).min_offset);
    CHECK_HOLDS(store_verify(s, ACK_SYNCED));
    CHECK(0, store_free(s));
  }
}

/* The name has the new file, so the log reads it, whether that is on disk or
 * not. */
static void a_replaced_segment_is_read_although_its_name_is_not_synced(void) {
  store *s = full(original);
  memory_at(s->fs, path_of(SEGMENT))->cache[100] ^= 1;
  CHECK(PS_E_CORRUPT, read_first(s->log, SEGMENT, &s->error));
  write_pulled(s, SEGMENT, original, SEGMENT);
  memory_fail(s->fs, CALL_SYNC_DIRECTORY, 1, EIO, false);
  CHECK(PS_E_IO, ps_log_install(s->log, SEGMENT, &s->error));
  CHECK(PS_OK, read_first(s->log, SEGMENT, &s->error));
  CHECK_HOLDS(store_verify(s, ACK_SYNCED));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(a_damaged_segment_is_replaced_under_writer_and_reader),
           CASE(a_scan_goes_on_in_the_new_file),
           CASE(a_log_that_began_late_is_filled_downwards),
           CASE(only_a_synced_or_the_preceding_segment_is_installed),
           CASE(a_replaced_segment_is_read_although_its_name_is_not_synced),
           CASE(a_failed_installation_can_be_repeated))
