/* A file system in memory that fails on request, runs full and loses power.
 *
 * Every file has two contents: the page cache, which all open files and
 * mappings share, and the disk. What a call changes is in the cache until a
 * sync of the file (pages and size) or of the directory (names) brings it to
 * the disk. So one state has two kinds of successors:
 *
 *   memory_after_kill       the process died: the cache is what counts
 *   memory_after_power_cut  the disk, plus any choice of what was not synced:
 *                           each 4 KiB page (also torn at a 512-byte sector),
 *                           each name, each file size for itself
 *
 * A sync that fails marks the pages clean and writes none of them, as Linux
 * does: a later sync succeeds and the disk still lacks them.
 *
 * Any number of threads may call; one lock covers all.
 */
#ifndef SUPPORT_MEMORY_H
#define SUPPORT_MEMORY_H

#include <pthread.h>
#include <stdbool.h>

#include "env.h"

enum {
  MEMORY_PAGE = 4096,
  MEMORY_SECTOR = 512,
  MEMORY_FILES = 96,
  MEMORY_NAMES = 192,
  MEMORY_STATES = 24,
  MEMORY_OPEN = 64,
  MEMORY_PATH = 96,
  MEMORY_FAULTS = 3
};

typedef enum memory_call {
  CALL_OPEN,
  CALL_CLOSE,
  CALL_SIZE,
  CALL_READ,
  CALL_WRITE,
  CALL_ALLOCATE,
  CALL_ZERO,
  CALL_DATA_END,
  CALL_SYNC,
  CALL_SYNC_DIRECTORY,
  CALL_WRITEBACK,
  CALL_RENAME,
  CALL_REMOVE,
  CALL_LIST,
  CALL_MAP,
  CALL_POPULATE,
  CALL_ANY /* of a fault: whichever comes; also the number of kinds */
} memory_call;

typedef struct memory_file {
  uint8_t *cache;
  uint8_t *disk;
  uint8_t *dirty;     /* per page */
  uint8_t *allocated; /* per page */
  uint64_t size;
  uint64_t disk_size;
} memory_file;

/* What a name stood for since the last sync of its directory, oldest first;
 * states[0] is on disk. -1: no such name. */
typedef struct memory_name {
  char path[MEMORY_PATH];
  int32_t states[MEMORY_STATES];
  uint32_t count;
} memory_name;

/* The nth such call from now fails with `error` (an errno), once or from then
 * on. A write first writes `short_bytes` and answers that; the next one of
 * that kind fails. error 0: only the short write. */
typedef struct memory_fault {
  memory_call kind;
  uint64_t nth; /* 0: fires no more */
  int32_t error;
  bool repeats;
  uint64_t short_bytes;
} memory_fault;

typedef struct memory {
  ps_env env; /* first: what the core sees; env.self is this */
  pthread_mutex_t lock;
  uint64_t capacity; /* of each file */
  memory_file files[MEMORY_FILES];
  uint32_t files_count;
  memory_name names[MEMORY_NAMES];
  uint32_t names_count;
  int32_t open[MEMORY_OPEN]; /* descriptor -> file, -1: closed */
  int32_t mappings;
  uint8_t *kept[MEMORY_FILES]; /* caches that became private copies */
  uint32_t kept_count;
  uint64_t space; /* free bytes; pages take of it when first allocated */
  bool is_kernel; /* ThreadSanitizer sees writes as little as a kernel's */
  bool punches;   /* zeroing gives the space away, as tmpfs does */
  memory_fault faults[MEMORY_FAULTS];
  uint64_t faults_fired;
  int64_t wall_ms;
  int64_t boottime_ns;
  uint64_t boottime_reads;
  int64_t paused_ns; /* by waits, which advance both clocks */
  int64_t tick_ms;   /* each reading of a clock advances both by it */
  /* Dying: before the nth call that changes anything the state is kept in
   * `last`, and from then on nothing happens any more. */
  uint64_t dies_at; /* 0: never */
  bool is_dead;
  struct memory *last;
  /* With a seed, single pages reach the disk by themselves now and then. */
  uint64_t writeback_seed;
  uint64_t calls[CALL_ANY];
  uint64_t changes; /* calls that changed something, or tried to */
  /* Called before each pause, without the lock. */
  void (*pause_hook)(void *argument);
  /* Called before each call, without the lock. */
  void (*hook)(void *argument, memory_call kind, int32_t file);
  void *hook_argument;
} memory;

/* A file system with nothing in it, each of whose files may grow to
 * `capacity`. The caller frees it. */
memory *memory_new(uint64_t capacity);

/* Frees it and what it kept; NULL is fine. */
void memory_free(memory *fs);

/* The successors. The caller frees both. Which 0: nothing unsynced reached
 * the disk; 1: all did; from 2 on: a choice that `which` and `seed` decide. */
memory *memory_after_kill(const memory *fs);
memory *memory_after_power_cut(const memory *fs, uint64_t which, uint64_t seed);

/* Arms a fault, beside those that are armed. The second is for writes. */
void memory_fail(memory *fs, memory_call kind, uint64_t nth, int32_t error,
                 bool repeats);
void memory_fail_short(memory *fs, uint64_t short_bytes, int32_t error);

/* Disarms all. */
void memory_heal(memory *fs);

/* Descriptors and mappings that are in use. */
uint32_t memory_held(memory *fs);

/* What lies at a path: the cache, or the disk. NULL: no such file. */
memory_file *memory_at(memory *fs, const char *path);

/* How many files there are whose path begins so. */
uint32_t memory_count(memory *fs, const char *prefix);

/* Writes a file as it is on a disk, whole and synced. */
void memory_put(memory *fs, const char *path, const void *data, uint64_t size);

/* The name of a kind of call, for messages. */
const char *memory_call_name(memory_call kind);

#endif
