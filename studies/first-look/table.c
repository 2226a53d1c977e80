#include "tally.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct word {
    char *text;
    unsigned long count;
    struct word *next;
};

struct table {
    struct word *slots[1024];
    size_t words;
};

static struct word **find(struct table *table, const char *text)
{
    unsigned hash = 2166136261u;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    struct word **at = &table->slots[hash % 1024];
    while (*at && strcmp((*at)->text, text) != 0)
        at = &(*at)->next;
    return at;
}

static int add(struct table *table, const char *text)
{
    struct word **at = find(table, text);
    if (!*at) {
        struct word *word = calloc(1, sizeof *word);
        if (!word || !(word->text = strdup(text))) {
            free(word);
            return -1;
        }
        *at = word;
        table->words++;
    }
    (*at)->count++;
    return 0;
}

static int by_count(const void *a, const void *b)
{
    const struct word *x = *(struct word *const *)a, *y = *(struct word *const *)b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return strcmp(x->text, y->text);
}

static int print_sorted(const struct table *table, FILE *to)
{
    struct word **sorted = malloc((table->words + 1) * sizeof *sorted);
    size_t n = 0;
    if (!sorted)
        return -1;
    for (size_t slot = 0; slot < 1024; slot++)
        for (struct word *word = table->slots[slot]; word; word = word->next)
            sorted[n++] = word;
    qsort(sorted, n, sizeof *sorted, by_count);
    for (size_t i = 0; i < n; i++)
        fprintf(to, "%lu %s\n", sorted[i]->count, sorted[i]->text);
    free(sorted);
    return 0;
}

static void clear(struct table *table)
{
    for (size_t slot = 0; slot < 1024; slot++)
        while (table->slots[slot]) {
            struct word *word = table->slots[slot];
            table->slots[slot] = word->next;
            free(word->text);
            free(word);
        }
}

int count_words(FILE *from, FILE *to)
{
    struct table table = {0};
    char text[256];
    size_t length = 0;
    int c, failed = 0;
    do {
        c = fgetc(from);
        if (c != EOF && !isspace(c)) {
            if (length + 1 < sizeof text)
                text[length++] = (char)tolower(c);
        } else if (length) {
            text[length] = 0;
            failed |= add(&table, text);
            length = 0;
        }
    } while (c != EOF && !failed);
    if (!failed)
        failed = print_sorted(&table, to);
    clear(&table);
    return failed;
}
