/* The loops that are the limits of a log: the cost of the system alone. */

/* Usage: loop MODE DIRECTORY BYTES FILE_SIZE [BATCH BODY_SIZE]
 *
 *   bare    pwrite of 64 KiB pieces into allocated files, write-back started
 *           each 8 MiB by a thread, until durable
 *   late    the same without early write-back
 *   mapped  the same bytes stored into shared mappings
 *   encode  the C loop: records of BATCH messages, over and over, are encoded
 *           and checksummed into a staging buffer and written as `bare` does
 *   sync    BYTES / BODY_SIZE times: pwrite of BODY_SIZE bytes, fdatasync
 *
 * Prints the seconds from before the first file is created until everything
 * is durable, and the bytes. The source of the bytes is 1 MiB that stays in
 * the cache, as a batch that was just received does. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files.h"
#include "format.h"
#include "records.h"

enum { SOURCE = 1 << 20, STAGE = 256 << 10 };

static files all;

static uint8_t *source(void) {
  uint8_t *data = malloc(SOURCE);
  if (!data)
    die("malloc");
  for (uint32_t i = 0; i < SOURCE; i++)
    data[i] = (uint8_t)(i * 2654435761u >> 13);
  return data;
}

static uint64_t run_bare(uint64_t bytes) {
  uint8_t *data = source();
  for (uint64_t done = 0; done < bytes; done += PIECE)
    files_write(&all, data + done % SOURCE, PIECE);
  return bytes;
}

static uint64_t run_mapped(uint64_t bytes) {
  uint8_t *data = source();
  for (uint64_t done = 0; done < bytes; done += all.file_size) {
    int file = files_add(&all);
    uint8_t *map =
        mmap(NULL, all.file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
      die("mmap");
    for (uint64_t at = 0; at < all.file_size; at += PIECE)
      memcpy(map + at, data + at % SOURCE, PIECE);
    if (munmap(map, all.file_size) != 0)
      die("munmap");
  }
  return bytes;
}

/* Writes whole pages of the staging buffer, or all of it. */
static uint64_t flush(uint8_t *stage, uint64_t staged, int is_all) {
  uint64_t size = is_all ? staged : staged / PIECE * PIECE;
  files_write(&all, stage, size);
  memmove(stage, stage + size, staged - size);
  return staged - size;
}

/* Ends a file with the blank record; answers the bytes that it takes. */
static uint64_t put_blank(uint8_t *stage, uint64_t staged, uint64_t room) {
  staged = flush(stage, staged, 1);
  uint8_t *blank = calloc(1, room);
  if (!blank)
    die("calloc");
  ps_store32(blank, (uint32_t)room);
  ps_store32(blank + 4, PS_MAGIC_BLANK);
  files_write(&all, blank, room);
  free(blank);
  return staged;
}

static uint64_t run_encode(uint64_t bytes, uint64_t batch, uint32_t body) {
  records *from = records_new(batch, body);
  uint8_t *stage = malloc(STAGE + PIECE + body + 1024);
  ps_record_cache cache = {0};
  uint64_t total = 0;
  uint64_t staged = 0;
  uint64_t records_wanted = bytes / body;
  int64_t queue_offset = 0;
  if (!stage)
    die("malloc");
  for (uint64_t i = 0; i < records_wanted; i++) {
    const ps_message *message = &from->messages[i % batch];
    uint32_t size = ps_record_size(message, &from->stamp);
    uint64_t room = all.file_size - total % all.file_size;
    if (size + PS_BLANK_SIZE > room) {
      staged = put_blank(stage, staged, room);
      total += room;
    }
    from->stamp.offset = total;
    from->stamp.queue_offset = queue_offset++;
    staged += ps_record_encode(stage + staged, message, &from->stamp, &cache);
    total += size;
    if (staged >= PIECE)
      staged = flush(stage, staged, 0);
  }
  flush(stage, staged, 1);
  return total;
}

static uint64_t run_sync(uint64_t bytes, uint32_t size) {
  uint8_t *data = source();
  int file = files_add(&all);
  for (uint64_t at = 0; at + size <= bytes; at += size) {
    if (pwrite(file, data, size, (off_t)at) != (ssize_t)size)
      die("pwrite");
    if (fdatasync(file) != 0)
      die("fdatasync");
  }
  return bytes;
}

int main(int argc, char **argv) {
  if (argc < 5)
    return 2;
  const char *mode = argv[1];
  uint64_t bytes = strtoull(argv[3], NULL, 0);
  uint64_t batch = argc > 5 ? strtoull(argv[5], NULL, 0) : 0;
  uint32_t body = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 0) : 0;
  int is_early = strcmp(mode, "bare") == 0 || strcmp(mode, "encode") == 0;
  files_begin(&all, argv[2], strtoull(argv[4], NULL, 0), (uint32_t)is_early);
  double start = seconds();
  uint64_t written = 0;
  if (strcmp(mode, "bare") == 0 || strcmp(mode, "late") == 0)
    written = run_bare(bytes);
  else if (strcmp(mode, "mapped") == 0)
    written = run_mapped(bytes);
  else if (strcmp(mode, "encode") == 0)
    written = run_encode(bytes, batch, body);
  else if (strcmp(mode, "sync") == 0)
    written = run_sync(bytes, body);
  else
    return 2;
  files_end(&all);
  printf("%.9f %" PRIu64 "\n", seconds() - start, written);
  return 0;
}
