/* The clock that stamps records: the wall clock, as far as boot time confirms
 * it (A21).
 *
 * The two differ by an offset that only a step of the wall clock changes: what
 * slews one slews the other. The writer takes the offset once in a boot, keeps
 * it in the live page, and gives out no time that lies further ahead than it
 * allows. A step back is always taken: store times do not fall with it.
 */
#include "clock.h"

/* A step forward up to this is taken: leap seconds, small corrections. */
#define STEP_MAX_MS 1000

static int64_t boottime_ms(const ps_env *env) {
  return env->boottime_ns(env->self) / 1000000;
}

/* Boot time is read first: a thread that stands still between the two readings
 * then allows too much, not too little, and no later time is held back. */
void ps_clock_accept(ps_log *log) {
  const ps_env *env = log->env;
  ps_clock *clock = &log->writer.clock;
  ps_live_page *page = log->shared;
  int64_t before = boottime_ms(env);
  clock->offset_ms = env->wall_ms(env->self) - before;
  clock->has_offset = 1;
  clock->until_ms = INT64_MIN;
  atomic_store(&page->clock_boot, 0);
  atomic_store(&page->clock_offset_ms, clock->offset_ms);
  atomic_store(&page->clock_boot, atomic_load(&page->boot_id[0]));
}

int64_t ps_clock_check(ps_log *log, int64_t wall_ms) {
  ps_writer *writer = &log->writer;
  ps_clock *clock = &writer->clock;
  if (!clock->has_offset) {
    /* A clock that is behind the newest record is wrong for sure: the step that
     * corrects it has to be taken. */
    if (wall_ms < writer->store_ms)
      return wall_ms;
    ps_clock_accept(log);
  }
  int64_t confirmed = clock->offset_ms + boottime_ms(log->env);
  clock->until_ms = confirmed + STEP_MAX_MS;
  return wall_ms <= clock->until_ms ? wall_ms : confirmed;
}

void ps_clock_start(ps_log *log) {
  ps_clock *clock = &log->writer.clock;
  ps_live_page *page = log->shared;
  uint64_t boot = atomic_load(&page->boot_id[0]);
  clock->until_ms = INT64_MIN;
  clock->has_offset = boot != 0 && atomic_load(&page->clock_boot) == boot;
  clock->offset_ms = atomic_load(&page->clock_offset_ms);
  (void)ps_clock_now(log);
}
