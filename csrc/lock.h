/* The contract of pystore's C core, sixth part: one writer per store.
 *
 * The conventions are those of pystore.h, and this header is the cdef as well.
 */
#ifndef PS_LOCK_H
#define PS_LOCK_H

#include "pystore.h"

typedef struct ps_lock ps_lock;

/* Takes the store for writing: a lock of the open file description on byte 0 of
 * `path`, which conflicts with Java's record lock both ways (where the system
 * has none: such a record lock), and an entry in this process. A record lock on
 * byte 1 only names the process.
 * Effect: creates `path` with the text `lock` if it is missing.
 * Ownership: *lock is the caller's until ps_lock_release. Threads: [any].
 * Status: PS_E_LOCKED (text says by which pid), PS_E_IO, PS_E_MEMORY,
 * PS_E_NOT_STORE (no regular file, or one of several names). */
PS_API ps_status ps_lock_acquire(const char *path, ps_lock **lock,
                                 ps_error *error);

/* Does `path` still name the file that is locked, in the same directory?
 * Threads: [any], until the release. Status: PS_E_POISONED. */
PS_API ps_status ps_lock_check(const ps_lock *lock, ps_error *error);

/* Stores into *pid the process that holds that lock: 0 if none does, or no file
 * is there, -1 if its number is not known here. Takes no lock, so no process
 * that wants it is refused meanwhile.
 * Threads: [any]. Status: PS_E_IO. */
PS_API ps_status ps_lock_holder(const char *path, int64_t *pid,
                                ps_error *error);

/* Gives the store back and the handle up; NULL is fine. Threads: [owner].
 * A forked child has no part of the lock: there it gives nothing back. */
PS_API void ps_lock_release(ps_lock *lock);

/* Keeps the handle, not the lock, until one more ps_lock_drop: a log does.
 * Threads: [any]. */
PS_API void ps_lock_hold(ps_lock *lock);
PS_API void ps_lock_drop(ps_lock *lock);

/* Tells a log what it writes under, before it is started: at each sync, each
 * roll, each cut and each deletion it makes sure that `lock` passes
 * ps_lock_check and that the live page has its incarnation; else it is
 * poisoned. `temporary` is a directory of the segments' file system, for
 * segments before they have their name; NULL: <root>/meta/tmp.
 * Ownership: the log keeps the handle of `lock`, not the lock itself: release
 * it after the log is closed. Threads: [owner].
 * Status: PS_E_INVALID (started, not for writing, guarded, path too long). */
PS_API ps_status ps_log_guard(ps_log *log, ps_lock *lock, const char *temporary,
                              ps_error *error);

/* The same check at a moment of the caller's. Threads: [any].
 * Status: PS_E_POISONED. */
PS_API ps_status ps_log_check_guard(ps_log *log, ps_error *error);

#endif
