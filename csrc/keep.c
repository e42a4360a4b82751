/* What the views of held blocks keep when the log is cut (B14). */
#include "keep.h"

#include <inttypes.h>
#include <stdlib.h>

#include "error.h"

/* Where the list has the segment that a cut at `end` zeroes, if a block above
 * `end` is held in it; else NULL. The list's lock is held. */
static ps_segment **find_held(ps_segments *list, uint64_t end) {
  for (uint32_t i = 0; i < list->count; i++) {
    const ps_segment *segment = list->items[i];
    if (end < segment->base || end - segment->base >= segment->size)
      continue;
    for (const ps_hold *hold = segment->holds; hold != NULL; hold = hold->next)
      if (hold->end > end)
        return &list->items[i];
  }
  return NULL;
}

int32_t ps_keep_is_held(ps_segments *list, uint64_t end) {
  pthread_mutex_lock(&list->lock);
  int32_t is_held = find_held(list, end) != NULL;
  pthread_mutex_unlock(&list->lock);
  return is_held;
}

/* The lowest held bytes at or above `at`. Answers 0 if there are none. */
static int32_t next_held(const ps_segment *segment, uint64_t at, uint64_t *from,
                         uint64_t *end) {
  *from = PS_NO_OFFSET;
  for (const ps_hold *hold = segment->holds; hold != NULL; hold = hold->next) {
    uint64_t begin = hold->offset > at ? hold->offset : at;
    if (hold->end > at && begin < *from) {
      *from = begin;
      *end = hold->end;
    }
  }
  return *from != PS_NO_OFFSET;
}

/* Copies every held byte, also those below the cut: a later and lower cut does
 * not know this segment any more. Answers 0 or -errno. */
static int32_t copy_held(ps_segments *list, ps_segment *segment) {
  const ps_env *env = list->env;
  int32_t result = ps_segment_map(list, segment); /* a block may be about to */
  uint64_t from = 0;
  uint64_t end = 0;
  for (uint64_t at = segment->base;
       result == 0 && next_held(segment, at, &from, &end); at = end) {
    uint64_t place = from - segment->base;
    result = env->populate_exact(env->self, segment->read_file, segment->data,
                                 place, end - from);
    if (result == 0)
      result = env->keep(env->self, segment->data, place, end - from);
  }
  return result;
}

/* Puts `fresh` into the place of the segment, and gives it the file. */
static void retire(ps_segments *list, ps_segment **place, ps_segment *fresh,
                   ps_segment **active) {
  ps_segment *segment = *place;
  *fresh = (ps_segment){.list = list,
                        .base = segment->base,
                        .size = segment->size,
                        .lost = segment->lost,
                        .ill = segment->ill,
                        .file = segment->file,
                        .is_punched = segment->is_punched,
                        .read_file = PS_FILE_NONE,
                        .references = 1};
  *place = fresh;
  segment->file = -1;
  segment->is_retired = 1;
  if (*active == segment) {
    *active = fresh;
    fresh->references++;
    ps_segment_drop(list, segment);
  }
  ps_segment_drop(list, segment); /* the list's reference */
}

ps_status ps_keep_held(ps_segments *list, ps_segment **active, uint64_t end,
                       ps_error *error) {
  ps_segment *fresh = malloc(sizeof *fresh);
  if (fresh == NULL)
    return ps_fail(error, PS_E_MEMORY, end, "no memory for a segment");
  pthread_mutex_lock(&list->lock);
  ps_segment **place = find_held(list, end);
  int32_t result = place != NULL ? copy_held(list, *place) : 0;
  if (place != NULL && result == 0)
    retire(list, place, fresh, active);
  else
    free(fresh);
  pthread_mutex_unlock(&list->lock);
  if (result == 0)
    return PS_OK;
  return ps_fail_system(error, result, end,
                        "%s: cannot cut at %" PRIu64 ": a held block above it "
                        "cannot be copied: release it, or free memory",
                        list->directory, end);
}
