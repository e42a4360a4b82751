/* Topic names and the small numbers that stand for them. */
#ifndef PS_TOPICS_H
#define PS_TOPICS_H

#include "pystore.h"

/* Names are never forgotten and never move. */
typedef struct ps_topics ps_topics;

/* Ownership: the caller's until ps_topics_free. NULL: out of memory. */
ps_topics *ps_topics_new(void);

/* NULL is fine. Threads: [owner]. */
void ps_topics_free(ps_topics *topics);

/* Returns the id of a name, a new one for a new name; PS_NO_TOPIC: out of
 * memory. Ids count from 0. Threads: [any]; takes a mutex, so callers keep
 * the topic they saw last. */
uint32_t ps_topics_intern(ps_topics *topics, const uint8_t *name,
                          uint32_t size);

/* Fills *name and *size and returns 1, or returns 0: no such id.
 * Ownership: *name is valid until ps_topics_free. Threads: [any]. */
int32_t ps_topics_name(ps_topics *topics, uint32_t id, const uint8_t **name,
                       uint32_t *size);

#endif
