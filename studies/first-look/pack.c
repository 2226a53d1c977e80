#include "tally.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4096, SHORTEST = 3, LONGEST = 18, SLOTS = 4096 };

int buffer_push(struct buffer *buffer, const void *data, size_t size)
{
    if (buffer->size + size > buffer->room) {
        size_t room = (buffer->room + size) * 2;
        unsigned char *grown = realloc(buffer->data, room);
        if (!grown)
            return -1;
        buffer->data = grown;
        buffer->room = room;
    }
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return 0;
}

int buffer_read(struct buffer *buffer, FILE *from)
{
    unsigned char part[4096];
    size_t got;
    while ((got = fread(part, 1, sizeof part, from)) > 0)
        if (buffer_push(buffer, part, got))
            return -1;
    return ferror(from) ? -1 : 0;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

static unsigned slot_of(const unsigned char *at)
{
    return (at[0] * 2654435761u ^ at[1] * 40503u ^ at[2]) % SLOTS;
}

static size_t match(const struct buffer *in, size_t from, size_t at)
{
    size_t length = 0;
    while (length < LONGEST && at + length < in->size &&
           in->data[from + length] == in->data[at + length])
        length++;
    return length;
}

/* One flag byte, then eight items: a literal, or a distance of 12 bits and a length of 4. */
int pack(const struct buffer *in, struct buffer *out)
{
    size_t recent[SLOTS];
    size_t at = 0;
    memset(recent, 0xff, sizeof recent);
    while (at < in->size) {
        unsigned char items[17];
        size_t used = 1;
        items[0] = 0;
        for (int item = 0; item < 8 && at < in->size; item++) {
            size_t length = 0, from = (size_t)-1;
            if (at + SHORTEST <= in->size) {
                unsigned slot = slot_of(in->data + at);
                from = recent[slot];
                recent[slot] = at;
                if (from != (size_t)-1 && at - from < WINDOW)
                    length = match(in, from, at);
            }
            if (length >= SHORTEST) {
                size_t distance = at - from;
                items[0] |= (unsigned char)(1 << item);
                items[used++] = (unsigned char)(distance >> 4);
                items[used++] = (unsigned char)((distance & 15) << 4 | (length - SHORTEST));
                at += length;
            } else {
                items[used++] = in->data[at++];
            }
        }
        if (buffer_push(out, items, used))
            return -1;
    }
    return 0;
}

int unpack(const struct buffer *in, struct buffer *out)
{
    size_t at = 0;
    while (at < in->size) {
        unsigned flags = in->data[at++];
        for (int item = 0; item < 8 && at < in->size; item++) {
            if (flags >> item & 1) {
                if (at + 2 > in->size)
                    return -1;
                size_t distance = (size_t)in->data[at] << 4 | in->data[at + 1] >> 4;
                size_t length = (in->data[at + 1] & 15) + SHORTEST;
                at += 2;
                if (distance == 0 || distance > out->size)
                    return -1;
                while (length--) {
                    unsigned char byte = out->data[out->size - distance];
                    if (buffer_push(out, &byte, 1))
                        return -1;
                }
            } else if (buffer_push(out, in->data + at++, 1)) {
                return -1;
            }
        }
    }
    return 0;
}
