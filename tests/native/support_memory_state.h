/* What the calls of the file system in memory share: its state. */
#ifndef SUPPORT_MEMORY_STATE_H
#define SUPPORT_MEMORY_STATE_H

#include "support_memory.h"

/* Fills fs->env. */
void memory_offer(memory *fs);

/* The next of a sequence that *state decides. */
uint64_t memory_random(uint64_t *state);

int32_t memory_add_file(memory *fs);

/* The entry of a path; a new one that is no file yet if `create`. */
memory_name *memory_name_of(memory *fs, const char *path, bool create);

/* The file that a name stands for now, or -1; and a new one. */
int32_t memory_now(const memory_name *name);
void memory_becomes(memory_name *name, int32_t file);

/* Is the path that of a file in this very directory? */
bool memory_is_in(const char *path, const char *directory);

/* Allocates pages from `at` on as far as there is space; answers how many of
 * the bytes have some. */
uint64_t memory_take_space(memory *fs, memory_file *file, uint64_t at,
                           uint64_t size);

/* Gives the space of a file back that has neither a name nor a descriptor. */
void memory_reap(memory *fs, int32_t index);

/* Brings a file to the disk; if not `works`, only says so to itself. */
void memory_sync_file(memory *fs, memory_file *file, bool works);
void memory_sync_names(memory *fs, const char *directory);

/* Keeps the state in fs->last and lets nothing more happen. */
void memory_die(memory *fs);

/* Now and then a dirty page reaches the disk by itself. */
void memory_leak_back(memory *fs);

#endif
