#include "trainer/save/files.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <string.h>

enum { NAMED = 8 };

/* A byte of each file, of each rank: (size, files). */
static enum fr_rc gather(struct tr_comm *world, const unsigned char *mine, size_t files,
                         unsigned char **all, struct fr_err *err)
{
    if ((*all = fr_sys.alloc((size_t)world->size * files + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu files", files);
    return tr_comm_host_all_gather(world, *all, mine, files, err);
}

/* ---- missing files ---- */

/* The error of the ranks of one node. */
static enum fr_rc name_files(const struct tr_st *st, const unsigned char *lacks, int node,
                             struct fr_err *err)
{
    size_t n = 0, files = tr_st_files(st);
    struct fr_buf names = {0};
    enum fr_rc rc;

    for (size_t k = 0; k < files; k++)
        if (lacks[k] != 0 && n++ < NAMED)
            fr_buf_fmt(&names, "%s%s", n > 1 ? ", " : "", tr_st_file_name(st, k));
    if (n > NAMED)
        fr_buf_fmt(&names, " and %zu more", n - NAMED);
    rc = fr_fail(err, FR_NOTFOUND,
                 "node %d lacks %zu of the checkpoint's %zu files that its ranks read: %s; "
                 "`flowtrain plan --files %d` names all that it needs",
                 node, n, files, names.p != NULL ? names.p : "", node);
    fr_buf_finish(&names);
    return rc;
}

/* all: of each rank, which files it lacks. */
static enum fr_rc judge(const struct tr_comm *world, const struct tr_st *st,
                        const unsigned char *all, const int32_t *nodes, struct fr_err *err)
{
    size_t files = tr_st_files(st);
    unsigned char *lacks = fr_sys.alloc(files + 1);
    enum fr_rc rc = FR_OK;

    if (lacks == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu files", files);
    for (int32_t j = 0; j < world->nodes && rc == FR_OK; j++) {
        unsigned char any = 0;

        memset(lacks, 0, files);
        for (size_t r = 0; r < (size_t)world->size; r++)
            for (size_t k = 0; k < files && nodes[r] == j; k++)
                any |= lacks[k] |= all[r * files + k];
        if (any != 0)
            rc = name_files(st, lacks, j, err);
    }
    fr_sys.free(lacks);
    return rc;
}

enum fr_rc tr_files_check(struct tr_comm *world, const struct tr_model *m, const struct tr_st *st,
                          struct fr_err *err)
{
    size_t files = tr_st_files(st);
    unsigned char *mine = fr_sys.alloc(files + 1), *all = NULL;
    int32_t at = world->node, *nodes = fr_sys.alloc((size_t)world->size * sizeof(*nodes));
    enum fr_rc rc = FR_OK;

    if (mine == NULL || nodes == NULL)
        rc = fr_fail(err, FR_NOMEM, "a list of %zu files", files);
    if (rc == FR_OK) {
        memset(mine, 0, files);
        tr_model_lacks(m, st, mine);
        rc = gather(world, mine, files, &all, err);
    }
    if (rc == FR_OK)
        rc = tr_comm_host_all_gather(world, nodes, &at, sizeof(at), err);
    if (rc == FR_OK)
        rc = judge(world, st, all, nodes, err);
    fr_sys.free(all);
    fr_sys.free(nodes);
    fr_sys.free(mine);
    return rc;
}

/* ---- records of files ---- */

/* Tensors of a file, in their order: to or from a list of their own. */
static size_t pick(const struct tr_st *st, size_t file, struct tr_file_record *all,
                   struct tr_file_record *own, bool back)
{
    size_t n = 0;

    for (size_t i = 0; i < tr_st_count(st); i++) {
        if (tr_st_at(st, i)->file != (int)file)
            continue;
        if (back)
            all[i] = own[n++];
        else
            own[n++] = all[i];
    }
    return n;
}

/* The records of one file, as rank `from` has them. */
static enum fr_rc share_file(struct tr_comm *world, const struct tr_st *st, size_t file, int from,
                             struct tr_file_record *records, struct fr_err *err)
{
    size_t count = tr_st_count(st), n;
    struct tr_file_record *mine = fr_sys.alloc(2 * count * sizeof(*mine) + 1);
    struct tr_file_record *theirs = mine + count;
    double differ = 0;
    enum fr_rc rc;

    if (mine == NULL)
        return fr_fail(err, FR_NOMEM, "what is in %s", tr_st_file_name(st, file));
    n = pick(st, file, records, mine, false) * sizeof(*records);
    memcpy(theirs, mine, n);
    rc = tr_comm_host_broadcast(world, theirs, n, from, err);
    if (rc == FR_OK && tr_st_file_here(st, file))
        differ = memcmp(mine, theirs, n) != 0;
    if (rc == FR_OK)
        rc = tr_comm_host_sum(world, &differ, 1, err);
    if (rc == FR_OK && differ > 0)
        rc = fr_fail(err, FR_USAGE,
                     "ranks differ in the model: %s is not the same on all nodes that have it",
                     tr_st_file_name(st, file));
    if (rc == FR_OK)
        (void)pick(st, file, records, theirs, true);
    fr_sys.free(mine);
    return rc;
}

static enum fr_rc share_files(struct tr_comm *world, const struct tr_st *st,
                              const unsigned char *here, struct tr_file_record *records,
                              struct fr_err *err)
{
    size_t files = tr_st_files(st), size = (size_t)world->size;
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < files && rc == FR_OK; k++) {
        size_t first = 0, have = 0;

        for (size_t r = size; r-- > 0;) {
            first = here[r * files + k] != 0 ? r : first;
            have += here[r * files + k];
        }
        if (have > 0 && have < size)
            rc = share_file(world, st, k, (int)first, records, err);
    }
    return rc;
}

enum fr_rc tr_files_share(struct tr_comm *world, const struct tr_st *st,
                          struct tr_file_record *records, struct fr_err *err)
{
    size_t files = tr_st_files(st);
    unsigned char *mine = fr_sys.alloc(files + 1), *all = NULL;
    double counts[2] = {(double)files, (double)tr_st_count(st)}, sums[2];
    enum fr_rc rc;

    if (mine == NULL)
        return fr_fail(err, FR_NOMEM, "a list of %zu files", files);
    memcpy(sums, counts, sizeof(sums));
    rc = tr_comm_host_sum(world, sums, 2, err);
    if (rc == FR_OK && (sums[0] != counts[0] * world->size || sums[1] != counts[1] * world->size))
        rc = fr_fail(err, FR_USAGE,
                     "ranks differ in the model: not all nodes have the same files or index");
    for (size_t k = 0; k < files; k++)
        mine[k] = tr_st_file_here(st, k);
    if (rc == FR_OK)
        rc = gather(world, mine, files, &all, err);
    if (rc == FR_OK)
        rc = share_files(world, st, all, records, err);
    fr_sys.free(all);
    fr_sys.free(mine);
    return rc;
}
