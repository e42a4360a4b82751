/* Many threads at one log: each record once, in order, and synced together. */
#include "check.h"
#include "support_log.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

enum { SEGMENT = 65536, THREADS = 8, APPENDS = 150, QUEUES = 3 };

/* What one append of one thread was answered. */
typedef struct answer {
  uint64_t id;
  uint64_t offset;
  int64_t queue_offset;
  ps_status status;
  uint32_t ack;
} answer;

/* A thread cuts: synced bytes may be gone when they are read. */
static _Atomic uint32_t is_cutting;

typedef struct worker {
  pthread_t thread;
  store *s;
  uint32_t number;
  uint32_t count; /* of appends to make */
  uint32_t ack;   /* of all; 2: now this, now that */
  answer *answers;
  uint32_t early; /* acknowledged as synced before it was */
} worker;

static void append_one(worker *w, uint32_t i) {
  uint8_t bytes[2048];
  ps_error error;
  ps_appended appended = {0};
  answer *a = &w->answers[i];
  a->id = (uint64_t)w->number * 100000 + i;
  a->ack = w->ack < 2 ? w->ack : (i + w->number) % 2;
  uint32_t body = STORE_BODY_MIN + (uint32_t)(a->id * 7919 % 900);
  uint64_t size = store_message(bytes, (int32_t)(a->id % QUEUES), a->id, body);
  a->status =
      ps_log_append(w->s->log, bytes, size, a->ack, NULL, 0, &appended, &error);
  a->offset = appended.offset;
  a->queue_offset = appended.queue_offset;
  if (a->status != PS_OK || a->ack != PS_ACK_SYNCED)
    return;
  ps_ends ends;
  if (ps_log_ends(w->s->log, &ends, &error) == PS_OK &&
      ends.synced_end < appended.end && !atomic_load(&is_cutting))
    w->early++;
}

static void *append_many(void *argument) {
  worker *w = argument;
  for (uint32_t i = 0; i < w->count; i++)
    append_one(w, i);
  return NULL;
}

static worker *begin(store *s, uint32_t threads, uint32_t count, uint32_t ack) {
  worker *workers = calloc(threads, sizeof *workers);
  for (uint32_t i = 0; i < threads; i++) {
    workers[i] = (worker){.s = s, .number = i, .count = count, .ack = ack};
    workers[i].answers = calloc(count, sizeof(answer));
    pthread_create(&workers[i].thread, NULL, append_many, &workers[i]);
  }
  return workers;
}

static void join(worker *workers, uint32_t threads) {
  for (uint32_t i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    CHECK(0, workers[i].early);
  }
}

static void forget(worker *workers, uint32_t threads) {
  for (uint32_t i = 0; i < threads; i++)
    free(workers[i].answers);
  free(workers);
}

/* Walks the log: every record is one that was appended, with its body; queue
 * offsets follow one another. Counts how often each was seen. */
static void take_stock(store *s, worker *workers, uint32_t threads,
                       uint8_t *seen) {
  int64_t next[QUEUES] = {0};
  uint8_t bytes[4096], body[1024];
  ps_cursor cursor = {.offset = store_ends(s).min_offset,
                      .limit = PS_NO_OFFSET,
                      .checks =
                          PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET};
  for (;;) {
    ps_record row;
    uint32_t count = 0;
    if (!CHECK(PS_OK,
               ps_log_scan(s->log, &cursor, &row, 1, &count, &s->error)) ||
        count == 0)
      break;
    CHECK(PS_OK, store_copy(s->log, row.offset, row.offset + row.size, bytes,
                            &s->error));
    uint64_t id = 0;
    memcpy(&id, bytes + row.body_at, sizeof id);
    REQUIRE(id / 100000 < threads);
    worker *w = &workers[id / 100000];
    REQUIRE(id % 100000 < w->count);
    const answer *a = &w->answers[id % 100000];
    store_body(body, id, row.body_size);
    CHECK_BYTES(body, bytes + row.body_at, row.body_size);
    CHECK(next[row.queue_id]++, row.queue_offset);
    if (a->status == PS_OK) {
      CHECK(a->offset, row.offset);
      CHECK(a->queue_offset, row.queue_offset);
    }
    seen[id / 100000 * w->count + id % 100000]++;
  }
  CHECK(store_ends(s).published_end, cursor.offset);
}

/* Each acknowledged record once, the others never. */
static void each_once(store *s, worker *workers, uint32_t threads) {
  uint32_t count = workers[0].count;
  uint8_t *seen = calloc(threads, count);
  take_stock(s, workers, threads, seen);
  for (uint32_t i = 0; i < threads * count; i++)
    CHECK(workers[i / count].answers[i % count].status == PS_OK, seen[i]);
  free(seen);
}

/* ---- Beside the appends ------------------------------------------------ */

typedef struct bystander {
  pthread_t thread;
  store *s;
  _Atomic uint32_t stops;
  uint32_t failures;
  uint32_t cuts;
} bystander;

static void *read_and_sync(void *argument) {
  bystander *b = argument;
  uint64_t random = 1;
  while (!atomic_load(&b->stops)) {
    ps_error error;
    ps_ends ends;
    ps_block block;
    b->failures += ps_log_ends(b->s->log, &ends, &error) != PS_OK;
    b->failures += ends.synced_end > ends.published_end;
    random = random * UINT64_C(6364136223846793005) + 99;
    if (ends.published_end == 0)
      continue;
    uint64_t at = random % ends.published_end;
    ps_status status = ps_block_acquire(b->s->log, at, 3000, &block, &error);
    if (status == PS_OK) {
      volatile uint8_t sum = 0;
      for (uint64_t i = 0; i < block.size; i++)
        sum = (uint8_t)(sum + block.data[i]);
      ps_block_release(&block);
    }
    b->failures += status != PS_OK && status != PS_E_CUT &&
                   status != PS_E_BUSY && status != PS_E_RANGE;
    ps_cursor cursor = {.limit = PS_NO_OFFSET};
    uint32_t count = 0;
    status = ps_log_scan(b->s->log, &cursor, NULL, 0, &count, &error);
    b->failures += status != PS_OK && status != PS_E_CUT;
    if (random >> 60 == 0)
      b->failures += ps_log_sync(b->s->log, PS_NO_OFFSET, &error) != PS_OK;
    if (random >> 58 == 1)
      b->failures += ps_log_roll(b->s->log, &error) != PS_OK;
  }
  return NULL;
}

static void stand_by(bystander *b, store *s, void *(*run)(void *)) {
  *b = (bystander){.s = s};
  pthread_create(&b->thread, NULL, run, b);
}

static void stand_down(bystander *b) {
  atomic_store(&b->stops, 1);
  pthread_join(b->thread, NULL);
  CHECK(0, b->failures);
}

/* ---- Cases ------------------------------------------------------------- */

/* Appends of both kinds, syncs, rolls, scans and blocks from many threads:
 * each record is there once, queues have no gap, and "synced" is true. */
static void many_threads_append_each_record_once(void) {
  store *s = store_new(SEGMENT);
  bystander beside[2];
  worker *workers = begin(s, THREADS, APPENDS, 2);
  for (uint32_t i = 0; i < 2; i++)
    stand_by(&beside[i], s, read_and_sync);
  join(workers, THREADS);
  for (uint32_t i = 0; i < 2; i++)
    stand_down(&beside[i]);
  each_once(s, workers, THREADS);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(PS_OK, store_sync(s));
  store_crash(s, memory_after_power_cut(s->fs, 0, 0));
  CHECK(PS_OK, store_recover(s, 0));
  each_once(s, workers, THREADS);
  forget(workers, THREADS);
  CHECK(0, store_free(s));
}

/* The same with a flusher that writes back and syncs by itself, and with
 * threads that wake each other in line. */
static void a_flusher_works_beside_many_threads(void) {
  store *s = store_new(SEGMENT);
  ps_log_free(s->log);
  s->options.writeback_bytes = 8192;
  s->options.flush_interval_ms = 1;
  s->options.wake_one_by_one = 1;
  CHECK(PS_OK, store_recover(s, 0));
  bystander beside;
  worker *workers = begin(s, THREADS, APPENDS, 2);
  stand_by(&beside, s, read_and_sync);
  join(workers, THREADS);
  stand_down(&beside);
  each_once(s, workers, THREADS);
  while (store_ends(s).synced_end < store_ends(s).published_end)
    ; /* the flusher gets there */
  CHECK_TRUE(s->fs->calls[CALL_WRITEBACK] > 0);
  forget(workers, THREADS);
  CHECK(0, store_free(s));
}

static void *cut_now_and_then(void *argument) {
  bystander *b = argument;
  uint64_t random = 5;
  while (!atomic_load(&b->stops)) {
    ps_error error;
    ps_ends ends;
    (void)ps_log_ends(b->s->log, &ends, &error);
    random = random * UINT64_C(6364136223846793005) + 99;
    uint64_t segments = ends.published_end / SEGMENT + 1;
    uint64_t offset = (random >> 33) % segments * SEGMENT;
    ps_cut_report report;
    ps_status status = ps_log_cut_begin(b->s->log, offset, &error);
    if (status == PS_E_BUSY || status == PS_E_RANGE)
      continue;
    b->failures += status != PS_OK;
    status = ps_log_cut_publish(b->s->log, ++b->cuts, &error);
    if (status == PS_OK)
      status = ps_log_cut_apply(b->s->log, &report, &error);
    if (status == PS_OK)
      status = store_count_queues(b->s);
    b->failures += status != PS_OK;
    b->failures += ps_log_cut_end(b->s->log, 1, &error) != PS_OK;
    struct timespec pause = {.tv_nsec = 3000000};
    nanosleep(&pause, NULL);
  }
  return NULL;
}

/* Cuts between the appends: what is left is in order, and nothing is twice. */
static void cuts_between_appends_leave_an_order(void) {
  store *s = store_new(SEGMENT);
  bystander beside, cutter;
  s->fs->is_kernel = true; /* readers that a cut overtakes read again */
  worker *workers = begin(s, THREADS, APPENDS, 2);
  stand_by(&beside, s, read_and_sync);
  atomic_store(&is_cutting, 1);
  stand_by(&cutter, s, cut_now_and_then);
  join(workers, THREADS);
  stand_down(&beside);
  stand_down(&cutter);
  atomic_store(&is_cutting, 0);
  uint8_t *seen = calloc(THREADS, APPENDS);
  take_stock(s, workers, THREADS, seen);
  for (uint32_t i = 0; i < THREADS * APPENDS; i++)
    CHECK_TRUE(seen[i] <= 1);
  for (uint32_t i = 0; i < THREADS; i++)
    for (uint32_t k = 0; k < APPENDS; k++)
      CHECK(PS_OK, workers[i].answers[k].status);
  free(seen);
  CHECK_HOLDS(store_verify_zero(s));
  forget(workers, THREADS);
  CHECK(0, store_free(s));
}

/* Closing among appends: an append is refused, or its record is on disk. */
static void closing_among_appends_keeps_what_was_acknowledged(void) {
  for (uint32_t round = 0; round < 10; round++) {
    store *s = store_new(SEGMENT);
    worker *workers = begin(s, THREADS, APPENDS, 2);
    while (store_ends(s).published_end < 3000 * round)
      ;
    CHECK(PS_OK, ps_log_close(s->log, &s->error));
    join(workers, THREADS);
    for (uint32_t i = 0; i < THREADS * APPENDS; i++) {
      ps_status status = workers[i / APPENDS].answers[i % APPENDS].status;
      CHECK_TRUE(status == PS_OK || status == PS_E_CLOSED);
    }
    store_crash(s, memory_after_power_cut(s->fs, 0, 0));
    CHECK(PS_OK, store_recover(s, 0));
    each_once(s, workers, THREADS);
    forget(workers, THREADS);
    CHECK(0, store_free(s));
  }
}

static void *close_it(void *argument) {
  bystander *b = argument;
  ps_error error;
  b->failures += ps_log_close(b->s->log, &error) != PS_OK;
  return NULL;
}

/* Any thread may close, also several at once. */
static void several_threads_may_close(void) {
  for (uint32_t round = 0; round < 20; round++) {
    store *s = store_new(SEGMENT);
    ps_log_free(s->log);
    s->options.flush_interval_ms = 1;
    CHECK(PS_OK, store_recover(s, 0));
    CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
    bystander closers[3];
    for (uint32_t i = 0; i < 3; i++)
      stand_by(&closers[i], s, close_it);
    for (uint32_t i = 0; i < 3; i++)
      stand_down(&closers[i]);
    CHECK(0, store_free(s));
  }
}

/* ---- Which append waits for which sync ------------------------------------
 * */

/* Holds the calls of some kinds until they are let go. */
typedef struct gate {
  _Atomic uint32_t is_shut[CALL_ANY];
  _Atomic uint32_t arrived[CALL_ANY];
} gate;

static void pass(void *argument, memory_call kind, int32_t file) {
  gate *g = argument;
  (void)file;
  atomic_fetch_add(&g->arrived[kind], 1);
  while (atomic_load(&g->is_shut[kind]))
    usleep(50);
}

static void guard(store *s, gate *g, memory_call kind) {
  *g = (gate){0};
  g->is_shut[kind] = 1;
  s->fs->hook_argument = g;
  s->fs->hook = pass;
}

static uint32_t queued(store *s) {
  uint32_t count = 0;
  ps_commit_queue *queue = &s->log->commit_queue;
  pthread_mutex_lock(&queue->lock);
  for (ps_commit *commit = queue->first; commit != NULL; commit = commit->next)
    count++;
  pthread_mutex_unlock(&queue->lock);
  return count;
}

static void until(store *s, uint32_t count) {
  while (queued(s) < count)
    usleep(50);
}

/* One thread that syncs behind a gate, and `count` that gather meanwhile. */
static void gather(store *s, gate *g, worker **first, worker **rest,
                   uint32_t count) {
  guard(s, g, CALL_SYNC);
  *first = begin(s, 1, 1, PS_ACK_SYNCED);
  while (!atomic_load(&g->arrived[CALL_SYNC]))
    usleep(50);
  *rest = begin(s, count, 1, PS_ACK_SYNCED);
  until(s, count);
  atomic_store(&g->is_shut[CALL_SYNC], 0);
  join(*first, 1);
  join(*rest, count);
}

/* 64 threads that append for the disk: while one syncs the others gather, and
 * all of them take one more sync. */
static void appends_that_wait_for_a_sync_share_one(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER)); /* makes the segment */
  uint64_t before = s->fs->calls[CALL_SYNC];
  gate g;
  worker *first, *rest;
  gather(s, &g, &first, &rest, 63);
  CHECK(2, s->fs->calls[CALL_SYNC] - before);
  CHECK(PS_OK, first->answers[0].status);
  for (uint32_t i = 0; i < 63; i++)
    CHECK(PS_OK, rest[i].answers[0].status);
  forget(first, 1);
  forget(rest, 63);
  CHECK(0, store_free(s));
}

/* An append with PS_ACK_LEADER waits for no sync: neither for one that runs,
 * nor by leading for appends that want one. */
static void a_leader_append_waits_for_no_sync(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
  gate g;
  guard(s, &g, CALL_WRITE);
  g.is_shut[CALL_SYNC] = 1;
  worker *first = begin(s, 1, 1, PS_ACK_LEADER);
  while (!atomic_load(&g.arrived[CALL_WRITE]))
    usleep(50);
  worker *second = begin(s, 1, 1, PS_ACK_LEADER); /* leads next */
  until(s, 1);
  worker *third = begin(s, 1, 1, PS_ACK_SYNCED);
  until(s, 2);
  atomic_store(&g.is_shut[CALL_WRITE], 0);
  join(first, 1);
  join(second, 1); /* returns while the sync is held */
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
  while (!atomic_load(&g.arrived[CALL_SYNC]))
    usleep(50);
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
  atomic_store(&g.is_shut[CALL_SYNC], 0);
  join(third, 1);
  CHECK(PS_OK, third->answers[0].status);
  forget(first, 1);
  forget(second, 1);
  forget(third, 1);
  CHECK(0, store_free(s));
}

/* Lets one sync after the other through, and notes whose each is. */
enum { GROUP = PS_COMMIT_QUEUE_MANY, SYNCS = 6 };

typedef struct steps {
  _Atomic uint32_t allowed;
  _Atomic uint32_t arrived;
  pthread_t who[SYNCS];
} steps;

static void step(void *argument, memory_call kind, int32_t file) {
  steps *t = argument;
  (void)file;
  if (kind != CALL_SYNC)
    return;
  uint32_t number = atomic_load(&t->arrived);
  REQUIRE(number < SYNCS);
  t->who[number] = pthread_self();
  atomic_store(&t->arrived, number + 1);
  while (atomic_load(&t->allowed) <= number)
    usleep(50);
}

/* A thread that has synced serves the many requests that gathered meanwhile, up
 * to four groups: the fifth is synced by one of its own threads. */
static void a_leader_serves_four_groups_at_most(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
  steps t = {0};
  s->fs->hook_argument = &t;
  s->fs->hook = step;
  worker *groups[SYNCS];
  for (uint32_t i = 0; i < SYNCS; i++) {
    groups[i] = begin(s, i == 0 ? 1 : GROUP, 1, PS_ACK_SYNCED);
    if (i > 0) {
      until(s, GROUP);
      atomic_store(&t.allowed, i);
    }
    while (atomic_load(&t.arrived) <= i)
      usleep(50);
  }
  atomic_store(&t.allowed, SYNCS);
  for (uint32_t i = 0; i < SYNCS; i++) {
    uint32_t count = i == 0 ? 1 : GROUP;
    join(groups[i], count);
    for (uint32_t k = 0; k < count; k++)
      CHECK(PS_OK, groups[i][k].answers[0].status);
    CHECK(i < 4, pthread_equal(t.who[i], t.who[0]) != 0);
    forget(groups[i], count);
  }
  CHECK(0, store_free(s));
}

/* A failed sync fails all appends that waited for it, and none that the sync
 * before it served: few, one of which leads, or many, which the same leader
 * serves. */
static void fail_second_sync(uint32_t count) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_append(s, 8, PS_ACK_LEADER));
  gate g;
  worker *first, *rest;
  memory_fail(s->fs, CALL_SYNC, 2, EIO, false);
  gather(s, &g, &first, &rest, count);
  CHECK(PS_OK, first->answers[0].status);
  for (uint32_t i = 0; i < count; i++)
    CHECK(PS_E_POISONED, rest[i].answers[0].status);
  CHECK(PS_E_POISONED, store_append(s, 8, PS_ACK_LEADER));
  forget(first, 1);
  forget(rest, count);
  CHECK(0, store_free(s));
}

static void a_failed_sync_fails_every_append_that_waited_for_it(void) {
  fail_second_sync(PS_COMMIT_QUEUE_MANY - 1);
  fail_second_sync(PS_COMMIT_QUEUE_MANY);
}

CHECK_MAIN(CASE(many_threads_append_each_record_once),
           CASE(a_flusher_works_beside_many_threads),
           CASE(cuts_between_appends_leave_an_order),
           CASE(closing_among_appends_keeps_what_was_acknowledged),
           CASE(several_threads_may_close),
           CASE(appends_that_wait_for_a_sync_share_one),
           CASE(a_leader_append_waits_for_no_sync),
           CASE(a_leader_serves_four_groups_at_most),
           CASE(a_failed_sync_fails_every_append_that_waited_for_it))
