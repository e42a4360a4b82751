/* Segments: the files of a log, and the list of them.
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

typedef struct ps_segment {
  struct ps_segments *list;
  uint64_t base;
  uint64_t size;
  int32_t file;             /* -1: not open for writing */
  uint32_t references;      /* guarded by the list's lock, like all below */
  uint32_t blocks;          /* held blocks */
  uint64_t blocks_end;      /* highest end of a block since there were none */
  int32_t read_file;        /* or PS_FILE_NONE, PS_FILE_UNSEEN */
  int32_t is_punched;       /* space must be allocated again before an append */
  _Atomic uint64_t touched; /* populated up to here before; only a hint */
  const uint8_t *data;      /* NULL: not mapped yet */
} ps_segment;

typedef struct ps_segments {
  const ps_env *env;
  char directory[PS_PATH_MAX]; /* <root>/commitlog */
  char temporary[PS_PATH_MAX]; /* <root>/meta/tmp */
  uint64_t segment_size;
  int32_t is_size_known; /* given, or said by a file; else the default */
  pthread_mutex_t lock;
  ps_segment **items; /* by base, without gaps */
  uint32_t count;
  uint32_t capacity;
  uint64_t *stranded; /* bases of empty segments behind a gap: no items */
  uint32_t stranded_count;
  /* A reader's: the cut generation that the items belong to. */
  _Atomic uint64_t generation;
} ps_segments;

/* Reads the directory. `segment_size` 0 takes that of the files.
 * Status: PS_E_NOT_STORE, PS_E_IO, PS_E_MEMORY. */
ps_status ps_segments_open(ps_segments *list, const ps_env *env,
                           const char *root, uint64_t segment_size,
                           ps_error *error);

/* Are the segments at these bases, which stand behind a gap, all zero? A
 * visitor that allocates ahead leaves such files; they hold nothing.
 * Status: PS_E_NOT_STORE: one holds a byte, `missing` is the gap; PS_E_IO. */
ps_status ps_stranded_check(const ps_segments *list, const uint64_t *bases,
                            uint32_t count, uint64_t missing, ps_error *error);

/* Removes `stranded`, newest first, after another look; each removal is durable
 * before the next one. Status: as above. */
ps_status ps_stranded_remove(ps_segments *list, uint32_t *removed,
                             ps_error *error);

/* Drops the list's references; segments with held blocks stay. */
void ps_segments_close(ps_segments *list);

/* Reads the directory again after another process has changed it. Of the
 * segments found only those that begin below `end` join the list: a cut that
 * runs may remove the others. After a cut (another generation) every segment is
 * taken anew, as its file may have been removed and made again. Load the
 * generation first and `end` after it. */
ps_status ps_segments_refresh(ps_segments *list, uint64_t generation,
                              uint64_t end, ps_error *error);

/* The segment that holds `offset`, acquired; NULL if there is none. */
ps_segment *ps_segments_find(ps_segments *list, uint64_t offset);
void ps_segment_release(ps_segments *list, ps_segment *segment);

/* The same where the caller holds the list's lock. */
void ps_segment_drop(ps_segments *list, ps_segment *segment);

/* Adds the next segment, whose file may be open for writing (else -1). */
ps_status ps_segments_add(ps_segments *list, uint64_t base, int32_t file,
                          ps_error *error);

/* Base of the first segment and end of the last one; 0 without segments. */
uint64_t ps_segments_first(ps_segments *list);
uint64_t ps_segments_end(ps_segments *list);

/* Makes the pages of [offset, offset + size) safe to touch and answers where
 * `offset` is mapped. Status: PS_E_CORRUPT (file too short), PS_E_IO. */
ps_status ps_segment_populate(ps_segments *list, ps_segment *segment,
                              uint64_t offset, uint64_t size,
                              const uint8_t **data, ps_error *error);

/* The same for some bytes that nobody reads on from: nothing around them is
 * read ahead. */
ps_status ps_segment_look(ps_segments *list, ps_segment *segment,
                          uint64_t offset, uint64_t size, const uint8_t **data,
                          ps_error *error);

/* Opens the segment's file for writing, if it is not. */
ps_status ps_segment_open_file(ps_segments *list, ps_segment *segment,
                               ps_error *error);
void ps_segment_close_file(ps_segments *list, ps_segment *segment);

/* Creates a segment file at `base`: allocated, synced, renamed to its name,
 * its directory synced; then it joins the list, open for writing.
 * On failure nothing is left behind. Status: PS_E_FULL, PS_E_IO. */
ps_status ps_segments_create(ps_segments *list, uint64_t base, ps_error *error);

/* Removes the newest or the oldest segment: file first, then from the list.
 * The directory is not synced. */
ps_status ps_segments_remove_last(ps_segments *list, ps_error *error);
ps_status ps_segments_remove_first(ps_segments *list, ps_error *error);
ps_status ps_segments_sync_directory(ps_segments *list, ps_error *error);

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
