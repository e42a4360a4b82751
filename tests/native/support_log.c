/* A log over the file system in memory, and what must be in it. */
#include "support_log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format.h"

static const char topic[] = "topic";

/* ---- Records ----------------------------------------------------------- */

void store_body(uint8_t *to, uint64_t id, uint32_t size) {
  assert(size >= STORE_BODY_MIN);
  memcpy(to, &id, sizeof id);
  uint64_t state = id * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (uint32_t i = sizeof id; i < size; i++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    to[i] = (uint8_t)(state >> 56);
  }
}

uint64_t store_message(uint8_t *to, int32_t queue_id, uint64_t id,
                       uint32_t body_size) {
  uint8_t *at = to + PS_MESSAGE_HEAD;
  uint32_t topic_size = sizeof topic - 1;
  memset(to, 0, PS_MESSAGE_HEAD);
  memcpy(at, topic, topic_size);
  at += topic_size;
  memset(at, 0, PS_ENTRY_AT_BODY);
  ps_store32(at, PS_ENTRY_MIN + body_size);
  ps_store32(at + PS_ENTRY_AT_BODY_SIZE, body_size);
  at += PS_ENTRY_AT_BODY;
  store_body(at, id, body_size);
  at += body_size;
  ps_store16(at, 0);
  at += 2;
  uint64_t size = (uint64_t)(at - to);
  ps_store32(to, (uint32_t)size);
  ps_store32(to + 4, (uint32_t)queue_id);
  ps_store16(to + 54, (uint16_t)topic_size);
  return size;
}

/* ---- Life -------------------------------------------------------------- */

ps_status store_open(store *s) {
  return ps_log_open_env(&s->fs->env, STORE_ROOT, &s->options, s->live, &s->log,
                         &s->error);
}

store *store_new(uint64_t segment_size) {
  store *s = calloc(1, sizeof *s);
  assert(s != NULL);
  uint64_t pages = (segment_size + MEMORY_PAGE - 1) / MEMORY_PAGE;
  s->fs = memory_new(pages * MEMORY_PAGE);
  s->options = (ps_options){.segment_size = segment_size,
                            .mode = PS_MODE_WRITE,
                            .property_crc = 1,
                            .message_size_max = 65536,
                            .store_host_size = 8};
  s->intent = PS_NO_OFFSET;
  s->next_id = 1;
  ps_status status = store_recover(s, 0);
  assert(status == PS_OK);
  (void)status;
  return s;
}

void store_bury(store *s) {
  s->fs->is_dead = true;
  ps_log_free(s->log);
  s->log = NULL;
}

ps_status store_go_live(store *s) {
  ps_live_words words = {.boot_id = {1}};
  ps_log_free(s->log);
  s->log = NULL;
  strcpy(s->live_path, "/tmp/pystore-live-XXXXXX");
  int file = mkstemp(s->live_path);
  assert(file >= 0);
  close(file);
  ps_status status = ps_live_create(s->live_path, &s->error);
  if (status == PS_OK)
    status = ps_live_open(s->live_path, 1, &s->live, &s->error);
  if (status == PS_OK)
    status = ps_live_begin(s->live, &words, &s->error);
  return status == PS_OK ? store_recover(s, 0) : status;
}

ps_status store_open_reader(store *s, ps_log **log, ps_live **live) {
  ps_options options = s->options;
  options.mode = PS_MODE_READ;
  options.segment_size = 0; /* its files say it */
  ps_status status = ps_live_open(s->live_path, 0, live, &s->error);
  if (status != PS_OK)
    return status;
  return ps_log_open_env(&s->fs->env, STORE_ROOT, &options, *live, log,
                         &s->error);
}

uint32_t store_free(store *s) {
  ps_log_free(s->log);
  ps_live_close(s->live);
  if (s->live_path[0] != 0)
    unlink(s->live_path);
  uint32_t held = memory_held(s->fs);
  memory_free(s->fs);
  free(s);
  return held;
}

void store_crash(store *s, memory *successor) {
  if (s->log != NULL)
    store_bury(s);
  memory_free(s->fs);
  s->fs = successor;
}

ps_status store_recover(store *s, uint64_t bound) {
  ps_status status = store_open(s);
  if (status != PS_OK)
    return status;
  uint64_t first = store_ends(s).min_offset;
  ps_cursor cursor = {.offset = bound < first ? first : bound,
                      .limit = s->intent,
                      .record_start = PS_NO_OFFSET,
                      .checks = PS_CHECK_BODY | PS_CHECK_PROPERTY |
                                PS_CHECK_OFFSET | PS_NEED_PROPERTY};
  uint32_t count = 0;
  status = ps_log_scan(s->log, &cursor, NULL, 0, &count, &s->error);
  if (status == PS_OK && cursor.stop == PS_STOP_UNREADABLE)
    status = s->error.status; /* it could not be read, so no torn tail */
  if (status == PS_OK) {
    ps_start start = {.end = cursor.offset,
                      .synced_end = bound,
                      .store_ms = cursor.record_ms};
    status = ps_log_start(s->log, &start, &s->error);
  }
  if (status == PS_OK)
    status = store_count_queues(s);
  if (status == PS_OK)
    s->intent = PS_NO_OFFSET;
  return status;
}

ps_status store_count_queues(store *s) {
  ps_record rows[64];
  ps_cursor cursor = {.offset = store_ends(s).min_offset,
                      .limit = PS_NO_OFFSET,
                      .record_start = PS_NO_OFFSET,
                      .checks = PS_WANT_TOPIC};
  ps_status status = PS_OK;
  do {
    uint32_t count = 0;
    status = ps_log_scan(s->log, &cursor, rows, 64, &count, &s->error);
    if (status == PS_OK)
      status = ps_log_queues_note(s->log, rows, count, &s->error);
    if (status == PS_OK && cursor.stop == PS_STOP_UNREADABLE)
      status = s->error.status;
  } while (status == PS_OK && cursor.stop == PS_STOP_ROWS);
  return status;
}

ps_ends store_ends(store *s) {
  ps_ends ends = {0};
  (void)ps_log_ends(s->log, &ends, &s->error);
  return ends;
}

/* ---- Appending --------------------------------------------------------- */

uint64_t store_acked(const store *s, store_ack ack) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < s->count; i++)
    if (s->records[i].ack >= ack)
      end = s->records[i].end;
  return end;
}

/* Notes what `count` appended records were answered. What failed is not
 * there, unless the process has died in it or only the sync failed. */
static void note(store *s, ps_status status, uint32_t ack,
                 const ps_position *positions, uint32_t count) {
  store_ack answered = ACK_NONE;
  if (s->fs->is_dead || status == PS_E_POISONED || status == PS_E_FENCED)
    answered = ACK_NONE;
  else if (status == PS_OK)
    answered = ack == PS_ACK_SYNCED ? ACK_SYNCED : ACK_LEADER;
  else
    count = 0;
  for (uint32_t i = 0; i < count; i++) {
    assert(s->count < STORE_RECORDS);
    s->records[s->count++] =
        (store_record){.id = s->next_id + i,
                       .offset = positions[i].offset,
                       .end = positions[i].offset, /* until it is known */
                       .ack = answered};
  }
}

ps_status store_append(store *s, uint32_t body_size, uint32_t ack) {
  uint8_t *bytes = malloc(body_size + STORE_MESSAGE_EXTRA);
  assert(bytes != NULL);
  uint64_t size = store_message(bytes, 0, s->next_id, body_size);
  ps_position position = {0};
  ps_appended appended = {0};
  ps_status status = ps_log_append(s->log, bytes, size, ack, &position, 1,
                                   &appended, &s->error);
  free(bytes);
  note(s, status, ack, &position, 1);
  if (status == PS_OK)
    s->records[s->count - 1].end = appended.end;
  s->next_id++;
  return status;
}

ps_status store_append_columns(store *s, uint32_t count, uint32_t body_size,
                               uint32_t ack) {
  uint8_t *bodies = malloc((uint64_t)count * body_size + 1);
  uint64_t *offsets = malloc((count + 1) * sizeof *offsets);
  ps_position *positions = calloc(count + 1, sizeof *positions);
  assert(bodies != NULL && offsets != NULL && positions != NULL);
  for (uint32_t i = 0; i <= count; i++)
    offsets[i] = (uint64_t)i * body_size;
  for (uint32_t i = 0; i < count; i++)
    store_body(bodies + offsets[i], s->next_id + i, body_size);
  ps_columns columns = {.count = count,
                        .topic = (const uint8_t *)topic,
                        .topic_size = sizeof topic - 1,
                        .body_data = bodies,
                        .body_offsets = offsets,
                        .offset_size = 8};
  ps_appended appended = {0};
  ps_status status = ps_log_append_columns(s->log, &columns, ack, positions,
                                           count, &appended, &s->error);
  uint32_t before = s->count;
  note(s, status, ack, positions, count);
  if (status != PS_OK && s->count == before) /* what got in is published */
    note(s, PS_OK, PS_ACK_LEADER, positions, (uint32_t)appended.count);
  for (uint32_t i = before; i + 1 < s->count; i++)
    s->records[i].end = s->records[i + 1].offset;
  if (s->count > before && appended.count == s->count - before)
    s->records[s->count - 1].end = appended.end;
  s->next_id += count;
  free(bodies);
  free(offsets);
  free(positions);
  return status;
}

ps_status store_sync(store *s) {
  ps_status status = ps_log_sync(s->log, PS_NO_OFFSET, &s->error);
  if (status != PS_OK || s->fs->is_dead)
    return status;
  for (uint32_t i = 0; i < s->count; i++)
    s->records[i].ack = ACK_SYNCED;
  return status;
}

ps_status store_cut(store *s, uint64_t offset) {
  ps_cut_report report = {0};
  ps_status status = ps_log_cut_begin(s->log, offset, &s->error);
  if (status != PS_OK)
    return status;
  if (!s->fs->is_dead) {
    s->intent = offset;
    while (s->count > 0 && s->records[s->count - 1].offset >= offset)
      s->count--;
  }
  status = ps_log_cut_publish(s->log, ++s->generation, &s->error);
  if (status == PS_OK)
    status = ps_log_cut_apply(s->log, &report, &s->error);
  if (status == PS_OK)
    status = store_count_queues(s);
  if (status == PS_OK && !s->fs->is_dead)
    s->intent = PS_NO_OFFSET;
  ps_error ignored;
  (void)ps_log_cut_end(s->log, status == PS_OK, &ignored);
  return status;
}

/* ---- Checking ---------------------------------------------------------- */

static char complaint[256];

static const char *complain(const char *format, uint64_t a, uint64_t b) {
  snprintf(complaint, sizeof complaint, format, a, b);
  return complaint;
}

ps_status store_copy(ps_log *log, uint64_t from, uint64_t to, uint8_t *bytes,
                     ps_error *error) {
  for (uint64_t at = from; at < to;) {
    ps_block block;
    ps_status status = ps_block_acquire(log, at, to - at, &block, error);
    if (status != PS_OK)
      return status;
    memcpy(bytes + (at - from), block.data, block.size);
    at += block.size;
    ps_block_release(&block);
  }
  return PS_OK;
}

/* Is this row the record that the list has at `index`? */
static const char *verify_row(store *s, const ps_record *row, uint32_t index) {
  uint8_t *bytes = malloc(row->size * 2);
  assert(bytes != NULL);
  const char *wrong = NULL;
  ps_status status = store_copy(s->log, row->offset, row->offset + row->size,
                                bytes, &s->error);
  store_record *expected = &s->records[index];
  if (status != PS_OK)
    wrong = complain("a record at %" PRIu64 " cannot be read: %" PRId64,
                     row->offset, (uint64_t)status);
  else if (row->body_size < STORE_BODY_MIN)
    wrong = complain("a body at %" PRIu64 " has %" PRIu64 " bytes", row->offset,
                     row->body_size);
  else if (index >= s->count)
    wrong = complain("a record at %" PRIu64 " was never appended, id %" PRIu64,
                     row->offset, *(uint64_t *)(bytes + row->body_at));
  else {
    store_body(bytes + row->size, expected->id, row->body_size);
    if (memcmp(bytes + row->body_at, bytes + row->size, row->body_size) != 0)
      wrong = complain("the record at %" PRIu64 " is not id %" PRIu64,
                       row->offset, expected->id);
    else if (row->offset != expected->offset && expected->ack != ACK_NONE)
      wrong =
          complain("id %" PRIu64 " is at %" PRIu64, expected->id, row->offset);
    else if (row->queue_offset != (int64_t)index)
      wrong = complain("queue offset of id %" PRIu64 " is %" PRIu64,
                       expected->id, (uint64_t)row->queue_offset);
  }
  free(bytes);
  if (wrong == NULL) {
    expected->offset = row->offset;
    expected->end = row->offset + row->size;
  }
  return wrong;
}

const char *store_verify(store *s, store_ack ack) {
  ps_record rows[64];
  uint32_t index = 0;
  ps_cursor cursor = {.offset = store_ends(s).min_offset,
                      .limit = PS_NO_OFFSET,
                      .record_start = PS_NO_OFFSET,
                      .checks =
                          PS_CHECK_BODY | PS_CHECK_PROPERTY | PS_CHECK_OFFSET};
  while (index < s->count && s->records[index].offset < cursor.offset)
    index++;
  for (;;) {
    uint32_t count = 0;
    ps_status status =
        ps_log_scan(s->log, &cursor, rows, 64, &count, &s->error);
    if (status != PS_OK)
      return complain("the scan at %" PRIu64 " answers %" PRId64, cursor.offset,
                      (uint64_t)status);
    for (uint32_t i = 0; i < count; i++) {
      const char *wrong = verify_row(s, &rows[i], index++);
      if (wrong != NULL)
        return wrong;
    }
    if (cursor.stop != PS_STOP_ROWS)
      break;
  }
  if (cursor.offset != store_ends(s).published_end)
    return complain("the scan stops at %" PRIu64 " for %" PRIu64, cursor.offset,
                    cursor.stop);
  for (uint32_t i = index; i < s->count; i++)
    if (s->records[i].ack >= ack)
      return complain("id %" PRIu64 " is lost, acknowledged %" PRIu64,
                      s->records[i].id, s->records[i].ack);
  s->count = index;
  return NULL;
}

const char *store_verify_zero(store *s) {
  uint64_t end = store_ends(s).published_end;
  memory *fs = s->fs;
  for (uint32_t i = 0; i < fs->names_count; i++) {
    const memory_name *name = &fs->names[i];
    if (name->states[0] < 0 ||
        strncmp(name->path, STORE_LOG, sizeof STORE_LOG - 1) != 0)
      continue;
    uint64_t base = strtoull(name->path + sizeof STORE_LOG - 1, NULL, 10);
    memory_file *file = &fs->files[name->states[0]];
    for (uint64_t at = 0; at < file->disk_size; at++)
      if (base + at >= end && (file->disk[at] != 0 || file->cache[at] != 0))
        return complain("byte %" PRIu64 " behind the end %" PRIu64
                        " is not zero",
                        base + at, end);
  }
  return NULL;
}
