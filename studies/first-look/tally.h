/* tally: digests and computes. Small, real, and quick to build. */
#ifndef TALLY_H
#define TALLY_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4) as 64 hexadecimal digits and a zero. */
void digest(const unsigned char *data, size_t size, char text[65]);

/* Evaluates + - * / and parentheses; returns 0, or -1 with the place of the mistake. */
int evaluate(const char *text, double *value, size_t *mistake);

#endif
