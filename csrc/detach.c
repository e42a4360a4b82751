/* A segment with several names, given a file of its own. */
#include "detach.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "error.h"

#define COPY_CHUNK 1048576U

/* How many names the segment's file has, which is opened for that. */
static ps_status count_names(ps_segments *list, ps_segment *segment,
                             int64_t *names, ps_error *error) {
  const ps_env *env = list->env;
  ps_status status = ps_segment_open_file(list, segment, error);
  if (status != PS_OK)
    return status;
  *names = env->links(env->self, segment->file);
  if (*names > 1) { /* a power cut in its creation may have left one of ours */
    char path[PS_PATH_MAX];
    ps_segments_temporary_path(list, segment->base, path);
    env->remove(env->self, path);
    *names = env->links(env->self, segment->file);
  }
  if (*names >= 0)
    return PS_OK;
  return ps_fail_system(error, *names, segment->base,
                        "%s/%020" PRIu64 ": cannot ask for its names",
                        list->directory, segment->base);
}

/* Copies [0, size) of one file to another and syncs that. */
static int32_t copy_bytes(const ps_env *env, int32_t from, int32_t to,
                          uint64_t size) {
  uint8_t *buffer = malloc(COPY_CHUNK);
  int64_t done = buffer == NULL ? -ENOMEM : 0;
  for (uint64_t at = 0; done >= 0 && at < size;) {
    uint64_t chunk = size - at < COPY_CHUNK ? size - at : COPY_CHUNK;
    done = env->read(env->self, from, buffer, chunk, at);
    if (done == 0)
      done = -EIO; /* the file ends early */
    if (done > 0)
      done = env->write(env->self, to, buffer, (uint64_t)done, at);
    if (done > 0)
      at += (uint64_t)done;
  }
  free(buffer);
  return done < 0 ? (int32_t)done : env->sync(env->self, to);
}

/* Copies the bytes below `end` and gives the copy the segment's name. */
static ps_status replace(ps_segments *list, const ps_segment *segment,
                         uint64_t end, int32_t *file, ps_error *error) {
  const ps_env *env = list->env;
  char temporary[PS_PATH_MAX];
  char path[PS_PATH_MAX];
  ps_segment_path(list, segment->base, path);
  ps_status status =
      ps_segments_make_temporary(list, segment->base, temporary, file, error);
  if (status != PS_OK)
    return status;
  int32_t result = copy_bytes(env, segment->file, *file, end - segment->base);
  if (result == 0)
    result = env->rename(env->self, temporary, path);
  if (result == 0)
    return ps_segments_sync_directory(list, error);
  env->close(env->self, *file);
  env->remove(env->self, temporary);
  return ps_fail_system(error, result, segment->base,
                        "%s: cannot be copied, which it must be before it is "
                        "cut: the file has several names",
                        path);
}

static ps_status detach(ps_segments *list, ps_segment *segment, uint64_t end,
                        ps_error *error) {
  ps_segment *copy = malloc(sizeof *copy);
  if (copy == NULL)
    return ps_fail(error, PS_E_MEMORY, end, "no memory for a segment");
  int32_t file = -1;
  ps_status status = replace(list, segment, end, &file, error);
  if (status != PS_OK) {
    free(copy);
    return status;
  }
  ps_segments_replace(list, segment, copy, file);
  return PS_OK;
}

ps_status ps_detach(ps_segments *list, uint64_t end, ps_error *error) {
  ps_segment *segment = ps_segments_find(list, end);
  if (segment == NULL)
    return PS_OK;
  int64_t names = 0;
  ps_status status = count_names(list, segment, &names, error);
  if (status == PS_OK && names > 1)
    status = detach(list, segment, end, error);
  ps_segment_release(list, segment);
  return status;
}

ps_status ps_detach_refuse(ps_segments *list, uint64_t end, ps_error *error) {
  ps_segment *segment = ps_segments_find(list, end);
  if (segment == NULL)
    return PS_OK;
  int64_t names = 0;
  ps_status status = count_names(list, segment, &names, error);
  if (status == PS_OK && names > 1)
    status = ps_fail(error, PS_E_NOT_STORE, segment->base,
                     "%s/%020" PRIu64 ": the file has %" PRId64
                     " names, so another store shares it (a copy by hard "
                     "links), and it takes the next appends: put a copy in its "
                     "place here: cp -p to a name outside of commitlog/, then "
                     "mv it here",
                     list->directory, segment->base, names);
  ps_segment_release(list, segment);
  return status;
}
