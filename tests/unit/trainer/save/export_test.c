/*
 * What a training leaves and takes back: the adapter's folder file by file, what is refused, which
 * checkpoints stay; and which evaluation is the best.
 */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/tensor/safetensors.h"
#include "trainer/save/export.h"
#include "trainer/save/quantize.h"
#include "trainer/train/output.h"
#include "trainer/train/setup.h"

#include <errno.h>
#include <math.h>

enum { LARGEST = 1 << 20, FLAT = 64 };

static char dir[] = "/tmp/flowtrain-export-XXXXXX";

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted, a space between. */
static void check_names(const char *folder, const char *want)
{
    char **names = NULL;
    struct fr_buf got = {0};
    size_t n = 0;

    CHECK_INT(fr_sys.list(folder, &names, &n), 0);
    if (n > 1)
        qsort(names, n, sizeof(*names), by_name);
    fr_buf_text(&got, "");
    for (size_t i = 0; i < n; i++)
        fr_buf_fmt(&got, "%s%s", i > 0 ? " " : "", names[i]);
    CHECK_TEXT(got.p, want);
    fr_sys_names_free(names, n);
    fr_buf_finish(&got);
}

static void put(const char *path, const char *text)
{
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, NULL), FR_OK);
}

static void check_file(const char *path, const char *want)
{
    struct fr_buf got = {0};

    if (CHECK_INT(fr_file_read(path, LARGEST, &got, NULL), FR_OK)) {
        fr_buf_add(&got, "", 1);
        CHECK_TEXT(got.p, want);
    }
    fr_buf_finish(&got);
}

/* ---- an adapter ---- */

static char q_proj[] = "model.layers.0.self_attn.q_proj", o_proj[] = "model.layers.1.o_proj";

/* A of q_proj, then its B; o_proj behind a gap. */
static struct tr_adapter adapters[] = {
    {.module = q_proj, .r = 2, .in = 3, .out = 4, .a_at = 0, .b_at = 8},
    {.module = o_proj, .r = 1, .in = 5, .out = 2, .a_at = 32, .b_at = 40},
};
static const struct tr_params both = {.adapters = adapters, .n = 2, .padded = FLAT};

static const struct {
    const char *name;
    int64_t shape[2], at;
} tensors[] = {
    {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", {2, 3}, 0},
    {"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", {4, 2}, 8},
    {"base_model.model.model.layers.1.o_proj.lora_A.weight", {1, 5}, 32},
    {"base_model.model.model.layers.1.o_proj.lora_B.weight", {2, 1}, 40},
};
enum { TENSORS = sizeof(tensors) / sizeof(tensors[0]) };

static const struct tr_lora_config none;
static float flat[FLAT];

static void number_flat(void)
{
    for (int i = 0; i < FLAT; i++)
        flat[i] = (float)(i + 1) / 8;
}

static struct tr_lora_config lora(void)
{
    static const char *const targets[] = {"o_proj", "q_proj"};

    return (struct tr_lora_config){.r = 2, .alpha = 4, .targets = targets, .ntargets = 2};
}

static void test_tensors(void)
{
    struct tr_st *st = NULL;
    struct fr_buf raw = {0};
    struct fr_err err = {0};

    CHECK_INT(fr_file_read("new/out/adapter_model.safetensors", LARGEST, &raw, NULL), FR_OK);
    CHECK(memmem(raw.p, raw.n, "{\"__metadata__\":{\"format\":\"pt\"},", 32) != NULL);
    CHECK_INT(tr_st_open("new/out/adapter_model.safetensors", &st, &err), FR_OK);
    CHECK_INT(tr_st_count(st), TENSORS);
    for (size_t i = 0; i < TENSORS; i++) {
        const struct tr_st_tensor *t = tr_st_find(st, tensors[i].name);
        float got[16];

        check_row(tensors[i].name);
        if (!CHECK(t != NULL && t->type == TR_ST_F32 && t->ndim == 2))
            continue;
        CHECK_INT(t->shape[0], tensors[i].shape[0]);
        CHECK_INT(t->shape[1], tensors[i].shape[1]);
        CHECK_INT(tr_st_read(st, t, 0, got, (size_t)t->bytes, &err), FR_OK);
        CHECK(memcmp(got, flat + tensors[i].at, (size_t)t->bytes) == 0);
    }
    tr_st_close(st);
    fr_buf_finish(&raw);
}

/* Gaps stay as they are. */
static void test_back(void)
{
    float back[FLAT];

    check_row("read back");
    for (int i = 0; i < FLAT; i++)
        back[i] = -1;
    CHECK_INT(tr_import_adapter("new/out", &both, &none, back, NULL), FR_OK);
    for (int i = 0; i < FLAT; i++)
        CHECK(back[i] == (i < 6 || (i >= 8 && i < 16) || (i >= 32 && i < 37) || i == 40 || i == 41
                              ? flat[i]
                              : -1));
}

static enum fr_rc export(const char *to, const struct tr_params *p, const struct tr_args *a,
                         struct fr_err *err) {
    struct tr_lora_config l = lora();

    return tr_export_adapter(to, &(struct tr_adapter_out){p, flat, a, &l, NULL, 0}, err);
}

/* Every file of the folder. */
static void test_adapter(void)
{
    struct tr_args a;
    struct fr_buf args = {0};
    struct fr_err err = {0};

    check_row("an adapter");
    tr_args_init(&a);
    a.model_name_or_path = "model";
    CHECK_INT(fr_mkdirs("model", 0755, NULL), FR_OK);
    put("model/tokenizer.json", "{\"one\": 1}");
    put("model/tokenizer_config.json", "{\"two\": 2}");
    put("model/special_tokens_map.json", "{}");
    put("model/chat_template.jinja", "{{ x }}");
    put("model/config.json", "{}");
    put("model/vocab.txt", "a\n");
    number_flat();
    if (!CHECK_INT(export("new/out", &both, &a, &err), FR_OK))
        printf("   %s\n", err.msg);
    check_names("new/out", "adapter_config.json adapter_model.safetensors chat_template.jinja "
                           "special_tokens_map.json tokenizer.json tokenizer_config.json "
                           "training_args.json");
    check_file("new/out/tokenizer.json", "{\"one\": 1}");
    check_file("new/out/tokenizer_config.json", "{\"two\": 2}");
    check_file("new/out/special_tokens_map.json", "{}");
    check_file("new/out/chat_template.jinja", "{{ x }}");
    CHECK_INT(tr_args_json(&a, &args, &err), FR_OK);
    fr_buf_text(&args, "\n");
    check_file("new/out/training_args.json", args.p);
    test_tensors();
    test_back();
    check_row("a base without a tokenizer");
    a.model_name_or_path = "new";
    CHECK_INT(export("new/bare", &both, &a, &err), FR_OK);
    check_names("new/bare", "adapter_config.json adapter_model.safetensors training_args.json");
    fr_buf_finish(&args);
    tr_args_finish(&a);
}

static void test_export_refused(void)
{
    static const struct {
        const char *want;
        int at; /* of the value that is not finite; -1: none */
        float value;
        size_t n;
        int64_t r;
    } rows[] = {
        {"the adapter would be empty: no module is adapted", -1, 0, 0, 2},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight would be empty", -1, 0, 2,
         0},
        {"q_proj.lora_A.weight holds a value that is not finite (element 0); nothing was saved", 0,
         NAN, 2, 2},
        {"q_proj.lora_B.weight holds a value that is not finite (element 7); nothing was saved", 15,
         INFINITY, 2, 2},
        {"o_proj.lora_B.weight holds a value that is not finite (element 1); nothing was saved", 41,
         -INFINITY, 2, 2},
    };
    struct tr_args a;

    tr_args_init(&a);
    a.model_name_or_path = "model";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_params p = both;
        struct fr_err err = {0};

        check_row(rows[i].want);
        number_flat();
        if (rows[i].at >= 0)
            flat[rows[i].at] = rows[i].value;
        p.n = rows[i].n;
        adapters[0].r = rows[i].r;
        CHECK_INT(export("refused", &p, &a, &err), FR_CORRUPT);
        CHECK(strncmp(err.msg, "saving the adapter to refused: ", 31) == 0 &&
              strstr(err.msg, rows[i].want) != NULL);
        CHECK(access("refused", F_OK) != 0);
    }
    adapters[0].r = 2;
    check_row("what is not finite in a gap");
    number_flat();
    flat[6] = NAN;
    CHECK_INT(export("gap", &both, &a, NULL), FR_OK);
    tr_args_finish(&a);
}

static const uint16_t bf16[8] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100},
                      f16[8] = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800},
                      nan16[8] = {0x3f80, 0, 0, 0, 0, 0x7fc0};
static const struct {
    const char *want; /* NULL: it is read */
    size_t left_out;  /* of the four tensors; TENSORS: none */
    const char *more;
    enum tr_st_type type;
    const void *data;
    int64_t rows; /* of the first tensor */
} files[] = {
    {NULL, TENSORS, NULL, TR_ST_BF16, bf16, 2},
    {NULL, TENSORS, NULL, TR_ST_F16, f16, 2},
    {"it lacks base_model.model.model.layers.1.o_proj.lora_B.weight", 3, NULL, TR_ST_BF16, bf16, 2},
    {"it lacks base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 0, NULL, TR_ST_BF16,
     bf16, 2},
    {"it holds zzz.lora_A.weight, which is no adapter of this model", TENSORS, "zzz.lora_A.weight",
     TR_ST_BF16, bf16, 2},
    {"it holds a.lora_A.weight, which is no adapter of this model", TENSORS, "a.lora_A.weight",
     TR_ST_BF16, bf16, 2},
    {"q_proj.lora_A.weight holds a value that is not finite", TENSORS, NULL, TR_ST_BF16, nan16, 2},
    {"q_proj.lora_A.weight", TENSORS, NULL, TR_ST_BF16, bf16, 1},
    {"cannot compute with type I16", TENSORS, NULL, TR_ST_I16, bf16, 2},
};

/* Files of all float types; one that lacks a part, has one more, or holds what it must not. */
static void test_import(void)
{
    struct tr_st_item items[TENSORS + 1];

    CHECK_INT(fr_mkdirs("read", 0755, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        float got[FLAT] = {0};
        struct fr_err err = {0};
        size_t n = 0;

        check_row(files[i].want != NULL ? files[i].want : "another float type");
        for (size_t k = 0; k < TENSORS; k++)
            if (k != files[i].left_out)
                items[n++] = (struct tr_st_item){
                    .name = tensors[k].name,
                    .type = files[i].type,
                    .ndim = 2,
                    .shape = {k == 0 ? files[i].rows : tensors[k].shape[0], tensors[k].shape[1]},
                    .data = files[i].data};
        if (files[i].more != NULL)
            items[n++] = (struct tr_st_item){.name = files[i].more,
                                             .type = files[i].type,
                                             .ndim = 2,
                                             .shape = {1, 1},
                                             .data = files[i].data};
        CHECK_INT(tr_st_write("read/adapter_model.safetensors", items, n, NULL, 0, &err), FR_OK);
        if (files[i].want != NULL) {
            CHECK(tr_import_adapter("read", &both, &none, got, &err) != FR_OK);
            if (!CHECK(strncmp(err.msg, "adapter read/adapter_model.safetensors: ", 40) == 0 &&
                       strstr(err.msg, files[i].want) != NULL))
                printf("   %s\n", err.msg);
            continue;
        }
        if (!CHECK_INT(tr_import_adapter("read", &both, &none, got, &err), FR_OK))
            printf("   %s\n", err.msg);
        CHECK(got[0] == 1 && got[5] == 6 && got[6] == 0 && got[8] == 1 && got[15] == 8 &&
              got[16] == 0 && got[32] == 1 && got[36] == 5 && got[40] == 1 && got[41] == 2);
    }
}

/* ---- checkpoints ---- */

/* Folders of these names, a space between, each with a file. */
static void make_folders(const char *names)
{
    char name[64], path[200];
    int n;

    CHECK_INT(fr_remove_tree("kept", NULL), FR_OK);
    CHECK_INT(fr_mkdirs("kept", 0755, NULL), FR_OK);
    for (; sscanf(names, "%63s%n", name, &n) == 1; names += n) {
        (void)snprintf(path, sizeof(path), "kept/%s", name);
        CHECK_INT(fr_mkdirs(path, 0755, NULL), FR_OK);
        (void)snprintf(path, sizeof(path), "kept/%s/adapter_model.safetensors", name);
        put(path, "x");
    }
}

static void test_rotate(void)
{
    static const struct {
        const char *name, *before, *want;
        int64_t keep, best;
    } rows[] = {
        {"all stay", "checkpoint-1 checkpoint-2", "checkpoint-1 checkpoint-2", -1, 0},
        {"as many as stay", "checkpoint-1 checkpoint-2", "checkpoint-1 checkpoint-2", 2, 0},
        {"the oldest goes, by its number", "checkpoint-10 checkpoint-2 checkpoint-9",
         "checkpoint-10 checkpoint-9", 2, 0},
        {"two go", "checkpoint-10 checkpoint-2 checkpoint-9", "checkpoint-10", 1, 0},
        {"0 is no limit", "checkpoint-10 checkpoint-2", "checkpoint-10 checkpoint-2", 0, 0},
        {"the best stays in place of the next", "checkpoint-1 checkpoint-2 checkpoint-3",
         "checkpoint-1 checkpoint-3", 2, 1},
        {"the best alone", "checkpoint-1 checkpoint-2 checkpoint-3", "checkpoint-2", 1, 2},
        {"other names neither go nor count",
         "checkpoint-1 checkpoint-2 checkpoint-best checkpoint- mycheckpoint-0 resume",
         "checkpoint- checkpoint-1 checkpoint-2 checkpoint-best mycheckpoint-0 resume", 2, 0},
    };
    int64_t steps[3] = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        make_folders(rows[i].before);
        tr_export_rotate("kept", rows[i].keep, rows[i].best);
        check_names("kept", rows[i].want);
    }
    check_row("steps of checkpoints");
    make_folders("checkpoint-7 checkpoint-x other-9 checkpoint-");
    CHECK_INT(tr_export_steps("kept", steps, 3), 1);
    CHECK_INT(steps[0], 7);
    make_folders("checkpoint-7 checkpoint-12 checkpoint-100");
    CHECK_INT(tr_export_steps("kept", steps, 3), 3);
    CHECK_INT(steps[0] + steps[1] + steps[2], 119);
    CHECK_INT(tr_export_steps("kept", steps, 2), 2);
    CHECK_INT(tr_export_steps("nowhere", steps, 3), 0);
    check_row("what was not whole goes");
    make_folders(".tmp-checkpoint-3 .tmp-checkpoint-4 tmp-checkpoint-5 checkpoint-6 .tmp");
    tr_export_sweep("kept");
    check_names("kept", ".tmp checkpoint-6 tmp-checkpoint-5");
    tr_export_sweep("nowhere");
}

/* ---- the output folder ---- */

static struct fr_buf said;

static void hear(void *arg, int fd, const char *text, size_t n)
{
    (void)fd;
    fr_buf_add(arg, text, n);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

static int locks;

/* Who held the lock ends between our open and our lock, and takes its file along. */
static int lock_late(int fd)
{
    if (locks++ == 0)
        CHECK_INT(unlink("a/b/.training.lock"), 0);
    return fr_sys_real.lock(fd);
}

static int no_locks(int fd)
{
    (void)fd;
    errno = ENOLCK;
    return -1;
}

/* Descriptors of this process. */
static int open_fds(void)
{
    char **names = NULL;
    size_t n = 0;

    CHECK_INT(fr_sys.list("/proc/self/fd", &names, &n), 0);
    fr_sys_names_free(names, n);
    return (int)n;
}

/* One training at a time writes in a folder. */
static void test_lock(void)
{
    struct tr_args a = {.output_dir = "a/b", .finetuning_type = "lora"};
    struct fr_printer before;
    char host[65] = "", text[128], want[400];
    int lock = 7, other = 7, fds = open_fds();
    struct fr_err err = {0};

    check_row("the lock of a folder");
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(text, sizeof(text), "process %d on %s\n", (int)getpid(), host);
    CHECK_INT(fr_mkdirs("a/b/.tmp-checkpoint-2", 0755, NULL), FR_OK);
    put("a/b/.training.lock",
        "process 1234567890 on a machine with a longer name than this one has\n");
    CHECK_INT(tr_output_open(&a, true, &lock, &err), FR_OK);
    CHECK(lock >= 0);
    check_names("a/b", ".training.lock");
    check_file("a/b/.training.lock", text);
    CHECK_INT(fr_mkdirs("a/b/.tmp-checkpoint-2", 0755, NULL), FR_OK);
    CHECK_INT(tr_output_open(&a, true, &other, &err), FR_BUSY);
    CHECK_INT(other, -1);
    text[strlen(text) - 1] = '\0';
    (void)snprintf(
        want, sizeof(want),
        "another training writes --output_dir a/b (%s): wait for its end, or name another "
        "folder. Processes that shall be one training are started by flowtrain launch, "
        "torchrun, srun or mpirun",
        text);
    CHECK_TEXT(err.msg, want);
    CHECK_INT(truncate("a/b/.training.lock", 0), 0);
    CHECK_INT(tr_output_open(&a, true, &other, &err), FR_BUSY);
    CHECK(strstr(err.msg, " a/b (it has just begun): ") != NULL);
    check_row("a rank that is not the first");
    CHECK_INT(tr_output_open(&a, false, &other, &err), FR_OK);
    CHECK_INT(other, -1);
    tr_output_close(&a, &other);
    check_names("a/b", ".tmp-checkpoint-2 .training.lock");
    check_row("the end");
    tr_output_close(&a, &lock);
    CHECK_INT(lock, -1);
    check_names("a/b", ".tmp-checkpoint-2");
    check_row("the file of the lock goes");
    put("a/b/.training.lock", "");
    fr_sys.lock = lock_late;
    CHECK_INT(tr_output_open(&a, true, &lock, &err), FR_OK);
    CHECK_INT(locks, 2);
    check_names("a/b", ".training.lock");
    tr_output_close(&a, &lock);
    check_row("a file system without locks");
    fr_sys.lock = no_locks;
    before = fr_print_by(&(struct fr_printer){hear, no_error, &said});
    CHECK_INT(tr_output_open(&a, true, &lock, &err), FR_OK);
    (void)fr_print_by(before.put != NULL ? &before : NULL);
    CHECK_INT(lock, -1);
    CHECK(strstr(said.p, "a/b/.training.lock cannot be locked (No locks available): nothing "
                         "hinders a second training in this folder") != NULL);
    fr_sys.lock = fr_sys_real.lock;
    CHECK_INT(open_fds(), fds);
}

/* A finished adapter or model is overwritten, or gone on from, where that was asked for. */
static void test_finished(void)
{
    static const char adapter[] = "done/adapter_model.safetensors";
    static const char model[] = "done/model.safetensors";
    static const char index[] = "done/model.safetensors.index.json";
    static const struct {
        const char *name, *type, *file;
        bool overwrite, go_on, state;
        enum fr_rc want;
    } rows[] = {
        {"an empty folder", "lora", NULL, false, false, false, FR_OK},
        {"an adapter", "lora", adapter, false, false, false, FR_USAGE},
        {"overwritten", "lora", adapter, true, false, false, FR_OK},
        {"gone on from", "lora", adapter, false, true, false, FR_OK},
        {"beside a state to go on from", "lora", adapter, false, false, true, FR_OK},
        {"an adapter beside a model", "lora", model, false, false, false, FR_OK},
        {"a model", "full", model, false, false, false, FR_USAGE},
        {"a model in several files", "freeze", index, false, false, false, FR_USAGE},
        {"a model where an adapter is", "full", adapter, false, false, false, FR_USAGE},
        {"a model, overwritten", "full", model, true, false, false, FR_OK},
        {"a model beside a state", "full", model, false, false, true, FR_OK},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int first = 0; first < 2; first++) {
            struct tr_args a = {.output_dir = "done",
                                .finetuning_type = rows[i].type,
                                .overwrite_output_dir = rows[i].overwrite,
                                .resume_from_checkpoint = rows[i].go_on ? "last" : NULL};
            struct fr_err err = {0};
            int lock = -1;

            check_row(rows[i].name);
            CHECK_INT(fr_remove_tree("done", NULL), FR_OK);
            CHECK_INT(fr_mkdirs(rows[i].state ? "done/resume/step-3" : "done", 0755, NULL), FR_OK);
            if (rows[i].file != NULL)
                put(rows[i].file, "x");
            CHECK_INT(tr_output_open(&a, first == 1, &lock, &err), rows[i].want);
            if (rows[i].want != FR_OK)
                CHECK_TEXT(err.msg, "Output directory done already exists and is not empty. Please "
                                    "set --overwrite_output_dir.");
            tr_output_close(&a, &lock);
        }
}

/* ---- the best evaluation ---- */

static struct tr_eval_set unnamed[] = {{.name = NULL}},
                          named[] = {{.name = "odd"}, {.name = "even"}};

static void test_metric(void)
{
    static const struct {
        const char *metric, *want; /* want NULL: it is there */
        bool accuracy, sets;
        int64_t every;
    } rows[] = {
        {"loss", NULL, false, false, 1},
        {"eval_loss", NULL, false, false, 1},
        {"odd_loss", NULL, false, true, 1},
        {"eval_even_loss", NULL, false, true, 1},
        {"even_accuracy", NULL, true, true, 1},
        {"accuracy", "--metric_for_best_model accuracy: the evaluation gives eval_loss", false,
         false, 1},
        {"bleu", "--metric_for_best_model bleu: the evaluation gives eval_loss, eval_accuracy",
         true, false, 1},
        {"loss", "--metric_for_best_model loss: the evaluation gives eval_odd_loss, eval_even_loss",
         false, true, 1},
        {"bleu", NULL, false, false, 0},
        {NULL, NULL, false, false, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a = {.metric_for_best_model = rows[i].metric,
                            .compute_accuracy = rows[i].accuracy};
        struct tr_run r = {.args = &a,
                           .evals = rows[i].sets ? named : unnamed,
                           .nevals = rows[i].sets ? 2 : 1,
                           .derived = {.eval_every = rows[i].every}};
        struct fr_err err = {0};

        check_row(rows[i].metric != NULL ? rows[i].metric : "no metric");
        CHECK_INT(tr_run_check_metric(&r, &err), rows[i].want != NULL ? FR_USAGE : FR_OK);
        if (rows[i].want != NULL)
            CHECK_TEXT(err.msg, rows[i].want);
    }
}

/* One evaluation after the other, at steps 3, 6, 9 … */
static void test_judge(void)
{
    static const struct {
        double value;
        bool better[2]; /* where less, where more is better */
        int64_t best[2], not_better[2];
    } rows[] = {
        {NAN, {false, false}, {0, 0}, {1, 1}},  {2, {true, true}, {6, 6}, {0, 0}},
        {2, {false, false}, {6, 6}, {1, 1}},    {1.5, {true, false}, {12, 6}, {0, 2}},
        {NAN, {false, false}, {12, 6}, {1, 3}}, {3, {false, true}, {12, 18}, {2, 0}},
        {-1, {true, false}, {21, 18}, {0, 1}},
    };

    for (int more = 0; more < 2; more++) {
        struct tr_args a = {.metric_for_best_model = "odd_loss",
                            .greater_is_better = more ? TR_MAYBE_TRUE : TR_MAYBE_FALSE};
        struct tr_run r = {.args = &a};

        check_row(more ? "more is better" : "less is better");
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            json_t *figures =
                json_pack("{s:f, s:o}", "eval_loss", 0.1, "eval_odd_loss",
                          isfinite(rows[i].value) ? json_real(rows[i].value) : json_null());

            r.progress.step += 3;
            CHECK_INT(tr_run_judge(&r, figures), rows[i].better[more]);
            CHECK_INT(r.progress.best_step, rows[i].best[more]);
            CHECK_INT(r.progress.not_better, rows[i].not_better[more]);
            CHECK(!rows[i].better[more] || r.progress.best_metric == rows[i].value);
            json_decref(figures);
        }
        a.metric_for_best_model = NULL;
        CHECK(!tr_run_judge(&r, NULL));
        CHECK_INT(r.progress.not_better, rows[6].not_better[more]);
    }
}

static void test_perplexity(void)
{
    json_t *figures =
        json_pack("{s:f, s:n, s:f}", "eval_odd_loss", 2.0, "eval_even_loss", "eval_loss", 0.0);
    struct tr_run r = {.evals = named, .nevals = 2};
    char *text;

    check_row("perplexity");
    tr_run_add_perplexity(&r, figures);
    r.evals = unnamed;
    r.nevals = 1;
    tr_run_add_perplexity(&r, figures);
    text = json_dumps(figures, JSON_REAL_PRECISION(6));
    CHECK_TEXT(text, "{\"eval_odd_loss\": 2.0, \"eval_even_loss\": null, \"eval_loss\": 0.0, "
                     "\"eval_odd_perplexity\": 7.38906, \"eval_even_perplexity\": null, "
                     "\"eval_perplexity\": 1.0}");
    free(text);
    json_decref(figures);
}

/* After a resume. */
static void test_best_gone(struct tr_backend *be, struct tr_comm *comm)
{
    static const struct {
        const char *name, *there;
        bool load;
        int64_t best, want;
    } rows[] = {
        {"the best checkpoint is there", "checkpoint-4", true, 4, 4},
        {"it is gone", "checkpoint-40", true, 4, 0},
        {"it is not wanted", "checkpoint-40", false, 4, 4},
        {"there was none", "checkpoint-0", true, 0, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_args a = {.output_dir = "kept", .load_best_model_at_end = rows[i].load};
        struct tr_run r = {.args = &a,
                           .env = {.be = be, .comm = comm},
                           .progress = {.best_step = rows[i].best, .best_metric = 3}};
        struct fr_printer before = fr_print_by(&(struct fr_printer){hear, no_error, &said});

        check_row(rows[i].name);
        said.n = 0;
        make_folders(rows[i].there);
        CHECK_INT(tr_run_check_best(&r, NULL), FR_OK);
        (void)fr_print_by(before.put != NULL ? &before : NULL);
        CHECK_INT(r.progress.best_step, rows[i].want);
        CHECK(r.progress.best_metric == (rows[i].want == rows[i].best ? 3 : 0));
        fr_buf_add(&said, "", 1);
        CHECK_INT(
            strstr(said.p, "note: kept/checkpoint-4, the best model so far, is no longer there") !=
                NULL,
            rows[i].want != rows[i].best);
    }
    fr_buf_finish(&said);
}

/* Blocks that matrices of three rows do not fill, and of zeros alone; the row behind is not theirs.
 */
static void test_blocks(void)
{
    static const float w[] = {0, 0, 1, 2, 7, 0, 0, 0, -4, 3, 0, 1, 8, 0, 0, 0, 0, 5, 99, 99, 99};
    static const float want[] = {1, 4 / 448.0F, 7 / 448.0F, 8 / 448.0F, 1, 5 / 448.0F};
    const struct tr_blocks b = {3, 6, 2, 2};
    uint8_t codes[18];
    float scales[6];

    check_row("blocks of FP8");
    tr_fp8_scales(&b, w, scales);
    tr_fp8_codes(&b, w, codes);
    for (int i = 0; i < 6; i++)
        CHECK(scales[i] == want[i]);
    CHECK_INT(codes[0], 0);
    CHECK_INT(codes[4], 0x7e); /* 448 */
    CHECK_INT(codes[8], 0xfe); /* -448 */
    CHECK_INT(codes[12], 0x7e);
    CHECK_INT(codes[16], 0);
    CHECK_INT(codes[17], 0x7e);
}

int main(void)
{
    struct tr_backend *be = NULL;
    struct tr_comm *comm = NULL;

    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return EXIT_FAILURE;
    test_adapter();
    test_export_refused();
    test_import();
    test_rotate();
    test_lock();
    test_finished();
    test_metric();
    test_judge();
    test_perplexity();
    test_blocks();
    if (CHECK_INT(tr_cpu_create(&be, NULL), FR_OK) &&
        CHECK_INT(tr_comm_single(be, &comm, NULL), FR_OK))
        test_best_gone(be, comm);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    CHECK(chdir("/") == 0 && fr_remove_tree(dir, NULL) == FR_OK);
    return check_done();
}
