/* From raw appends to appends of the log's own: a slave becomes master. */
#include "check.h"
#include "support_log.h"

enum { SEGMENT = 12288 };

/* Queue offsets go on behind the records that came raw, the halves of which
 * arrived in any pieces. */
static void queue_offsets_go_on_behind_raw_records(void) {
  store *from = store_new(SEGMENT);
  for (uint32_t i = 0; i < 70; i++)
    CHECK(PS_OK, store_append(from, 300, PS_ACK_LEADER));
  uint64_t size = store_ends(from).published_end;
  uint8_t *bytes = malloc(size);
  REQUIRE(bytes != NULL);
  CHECK(PS_OK, store_copy(from->log, 0, size, bytes, &from->error));
  store *to = store_new(SEGMENT);
  uint64_t received = 0;
  for (uint64_t at = 0; at < size; at = received) {
    uint64_t piece = size - at < 17000 ? size - at : 17000;
    CHECK(PS_OK, ps_log_append_raw(to->log, at, bytes + at, piece, &received,
                                   &to->error));
    if (received <= at)
      break;
  }
  uint8_t expected[256], found[256];
  uint64_t expected_size = 0, found_size = 0, end = 0;
  CHECK(PS_OK, ps_log_queues_fill(from->log, 0, expected, sizeof expected,
                                  &expected_size, &end, &from->error));
  CHECK(PS_OK, ps_log_queues_fill(to->log, 0, found, sizeof found, &found_size,
                                  &end, &to->error));
  CHECK(expected_size, found_size);
  CHECK_TRUE(expected_size > 0);
  CHECK_BYTES(expected, found, expected_size);
  CHECK(size, end);
  free(bytes);
  CHECK(0, store_free(from));
  CHECK(0, store_free(to));
}

/* A record may leave less than a blank record needs: no RocketMQ writes so,
 * but bytes come from elsewhere. Appends say it, and nothing dies. */
static void a_rest_too_small_for_a_blank_record_is_an_error(void) {
  store *from = store_new(2 * SEGMENT);
  CHECK(PS_OK, store_append(from, 8, PS_ACK_LEADER));
  uint32_t around = (uint32_t)store_ends(from).published_end - 8;
  uint32_t left = SEGMENT - 5 - (around + 8);
  CHECK(PS_OK, store_append(from, left - around, PS_ACK_LEADER));
  uint64_t size = store_ends(from).published_end;
  CHECK(SEGMENT - 5, size);
  uint8_t bytes[SEGMENT];
  CHECK(PS_OK, store_copy(from->log, 0, size, bytes, &from->error));
  store *to = store_new(SEGMENT);
  uint64_t received = 0;
  CHECK(PS_OK,
        ps_log_append_raw(to->log, 0, bytes, size, &received, &to->error));
  CHECK(size, store_ends(to).published_end);
  CHECK(PS_E_CORRUPT, store_append(to, 8, PS_ACK_LEADER));
  CHECK(size, to->error.offset);
  CHECK(PS_E_CORRUPT, ps_log_roll(to->log, &to->error));
  CHECK(PS_OK, store_sync(to));
  CHECK(PS_OK, store_cut(to, around + 8));
  CHECK(PS_OK, store_append(to, 8, PS_ACK_LEADER));
  CHECK(0, store_free(from));
  CHECK(0, store_free(to));
}

CHECK_MAIN(CASE(queue_offsets_go_on_behind_raw_records),
           CASE(a_rest_too_small_for_a_blank_record_is_an_error))
