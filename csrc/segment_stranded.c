/* Stranded segments: allocated, never written, behind a missing one.
 *
 * RocketMQ allocates segments ahead, and a cut of it over several of them does
 * not remove the last one first. Killed in between it leaves a gap, and behind
 * it what was allocated. Such files are no part of the log; one byte in one of
 * them, and the log has a hole that nobody may close silently.
 */
#include <inttypes.h>

#include "error.h"
#include "segment.h"

static ps_status check_one(const ps_segments *list, uint64_t base,
                           uint64_t missing, ps_error *error) {
  const ps_env *env = list->env;
  char path[PS_PATH_MAX];
  ps_segment_path(list, base, path);
  int32_t file = env->open(env->self, path, PS_FILE_READ);
  if (file < 0)
    return ps_fail_system(error, file, base, "%s: cannot open", path);
  int64_t end = env->data_end(env->self, file, 0, list->segment_size);
  env->close(env->self, file);
  if (end < 0)
    return ps_fail_system(error, end, base, "%s: cannot read", path);
  if (end > 0)
    return ps_fail(error, PS_E_NOT_STORE, missing,
                   "%s: segment %020" PRIu64 " is missing before %020" PRIu64
                   ", which is not empty: restore it or move the later ones "
                   "away",
                   list->directory, missing, base);
  return PS_OK;
}

ps_status ps_stranded_check(const ps_segments *list, const uint64_t *bases,
                            uint32_t count, uint64_t missing, ps_error *error) {
  ps_status status = PS_OK;
  for (uint32_t i = 0; status == PS_OK && i < count; i++)
    status = check_one(list, bases[i], missing, error);
  return status;
}

ps_status ps_stranded_remove(ps_segments *list, uint32_t *removed,
                             ps_error *error) {
  const ps_env *env = list->env;
  *removed = 0;
  /* All before the first one goes: a refusal changes nothing. */
  ps_status status = ps_stranded_check(
      list, list->stranded, list->stranded_count, ps_segments_end(list), error);
  while (status == PS_OK && list->stranded_count > 0) {
    char path[PS_PATH_MAX];
    ps_segment_path(list, list->stranded[list->stranded_count - 1], path);
    int32_t result = env->remove(env->self, path);
    if (result < 0)
      return ps_fail_system(error, result, list->stranded[0],
                            "%s: cannot remove", path);
    *removed += 1;
    list->stranded_count--;
    status = ps_segments_sync_directory(list, error);
  }
  return status;
}
