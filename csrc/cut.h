/* What closing needs of a cut. */
#ifndef PS_CUT_H
#define PS_CUT_H

#include "log_state.h"

/* Gives up a cut that this very thread has begun, if there is one. */
void ps_log_abandon_cut(ps_log *log);

#endif
