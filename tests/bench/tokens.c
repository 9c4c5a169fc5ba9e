/*
 * How fast a data set becomes tokens, and how fast it comes back from the cache.
 *
 *     tokens TOKENIZER FOLDER [MEGABYTES [THREADS [split|pack|both]]]
 *
 * TOKENIZER is a tokenizer.json or its folder; FOLDER gets a file of JSON lines of that size
 * (1,000; 0: both are there) and the cache. The text is drawn: words of the tokenizer, of which the
 * k-th is 1/k as frequent as the first, one of five joined to another, with numbers, punctuation
 * and lines. split: a tenth of the records is for evaluation; pack: they share rows of 2,048
 * tokens. Printed: milliseconds by the clock and seconds of CPU of both starts, and bytes of the
 * file a second of CPU.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/dataset/dataset.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

enum { WORDS = 30000, RECORD_WORDS = 120, MEGABYTE = 1000000 };

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* The words that the tokenizer has as one token, in its order, which is that of how often they
 * come. */
static struct fr_buf words;
static size_t starts[WORDS + 1], nwords;

static enum fr_rc find_words(const struct tr_tokenizer *tok, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int32_t id = 0; rc == FR_OK && id < tr_tokenizer_size(tok) && nwords < WORDS; id++) {
        size_t from = words.n, n = 0;

        rc = tr_tokenizer_decode(tok, &id, 1, true, &words, err);
        while (from + 1 + n < words.n && isalpha((unsigned char)words.p[from + 1 + n]))
            n++;
        if (words.n > from + 1 && words.p[from] == ' ' && from + 1 + n == words.n)
            starts[++nwords] = words.n;
        else
            words.n = from;
    }
    return rc == FR_OK && nwords < 100 ? fr_fail(err, FR_USAGE, "the tokenizer has no words") : rc;
}

/* Behind a blank; one of five is two words in one. */
static void put_word(struct fr_buf *b, uint64_t k)
{
    size_t other;

    k = k < nwords ? k : nwords - 1;
    other = (size_t)k * 7919 % nwords;
    fr_buf_add(b, words.p + starts[k], starts[k + 1] - starts[k]);
    if (draw() % 5 == 0)
        fr_buf_add(b, words.p + starts[other] + 1, starts[other + 1] - starts[other] - 1);
}

static void put_text(struct fr_buf *b, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t r = draw();
        double share = (double)(r >> 11) * 0x1p-53;

        fr_buf_text(b, i > 0 && r % 40 == 0 ? "\\n" : "");
        if (r % 25 == 1)
            fr_buf_fmt(b, " %u", (unsigned)(r >> 40) % 10000);
        else
            put_word(b, (uint64_t)exp(share * log((double)nwords)) - 1);
        fr_buf_text(b, r % 11 == 2 ? "," : r % 17 == 3 ? "." : r % 91 == 4 ? " (x_1)" : "");
    }
}

static enum fr_rc make_file(const char *folder, size_t bytes, struct fr_err *err)
{
    static const char info[] = "{\"text\": {\"file_name\": \"text.jsonl\"}}\n";
    char path[PATH_MAX];
    struct fr_buf b = {0};
    enum fr_rc rc = fr_mkdirs(folder, 0755, err);

    (void)snprintf(path, sizeof(path), "%s/dataset_info.json", folder);
    if (rc == FR_OK)
        rc = fr_file_write(path, info, strlen(info), 0644, err);
    (void)snprintf(path, sizeof(path), "%s/text.jsonl", folder);
    while (rc == FR_OK && b.n < bytes) {
        fr_buf_text(&b, "{\"instruction\": \"");
        put_text(&b, RECORD_WORDS / 4);
        fr_buf_text(&b, "\", \"output\": \"");
        put_text(&b, RECORD_WORDS);
        fr_buf_text(&b, "\"}\n");
    }
    if (rc == FR_OK)
        rc = fr_file_write(path, b.p, b.n, 0644, err);
    fr_buf_finish(&b);
    return rc;
}

/* What --val_size and --packing make of the data set. */
struct then {
    bool split, pack;
};

static enum fr_rc make_sets(struct tr_dataset **d, struct tr_dataset **eval,
                            const struct then *then, struct fr_err *err)
{
    const struct tr_pack_opts rows = {.capacity = 2048, .batch = 1000, .shards = 1};
    enum fr_rc rc = FR_OK;

    if (then->split)
        rc = tr_dataset_split(d, &(struct tr_split_opts){0.1, 42, then->pack}, eval, err);
    if (rc == FR_OK && then->pack)
        rc = tr_dataset_pack(d, &rows, err);
    if (rc == FR_OK && then->pack && *eval != NULL)
        rc = tr_dataset_pack(eval, &rows, err);
    return rc;
}

static enum fr_rc load(const struct tr_dataset_opts *o, const struct tr_tokenizer *tok,
                       const struct then *then, double *cpu_s, struct fr_err *err)
{
    struct tr_dataset *d = NULL, *eval = NULL;
    int64_t began = fr_sys.mono_ms();
    clock_t before = clock();
    enum fr_rc rc = tr_dataset_load(o, tok, &d, NULL, err);

    if (rc == FR_OK)
        rc = make_sets(&d, &eval, then, err);
    *cpu_s = (double)(clock() - before) / CLOCKS_PER_SEC;
    if (rc == FR_OK)
        printf("%" PRId64 " samples, %s: %" PRId64 " ms, CPU %.3f s\n", tr_dataset_size(d),
               tr_dataset_cached(d) ? "from the cache" : "tokenised", fr_sys.mono_ms() - began,
               *cpu_s);
    tr_dataset_destroy(eval);
    tr_dataset_destroy(d);
    return rc;
}

int main(int argc, char **argv)
{
    char cache[PATH_MAX], path[PATH_MAX];
    struct fr_err err;
    struct tr_tokenizer *tok = NULL;
    struct tr_dataset_opts o = {.dataset = "text", .max_samples = -1, .text.cutoff_len = 2048};
    size_t bytes = (argc > 3 ? strtoul(argv[3], NULL, 10) : 1000) * MEGABYTE;
    double cpu_s = 0, again_s = 0;
    struct then then = {false, false};
    struct rusage used;
    struct stat st = {0};

    if (argc < 3)
        return fprintf(stderr,
                       "usage: tokens TOKENIZER FOLDER [MEGABYTES [THREADS [split|pack|both]]]\n"),
               2;
    (void)snprintf(cache, sizeof(cache), "%s/cache", argv[2]);
    (void)snprintf(path, sizeof(path), "%s/text.jsonl", argv[2]);
    o.dataset_dir = argv[2];
    o.cache_dir = cache;
    if (argc > 5) {
        then.split = strcmp(argv[5], "pack") != 0;
        then.pack = strcmp(argv[5], "split") != 0;
        o.keep_dropped = true;
    }
    o.workers = argc > 4 ? (int)strtol(argv[4], NULL, 10) : 1;
    if (tr_tokenizer_load(argv[1], &tok, &err) != FR_OK || find_words(tok, &err) != FR_OK ||
        tr_template_find("empty", &o.templ, &err) != FR_OK ||
        (stat(path, &st) != 0 && make_file(argv[2], bytes, &err) != FR_OK) ||
        (bytes > 0 && fr_remove_tree(cache, &err) != FR_OK) ||
        load(&o, tok, &then, &cpu_s, &err) != FR_OK ||
        load(&o, tok, &then, &again_s, &err) != FR_OK)
        return fprintf(stderr, "tokens: %s\n", err.msg), 1;
    (void)stat(path, &st);
    (void)getrusage(RUSAGE_SELF, &used);
    printf("%.0f MB, %d threads: %.1f MB a second of CPU, peak %.0f MB\n",
           (double)st.st_size / MEGABYTE, o.workers, (double)st.st_size / MEGABYTE / cpu_s,
           (double)used.ru_maxrss / 1000.0);
    fr_buf_finish(&words);
    tr_tokenizer_destroy(tok);
    return 0;
}
