/* Reading the directory of the segments, and judging what stands there. */
#include "listing.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define DEFAULT_SEGMENT_SIZE 1073741824U
#define NAME_DIGITS 20
#define PATH_SIZE 4096
#define MISSING_MOST 65536U /* more of them are no gap in a log */
#define READS_MOST 16       /* of a directory that changes meanwhile */

static int is_base(const char *name, uint64_t *base) {
  size_t length = strlen(name);
  if (length != NAME_DIGITS || strspn(name, "0123456789") != length)
    return 0;
  errno = 0;
  *base = strtoull(name, NULL, 10);
  return errno == 0 && *base <= INT64_MAX;
}

static int32_t grow(ps_listing *found, uint32_t count) {
  if (count <= found->capacity)
    return 1;
  uint32_t capacity = found->capacity == 0 ? 64 : found->capacity * 2;
  if (capacity < count)
    capacity = count;
  ps_listed *items = realloc(found->items, capacity * sizeof *items);
  if (items == NULL)
    return 0;
  found->items = items;
  found->capacity = capacity;
  return 1;
}

static void visit(void *argument, const char *name, int64_t size_bytes) {
  ps_listing *found = argument;
  uint64_t base = 0;
  int32_t is_segment = is_base(name, &base);
  int32_t failure =
      size_bytes <= PS_SIZE_FAILED ? (int32_t)(size_bytes - PS_SIZE_FAILED) : 0;
  if (failure < 0 && !(is_segment && found->takes_ill)) {
    found->failure = failure;
    snprintf(found->refused, sizeof found->refused, "%.60s", name);
    return;
  }
  if (size_bytes < 0 && is_segment && !found->takes_ill) {
    snprintf(found->special, sizeof found->special, "%s", name);
    return;
  }
  if (size_bytes == PS_SIZE_DIRECTORY && !is_segment)
    return; /* RocketMQ ignores directories too */
  if (!is_segment) {
    snprintf(found->foreign, sizeof found->foreign, "%.60s", name);
    return;
  }
  if (!grow(found, found->count + 1)) {
    found->out_of_memory = 1;
    return;
  }
  /* Insert in order; a directory is small and often nearly sorted. */
  uint32_t at = found->count++;
  for (; at > 0 && found->items[at - 1].base > base; at--)
    found->items[at] = found->items[at - 1];
  found->items[at] = (ps_listed){.base = base, .size = size_bytes};
  if (size_bytes < 0)
    found->items[at] = (ps_listed){
        .base = base, .ill = failure < 0 ? failure : PS_ILL_SPECIAL};
}

/* What the files say: the distance of the first two, if a file is so large,
 * since one of them may have been cut short; else the size of the first. */
static uint64_t size_of_files(const ps_listing *found) {
  const ps_listed *items = found->items;
  for (uint32_t i = 0; found->count > 1 && i < found->count; i++)
    if ((uint64_t)items[i].size == items[1].base - items[0].base)
      return (uint64_t)items[i].size;
  return (uint64_t)items[0].size;
}

/* The same where files may be missing: the largest size of a file of which
 * every base is a multiple. */
static uint64_t size_with_gaps(const ps_listing *found) {
  uint64_t best = 0;
  for (uint32_t i = 0; i < found->count; i++) {
    uint64_t size = (uint64_t)found->items[i].size;
    int32_t fits = size > best;
    for (uint32_t k = 0; fits && k < found->count; k++)
      fits = found->items[k].base % size == 0;
    if (fits)
      best = size;
  }
  return best;
}

/* Decides the segment size: the caller's, else the files', else 1 GiB.
 * A lone empty file says nothing. */
static ps_status decide_size(ps_listing *list, ps_error *error) {
  if (list->is_size_known)
    return PS_OK;
  uint64_t said = list->takes_ill ? size_with_gaps(list) : 0;
  if (said == 0 && list->count > 0)
    said = size_of_files(list);
  list->segment_size = said > 0 ? said : DEFAULT_SEGMENT_SIZE;
  list->is_size_known = said > 0;
  if (list->segment_size > INT32_MAX)
    return ps_fail(error, PS_E_NOT_STORE, list->items[0].base,
                   "%s: a segment of %" PRIu64 " bytes: RocketMQ's limit is "
                   "2147483647; is this a commit log?",
                   list->directory, list->segment_size);
  return PS_OK;
}

static int32_t open_segment(const ps_listing *list, uint64_t base, char *path) {
  snprintf(path, PATH_SIZE, "%s/%020" PRIu64, list->directory, base);
  return list->env->open(list->env->self, path, PS_FILE_READ);
}

/* Stranded segments: allocated, never written, behind a missing one.
 *
 * RocketMQ allocates segments ahead, and a cut of it over several of them does
 * not remove the last one first. Killed in between it leaves a gap, and behind
 * it what was allocated. Such files are no part of the log. If one of them
 * holds a byte, the log has a hole, which no start may close silently.
 */
static ps_status check_empty(const ps_listing *list, uint64_t base,
                             uint64_t missing, ps_error *error) {
  const ps_env *env = list->env;
  char path[PATH_SIZE];
  int32_t file = open_segment(list, base, path);
  if (file < 0)
    return ps_fail_system(error, file, base, "%s: cannot open", path);
  int64_t end = env->data_end(env->self, file, 0, list->segment_size);
  env->close(env->self, file);
  if (end < 0)
    return ps_fail_system(error, end, base, "%s: cannot read", path);
  if (end > 0)
    return ps_fail(error, PS_E_NOT_STORE, missing,
                   "%s: segment %020" PRIu64 " is missing before %020" PRIu64
                   ", which is not empty: restore it from a replica or a "
                   "backup; until then the store opens for reading only",
                   list->directory, missing, base);
  return PS_OK;
}

ps_status ps_listing_check_empty(const ps_listing *listing,
                                 const uint64_t *bases, uint32_t count,
                                 uint64_t missing, ps_error *error) {
  ps_status status = PS_OK;
  for (uint32_t i = 0; status == PS_OK && i < count; i++)
    status = check_empty(listing, bases[i], missing, error);
  return status;
}

/* Does a gap precede item `at`? */
static int32_t is_behind_gap(const ps_listing *list, uint32_t at) {
  return at > 0 &&
         list->items[at].base != list->items[at - 1].base + list->segment_size;
}

static int32_t has_gap(const ps_listing *list) {
  for (uint32_t i = 1; i < list->count; i++)
    if (is_behind_gap(list, i))
      return 1;
  return 0;
}

/* Do all items from `at` on hold nothing? An item that cannot be read may hold
 * something. The error names the first gap behind which one does. */
static ps_status check_behind(const ps_listing *list, uint32_t at,
                              ps_error *error) {
  uint64_t missing = list->items[at - 1].base + list->segment_size;
  ps_status status = PS_OK;
  for (uint32_t i = at; status == PS_OK && i < list->count; i++)
    status = check_empty(list, list->items[i].base, missing, error);
  return status;
}

/* Puts an item for each missing segment into the gaps. */
static ps_status fill_gaps(ps_listing *list, ps_error *error) {
  uint64_t first = list->items[0].base;
  uint64_t all =
      (list->items[list->count - 1].base - first) / list->segment_size + 1;
  if (all > (uint64_t)list->count + MISSING_MOST)
    return ps_fail(error, PS_E_NOT_STORE, first,
                   "%s: %" PRIu64 " segments are missing between the files: is "
                   "this one log?",
                   list->directory, all - list->count);
  uint32_t behind = list->stranded;
  uint32_t added = (uint32_t)all - list->count;
  if (!grow(list, (uint32_t)all + behind))
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory",
                   list->directory);
  ps_listed *items = list->items;
  memmove(items + all, items + list->count, behind * sizeof *items);
  uint32_t from = list->count;
  for (uint64_t to = all; added > 0 && to > 0; to--) {
    uint64_t base = first + (to - 1) * list->segment_size;
    if (from > 0 && items[from - 1].base == base)
      items[to - 1] = items[--from];
    else
      items[to - 1] = (ps_listed){.base = base, .ill = PS_ILL_MISSING};
  }
  list->count = (uint32_t)all;
  return PS_OK;
}

/* Takes off what is no segment of the log: an empty last file, and what stands
 * behind a gap and holds nothing. What remains behind a gap is an error, or the
 * gap is filled. */
static ps_status trim(ps_listing *list, ps_error *error) {
  const ps_listed *last = &list->items[list->count - 1];
  if (last->size == 0 && last->ill == 0)
    list->count--;
  uint32_t count = list->count;
  uint32_t kept = count;
  uint32_t first = 0; /* the first gap */
  int32_t is_empty = 1;
  for (uint32_t i = count; i-- > 1;) {
    if (!is_behind_gap(list, i))
      continue;
    first = i;
    list->count = kept;
    is_empty = is_empty && check_behind(list, i, error) == PS_OK;
    if (is_empty)
      kept = i;
  }
  list->count = kept;
  list->stranded = count - kept;
  if (is_empty)
    return PS_OK;
  return list->takes_ill ? fill_gaps(list, error)
                         : check_behind(list, first, error);
}

/* Tries to open the segments that were not opened before: of those that another
 * user owns the size alone is known. */
static void try_to_open(ps_listing *list) {
  const ps_env *env = list->env;
  char path[PATH_SIZE];
  for (uint32_t i = 0; list->takes_ill && i < list->count; i++) {
    ps_listed *item = &list->items[i];
    if (item->base < list->known_end || item->ill == PS_ILL_MISSING ||
        item->ill == PS_ILL_SPECIAL)
      continue;
    int32_t file = open_segment(list, item->base, path);
    if (file >= 0) {
      env->close(env->self, file);
      continue;
    }
    item->size = 0;
    item->ill = file == -ENOENT ? PS_ILL_MISSING : file;
  }
}

static ps_status check_item(ps_listing *list, ps_listed *item, int32_t is_last,
                            ps_error *error) {
  if (item->ill == 0 && item->size == 0 && is_last)
    return PS_OK;
  if (list->takes_ill && item->ill == 0 &&
      (uint64_t)item->size < list->segment_size)
    item->ill = PS_ILL_SHORT;
  if (item->ill == 0 && (uint64_t)item->size != list->segment_size)
    return ps_fail(error, PS_E_NOT_STORE, item->base,
                   "%s/%020" PRIu64 ": %" PRId64 " bytes, a segment here "
                   "has %" PRIu64 ": was it cut short or is the segment "
                   "size another?",
                   list->directory, item->base, item->size, list->segment_size);
  if (item->base % list->segment_size != 0)
    return ps_fail(error, PS_E_NOT_STORE, item->base,
                   "%s/%020" PRIu64 ": no segment of %" PRIu64 " bytes "
                   "begins there: move it away",
                   list->directory, item->base, list->segment_size);
  return PS_OK;
}

/* A segment file must have the segment size; only the last may be empty
 * (RocketMQ removes such a file: a crash in its creation). */
static ps_status check(ps_listing *list, ps_error *error) {
  if (list->out_of_memory)
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory",
                   list->directory);
  if (list->failure < 0)
    return ps_fail_system(error, list->failure, PS_NO_OFFSET, "%s/%s",
                          list->directory, list->refused);
  if (list->foreign[0] != 0)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s/%s: not the name of a segment (20 digits): move it "
                   "out of the commit log",
                   list->directory, list->foreign);
  if (list->special[0] != 0)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s/%s: not a regular file, though it has the name of a "
                   "segment: move it away, and restore the segment if there "
                   "was one",
                   list->directory, list->special);
  ps_status status = decide_size(list, error);
  for (uint32_t i = 0; status == PS_OK && i < list->count; i++)
    status = check_item(list, &list->items[i], i + 1 == list->count, error);
  return status;
}

static ps_status read_once(ps_listing *list, ps_error *error) {
  list->count = 0;
  list->failure = 0;
  list->foreign[0] = list->special[0] = 0;
  int32_t result =
      list->env->list(list->env->self, list->directory, visit, list);
  if (result == -ENOENT || result == -ENOTDIR)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: no such directory: not a store", list->directory);
  if (result < 0)
    return ps_fail_system(error, result, PS_NO_OFFSET, "%s: cannot list",
                          list->directory);
  return check(list, error);
}

/* A sum over what was found: another one means that the directory changed. */
static uint64_t sum_of(const ps_listing *list) {
  uint64_t sum = list->count;
  for (uint32_t i = 0; i < list->count; i++)
    sum = (sum ^ list->items[i].base) * UINT64_C(0x9E3779B97F4A7C15);
  return sum;
}

static int32_t is_there(const ps_listing *list, uint64_t base) {
  char path[PATH_SIZE];
  int32_t file = open_segment(list, base, path);
  if (file >= 0)
    list->env->close(list->env->self, file);
  return file != -ENOENT;
}

/* Drops the oldest segments that were listed and are gone: a writer deleted
 * them. It begins with the oldest one, so where segments are gone by its work,
 * the next one below is gone as well by now, though it was there a moment ago.
 */
static void drop_deleted(ps_listing *list) {
  uint32_t gone = list->count;
  while (gone > 0) {
    uint32_t first = gone; /* of the missing ones up to here */
    while (first > 0 && list->items[first - 1].ill == PS_ILL_MISSING)
      first--;
    if (first == gone) {
      gone--;
      continue;
    }
    if (first == 0 || !is_there(list, list->items[first - 1].base))
      break;
    gone = first; /* a gap */
  }
  if (gone == 0 || gone == list->count)
    return;
  list->count -= gone;
  memmove(list->items, list->items + gone, list->count * sizeof *list->items);
}

ps_status ps_listing_read(ps_listing *list, ps_error *error) {
  ps_status status = read_once(list, error);
  /* A listing is not one moment: a writer may have removed the oldest segments
   * or made new ones while it ran. A gap is one if the next listing is equal.
   */
  for (int32_t i = 1; status == PS_OK && has_gap(list) && i < READS_MOST; i++) {
    uint64_t before = sum_of(list);
    status = read_once(list, error);
    if (status == PS_OK && sum_of(list) == before)
      break;
  }
  if (status == PS_OK && list->count > 0)
    status = trim(list, error);
  if (status == PS_OK) {
    try_to_open(list);
    drop_deleted(list);
  }
  return status;
}

void ps_listing_free(ps_listing *list) {
  free(list->items);
  list->items = NULL;
  list->count = list->stranded = list->capacity = 0;
}
