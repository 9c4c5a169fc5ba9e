/* Clusters that inventories name: what one says of itself, and of the jobs of all its allocations
 * in one question. */
#include "engine/allocate/private.h"

#include "engine/base/log.h"
#include "engine/link/link.h"
#include "engine/slurm/partitions.h"

enum { NO_PROGRAM = 127 /* exit status */, MAX_ARRAY = 1001 /* Slurm's default */ };

/* ---- its jobs ---- */

static void on_line(void *arg, const struct fr_squeue_line *line)
{
    const struct host_cluster *c = arg;

    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next) {
        if (al->cluster != c || !al->asked || strcmp(line->tag, al->row.tag) != 0 ||
            line->job.element != al->row.element || al->n_seen == ALLOC_SEEN_MOST)
            continue; /* a line without an index is of elements that were cancelled as they waited
                       */
        al->seen[al->n_seen] = line->job;
        /* whether it has hosts; keepers name them, and the text does not outlive the call */
        al->seen[al->n_seen++].hosts = fr_str_of(line->job.hosts.n > 0 ? "-" : "");
    }
}

static bool all_wait(const struct host_allocation *al)
{
    for (size_t i = 0; i < al->n_seen; i++)
        if (strcmp(al->seen[i].state, "PENDING") != 0)
            return false;
    return al->n_seen > 0;
}

static void on_asked(void *arg, const struct fr_command_end *end)
{
    struct host_cluster *c = arg;
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    c->asking = false;
    c->host->woken = true;
    if (end->code != 0)
        rc = fr_fail(&err, FR_IO, "%.*s", (int)end->errors.n, end->errors.p);
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next)
        if (al->cluster == c)
            al->n_seen = 0;
    if (rc == FR_OK)
        rc = fr_squeue_read(end->out, on_line, c, &err);
    if (rc != FR_OK)
        fr_log(FR_LOG_WARN, "slurm", "squeue: %s", err.msg);
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next) {
        if (al->cluster != c || !al->asked)
            continue;
        if (rc != FR_OK)
            al->asked = false;
        else if (all_wait(al))
            alloc_answer(al, (struct fr_str){"", 0});
        else
            al->answered = true; /* once the folder is read */
    }
}

void alloc_ask(struct host_cluster *c, int64_t now)
{
    struct host_allocations *all = allocations_of(c->host);
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_slurm_named *tags;
    const char *const *argv;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (c->asking || c->ask_ms > now)
        return;
    for (const struct host_allocation *al = all->first; al != NULL; al = al->next)
        n += al->cluster == c;
    tags = fr_arena_array(&arena, n + 1, sizeof(*tags));
    n = 0;
    for (struct host_allocation *al = all->first; tags != NULL && al != NULL; al = al->next)
        if (al->cluster == c && alloc_ask_ms(al) != INT64_MAX) {
            al->asked = true;
            al->ask_now = false;
            tags[n++] = (struct fr_slurm_named){al->row.tag, al->row.element};
        }
    argv = n > 0 ? fr_squeue_args(tags, n, &arena) : NULL;
    if (n > 0 && argv == NULL)
        rc = fr_fail(&err, FR_NOMEM, "no memory for a question");
    else if (n > 0)
        rc = fr_cluster_run(
            c->cluster,
            &(struct fr_command){
                .argv = argv, .asks = true, .repeat = true, .ended = on_asked, .arg = c},
            &err);
    c->asking = n > 0 && rc == FR_OK;
    for (struct host_allocation *al = all->first; rc != FR_OK && al != NULL; al = al->next)
        al->asked = al->asked && (al->cluster != c || al->answered);
    fr_arena_finish(&arena);
}

/* ---- scancel ---- */

static void cancelled(struct host_cluster *c)
{
    c->cancels = false;
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next)
        if (al->cluster == c && al->cancelled) {
            al->cancelled = false;
            alloc_apply(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CANCELLED});
        }
}

static void on_cancelled(void *arg, const struct fr_command_end *end)
{
    struct host_cluster *c = arg;

    (void)end; /* the next answer about the tags tells what it did */
    c->host->woken = true;
    cancelled(c);
}

void alloc_cancel(struct host_cluster *c)
{
    struct fr_command command = {.asks = true, .ended = on_cancelled, .arg = c};
    struct host_allocation *first = allocations_of(c->host)->first;
    struct fr_arena arena = {0};
    struct fr_slurm_id *ids;
    size_t n = 0;

    for (const struct host_allocation *al = first; al != NULL; al = al->next)
        n += al->cluster == c && al->cancels;
    if (n == 0 || c->cancels)
        return;
    ids = fr_arena_array(&arena, n, sizeof(*ids));
    n = 0;
    for (struct host_allocation *al = first; al != NULL; al = al->next) {
        if (al->cluster != c || !al->cancels)
            continue;
        al->cancels = false;
        al->cancelled = true;
        if (ids != NULL)
            ids[n++] = (struct fr_slurm_id){al->a.life.job, al->a.life.element};
    }
    command.argv = ids != NULL ? fr_scancel_args(ids, n, &arena) : NULL;
    c->cancels = command.argv != NULL && fr_cluster_run(c->cluster, &command, NULL) == FR_OK;
    fr_arena_finish(&arena);
    if (!c->cancels) {
        fr_log(FR_LOG_WARN, "slurm", "scancel: no memory");
        cancelled(c); /* it comes again */
    }
}

/* ---- what a cluster says of itself ---- */

static void on_config(void *arg, const struct fr_command_end *end)
{
    struct host_cluster *c = arg;
    struct fr_slurm_config config;
    struct fr_buf said = {0};
    struct fr_err err = {0};

    fr_link_quote(&said, end->errors.p, end->errors.n);
    c->known = c->host->woken = true;
    c->introduces = false;
    c->broken[0] = '\0';
    if (end->code == NO_PROGRAM)
        snprintf(c->broken, sizeof(c->broken),
                 "there is no program scontrol in %s; load Slurm's module, or set path: of slurm:",
                 c->path[0] != '\0' ? c->path
                 : c->login != NULL ? "the PATH of the login node"
                                    : "PATH");
    else if (end->code != 0)
        snprintf(c->broken, sizeof(c->broken), "scontrol show config: %.300s",
                 said.n > 0 ? said.p : "it failed");
    else if (fr_slurm_config_read(end->out, &config, &err) != FR_OK)
        snprintf(c->broken, sizeof(c->broken), "%.300s", err.msg);
    else if (fr_slurm_too_old(&config))
        snprintf(c->broken, sizeof(c->broken), "Slurm %d.%02d is too old; expected 20.11 or later",
                 config.version[0], config.version[1]);
    fr_buf_finish(&said);
    if (c->broken[0] != '\0')
        return;
    snprintf(c->name, sizeof(c->name), "%s", config.cluster);
    c->cgroups = config.cgroups;
    c->binds = config.binds;
    c->accounting = config.accounting;
    c->kill_wait_ms = config.kill_wait_ms;
    if (config.max_array > 0)
        c->max_array = config.max_array;
    fr_cluster_limit(c->cluster, config.rpc);
    for (struct host_allocation *al = allocations_of(c->host)->first; al != NULL; al = al->next)
        if (al->cluster == c)
            al->a.cgroups = c->cgroups;
}

void alloc_cluster_again(struct host_cluster *c)
{
    struct fr_arena arena = {0};

    c->known = false;
    if (c->login != NULL && !fr_login_is(c->login).up)
        fr_login_connect(c->login);
    if (!c->introduces)
        c->introduces =
            FR_OK == fr_cluster_run(c->cluster,
                                    &(struct fr_command){.argv = fr_slurm_config_args(&arena),
                                                         .asks = true,
                                                         .repeat = true,
                                                         .ended = on_config,
                                                         .arg = c},
                                    NULL);
    fr_arena_finish(&arena);
}

/* ---- they come ---- */

static void on_changed(void *arg)
{
    struct host_cluster *c = arg;

    c->host->woken = true;
}

static bool same(const struct host_cluster *c, const struct fr_allocation_row *row)
{
    return strcmp(c->path, row->path) == 0 && strcmp(c->login_text, row->login) == 0;
}

struct host_cluster *alloc_cluster(struct fr_host *host, const struct fr_allocation_row *row)
{
    struct host_cluster **at = &allocations_of(host)->clusters, *c;
    struct fr_cluster_args args = {.loop = host->env.loop, .rpc = (int)row->rpc};
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    while (*at != NULL && !same(*at, row))
        at = &(*at)->next;
    if (*at != NULL)
        return *at;
    if ((c = fr_sys.alloc(sizeof(*c))) == NULL)
        return NULL;
    *c = (struct host_cluster){.host = host, .ask_ms = INT64_MAX, .max_array = MAX_ARRAY};
    c->path = fr_arena_dup(&c->arena, row->path);
    c->login_text = fr_arena_dup(&c->arena, row->login);
    if (c->path == NULL || c->login_text == NULL)
        rc = fr_fail(&err, FR_NOMEM, "no memory for a cluster");
    else if (c->login_text[0] != '\0')
        rc = alloc_login_create(c, c->login_text, &err);
    args.path = c->path != NULL && c->path[0] != '\0' ? c->path : NULL;
    args.runner = c->login != NULL ? fr_login_runner(c->login) : NULL;
    args.changed = on_changed;
    args.arg = c;
    if (rc == FR_OK)
        rc = fr_cluster_create(&args, &c->cluster, &err);
    if (rc != FR_OK) {
        fr_log(FR_LOG_WARN, "slurm", "%s", err.msg);
        alloc_cluster_destroy(c);
        return NULL;
    }
    *at = c;
    alloc_cluster_again(c);
    return c;
}

void alloc_cluster_destroy(struct host_cluster *c)
{
    fr_cluster_destroy(c->cluster);
    fr_login_destroy(c->login);
    fr_arena_finish(&c->arena);
    fr_sys.free(c);
}
