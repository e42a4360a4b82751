/* The flusher: the thread that writes back early, and syncs at an interval. */
#include "flusher.h"

#include <assert.h>
#include <time.h>

#include "error.h"
#include "sync.h"

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

/* Waits for growth or for the deadline; answers 0 to stop. */
static int32_t wait_for_work(ps_log *log, uint64_t deadline_ns) {
  ps_flusher *flusher = &log->flusher;
  pthread_mutex_lock(&flusher->lock);
  while (!flusher->is_stopping &&
         !ps_flusher_is_due(log, atomic_load(&log->page->published_end)) &&
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
    if (ps_flusher_is_due(log, end)) {
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
