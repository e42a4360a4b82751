/* The words of a writer: its own, and their copies in the live page. */
#include "page_words.h"

#include <assert.h>

/* One word, here and there; the lock of the page is held. */
static void set(ps_log *log, _Atomic uint64_t *own, _Atomic uint64_t *shared,
                uint64_t value) {
  if (atomic_load(shared) != atomic_load(own))
    atomic_store(&log->is_changed, 1);
  atomic_store(own, value);
  atomic_store(shared, value);
}

#define SET(log, word, value)                                                  \
  set(log, &(log)->page->word, &(log)->shared->word, value)

void ps_page_start(ps_log *log, const ps_start *start) {
  ps_live_page *own = log->page;
  ps_live_page *shared = log->shared;
  uint64_t first = ps_segments_first(&log->segments);
  pthread_mutex_lock(&log->page_lock);
  atomic_store(&own->cut_generation, atomic_load(&shared->cut_generation));
  atomic_store(&own->cut_offset, atomic_load(&shared->cut_offset));
  atomic_store(&log->publishing, start->end);
  for (int32_t i = 0; i < 2; i++) {
    ps_live_page *page = i == 0 ? own : shared;
    atomic_store(&page->published_end, start->end);
    atomic_store(&page->synced_end, start->end);
    atomic_store(&page->confirm_offset, start->confirm_offset);
    atomic_store(&page->min_offset, first);
  }
  pthread_mutex_unlock(&log->page_lock);
}

/* Without the lock: this is in the path of each append. The page's end is never
 * below the writer's own, nor above `publishing`, so another thread can tell
 * what another program did. */
void ps_page_publish(ps_log *log, uint64_t end) {
  _Atomic uint64_t *own = &log->page->published_end;
  _Atomic uint64_t *shared = &log->shared->published_end;
  if (atomic_load_explicit(shared, memory_order_relaxed) !=
      atomic_load_explicit(own, memory_order_relaxed))
    atomic_store(&log->is_changed, 1);
  atomic_store_explicit(&log->publishing, end, memory_order_release);
  atomic_store_explicit(shared, end, memory_order_release);
  atomic_store_explicit(own, end, memory_order_release);
}

void ps_page_synced(ps_log *log, uint64_t end) {
  pthread_mutex_lock(&log->page_lock);
  SET(log, synced_end, end);
  pthread_mutex_unlock(&log->page_lock);
}

void ps_page_confirm(ps_log *log, uint64_t offset) {
  pthread_mutex_lock(&log->page_lock);
  SET(log, confirm_offset, offset);
  pthread_mutex_unlock(&log->page_lock);
}

void ps_page_begin(ps_log *log, uint64_t min_offset) {
  pthread_mutex_lock(&log->page_lock);
  SET(log, min_offset, min_offset);
  pthread_mutex_unlock(&log->page_lock);
}

void ps_page_begin_empty(ps_log *log, uint64_t base) {
  pthread_mutex_lock(&log->page_lock);
  SET(log, min_offset, base);
  SET(log, synced_end, base);
  ps_page_publish(log, base);
  pthread_mutex_unlock(&log->page_lock);
}

void ps_page_cut(ps_log *log, uint64_t offset, uint64_t generation) {
  assert(atomic_load(&log->page->published_end) >= offset);
  pthread_mutex_lock(&log->page_lock);
  ps_live_cut(log->page, offset, generation);
  ps_live_cut(log->shared, offset, generation);
  atomic_store(&log->publishing, offset);
  pthread_mutex_unlock(&log->page_lock);
}

static int32_t restore(_Atomic uint64_t *own, _Atomic uint64_t *shared) {
  uint64_t value = atomic_load(own);
  if (atomic_load(shared) == value)
    return 0;
  atomic_store(shared, value);
  return 1;
}

/* An append may publish meanwhile: the later of its two ends stays. */
static int32_t restore_published(ps_log *log) {
  uint64_t least = atomic_load(&log->page->published_end);
  uint64_t found = atomic_load(&log->shared->published_end);
  uint64_t most = atomic_load(&log->publishing);
  if (least <= found && found <= most)
    return 0;
  do {
    most = atomic_load(&log->publishing);
    atomic_store(&log->shared->published_end, most);
  } while (atomic_load(&log->publishing) != most);
  return 1;
}

int32_t ps_page_differs(ps_log *log) {
  ps_live_page *own = log->page;
  ps_live_page *shared = log->shared;
  if (own == shared || !atomic_load(&log->is_started) ||
      !ps_log_has_page(log)) /* the next check says so */
    return 0;
  pthread_mutex_lock(&log->page_lock);
  int32_t differs = restore_published(log);
  differs |= restore(&own->synced_end, &shared->synced_end);
  differs |= restore(&own->confirm_offset, &shared->confirm_offset);
  differs |= restore(&own->min_offset, &shared->min_offset);
  differs |= restore(&own->cut_generation, &shared->cut_generation);
  differs |= restore(&own->cut_offset, &shared->cut_offset);
  pthread_mutex_unlock(&log->page_lock);
  if (differs)
    atomic_store(&log->is_changed, 1);
  return (int32_t)atomic_load(&log->is_changed);
}
