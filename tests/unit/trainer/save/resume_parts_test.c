/*
 * Resume states in parts: written by some ranks and read by others, on nodes with one folder or
 * folders of their own; states that are damaged; what is there while one is written.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"
#include "trainer/save/resume.h"

#include <limits.h>
#include <unistd.h>

enum { STATES = 3, PATH = 400 };

static char root[] = "/tmp/flowtrain-parts-XXXXXX";
static char node_names[] = "ab"; /* a node's folder below root */

/* Ranks, the node of each, and the folder of each node. */
struct layout {
    int W;
    bool partition;
    int node[RANKS_MAX];
    bool shared, swapped; /* one folder for all; the other node's */
    bool tied;            /* the head is the embedding */
};

struct job {
    const struct layout *layout;
    int64_t save;   /* of this step; 0: load */
    int64_t loaded; /* out: 0: none */
    bool resave;    /* loaded, then a state of step 6 */
    int wrong;
    struct fr_err err; /* out */
};

static float value(int state, const char *name, int64_t i, int64_t step)
{
    return (float)tiny_random(name, (uint64_t)(i * 4 + state) + (uint64_t)step * 1000003);
}

static float *at(const struct tr_optim *o, int state, int64_t i)
{
    const struct tr_view v[STATES] = {o->weights.master, o->weights.m, o->weights.v};

    return (float *)v[state].p + i;
}

/* Elements of this rank's states that differ from those of the step; with set they are written. */
static int states(const struct tr_optim *o, int64_t step, bool set)
{
    const struct tr_grads_range *r;
    int wrong = 0;
    size_t n;

    r = tr_grads_ranges(o->grads, &n);
    for (size_t k = 0; k < n; k++)
        for (int64_t i = 0; i < r[k].n; i++)
            for (int s = 0; s < STATES; s++) {
                float want = value(s, r[k].name, r[k].first + i, step);

                if (set)
                    *at(o, s, r[k].at + i) = want;
                wrong += *at(o, s, r[k].at + i) != want;
            }
    return wrong;
}

/* Elements of the whole weights, as this rank has them, that are not the step's masters rounded. */
static int weights(struct tr_optim *o, int64_t step)
{
    const struct tr_grads_piece *p;
    struct fr_err err;
    int wrong = 0;
    size_t n;

    p = tr_grads_pieces(o->grads, &n);
    for (size_t k = 0; k < n; k++) {
        char *host = malloc(tr_grads_part_bytes(o->grads, p[k].part));
        struct tr_view got = tr_view1(host, TR_BF16, p[k].at + p[k].n);
        uint16_t rounded;
        struct tr_view want = tr_view1(&rounded, TR_BF16, 1);

        wrong += tr_grads_whole(o->grads, o->q, p[k].part, host, &err) != FR_OK;
        for (int64_t i = 0; i < p[k].n; i++) {
            tr_set(want, 0, value(0, p[k].name, p[k].first + i, step));
            wrong += tr_get(got, p[k].at + i) != tr_get(want, 0);
        }
        free(host);
    }
    return wrong;
}

static void folder_of(const struct layout *l, int node, char out[PATH])
{
    (void)snprintf(out, PATH, "%s/%c", root, node_names[l->shared ? 0 : node ^ l->swapped]);
}

static void resume_body(const struct job *j, const struct rank_self *self, struct tr_optim *o,
                        struct job *out)
{
    struct tr_progress p = {.step = j->save, .history = json_array()};
    char dir[PATH];
    static const int one[RANKS_MAX];
    struct tr_resume r = {.output_dir = dir,
                          .folders = j->layout->shared ? one : NULL,
                          .digests = {"model", "data", "tokens", "config"},
                          .flat_states = 1,
                          .accumulation = 1,
                          .micro_per_epoch = 100};
    float flat[64] = {0};
    bool found = false;

    folder_of(j->layout, j->layout->node[self->rank], dir);
    r.flat = flat;
    if (j->save > 0) {
        (void)states(o, j->save, true);
        (void)tr_resume_save(&r, o, &p, &out->err);
    } else if (tr_resume_load(&r, "last", o, &p, &found, &out->err) == FR_OK && found) {
        out->loaded = p.step;
        out->wrong = states(o, p.step, false) + weights(o, p.step);
    }
    if (j->resave && out->err.rc == FR_OK) {
        p.step = 6;
        (void)states(o, 6, true);
        (void)tr_resume_save(&r, o, &p, &out->err);
    }
    json_decref(p.history);
}

static void body(struct rank_self *self, void *arg)
{
    struct job *j = arg;
    const struct layout *l = j->layout;
    struct tiny tiny = {.kv_heads = 2, .bias = true, .head_rows = 7, .trained = true};
    struct tr_backend *be = NULL;
    struct tiny_model t = {0};
    struct tr_optim o = {0};
    struct tr_comm comm;

    tiny.partition = l->partition;
    tiny.tied = l->tied;
    if (tr_ref_create(&be, &j->err) != FR_OK)
        return;
    comm = ranks_comm(self, be);
    comm.node_of = l->node;
    comm.local_rank = 0;
    for (int k = 0; k < self->rank; k++)
        comm.local_rank += l->node[k] == l->node[self->rank];
    if (tiny_make(&t, &tiny, &comm, TR_BF16, &j->err) == FR_OK &&
        tr_optim_create(&o, t.model, &comm, be, &j->err) == FR_OK)
        resume_body(j, self, &o, j);
    tr_optim_finish(&o);
    tiny_finish(&t);
    tr_backend_destroy(be);
}

/* Results are the same on every rank. */
static struct job run(const struct layout *l, struct job job)
{
    struct job j[RANKS_MAX];
    void *args[RANKS_MAX];

    job.layout = l;
    for (int k = 0; k < l->W; k++) {
        j[k] = job;
        args[k] = &j[k];
    }
    ranks_run_on(l->W, l->node, 0, body, args);
    for (int k = 0; k < l->W; k++) {
        CHECK_INT(j[k].wrong, 0);
        CHECK_INT(j[k].loaded, j[0].loaded);
        CHECK_INT(j[k].err.rc, j[0].err.rc);
    }
    return j[0];
}

static void save(const struct layout *l, int64_t step)
{
    struct job j = run(l, (struct job){.save = step});

    CHECK_TEXT(j.err.msg, "");
}

static void load(const struct layout *l, int64_t want)
{
    struct job j = run(l, (struct job){0});

    CHECK_INT(j.loaded, want);
    CHECK_TEXT(j.err.msg, "");
}

static void clear(void)
{
    char dir[PATH];

    CHECK_INT(fr_remove_tree(root, NULL), FR_OK);
    for (int k = 0; k < 2; k++) {
        (void)snprintf(dir, sizeof(dir), "%s/%c", root, node_names[k]);
        CHECK_INT(fr_mkdirs(dir, 0700, NULL), FR_OK);
    }
}

/* ---- layouts ---- */

static const struct {
    const char *name;
    struct layout write, read;
} rows[] = {
    {"one rank, then two", {.W = 1}, {.W = 2}},
    {"two at stage 3, then one", {.W = 2, .partition = true}, {.W = 1}},
    {"three, then two at stage 3", {.W = 3}, {.W = 2, .partition = true}},
    {"four, then six", {.W = 4, .partition = true}, {.W = 6, .partition = true}},
    {"six, then four", {.W = 6}, {.W = 4}},
    {"more ranks than have elements of some tensors", {.W = 8, .partition = true}, {.W = 3}},
    {"a tied head", {.W = 3, .tied = true}, {.W = 4, .partition = true, .tied = true}},
    {"two nodes", {.W = 4, .node = {0, 0, 1, 1}}, {.W = 4, .node = {0, 0, 1, 1}}},
    {"two nodes, other ranks", {.W = 4, .node = {0, 0, 1, 1}}, {.W = 3, .node = {0, 1, 1}}},
    {"two nodes, swapped",
     {.W = 4, .node = {0, 0, 1, 1}},
     {.W = 5, .node = {0, 0, 1, 1, 1}, .swapped = true, .partition = true}},
    {"two nodes of one rank, swapped",
     {.W = 2, .node = {0, 1}, .partition = true},
     {.W = 2, .node = {0, 1}, .swapped = true}},
    {"a shared folder",
     {.W = 4, .node = {0, 0, 1, 1}, .shared = true},
     {.W = 3, .node = {0, 1, 1}, .shared = true}},
    {"written in a shared folder, then the other node sees nothing",
     {.W = 4, .node = {0, 0, 1, 1}, .shared = true},
     {.W = 4, .node = {0, 0, 1, 1}}},
};

/* ---- damage ---- */

static const struct layout apart = {.W = 2, .node = {0, 1}, .partition = true};

static void path_of(char folder, const char *name, char out[PATH])
{
    (void)snprintf(out, PATH, "%s/%c/resume/step-4/%s", root, folder, name);
}

static void gone(const char *path)
{
    CHECK_INT(unlink(path), 0);
}

static void cut(const char *path)
{
    CHECK_INT(truncate(path, 500), 0);
}

static void change(const char *path, long from, int whence)
{
    FILE *f = fopen(path, "r+b");

    CHECK_INT(fseek(f, from, whence), 0);
    int byte = fgetc(f);
    CHECK_INT(fseek(f, from, whence), 0);
    CHECK(fputc(byte ^ 1, f) != EOF);
    CHECK_INT(fclose(f), 0);
}

static void flip(const char *path)
{
    change(path, -1, SEEK_END);
}

/* A letter of a tensor's name: the header is still one. */
static void rename_tensor(const char *path)
{
    change(path, 20, SEEK_SET);
}

static const char part_0[] = "part-00000-of-00002.safetensors";
static const char part_1[] = "part-00001-of-00002.safetensors";

static const struct {
    const char *name;
    void (*harm)(const char *path);
    const char *a, *b; /* files of node a and b that are harmed */
    int64_t want;      /* the state that is read */
} harms[] = {
    {"a part is missing", gone, NULL, part_1, 2},
    {"a part is cut", cut, part_0, NULL, 2},
    {"a byte is another", flip, NULL, part_1, 2},
    {"the first part has another byte", flip, part_0, NULL, 2},
    {"a name is another", rename_tensor, part_0, NULL, 2},
    {"state.json is cut on one node", cut, "state.json", NULL, 4},
    {"state.json is missing on the other", gone, NULL, "state.json", 4},
    {"state.json is cut on both", cut, "state.json", "state.json", 2},
};

static void check_harm(size_t i)
{
    char path[PATH];

    check_row(harms[i].name);
    clear();
    save(&apart, 2);
    save(&apart, 4);
    if (harms[i].a != NULL) {
        path_of('a', harms[i].a, path);
        harms[i].harm(path);
    }
    if (harms[i].b != NULL) {
        path_of('b', harms[i].b, path);
        harms[i].harm(path);
    }
    load(&apart, harms[i].want);
}

static void check_none_whole(void)
{
    char path[PATH];

    check_row("no state is whole");
    clear();
    save(&apart, 4);
    path_of('b', part_1, path);
    gone(path);
    struct job j = run(&apart, (struct job){0});
    CHECK_INT(j.err.rc, FR_CORRUPT);
    CHECK(strstr(j.err.msg, part_1) != NULL && strstr(j.err.msg, "is on no node") != NULL);
}

/* Both nodes have the only part. */
static void check_copies(void)
{
    static const struct layout one[] = {{.W = 1}, {.W = 1, .node = {1}}};
    static const char name[] = "part-00000-of-00001.safetensors";
    char path[PATH];
    struct job j;

    check_row("a copy is cut: the other is read");
    clear();
    save(&one[0], 4);
    save(&one[1], 4);
    path_of('a', name, path);
    cut(path);
    load(&apart, 4);
    check_row("a copy has another byte");
    path_of('b', name, path);
    save(&one[0], 4);
    flip(path);
    j = run(&apart, (struct job){0});
    CHECK_INT(j.err.rc, FR_CORRUPT);
    CHECK(strstr(j.err.msg, path) != NULL);
}

/* ---- while a state is written ---- */

static size_t most_states;
static bool full;

static int count_and_rename(const char *from, const char *to)
{
    char dir[PATH], **names = NULL;
    size_t n = 0, count = 0;

    if (strstr(to, "/part-") != NULL) {
        (void)snprintf(dir, sizeof(dir), "%s/a/resume", root);
        (void)fr_sys.list(dir, &names, &n);
        for (size_t i = 0; i < n; i++)
            count += strncmp(names[i], "step-", 5) == 0;
        fr_sys_names_free(names, n);
        if (strstr(to, "/part-00000") != NULL)
            most_states = count > most_states ? count : most_states;
        if (full && strstr(to, "/part-00001") != NULL) {
            errno = ENOSPC;
            return -1;
        }
    }
    return fr_sys_real.rename(from, to);
}

static void check_steps(const char *want)
{
    char dir[PATH], **names = NULL;
    struct fr_buf got = {0};
    size_t n = 0;

    (void)snprintf(dir, sizeof(dir), "%s/a/resume", root);
    CHECK_INT(fr_sys.list(dir, &names, &n), 0);
    fr_buf_text(&got, "");
    for (int step = 0; step < 10; step++)
        for (size_t i = 0; i < n; i++)
            if (strcmp(names[i] + strlen(names[i]) - 1, (char[]){(char)('0' + step), '\0'}) == 0)
                fr_buf_fmt(&got, "%s ", names[i]);
    CHECK_TEXT(got.p, want);
    fr_sys_names_free(names, n);
    fr_buf_finish(&got);
}

/* The newest is damaged, the run goes on from the one before: that one stays until a new one is
 * whole, and the damaged one has gone before. */
static void check_rotation(void)
{
    char path[PATH];
    struct job j;

    check_row("a disk that is full while a state is written");
    clear();
    save(&apart, 2);
    save(&apart, 4);
    path_of('a', part_0, path);
    flip(path);
    fr_sys.rename = count_and_rename;
    full = true;
    j = run(&apart, (struct job){.resave = true});
    CHECK_INT(j.loaded, 2);
    CHECK_INT(j.err.rc, FR_FULL);
    CHECK(strstr(j.err.msg, "writing resume state of step 6: ") == j.err.msg);
    CHECK(strstr(j.err.msg, ": cannot rename ") != NULL);
    CHECK_INT((long)most_states, 1);
    check_steps("step-2 ");
    load(&apart, 2);
    full = false;
    j = run(&apart, (struct job){.resave = true});
    CHECK_INT(j.err.rc, FR_OK);
    CHECK_INT((long)most_states, 1);
    fr_sys.rename = fr_sys_real.rename;
    check_steps("step-2 step-6 ");
    load(&apart, 6);
}

/* ---- an end at every step of a save ---- */

static int calls, last_call; /* the process is gone after so many calls; -1: it stays */

static bool is_gone(void)
{
    if (last_call < 0 || __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST) < last_call)
        return false;
    errno = EIO;
    return true;
}

static int gone_rename(const char *from, const char *to)
{
    return is_gone() ? -1 : fr_sys_real.rename(from, to);
}

static int gone_sync(int fd)
{
    return is_gone() ? -1 : fr_sys_real.fdatasync(fd);
}

static int gone_mkdir(const char *path, mode_t mode)
{
    return is_gone() ? -1 : fr_sys_real.mkdir(path, mode);
}

static int gone_unlink(const char *path)
{
    return is_gone() ? -1 : fr_sys_real.unlink(path);
}

static int gone_rmdir(const char *path)
{
    return is_gone() ? -1 : fr_sys_real.rmdir(path);
}

/* A run goes on from step 4 and ends while it writes step 6. The next run finds step 4 or 6 whole,
 * and saves again. */
static void check_ends(const struct layout *l, const char *name)
{
    bool gone = true;
    int n = 0;

    check_row(name);
    for (; gone && n < 200; n++) {
        clear();
        save(l, 2);
        save(l, 4);
        fr_sys.rename = gone_rename;
        fr_sys.fdatasync = gone_sync;
        fr_sys.mkdir = gone_mkdir;
        fr_sys.unlink = gone_unlink;
        fr_sys.rmdir = gone_rmdir;
        calls = 0;
        last_call = n;
        struct job j = run(l, (struct job){.resave = true});
        gone = calls > n;
        fr_sys = fr_sys_real;
        CHECK_INT(j.loaded, 4);
        CHECK(gone || j.err.rc == FR_OK);
        j = run(l, (struct job){.resave = true});
        CHECK(j.loaded == 4 || j.loaded == 6);
        CHECK(gone || j.loaded == 6);
        CHECK_INT(j.err.rc, FR_OK);
        load(l, 6);
    }
    CHECK(n > 20 && n < 200);
}

int main(void)
{
    static const struct layout together = {.W = 2, .partition = true};

    CHECK(mkdtemp(root) != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        check_row(rows[i].name);
        clear();
        save(&rows[i].write, 4);
        load(&rows[i].read, 4);
    }
    for (size_t i = 0; i < sizeof(harms) / sizeof(*harms); i++)
        check_harm(i);
    check_none_whole();
    check_copies();
    check_rotation();
    check_ends(&together, "an end while two ranks save");
    check_ends(&apart, "an end while two nodes save");
    CHECK_INT(fr_remove_tree(root, NULL), FR_OK);
    return check_done();
}
