/* A test harness in one header: a table of cases, checks, a closing line. */

/* A test program is a file test_<subject>.c with functions
 *
 *     static void a_torn_tail_is_cut(void) { CHECK(112, end_of(log)); }
 *
 * and a table at its end: CHECK_MAIN(CASE(a_torn_tail_is_cut), ...). The name
 * of a case is a sentence, and a comment above it says it in full. A failed
 * check is printed and counted, and the case goes on; REQUIRE leaves the case.
 * Arguments choose the cases whose names contain one of them. The environment
 * variable PS_SEED seeds check_random; the seed is printed with a failure.
 *
 * Values are compared as 64-bit integers, expected first. Checks may be made
 * by the thread of the case alone.
 */
#ifndef CHECK_H
#define CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_case {
  const char *name;
  void (*run)(void);
} check_case;

#define CASE(function)                                                         \
  { #function, function }

#define CHECK(expected, actual)                                                \
  check_equal((uint64_t)(expected), (uint64_t)(actual), #actual, __FILE__,     \
              __LINE__)
#define CHECK_TRUE(claim) check_true((claim), #claim, __FILE__, __LINE__)
#define CHECK_TEXT(expected, actual)                                           \
  check_text((expected), (actual), #actual, __FILE__, __LINE__)
#define CHECK_BYTES(expected, actual, size)                                    \
  check_bytes((expected), (actual), (size), #actual, __FILE__, __LINE__)
#define REQUIRE(claim)                                                         \
  do {                                                                         \
    if (!CHECK_TRUE(claim))                                                    \
      return;                                                                  \
  } while (0)

/* Failed checks of the case that runs. */
static unsigned check_failures;
static uint64_t check_seed;
static uint64_t check_random_state;

/* Says where, once per failure; after ten of one case it only counts. */
static inline bool check_failed(const char *file, int line, const char *what) {
  if (++check_failures <= 10)
    fprintf(stderr, "%s:%d: %s: ", file, line, what);
  return check_failures <= 10;
}

static inline bool check_equal(uint64_t expected, uint64_t actual,
                               const char *what, const char *file, int line) {
  if (expected != actual && check_failed(file, line, what))
    fprintf(stderr,
            "expected %" PRIi64 " (0x%" PRIx64 "), got %" PRIi64 " (0x%" PRIx64
            ")\n",
            (int64_t)expected, expected, (int64_t)actual, actual);
  return expected == actual;
}

static inline bool check_true(bool claim, const char *what, const char *file,
                              int line) {
  if (!claim && check_failed(file, line, what))
    fprintf(stderr, "does not hold\n");
  return claim;
}

static inline bool check_text(const char *expected, const char *actual,
                              const char *what, const char *file, int line) {
  bool same = strcmp(expected, actual) == 0;
  if (!same && check_failed(file, line, what))
    fprintf(stderr, "expected \"%s\", got \"%s\"\n", expected, actual);
  return same;
}

static inline bool check_bytes(const void *expected, const void *actual,
                               size_t size, const char *what, const char *file,
                               int line) {
  const uint8_t *e = expected, *a = actual;
  for (size_t at = 0; at < size; at++) {
    if (e[at] == a[at])
      continue;
    if (check_failed(file, line, what))
      fprintf(stderr, "byte %zu of %zu: expected 0x%02x, got 0x%02x\n", at,
              size, e[at], a[at]);
    return false;
  }
  return true;
}

/* The next of a sequence that the seed alone decides (splitmix64). */
static inline uint64_t check_random(void) {
  uint64_t z = check_random_state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/* Fills caller memory from check_random. */
static inline void check_random_fill(void *target, size_t size) {
  uint8_t *bytes = target;
  for (size_t at = 0; at < size; at++)
    bytes[at] = (uint8_t)(check_random() >> 56);
}

static inline bool check_chosen(const char *name, int count, char **words) {
  for (int i = 1; i < count; i++)
    if (strstr(name, words[i]))
      return true;
  return count < 2;
}

/* Runs the chosen cases, each from the same seed, and prints the closing
 * line. Returns the exit status: 1 if a case failed or none was chosen.
 */
static inline int check_run(const check_case *cases, size_t count, int argc,
                            char **argv) {
  const char *seed = getenv("PS_SEED");
  unsigned passed = 0, failed = 0;
  check_seed = seed ? strtoull(seed, NULL, 0) : 1;
  for (size_t i = 0; i < count; i++) {
    if (!check_chosen(cases[i].name, argc, argv))
      continue;
    check_failures = 0;
    check_random_state = check_seed;
    cases[i].run();
    if (check_failures == 0) {
      passed++;
      continue;
    }
    failed++;
    fprintf(stderr, "FAILED %s: %u checks, PS_SEED=%" PRIu64 "\n",
            cases[i].name, check_failures, check_seed);
  }
  printf("%u passed, %u failed\n", passed, failed);
  return failed > 0 || passed == 0;
}

#define CHECK_MAIN(...)                                                        \
  int main(int argc, char **argv) {                                            \
    static const check_case cases[] = {__VA_ARGS__};                           \
    return check_run(cases, sizeof cases / sizeof cases[0], argc, argv);       \
  }

#endif
