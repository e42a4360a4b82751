/* Appends and what their thread does next: in one crossing, or without waking
 * whom it spares the work. */
#include "log_state.h"
#include "waiters.h"
#include "waits_quiet.h"

ps_status ps_waits_append(ps_waits *waits, uint32_t mark, uint64_t timeout_ns,
                          ps_log *log, const uint8_t *messages, uint64_t size,
                          ps_appended *appended, uint32_t *outcome,
                          ps_error *error) {
  /* Looks only: a mark that is none refuses before anything is appended, and
   * who lets this thread go ahead learns that it came again. */
  ps_status status = ps_waits_wait(waits, mark, 0, 0, outcome, error);
  if (status == PS_OK)
    status = ps_log_append(log, messages, size, PS_ACK_SHARED, NULL, 0,
                           appended, error);
  if (status != PS_OK)
    return status;
  return ps_waits_wait(waits, mark, appended->end, timeout_ns, outcome, error);
}

ps_status ps_log_append_quietly(ps_log *log, const uint8_t *messages,
                                uint64_t size, ps_appended *appended,
                                ps_error *error) {
  /* Where another thread leads, it rings for all whom it serves, and aloud. */
  ps_waits_quiet(1);
  ps_status status = ps_log_append(log, messages, size, PS_ACK_SHARED, NULL, 0,
                                   appended, error);
  ps_waits_quiet(0);
  return status;
}
