/* Durability: the sync, the poison, and the thread that writes back early. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "log.h"

ps_status ps_log_poison(ps_log *log, int64_t result, uint64_t offset,
                        ps_error *error) {
  assert(result < 0);
  atomic_store(&log->is_poisoned, 1);
  return ps_fail(error, PS_E_POISONED, offset,
                 "%s: write-back failed (%s): nothing above offset %" PRIu64
                 " is proven synced: close the log and open it again",
                 log->segments.directory, strerror((int)-result),
                 atomic_load(&log->page->synced_end));
}

ps_status ps_sync_segment(ps_log *log, ps_segment *segment, ps_error *error) {
  const ps_env *env = log->env;
  assert(segment->file >= 0);
  pthread_mutex_lock(&log->sync_lock);
  ps_status status = PS_OK;
  int32_t result = env->sync(env->self, segment->file);
  if (result < 0)
    status = ps_log_poison(log, result, segment->base, error);
  pthread_mutex_unlock(&log->sync_lock);
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
    assert(segment != NULL); /* a deletion needs the sync turn */
    ps_status status = ps_sync_segment(log, segment, error);
    from = segment->base + segment->size;
    ps_segment_release(&log->segments, segment);
    if (status != PS_OK)
      return status;
  }
  return PS_OK;
}

ps_status ps_sync_published(ps_log *log, ps_error *error) {
  ps_live_page *page = log->page;
  uint64_t target = atomic_load(&page->published_end);
  uint64_t synced = atomic_load(&page->synced_end);
  if (atomic_load(&log->is_poisoned))
    return ps_log_poison(log, -EIO, synced, error);
  ps_status status = sync_range(log, synced, target, error);
  if (status != PS_OK)
    return status;
  /* A write-back that failed meanwhile may have taken the error with it. */
  if (atomic_load(&log->is_poisoned))
    return ps_log_poison(log, -EIO, synced, error);
  if (target > synced)
    atomic_store(&page->synced_end, target);
  return PS_OK;
}

/* Starts write-back of what was written since the last time. */
static void write_back(ps_log *log, uint64_t end) {
  const ps_env *env = log->env;
  ps_flusher *flusher = &log->flusher;
  end -= end % PS_PAGE;
  while (flusher->written_back < end) {
    uint64_t from = flusher->written_back;
    ps_segment *segment = ps_segments_find(&log->segments, from);
    if (segment == NULL)
      break;
    uint64_t stop = segment->base + segment->size;
    if (stop > end)
      stop = end;
    int32_t result = 0;
    if (segment->file >= 0)
      result = env->writeback(env->self, segment->file, from - segment->base,
                              stop - from);
    ps_segment_release(&log->segments, segment);
    if (result < 0) {
      ps_error ignored; /* the next append or sync reports the poison */
      (void)ps_log_poison(log, result, from, &ignored);
      return;
    }
    flusher->written_back = stop;
  }
}

/* Closes the files of segments that are wholly synced and will not be written
 * again, so that a long run does not collect descriptors. */
static void close_synced(ps_log *log) {
  ps_segments *list = &log->segments;
  uint64_t synced = atomic_load(&log->page->synced_end);
  pthread_mutex_lock(&list->lock);
  for (uint32_t i = 0; i < list->count; i++) {
    ps_segment *segment = list->items[i];
    if (segment->base + segment->size <= synced)
      ps_segment_close_file(list, segment);
  }
  pthread_mutex_unlock(&list->lock);
}

/* Waits for growth or for the flush interval; answers 0 to stop. */
static int32_t wait_for_work(ps_log *log, int32_t *is_timed) {
  ps_flusher *flusher = &log->flusher;
  uint32_t interval = log->options.flush_interval_ms;
  uint64_t batch = log->options.writeback_bytes;
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  uint64_t ns =
      (uint64_t)deadline.tv_nsec + (uint64_t)interval % 1000 * 1000000;
  deadline.tv_sec += (time_t)(interval / 1000 + ns / 1000000000);
  deadline.tv_nsec = (long)(ns % 1000000000);
  *is_timed = 0;
  while (!flusher->is_stopping) {
    uint64_t end = atomic_load(&log->page->published_end);
    if (batch > 0 && end >= flusher->written_back + batch)
      return 1;
    int result = 0;
    if (interval == 0)
      result = pthread_cond_wait(&flusher->wake, &flusher->lock);
    else
      result =
          pthread_cond_timedwait(&flusher->wake, &flusher->lock, &deadline);
    if (result == ETIMEDOUT) {
      *is_timed = 1;
      return !flusher->is_stopping;
    }
  }
  return 0;
}

static void *run_flusher(void *argument) {
  ps_log *log = argument;
  ps_flusher *flusher = &log->flusher;
  pthread_mutex_lock(&flusher->lock);
  int32_t is_timed = 0;
  while (wait_for_work(log, &is_timed)) {
    uint64_t end = atomic_load(&log->page->published_end);
    if (log->options.writeback_bytes > 0)
      write_back(log, end);
    if (!is_timed)
      continue;
    pthread_mutex_unlock(&flusher->lock);
    ps_error ignored; /* a failure poisons the log, which is remembered */
    if (atomic_load(&log->page->synced_end) < end &&
        !atomic_load(&log->is_poisoned))
      (void)ps_log_sync(log, PS_NO_OFFSET, &ignored);
    pthread_mutex_lock(&flusher->lock);
    close_synced(log);
  }
  pthread_mutex_unlock(&flusher->lock);
  return NULL;
}

ps_status ps_flusher_start(ps_log *log, ps_error *error) {
  ps_flusher *flusher = &log->flusher;
  assert(!flusher->is_running);
  flusher->written_back = atomic_load(&log->page->published_end);
  if (log->options.flush_interval_ms == 0 && log->options.writeback_bytes == 0)
    return PS_OK;
  int result = pthread_create(&flusher->thread, NULL, run_flusher, log);
  if (result != 0)
    return ps_fail_system(error, -result, PS_NO_OFFSET,
                          "cannot start the flush thread");
  flusher->is_running = 1;
  return PS_OK;
}

void ps_flusher_stop(ps_log *log) {
  ps_flusher *flusher = &log->flusher;
  if (!flusher->is_running)
    return;
  pthread_mutex_lock(&flusher->lock);
  flusher->is_stopping = 1;
  pthread_cond_signal(&flusher->wake);
  pthread_mutex_unlock(&flusher->lock);
  pthread_join(flusher->thread, NULL);
  flusher->is_running = 0;
}

void ps_flusher_grown(ps_log *log, uint64_t end) {
  ps_flusher *flusher = &log->flusher;
  uint64_t batch = log->options.writeback_bytes;
  if (!flusher->is_running || batch == 0)
    return;
  /* A stale reading only moves the wake by one append. */
  if (end >=
      atomic_load_explicit(&flusher->written_back, memory_order_relaxed) +
          batch)
    pthread_cond_signal(&flusher->wake);
}
