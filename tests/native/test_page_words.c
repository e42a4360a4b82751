/* A writer's words and their copies in the live page. */
#include "check.h"
#include "page_words.h"
#include "support_log.h"

#include "live.h"
#include "lock.h"

#include <sched.h>

enum { SEGMENT = 65536, APPENDERS = 2, ROUNDS = 16, END_MAX = 5 * SEGMENT };

typedef struct looker {
  pthread_t thread;
  store *s;
  _Atomic uint32_t stops;
  uint32_t looks;
  uint32_t failures;
} looker;

static void *look(void *argument) {
  looker *l = argument;
  ps_error error;
  do {
    l->failures += ps_log_check_guard(l->s->log, &error) != PS_OK;
    l->looks++;
  } while (!atomic_load(&l->stops));
  return NULL;
}

static void *append(void *argument) {
  looker *l = argument;
  uint8_t bytes[1024];
  ps_error error;
  ps_appended appended;
  for (uint64_t id = 0; !atomic_load(&l->stops); id++) {
    if (store_ends(l->s).published_end > END_MAX) {
      sched_yield();
      continue;
    }
    uint64_t size = store_message(bytes, 0, id, 100 + (uint32_t)(id % 400));
    uint32_t ack = id % 3 == 0 ? PS_ACK_SYNCED : PS_ACK_LEADER;
    l->failures += ps_log_append(l->s->log, bytes, size, ack, NULL, 0,
                                 &appended, &error) != PS_OK;
    l->looks++;
  }
  return NULL;
}

static void begin(looker *l, store *s, void *(*run)(void *)) {
  *l = (looker){.s = s};
  pthread_create(&l->thread, NULL, run, l);
}

static void end(looker *l) {
  atomic_store(&l->stops, 1);
  pthread_join(l->thread, NULL);
  CHECK(0, l->failures);
  CHECK_TRUE(l->looks > 0);
}

/* A thread that looks at every instant takes no change of the writer's own for
 * one of another program. */
static void the_writers_own_changes_poison_nothing(void) {
  store *s = store_new(SEGMENT);
  CHECK(PS_OK, store_go_live(s));
  looker appenders[APPENDERS], looking;
  for (uint32_t i = 0; i < APPENDERS; i++)
    begin(&appenders[i], s, append);
  begin(&looking, s, look);
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    ps_error error;
    ps_cut_report report;
    uint32_t removed = 0;
    uint64_t base = (1 + round % 3) * SEGMENT;
    while (store_ends(s).published_end < base + SEGMENT)
      if (!CHECK(PS_OK, ps_log_sync(s->log, PS_NO_OFFSET, &error)))
        break;
    CHECK(PS_OK, ps_log_confirm(s->log, store_ends(s).synced_end, &error));
    CHECK(PS_OK, ps_log_cut_begin(s->log, base, &error));
    CHECK(PS_OK, ps_log_cut_publish(s->log, round, &error));
    CHECK(PS_OK, ps_log_cut_apply(s->log, &report, &error));
    CHECK(PS_OK, store_count_queues(s));
    CHECK(PS_OK, ps_log_cut_end(s->log, 1, &error));
    if (round == 1)
      CHECK(PS_OK, ps_log_delete_before(s->log, SEGMENT, &removed, &error));
  }
  end(&looking);
  for (uint32_t i = 0; i < APPENDERS; i++)
    end(&appenders[i]);
  ps_live_words words;
  ps_live_read(s->live, &words);
  CHECK(store_ends(s).published_end, words.published_end);
  CHECK(ROUNDS, words.cut_generation);
  CHECK(0, store_ends(s).poisoned);
  CHECK(0, store_free(s));
}

static _Atomic uint64_t *word(ps_live_page *page, uint32_t number) {
  _Atomic uint64_t *words[] = {&page->published_end,  &page->synced_end,
                               &page->confirm_offset, &page->min_offset,
                               &page->cut_generation, &page->cut_offset};
  return words[number];
}

enum { WORDS = 6 };

/* Each word, with each of its bits changed: the next synced append is refused,
 * what was appended is there, and the page has the writer's word again. */
static void a_word_of_another_program_poisons_the_log(void) {
  for (uint32_t number = 0; number < WORDS; number++)
    for (uint32_t bit = 0; bit < 64; bit += number < 2 ? 1 : 7) {
      store *s = store_new(SEGMENT);
      CHECK(PS_OK, store_go_live(s));
      for (uint32_t i = 0; i < 120; i++)
        CHECK(PS_OK, store_append(s, 600, i % 2));
      CHECK(PS_OK, store_sync(s));
      _Atomic uint64_t *changed = word(ps_live_words_of(s->live), number);
      uint64_t before = atomic_fetch_xor(changed, UINT64_C(1) << bit);
      uint64_t least = store_ends(s).published_end;
      CHECK(PS_E_POISONED, store_append(s, 600, PS_ACK_SYNCED));
      CHECK(PS_E_POISONED, store_append(s, 600, PS_ACK_LEADER));
      CHECK(PS_E_POISONED, ps_log_check_guard(s->log, &s->error));
      CHECK_TRUE(store_ends(s).published_end >= least);
      CHECK(number == 0 ? store_ends(s).published_end : before,
            atomic_load(changed));
      CHECK(PS_E_POISONED, ps_log_close(s->log, &s->error));
      CHECK(0, store_free(s));
    }
}

CHECK_MAIN(CASE(the_writers_own_changes_poison_nothing),
           CASE(a_word_of_another_program_poisons_the_log))
