/* The list of a log's segments: read from the directory, and changed. */
#ifndef PS_SEGMENT_LIST_H
#define PS_SEGMENT_LIST_H

#include "segment.h"

/* Reads the directory. `segment_size` 0 takes that of the files. With takes_ill
 * a segment that is missing, short or unreadable is no error: its bytes are,
 * when they are read.
 * Status: PS_E_NOT_STORE, PS_E_IO, PS_E_MEMORY. */
ps_status ps_segments_open(ps_segments *list, const ps_env *env,
                           const char *root, uint64_t segment_size,
                           int32_t takes_ill, ps_error *error);

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

/* Puts a segment of the file that has its name now into the place of a listed
 * one; blocks of the old one stay readable. `fresh` is the list's then, and so
 * is `file`, which is open for writing, or -1. */
void ps_segments_replace(ps_segments *list, ps_segment *segment,
                         ps_segment *fresh, int32_t file);

/* Makes room for one more segment. Status: PS_E_MEMORY. */
ps_status ps_segments_reserve(ps_segments *list, ps_error *error);

/* Puts a segment before the first one; there is room for it, and its file has
 * its name. `fresh` is the list's then. */
void ps_segments_add_first(ps_segments *list, ps_segment *fresh);

/* Base of the first segment and end of the last one; 0 without segments. */
uint64_t ps_segments_first(ps_segments *list);
uint64_t ps_segments_end(ps_segments *list);

/* Creates a segment file at `base`: allocated, synced, renamed to its name,
 * its directory synced; then it joins the list, open for writing.
 * On failure nothing is left behind. Status: PS_E_FULL, PS_E_IO. */
ps_status ps_segments_create(ps_segments *list, uint64_t base, ps_error *error);

/* The path of that temporary name; `path` has PS_PATH_MAX bytes. */
void ps_segments_temporary_path(const ps_segments *list, uint64_t base,
                                char *path);

/* Makes a segment's file under a temporary name, which it writes to `path`, of
 * PS_PATH_MAX bytes: allocated, zero, synced; *file is open for writing.
 * On failure nothing is left behind. Status: PS_E_FULL, PS_E_IO. */
ps_status ps_segments_make_temporary(ps_segments *list, uint64_t base,
                                     char *path, int32_t *file,
                                     ps_error *error);

/* Removes the newest or the oldest segment: file first, then from the list.
 * The directory is not synced. */
ps_status ps_segments_remove_last(ps_segments *list, ps_error *error);
ps_status ps_segments_remove_first(ps_segments *list, ps_error *error);
ps_status ps_segments_sync_directory(ps_segments *list, ps_error *error);

/* Removes the stranded segments, newest first, after another check that each
 * one is all zero; each removal is durable before the next one.
 * Status: PS_E_NOT_STORE: one holds a byte; PS_E_IO. */
ps_status ps_stranded_remove(ps_segments *list, uint32_t *removed,
                             ps_error *error);

#endif
