/* The contract of pystore's C core, fifth part: receiving from a socket.
 *
 * A thread that sleeps until bytes come is woken late: on a virtual machine
 * whose processor went to sleep with it, 25 us later. On a busy link the next
 * bytes come sooner than that. So the thread spins before it sleeps: it asks
 * for bytes again and again and yields its processor between; one thread of a
 * process at a time, and only while that pays. The conventions are those of
 * pystore.h, and this header is the cdef as well.
 */
#ifndef PS_RECEIVE_H
#define PS_RECEIVE_H

#include "pystore.h"

/* What one socket's receiver remembers; all zero to begin with. */
typedef struct ps_spin {
  uint64_t spin_ns;    /* spins so long before it sleeps; 0: sleeps at once */
  uint32_t was_useful; /* the last bytes came within that time */
  uint32_t reserved;
} ps_spin;

/* Receives what is there, at most `size` bytes, as recv does; waits for the
 * first byte as long as the socket's own limit says, or not at all where
 * `is_waiting` is 0.
 * Answers how many came; 0: the peer has ended; a negative errno, -EAGAIN: none
 * in time. Threads: one per socket. */
PS_API int64_t ps_receive(int32_t file, uint8_t *buffer, uint64_t size,
                          uint32_t is_waiting, ps_spin *spin);

#endif
