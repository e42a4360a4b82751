/* The live page: one mapped page of independent 8-byte words (A4). */
#include "live.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"

struct ps_live {
  ps_live_page *page;
  int32_t writable;
  pid_t claimed_by; /* the process that opened it and has not begun; 0: none */
  _Atomic uint32_t holders; /* its opener, and the logs that use it */
};

#define ADVICE "make it again with `pystore doctor STORE --apply`"

ps_status ps_live_create(const char *path, ps_error *error) {
  _Static_assert(sizeof(ps_live_page) <= PS_LIVE_SIZE, "one page");
  uint8_t bytes[PS_LIVE_SIZE] = {0};
  uint64_t magic = PS_LIVE_MAGIC;
  uint64_t format = PS_LIVE_FORMAT;
  memcpy(bytes, &magic, sizeof magic);
  memcpy(bytes + sizeof magic, &format, sizeof format);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET,
                          "%s: cannot create the live page", path);
  ps_status status = PS_OK;
  errno = 0;
  ssize_t done = write(file, bytes, sizeof bytes);
  if (done != (ssize_t)sizeof bytes || fsync(file) < 0)
    status =
        ps_fail_system(error, done < 0 || errno != 0 ? -errno : -ENOSPC,
                       PS_NO_OFFSET, "%s: cannot write the live page", path);
  close(file);
  return status;
}

/* Maps an open file as a page, or says why it is none. */
static ps_status map_page(const char *path, int file, int32_t writable,
                          ps_live_page **page, ps_error *error) {
  struct stat status;
  if (fstat(file, &status) < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s", path);
  if (!S_ISREG(status.st_mode))
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: not a regular file: " ADVICE, path);
  if (writable && status.st_nlink > 1)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: the file has %lu names, so another store shares it (a "
                   "copy by hard links): put a copy in its place here: cp -p "
                   "live live.new && mv live.new live",
                   path, (unsigned long)status.st_nlink);
  if (status.st_size != PS_LIVE_SIZE)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: %lld bytes, a live page has %d: " ADVICE, path,
                   (long long)status.st_size, PS_LIVE_SIZE);
  int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void *mapped = mmap(NULL, PS_LIVE_SIZE, protection, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED)
    return ps_fail_system(error, -errno, PS_NO_OFFSET, "%s: mmap", path);
  ps_live_page *found = mapped;
  if (atomic_load(&found->magic) != PS_LIVE_MAGIC ||
      atomic_load(&found->format) != PS_LIVE_FORMAT) {
    munmap(mapped, PS_LIVE_SIZE);
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: not a live page of this version: use the pystore that "
                   "wrote it, or " ADVICE,
                   path);
  }
  *page = found;
  return PS_OK;
}

ps_status ps_live_open(const char *path, int32_t writable, ps_live **live,
                       ps_error *error) {
  int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK;
  int file = open(path, flags);
  if (file < 0 && errno == ENOENT)
    return ps_fail(error, PS_E_NOT_STORE, PS_NO_OFFSET,
                   "%s: no live page: " ADVICE, path);
  if (file < 0)
    return ps_fail_system(error, -errno, PS_NO_OFFSET,
                          "%s: cannot open the live page", path);
  ps_live_page *page = NULL;
  ps_status status = map_page(path, file, writable, &page, error);
  close(file); /* the mapping keeps the file */
  if (status != PS_OK)
    return status;
  ps_live *opened = malloc(sizeof *opened);
  if (opened == NULL) {
    munmap(page, PS_LIVE_SIZE);
    return ps_fail(error, PS_E_MEMORY, PS_NO_OFFSET, "%s: no memory", path);
  }
  /* Before the new writer looks at a byte: what the one before it, which must
   * have lost its lock, still acknowledges is written by then (A18). */
  opened->claimed_by = writable ? getpid() : 0;
  if (writable)
    atomic_fetch_or(&page->incarnation, PS_LIVE_CLAIMED);
  opened->page = page;
  opened->writable = writable;
  atomic_init(&opened->holders, 1);
  *live = opened;
  return PS_OK;
}

void ps_live_hold(ps_live *live) {
  uint32_t before = atomic_fetch_add(&live->holders, 1);
  assert(before > 0);
  (void)before;
}

void ps_live_close(ps_live *live) {
  if (live == NULL || atomic_fetch_sub(&live->holders, 1) > 1)
    return;
  munmap(live->page, PS_LIVE_SIZE);
  free(live);
}

void ps_live_unclaim(ps_live *live) {
  /* A forked child has no part of it. */
  if (live->claimed_by != 0 && live->claimed_by == getpid())
    atomic_fetch_and(&live->page->incarnation, ~PS_LIVE_CLAIMED);
  live->claimed_by = 0;
}

ps_live_page *ps_live_words_of(ps_live *live) {
  assert(live != NULL);
  return live->page;
}

int32_t ps_live_sync(ps_live *live) {
  assert(live->writable);
  return msync(live->page, PS_LIVE_SIZE, MS_SYNC) < 0 ? -errno : 0;
}

void ps_live_read(ps_live *live, ps_live_words *words) {
  ps_live_page *page = live->page;
  uint64_t boot[2];
  /* The boot id goes first: it is stored last, so what follows belongs to
   * the writer it names. */
  boot[0] = atomic_load(&page->boot_id[0]);
  boot[1] = atomic_load(&page->boot_id[1]);
  memcpy(words->boot_id, boot, sizeof words->boot_id);
  words->format = atomic_load(&page->format);
  words->incarnation = atomic_load(&page->incarnation) & ~PS_LIVE_CLAIMED;
  words->mount_id = atomic_load(&page->mount_id);
  words->published_end = atomic_load(&page->published_end);
  words->synced_end = atomic_load(&page->synced_end);
  words->confirm_offset = atomic_load(&page->confirm_offset);
  words->min_offset = atomic_load(&page->min_offset);
  words->cut_generation = atomic_load(&page->cut_generation);
  words->cut_offset = atomic_load(&page->cut_offset);
}

ps_status ps_live_begin(ps_live *live, const ps_live_words *words,
                        ps_error *error) {
  if (!live->writable)
    return ps_fail(error, PS_E_INVALID, PS_NO_OFFSET,
                   "the live page was opened for reading");
  ps_live_page *page = live->page;
  uint64_t boot[2];
  uint64_t before = atomic_load(&page->incarnation);
  uint64_t incarnation = words->incarnation;
  if (before == (incarnation | PS_LIVE_CLAIMED))
    incarnation = before; /* the words of before, for a time */
  else
    live->claimed_by = 0;
  memcpy(boot, words->boot_id, sizeof boot);
  atomic_store(&page->boot_id[0], 0);
  atomic_store(&page->boot_id[1], 0);
  /* A reader loads the generation, then the end: with the new generation it
   * must not see an end that a cut has taken back. */
  atomic_store(&page->published_end, words->published_end);
  atomic_store(&page->cut_offset, words->cut_offset);
  atomic_store(&page->cut_generation, words->cut_generation);
  atomic_store(&page->synced_end, words->synced_end);
  atomic_store(&page->confirm_offset, words->confirm_offset);
  atomic_store(&page->min_offset, words->min_offset);
  atomic_store(&page->incarnation, incarnation);
  atomic_store(&page->mount_id, words->mount_id);
  atomic_store(&page->boot_id[1], boot[1]);
  atomic_store(&page->boot_id[0], boot[0]);
  int32_t result = ps_live_sync(live);
  if (result < 0)
    return ps_fail_system(error, result, PS_NO_OFFSET,
                          "meta/live: cannot sync");
  return PS_OK;
}

void ps_live_cut(ps_live_page *page, uint64_t offset, uint64_t generation) {
  /* Before the generation, too: a reader that sees that must not see the old
   * end. */
  atomic_store(&page->published_end, offset);
  /* A reader that sees one of these words without the other must see the lower
   * offset, or a generation that changes while it reads. */
  if (offset < atomic_load(&page->cut_offset))
    atomic_store(&page->cut_offset, offset);
  atomic_store(&page->cut_generation, generation);
  atomic_store(&page->cut_offset, offset);
  atomic_store(&page->published_end, offset);
  if (atomic_load(&page->synced_end) > offset)
    atomic_store(&page->synced_end, offset);
  if (atomic_load(&page->confirm_offset) > offset)
    atomic_store(&page->confirm_offset, offset);
}
