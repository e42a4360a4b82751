/* The environment of production: POSIX calls, with what Linux adds. */
#include "env.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "private_copy.h"

#if defined(__linux__) && !defined(PS_PORTABLE)
#define PS_LINUX 1
#include <linux/falloc.h>
#else
#define PS_LINUX 0
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define ZERO_CHUNK 65536U
#define PAGE 4096U
#define RESIDENT_PAGES 2048U
#define AROUND 65536U /* what Linux maps around a fault */

static const uint8_t zeros[ZERO_CHUNK];

/* A directory that is kept open: the paths below it are looked up from there,
 * wherever it has been renamed to, and whatever has its name since. */
typedef struct anchor {
  ps_env env;
  int directory;
  size_t size; /* of root */
  char root[];
} anchor;

/* From where to look a path up; *path becomes what is looked up there. */
static int from_of(void *self, const char **path) {
  const anchor *a = self;
  if (a == NULL || strncmp(*path, a->root, a->size) != 0)
    return AT_FDCWD;
  if ((*path)[a->size] == 0) {
    *path = ".";
    return a->directory;
  }
  if ((*path)[a->size] != '/')
    return AT_FDCWD;
  *path += a->size;
  *path += strspn(*path, "/");
  return a->directory;
}

static int32_t posix_open(void *self, const char *path, int32_t mode) {
  int flags = O_CLOEXEC | O_NONBLOCK; /* no wait for the other end of a pipe */
  if (mode == PS_FILE_READ)
    flags |= O_RDONLY;
  if (mode == PS_FILE_WRITE)
    flags |= O_RDWR;
  if (mode == PS_FILE_CREATE)
    flags |= O_RDWR | O_CREAT | O_EXCL;
  int from = from_of(self, &path);
  int file = openat(from, path, flags, 0644);
  if (file < 0)
    return -errno;
  struct stat status;
  int32_t result = fstat(file, &status) < 0  ? -errno
                   : S_ISREG(status.st_mode) ? 0
                   : S_ISDIR(status.st_mode) ? -EISDIR
                                             : -EINVAL;
  if (result == 0)
    return file;
  close(file);
  return result;
}

static int32_t posix_close(void *self, int32_t file) {
  (void)self;
  return close(file) < 0 ? -errno : 0;
}

static int64_t posix_size(void *self, int32_t file) {
  (void)self;
  struct stat status;
  return fstat(file, &status) < 0 ? -errno : (int64_t)status.st_size;
}

static int64_t posix_links(void *self, int32_t file) {
  (void)self;
#if PS_LINUX && defined(STATX_NLINK)
  /* A call that asks for the times of a file as well makes its next write note
   * a new one, and so its next sync wait for the journal: a fifth of its speed.
   * */
  struct statx links;
  if (statx(file, "", AT_EMPTY_PATH, STATX_NLINK, &links) == 0 &&
      links.stx_mask & STATX_NLINK)
    return links.stx_nlink;
    /* Some sandboxes forbid the call, some file systems do not fill that in. */
#endif
  struct stat status;
  if (fstat(file, &status) < 0)
    return -errno;
  return (int64_t)status.st_nlink;
}

static int32_t posix_identity(void *self, int32_t file, uint64_t *numbers) {
  (void)self;
  struct stat status;
  if (fstat(file, &status) < 0)
    return -errno;
  numbers[0] = (uint64_t)status.st_dev;
  numbers[1] = (uint64_t)status.st_ino;
  return 0;
}

static int64_t posix_read(void *self, int32_t file, void *to, uint64_t size,
                          uint64_t at) {
  (void)self;
  ssize_t done;
  do
    done = pread(file, to, size, (off_t)at);
  while (done < 0 && errno == EINTR);
  return done < 0 ? -errno : (int64_t)done;
}

static int64_t posix_write(void *self, int32_t file, const void *from,
                           uint64_t size, uint64_t at) {
  (void)self;
  ssize_t done;
  do
    done = pwrite(file, from, size, (off_t)at);
  while (done < 0 && errno == EINTR);
  return done < 0 ? -errno : (int64_t)done;
}

static int reads_zero(int32_t file, uint64_t at, uint64_t size) {
  uint8_t buffer[PAGE];
  assert(size <= PAGE);
  int64_t got = posix_read(NULL, file, buffer, size, at);
  return got > 0 && memcmp(buffer, zeros, (size_t)got) == 0;
}

/* Writes zeros where there is no better call, or where it is refused. A write
 * into a hole needs space, which a full disk has not: there the hole, which
 * reads as zeros, stays one. */
static int32_t write_zeros(int32_t file, uint64_t at, uint64_t size) {
  while (size > 0) {
    uint64_t chunk = PAGE - at % PAGE;
    if (chunk > size)
      chunk = size;
    int64_t done = posix_write(NULL, file, zeros, chunk, at);
    if (done == -ENOSPC && reads_zero(file, at, chunk))
      done = (int64_t)chunk;
    if (done < 0)
      return (int32_t)done;
    assert((uint64_t)done <= chunk);
    at += (uint64_t)done;
    size -= (uint64_t)done;
  }
  return PS_ZEROED;
}

static int32_t posix_allocate(void *self, int32_t file, uint64_t at,
                              uint64_t size) {
#if PS_LINUX
  int result;
  do
    result = fallocate(file, 0, (off_t)at, (off_t)size);
  while (result < 0 && errno == EINTR);
  if (result == 0)
    return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS)
    return -errno;
#endif
  /* No allocation here: a sparse file of the right size, as Java makes. */
  int64_t now = posix_size(self, file);
  if (now < 0)
    return (int32_t)now;
  if ((uint64_t)now >= at + size)
    return 0;
  return ftruncate(file, (off_t)(at + size)) < 0 ? -errno : 0;
}

static int32_t posix_zero(void *self, int32_t file, uint64_t at,
                          uint64_t size) {
  (void)self;
  if (size == 0)
    return PS_ZEROED;
#if PS_LINUX
  int keep = FALLOC_FL_KEEP_SIZE;
  if (fallocate(file, FALLOC_FL_ZERO_RANGE | keep, (off_t)at, (off_t)size) == 0)
    return PS_ZEROED;
  if (fallocate(file, FALLOC_FL_PUNCH_HOLE | keep, (off_t)at, (off_t)size) == 0)
    return PS_PUNCHED;
#endif
  return write_zeros(file, at, size);
}

/* End of the last non-zero byte of [at, at + size), read backwards. */
static int64_t last_nonzero(int32_t file, uint64_t at, uint64_t size) {
  uint8_t buffer[ZERO_CHUNK];
  while (size > 0) {
    uint64_t chunk = size < ZERO_CHUNK ? size : ZERO_CHUNK;
    uint64_t from = at + size - chunk;
    int64_t got = posix_read(NULL, file, buffer, chunk, from);
    if (got < 0)
      return got;
    for (int64_t i = got; i > 0; i--)
      if (buffer[i - 1] != 0)
        return (int64_t)from + i;
    size -= chunk;
  }
  return (int64_t)at;
}

static int64_t posix_data_end(void *self, int32_t file, uint64_t at,
                              uint64_t size) {
  (void)self;
#if PS_LINUX
  uint64_t limit = at + size;
  int64_t end = (int64_t)at;
  uint64_t from = at;
  while (from < limit) {
    off_t data = lseek(file, (off_t)from, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
      return end; /* only a hole follows */
    if (data < 0)
      break; /* not offered by this file system: read it all */
    if ((uint64_t)data >= limit)
      return end;
    off_t hole = lseek(file, data, SEEK_HOLE);
    if (hole < 0)
      break;
    uint64_t stop = (uint64_t)hole < limit ? (uint64_t)hole : limit;
    int64_t last = last_nonzero(file, (uint64_t)data, stop - (uint64_t)data);
    if (last < 0)
      return last;
    if (last > (int64_t)data)
      end = last;
    from = stop;
  }
  if (from >= limit)
    return end;
#endif
  return last_nonzero(file, at, size);
}

static int32_t posix_sync(void *self, int32_t file) {
  (void)self;
#if defined(__APPLE__)
  return fcntl(file, F_FULLFSYNC) < 0 ? -errno : 0;
#else
  return fdatasync(file) < 0 ? -errno : 0;
#endif
}

static int32_t posix_sync_directory(void *self, const char *path) {
  int from = from_of(self, &path);
  int file = openat(from, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return -errno;
  int32_t result = fsync(file) < 0 ? -errno : 0;
  close(file);
  return result;
}

static int32_t posix_writeback(void *self, int32_t file, uint64_t at,
                               uint64_t size) {
  (void)self;
#if PS_LINUX
  if (sync_file_range(file, (off_t)at, (off_t)size, SYNC_FILE_RANGE_WRITE) < 0)
    return errno == ENOSYS ? 0 : -errno;
#else
  (void)file, (void)at, (void)size;
#endif
  return 0;
}

static int32_t posix_rename(void *self, const char *from, const char *to) {
  int old = from_of(self, &from);
  int new = from_of(self, &to);
  return renameat(old, from, new, to) < 0 ? -errno : 0;
}

/* Where the system has no rename that replaces nothing: a second name, which is
 * refused where the name is taken, then the first one goes. */
static int32_t link_and_unlink(int old, const char *from, int new,
                               const char *to) {
  if (linkat(old, from, new, to, 0) < 0)
    return -errno;
  return unlinkat(old, from, 0) < 0 ? -errno : 0;
}

static int32_t posix_rename_new(void *self, const char *from, const char *to) {
  int old = from_of(self, &from);
  int new = from_of(self, &to);
#if PS_LINUX && defined(RENAME_NOREPLACE)
  if (renameat2(old, from, new, to, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS)
    return -errno;
#endif
  return link_and_unlink(old, from, new, to);
}

static int32_t posix_remove(void *self, const char *path) {
  int from = from_of(self, &path);
  return unlinkat(from, path, 0) < 0 ? -errno : 0;
}

static int32_t posix_list(void *self, const char *path, ps_env_visit visit,
                          void *argument) {
  int from = from_of(self, &path);
  int file = openat(from, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return -errno;
  DIR *directory = fdopendir(file);
  if (directory == NULL) {
    int32_t failed = -errno;
    close(file);
    return failed;
  }
  int32_t result = 0;
  struct dirent *entry;
  while (errno = 0, (entry = readdir(directory)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    struct stat status;
    if (fstatat(dirfd(directory), entry->d_name, &status, 0) < 0) {
      if (errno != ENOENT) /* else removed since: not an entry any more */
        visit(argument, entry->d_name, PS_SIZE_FAILED - errno);
      continue;
    }
    int64_t size = S_ISREG(status.st_mode)   ? (int64_t)status.st_size
                   : S_ISDIR(status.st_mode) ? PS_SIZE_DIRECTORY
                                             : PS_SIZE_SPECIAL;
    visit(argument, entry->d_name, size);
  }
  if (result == 0 && errno != 0 && entry == NULL)
    result = -errno;
  closedir(directory);
  return result;
}

static int64_t posix_free_bytes(void *self, const char *path) {
  int from = from_of(self, &path);
  int file = openat(from, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return -errno;
  struct statvfs status;
  int64_t result = fstatvfs(file, &status) < 0
                       ? -errno
                       : (int64_t)(status.f_bavail * status.f_frsize);
  close(file);
  return result;
}

#if PS_LINUX
/* Of other users' files mincore says that all is in memory. */
static int32_t is_own(int32_t file) {
  struct stat status;
  return fstat(file, &status) == 0 && status.st_uid == geteuid();
}
#endif

static int32_t posix_map(void *self, int32_t file, uint64_t size,
                         const uint8_t **data) {
  (void)self;
  void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED)
    return -errno;
  *data = mapped;
#if PS_LINUX
  /* A log of a terabyte has a thousand segments: none keeps a descriptor where
   * the system can populate a mapping. A range of no bytes only asks that. */
  if (madvise(mapped, 0, MADV_POPULATE_READ) == 0)
    return is_own(file) ? PS_MAPPED : PS_MAPPED_UNSEEN;
#endif
  return PS_MAPPED_BY_FILE;
}

static void posix_unmap(void *self, const uint8_t *data, uint64_t size) {
  (void)self;
  munmap((void *)(uintptr_t)data, size);
}

static int32_t posix_resident(void *self, int32_t file, const uint8_t *data,
                              uint64_t at, uint64_t size) {
  (void)self;
#if PS_LINUX
  if (file == PS_FILE_UNSEEN || (file >= 0 && !is_own(file)))
    return 0;
  uint8_t pages[RESIDENT_PAGES];
  uint64_t from = at & ~(uint64_t)(PAGE - 1);
  while (from < at + size) {
    uint64_t count = (at + size - from + PAGE - 1) / PAGE;
    if (count > RESIDENT_PAGES)
      count = RESIDENT_PAGES;
    if (mincore((void *)((uintptr_t)data + from), count * PAGE, pages) < 0)
      return 0;
    uint8_t all = 1;
    for (uint64_t i = 0; i < count; i++)
      all &= pages[i];
    if (!(all & 1))
      return 0;
    from += count * PAGE;
  }
  return 1;
#else
  (void)file, (void)data, (void)at, (void)size;
  return 0;
#endif
}

/* Where the page begins that holds `at`; pages are of 4 to 64 KiB. */
static uint64_t page_start(uint64_t at) {
  return at & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

static int32_t posix_keep(void *self, const uint8_t *data, uint64_t at,
                          uint64_t size) {
  (void)self;
  uint64_t from = page_start(at);
  uint64_t past = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
  uint64_t length = page_start(at + size + past) - from;
  return ps_private_copy((void *)((uintptr_t)data + from), length);
}

static int32_t posix_populate(void *self, int32_t file, const uint8_t *data,
                              uint64_t at, uint64_t size) {
  uint64_t from = page_start(at);
  uint64_t length = at + size - from;
#if PS_LINUX
  uint8_t *start = (uint8_t *)(uintptr_t)data + from;
  int result;
  /* Cached pages are mapped in neighbourhoods: touching one page of each, and
   * checking the rest, costs half as much as touching every page. */
  if (length >= AROUND) {
    for (uint64_t i = 0; i < length; i += AROUND - (from + i) % AROUND)
      if (madvise(start + i, PAGE, MADV_POPULATE_READ) < 0)
        break;
    if (posix_resident(self, file, data, at, size))
      return 0;
  }
  do
    result = madvise(start, length, MADV_POPULATE_READ);
  while (result < 0 && errno == EINTR);
  if (result == 0)
    return 0;
  if (errno != EINVAL || file < 0)
    return -errno;
#else
  (void)data;
#endif
  /* An older system: read the range once; what can be read can be touched. */
  uint8_t buffer[ZERO_CHUNK];
  while (length > 0) {
    uint64_t chunk = length < ZERO_CHUNK ? length : ZERO_CHUNK;
    int64_t got = posix_read(self, file, buffer, chunk, from);
    if (got < 0)
      return (int32_t)got;
    if (got == 0)
      return -EFAULT;
    from += (uint64_t)got;
    length -= (uint64_t)got;
  }
  return 0;
}

static int32_t posix_populate_exact(void *self, int32_t file,
                                    const uint8_t *data, uint64_t at,
                                    uint64_t size) {
#if PS_LINUX
  if (posix_resident(self, file, data, at, size))
    return posix_populate(self, file, data, at, size);
  uint64_t from = page_start(at);
  uint8_t *start = (uint8_t *)(uintptr_t)data + from;
  uint64_t length = at + size - from;
  /* For these pages alone, and taken back: a scan of the mapping that runs
   * meanwhile is read ahead for, and memory that is in use must not seem idle.
   * */
  (void)madvise(start, length, MADV_RANDOM);
  int32_t result = posix_populate(self, file, data, at, size);
  (void)madvise(start, length, MADV_NORMAL);
  return result;
#else
  return posix_populate(self, file, data, at, size);
#endif
}

static void posix_prefetch(void *self, const uint8_t *data, uint64_t at,
                           uint64_t size) {
  (void)self;
  uint64_t from = page_start(at);
  (void)madvise((void *)((uintptr_t)data + from), at + size - from,
                MADV_WILLNEED);
}

static int64_t posix_wall_ms(void *self) {
  (void)self;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t ps_monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int64_t posix_boottime_ns(void *self) {
  (void)self;
  struct timespec now;
#if defined(__linux__)
  clock_gettime(CLOCK_BOOTTIME, &now);
#else
  clock_gettime(CLOCK_MONOTONIC, &now); /* counts sleep on macOS */
#endif
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void posix_pause(void *self, uint64_t ns) {
  (void)self;
  struct timespec length = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};
  nanosleep(&length, NULL);
}

const ps_env *ps_env_posix(void) {
  static const ps_env env = {
      .open = posix_open,
      .close = posix_close,
      .size = posix_size,
      .links = posix_links,
      .identity = posix_identity,
      .read = posix_read,
      .write = posix_write,
      .allocate = posix_allocate,
      .zero = posix_zero,
      .data_end = posix_data_end,
      .sync = posix_sync,
      .sync_directory = posix_sync_directory,
      .writeback = posix_writeback,
      .rename = posix_rename,
      .rename_new = posix_rename_new,
      .remove = posix_remove,
      .list = posix_list,
      .free_bytes = posix_free_bytes,
      .map = posix_map,
      .unmap = posix_unmap,
      .resident = posix_resident,
      .populate = posix_populate,
      .populate_exact = posix_populate_exact,
      .keep = posix_keep,
      .prefetch = posix_prefetch,
      .wall_ms = posix_wall_ms,
      .boottime_ns = posix_boottime_ns,
      .pause = posix_pause,
  };
  return &env;
}

int32_t ps_env_anchor(const char *root, const ps_env **made) {
  size_t size = strlen(root);
  while (size > 1 && root[size - 1] == '/')
    size--;
  anchor *a = malloc(sizeof *a + size + 1);
  if (a == NULL)
    return -ENOMEM;
  a->directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (a->directory < 0) {
    int32_t failed = -errno;
    free(a);
    return failed;
  }
  a->env = *ps_env_posix();
  a->env.self = a;
  a->size = size;
  memcpy(a->root, root, size);
  a->root[size] = 0;
  *made = &a->env;
  return 0;
}

void ps_env_close(const ps_env *env) {
  if (env == NULL)
    return;
  anchor *a = env->self;
  close(a->directory);
  free(a);
}
