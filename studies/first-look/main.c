#include "tally.h"

#include <stdio.h>
#include <string.h>

static int print_value(const char *text)
{
    double value;
    size_t mistake;
    if (evaluate(text, &value, &mistake)) {
        fprintf(stderr, "tally: mistake at %zu: %s\n", mistake, text + mistake);
        return 1;
    }
    printf("%.10g\n", value);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "eval") == 0)
        return print_value(argv[2]);
    if (argc == 3 && strcmp(argv[1], "digest") == 0) {
        char text[65];
        digest((const unsigned char *)argv[2], strlen(argv[2]), text);
        puts(text);
        return 0;
    }
    fprintf(stderr, "usage: tally eval EXPRESSION, or tally digest TEXT\n");
    return 2;
}
