/* The contract of pystore's C core: a RocketMQ-compatible commit log.
 *
 * This header is also the cffi cdef: only what cffi parses may stand here.
 *
 * Conventions
 *  1. Handles (ps_log, ps_lock, ps_live) are opaque. open/close own a handle,
 *     acquire/release borrow a counted block, fill/scan use caller memory.
 *  2. Every fallible call returns ps_status (PS_OK or a negative PS_E_*) and
 *     takes a caller-owned `ps_error *error` last. On failure outputs mean
 *     nothing unless a declaration says otherwise, and nothing was allocated
 *     for the caller.
 *  3. Offsets are byte offsets in the whole log, ends are exclusive, sizes are
 *     bytes, times end in _ms (since 1970) or _ns. Integers in files are
 *     big-endian; in these structs they are native.
 *  4. Pointers may not be NULL unless a declaration says so. Memory passed in
 *     is borrowed for the call only.
 *  5. Thread classes: [any] any thread at any time; [serial] any thread, the
 *     core serialises; [owner] no other call on the handle may be running.
 *  6. After close every call on a log answers PS_E_CLOSED, but that closing
 *     again is fine; in a forked child every call on a log answers
 *     PS_E_FORKED. The memory of a handle goes with its free call.
 *  7. The core never calls Python, never prints, never exits. Asserts guard
 *     its own mistakes, never the caller's arguments nor bytes on disk.
 *
 * Layouts: docs/format.md. Rules A1 to A19: docs/crash-safety.md.
 */
#ifndef PYSTORE_H
#define PYSTORE_H

#include <stdint.h>

#ifndef PS_API
#define PS_API __attribute__((visibility("default")))
#endif

/* ---- Errors ---------------------------------------------------------- */

typedef int32_t ps_status;

#define PS_OK 0
#define PS_E_INVALID -1    /* an argument no log could accept */
#define PS_E_IO -2         /* the system refused; system_errno says why */
#define PS_E_FULL -3       /* no space; nothing of the write is there */
#define PS_E_CORRUPT -4    /* promised bytes are bad, at error->offset */
#define PS_E_RANGE -5      /* offset below the minimum or not below the end */
#define PS_E_BUSY -6       /* a held block or an unfinished cut is in the way */
#define PS_E_FENCED -7     /* the write authority is gone */
#define PS_E_POISONED -8   /* a write-back failed earlier; reopen */
#define PS_E_CLOSED -9     /* the handle was closed, or is not started */
#define PS_E_FORKED -10    /* the handle belongs to the parent process */
#define PS_E_LOCKED -11    /* another writer holds the store */
#define PS_E_MEMORY -12    /* out of memory */
#define PS_E_CUT -13       /* the log was cut below what was read */
#define PS_E_NOT_STORE -14 /* missing, foreign names, gaps, wrong sizes */
#define PS_E_SPACE -15     /* the caller's buffer is too small */

/* No offset applies. */
#define PS_NO_OFFSET 0xFFFFFFFFFFFFFFFF

/* What went wrong, in the caller's memory. `text` is one line, ends with NUL,
 * names path and offset where they help. Undefined after PS_OK. */
typedef struct ps_error {
  ps_status status;
  int32_t system_errno; /* 0 when the system was not involved */
  uint64_t offset;      /* log offset, or PS_NO_OFFSET */
  char text[496];
} ps_error;

/* ---- Records --------------------------------------------------------- */

/* One record, as a scan row and as the result of a read. `*_at` are positions
 * from the record's first byte. Source: docs/format.md, message record. */
typedef struct ps_record {
  uint64_t offset; /* where it is; equals the embedded one if checked */
  int64_t queue_offset;
  int64_t store_ms;
  int64_t born_ms;
  int64_t tags_code; /* 0 unless PS_WANT_TAGS */
  int64_t prepared_offset;
  uint32_t size;
  int32_t queue_id;
  int32_t flag;
  uint32_t sys_flag;
  int32_t reconsume_times;
  uint32_t body_crc; /* as stored, 31 bits */
  uint32_t body_at;
  uint32_t body_size;
  uint32_t topic_at;
  uint32_t topic_id; /* ps_log_topic names it; PS_NO_TOPIC if not wanted */
  uint32_t properties_at;
  uint16_t topic_size;
  uint16_t properties_size; /* with the CRC property, if there is one */
  uint16_t version;         /* 1 or 2: the size of the topic length */
  uint16_t proof;           /* PS_PROOF_*, PS_HAS_PROPERTY */
  uint32_t reserved;
} ps_record;

#define PS_NO_TOPIC 0xFFFFFFFF

#define PS_PROOF_BODY 1     /* the body CRC was checked and holds */
#define PS_PROOF_PROPERTY 2 /* a property CRC is there, checked, holds */
#define PS_HAS_PROPERTY 4   /* a property CRC is there */
#define PS_PROOF_DIFFERS 8  /* it differs, and the body CRC holds */

/* What a scan checks beyond the structure, and fills: bits of `checks`. */
#define PS_CHECK_BODY 1     /* body CRC */
#define PS_CHECK_PROPERTY 2 /* property CRC, wherever there is one */
#define PS_CHECK_OFFSET 4   /* embedded offset equals the real one */
#define PS_CHECK_FIELDS 8   /* retired: checks nothing */
#define PS_WANT_TAGS 16     /* fill tags_code */
#define PS_WANT_TOPIC 32    /* fill topic_id */
#define PS_NEED_PROPERTY 64 /* a record without property CRC is bad */
#define PS_CHECK_ONCE 128   /* no body CRC where a property CRC is checked */
#define PS_PASS_COPIED 256  /* a property CRC that differs is no stop (A6) */

/* Why a scan came back (`stop`); from PS_STOP_SIZE on: the bad record's. */
#define PS_STOP_ROWS 1        /* the rows are full; call again */
#define PS_STOP_LIMIT 2       /* the limit was reached */
#define PS_STOP_ZERO 3        /* zero bytes: nothing was written here */
#define PS_STOP_LAST 4        /* past the last segment */
#define PS_STOP_SIZE 5        /* size below a record's least or past segment */
#define PS_STOP_MAGIC 6       /* neither V1, V2 nor blank */
#define PS_STOP_LENGTHS 7     /* inner lengths do not add up to the size */
#define PS_STOP_BODY 8        /* body CRC differs */
#define PS_STOP_PROPERTY 9    /* property CRC differs or is missing */
#define PS_STOP_OFFSET 10     /* the record claims another offset */
#define PS_STOP_FIELDS 11     /* retired: no scan answers it */
#define PS_STOP_STALE 12      /* retired: no scan answers it */
#define PS_STOP_UNREADABLE 13 /* the file ends early or reading failed */
#define PS_STOP_BLANK 14      /* a blank record of a wrong size */

/* A scan's position and findings, in the caller's memory. */
typedef struct ps_cursor {
  uint64_t offset; /* in: a record start; out: where to go on, or the bad one */
  uint64_t limit;  /* in: stop at the first record not wholly below it */
  uint64_t record_start; /* in/out: last whole record; PS_NO_OFFSET: none */
  uint64_t record_end;   /* in/out: its end */
  int64_t record_ms;     /* in/out: its store time */
  uint64_t records;      /* in/out: counts whole records */
  uint64_t unproved;     /* in/out: counts those that no property CRC proves */
  uint64_t differs;      /* in/out: counts those whose property CRC differs */
  uint64_t blanks;       /* in/out: counts blank records */
  uint64_t seen;         /* in/out: 0 at first; 1 + the cut generation */
  uint32_t checks;       /* in: PS_CHECK_*, PS_WANT_*, PS_NEED_* */
  uint32_t stop;         /* out: PS_STOP_* */
} ps_cursor;

/* Checks the record that starts at data[0] and is placed at `offset`.
 * Effect: fills *record; `checks` as in a scan, topic_id stays PS_NO_TOPIC.
 * Ownership: all memory stays the caller's. Threads: [any].
 * Status: PS_E_CORRUPT (error->system_errno holds the PS_STOP_* reason). */
PS_API ps_status ps_record_check(const uint8_t *data, uint64_t size,
                                 uint64_t offset, uint32_t checks,
                                 ps_record *record, ps_error *error);

/* Finds a property in each of `count` scanned records, all of which lie in the
 * `size` bytes that `data` holds of a log from `offset` on.
 * Effect: at[i] is the position of the value in data, sizes[i] its size, as
 * RocketMQ's parser finds it; 0, and some position in the record, without one.
 * Threads: [any]. Status: PS_E_INVALID (a row that is not of these bytes). */
PS_API ps_status ps_records_property(const uint8_t *data, uint64_t size,
                                     uint64_t offset, const ps_record *rows,
                                     uint32_t count, const char *name,
                                     uint64_t *at, uint32_t *sizes,
                                     ps_error *error);

/* Copies records for another log, where record i goes to offset to[i]: checks
 * each one (body, property CRC, offset), stamps its new offset, and computes
 * its property CRC anew if it has one.
 * Effect: the records at from[i], which lie in the `size` bytes that `data`
 * holds of a log from `offset` on, fill `buffer` back to back; rows[i] is the
 * copy's, tags code included.
 * Threads: [any]. Status: PS_E_CORRUPT, PS_E_INVALID (not within these bytes),
 * PS_E_SPACE (the buffer is full). */
PS_API ps_status ps_records_move(const uint8_t *data, uint64_t size,
                                 uint64_t offset, const uint64_t *from,
                                 const uint64_t *to, uint32_t count,
                                 uint8_t *buffer, uint64_t capacity,
                                 ps_record *rows, ps_error *error);

/* ---- What is appended ------------------------------------------------ */

/* Message form: how Python hands over messages, any number back to back.
 * Integers big-endian, from the first byte of each message:
 *   0  u32 size of this message form
 *   4  i32 queue id
 *   8  u32 sys flag (the host bits are set from the hosts' sizes)
 *  12  i32 reconsume times
 *  16  i64 born time in ms; 0 = the time of the append
 *  24  i64 prepared transaction offset
 *  32  20 bytes: born host: 4 or 16 address bytes, i32 port, zero filled
 *  52  u16 size of the born host: 8 or 20; 0 = the store host
 *  54  u16 topic size
 *  56  topic, then one entry of RocketMQ's client batch form:
 *      i32 size, i32 magic (ignored), i32 body CRC (ignored), i32 flag,
 *      i32 body size, body, i16 properties size, properties */
#define PS_MESSAGE_HEAD 56

/* Columns: `count` messages of one topic, straight from Arrow or numpy.
 * A column of strings is data plus count+1 offsets of `offset_size` bytes
 * (4 or 8, native). Columns that may be NULL are said to be. */
typedef struct ps_columns {
  uint64_t count;
  const uint8_t *topic;
  const uint8_t *body_data;
  const void *body_offsets;
  const uint8_t *keys_data; /* NULL: no KEYS property */
  const void *keys_offsets;
  const uint8_t *tags_data; /* NULL: no TAGS property */
  const void *tags_offsets;
  const uint8_t *properties_data; /* raw properties; NULL: none */
  const void *properties_offsets;
  const int32_t *queue_ids; /* NULL: queue_id for all */
  const int64_t *born_ms;   /* NULL: the time of the append */
  const int32_t *flags;     /* NULL: 0 */
  uint32_t topic_size;
  int32_t queue_id;
  uint32_t offset_size; /* 4 or 8, for all string columns */
  uint32_t sys_flag;
} ps_columns;

/* The route of a client batch: what its entries share. */
typedef struct ps_route {
  const uint8_t *topic;
  int64_t born_ms; /* 0 = the time of the append */
  uint32_t topic_size;
  int32_t queue_id;
  uint32_t sys_flag;
  int32_t reconsume_times;
  uint8_t born_host[20];
  uint32_t born_host_size; /* 8, 20, or 0 = the store host */
} ps_route;

/* Where one record went. */
typedef struct ps_position {
  uint64_t offset;
  int64_t queue_offset;
} ps_position;

/* What an append did. */
typedef struct ps_appended {
  uint64_t offset; /* of the first record */
  uint64_t end;    /* of the last record */
  int64_t queue_offset;
  int64_t store_ms;
  uint64_t count;
} ps_appended;

#define PS_ACK_LEADER 0 /* in the page cache: survives SIGKILL */
#define PS_ACK_SYNCED 1 /* on disk: survives a power cut */
#define PS_ACK_SHARED 2 /* as leader; others decide, so no deadline ends it */

/* ---- meta/live ------------------------------------------------------- */

typedef struct ps_live ps_live;

/* The words of the live page (A4). */
typedef struct ps_live_words {
  uint64_t format;
  uint64_t incarnation; /* counter */
  uint8_t boot_id[16];  /* all zero: no writer has begun */
  uint64_t mount_id;
  uint64_t published_end;
  uint64_t synced_end;
  uint64_t confirm_offset;
  uint64_t min_offset;
  uint64_t cut_generation;
  uint64_t cut_offset; /* of the newest cut */
} ps_live_words;

/* Writes a new live page of zero words, allocated and synced.
 * Threads: [any]. Status: PS_E_IO, PS_E_FULL. */
PS_API ps_status ps_live_create(const char *path, ps_error *error);

/* Maps the live page; `writable` 1 for the writer, 0 for readers.
 * Ownership: *live is the caller's until ps_live_close. Threads: [any].
 * Status: PS_E_IO, PS_E_NOT_STORE (none, size, magic), PS_E_MEMORY. */
PS_API ps_status ps_live_open(const char *path, int32_t writable,
                              ps_live **live, ps_error *error);

/* Takes back that a page opened for writing is the next writer's, if it has not
 * begun: a refused opening changes nothing. Threads: [any]. */
PS_API void ps_live_unclaim(ps_live *live);

/* Gives it up; NULL is fine. It stays mapped while a log uses it.
 * Threads: [owner]. */
PS_API void ps_live_close(ps_live *live);

/* Reads every word, each one whole. Threads: [any]. */
PS_API void ps_live_read(ps_live *live, ps_live_words *words);

/* Announces a writer: all words first, the boot id last. Threads: [owner].
 * Status: PS_E_IO (msync), PS_E_INVALID (opened for reading). */
PS_API ps_status ps_live_begin(ps_live *live, const ps_live_words *words,
                               ps_error *error);

/* ---- The log: open, start, close ------------------------------------- */

typedef struct ps_log ps_log;

#define PS_MODE_READ 0
#define PS_MODE_WRITE 1

typedef struct ps_options {
  uint64_t segment_size; /* 0: that of the files, else 1 GiB */
  uint32_t mode;         /* PS_MODE_* */
  uint32_t property_crc; /* 1: append the property CRC */
  uint32_t message_size_max;
  uint32_t flush_interval_ms; /* 0: sync only when asked */
  uint32_t writeback_bytes;   /* early write-back each so many; 0: none */
  uint32_t wake_one_by_one;   /* 1: callers share a lock: commit_queue.h */
  uint32_t store_host_size;   /* 8 or 20 */
  uint8_t store_host[20];     /* address, then port, big-endian */
} ps_options;

/* Opens the segments of <root>/commitlog; nothing is scanned or changed.
 * Reading follows a live page: the end is its published end; without one the
 * end is that of the last segment until ps_log_limit says better. Writing
 * needs ps_log_start before any append; until then scans see whole segments.
 * Ownership: *log is the caller's until ps_log_free and keeps `live`, which may
 * be NULL, mapped. Threads: [any].
 * Status: PS_E_NOT_STORE (missing, wrong size, foreign name, gap with bytes
 * behind it: the text says which), PS_E_INVALID, PS_E_IO, PS_E_MEMORY. */
PS_API ps_status ps_log_open(const char *root, const ps_options *options,
                             ps_live *live, ps_log **log, ps_error *error);

/* How opening for writing ends (A2, A12). */
typedef struct ps_start {
  uint64_t end;        /* in: a record end, or a segment base */
  uint64_t synced_end; /* in: durable for sure; <= end */
  uint64_t confirm_offset;
  uint64_t last_offset;      /* in: last record, or PS_NO_OFFSET: unknown */
  int64_t store_ms;          /* in: newest store time; new ones never below */
  uint32_t clean;            /* in: 1: all synced, nothing above the end */
  uint32_t segments_removed; /* out */
  uint64_t bytes_zeroed;     /* out: length of the range made zero */
  uint64_t bytes_rewritten;  /* out: unsynced range written again, A12 */
} ps_start;

/* Makes the log ready for appends at start->end: removes stranded segments (see
 * ps_log_stranded) and later ones, newest first, zeroes above the end, rewrites
 * [synced_end, end), syncs, publishes. The caller has checked every record of
 * [synced_end, end). The outputs of *start count on failure, too: what was
 * done. Threads: [owner]. Status: PS_E_IO, PS_E_FULL (log stays readable),
 * PS_E_POISONED, PS_E_INVALID (started, not for writing, end not in the log),
 * PS_E_NOT_STORE (a stranded segment got bytes meanwhile). */
PS_API ps_status ps_log_start(ps_log *log, ps_start *start, ps_error *error);

/* Sets a reader's end where no live page binds (A4). Threads: [any].
 * Status: PS_E_INVALID (opened for writing), PS_E_RANGE. */
PS_API ps_status ps_log_limit(ps_log *log, uint64_t end, ps_error *error);

/* Zeroes what a failed append left above the end, syncs if it can, stops the
 * threads, closes; again is fine. Held blocks stay valid until released.
 * Threads: [any]; running calls finish first, cuts of other threads included.
 * Status: PS_E_IO (also: a cut did not finish), PS_E_POISONED: closed all the
 * same. */
PS_API ps_status ps_log_close(ps_log *log, ps_error *error);

/* Closes if needed and frees; NULL is fine. What held blocks need of it stays
 * until they are released, in any order. Threads: [owner]. */
PS_API void ps_log_free(ps_log *log);

/* Tells the core that this process is a forked child. Threads: [owner]. */
PS_API void ps_forked(void);

/* ---- The log: append ------------------------------------------------- */

/* Appends messages in message form, all or none, in one segment.
 * Effect: fills *appended and, if not NULL, positions[0..capacity).
 * Threads: [serial]; concurrent calls are written and synced together, and
 * wait while a cut runs.
 * Status: PS_E_INVALID (sizes; text says which message), PS_E_FULL,
 * PS_E_FENCED, PS_E_POISONED, PS_E_BUSY (a cut did not finish, or what a failed
 * append wrote could not be removed: reopen),
 * PS_E_CORRUPT (the segment's rest is too small to end it), PS_E_IO,
 * PS_E_MEMORY. Nothing of a failed append is there, but for two: PS_E_FENCED,
 * where the authority ran out while it was written, and PS_E_POISONED with
 * PS_ACK_SYNCED: it is written, not proven durable. */
PS_API ps_status ps_log_append(ps_log *log, const uint8_t *messages,
                               uint64_t size, uint32_t ack,
                               ps_position *positions, uint64_t capacity,
                               ps_appended *appended, ps_error *error);

/* Appends columns in order; they may span segments. On failure *appended says
 * how many records are in (count), all that were published before.
 * Threads, status: as ps_log_append. */
PS_API ps_status ps_log_append_columns(ps_log *log, const ps_columns *columns,
                                       uint32_t ack, ps_position *positions,
                                       uint64_t capacity, ps_appended *appended,
                                       ps_error *error);

/* Appends RocketMQ's client batch form under one route, all or none.
 * Threads, status: as ps_log_append. */
PS_API ps_status ps_log_append_client_batch(
    ps_log *log, const ps_route *route, const uint8_t *batch, uint64_t size,
    uint32_t ack, ps_position *positions, uint64_t capacity,
    ps_appended *appended, ps_error *error);

/* Appends bytes of another log as they are, at `offset`, which must be the
 * received end (what a slave does). Every record that gets whole is checked;
 * the published end moves by whole records only (A1), and the queue table
 * counts them. What was whole before a failure stays.
 * Effect: *received is the new received end. Threads: [serial].
 * Status: as ps_log_append; PS_E_RANGE (wrong offset), PS_E_CORRUPT. */
PS_API ps_status ps_log_append_raw(ps_log *log, uint64_t offset,
                                   const uint8_t *data, uint64_t size,
                                   uint64_t *received, ps_error *error);

/* Ends the active segment with a blank record and begins the next one; an empty
 * one stays as it is. Threads: [serial]. Status: as ps_log_append. */
PS_API ps_status ps_log_roll(ps_log *log, ps_error *error);

/* Waits until everything below `end` is on disk; PS_NO_OFFSET: all that is
 * published now.
 * Threads: [any]; one leader syncs for all threads that wait. Status:
 * PS_E_POISONED (also: a segment being written was removed), PS_E_RANGE. */
PS_API ps_status ps_log_sync(ps_log *log, uint64_t end, ps_error *error);

/* Grants the right to write as `epoch` until either clock passes: boot time in
 * ns, wall time in ms. PS_NO_OFFSET: without end (the default); 0: none, and
 * only that ends PS_ACK_SHARED, too.
 * Threads: [serial]. Status: PS_E_FENCED (epoch below the one granted). */
PS_API ps_status ps_log_authority(ps_log *log, uint64_t epoch,
                                  uint64_t boottime_ns, uint64_t wall_ms,
                                  ps_error *error);

/* Moves the confirm offset, never back. Threads: [serial].
 * Status: PS_E_RANGE (above the published end). */
PS_API ps_status ps_log_confirm(ps_log *log, uint64_t offset, ps_error *error);

/* ---- The log: read --------------------------------------------------- */

typedef struct ps_ends {
  uint64_t min_offset;
  uint64_t published_end;
  uint64_t received_end;
  uint64_t synced_end;
  uint64_t confirm_offset;
  uint64_t cut_generation;
  uint64_t segment_size;
  uint64_t last_offset; /* last published record, or PS_NO_OFFSET: unknown */
  uint32_t segments;
  uint32_t poisoned;
} ps_ends;

/* Threads: [any]. Status: PS_E_CLOSED, PS_E_FORKED. */
PS_API ps_status ps_log_ends(ps_log *log, ps_ends *ends, ps_error *error);

/* Fills base offsets of the segments, oldest first; *count is how many there
 * are, also when capacity is smaller. Threads: [any]. */
PS_API ps_status ps_log_segments(ps_log *log, uint64_t *bases,
                                 uint32_t capacity, uint32_t *count,
                                 ps_error *error);

/* The same for those that the opening found behind a missing one, all zero;
 * starting removes them. */
PS_API ps_status ps_log_stranded(ps_log *log, uint64_t *bases,
                                 uint32_t capacity, uint32_t *count,
                                 ps_error *error);

/* Scans records from cursor->offset; rows may be NULL (findings only).
 * Effect: fills rows[0..*count) and the cursor. A bad record is not a failure
 * of the call: cursor->stop says it, error->text describes it.
 * Threads: [any]. Status: PS_E_RANGE, PS_E_IO, PS_E_CUT (the log was cut below
 * what was read since the cursor began; the rows are void). */
PS_API ps_status ps_log_scan(ps_log *log, ps_cursor *cursor, ps_record *rows,
                             uint32_t capacity, uint32_t *count,
                             ps_error *error);

/* Finds the first record or blank record at or above `offset`, wholly below
 * `limit` and within the segment of `offset`, that proves where it is: by its
 * magic, lengths and embedded offset. Checksums are not checked, and bytes
 * that cannot be read are passed over. Effect: *found is its offset, or
 * PS_NO_OFFSET. Threads: [any]. Status: PS_E_RANGE. */
PS_API ps_status ps_log_resync(ps_log *log, uint64_t offset, uint64_t limit,
                               uint64_t *found, ps_error *error);

/* Maps [offset, offset + size), as far as it is in one segment, so that a scan
 * that comes there need not: a hint for a thread that runs ahead of it.
 * Effect: *size becomes what was mapped. Threads: [any].
 * Status: PS_E_RANGE, PS_E_CORRUPT, PS_E_IO. */
PS_API ps_status ps_log_populate(ps_log *log, uint64_t offset, uint64_t *size,
                                 ps_error *error);

/* Copies the record at `offset` and checks the copy: structure, embedded offset
 * and `checks`, as in a scan.
 * Effect: *size is the record's size, also with PS_E_SPACE.
 * Threads: [any]. Status: PS_E_RANGE, PS_E_SPACE, PS_E_CORRUPT (also: no record
 * begins there), PS_E_CUT. */
PS_API ps_status ps_log_read(ps_log *log, uint64_t offset, uint32_t checks,
                             uint8_t *buffer, uint32_t capacity, uint32_t *size,
                             ps_record *record, ps_error *error);

/* The same of the record that an entry of a consume queue names: the 20 bytes
 * at `at` of `file`, which is open for reading. One crossing for both.
 * Threads: [any]. Status: PS_E_RANGE also where no entry is: what is there, and
 * why, the queue itself tells. */
PS_API ps_status ps_log_read_entry(ps_log *log, int32_t file, uint64_t at,
                                   uint32_t checks, uint8_t *buffer,
                                   uint32_t capacity, uint32_t *size,
                                   ps_record *record, ps_error *error);

/* A borrowed range of one segment, readable until released. */
typedef struct ps_block {
  const uint8_t *data;
  uint64_t offset;
  uint64_t size;
  void *segment; /* the core's */
} ps_block;

/* Borrows up to size_max bytes from `offset`, within one segment and below the
 * published end; the pages are populated before this returns.
 * Ownership: the block is the caller's until released, and its bytes stay what
 * they are, also when the log is cut below its end (B14). Threads: [any].
 * Status: PS_E_RANGE, PS_E_CORRUPT (the file is shorter), PS_E_CUT. */
PS_API ps_status ps_block_acquire(ps_log *log, uint64_t offset,
                                  uint64_t size_max, ps_block *block,
                                  ps_error *error);

/* Gives the range back; its data must not be touched again. Threads: [any].
 * The log may be closed or freed by then. */
PS_API void ps_block_release(ps_block *block);

/* Answers PS_E_CUT if the log was cut below `end` since `generation`.
 * Threads: [any]. */
PS_API ps_status ps_log_unchanged(ps_log *log, uint64_t generation,
                                  uint64_t end, ps_error *error);

/* ---- The log: topics and queues -------------------------------------- */

/* Copies a topic's name; *size is its size, also with PS_E_SPACE.
 * Threads: [any]. Status: PS_E_RANGE (no such id), PS_E_SPACE. */
PS_API ps_status ps_log_topic(ps_log *log, uint32_t topic_id, uint8_t *buffer,
                              uint32_t capacity, uint32_t *size,
                              ps_error *error);

/* Raises next queue offsets to those in queue form: u16 topic size, topic, i32
 * queue id, i64 next queue offset, big-endian, back to back.
 * Threads: [serial]. Status: PS_E_INVALID, PS_E_MEMORY. */
PS_API ps_status ps_log_queues_load(ps_log *log, const uint8_t *queues,
                                    uint64_t size, ps_error *error);

/* Raises next queue offsets above those of scanned rows, but for PREPARED and
 * ROLLBACK; a row with queue offset 0 begins anew. Threads: [serial]. */
PS_API ps_status ps_log_queues_note(ps_log *log, const ps_record *rows,
                                    uint32_t count, ps_error *error);

/* Forgets all queues (before a rebuild after a cut). Threads: [serial]. */
PS_API ps_status ps_log_queues_reset(ps_log *log, ps_error *error);

/* Fills the table in queue form, or with `changed` what changed since the last
 * such call, and the published end it belongs to. *size is the size needed,
 * *end the end, also with PS_E_SPACE. Threads: [serial]. */
PS_API ps_status ps_log_queues_fill(ps_log *log, int32_t changed,
                                    uint8_t *buffer, uint64_t capacity,
                                    uint64_t *size, uint64_t *end,
                                    ps_error *error);

/* ---- The log: cut and delete ----------------------------------------- */

typedef struct ps_cut_report {
  uint64_t bytes_cut;
  uint32_t segments_removed;
  uint32_t reserved;
} ps_cut_report;

/* A cut in four steps (A3), so that the caller can make the intent durable
 * between the first and the second. Threads: [serial], all steps and what is
 * between them by one thread; closing by that thread ends the cut as not done.
 * begin:   holds back appends and syncs, checks that `offset` is a record end,
 *          a segment base or 0 (all goes); waits up to 1 s for held blocks. */
PS_API ps_status ps_log_cut_begin(ps_log *log, uint64_t offset,
                                  ps_error *error);
/* publish: meta/live: cut offset, generation, both ends; msync. */
PS_API ps_status ps_log_cut_publish(ps_log *log, uint64_t generation,
                                    ps_error *error);
/* apply:   removes later segments newest first, syncs the directory, zeroes,
 *          syncs. On failure the log takes no appends until it is reopened;
 *          PS_E_POISONED: nothing below the cut was proven durable either. */
PS_API ps_status ps_log_cut_apply(ps_log *log, ps_cut_report *report,
                                  ps_error *error);
/* end:     with is_done 1 appends go on: it was applied, the queue table, which
 *          apply resets, is rebuilt, and the intent is durably done. With 0 a
 *          cut that was only begun is forgotten; one that was published leaves
 *          a log that takes no appends until it is opened again (PS_E_BUSY). */
PS_API ps_status ps_log_cut_end(ps_log *log, uint32_t is_done, ps_error *error);

/* Deletes whole segments that end at or below `offset`, never the active one.
 * Held blocks stay readable. Effect: *removed counts them, also on failure.
 * Threads: [serial]. Status: PS_E_IO. */
PS_API ps_status ps_log_delete_before(ps_log *log, uint64_t offset,
                                      uint32_t *removed, ps_error *error);

/* Lets a log that ends at 0 begin, and end, at the segment base `base`: the log
 * of a slave whose master has deleted segments. Threads: [serial].
 * Status: as ps_log_append; PS_E_INVALID: not empty, or no segment base. */
PS_API ps_status ps_log_begin_at(ps_log *log, uint64_t base, ps_error *error);

#endif
