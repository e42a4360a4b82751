/* The words of a writer that others read: its own, which count, and their
 * copies in the live page.
 *
 * The page is a file that any program can write to, so a writer never reads an
 * end from there. It stores each change in its own words and in the page, and
 * finds at each sync, at each roll and each second whether the page still has
 * them (A18). Where the log has no live page, or is a reader's, the two are the
 * same words.
 */
#ifndef PS_PAGE_WORDS_H
#define PS_PAGE_WORDS_H

#include "log_state.h"

/* The ends of a log that starts; nothing else runs. */
void ps_page_start(ps_log *log, const ps_start *start);
/* A new published end, not below the old one; the write lock is held. */
void ps_page_publish(ps_log *log, uint64_t end);
/* A new synced end; the sync lock is held. */
void ps_page_synced(ps_log *log, uint64_t end);
/* A new confirm offset; the write lock is held. */
void ps_page_confirm(ps_log *log, uint64_t offset);
/* A new first offset; all commits are held back. */
void ps_page_begin(ps_log *log, uint64_t min_offset);
/* The ends of an empty log that begins at `base`; all commits are held back. */
void ps_page_begin_empty(ps_log *log, uint64_t base);
/* The ends that a cut leaves; all commits are held back. */
void ps_page_cut(ps_log *log, uint64_t offset, uint64_t generation);

/* Has the page other words than the writer stored, or had it at a time when
 * this was looked at? If so it gets those of the writer: the next opening rests
 * on them. Any thread; 0 while the page is another writer's. */
int32_t ps_page_differs(ps_log *log);

#endif
