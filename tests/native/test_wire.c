/* Transfer frames in batches: against the layout, at every cut. */
#include "wire.h"

#include "check.h"
#include "checksum.h"
#include "format.h"

enum { FRAMES = 16, END = 2844, LIMIT = 4096 };

/* Frames of a log: offset, size, epoch and epoch start of each block. */
static const uint32_t blocks[][4] = {{0, 1024, 1, 0},
                                     {1024, 556, 1, 0},
                                     {1580, 468, 2, 1580},
                                     {2048, 322, 2, 1580},
                                     {2370, 474, 4, 2370}};

static void put_head(uint8_t *head, const ps_frame *frame) {
  memset(head, 0, PS_DATA_HEAD);
  ps_store32(head, PS_DATA_HEAD + frame->block_size);
  ps_store32(head + 4, (uint32_t)frame->type);
  ps_store64(head + 8, (uint64_t)frame->sent_ms);
  ps_store64(head + 16, (uint64_t)frame->epoch);
  ps_store64(head + 24, (uint64_t)frame->block_epoch);
  ps_store64(head + 32, (uint64_t)frame->epoch_start);
  ps_store64(head + 40, (uint64_t)frame->confirm_offset);
  ps_store64(head + 48, (uint64_t)frame->offset);
  ps_store64(head + 56, (uint64_t)frame->end_offset);
  ps_store64(head + 64, (uint64_t)frame->session_id);
  ps_store32(head + 72, frame->block_size);
  ps_store32(head + 76, frame->crc);
  ps_store32(head + 80, (uint32_t)frame->flags);
}

/* The heads and blocks of a whole log as a slave receives them, in memory of
 * exactly their size. */
static uint8_t *stream_of(const uint8_t *log, uint64_t *size, ps_frame *frames,
                          uint32_t *count) {
  *count = sizeof blocks / sizeof blocks[0];
  *size = END + *count * PS_DATA_HEAD;
  uint8_t *stream = malloc(*size);
  uint64_t at = 0;
  for (uint32_t i = 0; i < *count; i++) {
    const uint8_t *block = log + blocks[i][0];
    frames[i] =
        (ps_frame){.epoch = 9,
                   .sent_ms = 123456,
                   .body_at = at + PS_FRAME_HEADER,
                   .body_size = PS_DATA_HEAD - PS_FRAME_HEADER + blocks[i][1],
                   .type = 6,
                   .block_epoch = blocks[i][2],
                   .epoch_start = blocks[i][3],
                   .confirm_offset = 2000,
                   .offset = blocks[i][0],
                   .end_offset = END,
                   .session_id = 77,
                   .block_size = blocks[i][1],
                   .crc = ps_crc32(0, block, blocks[i][1]),
                   .flags = 2,
                   .crc_holds = 1};
    put_head(stream + at, &frames[i]);
    memcpy(stream + at + PS_DATA_HEAD, block, blocks[i][1]);
    at += PS_DATA_HEAD + blocks[i][1];
  }
  CHECK(*size, at);
  return stream;
}

/* What is sent is found again, with its checksums. */
static void frames_that_are_sent_are_found(void) {
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
    CHECK_BYTES(&sent[i], &found[i], sizeof sent[i]);
  }
  stream[size - 1] ^= 1;
  CHECK(PS_OK, ps_frames_scan(stream, size, LIMIT, 1, found, FRAMES, &count,
                              &taken, &error));
  CHECK(0, found[count - 1].crc_holds);
  free(stream);
}

/* RMQ-R272: at every cut the frames that are whole, and nothing behind is
 * read. */
static void a_partial_frame_is_not_taken(void) {
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
static void bytes_that_are_no_frame_are_refused_at_once(void) {
  CHECK(PS_E_CORRUPT, scan_one(23, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(65, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(-1, 7, 4));
  CHECK(PS_E_CORRUPT, scan_one(INT32_MIN, 7, 4));
  CHECK(PS_OK, scan_one(64, 7, 4));
  CHECK(PS_OK, scan_one(23, 7, 3));
  CHECK(PS_E_CORRUPT, scan_one(64, 0, 8));
  CHECK(PS_OK, scan_one(64, 9, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, 12, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, 15, 8));
  CHECK(PS_E_CORRUPT, scan_one(64, -1, 8));
  CHECK(PS_OK, scan_one(64, 16, 64));
  CHECK(PS_E_CORRUPT, scan_one(64, 6, 64));
}

CHECK_MAIN(CASE(frames_that_are_sent_are_found),
           CASE(a_partial_frame_is_not_taken),
           CASE(bytes_that_are_no_frame_are_refused_at_once))
