/* Rings that wake nobody, for a while and in one thread. */
#ifndef PS_WAITS_QUIET_H
#define PS_WAITS_QUIET_H

#include <stdint.h>

/* From now on what this thread rings moves the mark alone: who comes to wait
 * sees it, who sleeps does not. 0: wakes again. */
void ps_waits_quiet(uint32_t is_quiet);

#endif
