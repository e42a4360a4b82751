/* A log that advances a mark as it grows, and appends that wait in the same
 * call. */
#include "check.h"
#include "support_log.h"
#include "support_records.h"
#include "waiters.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FOREVER UINT64_MAX

enum { SEGMENT = 1 << 20, APPENDERS = 8, EACH = 200 };

static ps_waiters *open_marks(uint32_t one_by_one) {
  ps_waiters *waits = NULL;
  ps_error error;
  CHECK(PS_OK, ps_waiters_open(1, one_by_one, &waits, &error));
  return waits;
}

/* Each publication advances the mark once; a log without waiters advances none,
 * and a log that is freed gives its waiters up. */
static void each_publication_advances_the_mark(void) {
  store *s = store_new(SEGMENT);
  ps_waiters *published = open_marks(0), *other = open_marks(0);
  CHECK(PS_OK, ps_log_notify(s->log, published, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_SYNCED));
  CHECK(2, ps_waiters_mark(published, 0));
  CHECK(2, *ps_waiters_word(published, 0));
  CHECK(PS_OK, ps_log_notify(s->log, other, &s->error));
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(2, ps_waiters_mark(published, 0));
  CHECK(1, ps_waiters_mark(other, 0));
  ps_waiters_free(published);
  ps_waiters_free(other); /* the log holds it, and frees it with itself */
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(0, store_free(s));
}

static void *wait_for_one_more(void *argument) {
  ps_waiters *published = argument;
  ps_error error;
  uint32_t outcome = 0;
  uint64_t next = ps_waiters_mark(published, 0) + 1;
  CHECK(PS_OK, ps_waiters_wait(published, 0, next, FOREVER, &outcome, &error));
  CHECK(PS_WAIT_REACHED, outcome);
  return NULL;
}

/* A quiet append advances the mark as any other; a thread that sleeps is woken
 * by the next ps_waiters_notify. */
static void a_quiet_append_wakes_no_waiter(void) {
  store *s = store_new(SEGMENT);
  ps_waiters *published = open_marks(0);
  CHECK(PS_OK, ps_log_notify(s->log, published, &s->error));
  uint8_t form[STORE_MESSAGE_EXTRA + 64];
  uint64_t size = store_message(form, 0, 1, 64);
  ps_appended appended;
  pthread_t thread;
  pthread_create(&thread, NULL, wait_for_one_more, published);
  while (ps_waiters_waiting(published) == 0)
    sched_yield();
  CHECK(PS_OK, ps_log_append_no_wake(s->log, form, size, &appended, &s->error));
  CHECK(1, ps_waiters_mark(published, 0));
  CHECK(1, appended.count);
  CHECK(1, ps_waiters_waiting(published));
  CHECK(PS_E_INVALID,
        ps_log_append_no_wake(s->log, form, 1, &appended, &s->error));
  CHECK(1, ps_waiters_waiting(published));
  CHECK(PS_OK, ps_waiters_notify(published, 0, &s->error));
  pthread_join(thread, NULL);
  CHECK(PS_OK, store_append(s, 100, PS_ACK_LEADER));
  CHECK(3, ps_waiters_mark(published, 0));
  ps_waiters_free(published);
  CHECK(0, store_free(s));
}

typedef struct appender {
  pthread_t thread;
  store *s;
  ps_waiters *waits;
  ps_waiters *published;
  _Atomic uint32_t *left;
  uint32_t reached;
} appender;

static void *append_and_wait(void *argument) {
  appender *a = argument;
  uint8_t form[STORE_MESSAGE_EXTRA + 64];
  uint64_t size = store_message(form, 0, 1, 64);
  for (uint32_t i = 0; i < EACH; i++) {
    ps_appended appended;
    ps_error error;
    uint32_t outcome = 0;
    CHECK(PS_OK, ps_waiters_append(a->waits, 0, FOREVER, a->s->log, form, size,
                                   &appended, &outcome, &error));
    CHECK(PS_WAIT_REACHED, outcome);
    a->reached += ps_waiters_mark(a->waits, 0) >= appended.end;
  }
  atomic_fetch_sub(a->left, 1);
  ps_error error;
  CHECK(PS_OK, ps_waiters_notify(a->published, 0, &error));
  return NULL;
}

/* Appends wait for a mark that one thread raises to the end of the log after
 * each publication: each of them returns, and none returns early. */
static void appends_return_when_their_end_is_reached(void) {
  store *s = store_new(SEGMENT);
  ps_waiters *waits = open_marks(1), *published = open_marks(0);
  CHECK(PS_OK, ps_log_notify(s->log, published, &s->error));
  _Atomic uint32_t left = APPENDERS;
  appender all[APPENDERS];
  for (uint32_t i = 0; i < APPENDERS; i++) {
    all[i] = (appender){
        .s = s, .waits = waits, .published = published, .left = &left};
    CHECK(0, pthread_create(&all[i].thread, NULL, append_and_wait, &all[i]));
  }
  ps_error error;
  while (atomic_load(&left) > 0) {
    uint64_t seen = ps_waiters_mark(published, 0);
    uint64_t end = store_ends(s).published_end;
    CHECK(PS_OK, ps_waiters_raise(waits, 0, end, &error));
    uint32_t outcome = 0;
    if (atomic_load(&left) > 0)
      CHECK(PS_OK,
            ps_waiters_wait(published, 0, seen + 1, FOREVER, &outcome, &error));
  }
  for (uint32_t i = 0; i < APPENDERS; i++) {
    pthread_join(all[i].thread, NULL);
    CHECK(EACH, all[i].reached);
  }
  ps_waiters_free(waits);
  ps_waiters_free(published);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(each_publication_advances_the_mark),
           CASE(a_quiet_append_wakes_no_waiter),
           CASE(appends_return_when_their_end_is_reached))
