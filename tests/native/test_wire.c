/* Transfer frames in batches: against the layout, at every cut. */
#include "wire.h"

#include "check.h"
#include "checksum.h"
#include "format.h"

enum { FRAMES = 16, SEGMENT = 1024, END = 2844, LIMIT = 4096 };

static const ps_epoch epochs[] = {{1, 0}, {2, 1580}, {4, 2370}};

static ps_transfer all_of_it(void) {
  return (ps_transfer){.epochs = epochs,
                       .epoch_count = 3,
                       .end_offset = END,
                       .segment_size = SEGMENT,
                       .confirm_offset = 2000,
                       .session_epoch = 9,
                       .session_id = 77,
                       .sent_ms = 123456,
                       .block_bytes_max = LIMIT};
}

/* The heads and blocks of a whole log as a slave receives them, in memory of
 * exactly their size. */
static uint8_t *stream_of(const uint8_t *log, uint64_t *size, ps_frame *frames,
                          uint32_t *count) {
  uint8_t heads[FRAMES * PS_DATA_HEAD];
  ps_transfer transfer = all_of_it();
  ps_error error;
  CHECK(PS_OK, ps_frames_fill(&transfer, 0, log, END, heads, frames, FRAMES,
                              count, &error));
  *size = END + *count * PS_DATA_HEAD;
  uint8_t *stream = malloc(*size);
  uint64_t at = 0;
  for (uint32_t i = 0; i < *count; i++) {
    memcpy(stream + at, heads + i * PS_DATA_HEAD, PS_DATA_HEAD);
    memcpy(stream + at + PS_DATA_HEAD, log + frames[i].offset,
           frames[i].block_size);
    at += PS_DATA_HEAD + frames[i].block_size;
  }
  CHECK(*size, at);
  return stream;
}

/* Blocks end at epochs and segments; the label is that of the first byte. */
static void blocks_are_cut_and_labelled(void) {
  static const int64_t expected[][4] = {{0, 1024, 1, 0},
                                        {1024, 556, 1, 0},
                                        {1580, 468, 2, 1580},
                                        {2048, 322, 2, 1580},
                                        {2370, 474, 4, 2370}};
  uint8_t heads[FRAMES * PS_DATA_HEAD];
  ps_frame frames[FRAMES];
  ps_transfer transfer = all_of_it();
  ps_error error;
  uint32_t count;
  CHECK(PS_OK, ps_frames_fill(&transfer, 0, NULL, LIMIT, heads, frames, FRAMES,
                              &count, &error));
  CHECK(5, count);
  for (uint32_t i = 0; i < count && i < 5; i++) {
    const uint8_t *head = heads + i * PS_DATA_HEAD;
    CHECK(expected[i][0], ps_load64(head + 48));
    CHECK(expected[i][1], ps_load32(head + 72));
    CHECK(expected[i][2], ps_load64(head + 24));
    CHECK(expected[i][3], ps_load64(head + 32));
    CHECK(PS_DATA_HEAD + expected[i][1], ps_load32(head));
    CHECK(expected[i][0] == expected[i][3] ? 2 : 0, ps_load32(head + 80));
    CHECK(0, ps_load32(head + 76));
  }
}

/* What is filled is found again, with its checksums. */
static void what_is_filled_is_found(void) {
  uint8_t log[END];
  check_random_fill(log, END);
  ps_frame sent[FRAMES], found[FRAMES];
  uint32_t sent_count, count;
  uint64_t size, taken;
  uint8_t *stream = stream_of(log, &size, sent, &sent_count);
  ps_error error;
  CHECK(PS_OK, ps_frames_scan(stream, size, LIMIT, 1, found, FRAMES, &count,
                              &taken, &error));
  CHECK(sent_count, count);
  CHECK(size, taken);
  for (uint32_t i = 0; i < count; i++) {
    CHECK(1, found[i].crc_holds);
    sent[i].body_at = found[i].body_at;
    CHECK_BYTES(&sent[i], &found[i], sizeof sent[i]);
  }
  stream[size - 1] ^= 1;
  CHECK(PS_OK, ps_frames_scan(stream, size, LIMIT, 1, found, FRAMES, &count,
                              &taken, &error));
  CHECK(0, found[count - 1].crc_holds);
  free(stream);
}

/* R272: at every cut the frames that are whole, and nothing behind is read. */
static void half_a_frame_waits_at_every_cut(void) {
  uint8_t log[END];
  check_random_fill(log, END);
  ps_frame sent[FRAMES], found[FRAMES];
  uint32_t sent_count, count;
  uint64_t size, taken;
  uint8_t *stream = stream_of(log, &size, sent, &sent_count);
  ps_error error;
  for (uint64_t cut = 0; cut <= size; cut++) {
    uint8_t *exact = malloc(cut + 1);
    memcpy(exact + 1, stream, cut);
    CHECK(PS_OK, ps_frames_scan(exact + 1, cut, LIMIT, 1, found, FRAMES, &count,
                                &taken, &error));
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++)
      end += PS_DATA_HEAD + sent[i].block_size;
    CHECK(end, taken);
    CHECK_TRUE(count == sent_count ||
               cut - end < PS_DATA_HEAD + sent[count].block_size);
    free(exact);
  }
  free(stream);
}

static int32_t scan_one(int32_t length, int32_t type, uint64_t size) {
  uint8_t data[64] = {0};
  ps_store32(data, (uint32_t)length);
  ps_store32(data + 4, (uint32_t)type);
  ps_frame frame;
  ps_error error;
  uint32_t count;
  uint64_t taken;
  return ps_frames_scan(data, size, 64, 0, &frame, 1, &count, &taken, &error);
}

/* Lengths and types that no frame has are refused by their bytes alone. */
static void what_is_no_frame_is_refused_at_once(void) {
  CHECK(PS_E_CORRUPT, scan_one(23, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(65, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(-1, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(INT32_MIN, 7, 4));
  CHECK(PS_OK, scan_one(64, 7, 4));
  CHECK(PS_OK, scan_one(23, 7, 3));
  CHECK(PS_E_CORRUPT, scan_one(64, 0, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, 8, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, 15, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, -1, 8));
  CHECK(PS_OK, scan_one(64, 16, 64));
  CHECK(PS_E_CORRUPT, scan_one(64, 6, 64));
}

/* R100, R188, and sizes that nothing has. */
static void what_cannot_be_sent_is_refused(void) {
  uint8_t heads[PS_DATA_HEAD];
  ps_frame frame;
  ps_error error;
  uint32_t count;
  ps_transfer t = all_of_it();
  t.min_offset = 1024;
  CHECK(PS_E_RANGE,
        ps_frames_fill(&t, 1023, NULL, 1, heads, &frame, 1, &count, &error));
  CHECK(PS_E_RANGE,
        ps_frames_fill(&t, END + 1, NULL, 1, heads, &frame, 1, &count, &error));
  t.epochs = epochs + 1;
  t.epoch_count = 2;
  CHECK(PS_E_INVALID,
        ps_frames_fill(&t, 1579, NULL, 1, heads, &frame, 1, &count, &error));
  CHECK(PS_OK,
        ps_frames_fill(&t, 1580, NULL, 1, heads, &frame, 1, &count, &error));
  t.segment_size = 0;
  CHECK(PS_E_INVALID,
        ps_frames_fill(&t, 1580, NULL, 1, heads, &frame, 1, &count, &error));
}

CHECK_MAIN(CASE(blocks_are_cut_and_labelled), CASE(what_is_filled_is_found),
           CASE(half_a_frame_waits_at_every_cut),
           CASE(what_is_no_frame_is_refused_at_once),
           CASE(what_cannot_be_sent_is_refused))
