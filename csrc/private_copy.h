/* Mapped pages that stop following their file. */
#ifndef PS_PRIVATE_COPY_H
#define PS_PRIVATE_COPY_H

#include <stdint.h>

/* Puts a private, read-only copy in the place of mapped pages, in one step: a
 * thread that reads them meanwhile sees the same bytes. `pages` begins and
 * `size` ends on a page. Answers 0 or -errno: the pages are as they were. */
int32_t ps_private_copy(void *pages, uint64_t size);

#endif
