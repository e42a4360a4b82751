/* Scanned rows as lines of JSON. */
#include "json_lines.h"

#include <assert.h>

#include "columns_put.h"
#include "properties.h"
#include "put_text.h"
#include "text.h"

#define BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))
#define ENTRIES_MAX 64
#define ESCAPED_MAX 6 /* bytes of one escaped byte: \u0001 */
/* Names, numbers, hosts, ids, and quotes and commas of the properties. */
#define FIXED_MAX 1024
#define ENTRY_EXTRA 6 /* `"": "", ` beyond the separators */

#define PUT(to, literal) put_bytes(to, literal, sizeof literal - 1)

typedef struct entry {
  const uint8_t *name;
  const uint8_t *value;
  uint32_t name_size;
  uint32_t value_size;
} entry;

/* The entries of a property string; a name is there once, with its last value,
 * where it came first. */
typedef struct entries {
  entry at[ENTRIES_MAX];
  uint32_t count;
} entries;

static inline uint8_t *put_bytes(uint8_t *to, const char *from, size_t size) {
  memcpy(to, from, size);
  return to + size;
}

static uint8_t *put_signed(uint8_t *to, int64_t value) {
  uint64_t size = (uint64_t)value;
  if (value < 0) {
    *to++ = '-';
    size = 0 - size;
  }
  return ps_put_decimal(to, size);
}

static uint8_t *put_escaped(uint8_t *to, uint8_t byte) {
  static const char names[] = "btn\0fr"; /* of 8 to 13 */
  *to++ = '\\';
  if (byte == '"' || byte == '\\') {
    *to++ = byte;
  } else if (byte >= 8 && byte <= 13 && names[byte - 8]) {
    *to++ = (uint8_t)names[byte - 8];
  } else {
    to = PUT(to, "u00");
    *to++ = (uint8_t) "0123456789abcdef"[byte >> 4];
    *to++ = (uint8_t) "0123456789abcdef"[byte & 15];
  }
  return to;
}

/* Not 0 if one of eight bytes has to be escaped. */
static inline uint64_t has_escape(uint64_t word) {
  uint64_t quote = word ^ BYTES('"');
  uint64_t slash = word ^ BYTES('\\');
  uint64_t low = (word - BYTES(0x20)) & ~word;
  quote = (quote - BYTES(1)) & ~quote;
  slash = (slash - BYTES(1)) & ~slash;
  return (low | quote | slash) & BYTES(0x80);
}

/* Writes UTF-8 as a JSON string. */
static uint8_t *put_string(uint8_t *to, const uint8_t *text, uint32_t size) {
  *to++ = '"';
  uint32_t at = 0;
  while (at < size) {
    if (size - at >= 8) {
      uint64_t word;
      memcpy(&word, text + at, sizeof word);
      if (!has_escape(word)) {
        memcpy(to, &word, sizeof word);
        to += sizeof word;
        at += sizeof word;
        continue;
      }
    }
    uint32_t end = size - at < 8 ? size : at + 8;
    for (; at < end; at++) {
      uint8_t byte = text[at];
      if (byte < 0x20 || byte == '"' || byte == '\\')
        to = put_escaped(to, byte);
      else
        *to++ = byte;
    }
  }
  *to++ = '"';
  return to;
}

static uint8_t *put_base64(uint8_t *to, const uint8_t *bytes, uint32_t size) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  *to++ = '"';
  uint32_t at = 0;
  for (; at < size; at += 3) {
    uint32_t left = size - at;
    uint32_t three = (uint32_t)bytes[at] << 16;
    if (left > 1)
      three |= (uint32_t)bytes[at + 1] << 8;
    if (left > 2)
      three |= bytes[at + 2];
    *to++ = (uint8_t)digits[three >> 18];
    *to++ = (uint8_t)digits[three >> 12 & 63];
    *to++ = left > 1 ? (uint8_t)digits[three >> 6 & 63] : '=';
    *to++ = left > 2 ? (uint8_t)digits[three & 63] : '=';
  }
  *to++ = '"';
  return to;
}

/* ---- Properties ------------------------------------------------------- */

static entry *find(entries *of, const uint8_t *name, uint32_t size) {
  for (uint32_t i = 0; i < of->count; i++)
    if (of->at[i].name_size == size && memcmp(of->at[i].name, name, size) == 0)
      return &of->at[i];
  return NULL;
}

static const entry *find_text(entries *of, const char *name) {
  return find(of, (const uint8_t *)name, (uint32_t)strlen(name));
}

/* Reads the entries as RocketMQ does; 0 if there are too many. */
static int32_t read_entries(const uint8_t *from, uint32_t size, entries *to) {
  const uint8_t *end = from + size;
  to->count = 0;
  while (from < end) {
    const uint8_t *stop = memchr(from, PS_ENTRY_END, (size_t)(end - from));
    if (!stop)
      stop = end;
    const uint8_t *split = memchr(from, PS_NAME_END, (size_t)(stop - from));
    if (split && split > from && stop - split > 1) {
      entry made = {from, split + 1, (uint32_t)(split - from),
                    (uint32_t)(stop - split - 1)};
      entry *earlier = find(to, made.name, made.name_size);
      if (earlier) {
        earlier->value = made.value;
        earlier->value_size = made.value_size;
      } else if (to->count == ENTRIES_MAX) {
        return 0;
      } else {
        to->at[to->count++] = made;
      }
    }
    from = stop + 1;
  }
  return 1;
}

static uint8_t *put_entries(uint8_t *to, const entries *from) {
  *to++ = '{';
  for (uint32_t i = 0; i < from->count; i++) {
    const entry *one = &from->at[i];
    if (i > 0)
      to = PUT(to, ", ");
    to = put_string(to, one->name, one->name_size);
    to = PUT(to, ": ");
    to = put_string(to, one->value, one->value_size);
  }
  *to++ = '}';
  return to;
}

static uint8_t *put_value(uint8_t *to, const entry *found) {
  if (!found)
    return PUT(to, "null");
  return put_string(to, found->value, found->value_size);
}

/* ---- Lines ------------------------------------------------------------ */

/* Where the parts of one record are. */
typedef struct parts {
  const ps_record *row;
  const uint8_t *record;
  const uint8_t *topic;
  const uint8_t *properties;
  const uint8_t *body;
  entries entries;
  uint32_t options;
} parts;

static uint8_t *put_head(uint8_t *to, const parts *of) {
  const ps_record *row = of->row;
  to = PUT(to, "{\"offset\": ");
  to = ps_put_decimal(to, row->offset);
  to = PUT(to, ", \"size\": ");
  to = ps_put_decimal(to, row->size);
  to = PUT(to, ", \"magic\": ");
  to = ps_put_decimal(to, ps_load32(of->record + PS_AT_MAGIC));
  to = PUT(to, ", \"bodyCRC\": ");
  to = ps_put_decimal(to, row->body_crc);
  to = PUT(to, ", \"queueId\": ");
  to = put_signed(to, row->queue_id);
  to = PUT(to, ", \"flag\": ");
  to = put_signed(to, row->flag);
  to = PUT(to, ", \"queueOffset\": ");
  to = put_signed(to, row->queue_offset);
  to = PUT(to, ", \"physicalOffset\": ");
  to = ps_put_decimal(to, ps_load64(of->record + PS_AT_OFFSET));
  to = PUT(to, ", \"sysFlag\": ");
  return ps_put_decimal(to, row->sys_flag);
}

static uint8_t *put_origin(uint8_t *to, const parts *of) {
  const ps_record *row = of->row;
  const uint8_t *host = of->record + PS_AT_BORN_HOST;
  uint32_t size = ps_born_host_size(row->sys_flag);
  to = PUT(to, ", \"bornTimestamp\": ");
  to = put_signed(to, row->born_ms);
  to = PUT(to, ", \"bornHost\": \"");
  to = ps_put_host(to, host, size);
  host += size + 8;
  to = PUT(to, "\", \"storeTimestamp\": ");
  to = put_signed(to, row->store_ms);
  to = PUT(to, ", \"storeHost\": \"");
  to = ps_put_host(to, host, ps_store_host_size(row->sys_flag));
  to = PUT(to, "\", \"reconsumeTimes\": ");
  to = put_signed(to, row->reconsume_times);
  to = PUT(to, ", \"preparedTransactionOffset\": ");
  return put_signed(to, row->prepared_offset);
}

/* The offset message id, twice: in RocketMQ it has two names. */
static uint8_t *put_ids(uint8_t *to, const parts *of) {
  const ps_record *row = of->row;
  uint32_t size = ps_store_host_size(row->sys_flag);
  const uint8_t *host =
      of->record + PS_AT_BORN_HOST + 8 + ps_born_host_size(row->sys_flag);
  uint8_t offset[8];
  ps_store64(offset, row->offset);
  to = PUT(to, ", \"msgId\": \"");
  const uint8_t *id = to;
  for (uint32_t at = 0; at < size; at += 4, to += 8)
    ps_put_hex(to, host + at);
  ps_put_hex(to, offset);
  ps_put_hex(to + 8, offset + 4);
  to += 16;
  size_t id_size = (size_t)(to - id);
  to = PUT(to, "\", \"offsetMsgId\": \"");
  memcpy(to, id, id_size);
  to += id_size;
  *to++ = '"';
  return to;
}

static uint8_t *put_body(uint8_t *to, const parts *of) {
  uint32_t size = of->row->body_size;
  if (ps_is_utf8(of->body, size)) {
    to = PUT(to, ", \"body\": ");
    return put_string(to, of->body, size);
  }
  to = PUT(to, ", \"bodyBase64\": ");
  return put_base64(to, of->body, size);
}

static uint8_t *put_line(uint8_t *to, parts *of) {
  const ps_record *row = of->row;
  to = put_head(to, of);
  to = put_origin(to, of);
  to = PUT(to, ", \"topic\": ");
  to = put_string(to, of->topic, row->topic_size);
  to = PUT(to, ", \"properties\": ");
  to = put_entries(to, &of->entries);
  to = PUT(to, ", \"bodyLength\": ");
  to = ps_put_decimal(to, row->body_size);
  to = put_ids(to, of);
  to = PUT(to, ", \"tagsCode\": ");
  to = put_signed(to, ps_tags_code(of->topic, row->topic_size, of->properties,
                                   row->properties_size, row->store_ms));
  to = PUT(to, ", \"uniqKey\": ");
  to = put_value(to, find_text(&of->entries, "UNIQ_KEY"));
  to = PUT(to, ", \"keys\": ");
  /* Java's dispatcher has "" for a record without properties. */
  to = row->properties_size ? put_value(to, find_text(&of->entries, "KEYS"))
                            : PUT(to, "\"\"");
  if (of->options & PS_JSON_BODIES)
    to = put_body(to, of);
  return PUT(to, "}\n");
}

/* The most that a line can take. */
static uint64_t line_max(const ps_record *row, uint32_t options) {
  uint64_t text = (uint64_t)row->topic_size;
  /* Two of the properties have a place of their own besides. */
  text += 3 * (uint64_t)row->properties_size;
  if (options & PS_JSON_BODIES)
    text += row->body_size;
  return FIXED_MAX + ENTRY_EXTRA * ENTRIES_MAX + ESCAPED_MAX * text;
}

/* Finds the parts of a record; 0 if it is left to the caller. */
static int32_t find_parts(parts *of, uint32_t left_flags) {
  const ps_record *row = of->row;
  of->topic = of->record + row->topic_at;
  of->properties = of->record + row->properties_at;
  of->body = of->record + row->body_at;
  return (row->sys_flag & left_flags) == 0 &&
         ps_is_utf8(of->topic, row->topic_size) &&
         ps_is_utf8(of->properties, row->properties_size) &&
         read_entries(of->properties, row->properties_size, &of->entries);
}

ps_status ps_rows_json(const ps_rows *rows, uint32_t options,
                       uint32_t left_flags, ps_json_lines *lines,
                       ps_error *error) {
  assert(rows && lines && error);
  parts of = {.options = options};
  uint8_t *to = lines->bytes;
  uint8_t *end = to + lines->capacity;
  lines->size = lines->needed = 0;
  lines->count = lines->is_left = 0;
  for (; lines->count < rows->count; lines->count++) {
    of.row = &rows->rows[lines->count];
    of.record = ps_rows_place(rows, of.row);
    if (!of.record ||
        (uint64_t)of.row->topic_at + of.row->topic_size > of.row->size)
      return ps_fail_row(error, rows, of.row);
    if (!find_parts(&of, left_flags)) {
      lines->is_left = 1;
      return PS_OK;
    }
    lines->needed = line_max(of.row, options);
    if (lines->needed > (uint64_t)(end - to))
      return PS_OK;
    to = put_line(to, &of);
    lines->size = (uint64_t)(to - lines->bytes);
    assert(lines->size <= lines->capacity);
  }
  return PS_OK;
}
