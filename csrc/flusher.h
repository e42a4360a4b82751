/* The flusher: the thread that writes back early, and syncs at an interval. */
#ifndef PS_FLUSHER_H
#define PS_FLUSHER_H

#include "log_state.h"

void ps_flusher_init(ps_flusher *flusher);

/* Starts the thread, if the options of the log give it any work. Status:
 * PS_E_IO and the like, as the system has it. */
ps_status ps_flusher_start(ps_log *log, ps_error *error);

/* Stops the thread, if it runs, and waits for it. */
void ps_flusher_stop(ps_log *log);

#endif
