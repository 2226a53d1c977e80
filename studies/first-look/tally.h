/* tally: counts words, digests, packs and computes. Small, real, and quick to build. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A growing run of bytes. */
struct buffer {
    unsigned char *data;
    size_t size;
    size_t room;
};

int buffer_push(struct buffer *buffer, const void *data, size_t size);
int buffer_read(struct buffer *buffer, FILE *from);
void buffer_free(struct buffer *buffer);

/* SHA-256 (FIPS 180-4) as 64 hexadecimal digits and a zero. */
void digest(const unsigned char *data, size_t size, char text[65]);

/* A byte-oriented Lempel-Ziv coder: literals and matches in a 4 KiB window. */
int pack(const struct buffer *in, struct buffer *out);
int unpack(const struct buffer *in, struct buffer *out);

/* Counts words and prints them, the most frequent last. */
int count_words(FILE *from, FILE *to);

/* Evaluates + - * / and parentheses; returns 0, or -1 with the place of the mistake. */
int evaluate(const char *text, double *value, size_t *mistake);

#endif
