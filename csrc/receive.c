/* Bytes of a socket: looked for a while, before the thread sleeps for them. */
#include "receive.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "env.h"
#include "spin.h"

/* One thread of a process looks at a time: of many links each would find that
 * it pays, and together they would burn every processor. */
static _Atomic uint32_t is_looking;

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
                   uint32_t is_waiting, ps_patience *patience) {
  atomic_fetch_add(&ps_receives, 1);
  int64_t got = receive(file, buffer, size, MSG_DONTWAIT);
  if (got != -EAGAIN || !is_waiting)
    return got;
  uint64_t begun = ps_monotonic_ns();
  uint64_t until = begun + patience->look_ns;
  if (patience->is_paid && !atomic_exchange(&is_looking, 1)) {
    while (got == -EAGAIN && ps_monotonic_ns() < until) {
      sched_yield(); /* who is to send may need this very processor */
      got = receive(file, buffer, size, MSG_DONTWAIT);
    }
    atomic_store(&is_looking, 0);
    if (got != -EAGAIN)
      return got;
  }
  got = receive(file, buffer, size, 0);
  /* A sleep that a look of this length would have spared pays the next one. */
  patience->is_paid = got > 0 && ps_monotonic_ns() < until;
  return got;
}
