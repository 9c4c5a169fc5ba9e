/* Copies of parts on the nodes after the one that wrote them, so that a lost node loses nothing. */
#include "trainer/save/resume_private.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { ROUND_BYTES = 64 << 20 };

struct copying {
    const struct tr_optim *o;
    const struct resume_record *parts; /* of each rank */
    const char *dir;                   /* borrows: where this node writes the state */
    int64_t most;                      /* bytes of a part that move at once */
    int *taker;                        /* (ranks) the rank that gets the rank's part; -1: none */
    int *fds;                          /* (ranks) parts that this rank writes; -1 */
    int mine;                          /* this rank's part, open for reading */
    char *host;                        /* owns: room for a piece */
    size_t *in_at, *in_bytes, *out_at, *out_bytes; /* (ranks) of a round */
    struct fr_err err; /* of this rank's files: the rounds go on without them */
};

static int node_of(const struct tr_comm *world, int rank)
{
    return world->node_of != NULL ? world->node_of[rank] : 0;
}

/* Of the ranks of a node, the one in place i, counted round. */
static int rank_of(const struct tr_comm *world, int node, int i)
{
    int n = 0, found = -1;

    for (int k = 0; k < world->size; k++)
        n += node_of(world, k) == node;
    for (int k = 0, at = 0; k < world->size && n > 0; k++)
        if (node_of(world, k) == node && at++ == i % n)
            found = k;
    return found;
}

/* Who takes whose part in the round of copies `ahead`; where nodes share a folder the part is there
 * already. Every rank has the same answer. */
static enum fr_rc choose(struct copying *c, int ahead, struct fr_err *err)
{
    const struct tr_comm *world = c->o->world;
    size_t n = (size_t)world->size;
    unsigned char *seen = fr_sys.alloc(n * n + n);
    enum fr_rc rc = seen == NULL ? fr_fail(err, FR_NOMEM, "no memory for %zu parts", n) : FR_OK;

    for (int k = 0; k < world->size && rc == FR_OK; k++) {
        char path[PATH_MAX];
        struct stat st;

        resume_part_path(c->dir, k, world->size, path);
        seen[n * n + (size_t)k] = fr_sys.lstat(path, &st) == 0;
    }
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather((struct tr_comm *)world, seen, seen + n * n, n, err);
    for (int k = 0, i = 0; k < world->size && rc == FR_OK; k++) {
        i = k > 0 && node_of(world, k) == node_of(world, k - 1) ? i + 1 : 0;
        c->taker[k] = rank_of(world, (node_of(world, k) + ahead) % world->nodes, i);
        if (c->taker[k] >= 0 && seen[(size_t)c->taker[k] * n + (size_t)k])
            c->taker[k] = -1;
    }
    fr_sys.free(seen);
    return rc;
}

/* The first error of this rank's files stays. */
static void note(struct copying *c, enum fr_rc rc)
{
    if (rc != FR_OK && c->err.rc == FR_OK)
        c->err.rc = rc;
}

static void open_parts(struct copying *c)
{
    const struct tr_comm *world = c->o->world;
    char path[PATH_MAX];

    resume_part_path(c->dir, world->rank, world->size, path);
    c->mine = fr_sys.open(path, O_RDONLY | O_CLOEXEC, 0);
    if (c->mine < 0)
        note(c, fr_fail_errno(&c->err, errno, "%s cannot be read", path));
    for (int k = 0; k < world->size; k++) {
        c->fds[k] = -1;
        if (c->taker[k] != world->rank)
            continue;
        resume_part_path(c->dir, k, world->size, path);
        c->fds[k] = fr_sys.open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (c->fds[k] < 0 && c->err.rc == FR_OK)
            note(c, fr_fail_errno(&c->err, errno, "%s cannot be made", path));
    }
}

/* A piece of every part from its writer to its taker. The room of gradients, which holds nothing
 * between steps, is the window of what is sent, and of what arrives. */
static enum fr_rc move_piece(struct copying *c, int64_t at, struct fr_err *err)
{
    const struct tr_optim *o = c->o;
    const struct tr_comm *world = o->world;
    char *window = tr_grads_room(o->grads).p, *arrived = window + c->most;
    struct tr_alltoallv all = {.out = arrived,
                               .in = window,
                               .out_at = c->out_at,
                               .out_bytes = c->out_bytes,
                               .in_at = c->in_at,
                               .in_bytes = c->in_bytes,
                               .what = "copies of a resume state"};
    enum fr_rc rc = FR_OK;

    memset(c->in_bytes, 0, (size_t)world->size * sizeof(size_t));
    memset(c->out_bytes, 0, (size_t)world->size * sizeof(size_t));
    for (int k = 0; k < world->size; k++) {
        int64_t left = c->parts[k].bytes - at;
        size_t n = left > c->most ? (size_t)c->most : left > 0 ? (size_t)left : 0;

        c->out_at[k] = (size_t)(c->most * k);
        if (c->taker[k] == world->rank)
            c->out_bytes[k] = n;
        if (k != world->rank || c->taker[k] < 0 || n == 0)
            continue;
        c->in_bytes[c->taker[k]] = n;
        if (c->err.rc == FR_OK && !fr_read_full(c->mine, c->host, n))
            note(c, fr_fail_errno(&c->err, errno, "part %d cannot be read", k));
        rc = tr_copy(o->be, o->q, window, c->host, n);
    }
    if (rc == FR_OK)
        rc = tr_comm_all_to_allv(o->comm, o->q, &all, err);
    for (int k = 0; k < world->size && rc == FR_OK; k++) {
        if (c->out_bytes[k] == 0)
            continue;
        rc = tr_copy(o->be, o->q, c->host, arrived + c->out_at[k], c->out_bytes[k]);
        if (rc == FR_OK)
            rc = tr_sync(o->be, o->q, err);
        if (rc == FR_OK && c->err.rc == FR_OK &&
            !fr_write_full(c->fds[k], c->host, c->out_bytes[k]))
            note(c, fr_fail_errno(&c->err, errno, "a copy of part %d cannot be written", k));
    }
    return rc == FR_OK ? tr_sync(o->be, o->q, err) : rc;
}

/* On the disk, and what was read there. */
static void close_parts(struct copying *c)
{
    const struct tr_comm *world = c->o->world;
    char path[PATH_MAX], sha[FR_SHA256_TEXT];

    for (int k = 0; k < world->size; k++) {
        if (c->taker[k] != world->rank)
            continue;
        if (c->fds[k] >= 0 && fr_sys.fdatasync(c->fds[k]) != 0 && c->err.rc == FR_OK)
            note(c, fr_fail_errno(&c->err, errno, "a copy of part %d cannot be written", k));
        if (c->fds[k] >= 0)
            (void)fr_sys.close(c->fds[k]);
        resume_part_path(c->dir, k, world->size, path);
        if (c->err.rc == FR_OK)
            note(c, fr_sha256_file(path, sha, &c->err));
        if (c->err.rc == FR_OK && strcmp(sha, c->parts[k].sha) != 0)
            note(c,
                 fr_fail(&c->err, FR_CORRUPT, "%s is not what %s wrote", path, c->parts[k].host));
    }
    if (c->mine >= 0)
        (void)fr_sys.close(c->mine);
}

static enum fr_rc copy_ahead(struct copying *c, int ahead, struct fr_err *err)
{
    int64_t most = 0;
    enum fr_rc rc = choose(c, ahead, err);

    if (rc != FR_OK)
        return rc;
    for (int k = 0; k < c->o->world->size; k++)
        most = c->taker[k] >= 0 && c->parts[k].bytes > most ? c->parts[k].bytes : most;
    open_parts(c);
    for (int64_t at = 0; at < most && rc == FR_OK; at += c->most)
        rc = move_piece(c, at, err);
    close_parts(c);
    return rc;
}

enum fr_rc resume_parts_copy(const struct tr_optim *o, const struct resume_record *parts,
                             const char *dir, int copies, struct fr_err *mine, struct fr_err *err)
{
    size_t ranks = (size_t)o->world->size;
    int64_t room = (int64_t)tr_view_bytes(tr_grads_room(o->grads));
    struct fr_arena arena = {0};
    struct copying c = {.o = o, .parts = parts, .dir = dir};
    size_t **const arrays[] = {&c.in_at, &c.in_bytes, &c.out_at, &c.out_bytes};
    enum fr_rc rc = FR_OK;

    if (copies > o->world->nodes)
        copies = o->world->nodes;
    room = room < ROUND_BYTES ? room : ROUND_BYTES;
    c.most = room / (int64_t)(ranks + 1) / 64 * 64;
    c.taker = fr_arena_array(&arena, ranks, sizeof(int));
    c.fds = fr_arena_array(&arena, ranks, sizeof(int));
    for (size_t i = 0; i < 4; i++)
        *arrays[i] = fr_arena_array(&arena, ranks, sizeof(size_t));
    c.host = fr_sys.alloc((size_t)c.most);
    if (c.taker == NULL || c.fds == NULL || c.in_at == NULL || c.in_bytes == NULL ||
        c.out_at == NULL || c.out_bytes == NULL || c.host == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to copy the parts of %zu ranks", ranks);
    else if (c.most == 0)
        rc = fr_fail(err, FR_UNSUPPORTED,
                     "--resume_copies: a model too small to send its state between %zu ranks",
                     ranks);
    for (int ahead = 1; ahead < copies && rc == FR_OK; ahead++)
        rc = copy_ahead(&c, ahead, err);
    *mine = c.err;
    fr_sys.free(c.host);
    fr_arena_finish(&arena);
    return rc;
}
