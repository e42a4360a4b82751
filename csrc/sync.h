/* Durability: the sync of files, and the poison after one that failed. */
#ifndef PS_SYNC_H
#define PS_SYNC_H

#include "log_state.h"

/* Syncs everything published now; the sync lock is held. */
ps_status ps_sync_published(ps_log *log, ps_error *error);
/* Syncs one file. No other thread's sync may come between its failure and the
 * poison: the system reports an error once. Status: PS_E_POISONED. */
ps_status ps_sync_segment(ps_log *log, ps_segment *segment, ps_error *error);
/* Is the file of a segment that is written still the log's? A RocketMQ broker
 * that starts on an open store removes segments before it tries the lock.
 * Status: PS_E_POISONED: what is written there is gone. */
ps_status ps_sync_check_file(ps_log *log, ps_segment *segment, ps_error *error);
/* Is the store still the log's: the lock by its name, the live page by its
 * incarnation (A18)? Before anything is removed, zeroed or made, and before an
 * end is called synced. Status: PS_E_POISONED. */
ps_status ps_sync_check_guard(ps_log *log, ps_error *error);
/* The error of a log that is poisoned already. */
ps_status ps_log_poisoned(ps_log *log, uint64_t offset, ps_error *error);
/* Remembers that write-back failed: nothing more is promised as synced. */
ps_status ps_log_poison(ps_log *log, int64_t result, uint64_t offset,
                        ps_error *error);

#endif
