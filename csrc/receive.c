/* Receiving from a socket: spins for a while before the thread sleeps. */
#include "receive.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "env.h"
#include "spin.h"

/* One thread of a process spins at a time: with many links each thread would
 * find that spinning pays, and together they would use up every processor. */
static _Atomic uint32_t is_spinning;

_Atomic uint32_t ps_receives;

static int64_t receive(int32_t file, uint8_t *buffer, uint64_t size,
                       int32_t flags) {
  ssize_t got;
  do
    got = recv(file, buffer, size, flags);
  while (got < 0 && errno == EINTR && flags != 0);
  if (got >= 0)
    return got;
  return errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

int64_t ps_receive(int32_t file, uint8_t *buffer, uint64_t size,
                   uint32_t is_waiting, ps_spin *spin) {
  atomic_fetch_add(&ps_receives, 1);
  int64_t got = receive(file, buffer, size, MSG_DONTWAIT);
  if (got != -EAGAIN || !is_waiting)
    return got;
  uint64_t begun = ps_monotonic_ns();
  uint64_t until = begun + spin->spin_ns;
  if (spin->was_useful && !atomic_exchange(&is_spinning, 1)) {
    while (got == -EAGAIN && ps_monotonic_ns() < until) {
      sched_yield(); /* the sending process may need this very processor */
      got = receive(file, buffer, size, MSG_DONTWAIT);
    }
    atomic_store(&is_spinning, 0);
    if (got != -EAGAIN)
      return got;
  }
  got = receive(file, buffer, size, 0);
  /* After a sleep that a spin of this length would have spared, the next call
   * spins. */
  spin->was_useful = got > 0 && ps_monotonic_ns() < until;
  return got;
}
