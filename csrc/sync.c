/* Durability: the sync of files, and the poison after one that failed. */
#include "sync.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "page_words.h"

/* The first reason stays. */
static void set_poison(ps_log *log, uint32_t reason) {
  uint32_t none = 0;
  (void)atomic_compare_exchange_strong(&log->is_poisoned, &none, reason);
}

/* Is the store another writer's by now? */
static ps_status check_guard(ps_log *log, ps_error *error) {
  if (!ps_log_has_page(log))
    return ps_fail(error, PS_E_POISONED, atomic_load(&log->page->synced_end),
                   "%s: the live page has the incarnation of another writer, "
                   "which opened the store while this one wrote: nothing more "
                   "is written: close the log, stop the other program, and "
                   "open it again",
                   log->segments.directory);
  ps_status status =
      log->lock == NULL ? PS_OK : ps_lock_check(log->lock, error);
  if (status == PS_OK && ps_page_differs(log))
    return ps_fail(error, PS_E_POISONED, atomic_load(&log->page->synced_end),
                   "%s: another program wrote to the live page (meta/live) "
                   "while this log was open for writing, and readers may have "
                   "seen wrong ends: nothing more is written: close the log, "
                   "stop that program, and open the log again",
                   log->segments.directory);
  return status;
}

ps_status ps_sync_check_guard(ps_log *log, ps_error *error) {
  if (atomic_load(&log->is_poisoned) == PS_POISON_LOST)
    return ps_log_poisoned(log, PS_NO_OFFSET, error);
  ps_status status = check_guard(log, error);
  if (status != PS_OK)
    set_poison(log, PS_POISON_LOST);
  return status;
}

ps_status ps_log_poisoned(ps_log *log, uint64_t offset, ps_error *error) {
  uint64_t synced = atomic_load(&log->page->synced_end);
  if (atomic_load(&log->is_poisoned) != PS_POISON_LOST)
    return ps_fail(error, PS_E_POISONED, offset,
                   "an earlier write-back failed: close the log and open it "
                   "again, nothing above offset %" PRIu64 " is proven synced",
                   synced);
  ps_status status = check_guard(log, error);
  if (status != PS_OK)
    return status;
  return ps_fail(error, PS_E_POISONED, offset,
                 "%s: for a time the store was not this log's, so another "
                 "program may have written to it: close the log and open it "
                 "again",
                 log->segments.directory);
}

ps_status ps_log_poison(ps_log *log, int64_t result, uint64_t offset,
                        ps_error *error) {
  assert(result < 0);
  set_poison(log, PS_POISON_WRITE_BACK);
  return ps_fail(error, PS_E_POISONED, offset,
                 "%s: write-back failed (%s): nothing above offset %" PRIu64
                 " is proven synced: close the log and open it again",
                 log->segments.directory, strerror((int)-result),
                 atomic_load(&log->page->synced_end));
}

ps_status ps_sync_check_file(ps_log *log, ps_segment *segment,
                             ps_error *error) {
  const ps_env *env = log->env;
  assert(segment->file >= 0);
  int64_t links = env->links(env->self, segment->file);
  if (links > 0)
    return PS_OK;
  if (links < 0)
    return ps_log_poison(log, links, segment->base, error);
  set_poison(log, PS_POISON_WRITE_BACK);
  return ps_fail(error, PS_E_POISONED, segment->base,
                 "%s/%020" PRIu64 ": another program removed the file while it "
                 "was written: what was appended there is gone: stop that "
                 "program, close the log and open it again",
                 log->segments.directory, segment->base);
}

ps_status ps_sync_segment(ps_log *log, ps_segment *segment, ps_error *error) {
  const ps_env *env = log->env;
  assert(segment->file >= 0);
  pthread_mutex_lock(&log->file_sync_lock);
  ps_status status = PS_OK;
  int32_t result = env->sync(env->self, segment->file);
  if (result < 0)
    status = ps_log_poison(log, result, segment->base, error);
  else /* bytes without a name are on no disk */
    status = ps_sync_check_file(log, segment, error);
  pthread_mutex_unlock(&log->file_sync_lock);
  return status;
}

/* Syncs every segment that holds bytes of [from, to), the oldest first. */
static ps_status sync_range(ps_log *log, uint64_t from, uint64_t to,
                            ps_error *error) {
  uint64_t first = ps_segments_first(&log->segments);
  if (from < first) /* deleted by retention: nothing left to keep there */
    from = first;
  while (from < to) {
    ps_segment *segment = ps_segments_find(&log->segments, from);
    assert(segment != NULL); /* a deletion needs the sync lock */
    ps_status status = ps_sync_segment(log, segment, error);
    from = segment->base + segment->size;
    ps_segment_release(&log->segments, segment);
    if (status != PS_OK)
      return status;
  }
  return PS_OK;
}

/* Closes the files of segments that became wholly synced: they will not be
 * written again, and a long run must not collect descriptors. */
static void close_synced(ps_log *log, uint64_t before, uint64_t synced) {
  ps_segments *list = &log->segments;
  if (before / list->segment_size == synced / list->segment_size)
    return;
  pthread_mutex_lock(&log->flusher.work);
  pthread_mutex_lock(&list->lock);
  for (uint32_t i = 0; i < list->count; i++) {
    ps_segment *segment = list->items[i];
    if (segment->base + segment->size <= synced)
      ps_segment_close_file(list, segment);
  }
  pthread_mutex_unlock(&list->lock);
  pthread_mutex_unlock(&log->flusher.work);
}

ps_status ps_sync_published(ps_log *log, ps_error *error) {
  uint64_t target = atomic_load(&log->page->published_end);
  uint64_t synced = atomic_load(&log->page->synced_end);
  if (atomic_load(&log->is_poisoned))
    return ps_log_poisoned(log, synced, error);
  ps_status status = sync_range(log, synced, target, error);
  /* After the bytes are on disk: what another writer was given before then is
   * noticed before any of them counts as synced. */
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  if (status != PS_OK)
    return status;
  /* A write-back that failed meanwhile may have taken the error with it. */
  if (atomic_load(&log->is_poisoned))
    return ps_log_poisoned(log, synced, error);
  if (target > synced) {
    ps_page_synced(log, target);
    close_synced(log, synced, target);
  }
  return PS_OK;
}
