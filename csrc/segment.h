/* A segment: one file of a log, its mapping and its references.
 *
 * A segment is counted: the list holds one reference, every block and every
 * running read another. A mapping lives as long as its segment, so deleting a
 * file never pulls memory from under a reader.
 */
#ifndef PS_SEGMENT_H
#define PS_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "env.h"
#include "pystore.h"

#define PS_PATH_MAX 4096

/* A held block: it keeps its segment. Guarded by the list's lock. */
typedef struct ps_hold {
  struct ps_segment *segment;
  uint64_t offset;
  uint64_t end;
  struct ps_hold *next;
  struct ps_hold **link; /* what points to this one */
} ps_hold;

typedef struct ps_segment {
  struct ps_segments *list;
  uint64_t base;
  uint64_t size;
  uint64_t lost;       /* bytes at its end that its file has not; 0: whole */
  int32_t ill;         /* why: PS_ILL_*, a negative errno, or 0 */
  int32_t file;        /* -1: not open for writing */
  uint32_t references; /* guarded by the list's lock, like all below */
  ps_hold *holds;      /* held blocks */
  int32_t is_retired;  /* only its blocks use it: the list has another one */
  int32_t read_file;   /* or PS_FILE_NONE, PS_FILE_UNSEEN */
  int32_t is_punched;  /* space must be allocated again before an append */
  _Atomic uint64_t touched; /* populated up to here before; only a hint */
  const uint8_t *data;      /* NULL: not mapped yet */
  uint64_t identity[2];     /* of the file that is mapped */
} ps_segment;

typedef struct ps_segments {
  const ps_env *env;
  char directory[PS_PATH_MAX]; /* <root>/commitlog */
  char temporary[PS_PATH_MAX]; /* <root>/meta/tmp */
  uint64_t segment_size;
  int32_t takes_ill;     /* a reader's: segments may be ill */
  int32_t is_size_known; /* given, or said by a file; else the default */
  pthread_mutex_t lock;
  ps_segment **items; /* by base, without gaps */
  uint32_t count;
  uint32_t capacity;
  uint64_t *stranded; /* bases of empty segments behind a gap: no items */
  uint32_t stranded_count;
  /* A reader's: the cut generation that the items belong to. */
  _Atomic uint64_t generation;
  _Atomic uint64_t renewals; /* how often a segment got another file */
} ps_segments;

/* Gives one reference back; with the last one the segment is unmapped, closed
 * and freed. */
void ps_segment_release(ps_segments *list, ps_segment *segment);

/* The same where the caller holds the list's lock. */
void ps_segment_drop(ps_segments *list, ps_segment *segment);

/* Maps the segment's file, if it is not; the list's lock is held. Answers 0 or
 * -errno. */
int32_t ps_segment_map(ps_segments *list, ps_segment *segment);

/* Says why `segment`, which is ill, has no byte at `offset`: PS_E_CORRUPT. */
ps_status ps_segment_fail_ill(const ps_segments *list,
                              const ps_segment *segment, uint64_t offset,
                              ps_error *error);

/* Where its file ends, for a read of `offset` up to `end` at most; behind that
 * end, where the segment does. */
static inline uint64_t ps_segment_stop(const ps_segment *segment,
                                       uint64_t offset, uint64_t end) {
  uint64_t stop = segment->base + segment->size - segment->lost;
  if (offset >= stop)
    stop = segment->base + segment->size;
  return stop < end ? stop : end;
}

/* Makes the pages of [offset, offset + size) safe to touch and answers where
 * `offset` is mapped. Status: PS_E_CORRUPT (file too short), PS_E_IO. */
ps_status ps_segment_populate(ps_segments *list, ps_segment *segment,
                              uint64_t offset, uint64_t size,
                              const uint8_t **data, ps_error *error);

/* The same for a few bytes after which nothing is read: nothing around them is
 * read ahead. */
ps_status ps_segment_populate_exact(ps_segments *list, ps_segment *segment,
                                    uint64_t offset, uint64_t size,
                                    const uint8_t **data, ps_error *error);

/* Opens the segment's file for writing, if it is not. */
ps_status ps_segment_open_file(ps_segments *list, ps_segment *segment,
                               ps_error *error);
void ps_segment_close_file(ps_segments *list, ps_segment *segment);

/* Writes all of it or fails; *written says how far it came. */
ps_status ps_segment_write(ps_segments *list, ps_segment *segment,
                           uint64_t offset, const uint8_t *data, uint64_t size,
                           uint64_t *written, ps_error *error);

/* Zeroes [offset, end of the segment); the caller syncs. *zeroed is how far
 * non-zero bytes had reached above `offset`. Notes a punched range. */
ps_status ps_segment_zero(ps_segments *list, ps_segment *segment,
                          uint64_t offset, uint64_t *zeroed, ps_error *error);

/* Gives a punched range its space back; cheap if there is none. */
ps_status ps_segment_reserve(ps_segments *list, ps_segment *segment,
                             uint64_t offset, ps_error *error);

/* The path of the segment at `base`; `path` has PS_PATH_MAX bytes. */
void ps_segment_path(const ps_segments *list, uint64_t base, char *path);

#endif
