/* Columns of scanned rows: against what is true of each record. */
#include "columns.h"

#include "check.h"
#include "format.h"
#include "support_records.h"

enum { RECORDS = 60, BASE = 4096, ROOM = 1 << 17, TEXT = 64 };

/* Records of every kind, back to back, as they stand at BASE; their memory ends
 * with the last one, so that a sanitizer sees what reads behind it. */
typedef struct block {
  uint8_t *data;
  uint64_t size;
  ps_record rows[RECORDS];
  ps_rows of;
} block;

static block make_block(void) {
  static uint8_t memory[ROOM];
  block made = {.size = 0};
  for (uint32_t i = 0; i < RECORDS; i++) {
    uint8_t parts[4096];
    ps_message message = random_message(parts, 300);
    ps_stamp stamp = vector_stamp();
    ps_error error;
    stamp.offset = BASE + made.size;
    stamp.property_crc = i % 2;
    uint32_t size = slow_encode(memory + made.size, &message, &stamp, 0);
    CHECK(PS_OK, ps_record_check(memory + made.size, size, stamp.offset, 0,
                                 &made.rows[i], &error));
    made.size += size;
  }
  made.data = malloc(made.size);
  memcpy(made.data, memory, made.size);
  return made;
}

/* The rows from `first` on, every `step`th one. */
static ps_rows rows_of(block *made, uint32_t first, uint32_t step) {
  uint32_t count = 0;
  for (uint32_t i = first; i < RECORDS; i += step)
    made->rows[count++] = made->rows[i];
  return (ps_rows){made->rows, made->data, made->size, BASE, count, 0};
}

/* A column with room for so many bytes, and not one more. */
static ps_text_column make_column(uint64_t values, uint64_t bytes) {
  return (ps_text_column){.offsets = malloc((values + 1) * sizeof(int32_t)),
                          .bytes = malloc(bytes ? bytes : 1),
                          .capacity = bytes,
                          .present = malloc(values / 8 + 1)};
}

static void free_column(ps_text_column *column) {
  free(column->offsets);
  free(column->bytes);
  free(column->present);
}

static uint32_t size_at(const ps_text_column *column, uint64_t i) {
  return (uint32_t)(column->offsets[i + 1] - column->offsets[i]);
}

static void check_value(const char *expected, const ps_text_column *column,
                        uint64_t i) {
  CHECK(strlen(expected), size_at(column, i));
  if (strlen(expected) == size_at(column, i))
    CHECK_BYTES(expected, column->bytes + column->offsets[i],
                size_at(column, i));
}

/* Bodies are those of the records, also of some of them in the least room. */
static void bodies_are_copied_one_behind_the_other(void) {
  block made = make_block();
  ps_rows rows = rows_of(&made, 1, 3);
  ps_column_sizes sizes;
  ps_error error;
  CHECK(PS_OK, ps_rows_measure(&rows, &sizes, &error));
  ps_text_column column = make_column(rows.count, sizes.body_bytes);
  CHECK(PS_OK, ps_rows_bodies(&rows, &column, &error));
  CHECK(sizes.body_bytes, column.offsets[rows.count]);
  for (uint32_t i = 0; i < rows.count; i++) {
    const ps_record *row = &rows.rows[i];
    CHECK(row->body_size, size_at(&column, i));
    CHECK_BYTES(made.data + (row->offset - BASE) + row->body_at,
                column.bytes + column.offsets[i], row->body_size);
  }
  free_column(&column);
  free(made.data);
}

static void show_host(char *to, const uint8_t *host, uint32_t size) {
  int32_t port = (int32_t)ps_load32(host + size - 4);
  if (size == PS_HOST_IPV4) {
    snprintf(to, TEXT, "%u.%u.%u.%u:%d", host[0], host[1], host[2], host[3],
             port);
    return;
  }
  int used = snprintf(to, TEXT, "[");
  for (uint32_t i = 0; i < 16; i += 2)
    used += snprintf(to + used, (size_t)(TEXT - used), "%x%c",
                     ps_load16(host + i), i < 14 ? ':' : ']');
  snprintf(to + used, (size_t)(TEXT - used), ":%d", port);
}

/* Hosts and ids as printf makes them, of both kinds in any order; a port is a
 * signed number, whatever it is. */
static void hosts_and_ids_are_as_printf_makes_them(void) {
  block made = make_block();
  ps_rows rows = rows_of(&made, 0, 1);
  ps_column_sizes sizes;
  ps_error error;
  ps_store32(made.data + PS_AT_BORN_HOST +
                 ps_born_host_size(rows.rows[0].sys_flag) - 4,
             UINT32_C(0x80000000));
  CHECK(PS_OK, ps_rows_measure(&rows, &sizes, &error));
  ps_text_column born = make_column(rows.count, sizes.born_bytes);
  ps_text_column stored = make_column(rows.count, sizes.store_bytes);
  ps_text_column ids = make_column(rows.count, sizes.id_bytes);
  CHECK(PS_OK, ps_rows_hosts(&rows, PS_HOST_BORN, &born, &error));
  CHECK(PS_OK, ps_rows_hosts(&rows, PS_HOST_STORE, &stored, &error));
  CHECK(PS_OK, ps_rows_ids(&rows, &ids, &error));
  CHECK(sizes.id_bytes, ids.offsets[rows.count]);
  for (uint32_t i = 0; i < rows.count; i++) {
    const ps_record *row = &rows.rows[i];
    const uint8_t *host = made.data + (row->offset - BASE) + PS_AT_BORN_HOST;
    uint32_t size = ps_born_host_size(row->sys_flag);
    char text[TEXT];
    show_host(text, host, size);
    check_value(text, &born, i);
    host += size + 8;
    size = ps_store_host_size(row->sys_flag);
    show_host(text, host, size);
    check_value(text, &stored, i);
    for (uint32_t at = 0; at < size; at++)
      snprintf(text + 2 * at, 3, "%02X", host[at]);
    snprintf(text + 2 * size, 17, "%016" PRIX64, row->offset);
    check_value(text, &ids, i);
  }
  free_column(&born);
  free_column(&stored);
  free_column(&ids);
  free(made.data);
}

/* Rows that were not of these bytes, and columns that are full, are refused. */
static void what_does_not_fit_is_refused(void) {
  block made = make_block();
  ps_rows rows = rows_of(&made, 0, 1);
  ps_column_sizes sizes;
  ps_error error;
  CHECK(PS_OK, ps_rows_measure(&rows, &sizes, &error));
  ps_text_column column = make_column(rows.count, ROOM);
  column.capacity = sizes.body_bytes - 1;
  CHECK(PS_E_SPACE, ps_rows_bodies(&rows, &column, &error));
  column.capacity = sizes.id_bytes - 1;
  CHECK(PS_E_SPACE, ps_rows_ids(&rows, &column, &error));
  column.capacity = 11;
  CHECK(PS_E_SPACE, ps_rows_hosts(&rows, PS_HOST_BORN, &column, &error));
  CHECK(PS_E_INVALID, ps_rows_hosts(&rows, 2, &column, &error));
  column.capacity = ROOM;
  rows.size--;
  CHECK(PS_E_INVALID, ps_rows_measure(&rows, &sizes, &error));
  CHECK(made.rows[RECORDS - 1].offset, error.offset);
  CHECK(PS_E_INVALID, ps_rows_bodies(&rows, &column, &error));
  CHECK(PS_E_INVALID, ps_rows_ids(&rows, &column, &error));
  CHECK(PS_E_INVALID, ps_rows_hosts(&rows, PS_HOST_STORE, &column, &error));
  ps_property_columns properties = {.keys = column};
  CHECK(PS_E_INVALID, ps_rows_properties(&rows, &properties, &error));
  rows.size++;
  rows.offset++;
  CHECK(PS_E_INVALID, ps_rows_measure(&rows, &sizes, &error));
  free_column(&column);
  free(made.data);
}

/* No row is a column without values. */
static void no_rows_give_empty_columns(void) {
  ps_rows rows = {.count = 0};
  ps_column_sizes sizes;
  ps_error error;
  ps_text_column column = make_column(0, 0);
  CHECK(PS_OK, ps_rows_measure(&rows, &sizes, &error));
  CHECK(0, sizes.body_bytes);
  CHECK(PS_OK, ps_rows_bodies(&rows, &column, &error));
  CHECK(0, column.offsets[0]);
  CHECK(PS_OK, ps_rows_hosts(&rows, PS_HOST_BORN, &column, &error));
  CHECK(PS_OK, ps_rows_ids(&rows, &column, &error));
  free_column(&column);
}

CHECK_MAIN(CASE(bodies_are_copied_one_behind_the_other),
           CASE(hosts_and_ids_are_as_printf_makes_them),
           CASE(what_does_not_fit_is_refused), CASE(no_rows_give_empty_columns))
