/* A segment whose file another program replaced. */
#include "renew.h"

#include <stdlib.h>

/* Is the file that has the segment's name whole, and another one than the file
 * that is mapped? */
static int32_t has_other_file(ps_segments *list, ps_segment *segment) {
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  int32_t file = env->open(env->self, path, PS_FILE_READ);
  if (file < 0)
    return 0;
  uint64_t now[2] = {0, 0};
  int32_t is_whole = env->size(env->self, file) == (int64_t)segment->size &&
                     env->identity(env->self, file, now) == 0;
  env->close(env->self, file);
  pthread_mutex_lock(&list->lock);
  int32_t is_same = segment->ill == 0 && now[0] == segment->identity[0] &&
                    now[1] == segment->identity[1];
  pthread_mutex_unlock(&list->lock);
  return is_whole && !is_same;
}

int32_t ps_renew(ps_segments *list, uint64_t offset, uint64_t *seen) {
  uint64_t renewals = atomic_load(&list->renewals);
  if (renewals != *seen) {
    *seen = renewals;
    return 1;
  }
  ps_segment *segment = ps_segments_find(list, offset);
  if (segment == NULL)
    return 0;
  ps_segment *fresh = NULL;
  if (has_other_file(list, segment))
    fresh = malloc(sizeof *fresh);
  if (fresh != NULL) {
    ps_segments_replace(list, segment, fresh, -1);
    *seen = atomic_fetch_add(&list->renewals, 1) + 1;
  }
  ps_segment_release(list, segment);
  return fresh != NULL;
}
