/* Validates what is to be appended, all of which comes from outside. */
#include <assert.h>
#include <inttypes.h>

#include "error.h"
#include "format.h"
#include "properties.h"
#include "source.h"
#include "text.h"

/* RocketMQ's limits for topics: that of V1, and that of retry topics. */
#define RETRY_PREFIX "%RETRY%"
#define RETRY_PREFIX_SIZE 7u
#define TOPIC_RETRY_MAX 255u

/* A string of a column is below this, so that sums of sizes stay in 32 bits. */
#define STRING_MAX INT32_MAX

/* One check: what it is held against, and how far it is. */
typedef struct checker {
  const ps_limits *limits;
  ps_error *error;
  ps_totals totals;
  const uint8_t *topic; /* the last one that was found right */
  uint32_t topic_size;
} checker;

#define REFUSE(checker, format, ...)                                           \
  ps_fail((checker)->error, PS_E_INVALID, PS_NO_OFFSET,                        \
          "message %" PRIu64 ": " format, (checker)->totals.count,             \
          __VA_ARGS__)

static ps_status check_topic(checker *check, const uint8_t *topic,
                             uint32_t size) {
  assert(topic || size == 0);
  if (size > 0 && size == check->topic_size &&
      memcmp(topic, check->topic, size) == 0)
    return PS_OK;
  uint32_t most = PS_TOPIC_V1_MAX;
  if (size > RETRY_PREFIX_SIZE &&
      memcmp(topic, RETRY_PREFIX, RETRY_PREFIX_SIZE) == 0)
    most = TOPIC_RETRY_MAX;
  if (size == 0 || size > most)
    return REFUSE(check,
                  "a topic of %" PRIu32 " bytes is not from 1 to %" PRIu32,
                  size, most);
  if (!ps_is_utf8(topic, size))
    return REFUSE(check, "%s", "the topic is no UTF-8");
  if (memchr(topic, 0, size) || memchr(topic, '/', size) ||
      (topic[0] == '.' && (size == 1 || (size == 2 && topic[1] == '.'))))
    return REFUSE(check, "%s",
                  "the topic names a folder: no NUL, no /, not . nor ..");
  check->topic = topic;
  check->topic_size = size;
  return PS_OK;
}

/* 1 if what will be stored of the properties is empty or holds an entry. */
static int32_t is_parsed(const uint8_t *properties, uint32_t size) {
  assert(size <= PS_PROPERTIES_MAX);
  /* Most begin with an entry, and only what it begins may be stripped. */
  if (properties[0] != '_' && ps_properties_begins(properties, size))
    return 1;
  if (!ps_properties_may_strip(properties, size))
    return ps_properties_parse(properties, size);
  uint8_t copy[PS_PROPERTIES_MAX];
  uint32_t is_closed;
  return ps_properties_parse(
      copy, ps_properties_strip(copy, properties, size, &is_closed));
}

/* Properties that a scan would take for torn (A6), or for a property CRC that
 * does not hold, must not get in. */
static ps_status check_properties(checker *check, const ps_message *message,
                                  uint32_t *stored) {
  if (message->properties_size > PS_PROPERTIES_MAX ||
      message->keys_size > PS_PROPERTIES_MAX ||
      message->tags_size > PS_PROPERTIES_MAX)
    *stored = PS_PROPERTIES_MAX + 1;
  else
    *stored = ps_record_properties(NULL, message, check->limits->stamp);
  if (*stored > PS_PROPERTIES_MAX)
    return REFUSE(check,
                  "the properties would take more than %d bytes, with "
                  "KEYS, TAGS and CRC",
                  PS_PROPERTIES_MAX);
  if (message->properties_size > 0) {
    if (memchr(message->properties, 0, message->properties_size))
      return REFUSE(check, "%s", "the properties hold a NUL");
    if (!is_parsed(message->properties, message->properties_size))
      return REFUSE(check, "%s",
                    "the properties hold no entry (name 0x01 value 0x02)");
  }
  if (check->limits->stamp->property_crc || *stored < PS_CRC_AREA)
    return PS_OK;
  uint8_t copy[PS_PROPERTIES_MAX];
  ps_record_properties(copy, message, check->limits->stamp);
  if (ps_crc_area(copy + *stored - PS_CRC_AREA) != PS_AREA_NONE)
    return REFUSE(check, "%s", "the properties end like a property CRC");
  return PS_OK;
}

/* Everything about one message whose parts are known to lie in memory. */
static ps_status check_message(checker *check, const ps_message *message) {
  const ps_limits *limits = check->limits;
  ps_status status = check_topic(check, message->topic, message->topic_size);
  if (status != PS_OK)
    return status;
  if (message->queue_id < 0)
    return REFUSE(check, "queue id %" PRId32 " is below 0", message->queue_id);
  uint32_t born = message->born_host_size;
  if (born != 0 && born != PS_HOST_IPV4 && born != PS_HOST_IPV6)
    return REFUSE(check, "a born host of %" PRIu32 " bytes is not 0, 8 or 20",
                  born);
  if (message->body_size > limits->message_size_max)
    return REFUSE(check,
                  "a body of %" PRIu32 " bytes is above the %" PRIu32
                  " of message_size_max",
                  message->body_size, limits->message_size_max);
  uint32_t stored = 0;
  status = check_properties(check, message, &stored);
  if (status != PS_OK)
    return status;
  uint64_t hosts = limits->stamp->store_host_size;
  hosts += born ? born : limits->stamp->store_host_size;
  uint64_t size = PS_AT_BODY + hosts + message->body_size + 1 +
                  (message->topic_size > PS_TOPIC_V1_MAX) +
                  message->topic_size + 2 + stored;
  uint64_t most = (uint64_t)limits->message_size_max + PS_RECORD_EXTRA_MAX;
  if (most > PS_RECORD_SIZE_MAX)
    most = PS_RECORD_SIZE_MAX;
  if (size > most)
    return REFUSE(check, "a record of %" PRIu64 " bytes is above %" PRIu64,
                  size, most);
  if (size + PS_BLANK_SIZE > limits->segment_size)
    return REFUSE(check,
                  "a record of %" PRIu64
                  " bytes does not fit a segment of %" PRIu64,
                  size, limits->segment_size);
  check->totals.count++;
  check->totals.bytes += size;
  if (size > check->totals.bytes_max)
    check->totals.bytes_max = size;
  return PS_OK;
}

/* The lengths of an entry of the client batch form. */
static ps_status check_entry(checker *check, const uint8_t *entry,
                             uint64_t size) {
  if (size < PS_ENTRY_MIN)
    return REFUSE(check, "%" PRIu64 " bytes are too few for an entry", size);
  uint32_t entry_size = ps_load32(entry);
  if (entry_size < PS_ENTRY_MIN || entry_size > size)
    return REFUSE(check, "entry size %" PRId32 " is not from %d to %" PRIu64,
                  (int32_t)entry_size, PS_ENTRY_MIN, size);
  uint32_t body = ps_load32(entry + PS_ENTRY_AT_BODY_SIZE);
  if (body > entry_size - PS_ENTRY_MIN)
    return REFUSE(check,
                  "body size %" PRId32 " does not fit entry size %" PRIu32,
                  (int32_t)body, entry_size);
  uint32_t properties = ps_load16(entry + PS_ENTRY_AT_BODY + body);
  if (properties != entry_size - PS_ENTRY_MIN - body)
    return REFUSE(check,
                  "properties size %" PRIu32 ", but entry size %" PRIu32
                  " leaves %" PRIu32 " behind a body of %" PRIu32,
                  properties, entry_size, entry_size - PS_ENTRY_MIN - body,
                  body);
  return PS_OK;
}

/* The lengths of one message form. */
static ps_status check_form(checker *check, const uint8_t *form,
                            uint64_t size) {
  uint32_t form_size = size < PS_MESSAGE_HEAD ? 0 : ps_load32(form);
  if (form_size < PS_MESSAGE_HEAD || form_size > size)
    return REFUSE(check,
                  "message form of size %" PRId32 " in %" PRIu64 " bytes",
                  (int32_t)form_size, size);
  uint32_t entry = PS_MESSAGE_HEAD + (uint32_t)ps_load16(form + 54);
  if (entry > form_size)
    return REFUSE(check, "topic size %" PRIu32 " does not fit size %" PRIu32,
                  entry - PS_MESSAGE_HEAD, form_size);
  ps_status status = check_entry(check, form + entry, form_size - entry);
  if (status == PS_OK && ps_load32(form + entry) != form_size - entry)
    return REFUSE(
        check, "entry size %" PRIu32 ", but size %" PRIu32 " leaves %" PRIu32,
        ps_load32(form + entry), form_size, form_size - entry);
  return status;
}

/* A client batch is neither transactional nor delayed. */
static ps_status check_batched(checker *check, const ps_message *message) {
  if (message->sys_flag & PS_SYS_TRANSACTION)
    return REFUSE(check, "%s", "a client batch is never transactional");
  if (ps_delay_level(message->properties, message->properties_size) > 0)
    return REFUSE(check, "%s", "a client batch is never delayed");
  return PS_OK;
}

static ps_status check_bytes(checker *check, ps_source *source) {
  uint32_t is_batch = source->kind == PS_SOURCE_CLIENT_BATCH;
  if (is_batch && source->size > check->limits->message_size_max)
    return REFUSE(check,
                  "a client batch of %" PRIu64 " bytes is above the %" PRIu32
                  " of message_size_max",
                  source->size, check->limits->message_size_max);
  while (source->at < source->size) {
    const uint8_t *data = source->data + source->at;
    uint64_t left = source->size - source->at;
    ps_status status = is_batch ? check_entry(check, data, left)
                                : check_form(check, data, left);
    ps_message message;
    if (status == PS_OK) {
      ps_source_next(source, &message);
      if (is_batch)
        status = check_batched(check, &message);
    }
    if (status == PS_OK)
      status = check_message(check, &message);
    if (status != PS_OK)
      return status;
  }
  if (check->totals.bytes + PS_BLANK_SIZE > check->limits->segment_size &&
      check->totals.count > 0)
    return ps_fail(check->error, PS_E_INVALID, PS_NO_OFFSET,
                   "%" PRIu64 " messages of together %" PRIu64
                   " bytes do not fit a segment of %" PRIu64,
                   check->totals.count, check->totals.bytes,
                   check->limits->segment_size);
  return PS_OK;
}

static int64_t offset_at(const ps_columns *columns, const void *offsets,
                         uint64_t row) {
  return columns->offset_size == 4 ? ((const int32_t *)offsets)[row]
                                   : ((const int64_t *)offsets)[row];
}

/* Offsets of a column never fall, and their strings are not too long. */
static ps_status check_offsets(checker *check, const ps_columns *columns,
                               const uint8_t *data, const void *offsets,
                               const char *name) {
  if (!offsets)
    return REFUSE(check, "column %s has no offsets", name);
  int64_t from = offset_at(columns, offsets, 0);
  if (from < 0)
    return REFUSE(check, "column %s: offset %" PRId64 " is below 0", name,
                  from);
  for (uint64_t row = 0; row < columns->count; row++) {
    int64_t end = offset_at(columns, offsets, row + 1);
    if (end < from || end - from > STRING_MAX || (end > from && !data)) {
      check->totals.count = row;
      return REFUSE(check, "column %s: no string from %" PRId64 " to %" PRId64,
                    name, from, end);
    }
    from = end;
  }
  return PS_OK;
}

/* Keys and tags become values of properties, which have no escapes. */
static ps_status check_values(checker *check, const ps_columns *columns,
                              const uint8_t *data, const void *offsets,
                              const char *name) {
  if (!data)
    return PS_OK;
  ps_status status = check_offsets(check, columns, data, offsets, name);
  if (status != PS_OK)
    return status;
  int64_t from = offset_at(columns, offsets, 0);
  int64_t end = offset_at(columns, offsets, columns->count);
  uint8_t is_bad = 0;
  for (int64_t at = from; at < end; at++)
    is_bad |= data[at] <= PS_ENTRY_END;
  if (!is_bad)
    return PS_OK;
  int64_t at = from;
  while (data[at] > PS_ENTRY_END)
    at++;
  while (offset_at(columns, offsets, check->totals.count + 1) <= at)
    check->totals.count++;
  return REFUSE(check, "column %s: byte 0x%02x cannot stand in a property",
                name, data[at]);
}

static ps_status check_columns(checker *check, ps_source *source) {
  const ps_columns *columns = source->columns;
  if (columns->offset_size != 4 && columns->offset_size != 8)
    return ps_fail(check->error, PS_E_INVALID, PS_NO_OFFSET,
                   "offsets of columns have 4 or 8 bytes, not %" PRIu32,
                   columns->offset_size);
  if (columns->count == 0)
    return PS_OK;
  ps_status status = check_offsets(check, columns, columns->body_data,
                                   columns->body_offsets, "body");
  if (status == PS_OK)
    status = check_values(check, columns, columns->keys_data,
                          columns->keys_offsets, "keys");
  if (status == PS_OK)
    status = check_values(check, columns, columns->tags_data,
                          columns->tags_offsets, "tags");
  if (status == PS_OK && columns->properties_data)
    status = check_offsets(check, columns, columns->properties_data,
                           columns->properties_offsets, "properties");
  ps_message message;
  while (status == PS_OK && ps_source_next(source, &message))
    status = check_message(check, &message);
  return status;
}

ps_status ps_source_check(const ps_source *source, const ps_limits *limits,
                          ps_totals *totals, ps_error *error) {
  assert(source && limits && limits->stamp && totals && error);
  ps_source copy = *source;
  ps_source_rewind(&copy);
  checker check = {.limits = limits, .error = error};
  ps_status status = copy.kind == PS_SOURCE_COLUMNS
                         ? check_columns(&check, &copy)
                         : check_bytes(&check, &copy);
  if (status == PS_OK)
    *totals = check.totals;
  return status;
}
