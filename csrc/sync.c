/* Durability: the sync, the poison, and the thread that writes back early. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "log_state.h"

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

ps_status ps_sync_check_file(ps_log *log, ps_segment *segment,
                             ps_error *error) {
  const ps_env *env = log->env;
  assert(segment->file >= 0);
  int64_t links = env->links(env->self, segment->file);
  if (links > 0)
    return PS_OK;
  if (links < 0)
    return ps_log_poison(log, links, segment->base, error);
  atomic_store(&log->is_poisoned, 1);
  return ps_fail(error, PS_E_POISONED, segment->base,
                 "%s/%020" PRIu64 ": another program removed the file while it "
                 "was written: what was appended there is gone: stop that "
                 "program, close the log and open it again",
                 log->segments.directory, segment->base);
}

ps_status ps_sync_segment(ps_log *log, ps_segment *segment, ps_error *error) {
  const ps_env *env = log->env;
  assert(segment->file >= 0);
  pthread_mutex_lock(&log->sync_lock);
  ps_status status = PS_OK;
  int32_t result = env->sync(env->self, segment->file);
  if (result < 0)
    status = ps_log_poison(log, result, segment->base, error);
  else /* bytes without a name are on no disk */
    status = ps_sync_check_file(log, segment, error);
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
  if (target > synced) {
    atomic_store(&page->synced_end, target);
    close_synced(log, synced, target);
  }
  return PS_OK;
}

/* ---- The flusher ------------------------------------------------------- */

void ps_flusher_init(ps_flusher *flusher) {
  pthread_mutex_init(&flusher->work, NULL);
  pthread_mutex_init(&flusher->lock, NULL);
#ifdef __APPLE__
  pthread_cond_init(&flusher->wake, NULL);
#else
  pthread_condattr_t attributes; /* a wall clock that jumps delays no flush */
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&flusher->wake, &attributes);
  pthread_condattr_destroy(&attributes);
#endif
}

/* Sleeps until woken, or until the deadline if there is one (not 0). */
static void sleep_until(ps_flusher *flusher, uint64_t deadline_ns) {
  if (deadline_ns == 0) {
    pthread_cond_wait(&flusher->wake, &flusher->lock);
    return;
  }
#ifdef __APPLE__
  uint64_t now = ps_monotonic_ns();
  deadline_ns = deadline_ns > now ? deadline_ns - now : 0;
#endif
  struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                           .tv_nsec = (long)(deadline_ns % 1000000000)};
#ifdef __APPLE__
  pthread_cond_timedwait_relative_np(&flusher->wake, &flusher->lock, &until);
#else
  pthread_cond_timedwait(&flusher->wake, &flusher->lock, &until);
#endif
}

static int32_t has_grown(const ps_log *log, uint64_t end) {
  uint64_t batch = log->options.writeback_bytes;
  if (batch > 0 && batch < PS_PAGE) /* only whole pages are written back */
    batch = PS_PAGE;
  return batch > 0 && end >= atomic_load(&log->flusher.written_back) + batch;
}

/* Waits for growth or for the deadline; answers 0 to stop. */
static int32_t wait_for_work(ps_log *log, uint64_t deadline_ns) {
  ps_flusher *flusher = &log->flusher;
  pthread_mutex_lock(&flusher->lock);
  while (!flusher->is_stopping &&
         !has_grown(log, atomic_load(&log->page->published_end)) &&
         (deadline_ns == 0 || ps_monotonic_ns() < deadline_ns))
    sleep_until(flusher, deadline_ns);
  int32_t goes_on = !flusher->is_stopping;
  pthread_mutex_unlock(&flusher->lock);
  return goes_on;
}

/* Starts write-back of what was written since the last time. */
static void write_back(ps_log *log, uint64_t end) {
  const ps_env *env = log->env;
  ps_flusher *flusher = &log->flusher;
  uint64_t first = ps_segments_first(&log->segments);
  if (flusher->written_back < first) /* deleted by retention */
    flusher->written_back = first;
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
    flusher->written_back = stop;
    if (result < 0) {
      ps_error ignored; /* the next append or sync reports the poison */
      (void)ps_log_poison(log, result, from, &ignored);
    }
  }
}

static void *run_flusher(void *argument) {
  ps_log *log = argument;
  uint64_t interval_ns = (uint64_t)log->options.flush_interval_ms * 1000000;
  uint64_t deadline_ns = interval_ns > 0 ? ps_monotonic_ns() + interval_ns : 0;
  while (wait_for_work(log, deadline_ns)) {
    uint64_t end = atomic_load(&log->page->published_end);
    if (has_grown(log, end)) {
      pthread_mutex_lock(&log->flusher.work);
      write_back(log, atomic_load(&log->page->published_end));
      pthread_mutex_unlock(&log->flusher.work);
    }
    if (interval_ns == 0 || ps_monotonic_ns() < deadline_ns)
      continue;
    ps_error ignored; /* a failure poisons the log, which is remembered */
    if (atomic_load(&log->page->synced_end) < end &&
        !atomic_load(&log->is_poisoned))
      (void)ps_log_sync(log, PS_NO_OFFSET, &ignored);
    deadline_ns = ps_monotonic_ns() + interval_ns;
  }
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
  if (!flusher->is_running || !has_grown(log, end))
    return;
  pthread_mutex_lock(&flusher->lock);
  pthread_cond_signal(&flusher->wake);
  pthread_mutex_unlock(&flusher->lock);
}
