/* Appending: what is acknowledged is there, what fails is not. */
#include "check.h"
#include "format.h"
#include "support_log.h"

enum { SEGMENT = 16384 };

/* Records come back in order, with their queue offsets. */
static void what_is_appended_is_read_back(void) {
  store *s = store_new(SEGMENT);
  for (uint32_t i = 0; i < 20; i++)
    CHECK(PS_OK, store_append(s, 8 + i * 50, PS_ACK_LEADER));
  CHECK(20, s->count);
  CHECK_HOLDS(store_verify(s, ACK_LEADER));
  CHECK(20, s->count);
  CHECK_HOLDS(store_verify_zero(s));
  CHECK(0, store_free(s));
}

CHECK_MAIN(CASE(what_is_appended_is_read_back))
