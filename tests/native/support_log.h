/* A log over the file system in memory, and what must be in it.
 *
 * Every record that a test appends has an id; its body is made from the id
 * alone. So whatever a log holds can be compared with the list of what was
 * appended, in order, and with what each append was answered.
 */
#ifndef SUPPORT_LOG_H
#define SUPPORT_LOG_H

#include "open.h"
#include "support_memory.h"

enum { STORE_RECORDS = 4096, STORE_BODY_MIN = 8 };

#define STORE_ROOT "store"
#define STORE_LOG "store/commitlog/"

/* What an append was answered. */
typedef enum store_ack {
  ACK_NONE,   /* nothing: it may be there or not */
  ACK_LEADER, /* survives a kill */
  ACK_SYNCED  /* survives a power cut */
} store_ack;

typedef struct store_record {
  uint64_t id;
  uint64_t offset;
  uint64_t end;
  store_ack ack;
} store_record;

typedef struct store {
  memory *fs;
  ps_log *log;
  ps_live *live; /* NULL until store_go_live */
  char live_path[64];
  ps_options options;
  ps_error error;
  store_record records[STORE_RECORDS];
  uint32_t count;
  uint64_t next_id;
  uint64_t intent; /* a durable cut intent, or PS_NO_OFFSET */
  uint64_t generation;
} store;

/* A log that was opened and started empty in a new file system. */
store *store_new(uint64_t segment_size);

/* Closes, checks that nothing stays open, frees. Answers what is held. */
uint32_t store_free(store *s);

/* Frees the log of a process that has died. */
void store_bury(store *s);

/* Goes on with another file system, as it is after a crash. */
void store_crash(store *s, memory *successor);

/* Opens the log again, with a live page in a file of its own. */
ps_status store_go_live(store *s);

/* Opens a second handle, for reading; it sees the live page as another process
 * does. The caller frees both. */
ps_status store_open_reader(store *s, ps_log **log, ps_live **live);

/* Only opens, for writing. */
ps_status store_open(store *s);

/* Opens as pystore does without a clean mark: scans with every check from
 * `bound` (synced for sure), not beyond a cut intent, and starts there. A
 * record whose property CRC is lost is torn: all are appended with one. */
ps_status store_recover(store *s, uint64_t bound);

/* The highest record end that was acknowledged at least so. */
uint64_t store_acked(const store *s, store_ack ack);

/* Appends one record; notes its id, place and answer. */
ps_status store_append(store *s, uint32_t body_size, uint32_t ack);

/* Appends `count` records as columns. */
ps_status store_append_columns(store *s, uint32_t count, uint32_t body_size,
                               uint32_t ack);

ps_status store_sync(store *s);

/* All steps of a cut; between the first and the second the intent becomes
 * durable, and behind the last it is done. */
ps_status store_cut(store *s, uint64_t offset);

/* Compares what the log holds with the list: a beginning of it, in order,
 * that holds everything acknowledged so. Answers NULL or what is wrong. */
const char *store_verify(store *s, store_ack ack);

/* Is every byte above the end zero on disk? */
const char *store_verify_zero(store *s);

/* The ends; all zero if the log does not say. */
ps_ends store_ends(store *s);

/* Message form of one record, for calls that a test makes itself. */
uint64_t store_message(uint8_t *to, int32_t queue_id, uint64_t id,
                       uint32_t body_size);
enum { STORE_MESSAGE_EXTRA = 128 };

/* The body of an id, and whether a body is it. */
void store_body(uint8_t *to, uint64_t id, uint32_t size);

/* Rebuilds the next queue offsets from the records. */
ps_status store_count_queues(store *s);

/* For the functions above that answer NULL or what is wrong. */
#define CHECK_HOLDS(complaint)                                                 \
  do {                                                                         \
    const char *wrong = (complaint);                                           \
    CHECK_TEXT("", wrong == NULL ? "" : wrong);                                \
  } while (0)

/* A copy of a log's bytes, [from, to), through blocks. */
ps_status store_copy(ps_log *log, uint64_t from, uint64_t to, uint8_t *bytes,
                     ps_error *error);

#endif
