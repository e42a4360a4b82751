/* The state of the file system in memory: files, names, and what is left. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "support_memory_state.h"

uint64_t memory_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/* ---- Files ------------------------------------------------------------- */

/* Zeroed memory; not by malloc, whose failures are the core's to meet. */
static void *zeroed(uint64_t size) {
  void *made = aligned_alloc(64, (size + 63) / 64 * 64);
  assert(made != NULL);
  memset(made, 0, size);
  return made;
}

static void make_file(const memory *fs, memory_file *file) {
  uint64_t pages = fs->capacity / MEMORY_PAGE;
  file->cache = zeroed(fs->capacity);
  file->disk = zeroed(fs->capacity);
  file->dirty = zeroed(pages);
  file->allocated = zeroed(pages);
  file->size = file->disk_size = 0;
}

int32_t memory_add_file(memory *fs) {
  assert(fs->files_count < MEMORY_FILES);
  make_file(fs, &fs->files[fs->files_count]);
  return (int32_t)fs->files_count++;
}

memory *memory_new(uint64_t capacity) {
  memory *fs = calloc(1, sizeof *fs);
  assert(fs != NULL && capacity % MEMORY_PAGE == 0);
  memory_offer(fs);
  pthread_mutex_init(&fs->lock, NULL);
  fs->capacity = capacity;
  fs->space = UINT64_C(1) << 40;
  fs->wall_ms = 1700000000000;
  fs->boottime_ns = 5000000000;
  for (int32_t i = 0; i < MEMORY_OPEN; i++)
    fs->open[i] = -1;
  return fs;
}

void memory_free(memory *fs) {
  if (fs == NULL)
    return;
  memory_free(fs->last);
  for (uint32_t i = 0; i < fs->files_count; i++) {
    free(fs->files[i].cache);
    free(fs->files[i].disk);
    free(fs->files[i].dirty);
    free(fs->files[i].allocated);
  }
  for (uint32_t i = 0; i < fs->kept_count; i++)
    free(fs->kept[i]);
  pthread_mutex_destroy(&fs->lock);
  free(fs);
}

uint64_t memory_take_space(memory *fs, memory_file *file, uint64_t at,
                           uint64_t size) {
  for (uint64_t page = at / MEMORY_PAGE; page * MEMORY_PAGE < at + size;
       page++) {
    if (file->allocated[page])
      continue;
    if (fs->space < MEMORY_PAGE) {
      uint64_t reached = page * MEMORY_PAGE;
      return reached > at ? reached - at : 0;
    }
    fs->space -= MEMORY_PAGE;
    file->allocated[page] = 1;
  }
  return size;
}

void memory_reap(memory *fs, int32_t index) {
  for (uint32_t i = 0; i < fs->names_count; i++)
    if (memory_now(&fs->names[i]) == index)
      return;
  for (int32_t i = 0; i < MEMORY_OPEN; i++)
    if (fs->open[i] == index)
      return;
  memory_file *file = &fs->files[index];
  for (uint64_t page = 0; page < fs->capacity / MEMORY_PAGE; page++) {
    fs->space += file->allocated[page] ? MEMORY_PAGE : 0;
    file->allocated[page] = 0;
  }
}

void memory_sync_file(memory *fs, memory_file *file, bool works) {
  for (uint64_t page = 0; page < fs->capacity / MEMORY_PAGE; page++) {
    uint64_t at = page * MEMORY_PAGE;
    if (file->dirty[page] && works)
      memcpy(file->disk + at, file->cache + at, MEMORY_PAGE);
    file->dirty[page] = 0;
  }
  if (works)
    file->disk_size = file->size;
}

/* ---- Names ------------------------------------------------------------- */

memory_name *memory_name_of(memory *fs, const char *path, bool create) {
  for (uint32_t i = 0; i < fs->names_count; i++)
    if (strcmp(fs->names[i].path, path) == 0)
      return &fs->names[i];
  if (!create)
    return NULL;
  assert(fs->names_count < MEMORY_NAMES && strlen(path) < MEMORY_PATH);
  memory_name *name = &fs->names[fs->names_count++];
  strcpy(name->path, path);
  name->states[0] = -1;
  name->count = 1;
  return name;
}

int32_t memory_now(const memory_name *name) {
  return name->states[name->count - 1];
}

void memory_becomes(memory_name *name, int32_t file) {
  /* A long history keeps what is on disk and the newest. */
  if (name->count == MEMORY_STATES) {
    memmove(name->states + 1, name->states + 2,
            (MEMORY_STATES - 2) * sizeof name->states[0]);
    name->count--;
  }
  name->states[name->count++] = file;
}

bool memory_is_in(const char *path, const char *directory) {
  size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && path[length] == '/' &&
         strchr(path + length + 1, '/') == NULL;
}

void memory_sync_names(memory *fs, const char *directory) {
  for (uint32_t i = 0; i < fs->names_count; i++) {
    memory_name *name = &fs->names[i];
    if (!memory_is_in(name->path, directory))
      continue;
    name->states[0] = memory_now(name);
    name->count = 1;
  }
}

memory_file *memory_at(memory *fs, const char *path) {
  memory_name *name = memory_name_of(fs, path, false);
  int32_t found = name == NULL ? -1 : memory_now(name);
  return found < 0 ? NULL : &fs->files[found];
}

uint32_t memory_count(memory *fs, const char *prefix) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < fs->names_count; i++)
    if (strncmp(fs->names[i].path, prefix, strlen(prefix)) == 0 &&
        memory_now(&fs->names[i]) >= 0)
      count++;
  return count;
}

void memory_put(memory *fs, const char *path, const void *data, uint64_t size) {
  assert(size <= fs->capacity);
  memory_name *name = memory_name_of(fs, path, true);
  int32_t index = memory_add_file(fs);
  memory_file *file = &fs->files[index];
  memory_becomes(name, index);
  name->states[0] = index;
  name->count = 1;
  if (size > 0)
    memcpy(file->cache, data, size);
  file->size = size;
  (void)memory_take_space(fs, file, 0, size);
  memset(file->dirty, 1, fs->capacity / MEMORY_PAGE);
  memory_sync_file(fs, file, true);
}

/* ---- Faults ------------------------------------------------------------ */

static void arm(memory *fs, memory_fault fault) {
  for (uint32_t i = 0; i < MEMORY_FAULTS; i++)
    if (fs->faults[i].nth == 0) {
      fs->faults[i] = fault;
      fs->faults_fired = 0;
      return;
    }
  assert(!"too many faults at once");
}

void memory_fail(memory *fs, memory_call kind, uint64_t nth, int32_t error,
                 bool repeats) {
  arm(fs, (memory_fault){
              .kind = kind, .nth = nth, .error = error, .repeats = repeats});
}

void memory_fail_short(memory *fs, uint64_t short_bytes, int32_t error) {
  arm(fs, (memory_fault){.kind = CALL_WRITE,
                         .nth = 1,
                         .error = error,
                         .short_bytes = short_bytes});
}

void memory_heal(memory *fs) {
  memset(fs->faults, 0, sizeof fs->faults);
}

uint32_t memory_held(memory *fs) {
  uint32_t held = (uint32_t)fs->mappings;
  for (int32_t i = 0; i < MEMORY_OPEN; i++)
    held += fs->open[i] >= 0;
  return held;
}

/* ---- Successors -------------------------------------------------------- */

/* The same files and names, with nothing open. */
static memory *copy(const memory *fs) {
  memory *made = memory_new(fs->capacity);
  made->files_count = fs->files_count;
  made->names_count = fs->names_count;
  memcpy(made->names, fs->names, sizeof made->names);
  made->space = fs->space;
  made->punches = fs->punches;
  made->wall_ms = fs->wall_ms + 1;
  made->boottime_ns = fs->boottime_ns + 1000000;
  made->writeback_seed = fs->writeback_seed;
  for (uint32_t i = 0; i < fs->files_count; i++) {
    const memory_file *from = &fs->files[i];
    memory_file *to = &made->files[i];
    make_file(made, to);
    memcpy(to->cache, from->cache, fs->capacity);
    memcpy(to->disk, from->disk, fs->capacity);
    memcpy(to->dirty, from->dirty, fs->capacity / MEMORY_PAGE);
    memcpy(to->allocated, from->allocated, fs->capacity / MEMORY_PAGE);
    to->size = from->size;
    to->disk_size = from->disk_size;
  }
  return made;
}

memory *memory_after_kill(const memory *fs) {
  return copy(fs);
}

/* One of `count` states, 0 being the oldest. */
static uint32_t choose(uint64_t which, uint64_t *random, uint32_t count) {
  if (which == 0)
    return 0;
  if (which == 1)
    return count - 1;
  return (uint32_t)(memory_random(random) % count);
}

/* Decides what of a dirty page reached the disk. */
static void settle_page(memory_file *file, uint64_t at, uint64_t which,
                        uint64_t *random) {
  uint32_t kept = choose(which, random, 4);
  uint64_t sectors = MEMORY_PAGE / MEMORY_SECTOR;
  uint64_t size = kept == 0 ? 0 : MEMORY_PAGE;
  if (kept == 1) /* torn */
    size = memory_random(random) % (sectors + 1) * MEMORY_SECTOR;
  memcpy(file->disk + at, file->cache + at, size);
}

memory *memory_after_power_cut(const memory *fs, uint64_t which,
                               uint64_t seed) {
  memory *made = copy(fs);
  uint64_t random = seed * 1000003 + which;
  for (uint32_t i = 0; i < made->files_count; i++) {
    memory_file *file = &made->files[i];
    for (uint64_t at = 0; at < made->capacity; at += MEMORY_PAGE)
      if (file->dirty[at / MEMORY_PAGE])
        settle_page(file, at, which, &random);
    if (choose(which, &random, 2) == 1)
      file->disk_size = file->size;
    file->size = file->disk_size;
    memset(file->disk + file->size, 0, made->capacity - file->size);
    memcpy(file->cache, file->disk, made->capacity);
    memset(file->dirty, 0, made->capacity / MEMORY_PAGE);
  }
  for (uint32_t i = 0; i < made->names_count; i++) {
    memory_name *name = &made->names[i];
    name->states[0] = name->states[choose(which, &random, name->count)];
    name->count = 1;
  }
  return made;
}

void memory_die(memory *fs) {
  fs->last = copy(fs);
  fs->is_dead = true;
}

void memory_leak_back(memory *fs) {
  if (fs->writeback_seed == 0 || fs->is_dead || fs->files_count == 0)
    return;
  uint64_t random = memory_random(&fs->writeback_seed);
  if (random % 4 != 0)
    return;
  memory_file *file = &fs->files[random / 4 % fs->files_count];
  uint64_t at = random / 1024 % (fs->capacity / MEMORY_PAGE) * MEMORY_PAGE;
  memcpy(file->disk + at, file->cache + at, MEMORY_PAGE);
}
