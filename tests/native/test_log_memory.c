/* Memory runs out at every allocation of every operation. */
#include "check.h"
#include "support_log.h"

enum { SEGMENT = 12288, RECORD = 1500 };

/* The nth allocation from now fails; 0: none. */
static uint64_t fails_at;
static bool has_failed;

static bool fails(void) {
  if (fails_at == 0 || --fails_at > 0)
    return false;
  has_failed = true;
  return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

/* Called once, before the next allocation; NULL: nothing is. */
static void (*before_malloc)(void);

void *__wrap_malloc(size_t size) {
  void (*call)(void) = before_malloc;
  before_malloc = NULL;
  if (call != NULL)
    call();
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
  return fails() ? NULL : __real_realloc(old, size);
}

static void arm(uint64_t nth) {
  fails_at = nth;
  has_failed = false;
}

/* Disarms; answers whether an allocation failed. */
static bool disarm(void) {
  fails_at = 0;
  return has_failed;
}

static store *filled(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 20; i++)
    CHECK(PS_OK, store_append(s, RECORD, PS_ACK_LEADER));
  return s;
}

static store *cut_store;

static void cut_above_a_held_block(void) {
  CHECK(PS_OK, store_cut(cut_store, cut_store->records[3].offset));
}

/* A block below a cut that runs between the search for its segment and its
 * hold: the segment belongs to older views then, and the next cut would forget
 * this one (B14). */
static void a_block_that_a_cut_overtakes_keeps_its_bytes(void) {
  store *s = filled();
  ps_block high, low;
  CHECK(PS_OK,
        ps_block_acquire(s->log, s->records[4].offset, 90, &high, &s->error));
  uint8_t copy[90];
  cut_store = s;
  before_malloc = cut_above_a_held_block;
  CHECK(PS_OK, ps_block_acquire(s->log, 10, sizeof copy, &low, &s->error));
  CHECK_TRUE(before_malloc == NULL && s->fs->kept_count == 1);
  memcpy(copy, low.data, sizeof copy);
  CHECK(PS_OK, store_cut(s, 0));
  CHECK(2, s->fs->kept_count); /* the file system keeps whole files */
  CHECK(PS_OK, store_append(s, RECORD, PS_ACK_LEADER));
  CHECK_BYTES(copy, low.data, sizeof copy);
  ps_block_release(&low);
  ps_block_release(&high);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(0, store_free(s));
}

/* An opening that runs out of memory leaves nothing, and can be repeated. */
static void opening_without_memory_leaves_nothing(void) {
  bool failed = true;
  for (uint64_t nth = 1; failed && check_failures == 0; nth++) {
    store *s = filled();
    ps_log_free(s->log);
    s->log = NULL;
    arm(nth);
    ps_status status = store_open(s);
    failed = disarm();
    CHECK(failed ? PS_E_MEMORY : PS_OK, status);
    CHECK_TRUE(!failed || s->log == NULL);
    ps_log_free(s->log);
    CHECK(0, memory_held(s->fs));
    CHECK(PS_OK, store_recover(s, 0));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(0, store_free(s));
  }
}

/* A start that runs out of memory can be repeated on the same handle. */
static void starting_without_memory_can_be_repeated(void) {
  bool failed = true;
  for (uint64_t nth = 1; failed && check_failures == 0; nth++) {
    store *s = filled();
    uint64_t end = store_ends(s).published_end;
    ps_log_free(s->log);
    CHECK(PS_OK, store_open(s));
    ps_start start = {.end = end, .synced_end = 0};
    arm(nth);
    ps_status status = ps_log_start(s->log, &start, &s->error);
    failed = disarm();
    CHECK(failed ? PS_E_MEMORY : PS_OK, status);
    if (failed)
      CHECK(PS_OK, ps_log_start(s->log, &start, &s->error));
    CHECK(PS_OK, store_count_queues(s));
    CHECK_HOLDS(store_verify(s, ACK_LEADER));
    CHECK(0, store_free(s));
  }
}

/* An append to a new queue, with a roll, fails as a whole or not at all. */
static void an_append_without_memory_fails_as_a_whole(void) {
  bool failed = true;
  for (uint64_t nth = 1; failed && check_failures == 0; nth++) {
    store *s = filled();
    uint8_t bytes[3 * (RECORD + STORE_MESSAGE_EXTRA)];
    uint64_t size = 0;
    for (uint32_t i = 0; i < 3; i++)
      size += store_message(bytes + size, (int32_t)i * 7, 100 + i, RECORD);
    ps_appended appended = {0};
    uint64_t end = store_ends(s).published_end;
    arm(nth);
    ps_status status = ps_log_append(s->log, bytes, size, PS_ACK_LEADER, NULL,
                                     0, &appended, &s->error);
    failed = disarm();
    CHECK(failed ? PS_E_MEMORY : PS_OK, status);
    if (failed) {
      CHECK_HOLDS(store_verify(s, ACK_LEADER));
      CHECK_HOLDS(store_verify_zero(s));
      CHECK(PS_OK, store_append(s, RECORD, PS_ACK_SYNCED));
      CHECK_HOLDS(store_verify(s, ACK_LEADER));
    } else {
      CHECK_TRUE(appended.offset >= end);
      CHECK(3, appended.count);
    }
    CHECK(0, store_free(s));
  }
}

/* Raw bytes, too: what was refused can be fed again. */
static void a_raw_append_without_memory_can_be_repeated(void) {
  store *from = filled();
  uint64_t end = store_ends(from).published_end;
  uint8_t *bytes = __real_malloc(end);
  CHECK(PS_OK, store_copy(from->log, 0, end, bytes, &from->error));
  bool failed = true;
  for (uint64_t nth = 1; failed && check_failures == 0; nth++) {
    store *s = store_new(SEGMENT);
    uint64_t received = 0;
    arm(nth);
    ps_status status =
        ps_log_append_raw(s->log, 0, bytes, end, &received, &s->error);
    failed = disarm();
    CHECK(failed ? PS_E_MEMORY : PS_OK, status);
    received = store_ends(s).received_end;
    if (failed)
      CHECK(PS_OK, ps_log_append_raw(s->log, received, bytes + received,
                                     end - received, &received, &s->error));
    CHECK(end, store_ends(s).published_end);
    CHECK(0, store_free(s));
  }
  free(bytes);
  CHECK(0, store_free(from));
}

/* A reader that cannot follow says so, and follows when it can. */
static void a_reader_without_memory_follows_later(void) {
  bool failed = true;
  for (uint64_t nth = 1; failed && check_failures == 0; nth++) {
    store *s = store_new(SEGMENT);
    CHECK(PS_OK, store_go_live(s));
    ps_log *reader = NULL;
    ps_live *live = NULL;
    CHECK(PS_OK, store_open_reader(s, &reader, &live));
    for (uint32_t i = 0; i < 20; i++)
      CHECK(PS_OK, store_append(s, RECORD, PS_ACK_LEADER));
    ps_block block;
    uint64_t at = s->records[15].offset;
    arm(nth);
    ps_status status = ps_block_acquire(reader, at, 100, &block, &s->error);
    failed = disarm();
    CHECK(failed ? PS_E_MEMORY : PS_OK, status);
    if (failed)
      CHECK(PS_OK, ps_block_acquire(reader, at, 100, &block, &s->error));
    ps_block_release(&block);
    ps_log_free(reader);
    ps_live_close(live);
    CHECK(0, store_free(s));
  }
}

CHECK_MAIN(CASE(a_block_that_a_cut_overtakes_keeps_its_bytes),
           CASE(opening_without_memory_leaves_nothing),
           CASE(starting_without_memory_can_be_repeated),
           CASE(an_append_without_memory_fails_as_a_whole),
           CASE(a_raw_append_without_memory_can_be_repeated),
           CASE(a_reader_without_memory_follows_later))
