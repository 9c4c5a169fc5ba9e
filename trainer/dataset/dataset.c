#include "trainer/dataset/dataset_state.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/dataset/tokenise.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The digest of all that decides the ids: files, columns, tokenizer, template, options. Not the day
 * that some templates name: a training that goes on has the day on which it began. */
static enum fr_rc cache_key(const struct tr_sources *s, char key[FR_SHA256_TEXT],
                            struct fr_err *err)
{
    const struct tr_dataset_opts *o = s->o;
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&b, "6 %s %d %s %lld %d %d %lld %lld%s%s\n", tr_tokenizer_digest(s->tok),
               tr_tokenizer_eos(s->tok), tr_template_name(o->templ), (long long)o->text.cutoff_len,
               o->text.mask_history, o->text.train_on_prompt, (long long)o->max_samples,
               (long long)o->seed, o->keep_dropped ? " all" : "", o->pretrain ? " texts" : "");
    fr_buf_fmt(&b, "%d%s%s %d\n", o->text.tools != NULL ? (int)*o->text.tools : -1,
               o->text.no_thinking ? " no_thinking" : "",
               o->text.preserve_thinking ? " preserve_thinking" : "", tr_tokenizer_splits(s->tok));
    fr_buf_fmt(&b, "%d %s%s\n", (int)o->mix, o->mix_probs != NULL ? o->mix_probs : "",
               o->stream ? " stream" : "");
    fr_buf_fmt(&b, "%s\n", o->text.default_system != NULL ? o->text.default_system : "");
    for (size_t i = 0; rc == FR_OK && i < s->n; i++) {
        const struct tr_data_entry *e = &s->entries[i];
        const char *names[] = {e->prompt,       e->query,     e->response,      e->history,
                               e->messages,     e->system,    e->tools,         e->role_tag,
                               e->content_tag,  e->user_tag,  e->assistant_tag, e->observation_tag,
                               e->function_tag, e->system_tag};
        fr_buf_fmt(&b, "%d %lld", (int)e->form, (long long)e->num_samples);
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            fr_buf_fmt(&b, "\t%s", names[k] != NULL ? names[k] : "\n");
        for (size_t k = 0; rc == FR_OK && k < e->nfiles; k++) {
            char digest[FR_SHA256_TEXT];
            if ((rc = tr_checksum_cache_sha256(s->checksums, e->files[k], digest, err)) == FR_OK)
                fr_buf_fmt(&b, "\n%s", digest);
        }
    }
    if (rc == FR_OK && b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the token cache's key");
    if (rc == FR_OK)
        fr_sha256(b.p, b.n, key);
    fr_buf_finish(&b);
    return rc;
}

/* The entries of "a, b". */
static enum fr_rc read_entries(struct tr_sources *s, struct fr_arena *arena, struct fr_err *err)
{
    const char *at = s->o->dataset;
    struct fr_str name;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && tr_next_name(&at, &name)) {
        if (s->n == TR_SETS_MAX)
            return fr_fail(err, FR_USAGE, "--dataset names more than %d data sets", TR_SETS_MAX);
        const char *text = fr_arena_text(arena, name.p, name.n);
        rc = text == NULL ? fr_fail(err, FR_NOMEM, "no memory for --dataset")
                          : tr_entry_read(s->o->dataset_dir, text, arena, &s->entries[s->n++], err);
        if (rc == FR_OK && s->o->stream)
            s->entries[s->n - 1].num_samples = -1;
    }
    if (rc == FR_OK && s->n == 0)
        return fr_fail(err, FR_USAGE, "--dataset names no data set");
    return rc;
}

/* The tokens that were written, mapped: the system may take their memory. */
static void swap_for_cache(struct tr_tokens *t, const struct tr_token_cache *cache)
{
    struct tr_tokens mapped;
    struct fr_err why;
    bool found;

    if (tr_token_cache_read(cache, &mapped, &found, &why) != FR_OK || !found)
        return;
    tr_tokens_finish(t);
    *t = mapped;
}

/* From the cache where it has it, else tokenised and put there. */
static enum fr_rc fill(const struct tr_sources *s, struct tr_tokens *t, bool *cached,
                       struct fr_buf *warnings, struct fr_err *err)
{
    const struct tr_dataset_opts *o = s->o;
    char key[FR_SHA256_TEXT], path[PATH_MAX] = "";
    struct tr_token_cache cache = {path, key, s->checksums};
    struct fr_err why;
    enum fr_rc rc = cache_key(s, key, err);

    if (rc == FR_OK && o->cache_dir != NULL) {
        if (snprintf(path, sizeof(path), "%s/%.32s.tok", o->cache_dir, key) >= PATH_MAX)
            return fr_fail(err, FR_USAGE, "folder name too long: %s", o->cache_dir);
        if (!o->overwrite_cache)
            rc = tr_token_cache_read(&cache, t, cached, err);
    }
    if (rc != FR_OK || *cached)
        return rc;
    if ((rc = tr_tokenise(s, t, warnings, err)) != FR_OK || o->cache_dir == NULL)
        return rc;
    /* a cache that cannot be written, or whose data changed meanwhile, only slows the next run down
     */
    if (fr_mkdirs(o->cache_dir, 0755, &why) == FR_OK &&
        tr_checksum_cache_settle(s->checksums, &why) == FR_OK &&
        tr_token_cache_write(&cache, t, &why) == FR_OK)
        swap_for_cache(t, &cache);
    else if (warnings != NULL)
        fr_buf_fmt(warnings, "no token cache: %s\n", why.msg);
    return FR_OK;
}

enum fr_rc tr_dataset_load(const struct tr_dataset_opts *o, const struct tr_tokenizer *tok,
                           struct tr_dataset **out, struct fr_buf *warnings, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct tr_checksum_cache checksums;
    struct tr_sources s = {.o = o, .tok = tok, .checksums = &checksums};
    struct tr_tokens tokens = {.n = 0};
    bool cached = false;
    enum fr_rc rc;

    *out = NULL;
    s.entries = fr_arena_array(&arena, TR_SETS_MAX, sizeof(*s.entries));
    rc = s.entries != NULL ? read_entries(&s, &arena, err)
                           : fr_fail(err, FR_NOMEM, "no memory for the data set");
    tr_checksum_cache_open(&checksums, o->cache_dir);
    if (rc == FR_OK)
        rc = fill(&s, &tokens, &cached, warnings, err);
    tr_checksum_cache_close(&checksums);
    fr_arena_finish(&arena);
    if (rc != FR_OK) {
        tr_tokens_finish(&tokens);
        return rc;
    }
    rc = tr_dataset_hold(&tokens, o->cache_dir, out, err);
    if (rc == FR_OK)
        (*out)->cached = cached;
    return rc;
}

void tr_dataset_destroy(struct tr_dataset *d)
{
    struct tr_held *h = d != NULL ? d->held : NULL;

    if (d == NULL)
        return;
    if (h != NULL && --h->users == 0) {
        tr_tokens_finish(&h->tokens);
        fr_sys.free(h->cache_dir);
        fr_sys.free(h);
    }
    fr_sys.free(d->order);
    fr_sys.free(d->lengths);
    fr_sys.free(d->rows);
    fr_sys.free(d);
}

int64_t tr_dataset_size(const struct tr_dataset *d)
{
    return d->rows != NULL ? d->nrows : d->n;
}

struct tr_sample tr_dataset_at(const struct tr_dataset *d, int64_t i)
{
    struct tr_sample s = {.row = d};

    if (d->rows == NULL)
        return tr_dataset_example(d, i);
    s.first = d->rows[i];
    s.parts = d->rows[i + 1] - s.first;
    for (int64_t k = 0; k < s.parts; k++)
        s.n += tr_dataset_length(d, s.first + k);
    return s;
}

struct tr_sample tr_sample_part(const struct tr_sample *s, int64_t k)
{
    return s->row != NULL ? tr_dataset_example(s->row, s->first + k) : *s;
}

int64_t tr_dataset_valid(const struct tr_dataset *d)
{
    return d->valid;
}

int64_t tr_dataset_most(const struct tr_dataset *d)
{
    return d->most;
}

int64_t tr_dataset_longest(const struct tr_dataset *d)
{
    return d->longest;
}

bool tr_dataset_cached(const struct tr_dataset *d)
{
    return d->cached;
}

size_t tr_dataset_sets(const struct tr_dataset *d, const int64_t **lengths)
{
    *lengths = d->held->tokens.sets;
    return d->order == NULL ? d->held->tokens.nsets : 0;
}

const char *tr_dataset_digest(const struct tr_dataset *d)
{
    return d->digest;
}
