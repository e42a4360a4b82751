/* Columns of scanned rows: bodies, hosts and message ids. */
#include "columns.h"

#include <assert.h>

#include "columns_put.h"
#include "put_text.h"

#define HOST_TEXT_IPV4 27 /* 255.255.255.255:-2147483648 */
#define HOST_TEXT_IPV6 53 /* the same with 39 in brackets */
#define ENTRY_LEAST 4     /* a name, 0x01, a value, 0x02, but for the last */

ps_status ps_rows_measure(const ps_rows *rows, ps_column_sizes *sizes,
                          ps_error *error) {
  assert(rows && sizes && error);
  *sizes = (ps_column_sizes){0};
  for (uint32_t i = 0; i < rows->count; i++) {
    const ps_record *row = &rows->rows[i];
    if (!ps_rows_place(rows, row))
      return ps_fail_row(error, rows, row);
    uint32_t is_born = row->sys_flag & PS_SYS_BORN_IPV6;
    uint32_t is_store = row->sys_flag & PS_SYS_STORE_IPV6;
    sizes->body_bytes += row->body_size;
    sizes->property_bytes += row->properties_size;
    sizes->entries += (row->properties_size + 1u) / ENTRY_LEAST;
    sizes->born_bytes += is_born ? HOST_TEXT_IPV6 : HOST_TEXT_IPV4;
    sizes->store_bytes += is_store ? HOST_TEXT_IPV6 : HOST_TEXT_IPV4;
    sizes->id_bytes += 2 * (ps_store_host_size(row->sys_flag) + 8);
  }
  return PS_OK;
}

ps_status ps_rows_bodies(const ps_rows *rows, ps_text_column *bodies,
                         ps_error *error) {
  assert(rows && bodies && error);
  uint64_t room = ps_column_room(bodies);
  uint64_t used = 0;
  for (uint32_t i = 0; i < rows->count; i++) {
    const ps_record *row = &rows->rows[i];
    const uint8_t *record = ps_rows_place(rows, row);
    if (!record)
      return ps_fail_row(error, rows, row);
    if (row->body_size > room - used)
      return ps_fail_room(error, row, room);
    bodies->offsets[i] = (int32_t)used;
    memcpy(bodies->bytes + used, record + row->body_at, row->body_size);
    used += row->body_size;
  }
  bodies->offsets[rows->count] = (int32_t)used;
  return PS_OK;
}

/* The host that was written last, which by far most records repeat. */
typedef struct last_host {
  uint8_t host[PS_HOST_IPV6];
  uint32_t host_size;
  uint32_t text_size;
  uint8_t text[64 + PS_COLUMN_SLACK];
} last_host;

static inline int32_t is_last(const last_host *last, const uint8_t *host,
                              uint32_t size) {
  return last->host_size == size &&
         memcmp(last->host, host, PS_HOST_IPV4) == 0 &&
         (size == PS_HOST_IPV4 || memcmp(last->host, host, PS_HOST_IPV6) == 0);
}

static void remember(last_host *last, const uint8_t *host, uint32_t size) {
  memcpy(last->host, host, size);
  last->host_size = size;
  last->text_size =
      (uint32_t)(ps_put_host(last->text, host, size) - last->text);
  assert(last->text_size <= HOST_TEXT_IPV6);
}

ps_status ps_rows_hosts(const ps_rows *rows, uint32_t which,
                        ps_text_column *hosts, ps_error *error) {
  assert(rows && hosts && error);
  if (which > PS_HOST_STORE)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "host %" PRIu32 " of a record: there are 0 and 1", which);
  uint64_t room = ps_column_room(hosts);
  const uint8_t *end = hosts->bytes + room;
  uint64_t used = 0;
  last_host last = {.host_size = 0};
  for (uint32_t i = 0; i < rows->count; i++) {
    const ps_record *row = &rows->rows[i];
    ps_rows_fetch(rows, ps_rows_ahead(rows, i), PS_AT_BORN_HOST);
    const uint8_t *record = ps_rows_place(rows, row);
    if (!record)
      return ps_fail_row(error, rows, row);
    uint32_t size = ps_born_host_size(row->sys_flag);
    const uint8_t *host = record + PS_AT_BORN_HOST;
    if (which == PS_HOST_STORE) {
      host += size + 8;
      size = ps_store_host_size(row->sys_flag);
    }
    if (!is_last(&last, host, size))
      remember(&last, host, size);
    if (last.text_size > room - used)
      return ps_fail_room(error, row, room);
    hosts->offsets[i] = (int32_t)used;
    ps_put_short(hosts->bytes + used, end, last.text,
                 last.text + sizeof last.text, last.text_size);
    used += last.text_size;
  }
  hosts->offsets[rows->count] = (int32_t)used;
  return PS_OK;
}

ps_status ps_rows_ids(const ps_rows *rows, ps_text_column *ids,
                      ps_error *error) {
  assert(rows && ids && error);
  uint64_t room = ps_column_room(ids);
  uint64_t used = 0;
  for (uint32_t i = 0; i < rows->count; i++) {
    const ps_record *row = &rows->rows[i];
    ps_rows_fetch(rows, ps_rows_ahead(rows, i), PS_AT_BORN_HOST);
    const uint8_t *record = ps_rows_place(rows, row);
    if (!record)
      return ps_fail_row(error, rows, row);
    uint32_t size = ps_store_host_size(row->sys_flag);
    const uint8_t *host = record + PS_AT_BORN_HOST + 8;
    host += ps_born_host_size(row->sys_flag);
    if (2 * (size + 8) > room - used)
      return ps_fail_room(error, row, room);
    ids->offsets[i] = (int32_t)used;
    uint8_t *to = ids->bytes + used;
    for (uint32_t at = 0; at < size; at += 4, to += 8)
      ps_put_hex(to, host + at);
    uint8_t offset[8];
    ps_store64(offset, row->offset);
    ps_put_hex(to, offset);
    ps_put_hex(to + 8, offset + 4);
    used += 2 * (size + 8);
  }
  ids->offsets[rows->count] = (int32_t)used;
  return PS_OK;
}
