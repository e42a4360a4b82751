/* The clock that stamps records: the wall clock, as far as boot time confirms
 * it (A21). The writer's. */
#ifndef PS_CLOCK_H
#define PS_CLOCK_H

#include "log_state.h"

/* Takes over the offset that an earlier writer of this boot has left. */
void ps_clock_start(ps_log *log);

/* From now on the wall clock counts as right, as it is. */
void ps_clock_accept(ps_log *log);

/* The time to stamp, where the wall clock says this. Reads boot time. */
int64_t ps_clock_check(ps_log *log, int64_t wall_ms);

/* The time to stamp. Boot time is read once in a second at most, unless the
 * wall clock is ahead. */
static inline int64_t ps_clock_now(ps_log *log) {
  int64_t wall_ms = log->env->wall_ms(log->env->self);
  if (wall_ms <= log->writer.clock.until_ms)
    return wall_ms;
  return ps_clock_check(log, wall_ms);
}

#endif
