/* One segment: its file, its mapping, its references. */
#include "segment.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "listing.h"

#define RESIDENT_LEAST 65536U

void ps_segment_path(const ps_segments *list, uint64_t base, char *path) {
  int length =
      snprintf(path, PS_PATH_MAX, "%s/%020" PRIu64, list->directory, base);
  assert(length > 0 && length < PS_PATH_MAX);
  (void)length;
}

/* Gives one reference back; the list's lock is held. */
void ps_segment_drop(ps_segments *list, ps_segment *segment) {
  const ps_env *env = list->env;
  assert(segment->references > 0);
  if (--segment->references > 0)
    return;
  assert(segment->holds == NULL);
  if (segment->data != NULL)
    env->unmap(env->self, segment->data, segment->size - segment->lost);
  if (segment->file >= 0)
    env->close(env->self, segment->file);
  if (segment->read_file >= 0)
    env->close(env->self, segment->read_file);
  free(segment);
}

void ps_segment_release(ps_segments *list, ps_segment *segment) {
  pthread_mutex_lock(&list->lock);
  ps_segment_drop(list, segment);
  pthread_mutex_unlock(&list->lock);
}

int32_t ps_segment_map(ps_segments *list, ps_segment *segment) {
  if (segment->data != NULL)
    return 0;
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  int32_t file = env->open(env->self, path, PS_FILE_READ);
  if (file < 0)
    return file;
  uint64_t usable = segment->size - segment->lost;
  int64_t size = env->size(env->self, file);
  if (size >= 0 && (uint64_t)size < usable)
    size = -EFAULT;
  const uint8_t *data = NULL;
  int32_t result = size < 0 ? (int32_t)size
                            : env->identity(env->self, file, segment->identity);
  if (result == 0)
    result = env->map(env->self, file, usable, &data);
  if (result == PS_MAPPED_BY_FILE)
    segment->read_file = file;
  else
    env->close(env->self, file);
  if (result == PS_MAPPED_UNSEEN)
    segment->read_file = PS_FILE_UNSEEN;
  if (result < 0)
    return result;
  segment->data = data;
  return 0;
}

/* Is all of it there already? Asked only where that is likely and cheaper than
 * to populate it again. */
static int32_t is_resident(const ps_env *env, const ps_segment *segment,
                           uint64_t at, uint64_t size) {
  return size >= RESIDENT_LEAST && at + size <= segment->touched &&
         env->resident(env->self, segment->read_file, segment->data, at, size);
}

/* Makes pages of a mapped segment safe to touch. Answers 0 or -errno. */
static int32_t populate(const ps_env *env, ps_segment *segment, uint64_t at,
                        uint64_t size, int32_t is_exact) {
  if (size == 0 || is_resident(env, segment, at, size))
    return 0;
  if (is_exact)
    return env->populate_exact(env->self, segment->read_file, segment->data, at,
                               size);
  int32_t result =
      env->populate(env->self, segment->read_file, segment->data, at, size);
  if (result == 0 && at + size > segment->touched)
    segment->touched = at + size;
  return result;
}

#define ILL_ADVICE                                                             \
  "restore it from a replica or a backup and open the store again; the other " \
  "segments can be read"

ps_status ps_segment_fail_ill(const ps_segments *list,
                              const ps_segment *segment, uint64_t offset,
                              ps_error *error) {
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  assert(segment->ill != 0);
  if (segment->ill == PS_ILL_MISSING)
    return ps_fail(error, PS_E_CORRUPT, offset,
                   "%s: the segment is missing: " ILL_ADVICE, path);
  if (segment->ill == PS_ILL_SHORT)
    return ps_fail(error, PS_E_CORRUPT, offset,
                   "%s: the file has %" PRIu64 " bytes, a segment here has "
                   "%" PRIu64 ": " ILL_ADVICE,
                   path, segment->size - segment->lost, segment->size);
  if (segment->ill == PS_ILL_SPECIAL)
    return ps_fail(error, PS_E_CORRUPT, offset,
                   "%s: not a regular file: move it away, " ILL_ADVICE, path);
  const char *advice =
      segment->ill == -EACCES ? "allow this user to read it, or " : "";
  ps_status status =
      ps_fail(error, PS_E_CORRUPT, offset, "%s: cannot open: %s: %s" ILL_ADVICE,
              path, strerror(-segment->ill), advice);
  error->system_errno = -segment->ill;
  return status;
}

static ps_status make_readable(ps_segments *list, ps_segment *segment,
                               uint64_t offset, uint64_t size, int32_t is_exact,
                               const uint8_t **data, ps_error *error) {
  const ps_env *env = list->env;
  assert(offset >= segment->base);
  assert(offset + size <= segment->base + segment->size);
  uint64_t stop = segment->base + segment->size - segment->lost;
  if (offset + size > stop || (segment->lost > 0 && offset >= stop))
    return ps_segment_fail_ill(list, segment, offset, error);
  pthread_mutex_lock(&list->lock);
  int32_t result = ps_segment_map(list, segment);
  pthread_mutex_unlock(&list->lock);
  uint64_t at = offset - segment->base;
  if (result == 0)
    result = populate(env, segment, at, size, is_exact);
  if (result == -EFAULT)
    return ps_fail(error, PS_E_CORRUPT, offset,
                   "%s/%020" PRIu64 ": the file ends before byte %" PRIu64
                   ": another program cut it short",
                   list->directory, segment->base, at + size);
  if (result == -ENOENT)
    return ps_fail(error, PS_E_RANGE, offset,
                   "%s/%020" PRIu64 ": the segment was deleted",
                   list->directory, segment->base);
  if (result < 0)
    return ps_fail_system(error, result, offset,
                          "%s/%020" PRIu64 ": cannot read at %" PRIu64,
                          list->directory, segment->base, at);
  *data = segment->data + at;
  return PS_OK;
}

ps_status ps_segment_populate(ps_segments *list, ps_segment *segment,
                              uint64_t offset, uint64_t size,
                              const uint8_t **data, ps_error *error) {
  return make_readable(list, segment, offset, size, 0, data, error);
}

ps_status ps_segment_populate_exact(ps_segments *list, ps_segment *segment,
                                    uint64_t offset, uint64_t size,
                                    const uint8_t **data, ps_error *error) {
  return make_readable(list, segment, offset, size, 1, data, error);
}

ps_status ps_segment_open_file(ps_segments *list, ps_segment *segment,
                               ps_error *error) {
  if (segment->file >= 0)
    return PS_OK;
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  int32_t file = env->open(env->self, path, PS_FILE_WRITE);
  if (file < 0)
    return ps_fail_system(error, file, segment->base,
                          "%s: cannot open for writing", path);
  segment->file = file;
  return PS_OK;
}

void ps_segment_close_file(ps_segments *list, ps_segment *segment) {
  if (segment->file < 0)
    return;
  list->env->close(list->env->self, segment->file);
  segment->file = -1;
}

ps_status ps_segment_write(ps_segments *list, ps_segment *segment,
                           uint64_t offset, const uint8_t *data, uint64_t size,
                           uint64_t *written, ps_error *error) {
  const ps_env *env = list->env;
  assert(segment->file >= 0);
  assert(offset >= segment->base);
  assert(offset + size <= segment->base + segment->size);
  *written = 0;
  while (*written < size) {
    int64_t done =
        env->write(env->self, segment->file, data + *written, size - *written,
                   offset + *written - segment->base);
    if (done <= 0)
      return ps_fail_system(error, done < 0 ? done : -ENOSPC, offset + *written,
                            "%s/%020" PRIu64 ": cannot write at %" PRIu64
                            " (%" PRId64 " bytes free)",
                            list->directory, segment->base,
                            offset + *written - segment->base,
                            env->free_bytes(env->self, list->directory));
    *written += (uint64_t)done;
  }
  return PS_OK;
}

ps_status ps_segment_zero(ps_segments *list, ps_segment *segment,
                          uint64_t offset, uint64_t *zeroed, ps_error *error) {
  const ps_env *env = list->env;
  assert(segment->file >= 0);
  assert(offset >= segment->base && offset <= segment->base + segment->size);
  uint64_t at = offset - segment->base;
  uint64_t size = segment->size - at;
  int64_t end = env->data_end(env->self, segment->file, at, size);
  int32_t result = end < 0 ? (int32_t)end : 0;
  /* Also where the page cache reads zero: after a failed sync it may differ
   * from the disk (A12). */
  if (result == 0)
    result = env->zero(env->self, segment->file, at, size);
  if (result == PS_PUNCHED)
    segment->is_punched = 1;
  if (result < 0)
    return ps_fail_system(error, result, offset,
                          "%s/%020" PRIu64 ": cannot zero from %" PRIu64,
                          list->directory, segment->base, at);
  *zeroed = (uint64_t)end - at;
  return PS_OK;
}

ps_status ps_segment_reserve(ps_segments *list, ps_segment *segment,
                             uint64_t offset, ps_error *error) {
  if (!segment->is_punched)
    return PS_OK;
  const ps_env *env = list->env;
  uint64_t at = offset - segment->base;
  int32_t result =
      env->allocate(env->self, segment->file, at, segment->size - at);
  if (result < 0)
    return ps_fail_system(error, result, offset,
                          "%s/%020" PRIu64 ": cannot allocate %" PRIu64
                          " bytes again",
                          list->directory, segment->base, segment->size - at);
  segment->is_punched = 0;
  return PS_OK;
}
