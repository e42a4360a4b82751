/* Bytes of a socket: at once, in time, or a reason why not. */
#include "check.h"
#include "env.h"
#include "receive.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define SPIN_NS UINT64_C(2000000)
#define LONG_NS UINT64_C(20000000000)

typedef struct pair {
  int ours;
  int theirs;
} pair;

static pair connected(int32_t limit_ms) {
  int ends[2];
  CHECK(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
  struct timeval limit = {.tv_usec = limit_ms * 1000};
  CHECK(0, setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  return (pair){.ours = ends[0], .theirs = ends[1]};
}

/* What is there comes without a wait, up to the size; then the end. */
static void bytes_that_are_there_are_received_at_once(void) {
  pair p = connected(0);
  ps_spin spin = {.spin_ns = SPIN_NS};
  uint8_t room[4];
  CHECK(6, write(p.theirs, "abcdef", 6));
  close(p.theirs);
  CHECK(4, ps_receive(p.ours, room, sizeof room, 1, &spin));
  CHECK(2, ps_receive(p.ours, room, sizeof room, 0, &spin));
  CHECK('e', room[0]);
  CHECK(0, ps_receive(p.ours, room, sizeof room, 1, &spin));
  close(p.ours);
  CHECK(-EBADF, ps_receive(p.ours, room, sizeof room, 1, &spin));
}

/* No bytes in time is -EAGAIN, after spinning or not; after a long wait the
 * next call does not spin. */
static void a_timeout_is_eagain(void) {
  pair p = connected(5);
  ps_spin spin = {.spin_ns = SPIN_NS, .was_useful = 1};
  uint8_t room[4];
  CHECK(-EAGAIN, ps_receive(p.ours, room, sizeof room, 0, &spin));
  CHECK(1, spin.was_useful);
  CHECK(-EAGAIN, ps_receive(p.ours, room, sizeof room, 1, &spin));
  CHECK(0, spin.was_useful);
  close(p.ours);
  close(p.theirs);
}

/* No processor is used up on a link where little comes: where the last bytes
 * came late the thread sleeps, or this would take as long as a spin. */
static void it_spins_only_while_spinning_pays(void) {
  pair p = connected(5);
  ps_spin spin = {.spin_ns = LONG_NS};
  uint8_t room[4];
  uint64_t begun = ps_monotonic_ns();
  for (uint32_t i = 0; i < 5; i++) {
    CHECK(-EAGAIN, ps_receive(p.ours, room, sizeof room, 1, &spin));
    CHECK(1, write(p.theirs, "x", 1));
    CHECK(1, ps_receive(p.ours, room, sizeof room, 1, &spin));
    CHECK(0, spin.was_useful); /* bytes without a wait say nothing */
  }
  CHECK(1, ps_monotonic_ns() - begun < LONG_NS / 2);
  close(p.ours);
  close(p.theirs);
}

static void *echo(void *argument) {
  pair *p = argument;
  uint8_t byte;
  while (read(p->theirs, &byte, 1) == 1)
    CHECK(1, write(p->theirs, &byte, 1));
  return NULL;
}

/* Bytes that come while the thread spins, or sleeps, end the wait. */
static void bytes_that_come_end_the_wait(void) {
  pair p = connected(0);
  ps_spin spin = {.spin_ns = SPIN_NS};
  pthread_t thread;
  CHECK(0, pthread_create(&thread, NULL, echo, &p));
  for (uint32_t i = 0; i < 2000; i++) {
    uint8_t sent = (uint8_t)i, room = 0;
    CHECK(1, write(p.ours, &sent, 1));
    CHECK(1, ps_receive(p.ours, &room, 1, 1, &spin));
    CHECK(sent, room);
  }
  shutdown(p.ours, SHUT_WR);
  pthread_join(thread, NULL);
  close(p.ours);
  close(p.theirs);
}

CHECK_MAIN(CASE(bytes_that_are_there_are_received_at_once),
           CASE(a_timeout_is_eagain), CASE(it_spins_only_while_spinning_pays),
           CASE(bytes_that_come_end_the_wait))
