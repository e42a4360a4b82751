/* Drives a fuzz target where libFuzzer is missing: seeds, and mutations. */

/* Usage: replay SECONDS SEED FILE...  Each input is a file, changed in a few
 * places, or two of them joined. The seed of the run is printed; an input that
 * kills the target stays in the file `crash-input`. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { INPUT_MAX = 16384, FILES_MAX = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

typedef struct bytes {
  uint8_t data[INPUT_MAX];
  size_t size;
} bytes;

static size_t below(size_t end) {
  return end == 0 ? 0 : (size_t)(check_random() % end);
}

static void load(bytes *to, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(2);
  }
  to->size = fread(to->data, 1, INPUT_MAX, file);
  fclose(file);
}

static void mutate(bytes *input) {
  static const uint8_t edges[] = {0, 1, 0x7F, 0x80, 0xFF};
  size_t at = below(input->size);
  size_t run = below(9);
  switch (check_random() % 4) {
  case 0:
    if (input->size > 0)
      input->data[at] ^= (uint8_t)(1 << check_random() % 8);
    break;
  case 1:
    if (input->size > 0)
      input->data[at] = edges[check_random() % sizeof edges];
    break;
  case 2:
    if (at + run <= input->size) {
      memmove(input->data + at, input->data + at + run, input->size - at - run);
      input->size -= run;
    }
    break;
  default:
    if (input->size + run <= INPUT_MAX) {
      memmove(input->data + at + run, input->data + at, input->size - at);
      input->size += run;
    }
  }
}

/* Puts a part of another file behind the input. */
static void join(bytes *input, const bytes *other) {
  size_t from = below(other->size);
  size_t size = other->size - from;
  input->size = below(input->size + 1);
  if (size > INPUT_MAX - input->size)
    size = INPUT_MAX - input->size;
  memcpy(input->data + input->size, other->data + from, size);
  input->size += size;
}

/* The input is in the file before the target gets it. */
static void run(const bytes *input) {
  static int file = -1;
  if (file < 0)
    file = open("crash-input", O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ftruncate(file, (off_t)input->size) != 0 ||
      pwrite(file, input->data, input->size, 0) != (ssize_t)input->size) {
    perror("crash-input");
    exit(2);
  }
  LLVMFuzzerTestOneInput(input->data, input->size);
}

int main(int argc, char **argv) {
  static bytes files[FILES_MAX];
  static bytes input;
  if (argc < 4 || argc - 3 > FILES_MAX)
    return 2;
  time_t end = time(NULL) + strtol(argv[1], NULL, 10);
  check_random_state = strtoull(argv[2], NULL, 0);
  size_t count = (size_t)argc - 3;
  uint64_t done = 0;
  for (size_t i = 0; i < count; i++) {
    load(&files[i], argv[i + 3]);
    run(&files[i]);
  }
  for (; time(NULL) < end; done++) {
    input = files[below(count)];
    if (check_random() % 8 == 0)
      join(&input, &files[below(count)]);
    for (size_t left = below(6); left > 0; left--)
      mutate(&input);
    run(&input);
  }
  unlink("crash-input");
  printf("no libFuzzer: %zu seeds and %llu mutations replayed, seed %s\n",
         count, (unsigned long long)done, argv[2]);
  return 0;
}
