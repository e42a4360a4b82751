/* Mapped pages that stop following their file. */
#include "private_copy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__linux__) && !defined(PS_PORTABLE)

/* The copy is made elsewhere and moved: only that is one step. */
int32_t ps_private_copy(void *pages, uint64_t size) {
  void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return -errno;
  memcpy(copy, pages, size);
  if (mprotect(copy, size, PROT_READ) == 0 &&
      mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pages) == pages)
    return 0;
  int32_t failed = -errno;
  munmap(copy, size);
  return failed;
}

#else

/* No other system moves a mapping, but each one maps a file over it in one
 * step. This file has no name, and lives as long as its mapping. */
int32_t ps_private_copy(void *pages, uint64_t size) {
  FILE *copy = tmpfile();
  if (copy == NULL)
    return -errno;
  int32_t result = 0;
  if (fwrite(pages, 1, size, copy) != size || fflush(copy) != 0 ||
      mmap(pages, size, PROT_READ, MAP_SHARED | MAP_FIXED, fileno(copy), 0) ==
          MAP_FAILED)
    result = -errno;
  fclose(copy);
  return result;
}

#endif
