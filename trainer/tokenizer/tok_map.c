#include "trainer/tokenizer/tok.h"

#include "engine/base/sys.h"

#include <string.h>

bool tr_tok_map_init(struct tr_tok_map *m, struct fr_arena *arena, size_t keys)
{
    m->v = fr_arena_array(arena, keys, sizeof(m->v[0]));
    return m->v != NULL && fr_map_reserve(&m->places, keys);
}

void tr_tok_map_put(struct tr_tok_map *m, struct fr_str key, int32_t id)
{
    if (tr_tok_map_get(m, key) >= 0)
        return;
    m->v[m->places.n] = (struct tr_tok_key){key, id};
    (void)fr_map_add(&m->places, tr_tok_hash(key.p, key.n), m->places.n);
}

int32_t tr_tok_map_get(const struct tr_tok_map *m, struct fr_str key)
{
    uint64_t hash = tr_tok_hash(key.p, key.n), *place;

    for (size_t at = 0; (place = fr_map_next(&m->places, hash, &at)) != NULL;)
        if (m->v[*place].key.n == key.n && tr_tok_same(m->v[*place].key.p, key.p, key.n))
            return m->v[*place].id;
    return -1;
}

int tr_tok_byte_char(uint8_t byte, char out[2])
{
    unsigned code = byte;

    if (byte <= 0x20)
        code = 0x100u + byte;
    else if (byte >= 0x7f && byte <= 0xa0)
        code = 0x121u + byte - 0x7f;
    else if (byte == 0xad)
        code = 0x143;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/* The byte that a code point stands for, -1. */
static int byte_of(unsigned code)
{
    if ((code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad))
        return (int)code;
    if (code >= 0x100 && code <= 0x120)
        return (int)(code - 0x100);
    if (code >= 0x121 && code <= 0x142)
        return (int)(code - 0x121 + 0x7f);
    return code == 0x143 ? 0xad : -1;
}

struct fr_str tr_tok_bytes_of(struct fr_arena *arena, struct fr_str key)
{
    char *out = fr_arena_alloc(arena, key.n + 1);
    size_t n = 0;

    for (size_t i = 0; out != NULL && i < key.n;) {
        uint8_t c = (uint8_t)key.p[i];
        unsigned code = c;
        if (c >= 0x80) {
            if (c >= 0xe0 || i + 1 >= key.n)
                return (struct fr_str){NULL, 0};
            code = (c & 0x1fu) << 6 | ((uint8_t)key.p[i + 1] & 0x3fu);
            i++;
        }
        int byte = byte_of(code);
        if (byte < 0)
            return (struct fr_str){NULL, 0};
        out[n++] = (char)byte;
        i++;
    }
    return (struct fr_str){out, n};
}

/* Room for n more nodes. */
static bool reserve(struct tr_tok_trie *trie, size_t n)
{
    void *p = fr_grow(trie->nodes, trie->n + n, &trie->cap, sizeof(trie->nodes[0]));

    if (p != NULL)
        trie->nodes = p;
    return p != NULL;
}

bool tr_tok_trie_add(struct tr_tok_trie *trie, struct fr_str content, int32_t added)
{
    int32_t at = 0;

    if (!reserve(trie, content.n + 1))
        return false;
    if (trie->n == 0)
        trie->nodes[trie->n++] = (struct tr_tok_node){.added = -1};
    for (size_t i = 0; i < content.n; i++) {
        uint8_t byte = (uint8_t)content.p[i];
        int32_t next = trie->nodes[at].child;
        while (next != 0 && trie->nodes[next].byte != byte)
            next = trie->nodes[next].sibling;
        if (next == 0) {
            next = (int32_t)trie->n++;
            trie->nodes[next] =
                (struct tr_tok_node){.sibling = trie->nodes[at].child, .added = -1, .byte = byte};
            trie->nodes[at].child = next;
        }
        at = next;
    }
    trie->nodes[at].added = added;
    trie->starts[(uint8_t)content.p[0]] = true;
    trie->start =
        trie->start == 0 || trie->start == (uint8_t)content.p[0] ? (uint8_t)content.p[0] : -1;
    return true;
}

int32_t tr_tok_trie_match(const struct tr_tok_trie *trie, const char *p, const char *end, size_t *n)
{
    int32_t at = 0, found = -1;

    for (const char *q = p; q < end; q++) {
        int32_t next = trie->nodes[at].child;
        while (next != 0 && trie->nodes[next].byte != (uint8_t)*q)
            next = trie->nodes[next].sibling;
        if (next == 0)
            break;
        at = next;
        if (trie->nodes[at].added >= 0) {
            found = trie->nodes[at].added;
            *n = (size_t)(q + 1 - p);
        }
    }
    return found;
}
