/* The live page: one mapped page of independent 8-byte words (A4).
 *
 * A log publishes its ends here; one without a file uses a page of its own
 * memory, so that the code that publishes and reads is the same.
 */
#ifndef PS_LIVE_H
#define PS_LIVE_H

#include <stdatomic.h>

#include "pystore.h"

#define PS_LIVE_MAGIC 0x5053544C49564531 /* "PSTLIVE1" */
#define PS_LIVE_SIZE 4096
#define PS_LIVE_FORMAT 1
/* A bit of the incarnation: a writer has opened the page and not begun yet. It
 * makes the page another one's for the writer before it, should that one still
 * run, and is no part of the number. */
#define PS_LIVE_CLAIMED 0x8000000000000000

typedef struct ps_live_page {
  _Atomic uint64_t magic;
  _Atomic uint64_t format;
  _Atomic uint64_t incarnation;
  _Atomic uint64_t boot_id[2];
  _Atomic uint64_t mount_id;
  _Atomic uint64_t published_end;
  _Atomic uint64_t synced_end;
  _Atomic uint64_t confirm_offset;
  _Atomic uint64_t min_offset;
  _Atomic uint64_t cut_generation;
  _Atomic uint64_t cut_offset;
  /* Of the wall clock from boot time, in the boot whose first word this is; a
   * writer leaves both to the next one. */
  _Atomic uint64_t clock_boot;
  _Atomic int64_t clock_offset_ms;
} ps_live_page;

/* Keeps the page mapped until one more ps_live_close. */
void ps_live_hold(ps_live *live);

/* The words of an open page; it stays mapped as long as a holder keeps it. */
ps_live_page *ps_live_words_of(ps_live *live);

/* Writes the page to disk. Answers 0 or a negative errno. */
int32_t ps_live_sync(ps_live *live);

/* Stores a new end that a cut left: offset, generation, then both ends. */
void ps_live_cut(ps_live_page *page, uint64_t offset, uint64_t generation);

#endif
