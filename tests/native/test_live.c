/* The live page, as another process sees it between any two instructions. */
#include "check.h"
#include "live.h"

#ifdef __linux__

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS_MAX = 100000 };

/* A child stops, cuts, and ends; all of it step by step. */
static pid_t begin_cut(ps_live_page *page, uint64_t offset,
                       uint64_t generation) {
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
      _exit(2);
    raise(SIGSTOP);
    ps_live_cut(page, offset, generation);
    _exit(0);
  }
  return child;
}

/* With the new generation no reader sees the old end or a higher cut. */
static void step_through(ps_live_page *page, uint64_t before, uint64_t offset) {
  atomic_store(&page->published_end, 900);
  atomic_store(&page->synced_end, 800);
  atomic_store(&page->cut_generation, 7);
  atomic_store(&page->cut_offset, before);
  pid_t child = begin_cut(page, offset, 8);
  int status = 0;
  uint32_t steps = 0, seen = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
  while (WIFSTOPPED(status) && steps++ < STEPS_MAX) {
    if (atomic_load(&page->cut_generation) == 8) {
      seen++;
      CHECK(offset, atomic_load(&page->published_end));
      CHECK_TRUE(atomic_load(&page->cut_offset) <= offset);
    }
    REQUIRE(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
  }
  CHECK_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_TRUE(seen > 3);
  CHECK(offset, atomic_load(&page->synced_end));
  CHECK(offset, atomic_load(&page->cut_offset));
}

/* A cut shows the lower end before the new generation (A4). */
static void a_cut_shows_its_end_before_its_generation(void) {
  ps_live_page *page = mmap(NULL, PS_LIVE_SIZE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  step_through(page, 0, 500);
  step_through(page, 400, 500);
  step_through(page, 700, 500);
  munmap(page, PS_LIVE_SIZE);
}

CHECK_MAIN(CASE(a_cut_shows_its_end_before_its_generation))

#else

/* Stepping through a process is Linux's. */
static void nothing_is_stepped_through_here(void) {
  CHECK(4096, PS_LIVE_SIZE);
}

CHECK_MAIN(CASE(nothing_is_stepped_through_here))

#endif
