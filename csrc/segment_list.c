/* The list of segments: reading the directory, finding, counting. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "listing.h"
#include "segment_list.h"

static ps_listing listing_of(const ps_segments *list) {
  return (ps_listing){.env = list->env,
                      .directory = list->directory,
                      .segment_size = list->segment_size,
                      .is_size_known = list->is_size_known,
                      .takes_ill = list->takes_ill};
}

/* Makes room for `count` segments; the list's lock is held or no other thread
 * has the list. */
static ps_status reserve(ps_segments *list, uint32_t count, ps_error *error) {
  if (count <= list->capacity)
    return PS_OK;
  uint32_t capacity = list->capacity == 0 ? 64 : list->capacity * 2;
  if (capacity < count)
    capacity = count;
  ps_segment **items = realloc(list->items, capacity * sizeof(ps_segment *));
  if (items == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "no memory for a segment");
  list->items = items;
  list->capacity = capacity;
  return PS_OK;
}

static ps_segment *make(ps_segments *list, const ps_listed *item,
                        int32_t file) {
  ps_segment *segment = malloc(sizeof *segment);
  if (segment != NULL)
    *segment = (ps_segment){.list = list,
                            .base = item->base,
                            .size = list->segment_size,
                            .ill = item->ill,
                            .lost = list->segment_size - (uint64_t)item->size,
                            .file = file,
                            .read_file = PS_FILE_NONE,
                            .references = 1};
  return segment;
}

/* Adds a segment at the end; the lock as above. */
static ps_status add(ps_segments *list, const ps_listed *item, int32_t file,
                     ps_error *error) {
  uint64_t base = item->base;
  assert(list->count == 0 ||
         list->items[list->count - 1]->base + list->segment_size == base);
  ps_status status = reserve(list, list->count + 1, error);
  if (status != PS_OK)
    return status;
  ps_segment *segment = make(list, item, file);
  if (segment == NULL)
    return ps_fail(error, PS_E_MEMORY, base, "no memory for a segment");
  list->items[list->count++] = segment;
  return PS_OK;
}

/* Adds the segments of `found` that stand below the first one, as a repair
 * adds them to a log that began late; the lock is held. */
static ps_status add_below(ps_segments *list, const ps_listing *found,
                           ps_error *error) {
  uint32_t count = 0;
  while (list->count > 0 && count < found->count &&
         found->items[count].base < list->items[0]->base)
    count++;
  ps_status status = reserve(list, list->count + count, error);
  for (; status == PS_OK && count > 0; count--) {
    ps_segment *segment = make(list, &found->items[count - 1], -1);
    if (segment == NULL)
      return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET,
                     "no memory for a segment");
    memmove(list->items + 1, list->items, list->count * sizeof(ps_segment *));
    list->items[0] = segment;
    list->count++;
  }
  return status;
}

static ps_status add_next(ps_segments *list, uint64_t base, int32_t file,
                          ps_error *error) {
  ps_listed item = {.base = base, .size = (int64_t)list->segment_size};
  pthread_mutex_lock(&list->lock);
  ps_status status = add(list, &item, file, error);
  pthread_mutex_unlock(&list->lock);
  return status;
}

static ps_status keep_stranded(ps_segments *list, const ps_listing *found,
                               ps_error *error) {
  list->stranded = malloc(found->stranded * sizeof *list->stranded);
  if (list->stranded == NULL)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory",
                   list->directory);
  for (uint32_t i = 0; i < found->stranded; i++)
    list->stranded[i] = found->items[found->count + i].base;
  list->stranded_count = found->stranded;
  return PS_OK;
}

ps_status ps_segments_open(ps_segments *list, const ps_env *env,
                           const char *root, uint64_t segment_size,
                           int32_t takes_ill, ps_error *error) {
  memset(list, 0, sizeof *list);
  list->env = env;
  list->segment_size = segment_size;
  list->is_size_known = segment_size != 0;
  list->takes_ill = takes_ill;
  int one = snprintf(list->directory, PS_PATH_MAX - 32, "%s/commitlog", root);
  int two = snprintf(list->temporary, PS_PATH_MAX - 32, "%s/meta/tmp", root);
  if (one >= PS_PATH_MAX - 32 || two >= PS_PATH_MAX - 32)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET, "path too long");
  ps_listing found = listing_of(list);
  ps_status status = ps_listing_read(&found, error);
  list->segment_size = found.segment_size;
  list->is_size_known = found.is_size_known;
  pthread_mutex_init(&list->lock, NULL);
  for (uint32_t i = 0; status == PS_OK && i < found.count; i++)
    status = add(list, &found.items[i], -1, error);
  if (status == PS_OK && found.stranded > 0)
    status = keep_stranded(list, &found, error);
  ps_listing_free(&found);
  if (status != PS_OK)
    ps_segments_close(list);
  return status;
}

/* Drops the items that are not among `found` any more; the lock is held. */
static void drop_gone(ps_segments *list, const ps_listing *found) {
  uint32_t gone = 0;
  while (gone < list->count &&
         (found->count == 0 || list->items[gone]->base < found->items[0].base))
    gone++;
  uint32_t kept = list->count;
  while (kept > gone &&
         list->items[kept - 1]->base > found->items[found->count - 1].base)
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
  ps_listing found = listing_of(list);
  if (atomic_load(&list->generation) == generation)
    found.known_end = ps_segments_end(list);
  ps_status status = ps_listing_read(&found, error);
  pthread_mutex_lock(&list->lock);
  list->segment_size = found.segment_size;
  list->is_size_known = found.is_size_known;
  while (found.count > 0 && found.items[found.count - 1].base >= end)
    found.count--;
  if (status == PS_OK && atomic_load(&list->generation) != generation) {
    for (uint32_t i = 0; i < list->count; i++)
      ps_segment_drop(list, list->items[i]);
    list->count = 0;
    atomic_store(&list->generation, generation);
  }
  if (status == PS_OK) {
    drop_gone(list, &found);
    status = add_below(list, &found, error);
  }
  for (uint32_t i = 0; status == PS_OK && i < found.count; i++) {
    uint64_t base = found.items[i].base;
    if (list->count > 0 && base <= list->items[list->count - 1]->base)
      continue;
    status = add(list, &found.items[i], -1, error);
  }
  pthread_mutex_unlock(&list->lock);
  ps_listing_free(&found);
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

void ps_segments_replace(ps_segments *list, ps_segment *segment,
                         ps_segment *fresh, int32_t file) {
  *fresh = (ps_segment){.list = list,
                        .base = segment->base,
                        .size = segment->size,
                        .file = file,
                        .read_file = PS_FILE_NONE,
                        .references = 1};
  pthread_mutex_lock(&list->lock);
  for (uint32_t i = 0; i < list->count; i++)
    if (list->items[i] == segment) {
      list->items[i] = fresh;
      fresh = NULL;
      ps_segment_drop(list, segment); /* the list's reference */
    }
  if (fresh != NULL) /* another thread was first, or it was deleted */
    ps_segment_drop(list, fresh);
  pthread_mutex_unlock(&list->lock);
}

ps_status ps_segments_reserve(ps_segments *list, ps_error *error) {
  pthread_mutex_lock(&list->lock);
  ps_status status = reserve(list, list->count + 1, error);
  pthread_mutex_unlock(&list->lock);
  return status;
}

void ps_segments_add_first(ps_segments *list, ps_segment *fresh) {
  pthread_mutex_lock(&list->lock);
  assert(list->count > 0 && list->count < list->capacity);
  *fresh = (ps_segment){.list = list,
                        .base = list->items[0]->base - list->segment_size,
                        .size = list->segment_size,
                        .file = -1,
                        .read_file = PS_FILE_NONE,
                        .references = 1};
  memmove(list->items + 1, list->items, list->count * sizeof(ps_segment *));
  list->items[0] = fresh;
  list->count++;
  pthread_mutex_unlock(&list->lock);
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

void ps_segments_temporary_path(const ps_segments *list, uint64_t base,
                                char *path) {
  int length =
      snprintf(path, PS_PATH_MAX, "%s/%020" PRIu64, list->temporary, base);
  assert(length > 0 && length < PS_PATH_MAX);
  (void)length;
}

ps_status ps_segments_make_temporary(ps_segments *list, uint64_t base,
                                     char *path, int32_t *file,
                                     ps_error *error) {
  const ps_env *env = list->env;
  ps_segments_temporary_path(list, base, path);
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

/* Gives a new segment its name. Nothing that has the name is replaced, but an
 * empty file is no segment: a crash in its creation left it. */
static int32_t give_name(ps_segments *list, const char *temporary,
                         const char *path) {
  const ps_env *env = list->env;
  int32_t result = env->rename_new(env->self, temporary, path);
  if (result != -EEXIST)
    return result;
  int32_t file = env->open(env->self, path, PS_FILE_READ);
  if (file < 0)
    return result;
  int64_t size = env->size(env->self, file);
  env->close(env->self, file);
  if (size != 0 || env->remove(env->self, path) < 0)
    return result;
  return env->rename_new(env->self, temporary, path);
}

ps_status ps_segments_create(ps_segments *list, uint64_t base,
                             ps_error *error) {
  const ps_env *env = list->env;
  char temporary[PS_PATH_MAX];
  char path[PS_PATH_MAX];
  ps_segment_path(list, base, path);
  int32_t file = -1;
  ps_status status =
      ps_segments_make_temporary(list, base, temporary, &file, error);
  if (status != PS_OK)
    return status;
  int32_t result = give_name(list, temporary, path);
  if (result < 0) {
    env->remove(env->self, temporary);
    status =
        result == -EEXIST
            ? ps_fail(error, PS_E_IO, base,
                      "%s: another program made a file of this name, which "
                      "is not replaced: stop it, close the log and open "
                      "it again",
                      path)
            : ps_fail_system(error, result, base, "%s: cannot rename to it",
                             path);
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
  const ps_listing listing = listing_of(list);
  ps_status status =
      ps_listing_check_empty(&listing, list->stranded, list->stranded_count,
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
