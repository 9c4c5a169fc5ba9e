/* logs: prints the output of a run's tasks from the copies in the home. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/view/merge.h"
#include "engine/store/home.h"
#include "engine/store/unfetched.h"

#include <string.h>

enum {
    FOLLOW_MS = 200,
    LEFT_MS = 3000, /* after so long without a host, no follower will take the run over */
};

struct logs {
    struct cli_call *call;
    struct fr_store *st; /* borrows: the call's */
    struct fr_run_row run;
    const char *task; /* NULL: all */
    bool failed;      /* only of tasks that failed */
    struct fr_merge_opts how;
    struct fr_merge *merge;
    int64_t driven_ms; /* when the run was last driven, or over */
};

static bool print_lines(void *arg, struct fr_str lines)
{
    (void)arg;
    fr_print_bytes(lines.p, lines.n);
    return fr_print_ok(); /* main reports the error */
}

static bool is_named(const struct logs *l, const struct fr_inst_row *inst)
{
    return l->task == NULL || fr_inst_named(inst, l->task);
}

static bool wanted(const struct logs *l, const struct fr_inst_row *inst)
{
    return is_named(l, inst) && (!l->failed || cli_has_failed(inst));
}

/* For each instance: whether it is a member of a gang. A rank above 0 shows a gang; all instances
 * of that task are members. */
static bool *find_gangs(const struct fr_attempt_rows *rows, const struct fr_inst_rows *insts,
                        struct fr_arena *arena)
{
    bool *gang = fr_arena_array(arena, insts->n + 1, sizeof(*gang));

    for (size_t i = 0, k = 0; gang != NULL && i < rows->n; i++) {
        while (k < insts->n && insts->rows[k].idx < rows->rows[i].idx)
            k++;
        gang[k] = gang[k] || rows->rows[i].rank > 0;
    }
    for (size_t k = insts->n; gang != NULL && k-- > 1;)
        if (gang[k] && strcmp(insts->rows[k].task, insts->rows[k - 1].task) == 0)
            gang[k - 1] = true;
    for (size_t k = 1; gang != NULL && k < insts->n; k++)
        if (gang[k - 1] && strcmp(insts->rows[k].task, insts->rows[k - 1].task) == 0)
            gang[k] = true;
    return gang;
}

static enum fr_rc add(struct logs *l, const struct fr_attempt_row *row, const char *key, bool gang,
                      struct fr_err *err)
{
    struct fr_buf label = {0};
    enum fr_rc rc;

    if (gang)
        fr_buf_fmt(&label, "[%lld] ", (long long)row->rank);
    fr_buf_text(&label, key);
    if (row->no > 1)
        fr_buf_fmt(&label, "#%lld", (long long)row->no);
    rc = label.bad ? fr_fail(err, FR_NOMEM, "no memory for logs")
                   : fr_merge_add(l->merge, row->id, label.p, row->log, err);
    fr_buf_finish(&label);
    return rc;
}

/* Adds the attempts that the store has now. */
static enum fr_rc refresh(struct logs *l, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    bool any = false, *gang = NULL;
    enum fr_rc rc = fr_store_insts(l->st, l->run.id, &arena, &insts, err);

    if (rc == FR_OK)
        rc = fr_store_attempts(l->st, l->run.id, &arena, &attempts, err);
    if (rc == FR_OK && (gang = find_gangs(&attempts, &insts, &arena)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for logs");
    for (size_t i = 0, k = 0; rc == FR_OK && i < attempts.n; i++) {
        const struct fr_attempt_row *row = &attempts.rows[i];
        size_t place = fr_merge_find(l->merge, row->id);

        while (k < insts.n && insts.rows[k].idx < row->idx)
            k++;
        if (k == insts.n || insts.rows[k].idx != row->idx || !wanted(l, &insts.rows[k]))
            continue;
        if (place == SIZE_MAX) {
            rc = add(l, row, insts.rows[k].key, gang[k], err);
            place = fr_merge_find(l->merge, row->id);
        }
        if (rc == FR_OK)
            fr_merge_set(l->merge, place, row->started_wall, row->ended_wall != 0, row->done != 0);
    }
    for (size_t i = 0; rc == FR_OK && i < insts.n; i++)
        any = any || is_named(l, &insts.rows[i]);
    if (rc == FR_OK && !any && insts.n > 0)
        rc = strspn(l->task, "0123456789") == strlen(l->task)
                 ? fr_fail(err, FR_USAGE, "there is no run %s; 'flowrun runs' lists all", l->task)
                 : fr_fail(err, FR_USAGE, "run %lld has no task '%s'", (long long)l->run.no,
                           l->task);
    fr_arena_finish(&arena);
    return rc;
}

/* Whether nothing more comes: the run is over, and its host fetches no more of its output; or
 * nobody drives it, *left. */
static enum fr_rc is_over(struct logs *l, bool *over, bool *left, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();
    struct fr_arena arena = {0};
    struct fr_run_row row = {0};
    char id[FR_ID_TEXT];
    bool driven;
    enum fr_rc rc;

    fr_id_text(l->run.id, id);
    rc = fr_store_run_find(l->st, id, &arena, &row, err);
    driven = rc == FR_OK && cli_is_driven(l->st, &row);
    *over = rc == FR_OK && row.state == FR_RUN_OVER && !driven;
    if (rc != FR_OK || *over || driven)
        l->driven_ms = now;
    *left = rc == FR_OK && now >= l->driven_ms + LEFT_MS;
    *over = *over || *left;
    fr_arena_finish(&arena);
    return rc;
}

/* Waits before the next look. false: the reader closed the pipe. */
static bool pause_reading(void)
{
    struct pollfd out = {.fd = 1};

    return fr_sys.poll(&out, 1, FOLLOW_MS) <= 0 || (out.revents & (POLLERR | POLLHUP)) == 0;
}

/* Prints that output is still on a node, if some is. */
static enum fr_rc say_missing(struct logs *l, struct fr_err *err)
{
    bool over = false, left = false, lacks = false;
    enum fr_rc rc = is_over(l, &over, &left, err);

    if (rc == FR_OK && over && !left)
        rc = fr_store_lacks_output(l->st, l->run.id, &lacks, err);
    if (lacks)
        fr_complain("flowrun: not all output of run %lld is here, some is still on its nodes; "
                    "'flowrun resume %lld' fetches it\n",
                    (long long)l->run.no, (long long)l->run.no);
    return rc;
}

static enum fr_rc show(struct logs *l, bool follow, struct fr_err *err)
{
    bool over = !follow, left = false, read = true;
    enum fr_rc rc = FR_OK;

    l->driven_ms = fr_sys.mono_ms();
    do {
        if (follow)
            rc = is_over(l, &over, &left, err);
        if (rc == FR_OK && (rc = refresh(l, err)) == FR_OK)
            rc = fr_merge_print(l->merge, over, err);
        if (rc == FR_OK && fr_print_ok() && !over)
            read = pause_reading();
    } while (rc == FR_OK && !over && read && fr_print_ok());
    if (rc == FR_OK && left && read && fr_print_ok())
        fr_complain("flowrun: no flowrun looks after run %lld, so no more output comes; "
                    "'flowrun resume %lld' goes on with it\n",
                    (long long)l->run.no, (long long)l->run.no);
    return rc == FR_OK && read && fr_print_ok() ? say_missing(l, err) : rc;
}

static enum fr_rc find_run(struct logs *l, struct fr_err *err)
{
    struct fr_buf dir = {0};
    struct fr_arena *arena = &l->call->arena;
    const char *run = cli_arg(l->call, 0);
    enum fr_rc rc = fr_store_run_find(l->st, run, arena, &l->run, err);

    l->task = cli_arg(l->call, 1);
    if (rc == FR_NOTFOUND && l->call->args.n == 1) { /* a task of the newest run */
        rc = fr_store_run_find(l->st, NULL, arena, &l->run, err);
        l->task = run;
    }
    if (rc != FR_OK)
        return rc;
    fr_home_at(fr_store_home(l->st), FR_HOME_RUN, l->run.id, &dir);
    rc = dir.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                 : fr_check_unlinked(dir.p, strlen(fr_store_home(l->st)), err);
    l->how.put = print_lines;
    if (rc == FR_OK)
        rc = fr_merge_create(&l->merge, dir.p, &l->how, err);
    fr_buf_finish(&dir);
    return rc;
}

enum fr_rc cli_logs(struct cli_call *c, struct fr_err *err)
{
    struct logs l = {.call = c, .failed = cli_has(c, "--failed")};
    int64_t n = 0;
    enum fr_rc rc = cli_number(c, "--tail", (struct cli_range){1, INT32_MAX}, &n, err);

    l.how.n_tail = (size_t)n;
    l.how.times = cli_has(c, "--times") ? FR_MERGE_CLOCK : FR_MERGE_NO_TIMES;
    if (rc == FR_OK)
        rc = cli_store_read(&c->home.st, err);
    l.st = c->home.st;
    if (rc == FR_OK)
        rc = find_run(&l, err);
    if (rc == FR_OK)
        rc = show(&l, cli_has(c, "--follow"), err);
    fr_merge_destroy(l.merge);
    return rc;
}
