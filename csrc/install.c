/* A repaired segment that becomes the log's. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "control.h"
#include "error.h"
#include "page_words.h"
#include "sync.h"

/* Is the file whole, and on disk? */
static ps_status check_file(ps_segments *list, const char *path, uint64_t base,
                            ps_error *error) {
  const ps_env *env = list->env;
  int32_t file = env->open(env->self, path, PS_FILE_WRITE);
  if (file < 0)
    return ps_fail_system(error, file, base, "%s: cannot open", path);
  int64_t size = env->size(env->self, file);
  int32_t result = size < 0 ? (int32_t)size : env->sync(env->self, file);
  env->close(env->self, file);
  if (result < 0)
    return ps_fail_system(error, result, base, "%s: cannot sync", path);
  if ((uint64_t)size != list->segment_size)
    return ps_fail(error, PS_E_INVALID, base,
                   "%s: the file has %" PRId64 " bytes, a segment here has "
                   "%" PRIu64,
                   path, size, list->segment_size);
  return PS_OK;
}

/* Can a segment be put there? *place is the one that it replaces, acquired, or
 * NULL: it becomes the first one. All commits are held back. */
static ps_status find_place(ps_log *log, uint64_t base, ps_segment **place,
                            ps_error *error) {
  ps_segments *list = &log->segments;
  uint64_t size = list->segment_size;
  uint64_t first = ps_segments_first(list);
  uint64_t synced = atomic_load(&log->page->synced_end);
  *place = NULL;
  if (synced > first && base < first && first - base == size)
    return ps_segments_reserve(list, error);
  if (base % size == 0 && base >= first && base + size <= synced)
    *place = ps_segments_find(list, base);
  if (*place != NULL)
    return PS_OK;
  return ps_fail(error, PS_E_INVALID, base,
                 "cannot install a segment at %" PRIu64 ": the log has full "
                 "segments of %" PRIu64 " bytes from %" PRIu64 " on, and is "
                 "synced up to %" PRIu64,
                 base, size, first, synced);
}

/* On failure a segment before the first one has its former name again. */
static ps_status give_name(ps_segments *list, const char *pulled, uint64_t base,
                           int32_t replaces, int32_t *is_named,
                           ps_error *error) {
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, base, path);
  int32_t result = replaces ? env->rename(env->self, pulled, path)
                            : env->rename_new(env->self, pulled, path);
  if (result == -EEXIST)
    return ps_fail(error, PS_E_INVALID, base,
                   "%s: a file is there that is not the log's: move it away",
                   path);
  if (result < 0)
    return ps_fail_system(error, result, base, "%s: cannot rename to it", path);
  ps_status status = ps_segments_sync_directory(list, error);
  *is_named = status == PS_OK || replaces;
  if (!*is_named)
    env->rename(env->self, path, pulled);
  return status;
}

static ps_status install(ps_log *log, const char *pulled, uint64_t base,
                         ps_error *error) {
  ps_segments *list = &log->segments;
  ps_segment *place = NULL;
  ps_segment *fresh = malloc(sizeof *fresh);
  if (fresh == NULL)
    return ps_fail(error, PS_E_MEMORY, base, "no memory for a segment");
  int32_t is_named = 0;
  ps_status status = find_place(log, base, &place, error);
  if (status == PS_OK)
    status = give_name(list, pulled, base, place != NULL, &is_named, error);
  if (!is_named) {
    free(fresh);
  } else if (place != NULL) {
    ps_segments_replace(list, place, fresh, -1);
  } else {
    ps_segments_add_first(list, fresh);
    ps_page_begin(log, base);
  }
  if (place != NULL)
    ps_segment_release(list, place);
  return status;
}

ps_status ps_log_install(ps_log *log, uint64_t base, ps_error *error) {
  char pulled[PS_PATH_MAX];
  int length = snprintf(pulled, sizeof pulled, "%s/%020" PRIu64 ".pull",
                        log->segments.temporary, base);
  if (length < 0 || length >= (int)sizeof pulled)
    return ps_fail(error, PS_E_INVALID, base, "path too long");
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  /* Before all appends wait. */
  status = check_file(&log->segments, pulled, base, error);
  ps_log_leave(log);
  if (status != PS_OK)
    return status;
  ps_commit commit;
  status = ps_log_enter_exclusive(log, &commit, PS_COMMIT_QUIESCE, error);
  if (status != PS_OK)
    return status;
  status = ps_log_check_open(log, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  if (status == PS_OK) {
    pthread_mutex_lock(&log->flusher.work);
    status = install(log, pulled, base, error);
    pthread_mutex_unlock(&log->flusher.work);
  }
  ps_log_leave_exclusive(log, &commit);
  return status;
}

void ps_file_writeback(int32_t file, uint64_t at, uint64_t size) {
  const ps_env *env = ps_env_posix();
  env->writeback(env->self, file, at, size);
}
