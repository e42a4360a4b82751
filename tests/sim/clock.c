/*
 * The clocks of a virtual process, for the core and for Python alike:
 * preloaded, they replace those of the C library. Until a time is set, time is
 * real.
 *
 * The interpreter waits for its own lock with a deadline on the monotonic
 * clock. That wait has to last in real time, so its deadline is moved to the
 * real clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

static int64_t since_boot = -1;
static int64_t since_1970;

void virtual_clock_set(int64_t boot_ns, int64_t wall_ns) {
  since_boot = boot_ns;
  since_1970 = wall_ns;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (since_boot < 0 || clock == CLOCK_PROCESS_CPUTIME_ID ||
      clock == CLOCK_THREAD_CPUTIME_ID)
    return (int)syscall(SYS_clock_gettime, clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  int64_t ns = is_wall ? since_1970 : since_boot;
  now->tv_sec = ns / NS;
  now->tv_nsec = ns % NS;
  return 0;
}

time_t time(time_t *into) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (into)
    *into = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval *restrict into, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  into->tv_sec = now.tv_sec;
  into->tv_usec = now.tv_nsec / 1000;
  return 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond,
                           pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *,
                     const struct timespec *);
  if (!real)
    real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  if (since_boot < 0)
    return real(cond, mutex, until);
  struct timespec moved;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &moved);
  int64_t ns =
      moved.tv_nsec + until->tv_nsec + (until->tv_sec * NS - since_boot);
  if (ns < 0)
    ns = 0;
  moved.tv_sec += ns / NS;
  moved.tv_nsec = ns % NS;
  return real(cond, mutex, &moved);
}
