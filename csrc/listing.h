/* What stands in the directory of the segments: which files, and which of them
 * are the log's. Nothing is changed.
 */
#ifndef PS_LISTING_H
#define PS_LISTING_H

#include "env.h"
#include "pystore.h"

/* Why a segment cannot be used, or not all of it; a negative errno: it cannot
 * be opened. */
#define PS_ILL_MISSING 1
#define PS_ILL_SHORT 2
#define PS_ILL_SPECIAL 3 /* no regular file */

/* One segment, or the place of one. */
typedef struct ps_listed {
  uint64_t base;
  int64_t size; /* of its file; 0 where there is none that can be used */
  int32_t ill;  /* PS_ILL_*, a negative errno, or 0 */
} ps_listed;

typedef struct ps_listing {
  const ps_env *env;
  const char *directory;
  uint64_t segment_size;
  int32_t is_size_known; /* given, or said by a file; else the default */
  int32_t takes_ill;     /* segments that cannot be used are no error */
  uint64_t known_end;    /* segments below it were tried to be opened before */
  ps_listed *items;      /* without a gap up to `count`, then the stranded */
  uint32_t count;
  uint32_t stranded; /* how many stand behind a gap, and hold nothing */
  uint32_t capacity;
  int32_t out_of_memory;
  int32_t failure; /* of a look at `refused`: a negative errno, or 0 */
  char refused[64];
  char foreign[64]; /* a name that no segment has */
  char special[64]; /* of a segment that is no regular file */
} ps_listing;

/* Reads the directory. In: the fields up to known_end. `items` is the caller's
 * until ps_listing_free, whatever the status.
 * Status: PS_E_NOT_STORE, PS_E_IO, PS_E_MEMORY. */
ps_status ps_listing_read(ps_listing *listing, ps_error *error);

void ps_listing_free(ps_listing *listing);

/* Are these segments, which stand behind the missing one at `missing`, all
 * zero? Status: PS_E_NOT_STORE: one holds a byte; PS_E_IO. */
ps_status ps_listing_check_empty(const ps_listing *listing,
                                 const uint64_t *bases, uint32_t count,
                                 uint64_t missing, ps_error *error);

#endif
