/* What the files of a log share: its state, and which thread may change what.
 *
 *   the writer  the holder of the write lock (commit_queue.h): staging, end,
 *               active segment, queue table, authority
 *   the syncer  the holder of the sync lock: the synced end
 *   any thread  reads the words of the page, which only the two above store
 */
#ifndef PS_LOG_STATE_H
#define PS_LOG_STATE_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "commit_queue.h"
#include "env.h"
#include "live.h"
#include "lock.h"
#include "pystore.h"
#include "queues.h"
#include "record.h"
#include "segment_list.h"
#include "source.h"
#include "topics.h"

/* Pieces that are written end on their own multiples: the page cache then holds
 * them in large folios, which is cheaper for the writer and for the readers
 * that map the file. */
#define PS_PAGE 4096U
#define PS_PIECE 131072U
/* Zeros behind a write end on multiples of the first; behind a small write that
 * is synced on those of the second. There, each pad is followed by a commit of
 * the file system's journal: the larger pad makes those far rarer, and is not
 * yet slow to write at once. */
#define PS_PAD 65536U
#define PS_PAD_SYNCED 1048576U

/* Why a log is poisoned: what is_poisoned holds, or 0. */
#define PS_POISON_WRITE_BACK 1
#define PS_POISON_LOST 2 /* the store may be another writer's (A18) */

/* Whether a reader awaits a writer that begins. */
#define PS_AWAIT_NONE 0
#define PS_AWAIT_WRITER 1
#define PS_AWAIT_OVER 2 /* it did, and follows the page now */

/* Stored by the holder of the write lock, read also after a sync. */
typedef struct ps_authority {
  _Atomic uint64_t epoch;
  _Atomic uint64_t boottime_ns;
  _Atomic uint64_t wall_ms;
} ps_authority;

/* Which times the wall clock may say: clock.h. */
typedef struct ps_clock {
  int64_t offset_ms; /* of the wall clock from boot time */
  int64_t until_ms;  /* times up to here need no look at boot time */
  uint32_t has_offset;
} ps_clock;

typedef struct ps_writer {
  uint8_t *staging;              /* encoded, not yet written */
  uint64_t capacity;             /* of staging */
  uint64_t staged_from;          /* log offset of staging[0] */
  uint64_t staged;               /* bytes in staging */
  _Atomic uint64_t received_end; /* raw bytes there, maybe half a record */
  uint64_t padded_end;           /* zeros were written up to here */
  uint64_t last_staged;          /* last record encoded, or PS_NO_OFFSET */
  _Atomic uint64_t last_offset;  /* last record published */
  int64_t store_ms;              /* newest store time given out */
  ps_clock clock;
  ps_segment *active; /* NULL: the next append creates one */
  ps_authority authority;
  ps_stamp stamp;
  ps_record_cache cache;
  uint32_t has_failed;        /* a write failed; discard before going on */
  uint32_t wants_sync;        /* a sync follows what is staged */
  uint32_t is_tail_dirty;     /* bytes above the end may be non-zero */
  uint32_t is_broken;         /* bytes above cut_offset stay: no appends */
  uint64_t proof_end;         /* raw records up to here said is_proved */
  uint32_t is_proved;         /* the property CRC before proof_end holds */
  uint32_t is_quiet;          /* a publication wakes no waiter */
  struct ps_waiters *waiters; /* its mark 0 counts publications; or NULL */
} ps_writer;

typedef struct ps_flusher {
  pthread_t thread;
  pthread_mutex_t work; /* held while files are used that may be closed */
  pthread_mutex_t lock; /* of what follows, and of waiting */
  pthread_cond_t wake;
  uint32_t is_running;
  uint32_t is_stopping;
  _Atomic uint64_t written_back; /* write-back was started below this */
} ps_flusher;

struct ps_log {
  const ps_env *env;
  ps_options options;
  const ps_env *anchor; /* its own env, or NULL */
  ps_segments segments;
  ps_commit_queue commit_queue;
  ps_writer writer;
  ps_flusher flusher;
  pthread_mutex_t file_sync_lock; /* one file is synced at a time */
  ps_live *live;                  /* NULL: shared is own_page */
  ps_live_page *page;             /* the words that count */
  ps_live_page *shared;           /* those that other programs see */
  ps_live_page own_page;          /* a writer's page: page_words.h */
  pthread_mutex_t page_lock;      /* of all words but the published end */
  _Atomic uint64_t publishing;    /* the published end that is stored next */
  _Atomic uint32_t is_changed;    /* another program wrote to the page */
  ps_lock *lock;                  /* what it writes under; NULL: not checked */
  uint64_t incarnation;           /* of the page when it was started */
  ps_topics *topics;
  ps_queues *queues;
  _Atomic uint64_t limit;    /* a reader's own end; PS_NO_OFFSET: the page's */
  _Atomic uint32_t awaiting; /* PS_AWAIT_*, of a reader: reader.h */
  ps_live_words awaited;    /* with the cut generation that it has until then */
  _Atomic uint32_t users;   /* running calls */
  _Atomic uint32_t holders; /* held blocks, and the opener */
  _Atomic uint32_t is_closed;
  _Atomic uint32_t is_started;
  _Atomic uint32_t is_poisoned; /* PS_POISON_*; the first one stays */
  uint32_t fork_stamp;
  /* A cut holds all other commits back from begin to end. */
  _Atomic uintptr_t cut_owner; /* ps_this_thread of the one that cuts, or 0 */
  uint64_t cut_offset;
  uint64_t cut_received; /* the received end before it */
  uint64_t cut_limit;    /* no blocks above it; guarded by segments.lock */
  uint32_t cut_step;     /* the owner's */
};

/* Every public call begins with enter and ends with leave.
 * Status: PS_E_CLOSED, PS_E_FORKED. */
ps_status ps_log_enter(ps_log *log, ps_error *error);
void ps_log_leave(ps_log *log);

/* Is this process a forked child of the one that opened the log? */
int32_t ps_log_is_forked(const ps_log *log);

/* How often this process was forked off, so far: the stamp of a new log. */
uint32_t ps_fork_stamp(void);

/* Gives up what a holder has of the log; the last one frees its memory. */
void ps_log_release(ps_log *log);

/* Is the log started and not closed? Status: PS_E_CLOSED. */
ps_status ps_log_check_open(ps_log *log, ps_error *error);

/* A number that no other running thread has. */
uintptr_t ps_this_thread(void);

/* How often the log was cut, so far. A caller loads it before the end. */
uint64_t ps_log_generation(ps_log *log);

/* The end that this handle may read up to. */
uint64_t ps_log_read_end(ps_log *log);

/* Has the log a live page, of a writer of this boot? */
int32_t ps_log_follows(ps_log *log);

/* Was the log cut below `end` since `generation`? Status: PS_E_CUT. */
ps_status ps_log_check_cut(ps_log *log, uint64_t generation, uint64_t end,
                           ps_error *error);

/* Is the live page still this writer's? */
static inline int32_t ps_log_has_page(const ps_log *log) {
  return atomic_load(&log->shared->incarnation) == log->incarnation;
}

/* Begins a call that waits for the write lock and holds it exclusively. Status:
 * as ps_log_enter. */
static inline ps_status ps_log_enter_exclusive(ps_log *log, ps_commit *commit,
                                               ps_commit_kind kind,
                                               ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  commit->kind = kind;
  int32_t leads = ps_commit_queue_enter(&log->commit_queue, commit);
  assert(leads);
  (void)leads;
  return PS_OK;
}

/* Ends such a call. */
static inline void ps_log_leave_exclusive(ps_log *log, ps_commit *commit) {
  ps_commit_queue_leave(&log->commit_queue, commit);
  ps_log_leave(log);
}

/* Has the log grown by so much that the flusher has work? */
static inline int32_t ps_flusher_is_due(const ps_log *log, uint64_t end) {
  uint64_t batch = log->options.writeback_bytes;
  if (batch > 0 && batch < PS_PAGE) /* only whole pages are written back */
    batch = PS_PAGE;
  return batch > 0 && end >= atomic_load(&log->flusher.written_back) + batch;
}

/* Wakes the flusher, if the growth up to `end` is work for it. */
static inline void ps_flusher_grown(ps_log *log, uint64_t end) {
  ps_flusher *flusher = &log->flusher;
  if (!flusher->is_running || !ps_flusher_is_due(log, end))
    return;
  pthread_mutex_lock(&flusher->lock);
  pthread_cond_signal(&flusher->wake);
  pthread_mutex_unlock(&flusher->lock);
}

#endif
