/*
 * Allocations over the commands of fakeslurm: random scenarios, each by its number.
 *
 *   slurm_scenarios FAKESLURM COUNT [FIRST]
 *   slurm_scenarios keep --alloc FOLDER      the keeper of a place, as a job's script starts it
 *
 * A scenario has up to five allocations at a time, some of them elements of arrays, and half an
 * hour of what may happen to them, by a clock of its own; then they are given back. No two jobs of
 * one allocation ever work at once; there are two only where one appears minutes after its sbatch;
 * Slurm is not asked more than the budget allows; each allocation is over in the end, and no job is
 * left.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/slurm/cluster.h"
#include "engine/slurm/commands.h"
#include "tests/unit/check.h"
#include "tests/unit/slurm/virtual_loop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    SECOND = 1000,
    MINUTE = 60 * SECOND,
    ALLOCATIONS = 5,
    SEEN = 8,
    STEP_MS = 500,
    TROUBLE_MS = 30 * MINUTE, /* what may happen does so for so long */
    END_MS = 12 * MINUTE,     /* and then all must be over within so long */
    SHORT_S = 100             /* a job is there before its sbatch may be repeated */
};

struct one {
    struct world *w;
    struct fr_allocation a;
    struct fr_allocation_life stored; /* as a store would have it */
    struct fr_allocation_spec spec;
    struct fr_slurm_job seen[SEEN];
    size_t n_seen;
    int64_t ask_ms, due_ms, connected;
    char tag[33], folder[200];
    bool closed;
    int ends, generation;
    int64_t begin_ms; /* it is wanted from then on */
};

struct world {
    struct virtual_loop loop;
    struct fr_cluster *cluster;
    struct one all[ALLOCATIONS];
    int n;
    bool asking, again, late_jobs;
    int crash_in; /* so many steps of the loop; 0: not */
    int64_t began_ms, cluster_ms, asked;
    uint64_t seed;
    char folder[64];
    const char *fake, *self;
};

static uint64_t draw(struct world *w, uint64_t n)
{
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 7;
    w->seed ^= w->seed << 17;
    return w->seed % n;
}

static void write_file(const char *text, const char *format, ...)
{
    char path[400];
    va_list ap;
    FILE *f;

    va_start(ap, format);
    vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    f = fopen(path, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        perror(path);
        exit(99);
    }
}

/* ---- the keeper of a place ---- */

static bool own_claim(const char *folder, const char *mine)
{
    char path[300], text[60] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/claim", folder);
    while ((f = fopen(path, "r")) == NULL)
        usleep(500); /* that of place 1 makes it */
    (void)!fgets(text, sizeof(text), f);
    fclose(f);
    return strcmp(text, mine) == 0;
}

static int keep(const char *folder)
{
    int place = (int)strtol(getenv("SLURM_NODEID"), NULL, 10) + 1, lock, sig;
    char mine[60], own[300], claim[300], job[40];
    const char *id = getenv("SLURM_ARRAY_JOB_ID");
    sigset_t term;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    if (id == NULL)
        id = getenv("SLURM_JOB_ID");
    snprintf(job, sizeof(job), "job %s\n", id);
    snprintf(mine, sizeof(mine), "%s %s\n", id, getenv("SLURM_RESTART_COUNT"));
    if (place == 1) {
        write_file(mine, "%s/claim.%d", folder, (int)getpid());
        snprintf(own, sizeof(own), "%s/claim.%d", folder, (int)getpid());
        snprintf(claim, sizeof(claim), "%s/claim", folder);
        (void)!link(own, claim);
    }
    if (!own_claim(folder, mine))
        return 0;
    snprintf(own, sizeof(own), "%s/working.%d", folder, place);
    lock = open(own, O_RDWR | O_CREAT, 0600);
    if (flock(lock, LOCK_EX | LOCK_NB) != 0)
        write_file(mine, "%s/violation", folder);
    write_file(job, "%s/place.%d.%d", folder, place, (int)getpid());
    snprintf(own, sizeof(own), "%s/place.%d.%d", folder, place, (int)getpid());
    snprintf(claim, sizeof(claim), "%s/place.%d", folder, place);
    rename(own, claim);
    sigwait(&term, &sig);
    write_file(job, "%s/place.%d.closed", folder, place);
    return 0;
}

/* ---- what the driver of a machine does ---- */

static void act(struct one *o, const struct fr_allocation_now *now);

static void apply(struct one *o, const struct fr_allocation_event *ev)
{
    struct world *w = o->w;
    struct fr_allocation_now now;

    fr_allocation_apply(&o->a, ev, w->loop.now_ms, w->loop.now_ms + w->loop.wall_offset_ms, &now);
    if (now.changed)
        o->stored = o->a.life;
    CHECK(now.changed || memcmp(&o->stored, &o->a.life, sizeof(o->stored)) == 0);
    o->ask_ms = now.ask_ms;
    o->due_ms = now.due_ms;
    act(o, &now);
}

static void tell(struct one *o, enum fr_allocation_event_kind kind)
{
    apply(o, &(struct fr_allocation_event){.kind = kind});
}

/* Whether every place of that job has written its file, with that ending. */
static bool places(const struct one *o, int64_t job, const char *ending)
{
    for (int k = 1; k <= o->spec.nodes; k++) {
        char path[300], text[60] = "", want[60];
        FILE *f;

        snprintf(path, sizeof(path), "%s/place.%d%s", o->folder, k, ending);
        snprintf(want, sizeof(want), "job %lld\n", (long long)job);
        if ((f = fopen(path, "r")) == NULL)
            return false;
        (void)!fgets(text, sizeof(text), f);
        fclose(f);
        if (strcmp(text, want) != 0)
            return false;
    }
    return true;
}

static int64_t claim_of(const struct one *o)
{
    char path[300];
    long long job = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/claim", o->folder);
    if ((f = fopen(path, "r")) == NULL)
        return 0;
    (void)!fscanf(f, "%lld", &job);
    fclose(f);
    return job;
}

static void read_files(struct one *o)
{
    int64_t job = claim_of(o);

    if (job != 0 && job != o->a.claimed)
        apply(o, &(struct fr_allocation_event){.kind = FR_ALLOCATION_CLAIMED, .job = job});
    if (!o->closed && o->a.life.job != 0 && places(o, o->a.life.job, ".closed")) {
        o->closed = true;
        tell(o, FR_ALLOCATION_CLOSED);
    }
}

static void on_job(void *arg, const struct fr_squeue_line *line)
{
    struct world *w = arg;

    for (int i = 0; i < w->n; i++)
        if (strcmp(w->all[i].tag, line->tag) == 0 && w->all[i].n_seen < SEEN)
            w->all[i].seen[w->all[i].n_seen++] = line->job;
}

static void on_answer(void *arg, const struct fr_command_end *end);

static void ask(struct world *w)
{
    struct fr_command command = {.asks = true, .repeat = true, .ended = on_answer, .arg = w};
    struct fr_slurm_named tags[ALLOCATIONS];
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    size_t n = 0;

    if (w->asking) {
        w->again = true;
        return;
    }
    for (int i = 0; i < w->n; i++)
        if (w->all[i].a.life.submits > 0 && w->all[i].a.life.state != FR_ALLOCATION_OVER)
            tags[n++] = (struct fr_slurm_named){w->all[i].tag, w->all[i].a.life.element};
    if (n > 0) {
        command.argv = fr_squeue_args(tags, n, &arena);
        CHECK(fr_cluster_run(w->cluster, &command, &err) == FR_OK);
        w->asking = true;
    }
    fr_arena_finish(&arena);
}

static void on_answer(void *arg, const struct fr_command_end *end)
{
    struct world *w = arg;
    struct fr_err err = {0};

    w->asking = false;
    for (int i = 0; i < w->n; i++)
        w->all[i].n_seen = 0;
    CHECK_INT(end->code, 0);
    CHECK_INT(fr_squeue_read(end->out, on_job, w, &err), FR_OK);
    for (int i = 0; i < w->n; i++) {
        struct one *o = &w->all[i];
        struct fr_allocation_event ev = {
            .kind = FR_ALLOCATION_ANSWERED, .seen = o->seen, .n_seen = o->n_seen};

        if (o->a.life.submits == 0 || o->a.life.state == FR_ALLOCATION_OVER)
            continue;
        read_files(o);
        apply(o, &ev);
    }
    if (w->again)
        ask(w);
    w->again = false;
}

static void on_submitted(void *arg, const struct fr_command_end *end)
{
    struct one *o = arg;
    struct fr_allocation_event ev = {.text = end->errors};

    switch (fr_sbatch_read(end->code, end->out, end->errors, &ev.job)) {
    case FR_SBATCH_JOB:
        ev.kind = FR_ALLOCATION_SUBMITTED;
        break;
    case FR_SBATCH_LATER:
    case FR_SBATCH_REFUSED:
        ev.kind = FR_ALLOCATION_REFUSED;
        ev.transient = fr_sbatch_read(end->code, end->out, end->errors, &ev.job) == FR_SBATCH_LATER;
        break;
    case FR_SBATCH_UNCLEAR:
        ev.kind = FR_ALLOCATION_UNCLEAR;
        break;
    }
    apply(o, &ev);
}

static void on_cancelled(void *arg, const struct fr_command_end *end)
{
    (void)end;
    tell(arg, FR_ALLOCATION_CANCELLED);
}

static void on_twin_cancelled(void *arg, const struct fr_command_end *end)
{
    (void)arg;
    (void)end;
}

static void run(struct one *o, const char *const *argv,
                void (*ended)(void *, const struct fr_command_end *), int64_t limit_ms)
{
    struct fr_command command = {
        .argv = argv, .asks = true, .limit_ms = limit_ms, .ended = ended, .arg = o};
    struct fr_err err = {0};

    CHECK(argv != NULL && fr_cluster_run(o->w->cluster, &command, &err) == FR_OK);
}

static void submit(struct one *o, struct fr_arena *arena)
{
    struct fr_slurm_submit s = {.spec = &o->spec,
                                .tag = o->tag,
                                .folder = o->folder,
                                .comment = "flowrun:1:x",
                                .flownode = o->w->self,
                                .elements = &o->a.life.element,
                                .n_elements = o->a.life.element > 0};

    write_file(fr_slurm_script(&s, arena), "%s/job.sh", o->folder);
    run(o, fr_sbatch_args(&s, arena), on_submitted, MINUTE);
    if (draw(o->w, 6) == 0)
        o->w->crash_in = 1 + (int)draw(o->w, 6);
}

static void act(struct one *o, const struct fr_allocation_now *now)
{
    const struct fr_slurm_id own = {o->a.life.job, o->a.life.element},
                             twin = {now->twin, o->a.life.element};
    struct fr_arena arena = {0};

    if (now->actions & FR_ALLOCATION_DO_SUBMIT)
        submit(o, &arena);
    if (now->actions & FR_ALLOCATION_DO_CANCEL)
        run(o, fr_scancel_args(&own, 1, &arena), on_cancelled, 0);
    if (now->actions & FR_ALLOCATION_DO_CANCEL_TWIN)
        run(o, fr_scancel_args(&twin, 1, &arena), on_twin_cancelled, 0);
    if (now->actions & FR_ALLOCATION_DO_ASK)
        ask(o->w);
    if (now->actions & FR_ALLOCATION_DO_CONNECT)
        o->connected = o->a.life.job;
    if (now->actions & FR_ALLOCATION_DO_END)
        o->ends++;
    fr_arena_finish(&arena);
}

/* ---- what happens ---- */

/* Runs fakeslurm; its output is dropped. */
static int fake(struct world *w, const char *what, const char *id, const char *state)
{
    const char *argv[] = {w->fake, w->folder, what, id, state, NULL};
    const char *envp[] = {"PATH=/usr/bin:/bin", NULL};
    struct fr_spawn s = {.argv = argv, .envp = envp, .fds = {-1, -1, -1}};
    struct fr_wait end = {0};
    struct fr_proc proc;

    if (strcmp(what, "init") == 0) {
        argv[1] = what;
        argv[2] = w->folder;
    }
    if (fr_sys.spawn(&s, &proc) != 0 || fr_sys_real.wait(proc.pid, &end, 0) != 0)
        return 99;
    return end.signaled ? 98 : end.code;
}

/* Commands find the time in a file; hooks of fr_sys have no argument. */
static struct world *only;

static int spawn_now(const struct fr_spawn *spawn, struct fr_proc *out)
{
    char text[40];

    snprintf(text, sizeof(text), "%lld\n",
             (long long)only->loop.now_ms + only->loop.wall_offset_ms);
    write_file(text, "%s/now", only->folder);
    return fr_sys_real.spawn(spawn, out);
}

static void begin_cluster(struct world *w)
{
    static char path[100];
    struct fr_cluster_args args = {.loop = &w->loop.loop, .path = path};
    struct fr_err err = {0};

    snprintf(path, sizeof(path), "%s/bin", w->folder);
    CHECK_INT(fr_cluster_create(&args, &w->cluster, &err), FR_OK);
    w->cluster_ms = w->loop.now_ms;
    w->asking = w->again = false;
}

/* The process dies, sbatch with it, and another goes on with what is stored. */
static void crash(struct world *w)
{
    int (*wait)(pid_t, struct fr_wait *, int) = fr_sys.wait;

    w->asked += fr_cluster_asked(w->cluster);
    fr_sys.wait = fr_sys_real.wait; /* whatever runs is killed as it runs */
    fr_cluster_destroy(w->cluster);
    fr_sys.wait = wait;
    begin_cluster(w);
    for (int i = 0; i < w->n; i++) {
        struct one *o = &w->all[i];

        o->a = (struct fr_allocation){.life = o->stored};
        o->connected = 0;
        o->closed = false;
        if (o->a.life.state != FR_ALLOCATION_OVER)
            tell(o, FR_ALLOCATION_LOADED);
    }
}

static void set_switch(struct world *w, const char *name, const char *text)
{
    write_file(text, "%s/switch/%s", w->folder, name);
}

static void clear_switches(struct world *w)
{
    static const char *const names[] = {"away",  "silent", "hang", "lost",
                                        "delay", "full",   "hold", "deaf"};
    char path[200];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/switch/%s", w->folder, names[i]);
        unlink(path);
    }
}

static void trouble(struct world *w)
{
    static const char *const states[] = {"TIMEOUT", "PREEMPTED", "NODE_FAIL", "CANCELLED",
                                         "COMPLETED"};
    struct one *o = &w->all[draw(w, (uint64_t)w->n)];
    static const char *const switches[][2] = {{"away", ""},  {"silent", "1"}, {"hang", "1"},
                                              {"lost", "1"}, {NULL, NULL},    {"full", "2"},
                                              {NULL, NULL},  {"deaf", "3"}};
    char id[FR_SLURM_JOB_TEXT], text[30];
    uint64_t what = draw(w, 14);

    if (what < 8 && switches[what][0] != NULL) {
        set_switch(w, switches[what][0], switches[what][1]);
        return;
    }
    fr_slurm_job_text(o->a.life.job, o->a.life.element, id);
    switch (what) {
    case 4: /* with an answer that is lost; later than this, a job may be submitted twice */
        snprintf(text, sizeof(text), "1 %d", (int)draw(w, w->late_jobs ? 400 : SHORT_S));
        set_switch(w, "silent", "1");
        set_switch(w, "delay", text);
        break;
    case 6:
        snprintf(text, sizeof(text), "%d", (int)draw(w, 200));
        set_switch(w, "hold", text);
        break;
    case 8:
        fake(w, "requeue", id, NULL);
        break;
    case 9:
        fake(w, "end", id, states[draw(w, sizeof(states) / sizeof(states[0]))]);
        break;
    case 10:
        tell(o, FR_ALLOCATION_UNNEEDED);
        break;
    case 11:
    case 12:
        crash(w);
        break;
    default:
        clear_switches(w);
        break;
    }
}

/* Waits, by the real clock, for the keepers of a job that has just begun to run. */
static void connect_places(struct one *o)
{
    char path[200];

    if (o->connected == 0 || o->a.life.state != FR_ALLOCATION_STARTING)
        return;
    snprintf(path, sizeof(path), "%s/exit/%lld.0", o->w->folder, (long long)o->connected);
    while (!places(o, o->connected, "") && access(path, F_OK) != 0)
        usleep(500);
    if (places(o, o->connected, "")) {
        o->connected = 0;
        tell(o, FR_ALLOCATION_ALL_UP);
    }
}

static void turn(struct world *w)
{
    int64_t passed = w->loop.now_ms - w->cluster_ms;
    bool due = false;

    for (int i = 0; i < w->n; i++) {
        struct one *o = &w->all[i];

        if (o->a.life.state == FR_ALLOCATION_WANTED && o->begin_ms <= w->loop.now_ms &&
            fr_cluster_may_ask(w->cluster))
            tell(o, FR_ALLOCATION_MAY_ASK);
        if (o->due_ms <= w->loop.now_ms)
            tell(o, FR_ALLOCATION_DUE);
        connect_places(o);
        due = due || o->ask_ms <= w->loop.now_ms;
    }
    if (due && !w->asking)
        ask(w);
    while (w->crash_in > 0) { /* sbatch runs, or has just ended */
        virtual_loop_work(&w->loop);
        if (--w->crash_in == 0)
            crash(w);
    }
    virtual_loop_until(&w->loop, w->loop.now_ms + STEP_MS);
    passed = w->loop.now_ms - w->cluster_ms;
    CHECK(fr_cluster_asked(w->cluster) <= 6 + 12 * passed / MINUTE);
}

static void begin_one(struct world *w, struct one *o, uint64_t number)
{
    const char *folder = w->folder;

    int generation = o->generation + 1;
    int64_t minutes = draw(w, 3) == 0 ? 3 + (int64_t)draw(w, 10) : 120;

    *o = (struct one){.w = w, .ask_ms = INT64_MAX, .due_ms = INT64_MAX, .generation = generation};
    o->begin_ms = w->loop.now_ms + (int64_t)draw(w, 4 * MINUTE);
    o->spec =
        (struct fr_allocation_spec){.nodes = 1 + (int)draw(w, 2), .time_ms = minutes * MINUTE};
    snprintf(o->tag, sizeof(o->tag), "%016llx%04x%07x00000", (unsigned long long)number,
             (unsigned)(o - w->all), (unsigned)generation);
    if (draw(w, 3) == 0) {
        o->spec.nodes = 1;
        o->a.life.element = 1 + (int64_t)draw(w, 9);
        o->stored = o->a.life;
        fr_slurm_tag(o->tag, o->a.life.element, o->tag);
    }
    snprintf(o->folder, sizeof(o->folder), "%s/%s", folder, o->tag);
    CHECK(mkdir(o->folder, 0700) == 0);
}

static void begin(struct world *w, uint64_t number)
{
    char hanging[100], conf[100];

    snprintf(w->folder, sizeof(w->folder), "/tmp/flowrun-fakeslurm-XXXXXX");
    CHECK(mkdtemp(w->folder) != NULL);
    w->seed = 88172645463325252ULL + number * 2654435761ULL;
    CHECK_INT(fake(w, "init", NULL, NULL), 0);
    snprintf(hanging, sizeof(hanging), "%s/hanging", w->folder);
    snprintf(conf, sizeof(conf), "%s/slurm.conf", w->folder);
    setenv("SLURM_CONF", conf, 1);
    virtual_loop_open(&w->loop, hanging);
    fr_sys.spawn = spawn_now;
    only = w;
    w->began_ms = w->loop.now_ms;
    w->asked = w->crash_in = 0;
    begin_cluster(w);
    w->n = 1 + (int)draw(w, ALLOCATIONS);
    w->late_jobs = draw(w, 3) == 0;
    for (int i = 0; i < w->n; i++) {
        w->all[i].generation = 0;
        begin_one(w, &w->all[i], number);
    }
}

/* Live jobs that nobody has forgotten. twice: those of a tag that has an earlier one. */
static int live_jobs(struct world *w, int *twice)
{
    static char names[2000][80];
    char path[200], line[300];
    int live = 0, n = 0;
    FILE *f;

    *twice = 0;
    snprintf(path, sizeof(path), "%s %s jobs", w->fake, w->folder);
    f = popen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strstr(line, " PENDING ") != NULL || strstr(line, " RUNNING ") != NULL ||
            strstr(line, " COMPLETING ") != NULL)
            live++;
        CHECK(sscanf(line, "%*s %*s %79s", names[n]) == 1);
        for (int i = 0; i < n; i++)
            if (strcmp(names[i], names[n]) == 0) {
                ++*twice;
                break;
            }
        n++;
    }
    return f != NULL && pclose(f) == 0 ? live : -1;
}

/* Commands of those that ask slurmctld, as they came there. */
static int64_t logged(struct world *w)
{
    char path[200], line[3000];
    int64_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "%s/log", w->folder);
    f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, " sbatch ") != NULL || strstr(line, " squeue ") != NULL ||
             strstr(line, " scancel ") != NULL;
    if (f != NULL)
        fclose(f);
    return n;
}

static bool all_over(const struct world *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->all[i].a.life.state != FR_ALLOCATION_OVER)
            return false;
    return true;
}

static void check_end(struct one *o)
{
    const struct fr_allocation_life *life = &o->a.life;
    char path[300];

    snprintf(path, sizeof(path), "%s/violation", o->folder);
    if (!CHECK(access(path, F_OK) != 0) || !CHECK(life->state == FR_ALLOCATION_OVER))
        printf("%s: %s, job %lld, %s\n", o->tag,
               fr_word(&fr_allocation_state_words, (int)life->state), (long long)life->job,
               life->note);
    CHECK(o->ends >= 1);
}

static void end(struct world *w)
{
    struct fr_err err = {0};
    int twice;

    for (int i = 0; i < w->n; i++)
        check_end(&w->all[i]);
    if (!w->late_jobs)
        CHECK_INT(live_jobs(w, &twice), 0);
    CHECK(live_jobs(w, &twice) >= 0 && (twice == 0 || w->late_jobs));
    CHECK(logged(w) <= w->asked + fr_cluster_asked(w->cluster));
    fake(w, "stop", NULL, NULL);
    fr_cluster_destroy(w->cluster);
    virtual_loop_close(&w->loop);
    if (check_counts.failed == 0)
        CHECK_INT(fr_remove_tree(w->folder, &err), FR_OK);
    else
        printf("what is left of it: %s\n", w->folder);
}

static void scenario(struct world *w, uint64_t number)
{
    int64_t next;
    char row[40];

    snprintf(row, sizeof(row), "scenario %llu", (unsigned long long)number);
    check_row(row);
    begin(w, number);
    next = w->loop.now_ms + (int64_t)draw(w, 3 * MINUTE);
    while (w->loop.now_ms - w->began_ms < TROUBLE_MS) {
        turn(w);
        for (int i = 0; i < w->n; i++)
            if (w->all[i].a.life.state == FR_ALLOCATION_OVER) {
                check_end(&w->all[i]);
                begin_one(w, &w->all[i], number);
            }
        if (w->loop.now_ms >= next) {
            trouble(w);
            next = w->loop.now_ms + (int64_t)draw(w, 2 * MINUTE);
        }
    }
    clear_switches(w);
    for (int i = 0; i < w->n; i++)
        tell(&w->all[i], FR_ALLOCATION_UNNEEDED);
    while (!all_over(w) && w->loop.now_ms - w->began_ms < TROUBLE_MS + END_MS)
        turn(w);
    end(w);
}

int main(int argc, char **argv)
{
    static struct world w;
    char self[300];
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (argc == 4 && strcmp(argv[1], "keep") == 0)
        return keep(argv[3]);
    if (argc < 3 || n <= 0)
        return 2;
    self[n] = '\0';
    w.fake = argv[1];
    w.self = self;
    for (uint64_t i = first; i < first + count && check_counts.failed == 0; i++)
        scenario(&w, i);
    return check_done();
}
