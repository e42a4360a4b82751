/* The list of segments: reading the directory, finding, counting. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "segment_list.h"

#define DEFAULT_SEGMENT_SIZE 1073741824U
#define NAME_DIGITS 20

/* What reading the directory found. */
typedef struct listing {
  uint64_t *bases;
  int64_t *sizes;
  uint32_t count; /* in the end: without a gap between them */
  uint32_t capacity;
  uint32_t stranded; /* how many stand behind a gap, above `count` */
  int32_t out_of_memory;
  char foreign[64]; /* a name that no segment has */
} listing;

static int is_base(const char *name, uint64_t *base) {
  size_t length = strlen(name);
  if (length != NAME_DIGITS || strspn(name, "0123456789") != length)
    return 0;
  errno = 0;
  *base = strtoull(name, NULL, 10);
  return errno == 0 && *base <= INT64_MAX;
}

static void visit(void *argument, const char *name, int64_t size_bytes) {
  listing *found = argument;
  uint64_t base = 0;
  if (size_bytes < 0)
    return; /* RocketMQ ignores directories too */
  if (!is_base(name, &base)) {
    snprintf(found->foreign, sizeof found->foreign, "%.60s", name);
    return;
  }
  if (found->count == found->capacity) {
    uint32_t capacity = found->capacity == 0 ? 64 : found->capacity * 2;
    uint64_t *bases = realloc(found->bases, capacity * sizeof *bases);
    if (bases != NULL)
      found->bases = bases;
    int64_t *sizes = realloc(found->sizes, capacity * sizeof *sizes);
    if (sizes != NULL)
      found->sizes = sizes;
    if (bases == NULL || sizes == NULL) {
      found->out_of_memory = 1;
      return;
    }
    found->capacity = capacity;
  }
  /* Insert in order; a directory is small and often nearly sorted. */
  uint32_t at = found->count++;
  while (at > 0 && found->bases[at - 1] > base) {
    found->bases[at] = found->bases[at - 1];
    found->sizes[at] = found->sizes[at - 1];
    at--;
  }
  found->bases[at] = base;
  found->sizes[at] = size_bytes;
}

/* What the files say: the distance of the first two, if a file is so large,
 * since one of them may have been cut short; else the size of the first. */
static uint64_t size_of_files(const listing *found) {
  for (uint32_t i = 0; found->count > 1 && i < found->count; i++)
    if ((uint64_t)found->sizes[i] == found->bases[1] - found->bases[0])
      return (uint64_t)found->sizes[i];
  return (uint64_t)found->sizes[0];
}

/* Decides the segment size: the caller's, else the files', else 1 GiB.
 * A lone empty file says nothing. */
static ps_status decide_size(ps_segments *list, const listing *found,
                             ps_error *error) {
  if (list->is_size_known)
    return PS_OK;
  list->segment_size = DEFAULT_SEGMENT_SIZE;
  if (found->count > 0 && found->sizes[0] > 0) {
    list->segment_size = size_of_files(found);
    list->is_size_known = 1;
  }
  if (list->segment_size > INT32_MAX)
    return ps_fail(error, PS_E_NOT_STORE, found->bases[0],
                   "%s: a segment of %" PRIu64 " bytes: RocketMQ's limit is "
                   "2147483647; is this a commit log?",
                   list->directory, list->segment_size);
  return PS_OK;
}

/* Stranded segments: allocated, never written, behind a missing one.
 *
 * RocketMQ allocates segments ahead, and a cut of it over several of them does
 * not remove the last one first. Killed in between it leaves a gap, and behind
 * it what was allocated. Such files are no part of the log. If one of them
 * holds a byte, the log has a hole, which no start may close silently.
 */
static ps_status check_stranded_one(const ps_segments *list, uint64_t base,
                                    uint64_t missing, ps_error *error) {
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, base, path);
  int32_t file = env->open(env->self, path, PS_FILE_READ);
  if (file < 0)
    return ps_fail_system(error, file, base, "%s: cannot open", path);
  int64_t end = env->data_end(env->self, file, 0, list->segment_size);
  env->close(env->self, file);
  if (end < 0)
    return ps_fail_system(error, end, base, "%s: cannot read", path);
  if (end > 0)
    return ps_fail(error, PS_E_NOT_STORE, missing,
                   "%s: segment %020" PRIu64 " is missing before %020" PRIu64
                   ", which is not empty: restore it or move the later ones "
                   "away",
                   list->directory, missing, base);
  return PS_OK;
}

static ps_status check_stranded(const ps_segments *list, const uint64_t *bases,
                                uint32_t count, uint64_t missing,
                                ps_error *error) {
  ps_status status = PS_OK;
  for (uint32_t i = 0; status == PS_OK && i < count; i++)
    status = check_stranded_one(list, bases[i], missing, error);
  return status;
}

/* Takes off what is no segment of the log: an empty last file, and what stands
 * behind a gap, which must hold nothing. */
static ps_status trim_listing(const ps_segments *list, listing *found,
                              ps_error *error) {
  if (found->count > 0 && found->sizes[found->count - 1] == 0)
    found->count--;
  uint32_t count = found->count;
  uint64_t next = count > 0 ? found->bases[0] : 0;
  for (found->count = 0; found->count < count; found->count++) {
    if (found->bases[found->count] != next)
      break;
    next += list->segment_size;
  }
  found->stranded = count - found->count;
  return check_stranded(list, found->bases + found->count, found->stranded,
                        next, error);
}

/* A segment file must have the segment size; only the last may be empty
 * (RocketMQ removes such a file: a crash in its creation). */
static ps_status check_listing(ps_segments *list, listing *found,
                               ps_error *error) {
  if (found->out_of_memory)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory",
                   list->directory);
  if (found->foreign[0] != 0)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s/%s: not the name of a segment (20 digits): move it "
                   "out of the commit log",
                   list->directory, found->foreign);
  ps_status status = decide_size(list, found, error);
  if (status != PS_OK)
    return status;
  for (uint32_t i = 0; i < found->count; i++) {
    uint64_t base = found->bases[i];
    int64_t size = found->sizes[i];
    if (size == 0 && i > 0 && i == found->count - 1)
      continue;
    if (size == 0 && found->count == 1)
      continue;
    if ((uint64_t)size != list->segment_size)
      return ps_fail(error, PS_E_NOT_STORE, base,
                     "%s/%020" PRIu64 ": %" PRId64 " bytes, a segment here "
                     "has %" PRIu64 ": was it cut short or is the segment "
                     "size another?",
                     list->directory, base, size, list->segment_size);
    if (base % list->segment_size != 0)
      return ps_fail(error, PS_E_NOT_STORE, base,
                     "%s/%020" PRIu64 ": no segment of %" PRIu64 " bytes "
                     "begins there: move it away",
                     list->directory, base, list->segment_size);
  }
  return trim_listing(list, found, error);
}

static ps_status read_directory(ps_segments *list, listing *found,
                                ps_error *error) {
  int32_t result =
      list->env->list(list->env->self, list->directory, visit, found);
  if (result == -ENOENT || result == -ENOTDIR)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: no such directory: not a store", list->directory);
  if (result < 0)
    return ps_fail_system(error, result, PS_NO_OFFSET, "%s: cannot list",
                          list->directory);
  return PS_OK;
}

/* Adds a segment at the end; the list's lock is held or no other thread has the
 * list. */
static ps_status add(ps_segments *list, uint64_t base, int32_t file,
                     ps_error *error) {
  assert(list->count == 0 ||
         list->items[list->count - 1]->base + list->segment_size == base);
  if (list->count == list->capacity) {
    uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
    ps_segment **items = realloc(list->items, capacity * sizeof(ps_segment *));
    if (items == NULL)
      return ps_fail(error, PS_E_MEMORY, base, "no memory for a segment");
    list->items = items;
    list->capacity = capacity;
  }
  ps_segment *segment = malloc(sizeof *segment);
  if (segment == NULL)
    return ps_fail(error, PS_E_MEMORY, base, "no memory for a segment");
  *segment = (ps_segment){.list = list,
                          .base = base,
                          .size = list->segment_size,
                          .file = file,
                          .read_file = PS_FILE_NONE,
                          .references = 1};
  list->items[list->count++] = segment;
  return PS_OK;
}

static ps_status add_next(ps_segments *list, uint64_t base, int32_t file,
                          ps_error *error) {
  pthread_mutex_lock(&list->lock);
  ps_status status = add(list, base, file, error);
  pthread_mutex_unlock(&list->lock);
  return status;
}

static ps_status keep_stranded(ps_segments *list, const listing *found,
                               ps_error *error) {
  size_t size = found->stranded * sizeof *list->stranded;
  list->stranded = malloc(size);
  if (list->stranded == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory",
                   list->directory);
  memcpy(list->stranded, found->bases + found->count, size);
  list->stranded_count = found->stranded;
  return PS_OK;
}

ps_status ps_segments_open(ps_segments *list, const ps_env *env,
                           const char *root, uint64_t segment_size,
                           ps_error *error) {
  memset(list, 0, sizeof *list);
  list->env = env;
  list->segment_size = segment_size;
  list->is_size_known = segment_size != 0;
  int one = snprintf(list->directory, PS_PATH_MAX - 32, "%s/commitlog", root);
  int two = snprintf(list->temporary, PS_PATH_MAX - 32, "%s/meta/tmp", root);
  if (one >= PS_PATH_MAX - 32 || two >= PS_PATH_MAX - 32)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET, "path too long");
  listing found = {0};
  ps_status status = read_directory(list, &found, error);
  if (status == PS_OK)
    status = check_listing(list, &found, error);
  pthread_mutex_init(&list->lock, NULL);
  for (uint32_t i = 0; status == PS_OK && i < found.count; i++)
    status = add(list, found.bases[i], -1, error);
  if (status == PS_OK && found.stranded > 0)
    status = keep_stranded(list, &found, error);
  free(found.bases);
  free(found.sizes);
  if (status != PS_OK)
    ps_segments_close(list);
  return status;
}

/* Drops the items that are not among `found` any more; the lock is held. */
static void drop_gone(ps_segments *list, const listing *found) {
  uint32_t gone = 0;
  while (gone < list->count &&
         (found->count == 0 || list->items[gone]->base < found->bases[0]))
    gone++;
  uint32_t kept = list->count;
  while (kept > gone &&
         list->items[kept - 1]->base > found->bases[found->count - 1])
    kept--;
  for (uint32_t i = 0; i < gone; i++)
    ps_segment_drop(list, list->items[i]);
  for (uint32_t i = kept; i < list->count; i++)
    ps_segment_drop(list, list->items[i]);
  if (gone > 0)
    memmove(list->items, list->items + gone,
            (kept - gone) * sizeof(ps_segment *));
  list->count = kept - gone;
}

/* Takes over what another process did. Segments that readers hold stay
 * mapped. */
ps_status ps_segments_refresh(ps_segments *list, uint64_t generation,
                              uint64_t end, ps_error *error) {
  listing found = {0};
  ps_status status = read_directory(list, &found, error);
  pthread_mutex_lock(&list->lock);
  if (status == PS_OK)
    status = check_listing(list, &found, error);
  while (found.count > 0 && found.bases[found.count - 1] >= end)
    found.count--;
  if (status == PS_OK && atomic_load(&list->generation) != generation) {
    for (uint32_t i = 0; i < list->count; i++)
      ps_segment_drop(list, list->items[i]);
    list->count = 0;
    atomic_store(&list->generation, generation);
  }
  if (status == PS_OK)
    drop_gone(list, &found);
  for (uint32_t i = 0; status == PS_OK && i < found.count; i++) {
    uint64_t base = found.bases[i];
    if (list->count > 0 && base <= list->items[list->count - 1]->base)
      continue;
    status = add(list, base, -1, error);
  }
  pthread_mutex_unlock(&list->lock);
  free(found.bases);
  free(found.sizes);
  return status;
}

void ps_segments_close(ps_segments *list) {
  pthread_mutex_lock(&list->lock);
  for (uint32_t i = 0; i < list->count; i++)
    ps_segment_drop(list, list->items[i]);
  free(list->items);
  free(list->stranded);
  list->stranded = NULL;
  list->stranded_count = 0;
  list->items = NULL;
  list->count = list->capacity = 0;
  pthread_mutex_unlock(&list->lock);
}

ps_segment *ps_segments_find(ps_segments *list, uint64_t offset) {
  ps_segment *found = NULL;
  pthread_mutex_lock(&list->lock);
  if (list->count > 0 && offset >= list->items[0]->base) {
    uint64_t index = (offset - list->items[0]->base) / list->segment_size;
    if (index < list->count) {
      found = list->items[index];
      assert(offset - found->base < found->size);
      found->references++;
    }
  }
  pthread_mutex_unlock(&list->lock);
  return found;
}

uint64_t ps_segments_first(ps_segments *list) {
  pthread_mutex_lock(&list->lock);
  uint64_t first = list->count > 0 ? list->items[0]->base : 0;
  pthread_mutex_unlock(&list->lock);
  return first;
}

uint64_t ps_segments_end(ps_segments *list) {
  pthread_mutex_lock(&list->lock);
  uint64_t end = 0;
  if (list->count > 0)
    end = list->items[list->count - 1]->base + list->segment_size;
  pthread_mutex_unlock(&list->lock);
  return end;
}

/* ---- Files that come and go --------------------------------------------- */

ps_status ps_segments_sync_directory(ps_segments *list, ps_error *error) {
  const ps_env *env = list->env;
  int32_t result = env->sync_directory(env->self, list->directory);
  if (result < 0)
    return ps_fail_system(error, result, PS_NO_OFFSET,
                          "%s: cannot sync the directory", list->directory);
  return PS_OK;
}

/* Makes the file under its temporary name; *file is open for writing. */
static ps_status create_temporary(ps_segments *list, uint64_t base,
                                  const char *path, int32_t *file,
                                  ps_error *error) {
  const ps_env *env = list->env;
  env->remove(env->self, path); /* what an earlier crash left, if anything */
  int32_t created = env->open(env->self, path, PS_FILE_CREATE);
  if (created < 0)
    return ps_fail_system(error, created, base, "%s: cannot create", path);
  int32_t result = env->allocate(env->self, created, 0, list->segment_size);
  if (result == 0)
    result = env->sync(env->self, created);
  if (result < 0) {
    env->close(env->self, created);
    env->remove(env->self, path);
    int64_t free_bytes = env->free_bytes(env->self, list->directory);
    return ps_fail_system(error, result, base,
                          "%s: no segment at offset %" PRIu64 ": needs %" PRIu64
                          " bytes, %" PRId64 " are free",
                          list->directory, base, list->segment_size,
                          free_bytes);
  }
  *file = created;
  return PS_OK;
}

ps_status ps_segments_create(ps_segments *list, uint64_t base,
                             ps_error *error) {
  const ps_env *env = list->env;
  char temporary[PS_PATH_MAX];
  char path[PS_PATH_MAX];
  int length =
      snprintf(temporary, PS_PATH_MAX, "%s/%020" PRIu64, list->temporary, base);
  assert(length > 0 && length < PS_PATH_MAX);
  (void)length;
  ps_segment_path(list, base, path);
  int32_t file = -1;
  ps_status status = create_temporary(list, base, temporary, &file, error);
  if (status != PS_OK)
    return status;
  int32_t result = env->rename(env->self, temporary, path);
  if (result < 0) {
    env->remove(env->self, temporary);
    status =
        ps_fail_system(error, result, base, "%s: cannot rename to it", path);
  } else {
    /* Before any end may pass into it, its name must survive a power cut. */
    status = ps_segments_sync_directory(list, error);
    if (status == PS_OK)
      status = add_next(list, base, file, error);
    if (status != PS_OK)
      env->remove(env->self, path);
  }
  if (status != PS_OK)
    env->close(env->self, file);
  return status;
}

static ps_status remove_file(ps_segments *list, uint64_t base,
                             ps_error *error) {
  char path[PS_PATH_MAX];
  ps_segment_path(list, base, path);
  int32_t result = list->env->remove(list->env->self, path);
  if (result < 0 && result != -ENOENT)
    return ps_fail_system(error, result, base, "%s: cannot remove", path);
  return PS_OK;
}

ps_status ps_segments_remove_last(ps_segments *list, ps_error *error) {
  assert(list->count > 0);
  ps_status status =
      remove_file(list, list->items[list->count - 1]->base, error);
  if (status != PS_OK)
    return status;
  pthread_mutex_lock(&list->lock);
  ps_segment_drop(list, list->items[--list->count]);
  pthread_mutex_unlock(&list->lock);
  return PS_OK;
}

ps_status ps_segments_remove_first(ps_segments *list, ps_error *error) {
  assert(list->count > 1);
  ps_status status = remove_file(list, list->items[0]->base, error);
  if (status != PS_OK)
    return status;
  pthread_mutex_lock(&list->lock);
  ps_segment_drop(list, list->items[0]);
  list->count--;
  memmove(list->items, list->items + 1, list->count * sizeof(ps_segment *));
  pthread_mutex_unlock(&list->lock);
  return PS_OK;
}

ps_status ps_stranded_remove(ps_segments *list, uint32_t *removed,
                             ps_error *error) {
  const ps_env *env = list->env;
  *removed = 0;
  /* All before the first one goes: a refusal changes nothing. */
  ps_status status = check_stranded(list, list->stranded, list->stranded_count,
                                    ps_segments_end(list), error);
  while (status == PS_OK && list->stranded_count > 0) {
    char path[PS_PATH_MAX];
    ps_segment_path(list, list->stranded[list->stranded_count - 1], path);
    int32_t result = env->remove(env->self, path);
    if (result < 0)
      return ps_fail_system(error, result, list->stranded[0],
                            "%s: cannot remove", path);
    *removed += 1;
    list->stranded_count--;
    status = ps_segments_sync_directory(list, error);
  }
  return status;
}
