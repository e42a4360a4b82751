/* One writer per store: Java's file lock, and a registry inside the process.
 *
 * POSIX drops every record lock of a process when it closes *any* descriptor
 * of the file, so nothing else may open `lock`, and a file that is registered
 * here is never opened a second time.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "lock.h"

struct ps_lock {
  struct ps_lock *next;
  dev_t device;
  ino_t inode;
  int file;
  pid_t owner;
};

/* What a writer holds: the byte that Java locks. */
static const struct flock byte_0 = {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static ps_lock *registry;

static int is_registered(const struct stat *status) {
  for (ps_lock *lock = registry; lock != NULL; lock = lock->next)
    if (lock->device == status->st_dev && lock->inode == status->st_ino &&
        lock->owner == getpid())
      return 1;
  return 0;
}

static ps_status held_here(const char *path, ps_error *error) {
  return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                 "%s: this process (pid %d) already has the store open for "
                 "writing: close it first",
                 path, (int)getpid());
}

/* Takes byte 0 of an open file, or names the process that holds it. */
static ps_status take_byte(const char *path, int file, ps_error *error) {
  struct flock holder = byte_0;
  if (fcntl(file, F_SETLK, &holder) == 0)
    return PS_OK;
  if (errno != EAGAIN && errno != EACCES)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: cannot lock", path);
  int known = fcntl(file, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK;
  return ps_fail(error, PS_E_LOCKED, PS_NO_OFFSET,
                 "%s: another process (pid %d) has the store open for "
                 "writing: stop it first",
                 path, known ? (int)holder.l_pid : 0);
}

/* Opens, locks and marks the file; `file` is closed again on failure. */
static ps_status take_file(const char *path, int *taken, ps_error *error) {
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: cannot open", path);
  ps_status status = take_byte(path, file, error);
  struct stat found;
  if (status == PS_OK && fstat(file, &found) == 0 && found.st_size < 4 &&
      pwrite(file, "lock", 4, 0) < 0)
    status = PS_OK; /* a full disk: the lock itself does not need the text */
  if (status != PS_OK) {
    close(file);
    return status;
  }
  *taken = file;
  return PS_OK;
}

static ps_status acquire(const char *path, ps_lock **lock, ps_error *error) {
  struct stat status;
  if (stat(path, &status) == 0 && is_registered(&status))
    return held_here(path, error);
  int file = -1;
  ps_status result = take_file(path, &file, error);
  if (result != PS_OK)
    return result;
  ps_lock *taken = malloc(sizeof *taken);
  if (taken == NULL || fstat(file, &status) < 0) {
    free(taken);
    close(file);
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory", path);
  }
  *taken = (ps_lock){.next = registry,
                     .device = status.st_dev,
                     .inode = status.st_ino,
                     .file = file,
                     .owner = getpid()};
  registry = taken;
  *lock = taken;
  return PS_OK;
}

ps_status ps_lock_acquire(const char *path, ps_lock **lock, ps_error *error) {
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
  struct flock holder = byte_0;
  ps_status status = PS_OK;
  if (fcntl(file, F_GETLK, &holder) < 0)
    status = ps_fail_system(error, -errno, PS_NO_OFFSET,
                            "%s: cannot ask for its lock", path);
  else if (holder.l_type != F_UNLCK)
    *pid = holder.l_pid > 0 ? holder.l_pid : -1;
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
  if (stat(path, &found) == 0 && is_registered(&found))
    *pid = getpid();
  else
    status = ask_byte(path, pid, error);
  pthread_mutex_unlock(&registry_lock);
  return status;
}

void ps_lock_release(ps_lock *lock) {
  if (lock == NULL)
    return;
  if (lock->owner != getpid()) { /* a forked child: the parent's to give */
    close(lock->file);           /* a child's close drops no parent's lock */
    return;
  }
  pthread_mutex_lock(&registry_lock);
  ps_lock **link = &registry;
  while (*link != lock) {
    assert(*link != NULL);
    link = &(*link)->next;
  }
  *link = lock->next;
  close(lock->file);
  pthread_mutex_unlock(&registry_lock);
  free(lock);
}
