/* What the core asks of a system, tried on the real one and on the model.
 *
 * The model of support_memory.h proves nothing unless it answers as the real
 * system does: every case here runs on both.
 */
#include "check.h"
#include "support_memory.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE = 65536 };

/* One of the two, with an empty folder. */
typedef struct place {
  const ps_env *env;
  memory *fs; /* NULL: the real one */
  char folder[64];
} place;

static const char *path_of(const place *p, const char *name) {
  static char paths[4][128];
  static uint32_t next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", p->folder, name);
  return path;
}

static void with_each(void (*body)(place *p)) {
  place real = {.env = ps_env_posix()};
  strcpy(real.folder, "/tmp/pystore-env-XXXXXX");
  REQUIRE(mkdtemp(real.folder) != NULL);
  body(&real);
  (void)unlink(path_of(&real, "a"));
  (void)unlink(path_of(&real, "b"));
  (void)rmdir(real.folder);
  memory *fs = memory_new(SIZE);
  place model = {.env = &fs->env, .fs = fs, .folder = "folder"};
  body(&model);
  CHECK(0, memory_held(fs));
  memory_free(fs);
}

static int32_t created(place *p, const char *name) {
  int32_t file = p->env->open(p->env->self, path_of(p, name), PS_FILE_CREATE);
  CHECK_TRUE(file >= 0);
  return file;
}

static void open_and_close(place *p) {
  const ps_env *env = p->env;
  CHECK(-ENOENT, env->open(env->self, path_of(p, "a"), PS_FILE_READ));
  CHECK(-ENOENT, env->open(env->self, path_of(p, "a"), PS_FILE_WRITE));
  CHECK(0, env->close(env->self, created(p, "a")));
  CHECK(-EEXIST, env->open(env->self, path_of(p, "a"), PS_FILE_CREATE));
  int32_t file = env->open(env->self, path_of(p, "a"), PS_FILE_WRITE);
  CHECK(0, env->size(env->self, file));
  CHECK(0, env->close(env->self, file));
}

static void files_open_as_asked(void) {
  with_each(open_and_close);
}

static void read_and_write(place *p) {
  const ps_env *env = p->env;
  uint8_t bytes[5000], back[9000];
  check_random_fill(bytes, sizeof bytes);
  int32_t file = created(p, "a");
  CHECK(5000, env->write(env->self, file, bytes, 5000, 3000));
  CHECK(8000, env->size(env->self, file));
  CHECK(8000, env->read(env->self, file, back, 9000, 0));
  for (uint32_t i = 0; i < 3000; i++)
    CHECK(0, back[i]);
  CHECK_BYTES(bytes, back + 3000, 5000);
  CHECK(0, env->read(env->self, file, back, 10, 8000));
  CHECK(1, env->read(env->self, file, back, 10, 7999));
  CHECK(0, env->sync(env->self, file));
  CHECK(0, env->writeback(env->self, file, 0, 4096));
  CHECK(0, env->close(env->self, file));
}

static void what_is_written_is_read(void) {
  with_each(read_and_write);
}

static void allocate_and_zero(place *p) {
  const ps_env *env = p->env;
  uint8_t bytes[3 * 4096 + 100], back[SIZE];
  memset(bytes, 0x5A, sizeof bytes);
  int32_t file = created(p, "a");
  CHECK(0, env->allocate(env->self, file, 0, SIZE));
  CHECK(SIZE, env->size(env->self, file));
  CHECK(0, env->data_end(env->self, file, 0, SIZE));
  uint64_t size = sizeof bytes;
  CHECK(size, env->write(env->self, file, bytes, size, 1000));
  CHECK(1000 + size, env->data_end(env->self, file, 0, SIZE));
  CHECK(1000 + size, env->data_end(env->self, file, 5000, SIZE - 5000));
  CHECK(1000 + size,
        env->data_end(env->self, file, 1000 + size, SIZE - 1000 - size));
  for (uint64_t at = 9000; at > 0; at = at > 2000 ? at - 1333 : 0) {
    int32_t how = env->zero(env->self, file, at, SIZE - at);
    CHECK_TRUE(how == PS_ZEROED || how == PS_PUNCHED);
    CHECK(SIZE, env->size(env->self, file));
    CHECK(0, env->allocate(env->self, file, at, SIZE - at));
    CHECK(at, env->data_end(env->self, file, at, SIZE - at));
    CHECK(SIZE, env->read(env->self, file, back, SIZE, 0));
    for (uint64_t i = 0; i < SIZE; i++)
      if (!CHECK(i >= 1000 && i < at ? 0x5A : 0, back[i]))
        break;
  }
  CHECK(PS_ZEROED, env->zero(env->self, file, SIZE, 0));
  CHECK(0, env->close(env->self, file));
}

static void zeroed_ranges_read_as_zero(void) {
  with_each(allocate_and_zero);
}

static void last_byte(place *p) {
  const ps_env *env = p->env;
  int32_t file = created(p, "a");
  CHECK(0, env->allocate(env->self, file, 0, SIZE));
  static const uint64_t places[] = {0, 1, 4095, 4096, 40000, SIZE - 1};
  uint8_t one = 1;
  for (uint32_t i = 0; i < 6; i++) {
    CHECK(1, env->write(env->self, file, &one, 1, places[i]));
    CHECK(places[i] + 1, env->data_end(env->self, file, 0, SIZE));
    CHECK(places[i] + 1,
          env->data_end(env->self, file, places[i], SIZE - places[i]));
  }
  CHECK(1, env->data_end(env->self, file, 0, 1));
  CHECK(4097, env->data_end(env->self, file, 10, 30000));
  CHECK(0, env->close(env->self, file));
}

static void the_end_of_the_data_is_found(void) {
  with_each(last_byte);
}

typedef struct seen {
  uint32_t files;
  int64_t sizes;
  uint32_t folders;
} seen;

static void see(void *argument, const char *name, int64_t size_bytes) {
  seen *s = argument;
  CHECK_TRUE(name[0] == 'a' || name[0] == 'b');
  s->folders += size_bytes < 0;
  s->files += size_bytes >= 0;
  s->sizes += size_bytes;
}

static void names_and_lists(place *p) {
  const ps_env *env = p->env;
  int32_t file = created(p, "a");
  CHECK(3, env->write(env->self, file, "abc", 3, 0));
  CHECK(0, env->rename(env->self, path_of(p, "a"), path_of(p, "b")));
  CHECK(0, env->sync_directory(env->self, p->folder));
  CHECK(-ENOENT, env->open(env->self, path_of(p, "a"), PS_FILE_READ));
  seen found = {0};
  CHECK(0, env->list(env->self, p->folder, see, &found));
  CHECK(1, found.files);
  CHECK(3, found.sizes);
  CHECK(-ENOENT, env->rename(env->self, path_of(p, "a"), path_of(p, "b")));
  CHECK(-ENOENT, env->rename_new(env->self, path_of(p, "a"), path_of(p, "c")));
  CHECK(0, env->rename_new(env->self, path_of(p, "b"), path_of(p, "c")));
  int32_t other = created(p, "a");
  CHECK(-EEXIST, env->rename_new(env->self, path_of(p, "a"), path_of(p, "c")));
  CHECK(3, env->size(env->self, file));
  CHECK(0, env->close(env->self, other));
  CHECK(0, env->remove(env->self, path_of(p, "a")));
  CHECK(0, env->rename_new(env->self, path_of(p, "c"), path_of(p, "b")));
  CHECK(1, env->links(env->self, file));
  CHECK(0, env->remove(env->self, path_of(p, "b")));
  CHECK(0, env->links(env->self, file));
  CHECK(-ENOENT, env->remove(env->self, path_of(p, "b")));
  CHECK(3, env->size(env->self, file)); /* open, it outlives its name */
  CHECK(0, env->close(env->self, file));
  CHECK_TRUE(env->free_bytes(env->self, p->folder) > 0);
}

static void names_move_and_go(void) {
  with_each(names_and_lists);
}

static void mappings(place *p) {
  const ps_env *env = p->env;
  int32_t file = created(p, "a");
  CHECK(0, env->allocate(env->self, file, 0, SIZE));
  const uint8_t *data = NULL;
  int32_t mapped = env->map(env->self, file, SIZE, &data);
  CHECK_TRUE(mapped == PS_MAPPED || mapped == PS_MAPPED_BY_FILE);
  CHECK(5, env->write(env->self, file, "hello", 5, 9000));
  CHECK(0, env->populate(env->self, file, data, 9000, 5));
  CHECK_BYTES("hello", data + 9000, 5);
  CHECK(0, env->populate_exact(env->self, file, data, 9000, 5));
  CHECK(0, env->populate_exact(env->self, file, data, SIZE - 8, 8));
  env->prefetch(env->self, data, 100, 5000);
  if (p->fs != NULL)
    memory_at(p->fs, path_of(p, "a"))->size = 8192;
  else
    CHECK(0, truncate(path_of(p, "a"), 8192));
  CHECK(0, env->populate(env->self, file, data, 8000, 192));
  CHECK(-EFAULT, env->populate(env->self, file, data, 9000, 5));
  CHECK(-EFAULT, env->populate_exact(env->self, file, data, 9000, 5));
  env->unmap(env->self, data, SIZE);
  CHECK(0, env->close(env->self, file));
}

static void a_mapping_shows_what_is_written_and_what_is_cut_off(void) {
  with_each(mappings);
}

/* Kept pages go on showing what they showed, and all others follow the file. */
static void keeping(place *p) {
  const ps_env *env = p->env;
  uint64_t page = p->fs != NULL ? 4096 : (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t size = 6 * page;
  uint64_t at = 2 * page - 2;
  int32_t file = created(p, "a");
  CHECK(0, env->allocate(env->self, file, 0, size));
  CHECK(4, env->write(env->self, file, "kept", 4, at));
  CHECK(5, env->write(env->self, file, "other", 5, 4 * page));
  const uint8_t *data = NULL;
  const uint8_t *later = NULL;
  CHECK_TRUE(env->map(env->self, file, size, &data) >= 0);
  for (uint32_t again = 0; again < 2; again++) {
    CHECK(0, env->populate_exact(env->self, file, data, at, 4));
    CHECK(0, env->keep(env->self, data, at, 4));
    CHECK_BYTES("kept", data + at, 4);
    CHECK(4, env->write(env->self, file, "gone", 4, at));
    CHECK_BYTES("kept", data + at, 4);
  }
  CHECK_TRUE(env->map(env->self, file, size, &later) >= 0);
  CHECK_BYTES("gone", later + at, 4);
  CHECK_BYTES("other", data + 4 * page, 5);
  if (p->fs == NULL) {
    CHECK(5, env->write(env->self, file, "OTHER", 5, 4 * page));
    CHECK_BYTES("OTHER", data + 4 * page, 5);
    CHECK(0, truncate(path_of(p, "a"), 0));
  }
  CHECK_BYTES("kept", data + at, 4);
  env->unmap(env->self, data, size);
  env->unmap(env->self, later, size);
  CHECK(0, env->close(env->self, file));
}

static void kept_pages_show_what_they_showed(void) {
  with_each(keeping);
}

static void clocks(place *p) {
  const ps_env *env = p->env;
  int64_t wall = env->wall_ms(env->self);
  int64_t boot = env->boottime_ns(env->self);
  CHECK_TRUE(wall > 1600000000000);
  CHECK_TRUE(boot > 0);
  CHECK_TRUE(env->wall_ms(env->self) >= wall);
  CHECK_TRUE(env->boottime_ns(env->self) >= boot);
  boot = env->boottime_ns(env->self);
  env->pause(env->self, 1000000);
  CHECK_TRUE(env->boottime_ns(env->self) >= boot + 1000000);
}

static void clocks_go_on(void) {
  with_each(clocks);
}

CHECK_MAIN(CASE(files_open_as_asked), CASE(what_is_written_is_read),
           CASE(zeroed_ranges_read_as_zero), CASE(the_end_of_the_data_is_found),
           CASE(names_move_and_go),
           CASE(a_mapping_shows_what_is_written_and_what_is_cut_off),
           CASE(kept_pages_show_what_they_showed), CASE(clocks_go_on))
