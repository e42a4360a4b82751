/* Records the slow way: written and read byte by byte, as docs/format.md has
 * it, to hold the C core against. */
#ifndef SUPPORT_RECORDS_H
#define SUPPORT_RECORDS_H

#include "pystore.h"
#include "record.h"

/* Bitwise CRC-32 with bit 31 cleared. */
uint32_t slow_crc(const uint8_t *data, uint64_t size);

/* The message and the stamp of the published test vectors: topic `TopicA`,
 * body `hello!q!`, KEYS and TAGS, no property CRC. All memory is static. */
ps_message vector_message(void);
ps_stamp vector_stamp(void);

/* Writes the record of a message that needs no dropped properties; returns
 * its size. `version` 0: the one its topic asks for. */
uint32_t slow_encode(uint8_t *to, const ps_message *message,
                     const ps_stamp *stamp, uint32_t version);

/* Fills a message with random parts: hosts of both kinds, short and long
 * topics, empty parts. `memory` of 4096 bytes holds them. Bodies stay below
 * `body_max` bytes, at most 1024. */
ps_message random_message(uint8_t *memory, uint32_t body_max);

/* Reads what begins at data[0] when `rest` bytes remain in the segment, all
 * readable. Answers 0 and fills *record (but for topic and tags), or a
 * PS_STOP_*; 1000: a blank record. */
#define SLOW_BLANK 1000u
uint32_t slow_read(const uint8_t *data, uint64_t rest, uint64_t offset,
                   uint32_t checks, ps_record *record);

/* Scans a whole segment of `size` bytes as ps_scan_window does, but for topics
 * and tags; cursor->stop and error texts are not filled. */
int32_t slow_scan(const uint8_t *segment, uint64_t size, uint64_t base,
                  ps_cursor *cursor, ps_record *rows, uint32_t capacity,
                  uint32_t *count);

/* Writes a message in message form (pystore.h), without its keys and tags;
 * returns the size. */
uint32_t put_form(uint8_t *to, const ps_message *message);

/* Decodes hexadecimal text, blanks ignored; returns the size. */
uint32_t from_hex(uint8_t *to, const char *text);

#endif
