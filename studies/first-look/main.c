#include "tally.h"

#include <string.h>

static int filter(int (*work)(const struct buffer *, struct buffer *))
{
    struct buffer in = {0}, out = {0};
    int failed = buffer_read(&in, stdin) || work(&in, &out);
    if (!failed)
        failed = fwrite(out.data, 1, out.size, stdout) != out.size;
    buffer_free(&in);
    buffer_free(&out);
    return failed;
}

static int print_digest(void)
{
    struct buffer in = {0};
    char text[65];
    int failed = buffer_read(&in, stdin);
    if (!failed) {
        digest(in.data, in.size, text);
        puts(text);
    }
    buffer_free(&in);
    return failed;
}

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
    const char *verb = argc > 1 ? argv[1] : "";
    int failed;
    if (strcmp(verb, "words") == 0)
        failed = count_words(stdin, stdout);
    else if (strcmp(verb, "digest") == 0)
        failed = print_digest();
    else if (strcmp(verb, "pack") == 0)
        failed = filter(pack);
    else if (strcmp(verb, "unpack") == 0)
        failed = filter(unpack);
    else if (strcmp(verb, "eval") == 0 && argc == 3)
        failed = print_value(argv[2]);
    else {
        fprintf(stderr, "usage: tally words|digest|pack|unpack, or tally eval EXPRESSION\n");
        return 2;
    }
    return failed ? 1 : 0;
}
