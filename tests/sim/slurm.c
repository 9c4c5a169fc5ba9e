#include "tests/sim/slurm.h"

#include "engine/node/closing.h"
#include "engine/node/serve.h"
#include "engine/submit/folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SECOND_US = 1000000,
    BUDGET = 6, /* places (slurm/cluster.h) */
    KILL_WAIT_MS = 30000,
    LATE_US = 90 * SECOND_US,
    TWIN_US = 190 * SECOND_US,
    PROVE_MS = 800,
    LATER_US = 20 * SECOND_US, /* that an element waits which is not the first */
    TAG_PREFIX = 27,           /* digits before the index of an element */
    LOGS_AT = 1                /* descriptor of what a command prints */
};

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void pass_us(int64_t us)
{
    sim_block(never, NULL, sim->now_us + us);
}

static int64_t wall_of(int64_t us)
{
    return us == 0 ? 0 : fr_sys.wall_ms() + (us - sim->now_us) / 1000;
}

static struct sim_slurm *slurm_of(void)
{
    return world_of(sim)->slurm;
}

/* A command, as the controller hears of it. */
struct late {
    int64_t us;
    char tag[40], folder[120];
    int places;
    unsigned elements; /* of an array: a bit for each index */
    int64_t limit_ms, cancels;
};

/* ---- jobs ---- */

static void put(const struct sim_job *job, const char *name, const char *text)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", job->folder, name);
    sim_put_file(job->w->slurm->front, path, text);
}

static bool exists(const struct sim_job *job, const char *name)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/%s", job->folder, name);
    return sim_lookup(job->w->slurm->front, path) != NULL;
}

static void end_job(struct sim_job *job, const char *word)
{
    job->state = SIM_ENDED;
    job->word = job->word != NULL ? job->word : word;
    job->end_us = sim->now_us;
    world_tell(job->w, "slurm: job %lld %s", (long long)job->id, job->word);
}

/* Place 1 makes the claim; a job that finds another one's starts nothing. */
static bool has_claim(struct sim_job *job, int place)
{
    char mine[40], path[200];
    const struct sim_inode *claim;

    snprintf(mine, sizeof(mine), "%lld 0\n", (long long)job->array);
    if (place == 0 && !exists(job, "claim"))
        put(job, "claim", mine);
    while (!exists(job, "claim") && !job->told)
        pass_us(SECOND_US / 5);
    snprintf(path, sizeof(path), "%s/claim", job->folder);
    claim = sim_lookup(job->w->slurm->front, path);
    return claim != NULL && claim->n == strlen(mine) && memcmp(claim->data, mine, claim->n) == 0;
}

static void check_works(struct sim_job *job)
{
    struct sim_slurm *s = job->w->slurm;

    s->works++;
    for (size_t i = 0; i < s->n_jobs; i++)
        if (&s->jobs[i] != job && strcmp(s->jobs[i].tag, job->tag) == 0 &&
            s->jobs[i].began_us > 0 && !s->jobs[i].twin)
            world_violated(job->w, "jobs %lld and %lld of one tag work", (long long)s->jobs[i].id,
                           (long long)job->id);
}

static void home_of(const struct sim_job *job, char out[80])
{
    snprintf(out, 80, "/home-%lld", (long long)job->id);
}

static const char *const environment[] = {"PATH=/bin", NULL};

static struct fr_serve_args args_of(struct sim_job *job, int place, const char *home)
{
    return (struct fr_serve_args){.home = home,
                                  .self = "/flownode",
                                  .build = "sim",
                                  .environ = environment,
                                  .in = 0,
                                  .out = 1,
                                  .closing = &job->closing[place]};
}

/* As engine/node/keep.c does it, whose processes are forked. */
static bool close_place(struct sim_job *job, int place)
{
    char home[80];
    struct fr_serve_args a;
    struct fr_closing *c = NULL;
    struct fr_err err;
    int64_t kill_ms = fr_sys.mono_ms() + KILL_WAIT_MS - 5000;
    size_t live = 1;
    enum fr_rc rc;

    home_of(job, home);
    a = args_of(job, place, home);
    job->closing[place] = true;
    rc = fr_closing_begin(&a, &c, &err);
    if (rc == FR_OK)
        fr_closing_notice(c, kill_ms);
    while (rc == FR_OK && (rc = fr_closing_step(c, &live, &err)) == FR_OK && live > 0) {
        if (fr_sys.mono_ms() >= kill_ms)
            fr_closing_kill(c);
        pass_us(SECOND_US / 20);
    }
    pass_us(SECOND_US); /* the ends reach an engine */
    job->up[place] = false;
    sim_links_drop(sim->cur->m);
    if (rc == FR_OK)
        rc = fr_closing_prove(c, fr_sys.mono_ms() + PROVE_MS, &err);
    fr_closing_end(c);
    return rc == FR_OK;
}

struct keeper {
    struct sim_job *job;
    int place;
};

static bool has_begun(void *arg)
{
    const struct sim_job *job = arg;

    return job->state != SIM_PENDING;
}

static bool is_told(void *arg)
{
    const struct sim_job *job = arg;

    return job->told || job->state == SIM_ENDED;
}

static void work(struct sim_job *job, int place)
{
    char name[40], text[160];

    if (place == 0)
        check_works(job);
    job->working++;
    snprintf(name, sizeof(name), "place.%d", place + 1);
    snprintf(text, sizeof(text),
             "job %lld\nrestarts 0\nown %lld\nhost node%d\naddress 10.0.0.%d\nhome /home-%lld\n",
             (long long)job->array, (long long)job->id, job->machine + place, job->machine + place,
             (long long)job->id);
    put(job, name, text);
    job->up[place] = true;
    sim_block(is_told, job, job->began_us + job->limit_ms * 1000);
    if (!job->told)
        job->word = "TIMEOUT";
    job->told = true;
    snprintf(name, sizeof(name), "place.%d.closed", place + 1);
    snprintf(text, sizeof(text), "job %lld\nrestarts 0\n", (long long)job->array);
    if (close_place(job, place))
        put(job, name, text);
}

static int keeper(void *arg)
{
    const struct keeper *k = arg;
    struct sim_job *job = k->job;
    const char *word = "COMPLETED";

    sim_block(has_begun, job, job->start_us);
    if (job->state == SIM_PENDING) {
        job->state = SIM_RUNNING;
        job->began_us = sim->now_us;
        world_tell(job->w, "slurm: job %lld begins", (long long)job->id);
        if (job->index >= 0 && sim_lookup(job->w->slurm->front, job->folder) == NULL)
            sim_put_bytes(job->w->slurm->front, job->folder, NULL, 0); /* its script does */
    }
    pass_us(SECOND_US / 10 * (1 + k->place));
    if (job->state == SIM_RUNNING && sim_lookup(job->w->slurm->front, job->folder) == NULL)
        word = "FAILED"; /* it cannot write its output */
    else if (job->state == SIM_RUNNING && has_claim(job, k->place))
        work(job, k->place);
    job->twin = job->twin || job->working == 0;
    if (--job->keepers == 0 && job->state != SIM_ENDED)
        end_job(job, word);
    return 0;
}

static struct sim_job *submit_one(struct sim_slurm *s, const struct late *l, int index)
{
    struct sim_job *job = &s->jobs[s->n_jobs];

    if (s->n_jobs == SIM_JOBS) {
        world_violated(world_of(sim), "more than %d jobs", SIM_JOBS);
        return NULL;
    }
    *job = (struct sim_job){.w = world_of(sim),
                            .id = 4711 + (int64_t)s->n_jobs++,
                            .index = index,
                            .machine = 1 + (index > 0 ? index % SIM_PLACES : 0),
                            .places = l->places,
                            .limit_ms = l->limit_ms,
                            .submit_us = sim->now_us,
                            .start_us = sim->now_us + s->queue_us + (index > 0 ? LATER_US : 0),
                            .keepers = l->places};
    job->array = job->id;
    snprintf(job->tag, sizeof(job->tag), "%s", l->tag);
    snprintf(job->folder, sizeof(job->folder), "%s", l->folder);
    if (index >= 0) {
        snprintf(job->tag + TAG_PREFIX, 6, "%05d", index);
        snprintf(strrchr(job->folder, '/') + 1 + TAG_PREFIX, 6, "%05d", index);
    }
    world_tell(job->w, "slurm: job %lld of %.8s, element %d", (long long)job->id, l->tag, index);
    for (int i = 0; i < l->places; i++) {
        const struct keeper k = {job, i};

        sim_name(sim_start(&sim->machines[job->machine + i], keeper, &k, sizeof(k))->comm,
                 "keeper");
    }
    return job;
}

/* Ids of elements begin behind that of the array, which the last of them has. */
static struct sim_job *submit(struct sim_slurm *s, const struct late *l)
{
    struct sim_job *first = NULL, *job;

    for (int i = 0; i < 32; i++) {
        if (l->elements != 0 && (l->elements >> i & 1) == 0)
            continue;
        if ((job = submit_one(s, l, l->elements != 0 ? i : -1)) == NULL)
            return NULL;
        first = first != NULL ? first : job;
        job->array = first->array;
        job->id++;
        if (l->elements >> i <= 1)
            break;
    }
    s->jobs[s->n_jobs - 1].id = first->array;
    return first;
}

static void cancel(struct sim_job *job)
{
    job->gone = job->state == SIM_PENDING && job->index >= 0;
    if (job->state == SIM_PENDING)
        end_job(job, "CANCELLED");
    else if (job->state == SIM_RUNNING && job->word == NULL)
        job->word = "CANCELLED";
    job->told = true;
}

void sim_slurm_kill(struct sim_job *job, const char *word)
{
    job->word = word;
    end_job(job, word);
    for (int i = 0; i < job->places; i++) {
        job->up[i] = false;
        sim_crash(&sim->machines[job->machine + i], false);
    }
}

struct sim_job *sim_slurm_at(struct sim_slurm *s, const struct sim_machine *m)
{
    int machine = (int)(m - sim->machines);

    for (size_t i = s->n_jobs; i > 0; i--) {
        struct sim_job *job = &s->jobs[i - 1];

        if (machine >= job->machine && machine < job->machine + job->places &&
            job->up[machine - job->machine])
            return job;
    }
    return NULL;
}

/* ---- the controller hears of a command later ---- */

static void perform(struct sim_slurm *s, const struct late *l, struct sim_job **job)
{
    *job = NULL;
    if (l->cancels == 0)
        *job = submit(s, l);
    for (size_t i = 0; l->cancels != 0 && i < s->n_jobs; i++) {
        int index = s->jobs[i].index;

        if (s->jobs[i].array != l->cancels || (index >= 0 && (l->elements >> index & 1) == 0))
            continue;
        *job = &s->jobs[i];
        cancel(*job);
    }
}

static int controller(void *arg)
{
    struct sim_job *job;

    const struct late *l = arg;

    pass_us(l->us);
    perform(slurm_of(), l, &job);
    return 0;
}

/* It died with its parent. */
static void leave_if_killed(void)
{
    if (sim->cur->state == SIM_ZOMBIE)
        sim_switch_to_scheduler();
}

/* The two points of a command's effect. False: it dies here. */
static bool take_effect(struct sim_slurm *s, struct late *l, struct sim_job **job)
{
    s->stroke = SIM_STROKE_NONE;
    s->acted = false;
    sim_point(SIM_AT_EFFECT);
    l->us = s->stroke == SIM_STROKE_LATE ? LATE_US : TWIN_US;
    if (s->stroke == SIM_STROKE_LATE || s->stroke == SIM_STROKE_TWIN)
        sim_name(sim_start(&sim->machines[0], controller, l, sizeof(*l))->comm, "slurmctld");
    leave_if_killed();
    if (s->stroke != SIM_STROKE_NONE)
        return false;
    perform(s, l, job);
    s->acted = true;
    sim_point(SIM_AT_EFFECT);
    leave_if_killed();
    return s->stroke == SIM_STROKE_NONE;
}

/* ---- commands ---- */

static void say(const char *text)
{
    fr_sys.write(LOGS_AT, text, strlen(text));
}

/* The value of "--name=value"; "": there is none. */
static const char *option(const void *arg, const char *name)
{
    size_t n = strlen(name);
    const char *word;

    for (size_t i = 1; (word = sim_arg(arg, i)) != NULL; i++)
        if (strncmp(word, name, n) == 0 && word[n] == '=')
            return word + n + 1;
    return "";
}

static int sbatch(struct sim_slurm *s, const void *arg)
{
    struct late l = {.places = (int)atoll(option(arg, "--nodes")),
                     .limit_ms = atoll(option(arg, "--time")) * 60000};
    const char *list = option(arg, "--array"), *script = "";
    char text[40];
    struct sim_job *job;

    s->submits++;
    snprintf(l.tag, sizeof(l.tag), "%s", option(arg, "--job-name") + 3);
    for (size_t i = 1; sim_arg(arg, i) != NULL; i++)
        script = sim_arg(arg, i);
    snprintf(l.folder, sizeof(l.folder), "%.*s", (int)(strrchr(script, '/') - script), script);
    for (const char *at = list; *at != '\0'; at += strcspn(at, ",") + (at[strcspn(at, ",")] != 0)) {
        int from = (int)atoll(at), to = from;

        if (strchr(at, '-') != NULL && strcspn(at, "-") < strcspn(at, ","))
            to = (int)atoll(strchr(at, '-') + 1);
        for (; from <= to; from++)
            l.elements |= 1u << from;
    }
    if (!take_effect(s, &l, &job) || job == NULL)
        return 1;
    snprintf(text, sizeof(text), "%lld\n", (long long)job->array);
    say(text);
    return 0;
}

static int scancel(struct sim_slurm *s, const void *arg)
{
    struct late l = {.cancels = atoll(sim_arg(arg, 1))};
    const char *word;
    struct sim_job *job;

    for (size_t i = 1; (word = sim_arg(arg, i)) != NULL; i++)
        if (strchr(word, '_') != NULL && atoll(word) == l.cancels)
            l.elements |= 1u << atoll(strchr(word, '_') + 1);

    return take_effect(s, &l, &job) ? 0 : 1;
}

static void put_time(struct fr_buf *out, int64_t wall_ms)
{
    time_t t = (time_t)(wall_ms / 1000);
    struct tm tm;
    char text[40] = "N/A";

    if (wall_ms != 0)
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&t, &tm));
    fr_buf_fmt(out, "|%s", text);
}

static void put_job(struct fr_buf *out, const struct sim_job *job)
{
    static const char *const words[] = {
        [SIM_PENDING] = "PENDING", [SIM_RUNNING] = "RUNNING", [SIM_ENDED] = "COMPLETED"};
    bool ended = job->state == SIM_ENDED, waits = job->state == SIM_PENDING;
    int64_t end = ended ? job->end_us : job->began_us + job->limit_ms * 1000;
    const char *hosts = job->began_us == 0 ? "" : job->places > 1 ? "node[1-2]" : "node1";
    char tag[40];

    snprintf(tag, sizeof(tag), "%s", job->tag);
    if (job->index >= 0) {
        snprintf(tag + TAG_PREFIX, 6, "00000");
        fr_buf_fmt(out, "%lld_%d", (long long)job->array, job->index);
    } else {
        fr_buf_fmt(out, "%lld", (long long)job->id);
    }
    fr_buf_fmt(out, "|%lld|%s|%s|0:00|0:00", (long long)(waits ? job->array : job->id),
               ended ? job->word : words[job->state], waits ? "Priority" : "None");
    put_time(out, wall_of(job->began_us != 0 ? job->began_us : ended ? job->end_us : 0));
    put_time(out, waits ? 0 : wall_of(end));
    fr_buf_fmt(out, "|%s|%s|fr-%s\n", hosts, hosts[0] != '\0' ? "node1" : "n/a", tag);
}

static int squeue(struct sim_slurm *s, const void *arg)
{
    const char *names = option(arg, "--name");
    struct fr_buf out = {0};

    for (size_t i = 0; i < s->n_jobs; i++) {
        char part[40];

        snprintf(part, sizeof(part), "%.*s", TAG_PREFIX, s->jobs[i].tag);
        if (!s->jobs[i].gone && strstr(names, part) != NULL)
            put_job(&out, &s->jobs[i]);
    }
    if (out.n > 0)
        say(out.p);
    fr_buf_finish(&out);
    return 0;
}

static int scontrol(struct sim_slurm *s, const void *arg)
{
    (void)s, (void)arg;
    say("Configuration data as of 2026-11-28T12:00:00\n"
        "AccountingStorageType   = (null)\n"
        "ClusterName             = sim\n"
        "KillWait                = 30 sec\n"
        "MaxArraySize            = 1001\n"
        "MinJobAge               = 300 sec\n"
        "ProctrackType           = proctrack/linuxproc\n"
        "SLURM_VERSION           = 22.05.8\n"
        "SlurmctldParameters     = (null)\n");
    return 0;
}

/* Another flowrun has a budget of its own. */
static void pay(struct sim_slurm *s)
{
    struct world *w = world_of(sim);
    int64_t full = BUDGET * 60LL * SECOND_US;

    if (s->payer != w->engine_pid)
        s->credit = full;
    else
        s->credit += (sim->now_us - s->credited_us) * s->rpc;
    s->payer = w->engine_pid;
    s->credit = s->credit > full ? full : s->credit;
    s->credited_us = sim->now_us;
    s->credit -= 60LL * SECOND_US;
    if (s->credit < -SECOND_US) /* of rounding */
        world_violated(w, "more than %d commands a minute", s->rpc);
    s->asked++;
}

static int folder(const void *arg)
{
    const char *call = sim_arg(arg, 2), *path = sim_arg(arg, 3), *program = "";
    struct fr_arena arena = {0};
    struct fr_buf out = {0};
    struct fr_err err = {0};
    enum fr_rc rc;

    if (strcmp(call, "make") == 0) {
        rc = fr_folder_make(path, "/flownode", &arena, &program, &err);
        fr_buf_text(&out, rc == FR_OK ? program : "");
    } else if (strcmp(call, "script") == 0) {
        rc = fr_folder_script(path, sim_arg(arg, 4), &err);
    } else if (strcmp(call, "read") == 0) {
        rc = fr_folder_read(path, &out, &err);
    } else {
        rc = fr_folder_remove(path, &err);
    }
    if (out.n > 0)
        fr_sys.write(LOGS_AT, out.p, out.n);
    fr_buf_finish(&out);
    fr_arena_finish(&arena);
    return rc == FR_OK ? 0 : 1;
}

static const struct {
    const char *name;
    int (*run)(struct sim_slurm *s, const void *arg);
} commands[] = {
    {"sbatch", sbatch}, {"scancel", scancel}, {"squeue", squeue}, {"scontrol", scontrol}};

static int command(void *arg)
{
    const char *name = sim_arg(arg, 0);
    struct sim_slurm *s = slurm_of();

    if (strcmp(name, "/flownode") == 0)
        return folder(arg);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0) {
            pay(s);
            pass_us(sim_between(sim, 10000, 200000));
            return commands[i].run(s, arg);
        }
    return 127;
}

/* ---- links ---- */

static int serve(void *arg)
{
    struct sim_machine *m = sim->cur->m;
    struct sim_job *job = sim_slurm_at(slurm_of(), m);
    char home[80];
    struct fr_serve_args a;

    (void)arg;
    if (job == NULL)
        return 3;
    home_of(job, home);
    a = args_of(job, (int)(m - sim->machines) - job->machine, home);
    return fr_serve(&a, NULL) == FR_OK ? 0 : 1;
}

static int serve_login(void *arg)
{
    struct fr_serve_args a = {.home = "/node",
                              .self = "/flownode",
                              .build = "sim",
                              .environ = environment,
                              .in = 0,
                              .out = 1};

    (void)arg;
    return fr_serve(&a, NULL) == FR_OK ? 0 : 1;
}

struct sim_machine *sim_slurm_machine(struct sim_slurm *s, const char *name)
{
    struct sim_machine *m = &sim->machines[world_machine(name)];
    struct fr_buf tag = {0};
    char sql[160];

    snprintf(sql, sizeof(sql),
             "SELECT tag FROM allocation WHERE copy = %d AND state <> 'over' ORDER BY id DESC",
             (int)(m - sim->machines));
    world_rows(s->w, sql, &tag);
    for (size_t i = 0; tag.n > 0 && i < s->n_jobs; i++)
        if (strncmp(s->jobs[i].tag, tag.p, strlen(s->jobs[i].tag)) == 0)
            m = &sim->machines[s->jobs[i].machine];
    fr_buf_finish(&tag);
    return m;
}

enum fr_rc sim_slurm_link(struct sim_slurm *s, const struct fr_exec_node *node, struct fr_link *out,
                          struct fr_err *err)
{
    struct sim_machine *m = sim_slurm_machine(s, node->name);

    if (node->login)
        return sim_link_create(out, &sim->machines[SIM_LOGIN], serve_login);
    if (sim_slurm_at(s, m) == NULL)
        return fr_fail(err, FR_UNREACHABLE, "srun: there is no step of it");
    return sim_link_create(out, m, serve);
}

/* ---- a run ---- */

void sim_slurm_begin(struct sim_slurm *s, struct world *w, bool login)
{
    *s = (struct sim_slurm){.w = w, .queue_us = 3 * SECOND_US, .rpc = 60};
    s->front = &w->sim.machines[login ? SIM_LOGIN : 0];
    w->slurm = s;
    w->sim.command = command;
    sim_put_file(s->front, login ? "/flownode" : "//flownode", "flownode");
    sim_put_bytes(s->front, "/work", NULL, 0);
}

bool sim_slurm_open(const struct sim_slurm *s)
{
    struct fr_buf rows = {0};
    bool any;

    world_rows(s->w, "SELECT no FROM allocation WHERE state <> 'over'", &rows);
    any = rows.n > 0;
    fr_buf_finish(&rows);
    return any;
}

void sim_slurm_check_end(struct sim_slurm *s)
{
    for (size_t i = 0; i < s->n_jobs; i++)
        if (s->jobs[i].state != SIM_ENDED)
            world_violated(s->jobs[i].w, "job %lld is left", (long long)s->jobs[i].id);
}
