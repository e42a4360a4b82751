/* Opening a log over an environment that is not the real one. */
#ifndef PS_OPEN_H
#define PS_OPEN_H

#include "log_state.h"

/* Opens over another environment; ps_log_open uses the real one. */
ps_status ps_log_open_env(const ps_env *env, const char *root,
                          const ps_options *options, ps_live *live,
                          ps_log **log, ps_error *error);

#endif
