/* Segment files as the bare loops write them. */
#include "files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Noreturn void die(const char *what) {
  perror(what);
  exit(1);
}

double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Starts write-back of [all->started, end). */
static void write_back(files *all, uint64_t end) {
  while (all->started < end) {
    uint64_t index = all->started / all->file_size;
    uint64_t at = all->started % all->file_size;
    uint64_t size = end - all->started;
    if (size > all->file_size - at)
      size = all->file_size - at;
    if (sync_file_range(all->file[index], (off_t)at, (off_t)size,
                        SYNC_FILE_RANGE_WRITE) != 0)
      die("sync_file_range");
    all->started += size;
  }
}

static void *run(void *argument) {
  files *all = argument;
  pthread_mutex_lock(&all->lock);
  while (!all->is_stopping) {
    uint64_t end = atomic_load(&all->end);
    if (end < all->started + EARLY) {
      pthread_cond_wait(&all->wake, &all->lock);
      continue;
    }
    pthread_mutex_unlock(&all->lock);
    write_back(all, end);
    pthread_mutex_lock(&all->lock);
  }
  pthread_mutex_unlock(&all->lock);
  return NULL;
}

void files_begin(files *all, const char *directory, uint64_t file_size,
                 uint32_t is_early) {
  memset(all, 0, sizeof *all);
  all->directory = directory;
  all->file_size = file_size;
  all->is_early = is_early;
  pthread_mutex_init(&all->lock, NULL);
  pthread_cond_init(&all->wake, NULL);
  if (is_early && pthread_create(&all->thread, NULL, run, all) != 0)
    die("pthread_create");
}

int files_add(files *all) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%020" PRIu64, all->directory,
           all->count * all->file_size);
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0 || all->count == FILES_MAX)
    die(path);
  if (fallocate(file, 0, 0, (off_t)all->file_size) != 0)
    die("fallocate");
  all->file[all->count++] = file;
  return file;
}

static void write_piece(files *all, const uint8_t *data, uint64_t size) {
  uint64_t end = atomic_load(&all->end);
  if (end == all->count * all->file_size)
    files_add(all);
  uint64_t at = end % all->file_size;
  if (pwrite(all->file[all->count - 1], data, size, (off_t)at) != (ssize_t)size)
    die("pwrite");
  atomic_store(&all->end, end + size);
  if (all->is_early && end / EARLY != (end + size) / EARLY) {
    pthread_mutex_lock(&all->lock);
    pthread_cond_signal(&all->wake);
    pthread_mutex_unlock(&all->lock);
  }
}

void files_write(files *all, const uint8_t *data, uint64_t size) {
  while (size > 0) {
    uint64_t piece = PIECE - atomic_load(&all->end) % PIECE;
    if (piece > size)
      piece = size;
    write_piece(all, data, piece);
    data += piece;
    size -= piece;
  }
}

void files_end(files *all) {
  pthread_mutex_lock(&all->lock);
  all->is_stopping = 1;
  pthread_cond_signal(&all->wake);
  pthread_mutex_unlock(&all->lock);
  if (all->is_early)
    pthread_join(all->thread, NULL);
  for (uint32_t i = 0; i < all->count; i++)
    if (fdatasync(all->file[i]) != 0 || close(all->file[i]) != 0)
      die("fdatasync");
  int directory = open(all->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0 || fsync(directory) != 0 || close(directory) != 0)
    die(all->directory);
}
