/* A received frame is appended and acked in one call. */
#include "append_frame.h"

#include "check.h"
#include "format.h"
#include "support_log.h"
#include "wire.h"

enum { SEGMENT = 1 << 16, RECORDS = 20 };

typedef struct source {
  uint8_t bytes[SEGMENT];
  uint64_t ends[RECORDS + 1];
} source;

static void make_source(source *from) {
  store *s = store_new(SEGMENT);
  from->ends[0] = 0;
  for (uint32_t i = 0; i < RECORDS; i++) {
    CHECK(PS_OK, store_append(s, 100 + 17 * i, PS_ACK_LEADER));
    from->ends[i + 1] = store_ends(s).published_end;
  }
  CHECK(PS_OK,
        store_copy(s->log, 0, from->ends[RECORDS], from->bytes, &s->error));
  CHECK(0, store_free(s));
}

static ps_step step_of(void) {
  return (ps_step){.session_epoch = 7,
                   .block_epoch = 6,
                   .epoch_start = 0,
                   .session_id = 99,
                   .frame_bytes_max = 1 << 20,
                   .now_ms = 4321};
}

/* The frame of one record, in memory of exactly its size. */
static uint8_t *frame_of(const source *from, uint32_t i, uint64_t *size) {
  uint64_t at = from->ends[i], until = from->ends[i + 1];
  *size = PS_DATA_HEAD + until - at;
  uint8_t *frame = calloc(1, *size);
  ps_store32(frame, (uint32_t)*size);
  ps_store32(frame + 4, 6);
  ps_store64(frame + 8, 1234);
  ps_store64(frame + 16, 7);
  ps_store64(frame + 24, 6);
  ps_store64(frame + 40, at);
  ps_store64(frame + 48, at);
  ps_store64(frame + 56, until);
  ps_store64(frame + 64, 99);
  ps_store32(frame + 72, (uint32_t)(until - at));
  memcpy(frame + PS_DATA_HEAD, from->bytes + at, until - at);
  return frame;
}

static ps_status step(store *s, const uint8_t *frame, uint64_t size,
                      ps_step *given, uint32_t *taken) {
  ps_ends ends;
  return ps_log_append_frame(s->log, frame, size, given, &ends, taken,
                             &s->error);
}

static void check_ack(const uint8_t *ack, uint64_t end) {
  CHECK(80, ps_load32(ack));
  CHECK(7, ps_load32(ack + 4));
  CHECK(4321, ps_load64(ack + 8));
  CHECK(7, ps_load64(ack + 16));
  CHECK(99, ps_load64(ack + 24));
  CHECK(end, ps_load64(ack + 32));
  CHECK_TRUE(ps_load64(ack + 40) <= end);
  CHECK(0, ps_load64(ack + 48)); /* nothing was confirmed */
  CHECK(1234, ps_load64(ack + 56));
  CHECK(end, ps_load64(ack + 64));
  CHECK(0, ps_load64(ack + 72));
}

/* The log becomes the same, and each ack has its end. */
static void frames_in_step_are_appended_and_acked(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  ps_step given = step_of();
  for (uint32_t i = 0; i < RECORDS; i++) {
    uint64_t size;
    uint32_t taken = 0;
    uint8_t *frame = frame_of(&from, i, &size);
    CHECK(PS_OK, step(s, frame, size, &given, &taken));
    CHECK(1, taken);
    CHECK(from.ends[i], given.confirm_offset);
    CHECK(from.ends[i], given.offset);
    CHECK(from.ends[i + 1], store_ends(s).published_end);
    check_ack(given.ack, from.ends[i + 1]);
    free(frame);
  }
  uint8_t bytes[SEGMENT];
  CHECK(PS_OK, store_copy(s->log, 0, from.ends[RECORDS], bytes, &s->error));
  CHECK_BYTES(from.bytes, bytes, from.ends[RECORDS]);
  CHECK(0, store_free(s));
}

/* Another value in any field but the send time, the master's confirm offset and
 * a higher end of its log: nothing is done. Fewer or more bytes: likewise. */
static void a_frame_out_of_step_changes_nothing(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  uint64_t size;
  uint8_t *frame = frame_of(&from, 0, &size);
  for (uint64_t at = 0; at < PS_DATA_HEAD; at++) {
    int32_t may_change = (at >= 8 && at < 16) || (at >= 40 && at < 48) ||
                         (at >= 61 && at < 64) || at >= 84;
    if (may_change)
      continue;
    ps_step given = step_of();
    uint32_t taken = 7;
    frame[at] ^= 0x80;
    CHECK(PS_OK, step(s, frame, size, &given, &taken));
    CHECK(0, taken);
    frame[at] ^= 0x80;
  }
  for (uint64_t most = 0; most < size; most++) {
    ps_step given = step_of();
    uint32_t taken = 7;
    uint8_t *part = malloc(most + 1);
    memcpy(part, frame, most);
    CHECK(PS_OK, step(s, part, most, &given, &taken));
    CHECK(0, taken);
    free(part);
  }
  ps_step given = step_of();
  given.frame_bytes_max = size - 1;
  uint32_t taken = 7;
  CHECK(PS_OK, step(s, frame, size, &given, &taken));
  CHECK(0, taken);
  CHECK(0, store_ends(s).received_end);
  free(frame);
  CHECK(0, store_free(s));
}

/* Far behind, one ack does for many blocks: that is for the caller. */
static void a_log_that_is_far_behind_is_left_to_the_caller(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  uint64_t size;
  uint8_t *frame = frame_of(&from, 0, &size);
  ps_step given = step_of();
  uint32_t taken = 7;
  ps_store64(frame + 56, from.ends[1] + PS_FAR_BEHIND);
  CHECK(PS_OK, step(s, frame, size, &given, &taken));
  CHECK(0, taken);
  ps_store64(frame + 56, from.ends[1] + PS_FAR_BEHIND - 1);
  CHECK(PS_OK, step(s, frame, size, &given, &taken));
  CHECK(1, taken);
  free(frame);
  CHECK(0, store_free(s));
}

/* The caller learns which block it was; there is no ack. */
static void a_block_that_is_no_record_is_an_error(void) {
  source from;
  make_source(&from);
  store *s = store_new(SEGMENT);
  uint64_t size;
  uint8_t *frame = frame_of(&from, 0, &size);
  ps_step given = step_of();
  uint32_t taken = 7;
  frame[PS_DATA_HEAD + 4] ^= 1; /* its magic */
  CHECK(PS_E_CORRUPT, step(s, frame, size, &given, &taken));
  CHECK(0, taken);
  CHECK(0, given.offset);
  CHECK(from.ends[1], given.block_size);
  free(frame);
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(frames_in_step_are_appended_and_acked),
           CASE(a_frame_out_of_step_changes_nothing),
           CASE(a_log_that_is_far_behind_is_left_to_the_caller),
           CASE(a_block_that_is_no_record_is_an_error))
