/* Bytes of the log, read without a mapping. */
#include <errno.h>
#include <inttypes.h>

#include "error.h"
#include "read.h"
#include "reader.h"

/* Reads [at, at + size) of an open file. */
static ps_status read_all(const ps_env *env, int32_t file, const char *path,
                          uint64_t at, uint64_t size, uint8_t *buffer,
                          ps_error *error) {
  for (uint64_t done = 0; done < size;) {
    int64_t got =
        env->read(env->self, file, buffer + done, size - done, at + done);
    if (got < 0)
      return ps_fail_system(error, got, PS_NO_OFFSET,
                            "%s: cannot read at %" PRIu64, path, at + done);
    if (got == 0)
      return ps_fail(error, PS_E_CORRUPT, PS_NO_OFFSET,
                     "%s: the file ends before byte %" PRIu64
                     ": another program cut it short",
                     path, at + size);
    done += (uint64_t)got;
  }
  return PS_OK;
}

static ps_status copy(ps_log *log, uint64_t offset, uint64_t size_max,
                      uint8_t *buffer, uint64_t *copied, ps_error *error) {
  ps_segments *list = &log->segments;
  uint64_t end = ps_log_read_end(log);
  ps_status status = ps_log_check_range(log, offset, end, error);
  ps_segment *segment = NULL;
  if (status == PS_OK)
    status = ps_log_find_segment(log, offset, &segment, error);
  if (status != PS_OK)
    return status;
  uint64_t stop = ps_segment_stop(segment, offset, end);
  uint64_t size = stop - offset < size_max ? stop - offset : size_max;
  uint64_t whole = segment->base + segment->size - segment->lost;
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  if (segment->lost > 0 && offset >= whole) {
    status = ps_segment_fail_ill(list, segment, offset, error);
  } else {
    const ps_env *env = log->env;
    int32_t file = env->open(env->self, path, PS_FILE_READ);
    if (file == -ENOENT)
      status = ps_fail(error, PS_E_RANGE, offset, "%s: the segment was deleted",
                       path);
    else if (file < 0)
      status = ps_fail_system(error, file, offset, "%s: cannot open", path);
    else
      status = read_all(env, file, path, offset - segment->base, size, buffer,
                        error);
    if (file >= 0)
      env->close(env->self, file);
  }
  if (status != PS_OK)
    error->offset = offset;
  *copied = size;
  ps_segment_release(list, segment);
  return status;
}

ps_status ps_log_copy(ps_log *log, uint64_t offset, uint64_t size_max,
                      uint8_t *buffer, uint64_t *copied, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  uint64_t generation = ps_log_generation(log);
  *copied = 0;
  status = copy(log, offset, size_max, buffer, copied, error);
  ps_error cut;
  if (ps_log_check_cut(log, generation, offset + *copied, &cut) != PS_OK) {
    *error = cut;
    status = PS_E_CUT;
  }
  ps_log_leave(log);
  return status;
}
