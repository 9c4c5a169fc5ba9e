#include "engine/view/response_cache.h"

#include "engine/base/file.h"
#include "engine/store/store.h"

#include <stdio.h>
#include <string.h>

void response_cache_tag(const struct fr_run_row *row, char out[RESPONSE_TAG])
{
    const char *texts[] = {row->spec_hash, row->inventory_hash, row->params, row->source,
                           row->folder};
    struct fr_str parts[2 * sizeof(texts) / sizeof(texts[0])];
    size_t n = 0;
    char hash[FR_SHA256_TEXT];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        parts[n++] = fr_str_of(texts[i]);
        parts[n++] = FR_STR("\n");
    }
    fr_sha256_parts(&(struct fr_parts){parts, n}, hash);
    snprintf(out, RESPONSE_TAG, "\"%.16s\"", hash);
}

bool response_cache_get(const struct host_response_cache *f, int view, const char *etag,
                        struct fr_buf *out)
{
    for (size_t i = 0; i < RESPONSES; i++) {
        const struct host_response *one = &f->kept[i];

        if (one->json.n > 0 && one->view == view && strcmp(one->etag, etag) == 0) {
            fr_buf_add(out, one->json.p, one->json.n);
            return true;
        }
    }
    return false;
}

void response_cache_put(struct host_response_cache *f, int view, const char *etag,
                        const struct fr_buf *json)
{
    struct host_response *one = &f->kept[f->next];
    struct fr_buf copy = {0};

    if (json->n > RESPONSE_MOST)
        return;
    fr_buf_add(&copy, json->p, json->n);
    if (copy.bad) {
        fr_buf_finish(&copy);
        return;
    }
    fr_buf_finish(&one->json);
    one->json = copy;
    one->view = view;
    snprintf(one->etag, sizeof(one->etag), "%s", etag);
    f->next = (f->next + 1) % RESPONSES;
}

void response_cache_finish(struct host_response_cache *f)
{
    for (size_t i = 0; i < RESPONSES; i++)
        fr_buf_finish(&f->kept[i].json);
}
