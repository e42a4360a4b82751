/* One writer per store: Java's file lock, and a registry inside the process.
 *
 * The lock is of the open file description (Linux): it conflicts with Java's
 * record lock both ways, and no other descriptor of the file that this process
 * closes gives it up. A system without it gets a record lock, which any such
 * close drops; ps_lock_check and the incarnation in the live page are then all
 * that notices.
 */
#include "lock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

/* Which file or directory: the same numbers, the same inode. */
typedef struct place {
  dev_t device;
  ino_t inode;
} place;

struct ps_lock {
  ps_lock *next;
  place file_place;
  place directory;
  int file;                 /* -1: released, or of the parent process */
  _Atomic uint32_t holders; /* its owner, and the logs that check it */
  size_t name_at;           /* of the file's name in `path` */
  char path[];
};

#define OPEN_ATTEMPTS 10

/* What a writer holds: the byte that Java locks. */
static const struct flock byte_0 = {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
/* The system does not say who holds a lock of a file description. A record lock
 * on the next byte says it, to those who ask; nothing depends on it. */
static const struct flock byte_1 = {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static ps_lock *registry;

static void before_fork(void) {
  pthread_mutex_lock(&registry_lock);
}

static void after_fork(void) {
  pthread_mutex_unlock(&registry_lock);
}

/* The child shares the descriptions: a lock would last as long as the child. */
static void after_fork_in_child(void) {
  for (ps_lock *lock = registry; lock != NULL; lock = lock->next) {
    close(lock->file);
    lock->file = -1;
  }
  registry = NULL;
  pthread_mutex_unlock(&registry_lock);
}

static void watch_forks(void) {
  (void)pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static place place_of(const struct stat *status) {
  return (place){.device = status->st_dev, .inode = status->st_ino};
}

static int is_same(place one, place two) {
  return one.device == two.device && one.inode == two.inode;
}

/* Where the name of the file begins in a path. */
static size_t name_at(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Asks about the directory that `path` is in. Answers 0 or -errno. */
static int stat_directory(const char *path, struct stat *status) {
  size_t size = name_at(path);
  char *directory = size > 0 ? strndup(path, size) : strdup(".");
  if (directory == NULL)
    return -ENOMEM;
  int result = stat(directory, status) < 0 ? -errno : 0;
  free(directory);
  return result;
}

/* Does this process hold that file, or one of this name in this directory? The
 * name may have been given to another file since. */
static int is_registered(const char *path, const struct stat *file) {
  struct stat directory;
  int has_directory = stat_directory(path, &directory) == 0;
  for (ps_lock *lock = registry; lock != NULL; lock = lock->next)
    if ((file != NULL && is_same(lock->file_place, place_of(file))) ||
        (has_directory && is_same(lock->directory, place_of(&directory)) &&
         strcmp(lock->path + lock->name_at, path + name_at(path)) == 0))
      return 1;
  return 0;
}

static ps_status held_here(const char *path, ps_error *error) {
  return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                 "%s: this process (pid %d) already has the store open for "
                 "writing: close it first",
                 path, (int)getpid());
}

/* Locks byte 0 for the file description, or where the system cannot, for the
 * process. */
static int lock_byte_0(int file) {
  struct flock wanted = byte_0;
#ifdef F_OFD_SETLK
  if (fcntl(file, F_OFD_SETLK, &wanted) == 0)
    return 0;
  if (errno != EINVAL)
    return -1;
#endif
  return fcntl(file, F_SETLK, &wanted);
}

static void unlock_byte_0(int file) {
#ifdef F_OFD_SETLK
  /* Without this, a child between its fork and its exec would hold it on. */
  struct flock released = byte_0;
  released.l_type = F_UNLCK;
  (void)fcntl(file, F_OFD_SETLK, &released);
#else
  (void)file; /* the close does it */
#endif
}

/* Which process holds byte 0 of an open file: 0 if none, -1 if unknown. */
static int holder_of(int file, int64_t *pid) {
  struct flock holder = byte_0;
  if (fcntl(file, F_GETLK, &holder) < 0)
    return -errno;
  *pid = holder.l_type == F_UNLCK ? 0 : holder.l_pid > 0 ? holder.l_pid : -1;
  if (*pid >= 0)
    return 0;
  holder = byte_1;
  if (fcntl(file, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK &&
      holder.l_pid > 0)
    *pid = holder.l_pid;
  return 0;
}

/* Takes byte 0 of an open file, or names the process that holds it. */
static ps_status take_byte(const char *path, int file, ps_error *error) {
  if (lock_byte_0(file) == 0) {
    struct flock named = byte_1;
    (void)fcntl(file, F_SETLK, &named);
    return PS_OK;
  }
  if (errno != EAGAIN && errno != EACCES)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: cannot lock", path);
  int64_t pid = 0;
  if (holder_of(file, &pid) < 0 || pid <= 0)
    return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                   "%s: another process, whose number is not known here, has "
                   "the store open for writing: stop it first",
                   path);
  return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                 "%s: another process (pid %d) has the store open for "
                 "writing: stop it first",
                 path, (int)pid);
}

/* Is the open file one that a writer may hold? */
static ps_status check_file(const char *path, const struct stat *found,
                            ps_error *error) {
  if (!S_ISREG(found->st_mode))
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: not a regular file: move it away", path);
  if (found->st_nlink > 1)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: the file has %lu names, so another store shares it (a "
                   "copy by hard links): remove it in the copy, which makes "
                   "its own",
                   path, (unsigned long)found->st_nlink);
  return PS_OK;
}

/* Opens the file, checks it and takes its lock. *is_current says whether it has
 * its name still: another program may have replaced it meanwhile. */
static ps_status take_file(const char *path, int *taken, struct stat *found,
                           int *is_current, ps_error *error) {
  int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK;
  int file = open(path, flags, 0644);
  if (file < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: cannot open", path);
  ps_status status = PS_OK;
  if (fstat(file, found) < 0)
    status = ps_fail_system(error, -errno, PS_NO_OFFSET, "%s", path);
  if (status == PS_OK)
    status = check_file(path, found, error);
  if (status == PS_OK)
    status = take_byte(path, file, error);
  if (status != PS_OK) {
    close(file);
    return status;
  }
  struct stat named;
  *is_current =
      stat(path, &named) == 0 && is_same(place_of(&named), place_of(found));
  if (!*is_current) {
    close(file);
    return PS_OK;
  }
  if (found->st_size < 4 && pwrite(file, "lock", 4, 0) < 0) {
    /* a full disk: the lock itself does not need the text */
  }
  *taken = file;
  return PS_OK;
}

static ps_status take_current_file(const char *path, int *taken,
                                   struct stat *found, ps_error *error) {
  for (int attempt = 0; attempt < OPEN_ATTEMPTS; attempt++) {
    int is_current = 0;
    ps_status status = take_file(path, taken, found, &is_current, error);
    if (status != PS_OK || is_current)
      return status;
  }
  return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                 "%s: another program replaces the file all the time: stop it "
                 "first",
                 path);
}

static ps_status acquire(const char *path, ps_lock **lock, ps_error *error) {
  struct stat found;
  int is_there = stat(path, &found) == 0;
  if (is_registered(path, is_there ? &found : NULL))
    return held_here(path, error);
  int file = -1;
  ps_status status = take_current_file(path, &file, &found, error);
  if (status != PS_OK)
    return status;
  struct stat directory;
  int result = stat_directory(path, &directory);
  ps_lock *taken = malloc(sizeof *taken + strlen(path) + 1);
  if (taken == NULL || result < 0) {
    free(taken);
    close(file);
    return ps_fail_system(error, result < 0 ? result : -ENOMEM, PS_NO_OFFSET,
                          "%s: cannot keep its lock", path);
  }
  taken->next = registry;
  taken->file_place = place_of(&found);
  taken->directory = place_of(&directory);
  taken->file = file;
  taken->name_at = name_at(path);
  atomic_init(&taken->holders, 1);
  strcpy(taken->path, path);
  registry = taken;
  *lock = taken;
  return PS_OK;
}

ps_status ps_lock_acquire(const char *path, ps_lock **lock, ps_error *error) {
  pthread_once(&fork_once, watch_forks);
  pthread_mutex_lock(&registry_lock);
  ps_status status = acquire(path, lock, error);
  pthread_mutex_unlock(&registry_lock);
  return status;
}

/* Asks about byte 0 of a file that this process does not hold. */
static ps_status ask_byte(const char *path, int64_t *pid, ps_error *error) {
  /* A pipe of that name must not make the caller wait for its other end. */
  int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0 && errno == ENOENT)
    return PS_OK;
  if (file < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: cannot open", path);
  ps_status status = PS_OK;
  int result = holder_of(file, pid);
  if (result < 0)
    status = ps_fail_system(error, result, PS_NO_OFFSET,
                            "%s: cannot ask for its lock", path);
  close(file);
  return status;
}

ps_status ps_lock_holder(const char *path, int64_t *pid, ps_error *error) {
  *pid = 0;
  /* Held until the file is closed again: no other thread of this process may
   * lock it meanwhile. */
  pthread_mutex_lock(&registry_lock);
  struct stat found;
  ps_status status = PS_OK;
  int is_there = stat(path, &found) == 0;
  if (is_there && is_registered(path, &found))
    *pid = getpid();
  else
    status = ask_byte(path, pid, error);
  pthread_mutex_unlock(&registry_lock);
  return status;
}

static ps_status lost(const ps_lock *lock, const char *how, ps_error *error) {
  return ps_fail(error, PS_E_POISONED, PS_NO_OFFSET,
                 "%s: %s while the store was open for writing, so another "
                 "program may write to it: nothing more is written: close it, "
                 "stop that program, and open it again",
                 lock->path, how);
}

ps_status ps_lock_check(const ps_lock *lock, ps_error *error) {
  struct stat found;
  struct stat directory;
  if (stat(lock->path, &found) < 0) {
    int is_gone = errno == ENOENT || errno == ENOTDIR;
    /* Who may not look, but has the file, goes on with it. */
    if (!is_gone && fstat(lock->file, &found) == 0 && found.st_nlink > 0)
      return PS_OK;
    return lost(lock, "the lock or its directory was removed or renamed",
                error);
  }
  if (!is_same(lock->file_place, place_of(&found)))
    return lost(lock, "another file or directory took the place of the lock",
                error);
  /* One name, and it is ours: no other directory has it. */
  if (found.st_nlink > 1 && (stat_directory(lock->path, &directory) < 0 ||
                             !is_same(lock->directory, place_of(&directory))))
    return lost(lock, "another directory took the place of the store", error);
  return PS_OK;
}

void ps_lock_hold(ps_lock *lock) {
  uint32_t before = atomic_fetch_add(&lock->holders, 1);
  assert(before > 0);
  (void)before;
}

void ps_lock_drop(ps_lock *lock) {
  if (lock != NULL && atomic_fetch_sub(&lock->holders, 1) == 1)
    free(lock);
}

void ps_lock_release(ps_lock *lock) {
  if (lock == NULL)
    return;
  pthread_mutex_lock(&registry_lock);
  if (lock->file >= 0) { /* else a forked child's: the parent's to give */
    ps_lock **link = &registry;
    while (*link != lock) {
      assert(*link != NULL);
      link = &(*link)->next;
    }
    *link = lock->next;
    unlock_byte_0(lock->file);
    close(lock->file);
    lock->file = -1;
  }
  pthread_mutex_unlock(&registry_lock);
  ps_lock_drop(lock);
}
