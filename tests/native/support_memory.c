/* A file system in memory that fails on request, runs full and loses power. */
#include "support_memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support_memory_state.h"

const char *memory_call_name(memory_call kind) {
  static const char *const names[] = {
      "open",   "close",    "size", "read",           "write",     "allocate",
      "zero",   "data_end", "sync", "sync_directory", "writeback", "rename",
      "remove", "list",     "map",  "populate",       "any"};
  return names[kind];
}

/* ---- Faults and dying -------------------------------------------------- */

static bool changes_something(memory_call kind) {
  switch (kind) {
  case CALL_WRITE:
  case CALL_ALLOCATE:
  case CALL_ZERO:
  case CALL_SYNC:
  case CALL_SYNC_DIRECTORY:
  case CALL_WRITEBACK:
  case CALL_RENAME:
  case CALL_REMOVE:
    return true;
  default:
    return false;
  }
}

/* Counts the faults down; answers the negative errno of one that fires. A
 * write's `size` is cut short instead, once. */
static int32_t fire(memory *fs, memory_call kind, uint64_t *size) {
  for (uint32_t i = 0; i < MEMORY_FAULTS; i++) {
    memory_fault *fault = &fs->faults[i];
    if (fault->nth == 0 || (fault->kind != CALL_ANY && fault->kind != kind))
      continue;
    if (fault->nth > 1) {
      fault->nth--;
      continue;
    }
    fs->faults_fired++;
    if (fault->short_bytes > 0 && size != NULL) {
      if (*size > fault->short_bytes)
        *size = fault->short_bytes;
      fault->short_bytes = 0;
      fault->nth = fault->error == 0 ? 0 : 1;
      return 0;
    }
    if (!fault->repeats)
      fault->nth = 0;
    return -fault->error;
  }
  return 0;
}

/* Begins a call: hook, lock, counters, death, faults. Answers 0, or what the
 * call must answer; the lock is held either way. */
static int32_t begin(memory *fs, memory_call kind, int32_t file) {
  if (fs->hook != NULL)
    fs->hook(fs->hook_argument, kind, file);
  pthread_mutex_lock(&fs->lock);
  fs->calls[kind]++;
  if (changes_something(kind)) {
    fs->changes++;
    if (fs->dies_at == fs->changes && kind != CALL_WRITE)
      memory_die(fs);
    memory_leak_back(fs);
  }
  /* The dead close their files, and nothing else. */
  if (fs->is_dead)
    return kind == CALL_CLOSE ? 0 : -EIO;
  return kind == CALL_WRITE ? 0 : fire(fs, kind, NULL);
}

static int64_t end(memory *fs, int64_t result) {
  pthread_mutex_unlock(&fs->lock);
  return result;
}

static memory_file *file_of(memory *fs, int32_t file) {
  assert(file >= 0 && file < MEMORY_OPEN && fs->open[file] >= 0);
  return &fs->files[fs->open[file]];
}

/* ---- Files ------------------------------------------------------------- */

static int32_t env_open(void *self, const char *path, int32_t mode) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_OPEN, -1);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_name *name = memory_name_of(fs, path, mode == PS_FILE_CREATE);
  int32_t found = name == NULL ? -1 : memory_now(name);
  if (mode == PS_FILE_CREATE && found >= 0)
    return (int32_t)end(fs, -EEXIST);
  if (mode != PS_FILE_CREATE && found < 0)
    return (int32_t)end(fs, -ENOENT);
  if (found < 0) {
    found = memory_add_file(fs);
    memory_becomes(name, found);
  }
  for (int32_t i = 0; i < MEMORY_OPEN; i++)
    if (fs->open[i] < 0) {
      fs->open[i] = found;
      return (int32_t)end(fs, i);
    }
  return (int32_t)end(fs, -EMFILE);
}

static int32_t env_close(void *self, int32_t file) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_CLOSE, file);
  (void)file_of(fs, file); /* closed once, and only if open */
  int32_t index = fs->open[file];
  fs->open[file] = -1;
  memory_reap(fs, index);
  return (int32_t)end(fs, result);
}

static int64_t env_size(void *self, int32_t file) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_SIZE, file);
  return end(fs, result < 0 ? result : (int64_t)file_of(fs, file)->size);
}

static int64_t env_links(void *self, int32_t file) {
  memory *fs = self;
  pthread_mutex_lock(&fs->lock);
  (void)file_of(fs, file);
  int64_t links = 0;
  for (uint32_t i = 0; i < fs->names_count; i++)
    links += memory_now(&fs->names[i]) == fs->open[file];
  return end(fs, links);
}

static int32_t env_identity(void *self, int32_t file, uint64_t *numbers) {
  memory *fs = self;
  pthread_mutex_lock(&fs->lock);
  (void)file_of(fs, file);
  numbers[0] = 0;
  numbers[1] = (uint64_t)fs->open[file];
  return (int32_t)end(fs, 0);
}

static int64_t env_read(void *self, int32_t file, void *to, uint64_t size,
                        uint64_t at) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_READ, file);
  if (result < 0)
    return end(fs, result);
  memory_file *f = file_of(fs, file);
  if (at >= f->size)
    return end(fs, 0);
  if (size > f->size - at)
    size = f->size - at;
  memcpy(to, f->cache + at, size);
  return end(fs, (int64_t)size);
}

/* Copies as a kernel does: readers that read again afterwards may race. */
__attribute__((no_sanitize("thread"))) static void
copy_unseen(volatile uint8_t *to, const uint8_t *from, uint64_t size) {
  for (uint64_t i = 0; i < size; i++)
    to[i] = from != NULL ? from[i] : 0;
}

/* Puts bytes, or zeroes, into the cache; the space is there. */
static void put(const memory *fs, memory_file *f, const void *from,
                uint64_t size, uint64_t at) {
  if (size == 0)
    return;
  if (fs->is_kernel)
    copy_unseen(f->cache + at, from, size);
  else if (from != NULL)
    memcpy(f->cache + at, from, size);
  else
    memset(f->cache + at, 0, size);
  memset(f->dirty + at / MEMORY_PAGE, 1,
         (at + size - 1) / MEMORY_PAGE - at / MEMORY_PAGE + 1);
  if (at + size > f->size)
    f->size = at + size;
}

static int64_t env_write(void *self, int32_t file, const void *from,
                         uint64_t size, uint64_t at) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_WRITE, file);
  if (result < 0)
    return end(fs, result);
  memory_file *f = file_of(fs, file);
  if (at + size > fs->capacity)
    return end(fs, -EFBIG);
  result = fire(fs, CALL_WRITE, &size);
  if (result < 0)
    return end(fs, result);
  uint64_t granted = memory_take_space(fs, f, at, size);
  if (granted == 0 && size > 0)
    return end(fs, -ENOSPC);
  if (fs->dies_at != 0 && fs->dies_at == fs->changes) {
    /* Killed inside of the call: a part of it is there. */
    put(fs, f, from, memory_random(&fs->writeback_seed) % (granted + 1), at);
    memory_die(fs);
    return end(fs, -EIO);
  }
  put(fs, f, from, granted, at);
  return end(fs, (int64_t)granted);
}

static int32_t env_allocate(void *self, int32_t file, uint64_t at,
                            uint64_t size) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_ALLOCATE, file);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_file *f = file_of(fs, file);
  if (at + size > fs->capacity)
    return (int32_t)end(fs, -EFBIG);
  if (memory_take_space(fs, f, at, size) < size)
    return (int32_t)end(fs, -ENOSPC);
  if (f->size < at + size)
    f->size = at + size;
  return (int32_t)end(fs, 0);
}

static int32_t env_zero(void *self, int32_t file, uint64_t at, uint64_t size) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_ZERO, file);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_file *f = file_of(fs, file);
  if (at + size > f->size)
    size = at < f->size ? f->size - at : 0;
  if (size == 0)
    return (int32_t)end(fs, PS_ZEROED);
  put(fs, f, NULL, size, at);
  if (!fs->punches)
    return (int32_t)end(fs, PS_ZEROED);
  uint64_t first = (at + MEMORY_PAGE - 1) / MEMORY_PAGE;
  for (uint64_t page = first; page < (at + size) / MEMORY_PAGE; page++)
    if (f->allocated[page]) {
      f->allocated[page] = 0;
      fs->space += MEMORY_PAGE;
    }
  return (int32_t)end(fs, PS_PUNCHED);
}

static int64_t env_data_end(void *self, int32_t file, uint64_t at,
                            uint64_t size) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_DATA_END, file);
  if (result < 0)
    return end(fs, result);
  memory_file *f = file_of(fs, file);
  uint64_t stop = at + size < f->size ? at + size : f->size;
  while (stop > at && f->cache[stop - 1] == 0)
    stop--;
  return end(fs, (int64_t)(stop > at ? stop : at));
}

static int32_t env_sync(void *self, int32_t file) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_SYNC, file);
  memory_file *f = file_of(fs, file);
  if (!fs->is_dead)
    memory_sync_file(fs, f, result == 0);
  return (int32_t)end(fs, result);
}

static int32_t env_writeback(void *self, int32_t file, uint64_t at,
                             uint64_t size) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_WRITEBACK, file);
  (void)file_of(fs, file);
  (void)at, (void)size; /* it only starts; nothing is promised */
  return (int32_t)end(fs, result);
}

/* ---- Names ------------------------------------------------------------- */

static int32_t env_sync_directory(void *self, const char *path) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_SYNC_DIRECTORY, -1);
  if (result == 0)
    memory_sync_names(fs, path);
  return (int32_t)end(fs, result);
}

static int32_t env_rename(void *self, const char *from, const char *to) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_RENAME, -1);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_name *source = memory_name_of(fs, from, false);
  if (source == NULL || memory_now(source) < 0)
    return (int32_t)end(fs, -ENOENT);
  memory_becomes(memory_name_of(fs, to, true), memory_now(source));
  memory_becomes(source, -1);
  return (int32_t)end(fs, 0);
}

static int32_t env_rename_new(void *self, const char *from, const char *to) {
  memory *fs = self;
  pthread_mutex_lock(&fs->lock);
  memory_name *target = memory_name_of(fs, to, false);
  int32_t is_taken = target != NULL && memory_now(target) >= 0;
  pthread_mutex_unlock(&fs->lock);
  return is_taken ? -EEXIST : env_rename(self, from, to);
}

static int32_t env_remove(void *self, const char *path) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_REMOVE, -1);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_name *name = memory_name_of(fs, path, false);
  if (name == NULL || memory_now(name) < 0)
    return (int32_t)end(fs, -ENOENT);
  int32_t index = memory_now(name);
  memory_becomes(name, -1);
  memory_reap(fs, index);
  return (int32_t)end(fs, 0);
}

static int32_t env_list(void *self, const char *path, ps_env_visit visit,
                        void *argument) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_LIST, -1);
  if (result < 0)
    return (int32_t)end(fs, result);
  /* Names of no directory that order would hide. */
  for (uint32_t i = fs->names_count; i > 0; i--) {
    memory_name *name = &fs->names[i - 1];
    int32_t found = memory_now(name);
    if (found >= 0 && memory_is_in(name->path, path))
      visit(argument, name->path + strlen(path) + 1,
            (int64_t)fs->files[found].size);
  }
  return (int32_t)end(fs, 0);
}

static int64_t env_free_bytes(void *self, const char *path) {
  memory *fs = self;
  (void)path;
  pthread_mutex_lock(&fs->lock);
  return end(fs, (int64_t)fs->space);
}

/* ---- Mappings ---------------------------------------------------------- */

static int32_t env_map(void *self, int32_t file, uint64_t size,
                       const uint8_t **data) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_MAP, file);
  if (result < 0)
    return (int32_t)end(fs, result);
  assert(size <= fs->capacity);
  (void)size;
  *data = file_of(fs, file)->cache;
  fs->mappings++;
  return (int32_t)end(fs, PS_MAPPED_BY_FILE);
}

static void env_unmap(void *self, const uint8_t *data, uint64_t size) {
  memory *fs = self;
  (void)data, (void)size;
  pthread_mutex_lock(&fs->lock);
  assert(fs->mappings > 0);
  fs->mappings--;
  (void)end(fs, 0);
}

/* The mapping keeps the cache, and the file goes on with another one. Where it
 * was kept before nothing is left to do. */
static int32_t env_keep(void *self, const uint8_t *data, uint64_t at,
                        uint64_t size) {
  memory *fs = self;
  (void)at, (void)size;
  int32_t result = begin(fs, CALL_MAP, -1);
  for (uint32_t i = 0; result == 0 && i < fs->files_count; i++) {
    memory_file *f = &fs->files[i];
    if (f->cache != data)
      continue;
    assert(fs->kept_count < MEMORY_FILES);
    fs->kept[fs->kept_count++] = f->cache;
    f->cache = aligned_alloc(64, (fs->capacity + 63) / 64 * 64);
    assert(f->cache != NULL);
    memcpy(f->cache, data, fs->capacity);
  }
  return (int32_t)end(fs, result);
}

/* Never known, so that every populate can fail. */
static int32_t env_resident(void *self, int32_t file, const uint8_t *data,
                            uint64_t at, uint64_t size) {
  (void)self, (void)file, (void)data, (void)at, (void)size;
  return 0;
}

static int32_t env_populate(void *self, int32_t file, const uint8_t *data,
                            uint64_t at, uint64_t size) {
  memory *fs = self;
  int32_t result = begin(fs, CALL_POPULATE, file);
  if (result < 0)
    return (int32_t)end(fs, result);
  memory_file *f = file_of(fs, file);
  (void)data; /* the file's cache, or one that was kept */
  uint64_t pages = (f->size + MEMORY_PAGE - 1) / MEMORY_PAGE;
  return (int32_t)end(fs, at + size > pages * MEMORY_PAGE ? -EFAULT : 0);
}

static void env_prefetch(void *self, const uint8_t *data, uint64_t at,
                         uint64_t size) {
  (void)self, (void)data, (void)at, (void)size;
}

/* ---- Clocks ------------------------------------------------------------ */

static int64_t env_wall_ms(void *self) {
  memory *fs = self;
  pthread_mutex_lock(&fs->lock);
  fs->wall_ms += fs->tick_ms;
  fs->boottime_ns += fs->tick_ms * 1000000;
  return end(fs, fs->wall_ms);
}

static int64_t env_boottime_ns(void *self) {
  memory *fs = self;
  pthread_mutex_lock(&fs->lock);
  fs->boottime_reads++;
  return end(fs, fs->boottime_ns);
}

static void env_pause(void *self, uint64_t ns) {
  memory *fs = self;
  if (fs->pause_hook != NULL)
    fs->pause_hook(fs->hook_argument);
  pthread_mutex_lock(&fs->lock);
  fs->paused_ns += (int64_t)ns;
  fs->boottime_ns += (int64_t)ns;
  fs->wall_ms += (int64_t)(ns / 1000000);
  (void)end(fs, 0);
}

void memory_offer(memory *fs) {
  fs->env = (ps_env){
      .self = fs,
      .open = env_open,
      .close = env_close,
      .size = env_size,
      .links = env_links,
      .identity = env_identity,
      .read = env_read,
      .write = env_write,
      .allocate = env_allocate,
      .zero = env_zero,
      .data_end = env_data_end,
      .sync = env_sync,
      .sync_directory = env_sync_directory,
      .writeback = env_writeback,
      .rename = env_rename,
      .rename_new = env_rename_new,
      .remove = env_remove,
      .list = env_list,
      .free_bytes = env_free_bytes,
      .map = env_map,
      .unmap = env_unmap,
      .resident = env_resident,
      .populate = env_populate,
      .populate_exact = env_populate,
      .keep = env_keep,
      .prefetch = env_prefetch,
      .wall_ms = env_wall_ms,
      .boottime_ns = env_boottime_ns,
      .pause = env_pause,
  };
}
