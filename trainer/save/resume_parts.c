#include "trainer/save/resume_private.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void resume_part_path(const char *dir, int k, int n, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/part-%05d-of-%05d.safetensors", dir, k, n);
}

char *resume_key(struct fr_arena *arena, enum tr_optim_what what, const char *name, int64_t first)
{
    static const char *const prefix[TR_OPTIM_WHATS] = {"master", "m", "v", "m_max", "v_max"};

    return fr_arena_fmt(arena, "%s:%s@%lld", prefix[what], name, (long long)first);
}

void resume_name_host(struct fr_err *err)
{
    char host[64] = "";

    (void)gethostname(host, sizeof(host) - 1);
    fr_while(err, "%s", host);
}

/* Neighbouring ranges of one tensor, as one tensor of the file. */
struct joined {
    struct tr_optim *o;
    const struct tr_grads_range *ranges;
    size_t n;
    enum tr_optim_what what;
    size_t size;   /* of a value */
    int64_t block; /* elements of a value */
};

/* Bytes [at, at+n) from the device, or the host's side. */
static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct joined *j = arg;
    int64_t size = (int64_t)j->size, begin = at / size * j->block + j->ranges->first,
            end = begin + (int64_t)n / size * j->block;
    enum fr_rc rc = FR_OK;

    (void)item;
    for (size_t i = 0; i < j->n && rc == FR_OK; i++) {
        const struct tr_grads_range *r = &j->ranges[i];
        int64_t from = begin > r->first ? begin : r->first;
        int64_t to = end < r->first + r->n ? end : r->first + r->n;

        struct tr_optim_part part = {j->what, r->at + from - r->first, to - from};

        if (from < to)
            rc = tr_optim_read(j->o, &part, (char *)dst + (from - begin) / j->block * size, err);
    }
    return rc;
}

static enum fr_rc write_tensors(struct tr_optim *o, const char *path, struct fr_err *err)
{
    const struct tr_grads_range *r;
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    struct joined *joined;
    size_t n, count = 0;
    enum fr_rc rc = FR_OK;

    r = tr_optim_ranges(o, &n);
    items = fr_arena_array(&arena, n * TR_OPTIM_WHATS + 1, sizeof(*items));
    joined = fr_arena_array(&arena, n * TR_OPTIM_WHATS + 1, sizeof(*joined));
    if (items == NULL || joined == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0, next; i < n && rc == FR_OK; i = next) {
        for (next = i + 1; next < n && strcmp(r[next].name, r[i].name) == 0 &&
                           r[next].first == r[next - 1].first + r[next - 1].n;)
            next++;
        for (int k = 0; k < TR_OPTIM_WHATS; k++) {
            enum tr_optim_what what = (enum tr_optim_what)k;
            enum tr_dtype type = tr_optim_type(o, i, what);
            int64_t elements = r[next - 1].first + r[next - 1].n - r[i].first;
            int64_t values = tr_optim_values(what, elements);

            if (type == TR_NONE)
                continue;
            joined[count] = (struct joined){
                o, &r[i], next - i, what, tr_dtype_bytes(type), tr_optim_block(what)};
            items[count] = (struct tr_st_item){
                .name = resume_key(&arena, what, r[i].name, r[i].first),
                .type = type == TR_U8 ? TR_ST_U8 : TR_ST_F32,
                .ndim = 1,
                .shape = {values},
                .fill = fill,
                .arg = &joined[count],
            };
            if (items[count++].name == NULL)
                rc = fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
        }
    }
    if (rc == FR_OK)
        rc = tr_st_write(path, items, count, NULL, 0, err);
    fr_arena_finish(&arena);
    return rc;
}

static void write_part(const struct tr_resume *r, struct tr_optim *o, int64_t step,
                       struct resume_record *mine)
{
    char tmp[PATH_MAX], path[PATH_MAX];
    struct stat st;
    enum fr_rc rc;

    resume_dir(r, step, ".tmp-", tmp);
    resume_part_path(tmp, o->world->rank, o->world->size, path);
    (void)gethostname(mine->host, sizeof(mine->host) - 1);
    rc = fr_mkdirs(tmp, 0700, &mine->err);
    if (rc == FR_OK)
        rc = write_tensors(o, path, &mine->err);
    if (rc == FR_OK)
        rc = fr_sha256_file(path, mine->sha, &mine->err);
    if (rc == FR_OK && fr_sys.lstat(path, &st) != 0)
        rc = fr_fail(&mine->err, FR_IO, "%s is gone", path);
    if (rc == FR_OK)
        mine->bytes = st.st_size;
    mine->err.rc = rc;
    if (rc != FR_OK && o->world->nodes > 1)
        resume_name_host(&mine->err);
}

static json_t *list_of(const struct resume_record *all, int n)
{
    json_t *list = json_array();

    for (int k = 0; k < n; k++)
        if (json_array_append_new(list,
                                  json_pack("{s:I, s:s, s:s}", "bytes", (json_int_t)all[k].bytes,
                                            "sha256", all[k].sha, "host", all[k].host)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Parts are written, then named: *why has the first rank's error. */
static enum fr_rc save_parts(const struct tr_resume *r, struct tr_optim *o,
                             const struct tr_progress *p, struct fr_err *why, struct fr_err *err)
{
    struct tr_comm *world = o->world;
    struct resume_record *all = fr_sys.alloc((size_t)world->size * sizeof(*all)), mine = {0};
    char tmp[PATH_MAX];
    enum fr_rc rc = FR_OK;

    *why = (struct fr_err){0};
    if (all == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %d parts", world->size);
    if (rc == FR_OK && tr_resume_writes(r, world)) {
        mine.err.rc = resume_begin(r, p->step, &mine.err);
        if (r->whole > 0)
            resume_drop(r, r->whole, RESUME_KEEP - 1);
    }
    if (rc == FR_OK)
        rc = tr_comm_host_first_error(world, &mine.err, why, err);
    if (rc == FR_OK && why->rc == FR_OK) {
        write_part(r, o, p->step, &mine);
        rc = tr_comm_host_all_gather(world, all, &mine, sizeof(mine), err);
        for (int k = world->size; k-- > 0 && rc == FR_OK;)
            if (all[k].err.rc != FR_OK)
                *why = all[k].err;
    }
    if (rc == FR_OK && why->rc == FR_OK) {
        resume_dir(r, p->step, ".tmp-", tmp);
        if (r->copies > 1) {
            rc = resume_parts_copy(o, all, tmp, r->copies, &mine.err, err);
            if (rc == FR_OK && mine.err.rc != FR_OK && world->nodes > 1)
                resume_name_host(&mine.err);
            if (rc == FR_OK)
                rc = tr_comm_host_first_error(world, &mine.err, why, err);
        }
        if (rc == FR_OK && why->rc == FR_OK && tr_resume_writes(r, world))
            mine.err.rc = resume_publish(r, o, p, "parts", list_of(all, world->size), &mine.err);
        if (why->rc == FR_OK && mine.err.rc != FR_OK && world->nodes > 1)
            resume_name_host(&mine.err);
        if (rc == FR_OK && why->rc == FR_OK)
            rc = tr_comm_host_first_error(world, &mine.err, why, err);
    }
    fr_sys.free(all);
    return rc;
}

enum fr_rc resume_parts_save(const struct tr_resume *r, struct tr_optim *o,
                             const struct tr_progress *p, struct fr_err *err)
{
    char tmp[PATH_MAX];
    struct fr_err why;
    enum fr_rc rc = save_parts(r, o, p, &why, err);

    if (rc != FR_OK || why.rc == FR_OK)
        return rc;
    resume_dir(r, p->step, ".tmp-", tmp);
    if (tr_resume_writes(r, o->world))
        fr_remove_tree(tmp, NULL);
    return fr_fail(err, why.rc, "writing resume state of step %lld: %s", (long long)p->step,
                   why.msg);
}
