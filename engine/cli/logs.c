/* The output of a run's tasks, from the copies in the home, merged by time. The order inside one
 * attempt is never changed. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

enum {
    CHUNK = 64 << 10,
    LINE_MAX_BYTES = 64 << 10 /* a longer one is shown in pieces */,
    FOLLOW_MS = 200
};

struct pair { /* as engine/run writes it */
    uint64_t offset;
    int64_t wall_ms;
};

struct source { /* one attempt's log */
    struct fr_id attempt;
    char *label;          /* in the arena */
    int fd, idx_fd;       /* -1: not there yet */
    const char *name;     /* below the run's folder */
    uint64_t read;        /* bytes taken from the file */
    struct fr_buf text;   /* owns: bytes not yet printed */
    struct pair at, next; /* index: the pair in force, and the one behind it */
    bool has_next;
    int64_t line_ms; /* when the first line of text was written, never before the one above it */
    bool ended;      /* the attempt is over: a last line without a newline is shown too */
};

struct logs {
    struct fr_store *st;
    struct fr_arena arena;
    struct fr_run_row run;
    const char *task; /* NULL: all */
    bool times;
    char dir[4096];
    struct source *sources;
    size_t n;
};

/* ---- which logs ---- */

static bool wanted(const struct logs *l, const struct fr_inst_row *inst)
{
    return l->task == NULL || strcmp(l->task, inst->task) == 0 || strcmp(l->task, inst->key) == 0;
}

static struct source *find(struct logs *l, struct fr_id attempt)
{
    for (size_t i = 0; i < l->n; i++)
        if (fr_id_eq(l->sources[i].attempt, attempt))
            return &l->sources[i];
    return NULL;
}

static bool is_gang(const struct fr_attempt_rows *rows, const struct fr_inst_rows *insts,
                    const char *task)
{
    for (size_t i = 0, k = 0; i < rows->n; i++) {
        while (k < insts->n && insts->rows[k].idx < rows->rows[i].idx)
            k++;
        if (k < insts->n && rows->rows[i].rank > 0 && strcmp(insts->rows[k].task, task) == 0)
            return true;
    }
    return false;
}

static enum fr_rc add(struct logs *l, const struct fr_attempt_row *row, const char *key, bool gang,
                      struct fr_err *err)
{
    struct source *more = fr_sys.realloc(l->sources, (l->n + 1) * sizeof(*more));
    struct fr_buf label = {0};
    struct source *s;

    if (more == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    l->sources = more;
    s = &l->sources[l->n];
    *s = (struct source){.attempt = row->id, .fd = -1, .idx_fd = -1};
    if (gang)
        fr_buf_fmt(&label, "[%lld] ", (long long)row->rank);
    fr_buf_text(&label, key);
    if (row->no > 1)
        fr_buf_fmt(&label, "#%lld", (long long)row->no);
    s->label = label.bad ? NULL : fr_arena_dup(&l->arena, label.p);
    s->name = fr_arena_dup(&l->arena, row->log);
    fr_buf_finish(&label);
    if (s->label == NULL || s->name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    l->n++;
    return FR_OK;
}

/* The attempts that the store knows by now. */
static enum fr_rc refresh(struct logs *l, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows insts;
    struct fr_attempt_rows attempts;
    bool any = false;
    enum fr_rc rc = fr_store_insts(l->st, l->run.id, &arena, &insts, err);

    if (rc == FR_OK)
        rc = fr_store_attempts(l->st, l->run.id, &arena, &attempts, err);
    for (size_t i = 0, k = 0; rc == FR_OK && i < attempts.n; i++) {
        const struct fr_attempt_row *row = &attempts.rows[i];
        struct source *s = find(l, row->id);

        while (k < insts.n && insts.rows[k].idx < row->idx)
            k++;
        if (k == insts.n || insts.rows[k].idx != row->idx || !wanted(l, &insts.rows[k]))
            continue;
        if (s == NULL) {
            rc =
                add(l, row, insts.rows[k].key, is_gang(&attempts, &insts, insts.rows[k].task), err);
            s = rc == FR_OK ? &l->sources[l->n - 1] : NULL;
        }
        if (s != NULL)
            s->ended = row->ended_wall != 0;
    }
    for (size_t i = 0; rc == FR_OK && i < insts.n; i++)
        any = any || wanted(l, &insts.rows[i]);
    if (rc == FR_OK && !any && insts.n > 0)
        rc = fr_fail(err, FR_USAGE, "run %lld has no task '%s'", (long long)l->run.no, l->task);
    fr_arena_finish(&arena);
    return rc;
}

/* ---- reading ---- */

static int open_file(const struct logs *l, const char *name, const char *suffix)
{
    struct fr_buf path = {0};
    int fd = -1;

    fr_buf_fmt(&path, "%s/%s%s", l->dir, name, suffix);
    if (!path.bad)
        fd = fr_sys.open(path.p, O_RDONLY, 0);
    fr_buf_finish(&path);
    return fd;
}

static void next_pair(struct source *s)
{
    s->at = s->has_next ? s->next : s->at;
    s->has_next = s->idx_fd >= 0 &&
                  fr_sys.read(s->idx_fd, &s->next, sizeof(s->next)) == (ssize_t)sizeof(s->next);
}

/* Sets when the line at the file's offset was written. */
static void stamp(struct source *s, uint64_t offset)
{
    if (!s->has_next)
        next_pair(s);
    while (s->has_next && s->next.offset <= offset)
        next_pair(s);
    if (s->at.wall_ms > s->line_ms)
        s->line_ms = s->at.wall_ms;
}

/* More bytes of the file; true when a whole line (or the end of an ended one) stands ready. */
static bool fill(struct logs *l, struct source *s)
{
    char chunk[CHUNK];
    ssize_t n;

    if (s->fd < 0) {
        s->fd = open_file(l, s->name, "");
        s->idx_fd = open_file(l, s->name, ".idx");
    }
    while (s->text.n < LINE_MAX_BYTES &&
           (s->text.n == 0 || memchr(s->text.p, '\n', s->text.n) == NULL)) {
        if (s->fd < 0 || (n = fr_sys.read(s->fd, chunk, sizeof(chunk))) <= 0)
            return s->text.n > 0 && s->ended;
        if (s->text.n == 0)
            stamp(s, s->read);
        s->read += (uint64_t)n;
        fr_buf_add(&s->text, chunk, (size_t)n);
    }
    return true;
}

static void print_line(struct logs *l, struct source *s)
{
    const char *nl = memchr(s->text.p, '\n', s->text.n);
    size_t n = nl != NULL ? (size_t)(nl - s->text.p) : s->text.n;
    struct fr_buf b = {0};
    struct fr_str seen;
    time_t sec = (time_t)(s->line_ms / 1000);
    struct tm tm;
    char clock[16];

    if (l->times && localtime_r(&sec, &tm) != NULL && strftime(clock, 16, "%H:%M:%S", &tm) > 0)
        fr_buf_fmt(&b, "%s ", clock);
    fr_buf_fmt(&b, "%s | ", s->label);
    seen = cli_line_seen(s->text.p, n);
    fr_buf_visible(&b, seen.p, seen.n);
    if (!b.bad)
        fr_print("%s\n", b.p);
    fr_buf_finish(&b);
    fr_buf_cut(&s->text, n + (nl != NULL));
    if (s->text.n > 0)
        stamp(s, s->read - s->text.n);
}

/* Prints what is there, the oldest line first. */
static void merge(struct logs *l)
{
    for (;;) {
        struct source *oldest = NULL;

        for (size_t i = 0; i < l->n; i++)
            if (fill(l, &l->sources[i]) &&
                (oldest == NULL || l->sources[i].line_ms < oldest->line_ms))
                oldest = &l->sources[i];
        if (oldest == NULL)
            return;
        print_line(l, oldest);
    }
}

static bool is_over(struct logs *l, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_row row = {.state = ""};
    char id[FR_ID_TEXT];
    bool over;

    fr_id_text(l->run.id, id);
    over = fr_store_run_find(l->st, id, &arena, &row, err) != FR_OK ||
           strcmp(row.state, "over") == 0 || !fr_home_owned(fr_store_home(l->st), l->run.id);
    fr_arena_finish(&arena);
    return over;
}

static enum fr_rc show(struct logs *l, bool follow, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    bool over = !follow;

    do {
        if (follow)
            over = is_over(l, err);
        if ((rc = refresh(l, err)) == FR_OK)
            merge(l);
        if (rc == FR_OK && !over)
            fr_sys.poll(NULL, 0, FOLLOW_MS);
    } while (rc == FR_OK && !over && fr_print_ok());
    return rc;
}

static void finish(struct logs *l)
{
    for (size_t i = 0; i < l->n; i++) {
        fr_buf_finish(&l->sources[i].text);
        if (l->sources[i].fd >= 0)
            fr_sys.close(l->sources[i].fd);
        if (l->sources[i].idx_fd >= 0)
            fr_sys.close(l->sources[i].idx_fd);
    }
    fr_sys.free(l->sources);
    fr_store_close(l->st);
    fr_arena_finish(&l->arena);
}

static enum fr_rc find_run(struct logs *l, const struct cli_list *args, struct fr_err *err)
{
    struct fr_buf dir = {0};
    const char *run = args->n > 0 ? args->v[0] : NULL;
    enum fr_rc rc = fr_store_run_find(l->st, run, &l->arena, &l->run, err);

    l->task = args->n > 1 ? args->v[1] : NULL;
    if (rc == FR_NOTFOUND && args->n == 1) { /* a task of the newest run */
        rc = fr_store_run_find(l->st, NULL, &l->arena, &l->run, err);
        l->task = run;
    }
    if (rc != FR_OK)
        return rc;
    fr_home_at(fr_store_home(l->st), FR_HOME_RUN, l->run.id, &dir);
    if (dir.bad || dir.n >= sizeof(l->dir))
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else
        memcpy(l->dir, dir.p, dir.n + 1);
    fr_buf_finish(&dir);
    return rc;
}

int cli_logs(const struct cli_command *cmd, char **argv)
{
    struct logs l = {0};
    struct cli_list args = {0};
    bool follow = false;
    const struct cli_opt opts[] = {
        {"--follow", 'f', NULL, "go on as more comes, until the run ends", .flag = &follow},
        {"--times", 't', NULL, "show when each line was written", .flag = &l.times},
        {.name = NULL},
    };
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 2, &err);
    if (rc == FR_OK)
        rc = cli_store(&l.st, &err);
    if (rc == FR_OK)
        rc = find_run(&l, &args, &err);
    if (rc == FR_OK)
        rc = show(&l, follow, &err);
    finish(&l);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}
