/* What other trainers leave: files of torch.save, and their pickles. */
#include "tests/fuzz/fuzz.h"

#include "engine/base/sys.h"
#include "trainer/foreign/deepspeed.h"
#include "trainer/foreign/pickle.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data.pkl of a small mp_rank_00_model_states.pt: every kind of value that one may hold. */
/* clang-format off */
static const char states[] =
    "\200\002}q\000(X\006\000\000\000moduleq\001ccollections\012OrderedDict\012q\002)Rq\003"
    "(X\001\000\000\000wq\004ctorch._utils\012_rebuild_tensor_v2\012q\005((X\007\000\000"
    "\000storageq\006ctorch\012FloatStorage\012q\007X\001\000\000\0000q\010X\003\000\000"
    "\000cpuq\011K\006tq\012QK\000K\002K\003\206q\013K\003K\001\206q\014\211h\002)Rq\015tq"
    "\016Rq\017X\001\000\000\000bq\020ctorch._tensor\012_rebuild_from_type_v2\012q\021(h"
    "\005ctorch\012Tensor\012q\022((h\006h\007X\001\000\000\0001q\023h\011K\003tq\024QK\000"
    "K\003\205q\025K\001\205q\026\211h\002)Rq\027tq\030}q\031tq\032Rq\033X\001\000\000\000n"
    "q\034h\005((h\006ctorch\012LongStorage\012q\035X\001\000\000\0002q\036h\011K\001tq\037"
    "QK\000))\211h\002)Rq tq!Rq\042uX\014\000\000\000buffer_namesq#]q$h\034aX\011\000\000"
    "\000optimizerq%NX\014\000\000\000param_shapesq&]q'h\002)Rq(h\004ctorch\012Size\012q)h"
    "\013\205q*Rq+saX\023\000\000\000frozen_param_shapesq,h\002)Rq-X\015\000\000\000shared_"
    "paramsq.}q/X\001\000\000\000tq0h\004sX\026\000\000\000frozen_param_fragmentsq1h\002)Rq"
    "2X\014\000\000\000lr_schedulerq3}q4(X\012\000\000\000last_epochq5K\003X\010\000\000"
    "\000_last_lrq6]q7G\077PbM\322\361\251\374auX\014\000\000\000global_stepsq8K\003X\015"
    "\000\000\000dp_world_sizeq9K\002X\015\000\000\000skipped_stepsq:K\000X\015\000\000\000"
    "mp_world_sizeq;K\001X\011\000\000\000ds_configq<}q=X\021\000\000\000zero_optimizationq"
    ">}q\077X\005\000\000\000stageq@K\002ssX\012\000\000\000ds_versionqAX\006\000\000\0000."
    "19.8qBX\001\000\000\000xqC]qD(\210NJ\373\377\377\377\212\006\000\000\000\000\000\001Jp"
    "\021\001\000X\001\000\000\000aqE\205qFhEh\020\206qGhEh\020X\001\000\000\000cqH\207qIcd"
    "eepspeed.runtime.zero.config\012ZeroStageEnum\012qJK\003\205qKRqLeu.";
/* clang-format on */

/* Values may contain themselves: each is looked at once, without those in it. */
void fuzz_pickle(struct fr_str in)
{
    struct fr_arena arena = {0};
    const struct tr_pickle p = {in, "data.pkl", &arena};
    const struct tr_pv *root = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = tr_pickle_read(&p, &root, &err);

    fuzz_want_err(rc, &err);
    fuzz_want((rc == FR_OK) == (root != NULL), "a pickle that is read has a value");
    for (size_t i = 0; root != NULL && root->kind == TR_PV_DICT && i < root->n; i++)
        fuzz_want(root->items[i]->kind <= TR_PV_OPAQUE, "a value has a kind");
    (void)tr_pv_get(root, "module", 0);
    fr_arena_finish(&arena);
}

void fuzz_pickle_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    put(arg, "states", (struct fr_str){states, sizeof(states) - 1});
    put(arg, "nothing", FR_STR("\200\002).")); /* an empty tuple before any other value */
}

/* The same bytes as optimizer.pt. */
static void fuzz_adam(void)
{
    struct tr_torch_file f = {0};
    struct tr_adam adam;
    struct fr_err err = {0};
    struct tr_run run;
    char path[PATH_MAX];
    int64_t steps;
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/mp_rank_00_model_states.pt", fuzz_dir());
    rc = tr_torch_open(&f, path, &err);
    if (rc == FR_OK)
        rc = tr_adam_read(&f, f.root, &adam, &err);
    fuzz_want_err(rc, &err);
    for (size_t g = 0; rc == FR_OK && g < adam.n; g++)
        for (size_t i = 0; i < adam.groups[g].params->n && i < 100; i++) {
            int64_t k = adam.groups[g].params->items[i]->number;

            if (tr_adam_run(&adam, k, TR_ADAM_V, &run, NULL, &err) == FR_OK)
                fuzz_want(run.type == TR_ST_F32 && run.n >= 0, "a moment is f32");
            if (tr_adam_steps(&adam, &adam.groups[g], k, &steps, &err) == FR_OK)
                fuzz_want(steps >= 0, "a count of steps is none below zero");
        }
    tr_torch_close(&f);
}

void fuzz_torch_file(struct fr_str in)
{
    struct tr_ds *d = NULL;
    struct fr_err err = {0};
    char bytes[64];
    enum fr_rc rc;

    fuzz_put_file("mp_rank_00_model_states.pt", in);
    rc = tr_ds_open(fuzz_dir(), in.n % 2 == 0, &d, &err);
    fuzz_want_err(rc, &err);
    for (size_t i = 0; rc == FR_OK && i < tr_ds_count(d); i++) {
        const struct tr_ds_tensor *t = tr_ds_at(d, i);

        if (t->elements > 0)
            fuzz_want(tr_ds_read(d, t, t->elements - 1, 1, bytes, &err) == FR_OK,
                      "the last element of a tensor can be read");
    }
    tr_ds_close(d);
    fuzz_adam();
}

static void put_number(struct fr_buf *b, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fr_buf_add(b, &(char){(char)(x >> (8 * i))}, 1);
}

/* The fields that a local header and the directory have in common. */
static void put_entry(struct fr_buf *b, const char *name, size_t bytes)
{
    put_number(b, 20, 2);
    put_number(b, 0, 2 + 2 + 4); /* flags, stored, time */
    put_number(b, 0, 4);         /* the CRC: left out */
    put_number(b, bytes, 4);
    put_number(b, bytes, 4);
    put_number(b, strlen(name), 2);
    put_number(b, 0, 2);
}

void fuzz_torch_file_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg)
{
    static const char zeros[64];
    const struct {
        const char *name;
        struct fr_str bytes;
    } entries[] = {{"a/data.pkl", {states, sizeof(states) - 1}},
                   {"a/byteorder", {"little", 6}},
                   {"a/data/0", {zeros, 24}},
                   {"a/data/1", {zeros, 12}},
                   {"a/data/2", {zeros, 8}}};
    struct fr_buf file = {0}, directory = {0};

    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        size_t at = file.n;

        put_number(&file, 0x04034b50, 4);
        put_entry(&file, entries[i].name, entries[i].bytes.n);
        fr_buf_text(&file, entries[i].name);
        fr_buf_add(&file, entries[i].bytes.p, entries[i].bytes.n);
        put_number(&directory, 0x02014b50, 4);
        put_number(&directory, 20, 2);
        put_entry(&directory, entries[i].name, entries[i].bytes.n);
        put_number(&directory, 0, 2 + 2 + 2);
        put_number(&directory, 0, 4);
        put_number(&directory, at, 4);
        fr_buf_text(&directory, entries[i].name);
    }
    size_t at = file.n;
    fr_buf_add(&file, directory.p, directory.n);
    put_number(&file, 0x06054b50, 4);
    put_number(&file, 0, 4);
    put_number(&file, sizeof(entries) / sizeof(entries[0]), 2);
    put_number(&file, sizeof(entries) / sizeof(entries[0]), 2);
    put_number(&file, directory.n, 4);
    put_number(&file, at, 4);
    put_number(&file, 0, 2);
    put(arg, "states", (struct fr_str){file.p, file.n});
    fr_buf_finish(&file);
    fr_buf_finish(&directory);
}
