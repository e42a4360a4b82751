/* UTF-8 as Java reads it: string hashes and validity. */
#ifndef PS_TEXT_H
#define PS_TEXT_H

#include <stdint.h>

/* Java's String.hashCode of new String(text, UTF_8): h = 31 h + unit over
 * UTF-16 units, each malformed part being one U+FFFD. Threads: [any]. */
int32_t ps_java_hash(const uint8_t *text, uint32_t size);

/* 1 if Java would read the text without putting U+FFFD anywhere, and so write
 * the same bytes again. Threads: [any]. */
int32_t ps_is_utf8(const uint8_t *text, uint32_t size);

/* Reads one character, moves *at behind it, and returns the digit that it is to
 * Java's Character.digit, or -1. REQUIRES: *at < end. Threads: [any]. */
int32_t ps_java_digit(const uint8_t **at, const uint8_t *end);

#endif
