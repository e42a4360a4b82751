/* The one seam to the operating system: files, mappings, clocks.
 *
 * Production uses ps_env_posix(); tests put an in-memory file system with
 * fault countdowns in its place. Every call answers a negative errno on
 * failure. Calls may come from any thread; `self` carries the state.
 */
#ifndef PS_ENV_H
#define PS_ENV_H

#include <stdint.h>

#define PS_FILE_READ 0
#define PS_FILE_WRITE 1
#define PS_FILE_CREATE 2 /* write; must not exist */

/* PS_ZEROED, or PS_PUNCHED: zero, but its space must be allocated again. */
#define PS_ZEROED 0
#define PS_PUNCHED 1

/* The file of a mapping may be closed, unless populate and resident need it. A
 * caller that has closed it passes PS_FILE_NONE, or PS_FILE_UNSEEN where the
 * system does not tell which of its pages are in memory. */
#define PS_MAPPED 0
#define PS_MAPPED_UNSEEN 1
#define PS_MAPPED_BY_FILE 2
#define PS_FILE_NONE -1
#define PS_FILE_UNSEEN -2

#define PS_SIZE_DIRECTORY -1
#define PS_SIZE_SPECIAL -2
#define PS_SIZE_FAILED -4096 /* less the errno of a look at it */

typedef void (*ps_env_visit)(void *argument, const char *name,
                             int64_t size_bytes);

typedef struct ps_env {
  void *self;
  /* Answers a descriptor. A pipe is not waited for; -EINVAL: neither file nor
   * directory. */
  int32_t (*open)(void *self, const char *path, int32_t mode);
  int32_t (*close)(void *self, int32_t file);
  int64_t (*size)(void *self, int32_t file);
  /* How many names the file has; 0: it was removed. */
  int64_t (*links)(void *self, int32_t file);
  /* Two numbers that no other file has while this one is open or mapped. */
  int32_t (*identity)(void *self, int32_t file, uint64_t *numbers);
  /* May answer less than asked; 0 only at the end of the file. */
  int64_t (*read)(void *self, int32_t file, void *to, uint64_t size,
                  uint64_t at);
  /* May answer less than asked. */
  int64_t (*write)(void *self, int32_t file, const void *from, uint64_t size,
                   uint64_t at);
  /* Gives the range its space and the file at least that size. */
  int32_t (*allocate)(void *self, int32_t file, uint64_t at, uint64_t size);
  /* Makes the range read as zero; the file keeps its size. */
  int32_t (*zero)(void *self, int32_t file, uint64_t at, uint64_t size);
  /* End of the last non-zero byte in the range; `at` if there is none. */
  int64_t (*data_end)(void *self, int32_t file, uint64_t at, uint64_t size);
  /* Content and size of one file are on disk when it answers 0. */
  int32_t (*sync)(void *self, int32_t file);
  int32_t (*sync_directory)(void *self, const char *path);
  /* Starts writing the range back, without waiting. */
  int32_t (*writeback)(void *self, int32_t file, uint64_t at, uint64_t size);
  int32_t (*rename)(void *self, const char *from, const char *to);
  /* The same where nothing has the new name; else -EEXIST, and nothing is done.
   */
  int32_t (*rename_new)(void *self, const char *from, const char *to);
  int32_t (*remove)(void *self, const char *path);
  /* Calls visit for each entry but `.` and `..`; directories have size
   * PS_SIZE_DIRECTORY, pipes, sockets and devices
   * PS_SIZE_SPECIAL; where the system refuses to say what it is, PS_SIZE_FAILED
   * less its errno. */
  int32_t (*list)(void *self, const char *path, ps_env_visit visit,
                  void *argument);
  int64_t (*free_bytes)(void *self, const char *path);
  /* Maps the first `size` bytes for reading. Answers a PS_MAPPED*. */
  int32_t (*map)(void *self, int32_t file, uint64_t size, const uint8_t **data);
  void (*unmap)(void *self, const uint8_t *data, uint64_t size);
  /* Gives the pages of the mapped range, which is populated, a private copy at
   * the same address: what the file gets from now on is not seen there, and no
   * reader sees anything in between. */
  int32_t (*keep)(void *self, const uint8_t *data, uint64_t at, uint64_t size);
  /* 1: all of the mapped range is in memory, read without an error, and may be
   * touched; 0: it is not, or the system does not tell. Where it was populated
   * before, this is much cheaper than to populate it again. */
  int32_t (*resident)(void *self, int32_t file, const uint8_t *data,
                      uint64_t at, uint64_t size);
  /* Makes the range safe to touch (rule 7): -EFAULT if the file ends early. */
  int32_t (*populate)(void *self, int32_t file, const uint8_t *data,
                      uint64_t at, uint64_t size);
  /* The same for a few bytes after which nothing is read: of the pages that are
   * not in memory only theirs are read, and not the megabytes around them that
   * the system expects to be wanted next. */
  int32_t (*populate_exact)(void *self, int32_t file, const uint8_t *data,
                            uint64_t at, uint64_t size);
  /* Asks for the range to be read ahead; a hint, never an error. */
  void (*prefetch)(void *self, const uint8_t *data, uint64_t at, uint64_t size);
  int64_t (*wall_ms)(void *self);
  int64_t (*boottime_ns)(void *self);
  void (*pause)(void *self, uint64_t ns); /* lets that much time pass */
} ps_env;

/* The real one. */
const ps_env *ps_env_posix(void);

/* The same, but for a directory that is open from now on: the paths in it that
 * are written as `root` is are looked up from there, also after it has another
 * name. *made is the caller's until ps_env_close. Answers 0 or -errno. */
int32_t ps_env_anchor(const char *root, const ps_env **made);
void ps_env_close(const ps_env *env); /* NULL is fine */

/* For waits between threads, which are of no environment. */
uint64_t ps_monotonic_ns(void);

#endif
