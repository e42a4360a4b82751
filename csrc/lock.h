/* The contract of pystore's C core, sixth part: one writer per store.
 *
 * The conventions are those of pystore.h, and this header is the cdef as well.
 */
#ifndef PS_LOCK_H
#define PS_LOCK_H

#include "pystore.h"

typedef struct ps_lock ps_lock;

/* Takes the store for writing: a POSIX record lock on byte 0 of `path`, as
 * Java takes it, and an entry (device, inode) in this process.
 * Effect: creates `path` with the text `lock` if it is missing.
 * Ownership: *lock is the caller's until ps_lock_release. Threads: [any].
 * Status: PS_E_LOCKED (text says by which pid), PS_E_IO, PS_E_MEMORY. */
PS_API ps_status ps_lock_acquire(const char *path, ps_lock **lock,
                                 ps_error *error);

/* Stores into *pid the process that holds that lock: 0 if none does, or no file
 * is there, -1 if its number is not known here. Takes no lock, so no process
 * that wants it is refused meanwhile.
 * Threads: [any]. Status: PS_E_IO. */
PS_API ps_status ps_lock_holder(const char *path, int64_t *pid,
                                ps_error *error);

/* Gives the store back and frees the handle; NULL is fine. Threads: [owner].
 * In a forked child the descriptor is closed, which gives nothing back. */
PS_API void ps_lock_release(ps_lock *lock);

#endif
