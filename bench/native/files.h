/* Segment files as the bare loops write them: allocated, written in pieces,
 * written back early by a thread, durable at the end.
 *
 * No code of the log is used here: these loops are its limit. An error of a
 * system call ends the program.
 */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define PIECE (64u << 10)
#define EARLY (8u << 20)
#define FILES_MAX 256

typedef struct files {
  const char *directory;
  uint64_t file_size;
  int file[FILES_MAX];
  uint32_t count;
  _Atomic uint64_t end; /* bytes written, over all files */
  uint64_t started;     /* write-back was started below this */
  uint32_t is_early;    /* a thread starts write-back each 8 MiB */
  _Atomic uint32_t is_stopping;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
} files;

/* Prints the failed call and the reason, and ends the program. */
_Noreturn void die(const char *what);

double seconds(void);

void files_begin(files *all, const char *directory, uint64_t file_size,
                 uint32_t is_early);

/* Allocates one more file of file_size bytes and answers its descriptor. */
int files_add(files *all);

/* Writes in pieces at the end of the newest file; after a full file it makes
 * a new one. */
void files_write(files *all, const uint8_t *data, uint64_t size);

/* Stops the thread; every file and its name are durable after this. */
void files_end(files *all);

#endif
