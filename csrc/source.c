/* One iterator over the three ways in: message form, columns, client batch. */
#include "source.h"

#include <assert.h>

#include "format.h"

void ps_source_messages(ps_source *source, const uint8_t *messages,
                        uint64_t size) {
  assert(messages || size == 0);
  *source =
      (ps_source){.data = messages, .size = size, .kind = PS_SOURCE_MESSAGES};
}

void ps_source_columns(ps_source *source, const ps_columns *columns) {
  assert(columns);
  *source = (ps_source){.columns = columns, .kind = PS_SOURCE_COLUMNS};
}

void ps_source_client_batch(ps_source *source, const ps_route *route,
                            const uint8_t *batch, uint64_t size) {
  assert(route && (batch || size == 0));
  *source = (ps_source){.data = batch,
                        .size = size,
                        .route = route,
                        .kind = PS_SOURCE_CLIENT_BATCH};
}

void ps_source_rewind(ps_source *source) {
  assert(source->kind != 0);
  source->at = 0;
}

/* Fills what an entry of the client batch form holds; returns its size. */
static inline uint32_t read_entry(const uint8_t *entry, ps_message *message) {
  message->flag = (int32_t)ps_load32(entry + PS_ENTRY_AT_FLAG);
  message->body_size = ps_load32(entry + PS_ENTRY_AT_BODY_SIZE);
  message->body = entry + PS_ENTRY_AT_BODY;
  const uint8_t *behind = message->body + message->body_size;
  message->properties_size = ps_load16(behind);
  message->properties = behind + 2;
  assert(ps_load32(entry) ==
         PS_ENTRY_MIN + message->body_size + message->properties_size);
  return PS_ENTRY_MIN + message->body_size + message->properties_size;
}

/* Message form: see pystore.h. */
static inline uint32_t read_form(const uint8_t *form, ps_message *message) {
  message->queue_id = (int32_t)ps_load32(form + 4);
  message->sys_flag = ps_load32(form + 8);
  message->reconsume_times = (int32_t)ps_load32(form + 12);
  message->born_ms = (int64_t)ps_load64(form + 16);
  message->prepared_offset = (int64_t)ps_load64(form + 24);
  message->born_host = form + 32;
  message->born_host_size = ps_load16(form + 52);
  message->topic_size = ps_load16(form + 54);
  message->topic = form + PS_MESSAGE_HEAD;
  message->keys = NULL;
  message->keys_size = 0;
  message->tags = NULL;
  message->tags_size = 0;
  uint32_t entry = PS_MESSAGE_HEAD + message->topic_size;
  return entry + read_entry(form + entry, message);
}

static inline void read_route(const ps_route *route, ps_message *message) {
  message->queue_id = route->queue_id;
  message->sys_flag = route->sys_flag;
  message->reconsume_times = route->reconsume_times;
  message->born_ms = route->born_ms;
  message->prepared_offset = 0;
  message->born_host = route->born_host;
  message->born_host_size = route->born_host_size;
  message->topic_size = route->topic_size;
  message->topic = route->topic;
  message->keys = NULL;
  message->keys_size = 0;
  message->tags = NULL;
  message->tags_size = 0;
}

/* One string of a column; a column without data has empty ones. */
static inline const uint8_t *read_string(const ps_columns *columns,
                                         const uint8_t *data,
                                         const void *offsets, uint64_t row,
                                         uint32_t *size) {
  *size = 0;
  if (!offsets)
    return NULL;
  uint64_t from;
  uint64_t end;
  if (columns->offset_size == 4) {
    from = ((const uint32_t *)offsets)[row];
    end = ((const uint32_t *)offsets)[row + 1];
  } else {
    from = ((const uint64_t *)offsets)[row];
    end = ((const uint64_t *)offsets)[row + 1];
  }
  *size = (uint32_t)(end - from);
  return data ? data + from : NULL;
}

static inline void read_row(const ps_columns *columns, uint64_t row,
                            ps_message *message) {
  message->queue_id =
      columns->queue_ids ? columns->queue_ids[row] : columns->queue_id;
  message->sys_flag = columns->sys_flag;
  message->reconsume_times = 0;
  message->born_ms = columns->born_ms ? columns->born_ms[row] : 0;
  message->prepared_offset = 0;
  message->flag = columns->flags ? columns->flags[row] : 0;
  message->born_host = NULL;
  message->born_host_size = 0;
  message->topic = columns->topic;
  message->topic_size = columns->topic_size;
  message->body = read_string(columns, columns->body_data,
                              columns->body_offsets, row, &message->body_size);
  message->keys = NULL;
  message->keys_size = 0;
  if (columns->keys_data)
    message->keys =
        read_string(columns, columns->keys_data, columns->keys_offsets, row,
                    &message->keys_size);
  message->tags = NULL;
  message->tags_size = 0;
  if (columns->tags_data)
    message->tags =
        read_string(columns, columns->tags_data, columns->tags_offsets, row,
                    &message->tags_size);
  message->properties = NULL;
  message->properties_size = 0;
  if (columns->properties_data)
    message->properties = read_string(columns, columns->properties_data,
                                      columns->properties_offsets, row,
                                      &message->properties_size);
}

int32_t ps_source_next(ps_source *source, ps_message *message) {
  assert(source->kind != 0);
  if (source->kind == PS_SOURCE_COLUMNS) {
    if (source->at == source->columns->count)
      return 0;
    read_row(source->columns, source->at, message);
    source->at++;
    return 1;
  }
  if (source->at == source->size)
    return 0;
  const uint8_t *data = source->data + source->at;
  if (source->kind == PS_SOURCE_MESSAGES) {
    source->at += read_form(data, message);
  } else {
    read_route(source->route, message);
    source->at += read_entry(data, message);
  }
  assert(source->at <= source->size);
  return 1;
}
