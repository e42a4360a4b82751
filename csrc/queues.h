/* The next queue offset of each (topic, queue id). */
#ifndef PS_QUEUES_H
#define PS_QUEUES_H

#include "pystore.h"
#include "topics.h"

/* Threads: [owner] for every call here: the log's append lock guards it. */
typedef struct ps_queues ps_queues;

/* `topics` is borrowed until ps_queues_free. NULL: out of memory. */
ps_queues *ps_queues_new(ps_topics *topics);

/* NULL is fine. */
void ps_queues_free(ps_queues *queues);

/* Forgets all queues; keeps the memory. */
void ps_queues_reset(ps_queues *queues);

/* Returns where the queue's next offset is kept, 0 for a new queue; NULL: out
 * of memory. The queue counts as changed. Ownership: the pointer is valid until
 * reset or free, through any number of calls for other queues. */
int64_t *ps_queues_next(ps_queues *queues, const uint8_t *topic,
                        uint32_t topic_size, int32_t queue_id);

/* Raises next offsets to those in queue form (pystore.h).
 * Status: PS_E_INVALID (nothing was changed), PS_E_MEMORY. */
ps_status ps_queues_load(ps_queues *queues, const uint8_t *data, uint64_t size,
                         ps_error *error);

/* Raises next offsets above those of scanned rows that have a topic id and
 * are no PREPARED or ROLLBACK records. A row with queue offset 0 begins its
 * queue anew: the topic was deleted and made again.
 * Status: PS_E_MEMORY, PS_E_INVALID (unknown topic id), PS_E_CORRUPT (a queue
 * offset no log reaches: below 0 or from 2^62 on). */
ps_status ps_queues_note(ps_queues *queues, const ps_record *rows,
                         uint32_t count, ps_error *error);

/* Fills the table in queue form, in order of first use.
 * *size is the size needed, also with PS_E_SPACE. */
ps_status ps_queues_fill(const ps_queues *queues, uint8_t *buffer,
                         uint64_t capacity, uint64_t *size, ps_error *error);

/* As fill, of the queues that changed since the last take; the latest comes
 * first. With PS_E_SPACE nothing was taken. */
ps_status ps_queues_take(ps_queues *queues, uint8_t *buffer, uint64_t capacity,
                         uint64_t *size, ps_error *error);

#endif
