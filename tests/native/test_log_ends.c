/* Published ends: never before their bytes, never within a record; and no
 * answer before its end. */
#include "check.h"
#include "support_log.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SEGMENT = 1 << 20, SMALL = 65536, SEEN_MAX = 4096, WRITERS = 4 };

/* ---- What a reader could see between any two calls of the system ------- */

typedef struct watch {
  store *s;
  uint64_t seen[SEEN_MAX];
  uint32_t count;
  uint32_t empty; /* ends whose last byte was not there yet */
} watch;

static void note_end(void *argument, memory_call kind, int32_t file) {
  watch *w = argument;
  (void)kind;
  (void)file;
  uint64_t end = atomic_load(&w->s->log->page->published_end);
  if (w->count > 0 && w->seen[w->count - 1] == end)
    return;
  if (w->count < SEEN_MAX)
    w->seen[w->count++] = end;
  uint64_t size = w->s->options.segment_size;
  if (end % size == 0) /* a blank record ends in zeros */
    return;
  char path[64];
  snprintf(path, sizeof path, STORE_LOG "%020" PRIu64, end - end % size);
  memory_file *segment = memory_at(w->s->fs, path);
  /* Each record here ends with its property CRC, so with no zero. */
  if (segment == NULL || segment->cache[end % size - 1] == 0)
    w->empty++;
}

static watch *watch_new(store *s) {
  watch *w = calloc(1, sizeof *w);
  w->s = s;
  s->fs->hook_argument = w;
  s->fs->hook = note_end;
  return w;
}

/* Is every end that was seen the end of a record, or of a segment? */
static void check_seen(watch *w) {
  w->s->fs->hook = NULL;
  CHECK_HOLDS(store_verify(w->s, ACK_LEADER)); /* learns the records' ends */
  CHECK(0, w->empty);
  for (uint32_t i = 0; i < w->count; i++) {
    uint64_t end = w->seen[i];
    bool is_end = end % w->s->options.segment_size == 0;
    for (uint32_t r = 0; r < w->s->count && !is_end; r++)
      is_end = w->s->records[r].end == end;
    CHECK_TRUE(is_end);
  }
  CHECK_TRUE(w->count > 1);
  free(w);
}

/* At every call that appends of all kinds make, the published end is the end
 * of a record, and that record is there. */
static void an_end_is_published_behind_whole_records_only(void) {
  store *s = store_new(SMALL);
  watch *w = watch_new(s);
  for (uint32_t i = 0; i < 30; i++)
    CHECK(PS_OK,
          store_append(s, 10 + i * 300, i % 4 ? PS_ACK_LEADER : PS_ACK_SYNCED));
  CHECK(PS_OK, store_append_columns(s, 300, 1500, PS_ACK_LEADER));
  check_seen(w);
  CHECK(0, store_free(s));
}

/* The same for a call that is larger than the pieces that are written. */
static void a_piece_that_is_written_is_no_end_yet(void) {
  store *s = store_new(SEGMENT);
  watch *w = watch_new(s);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_OK, store_append_columns(s, 600, 1300, PS_ACK_LEADER));
  check_seen(w);
  CHECK(0, store_free(s));
}

/* The same for the bytes of another log, in pieces of any size. */
static void raw_bytes_are_published_by_whole_records(void) {
  store *s = store_new(SMALL);
  CHECK(PS_OK, store_append_columns(s, 40, 1111, PS_ACK_LEADER));
  uint64_t end = store_ends(s).published_end;
  uint8_t *bytes = malloc(end);
  REQUIRE(store_copy(s->log, 0, end, bytes, &s->error) == PS_OK);
  store *slave = store_new(SMALL);
  memcpy(slave->records, s->records, sizeof s->records);
  slave->count = s->count;
  watch *w = watch_new(slave);
  for (uint64_t at = 0; at < end;) {
    uint64_t size = 1 + check_random() % 3000;
    size = size < end - at ? size : end - at;
    if (!CHECK(PS_OK, ps_log_append_raw(slave->log, at, bytes + at, size, &at,
                                        &slave->error)))
      break;
  }
  CHECK(end, store_ends(slave).published_end);
  check_seen(w);
  free(bytes);
  CHECK(0, store_free(slave));
  CHECK(0, store_free(s));
}

/* ---- Answers ----------------------------------------------------------- */

typedef struct crowd {
  store *s;
  const uint8_t *cache;
  _Atomic uint32_t early; /* answers before their bytes */
  _Atomic uint32_t failed;
  _Atomic uint64_t next_id;
} crowd;

static void dawdle(void *argument, memory_call kind, int32_t file) {
  (void)argument;
  (void)file;
  if (kind == CALL_WRITE)
    for (uint32_t i = 0; i < 20; i++)
      sched_yield();
}

static void *append_and_check(void *argument) {
  crowd *c = argument;
  uint8_t form[STORE_MESSAGE_EXTRA + 200];
  for (uint32_t i = 0; i < 100; i++) {
    uint64_t id = atomic_fetch_add(&c->next_id, 1);
    uint64_t size = store_message(form, 0, id, 200);
    ps_appended appended;
    ps_error error;
    if (ps_log_append(c->s->log, form, size, PS_ACK_LEADER, NULL, 0, &appended,
                      &error) != PS_OK) {
      atomic_fetch_add(&c->failed, 1);
      continue;
    }
    uint64_t end = atomic_load(&c->s->log->page->published_end);
    if (end < appended.end || c->cache[appended.end - 1] == 0)
      atomic_fetch_add(&c->early, 1);
  }
  return NULL;
}

/* One thread may write for many others: an append returns only after its own
 * record is written and published. */
static void an_append_returns_after_its_record_is_published(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  memory_file *file = memory_at(s->fs, STORE_LOG "00000000000000000000");
  REQUIRE(file != NULL);
  crowd c = {.s = s, .cache = file->cache, .next_id = 1000};
  s->fs->hook = dawdle;
  pthread_t threads[WRITERS];
  for (uint32_t i = 0; i < WRITERS; i++)
    REQUIRE(pthread_create(&threads[i], NULL, append_and_check, &c) == 0);
  for (uint32_t i = 0; i < WRITERS; i++)
    pthread_join(threads[i], NULL);
  s->fs->hook = NULL;
  CHECK(0, c.early);
  CHECK(0, c.failed);
  CHECK(0, store_free(s));
}

/* ---- One write for many appends ------------------------------------------ */

typedef struct gathering {
  store *s;
  ps_commit
      *waiting[WRITERS]; /* requests queued behind the first write, in order */
  _Atomic uint32_t writes;
  uint32_t queued;
  uint32_t early; /* requests answered during their own write */
} gathering;

/* During the first write: waits until all other threads queue. During the
 * second, which is for all of them: was one of them woken? */
static void gather(void *argument, memory_call kind, int32_t file) {
  gathering *g = argument;
  (void)file;
  if (kind != CALL_WRITE)
    return;
  ps_commit_queue *queue = &g->s->log->commit_queue;
  uint32_t writes = atomic_fetch_add(&g->writes, 1) + 1;
  while (writes == 1 && g->queued < WRITERS - 1) {
    sched_yield();
    pthread_mutex_lock(&queue->lock);
    g->queued = 0;
    for (ps_commit *commit = queue->first; commit != NULL;
         commit = commit->next)
      g->waiting[g->queued++] = commit;
    pthread_mutex_unlock(&queue->lock);
  }
  /* waiting[0] leads this write. The threads keep their stacks until the end,
   * so a request that is gone may be read, too. */
  for (uint32_t i = 1; writes == 2 && i < g->queued; i++)
    g->early += atomic_load(&g->waiting[i]->state) != 0;
}

typedef struct writer {
  pthread_barrier_t *end;
  store *s;
  uint64_t id;
  ps_status status;
} writer;

static void *append_one(void *argument) {
  writer *w = argument;
  uint8_t form[STORE_MESSAGE_EXTRA + 200];
  uint64_t size = store_message(form, 0, w->id, 200);
  ps_appended appended;
  ps_error error;
  w->status = ps_log_append(w->s->log, form, size, PS_ACK_LEADER, NULL, 0,
                            &appended, &error);
  pthread_barrier_wait(w->end);
  return NULL;
}

/* An append that another thread writes for waits until that write is done. */
static void no_append_returns_during_the_write_of_its_record(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  gathering g = {.s = s};
  s->fs->hook_argument = &g;
  s->fs->hook = gather;
  pthread_barrier_t end;
  pthread_barrier_init(&end, NULL, WRITERS);
  pthread_t threads[WRITERS];
  writer writers[WRITERS];
  for (uint32_t i = 0; i < WRITERS; i++) {
    writers[i] = (writer){.end = &end, .s = s, .id = 1000 + i};
    REQUIRE(pthread_create(&threads[i], NULL, append_one, &writers[i]) == 0);
    while (atomic_load(&g.writes) == 0)
      sched_yield();
  }
  for (uint32_t i = 0; i < WRITERS; i++) {
    pthread_join(threads[i], NULL);
    CHECK(PS_OK, writers[i].status);
  }
  s->fs->hook = NULL;
  CHECK(2, g.writes); /* the first one's, and one for all others */
  CHECK(WRITERS - 1, g.queued);
  CHECK(0, g.early);
  pthread_barrier_destroy(&end);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(an_end_is_published_behind_whole_records_only),
           CASE(a_piece_that_is_written_is_no_end_yet),
           CASE(raw_bytes_are_published_by_whole_records),
           CASE(an_append_returns_after_its_record_is_published),
           CASE(no_append_returns_during_the_write_of_its_record))
