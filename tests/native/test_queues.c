/* Topic names and next queue offsets. */
#include "queues.h"

#include <pthread.h>

#include "check.h"
#include "format.h"

static uint32_t intern(ps_topics *topics, const char *name) {
  return ps_topics_intern(topics, (const uint8_t *)name,
                          (uint32_t)strlen(name));
}

static int64_t *next_of(ps_queues *queues, const char *topic, int32_t id) {
  return ps_queues_next(queues, (const uint8_t *)topic, (uint32_t)strlen(topic),
                        id);
}

/* ---- Topics -------------------------------------------------------------- */

/* A name keeps its id and its place, however many follow. */
static void a_topic_keeps_its_id(void) {
  ps_topics *topics = ps_topics_new();
  REQUIRE(topics);
  const uint8_t *first;
  uint32_t size;
  CHECK(0, intern(topics, "first"));
  CHECK(1, ps_topics_name(topics, 0, &first, &size));
  for (uint32_t round = 0; round < 2; round++)
    for (uint32_t i = 1; i < 5000; i++) {
      char name[32];
      snprintf(name, sizeof name, "topic-%" PRIu32, i);
      CHECK(i, intern(topics, name));
    }
  const uint8_t *again;
  CHECK(1, ps_topics_name(topics, 0, &again, &size));
  CHECK_TRUE(first == again);
  CHECK(5, size);
  CHECK_BYTES("first", again, 5);
  CHECK(0, ps_topics_name(topics, 5000, &again, &size));
  CHECK(0, ps_topics_name(topics, PS_NO_TOPIC, &again, &size));
  ps_topics_free(topics);
}

/* Names are bytes: empty, with NUL and prefixes of each other. */
static void topics_are_bytes(void) {
  ps_topics *topics = ps_topics_new();
  REQUIRE(topics);
  CHECK(0, ps_topics_intern(topics, (const uint8_t *)"a\0b", 3));
  CHECK(1, ps_topics_intern(topics, (const uint8_t *)"a\0c", 3));
  CHECK(2, ps_topics_intern(topics, (const uint8_t *)"a", 1));
  CHECK(3, ps_topics_intern(topics, (const uint8_t *)"", 0));
  CHECK(0, ps_topics_intern(topics, (const uint8_t *)"a\0b", 3));
  ps_topics_free(topics);
}

static void *intern_many(void *argument) {
  ps_topics *topics = argument;
  for (int i = 0; i < 3000; i++) {
    char name[32];
    snprintf(name, sizeof name, "t%d", i * 7 % 500);
    uint32_t id = intern(topics, name);
    const uint8_t *found = NULL;
    uint32_t size = 0;
    if (!ps_topics_name(topics, id, &found, &size) || size != strlen(name) ||
        memcmp(found, name, size) != 0)
      return argument;
  }
  return NULL;
}

/* Threads that intern the same names agree on the ids. */
static void threads_agree_on_ids(void) {
  ps_topics *topics = ps_topics_new();
  REQUIRE(topics);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    CHECK(0, pthread_create(&threads[i], NULL, intern_many, topics));
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    CHECK_TRUE(failed == NULL);
  }
  CHECK(500, intern(topics, "one more"));
  ps_topics_free(topics);
}

/* ---- Queues ----------------------------------------------------------- */

/* A new queue begins at 0; its place stays while others are added. */
static void a_queue_stays_where_it_is(void) {
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  int64_t *first = next_of(queues, "A", 0);
  REQUIRE(first);
  CHECK(0, *first);
  *first = 41;
  for (int32_t i = 0; i < 3000; i++) {
    char name[32];
    snprintf(name, sizeof name, "topic number %d", i / 7);
    int64_t *next = next_of(queues, name, i % 7);
    REQUIRE(next);
    CHECK(0, *next);
    *next = i;
  }
  CHECK(41, *first);
  CHECK_TRUE(first == next_of(queues, "A", 0));
  CHECK(0, *next_of(queues, "A", 1));
  CHECK(0, *next_of(queues, "B", 0));
  for (int32_t i = 0; i < 3000; i++) {
    char name[32];
    snprintf(name, sizeof name, "topic number %d", i / 7);
    CHECK(i, *next_of(queues, name, i % 7));
  }
  ps_queues_reset(queues);
  CHECK(0, *next_of(queues, "A", 0));
  ps_queues_free(queues);
  ps_topics_free(topics);
}

/* Queue form goes out and in again; loading never lowers an offset. */
static void queue_form_goes_both_ways(void) {
  static const uint8_t form[] = "\0\1A\0\0\0\3\0\0\0\0\0\0\0\7"
                                "\0\3Bee\0\0\0\0\0\0\0\1\0\0\0\0";
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  ps_error error;
  CHECK(PS_OK, ps_queues_load(queues, form, sizeof form - 1, &error));
  CHECK(7, *next_of(queues, "A", 3));
  CHECK(0x100000000, *next_of(queues, "Bee", 0));
  uint8_t out[64];
  uint64_t size = 0;
  CHECK(PS_E_SPACE, ps_queues_fill(queues, NULL, 0, &size, &error));
  CHECK(sizeof form - 1, size);
  CHECK(PS_E_SPACE, ps_queues_fill(queues, out, size - 1, &size, &error));
  CHECK(PS_OK, ps_queues_fill(queues, out, size, &size, &error));
  CHECK_BYTES(form, out, size);
  *next_of(queues, "A", 3) = 9;
  CHECK(PS_OK, ps_queues_load(queues, form, sizeof form - 1, &error));
  CHECK(9, *next_of(queues, "A", 3));
  ps_queues_free(queues);
  ps_topics_free(topics);
}

/* Each changed queue is taken once, whatever came between; a take that does not
 * fit takes nothing. */
static void changed_queues_are_taken_once(void) {
  static const uint8_t both[] = "\0\1B\0\0\0\0\0\0\0\0\0\0\0\2"
                                "\0\1A\0\0\0\3\0\0\0\0\0\0\0\7";
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  ps_error error;
  uint8_t out[64];
  uint64_t size = 9;
  CHECK(PS_OK, ps_queues_take(queues, NULL, 0, &size, &error));
  CHECK(0, size);
  *next_of(queues, "A", 3) = 5;
  *next_of(queues, "B", 0) = 2;
  *next_of(queues, "A", 3) = 7;
  CHECK(PS_E_SPACE, ps_queues_take(queues, out, 29, &size, &error));
  CHECK(30, size);
  CHECK(PS_OK, ps_queues_take(queues, out, sizeof out, &size, &error));
  CHECK(30, size);
  CHECK_BYTES(both, out, 30);
  CHECK(PS_OK, ps_queues_take(queues, NULL, 0, &size, &error));
  *next_of(queues, "A", 3) = 7;
  CHECK(PS_OK, ps_queues_take(queues, out, sizeof out, &size, &error));
  CHECK(15, size);
  CHECK_BYTES(both + 15, out, 15);
  *next_of(queues, "C", 1) = 1;
  ps_queues_reset(queues);
  CHECK(PS_OK, ps_queues_take(queues, NULL, 0, &size, &error));
  CHECK(0, *next_of(queues, "C", 1));
  CHECK(PS_OK, ps_queues_take(queues, out, sizeof out, &size, &error));
  CHECK(15, size);
  ps_queues_free(queues);
  ps_topics_free(topics);
}

/* Queue form cut at any byte is refused and changes nothing. */
static void queue_form_cut_anywhere_is_refused(void) {
  static const uint8_t form[] = "\0\1A\0\0\0\3\0\0\0\0\0\0\0\7"
                                "\0\3Bee\0\0\0\0\0\0\0\1\0\0\0\0";
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  for (uint32_t cut = 1; cut < sizeof form - 1; cut++) {
    uint8_t *exact = malloc(cut);
    REQUIRE(exact);
    memcpy(exact, form, cut);
    ps_error error;
    CHECK(cut == 15 ? PS_OK : PS_E_INVALID,
          ps_queues_load(queues, exact, cut, &error));
    uint64_t size;
    ps_queues_fill(queues, NULL, 0, &size, &error);
    CHECK(cut < 15 ? 0 : 15, size);
    free(exact);
  }
  ps_error error;
  CHECK(PS_E_INVALID,
        ps_queues_load(queues,
                       (const uint8_t *)"\0\1A\0\0\0\3\x80\0\0\0\0\0\0\7", 15,
                       &error));
  CHECK_TEXT("queue form: the entry at 0 has next queue offset "
             "-9223372036854775801",
             error.text);
  ps_queues_free(queues);
  ps_topics_free(topics);
}

/* Scanned rows raise the offsets of their queues, but for rows without topic
 * and PREPARED and ROLLBACK records. */
static void scanned_rows_raise_offsets(void) {
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  uint32_t a = intern(topics, "A");
  uint32_t b = intern(topics, "B");
  const ps_record rows[] = {
      {.topic_id = a, .queue_id = 1, .queue_offset = 5},
      {.topic_id = a, .queue_id = 1, .queue_offset = 3},
      {.topic_id = b, .queue_id = 1, .queue_offset = 8},
      {.topic_id = b, .queue_id = 2, .queue_offset = 8, .sys_flag = 0x8},
      {.topic_id = a, .queue_id = 9, .queue_offset = 1, .sys_flag = 0x4},
      {.topic_id = a, .queue_id = 9, .queue_offset = 1, .sys_flag = 0xC},
      {.topic_id = PS_NO_TOPIC, .queue_id = 9, .queue_offset = -1},
  };
  ps_error error;
  CHECK(PS_OK, ps_queues_note(queues, rows, 7, &error));
  CHECK(6, *next_of(queues, "A", 1));
  CHECK(9, *next_of(queues, "B", 1));
  CHECK(9, *next_of(queues, "B", 2));
  CHECK(0, *next_of(queues, "A", 9));
  const ps_record bad[] = {
      {.topic_id = a, .offset = 70, .queue_offset = INT64_MAX},
      {.topic_id = a, .offset = 80, .queue_offset = -1},
      {.topic_id = 99, .offset = 90}};
  CHECK(PS_E_CORRUPT, ps_queues_note(queues, &bad[0], 1, &error));
  CHECK(70, error.offset);
  CHECK(PS_E_CORRUPT, ps_queues_note(queues, &bad[1], 1, &error));
  CHECK_TEXT("record at offset 80: queue offset -1", error.text);
  CHECK(PS_E_INVALID, ps_queues_note(queues, &bad[2], 1, &error));
  ps_queues_free(queues);
  ps_topics_free(topics);
}

/* A topic that was deleted and made again begins at 0; its next offset is that
 * of the new one, whatever the old one had. */
static void a_row_with_queue_offset_0_begins_anew(void) {
  ps_topics *topics = ps_topics_new();
  ps_queues *queues = ps_queues_new(topics);
  REQUIRE(queues);
  uint32_t a = intern(topics, "A");
  const ps_record rows[] = {
      {.topic_id = a, .queue_id = 1, .queue_offset = 8},
      {.topic_id = a, .queue_id = 2, .queue_offset = 8},
      {.topic_id = a, .queue_id = 1, .queue_offset = 0},
      {.topic_id = a, .queue_id = 1, .queue_offset = 1},
  };
  ps_error error;
  CHECK(PS_OK, ps_queues_note(queues, rows, 4, &error));
  CHECK(2, *next_of(queues, "A", 1));
  CHECK(9, *next_of(queues, "A", 2));
  ps_queues_free(queues);
  ps_topics_free(topics);
}

CHECK_MAIN(CASE(a_topic_keeps_its_id), CASE(topics_are_bytes),
           CASE(threads_agree_on_ids), CASE(a_queue_stays_where_it_is),
           CASE(queue_form_goes_both_ways), CASE(changed_queues_are_taken_once),
           CASE(queue_form_cut_anywhere_is_refused),
           CASE(scanned_rows_raise_offsets),
           CASE(a_row_with_queue_offset_0_begins_anew))
