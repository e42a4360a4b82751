/* How the core reports a failure: one line into the caller's ps_error. */
#ifndef PS_ERROR_H
#define PS_ERROR_H

#include "pystore.h"

/* Fills *error and returns `status`, so that a failure is one statement. */
ps_status ps_fail(ps_error *error, ps_status status, uint64_t offset,
                  const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: `result` is its negative errno, whose
 * text is appended. No space becomes PS_E_FULL, anything else PS_E_IO. */
ps_status ps_fail_system(ps_error *error, int64_t result, uint64_t offset,
                         const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
