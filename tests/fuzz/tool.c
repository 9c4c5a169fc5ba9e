/* The table of targets, and what they share. */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "engine/wire/codec.h"
#include "engine/wire/wire.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct fuzz_target fuzz_targets[] = {
    {"pipeline", fuzz_pipeline, NULL},
    {"inventory", fuzz_inventory, NULL},
    {"expr", fuzz_expr, NULL},
    {"cron", fuzz_cron, NULL},
    {"tzif", fuzz_tzif, fuzz_tzif_seeds},
    {"zone_name", fuzz_zone_name, NULL},
    {"outputs", fuzz_outputs, NULL},
    {"values", fuzz_values, NULL},
    {"elements", fuzz_elements, NULL},
    {"ssh_config", fuzz_ssh_config, NULL},
    {"known_hosts", fuzz_known_hosts, NULL},
    {"boot", fuzz_boot, NULL},
    {"squeue", fuzz_squeue, NULL},
    {"serve", fuzz_serve, fuzz_serve_seeds},
    {"engine", fuzz_engine, fuzz_engine_seeds},
    {"journal", fuzz_journal, fuzz_journal_seeds},
    {"mask", fuzz_mask, NULL},
    {"request", fuzz_request, NULL},
    {"answer", fuzz_answer, NULL},
    {"events", fuzz_events, NULL},
    {"api", fuzz_api, NULL},
    {"safetensors", fuzz_safetensors, fuzz_safetensors_seeds},
    {"model_config", fuzz_model_config, NULL},
    {"ds_config", fuzz_ds_config, NULL},
    {"lora_config", fuzz_lora_config, NULL},
    {"train_args", fuzz_train_args, NULL},
    {"tokenizer", fuzz_tokenizer, NULL},
    {"records", fuzz_records, NULL},
    {"dataset_info", fuzz_dataset_info, NULL},
    {"token_cache", fuzz_token_cache, fuzz_token_cache_seeds},
    {"pickle", fuzz_pickle, fuzz_pickle_seeds},
    {"torch_file", fuzz_torch_file, fuzz_torch_file_seeds},
    {NULL, NULL, NULL},
};

const struct fuzz_target *fuzz_find(const char *name)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as our programs do */
    for (const struct fuzz_target *t = fuzz_targets; t->name != NULL; t++)
        if (name != NULL && strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

void fuzz_want(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: does not hold: %s\n", what);
    abort();
}

void fuzz_want_err(enum fr_rc rc, const struct fr_err *err)
{
    if (rc == FR_OK)
        return;
    fuzz_want(err->rc == rc, "the code returned is the error's");
    fuzz_want(err->msg[0] != '\0', "an error has a text");
    fuzz_want(memchr(err->msg, '\0', sizeof(err->msg)) != NULL, "the text ends");
    fuzz_want(strchr(err->msg, '\n') == NULL, "the text is one line");
    fuzz_want(rc != FR_BUG, "no fault of our own is reported");
}

const char *fuzz_path(struct fr_str in)
{
    static char path[64];
    static int fd = -1;

    if (fd < 0 && (fd = memfd_create("fuzz", MFD_CLOEXEC)) >= 0)
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fuzz_want(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, in.p, in.n, 0) == (ssize_t)in.n,
              "the input can be kept in memory");
    return path;
}

static char dir[] = "/dev/shm/flowrun-fuzz-XXXXXX";

static void remove_dir(void)
{
    fr_remove_tree(dir, NULL);
}

const char *fuzz_dir(void)
{
    static bool made;

    if (!made) {
        fuzz_want(mkdtemp(dir) != NULL, "a folder in /dev/shm can be made");
        (void)atexit(remove_dir);
        made = true;
    }
    return dir;
}

void fuzz_put_file(const char *name, struct fr_str bytes)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", fuzz_dir(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    fuzz_want(fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n && close(fd) == 0,
              "the input can be written");
}

void fuzz_frames(struct fr_str in, struct fr_buf *out)
{
    if (in.n == 0)
        return;
    if ((in.p[0] & 1) == 0) {
        fr_buf_add(out, in.p + 1, in.n - 1);
        return;
    }
    for (size_t at = 1; at + 3 <= in.n;) {
        size_t n = (uint8_t)in.p[at + 1] | (size_t)(uint8_t)in.p[at + 2] << 8;
        uint8_t head[FR_FRAME_HEAD];

        n = n < in.n - at - 3 ? n : in.n - at - 3;
        n = n < FR_FRAME_MAX ? n : FR_FRAME_MAX;
        fr_put_u32(head, (uint32_t)n);
        head[4] = (uint8_t)in.p[at];
        fr_buf_add(out, head, sizeof(head));
        fr_buf_add(out, in.p + at + 3, n);
        at += 3 + n;
    }
}

void fuzz_piece(const struct fr_msg *m, struct fr_buf *out)
{
    struct fr_buf b = {0};

    fr_shape_put(fr_msg_shape(m->type), &m->hello, &b);
    fuzz_want(!b.bad && b.n < FR_FRAME_MAX, "a seed fits a frame");
    if (out->n == 0)
        fr_buf_text(out, "\1");
    fr_buf_add(out, &(char){(char)m->type}, 1);
    fr_buf_add(out, (char[]){(char)b.n, (char)(b.n >> 8)}, 2);
    fr_buf_add(out, b.p, b.n);
    fr_buf_finish(&b);
}
