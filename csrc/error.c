/* How the core reports a failure: one line into the caller's ps_error. */
#include "error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(ps_error *error, ps_status status, uint64_t offset,
                 const char *format, va_list arguments) {
  assert(status < 0);
  error->status = status;
  error->system_errno = 0;
  error->offset = offset;
  vsnprintf(error->text, sizeof error->text, format, arguments);
}

ps_status ps_fail(ps_error *error, ps_status status, uint64_t offset,
                  const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fill(error, status, offset, format, arguments);
  va_end(arguments);
  return status;
}

ps_status ps_fail_system(ps_error *error, int64_t result, uint64_t offset,
                         const char *format, ...) {
  assert(result < 0);
  int code = (int)-result;
  ps_status status = PS_E_IO;
  if (code == ENOSPC || code == EDQUOT)
    status = PS_E_FULL;
  if (code == ENOMEM)
    status = PS_E_MEMORY;
  va_list arguments;
  va_start(arguments, format);
  fill(error, status, offset, format, arguments);
  va_end(arguments);
  error->system_errno = code;
  size_t used = strlen(error->text);
  snprintf(error->text + used, sizeof error->text - used, ": %s",
           strerror(code));
  return status;
}
