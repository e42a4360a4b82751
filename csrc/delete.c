/* Deleting whole segments from the front of the log. */
#include "page_words.h"
#include "sync.h"

/* Removes the oldest segments; the write lock is held. */
static ps_status delete_first(ps_log *log, uint64_t offset, uint32_t *removed,
                              ps_error *error) {
  ps_segments *list = &log->segments;
  uint64_t end = atomic_load(&log->page->published_end);
  ps_status status = PS_OK;
  *removed = 0;
  if (offset > end)
    offset = end;
  /* A name whose removal is not durable may come back after a power cut: all of
   * its bytes must be on disk then, or recovery would take it for torn. */
  if (atomic_load(&log->page->synced_end) < offset)
    status = ps_sync_published(log, error);
  while (status == PS_OK && list->count > 1 && list->items[1]->base <= offset &&
         list->items[1]->base <= end) {
    /* Readers in other processes see the new minimum before the file goes. */
    ps_page_begin(log, list->items[1]->base);
    status = ps_segments_remove_first(list, error);
    if (status != PS_OK)
      break;
    *removed += 1;
    if (atomic_load(&log->writer.last_offset) < list->items[0]->base)
      atomic_store(&log->writer.last_offset, PS_NO_OFFSET);
    /* One by one, so that no power cut leaves a gap. */
    status = ps_segments_sync_directory(list, error);
  }
  return status;
}

ps_status ps_log_delete_before(ps_log *log, uint64_t offset, uint32_t *removed,
                               ps_error *error) {
  ps_commit commit;
  ps_status status =
      ps_log_enter_exclusive(log, &commit, PS_COMMIT_QUIESCE, error);
  if (status != PS_OK)
    return status;
  status = ps_log_check_open(log, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  if (status == PS_OK)
    status = delete_first(log, offset, removed, error);
  ps_log_leave_exclusive(log, &commit);
  return status;
}
