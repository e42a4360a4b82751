/* The tail: the bytes above the log's end, which must be zero. */
#include "tail.h"

#include "detach.h"
#include "sync.h"

ps_status ps_tail_zero(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  assert(writer->staged == 0);
  if (!writer->is_tail_dirty || writer->active == NULL)
    return PS_OK;
  uint64_t zeroed = 0;
  ps_status status = ps_segment_zero(&log->segments, writer->active,
                                     writer->staged_from, &zeroed, error);
  if (status == PS_OK)
    status = ps_sync_segment(log, writer->active, error);
  if (status != PS_OK)
    return status;
  writer->is_tail_dirty = 0;
  writer->received_end = writer->staged_from;
  return PS_OK;
}

ps_status ps_tail_repair(ps_log *log, ps_error *error) {
  ps_writer *writer = &log->writer;
  ps_status status = ps_tail_zero(log, error);
  if (status != PS_OK || writer->active == NULL)
    return status;
  return ps_segment_reserve(&log->segments, writer->active, writer->staged_from,
                            error);
}

/* Removes every segment that begins above the end (at the end: kept, it is
 * empty and becomes active). Each removal is durable before the next one, so
 * that no power cut leaves a gap. */
static ps_status remove_above(ps_log *log, uint64_t end, uint32_t *removed,
                              ps_error *error) {
  ps_segments *list = &log->segments;
  ps_status status = PS_OK;
  *removed = 0;
  while (status == PS_OK && list->count > 0 &&
         list->items[list->count - 1]->base > end) {
    status = ps_segments_remove_last(list, error);
    if (status != PS_OK)
      break;
    *removed += 1;
    status = ps_segments_sync_directory(list, error);
  }
  return status;
}

ps_status ps_tail_clear(ps_log *log, uint64_t end, uint32_t *removed,
                        uint64_t *zeroed, ps_error *error) {
  ps_segments *list = &log->segments;
  ps_writer *writer = &log->writer;
  ps_status status = remove_above(log, end, removed, error);
  if (status == PS_OK)
    status = ps_detach(list, end, error);
  if (status != PS_OK)
    return status;
  if (writer->active != NULL)
    ps_segment_release(list, writer->active);
  writer->active = ps_segments_find(list, end);
  writer->staged = 0;
  writer->last_staged = PS_NO_OFFSET;
  atomic_store(&writer->last_offset, PS_NO_OFFSET);
  writer->staged_from = end;
  writer->received_end = end;
  if (writer->active == NULL)
    return PS_OK;
  status = ps_segment_open_file(list, writer->active, error);
  if (status == PS_OK)
    status = ps_segment_zero(list, writer->active, end, zeroed, error);
  if (status == PS_OK)
    status = ps_sync_segment(log, writer->active, error);
  return status;
}
