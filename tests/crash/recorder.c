/* Records what a process does to the files below one directory.
 *
 * Loaded before libc (LD_PRELOAD), it makes each system call itself and adds a
 * copy of it, payload included, to a trace: one call at a time, so the order in
 * the trace is the order of the effects. Stores into a mapping are no calls: a
 * mapped live page is compared with its last copy before each entry.
 *
 * The process talks to it through trace_mark and trace_fail; the reader of the
 * trace is recording.py, which has the same layout. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 1024
#define PAGES_MAX 16
#define PAGE 4096
#define TRACE_FILE 900

enum kind {
  KIND_MARK = 1,
  KIND_OPEN,     /* path; a = flags; file = descriptor */
  KIND_CLOSE,    /* file */
  KIND_WRITE,    /* file; a = offset; data */
  KIND_SIZE,     /* file; a = size */
  KIND_ALLOCATE, /* file; a = offset, b = length, mode */
  KIND_RENAME,   /* path, other path */
  KIND_REMOVE,   /* path */
  KIND_MKDIR,    /* path */
  KIND_RMDIR,    /* path */
  KIND_SYNC,     /* file; result */
  KIND_MAP,      /* file; a = number of the mapping */
  KIND_STORE,    /* a = number of the mapping; data: the whole page */
  KIND_MSYNC,    /* a = number of the mapping */
  KIND_LINK      /* path, other path */
};

typedef struct entry {
  uint32_t kind;
  int32_t file;
  int32_t result; /* 0 or a negative errno */
  uint32_t mode;
  int64_t a;
  int64_t b;
  uint32_t path_size;
  uint32_t other_size;
  uint64_t data_size;
} entry;

typedef struct mapping {
  uint8_t *page; /* NULL: free */
  uint8_t copy[PAGE];
} mapping;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_size;
static int trace = -1;
static int offers_zero_range;
static long kill_after = -1; /* effects until the process kills itself */
static uint8_t is_tracked[FILES_MAX];
static mapping mappings[PAGES_MAX];
static char fail_path[PATH_MAX];
static int fail_errno;

__attribute__((constructor)) static void begin(void) {
  const char *below = getenv("TRACE_ROOT");
  const char *to = getenv("TRACE_FILE");
  const char *kill_text = getenv("TRACE_KILL_AFTER");
  if (below == NULL || to == NULL || trace >= 0)
    return;
  root_size = strlen(below);
  memcpy(root, below, root_size + 1);
  offers_zero_range = getenv("TRACE_ZERO_RANGE") != NULL;
  if (kill_text != NULL)
    kill_after = atol(kill_text);
  int file = (int)syscall(SYS_openat, AT_FDCWD, to,
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  trace = (int)syscall(SYS_dup3, file, TRACE_FILE, O_CLOEXEC);
  syscall(SYS_close, file);
}

static void put(entry e, const char *path, const char *other,
                const void *data) {
  e.path_size = path == NULL ? 0 : (uint32_t)strlen(path);
  e.other_size = other == NULL ? 0 : (uint32_t)strlen(other);
  struct iovec parts[4] = {{&e, sizeof e},
                           {(void *)(uintptr_t)path, e.path_size},
                           {(void *)(uintptr_t)other, e.other_size},
                           {(void *)(uintptr_t)data, e.data_size}};
  ssize_t size = (ssize_t)(sizeof e + e.path_size + e.other_size + e.data_size);
  if (syscall(SYS_writev, trace, parts, 4) != size) {
    static const char text[] = "recorder: cannot write the trace\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    abort();
  }
  if (e.kind != KIND_MARK && e.kind != KIND_MAP && e.kind != KIND_CLOSE &&
      kill_after > 0 && --kill_after == 0)
    kill(getpid(), SIGKILL);
}

/* What was stored into mappings since the last entry. */
static void put_stores(void) {
  for (int i = 0; i < PAGES_MAX; i++) {
    mapping *m = &mappings[i];
    if (m->page == NULL || memcmp(m->page, m->copy, PAGE) == 0)
      continue;
    memcpy(m->copy, m->page, PAGE);
    put((entry){.kind = KIND_STORE, .a = i, .data_size = PAGE}, NULL, NULL,
        m->copy);
  }
}

static void enter(void) {
  pthread_mutex_lock(&lock);
  if (trace >= 0)
    put_stores();
}

/* errno survives; `result` is a system call's. */
static long leave(long result) {
  int kept = errno;
  pthread_mutex_unlock(&lock);
  errno = kept;
  return result;
}

/* The absolute path, or NULL if it is not below the root. */
static const char *locate(int folder, const char *path, char *buffer) {
  if (trace < 0 || path == NULL)
    return NULL;
  buffer[0] = 0;
  if (path[0] != '/' && folder == AT_FDCWD) {
    if (getcwd(buffer, PATH_MAX / 2) == NULL)
      return NULL;
  } else if (path[0] != '/') {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, buffer, PATH_MAX / 2);
    buffer[size < 0 ? 0 : size] = 0;
  }
  size_t used = strlen(buffer);
  snprintf(buffer + used, PATH_MAX - used, "%s%s", used > 0 ? "/" : "", path);
  int is_below = strncmp(buffer, root, root_size) == 0 &&
                 (buffer[root_size] == '/' || buffer[root_size] == 0);
  return is_below ? buffer : NULL;
}

static int tracked(int file) {
  return trace >= 0 && file >= 0 && file < FILES_MAX && is_tracked[file];
}

static int32_t answer(long result) {
  return result < 0 ? -errno : 0;
}

/* ---- What the process says ------------------------------------------- */

void trace_mark(const char *text, uint64_t size);
void trace_fail(const char *path, int number);

/* A note in the trace: what the process promised, to whom it matters. */
void trace_mark(const char *text, uint64_t size) {
  enter();
  if (trace >= 0)
    put((entry){.kind = KIND_MARK, .data_size = size}, NULL, NULL, text);
  leave(0);
}

/* The next sync of a file whose path contains `path` fails, once. */
void trace_fail(const char *path, int number) {
  enter();
  snprintf(fail_path, sizeof fail_path, "%s", path);
  fail_errno = number;
  leave(0);
}

/* ---- Names ----------------------------------------------------------- */

static int do_open(int folder, const char *path, int flags, unsigned mode) {
  char buffer[PATH_MAX];
  enter();
  const char *known = locate(folder, path, buffer);
  long file = syscall(SYS_openat, folder, path, flags, mode);
  if (known != NULL && file >= 0 && file < FILES_MAX) {
    is_tracked[file] = 1;
    put((entry){.kind = KIND_OPEN, .file = (int32_t)file, .a = flags}, known,
        NULL, NULL);
  }
  return (int)leave(file);
}

#define OPEN_BODY(folder)                                                      \
  unsigned mode = 0;                                                           \
  if (flags & (O_CREAT | O_TMPFILE)) {                                         \
    va_list list;                                                              \
    va_start(list, flags);                                                     \
    mode = va_arg(list, unsigned);                                             \
    va_end(list);                                                              \
  }                                                                            \
  return do_open(folder, path, flags, mode)

int open(const char *path, int flags, ...) {
  OPEN_BODY(AT_FDCWD);
}
int open64(const char *path, int flags, ...) {
  OPEN_BODY(AT_FDCWD);
}
int openat(int folder, const char *path, int flags, ...) {
  OPEN_BODY(folder);
}
int openat64(int folder, const char *path, int flags, ...) {
  OPEN_BODY(folder);
}
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) {
  return do_open(AT_FDCWD, path, flags, 0);
}
int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags) {
  return do_open(AT_FDCWD, path, flags, 0);
}

int close(int file) {
  enter();
  long result = syscall(SYS_close, file);
  if (tracked(file)) {
    is_tracked[file] = 0;
    put((entry){.kind = KIND_CLOSE, .file = file}, NULL, NULL, NULL);
  }
  return (int)leave(result);
}

static int do_rename(int from_folder, const char *from, int to_folder,
                     const char *to, unsigned flags) {
  char one[PATH_MAX];
  char two[PATH_MAX];
  enter();
  const char *known_from = locate(from_folder, from, one);
  const char *known_to = locate(to_folder, to, two);
  long result = syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  if (result == 0 && known_from != NULL && known_to != NULL)
    put((entry){.kind = KIND_RENAME}, known_from, known_to, NULL);
  return (int)leave(result);
}

int rename(const char *from, const char *to) {
  return do_rename(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  return do_rename(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char *from, int to_folder, const char *to,
              unsigned flags) {
  return do_rename(from_folder, from, to_folder, to, flags);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to,
           int flags) {
  char one[PATH_MAX];
  char two[PATH_MAX];
  enter();
  const char *known_from = locate(from_folder, from, one);
  const char *known_to = locate(to_folder, to, two);
  long result = syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
  if (result == 0 && known_from != NULL && known_to != NULL)
    put((entry){.kind = KIND_LINK}, known_from, known_to, NULL);
  return (int)leave(result);
}
int link(const char *from, const char *to) {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

static int do_remove(int folder, const char *path, int flags) {
  char buffer[PATH_MAX];
  enter();
  const char *known = locate(folder, path, buffer);
  long result = syscall(SYS_unlinkat, folder, path, flags);
  uint32_t kind = flags & AT_REMOVEDIR ? KIND_RMDIR : KIND_REMOVE;
  if (result == 0 && known != NULL)
    put((entry){.kind = kind}, known, NULL, NULL);
  return (int)leave(result);
}

int unlink(const char *path) {
  return do_remove(AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char *path, int flags) {
  return do_remove(folder, path, flags);
}
int rmdir(const char *path) {
  return do_remove(AT_FDCWD, path, AT_REMOVEDIR);
}

static int do_mkdir(int folder, const char *path, mode_t mode) {
  char buffer[PATH_MAX];
  enter();
  const char *known = locate(folder, path, buffer);
  long result = syscall(SYS_mkdirat, folder, path, mode);
  if (result == 0 && known != NULL)
    put((entry){.kind = KIND_MKDIR}, known, NULL, NULL);
  return (int)leave(result);
}

int mkdir(const char *path, mode_t mode) {
  return do_mkdir(AT_FDCWD, path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
  return do_mkdir(folder, path, mode);
}

/* ---- Content --------------------------------------------------------- */

static void put_write(int file, off_t at, const void *data, long result) {
  if (result > 0 && tracked(file))
    put((entry){.kind = KIND_WRITE,
                .file = file,
                .a = at,
                .data_size = (uint64_t)result},
        NULL, NULL, data);
}

static ssize_t do_pwrite(int file, const void *data, size_t size, off_t at) {
  enter();
  long result = syscall(SYS_pwrite64, file, data, size, at);
  put_write(file, at, data, result);
  return leave(result);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  return do_pwrite(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  return do_pwrite(file, data, size, at);
}

ssize_t write(int file, const void *data, size_t size) {
  if (!tracked(file))
    return syscall(SYS_write, file, data, size);
  enter();
  off_t at = lseek(file, 0, SEEK_CUR);
  long result = syscall(SYS_write, file, data, size);
  put_write(file, at, data, result);
  return leave(result);
}

/* What is copied is recorded as a write: the bytes are read back. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at,
                        size_t size, unsigned int flags) {
  if (!tracked(to))
    return syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
  enter();
  off_t at = to_at ? *to_at : lseek(to, 0, SEEK_CUR);
  off_t read_at = from_at ? *from_at : lseek(from, 0, SEEK_CUR);
  long result =
      syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
  void *data = result > 0 ? malloc((size_t)result) : NULL;
  if (data != NULL &&
      syscall(SYS_pread64, from, data, result, read_at) == result)
    put_write(to, at, data, result);
  free(data);
  return leave(result);
}

static ssize_t do_pwritev(int file, const struct iovec *parts, int count,
                          off_t at) {
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    ssize_t done = do_pwrite(file, parts[i].iov_base, parts[i].iov_len, at);
    if (done < 0)
      return total > 0 ? total : done;
    total += done;
    at += done;
    if ((size_t)done < parts[i].iov_len)
      break;
  }
  return total;
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
  return do_pwritev(file, parts, count, at);
}
ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) {
  return do_pwritev(file, parts, count, at);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
  if (!tracked(file))
    return syscall(SYS_writev, file, parts, count);
  off_t at = lseek(file, 0, SEEK_CUR);
  ssize_t done = do_pwritev(file, parts, count, at);
  if (done > 0)
    lseek(file, at + done, SEEK_SET);
  return done;
}

static int do_truncate(int file, off_t size) {
  enter();
  long result = syscall(SYS_ftruncate, file, size);
  if (result == 0 && tracked(file))
    put((entry){.kind = KIND_SIZE, .file = file, .a = size}, NULL, NULL, NULL);
  return (int)leave(result);
}

int ftruncate(int file, off_t size) {
  return do_truncate(file, size);
}
int ftruncate64(int file, off64_t size) {
  return do_truncate(file, size);
}

/* A file system without ZERO_RANGE does as one that has it, if asked to. */
static long zero_range(int file, int mode, off_t at, off_t size) {
  int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  long result = syscall(SYS_fallocate, file, mode, at, size);
  if (result == 0 || !offers_zero_range || errno != EOPNOTSUPP)
    return result;
  result = syscall(SYS_fallocate, file, punch, at, size);
  if (result == 0)
    result = syscall(SYS_fallocate, file, FALLOC_FL_KEEP_SIZE, at, size);
  return result;
}

static int do_allocate(int file, int mode, off_t at, off_t size) {
  enter();
  long result = mode & FALLOC_FL_ZERO_RANGE
                    ? zero_range(file, mode, at, size)
                    : syscall(SYS_fallocate, file, mode, at, size);
  if (result == 0 && tracked(file))
    put((entry){.kind = KIND_ALLOCATE,
                .file = file,
                .mode = (uint32_t)mode,
                .a = at,
                .b = size},
        NULL, NULL, NULL);
  return (int)leave(result);
}

int fallocate(int file, int mode, off_t at, off_t size) {
  return do_allocate(file, mode, at, size);
}
int fallocate64(int file, int mode, off64_t at, off64_t size) {
  return do_allocate(file, mode, at, size);
}
int posix_fallocate(int file, off_t at, off_t size) {
  return do_allocate(file, 0, at, size) < 0 ? errno : 0;
}
int posix_fallocate64(int file, off64_t at, off64_t size) {
  return do_allocate(file, 0, at, size) < 0 ? errno : 0;
}

/* ---- Syncs and mappings ---------------------------------------------- */

static int must_fail(int file) {
  char link[64];
  char path[PATH_MAX];
  if (fail_errno == 0 || !tracked(file))
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof path - 1);
  path[size < 0 ? 0 : size] = 0;
  return strstr(path, fail_path) != NULL;
}

static int do_sync(long number, int file) {
  enter();
  long result;
  if (must_fail(file)) {
    errno = fail_errno;
    fail_errno = 0;
    result = -1;
  } else {
    result = syscall(number, file);
  }
  if (tracked(file))
    put((entry){.kind = KIND_SYNC, .file = file, .result = answer(result)},
        NULL, NULL, NULL);
  return (int)leave(result);
}

int fsync(int file) {
  return do_sync(SYS_fsync, file);
}
int fdatasync(int file) {
  return do_sync(SYS_fdatasync, file);
}

static int is_live(int file) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof path - 1);
  return size > 5 && memcmp(path + size - 5, "/live", 5) == 0;
}

static void *do_map(void *at, size_t size, int protection, int flags, int file,
                    off_t offset) {
  enter();
  void *mapped =
      (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
  if (mapped != MAP_FAILED && tracked(file) && protection & PROT_WRITE &&
      flags & MAP_SHARED && is_live(file)) {
    int i = 0;
    while (i < PAGES_MAX - 1 && mappings[i].page != NULL)
      i++;
    mappings[i].page = mapped;
    memcpy(mappings[i].copy, mapped, PAGE);
    put((entry){.kind = KIND_MAP, .file = file, .a = i}, NULL, NULL, NULL);
  }
  leave(0);
  return mapped;
}

void *mmap(void *at, size_t size, int protection, int flags, int file,
           off_t offset) {
  return do_map(at, size, protection, flags, file, offset);
}
void *mmap64(void *at, size_t size, int protection, int flags, int file,
             off64_t offset) {
  return do_map(at, size, protection, flags, file, offset);
}

static int mapping_at(const void *at) {
  for (int i = 0; i < PAGES_MAX; i++)
    if (at != NULL && mappings[i].page == at)
      return i;
  return -1;
}

int munmap(void *at, size_t size) {
  enter();
  int i = mapping_at(at);
  if (i >= 0)
    mappings[i].page = NULL;
  return (int)leave(syscall(SYS_munmap, at, size));
}

int msync(void *at, size_t size, int flags) {
  enter();
  int i = mapping_at(at);
  long result = syscall(SYS_msync, at, size, flags);
  if (i >= 0 && result == 0)
    put((entry){.kind = KIND_MSYNC, .a = i}, NULL, NULL, NULL);
  return (int)leave(result);
}
