/* What a writer checks: that the store is still its own (A18). */
#include <stdio.h>

#include "error.h"
#include "sync.h"

ps_status ps_log_guard(ps_log *log, ps_lock *lock, const char *temporary,
                       ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  ps_segments *list = &log->segments;
  if (log->options.mode != PS_MODE_WRITE || atomic_load(&log->is_started) ||
      log->lock != NULL)
    status = ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                     "%s: not opened for writing, or started or guarded "
                     "already",
                     list->directory);
  else if (temporary != NULL && snprintf(list->temporary, PS_PATH_MAX - 32,
                                         "%s", temporary) >= PS_PATH_MAX - 32)
    status = ps_fail(error, PS_E_INVALID, PS_NO_OFFSET, "path too long");
  if (status == PS_OK) {
    ps_lock_hold(lock);
    log->lock = lock;
  }
  ps_log_leave(log);
  return status;
}

ps_status ps_log_check_guard(ps_log *log, ps_error *error) {
  ps_status status = ps_log_enter(log, error);
  if (status != PS_OK)
    return status;
  status = ps_log_check_open(log, error);
  if (status == PS_OK)
    status = ps_sync_check_guard(log, error);
  ps_log_leave(log);
  return status;
}
