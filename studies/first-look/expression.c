#include "tally.h"

#include <ctype.h>
#include <stdlib.h>

struct parser {
    const char *text;
    size_t at;
    int failed;
};

static double sum(struct parser *p);

static char peek(struct parser *p)
{
    while (isspace((unsigned char)p->text[p->at]))
        p->at++;
    return p->text[p->at];
}

static double atom(struct parser *p)
{
    char c = peek(p);
    if (c == '(') {
        p->at++;
        double value = sum(p);
        if (peek(p) == ')')
            p->at++;
        else
            p->failed = 1;
        return value;
    }
    if (c == '-') {
        p->at++;
        return -atom(p);
    }
    char *end;
    double value = strtod(p->text + p->at, &end);
    if (end == p->text + p->at)
        p->failed = 1;
    else
        p->at = (size_t)(end - p->text);
    return value;
}

static double product(struct parser *p)
{
    double value = atom(p);
    for (char c; !p->failed && ((c = peek(p)) == '*' || c == '/');) {
        p->at++;
        double right = atom(p);
        value = c == '*' ? value * right : value / right;
    }
    return value;
}

static double sum(struct parser *p)
{
    double value = product(p);
    for (char c; !p->failed && ((c = peek(p)) == '+' || c == '-');) {
        p->at++;
        double right = product(p);
        value = c == '+' ? value + right : value - right;
    }
    return value;
}

int evaluate(const char *text, double *value, size_t *mistake)
{
    struct parser p = {text, 0, 0};
    *value = sum(&p);
    if (!p.failed && peek(&p) == 0)
        return 0;
    *mistake = p.at;
    return -1;
}
