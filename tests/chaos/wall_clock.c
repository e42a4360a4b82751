/*
 * A wall clock that steps: loaded before the C library, it adds an offset to
 * the time of day. The offset is in a file of 8 bytes, named by
 * CHAOS_WALL_CLOCK, that another process writes. libfaketime has no
 * CLOCK_BOOTTIME, by which leases are measured.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_ns;

__attribute__((constructor)) static void map_offset(void) {
  const char *path = getenv("CHAOS_WALL_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0)
    return;
  void *found = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
  if (found != MAP_FAILED)
    offset_ns = found;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (syscall(SYS_clock_gettime, clock, now))
    return -1;
  if (clock == CLOCK_REALTIME && offset_ns) {
    int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *offset_ns;
    now->tv_sec = ns / INT64_C(1000000000);
    now->tv_nsec = ns % INT64_C(1000000000);
  }
  return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &exact))
    return -1;
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (now)
    *now = exact.tv_sec;
  return exact.tv_sec;
}
