/* Jobs of the cluster that fakeslurm.c plays: when they start and end, and their processes. */
#include "tests/e2e/fakeslurm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_MS = 1000, REQUEUE_MS = 120000, GONE_MS = 10000, TICK_US = 50000, LOOK_US = 500 };

const char *fake_path(const struct fake *f, const char *format, ...)
{
    static char paths[4][2 * FAKE_PATH];
    static int next;
    char *path = paths[next++ % 4];
    int n = snprintf(path, sizeof(paths[0]), "%s/", f->folder);
    va_list ap;

    va_start(ap, format);
    vsnprintf(path + n, sizeof(paths[0]) - (size_t)n, format, ap);
    va_end(ap);
    return path;
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static int64_t real_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * (int64_t)SECOND_MS + t.tv_nsec / 1000000;
}

static void read_clock(struct fake *f)
{
    FILE *now = fopen(fake_path(f, "now"), "r");
    long long ms = 0;

    f->virtual_time = now != NULL && fscanf(now, "%lld", &ms) == 1;
    f->now_ms = f->virtual_time ? ms : real_ms();
    if (now != NULL)
        fclose(now);
}

static void read_conf(struct fake *f)
{
    FILE *conf = fopen(fake_path(f, "slurm.conf"), "r");
    char line[200];
    long long n;

    f->nodes = 4;
    f->kill_wait_ms = 5 * SECOND_MS;
    f->min_age_ms = 300 * SECOND_MS;
    f->max_array = 1001;
    while (conf != NULL && fgets(line, sizeof(line), conf) != NULL) {
        if (sscanf(line, "Nodes=%lld", &n) == 1)
            f->nodes = (int)n;
        if (sscanf(line, "KillWait=%lld", &n) == 1)
            f->kill_wait_ms = n * SECOND_MS;
        if (sscanf(line, "MinJobAge=%lld", &n) == 1)
            f->min_age_ms = n * SECOND_MS;
        if (sscanf(line, "MaxArraySize=%lld", &n) == 1)
            f->max_array = (int)n;
        if (sscanf(line, "MaxSubmit=%lld", &n) == 1)
            f->max_submit = (int)n;
        if (sscanf(line, "Accounting=%lld", &n) == 1)
            f->accounting = n != 0;
    }
    if (conf != NULL)
        fclose(conf);
}

bool fake_switch(const struct fake *f, const char *name, char *arg)
{
    const char *path = fake_path(f, "switch/%s", name);
    FILE *file = fopen(path, "r");
    char text[200] = "", rest[200] = "";
    long count = -1;

    if (file == NULL)
        return false;
    if (fgets(text, sizeof(text), file) != NULL)
        text[strcspn(text, "\n")] = '\0';
    fclose(file);
    if (sscanf(text, "%ld %199[^\n]", &count, rest) < 1)
        snprintf(rest, sizeof(rest), "%s", text);
    if (arg != NULL)
        snprintf(arg, sizeof(rest), "%s", rest);
    if (count == 1) {
        unlink(path);
    } else if (count > 1 && (file = fopen(path, "w")) != NULL) {
        fprintf(file, "%ld %s\n", count - 1, rest);
        fclose(file);
    }
    return true;
}

bool fake_ended(const struct fake_job *job)
{
    return strcmp(job->state, "PENDING") != 0 && strcmp(job->state, "RUNNING") != 0 &&
           strcmp(job->state, "COMPLETING") != 0;
}

static bool is(const struct fake_job *job, const char *state)
{
    return strcmp(job->state, state) == 0;
}

static void set_state(struct fake_job *job, const char *state, const char *reason)
{
    snprintf(job->state, sizeof(job->state), "%s", state);
    if (reason != NULL) /* else it stays */
        snprintf(job->reason, sizeof(job->reason), "%s", reason);
}

void fake_hosts(uint64_t hosts, char *out, size_t cap)
{
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < 64; i++)
        if (hosts >> i & 1)
            n += (size_t)snprintf(out + n, cap - n, "%s%d", n == 0 ? "node[" : ",", i + 1);
    if (n > 0)
        snprintf(out + n, cap - n, "]");
}

/* ---- processes ---- */

void fake_add_group(struct fake_job *job, pid_t group)
{
    if (job->n_groups < FAKE_GROUPS)
        job->groups[job->n_groups++] = group;
}

static void signal_groups(const struct fake_job *job, int from, int signo)
{
    for (int i = from; i < job->n_groups; i++)
        kill(-job->groups[i], signo);
}

static const char *exit_path(const struct fake *f, const struct fake_job *job)
{
    return fake_path(f, "exit/%lld.%d", (long long)job->id, job->restarts);
}

static void become_script(const struct fake *f, const struct fake_job *job)
{
    char hosts[400], text[20], path[3 * FAKE_PATH];

    fake_hosts(job->hosts, hosts, sizeof(hosts));
    snprintf(path, sizeof(path), "%s/bin:/usr/local/bin:/usr/bin:/bin", f->folder);
    setenv("PATH", path, 1);
    setenv("SLURM_CONF", fake_path(f, "slurm.conf"), 1);
    snprintf(text, sizeof(text), "%lld", (long long)job->id);
    setenv("SLURM_JOB_ID", text, 1);
    setenv("SLURM_JOB_NODELIST", hosts, 1);
    snprintf(text, sizeof(text), "%d", job->nodes);
    setenv("SLURM_JOB_NUM_NODES", text, 1);
    snprintf(text, sizeof(text), "%d", job->restarts);
    setenv("SLURM_RESTART_COUNT", text, 1);
    setenv("SLURM_JOB_PARTITION", "all", 1);
    if (job->index >= 0) {
        snprintf(text, sizeof(text), "%lld", (long long)job->array);
        setenv("SLURM_ARRAY_JOB_ID", text, 1);
        snprintf(text, sizeof(text), "%d", job->index);
        setenv("SLURM_ARRAY_TASK_ID", text, 1);
    }
    setenv("SLURM_CLUSTER_NAME", "fake", 1);
    setenv("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1", 1);
    execl("/bin/sh", "sh", fake_path(f, "scripts/%lld", (long long)job->id), (char *)NULL);
    _exit(127);
}

/* The parent of the script: writes its exit status; by the real clock also ends it at its limit. */
static void monitor(struct fake *f, const struct fake_job *job)
{
    struct fake again = *f;
    int status = 0;
    pid_t script = fork();
    FILE *out;

    if (script == 0)
        become_script(f, job);
    while (waitpid(script, &status, f->virtual_time ? 0 : WNOHANG) != script) {
        fake_enter(&again);
        fake_leave(&again);
        usleep(TICK_US);
    }
    out = fopen(fake_path(f, "exit/new.%d", (int)getpid()), "w");
    if (out != NULL) {
        fprintf(out, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 1);
        fclose(out);
        rename(fake_path(f, "exit/new.%d", (int)getpid()), exit_path(f, job));
    }
    _exit(0);
}

/* Waits, by the real clock, until a job has ended, or its hosts have started. */
static void await_processes(struct fake *f, const struct fake_job *job, bool end)
{
    for (int us = 0; us < GONE_MS * 1000; us += LOOK_US) {
        if (there(exit_path(f, job)))
            return;
        if (!end && there(fake_path(f, "started/%lld.%d", (long long)job->id, job->restarts)))
            return;
        usleep(LOOK_US);
    }
}

static const char *main_path(const struct fake *f, const struct fake_job *job)
{
    return fake_path(f, "started/main.%lld.%d", (long long)job->id, job->restarts);
}

/* False: this job was started before, by a command that was killed before it could say so. */
static bool is_first(const struct fake *f, const struct fake_job *job)
{
    const char *own = fake_path(f, "started/new.%d", (int)getpid());
    FILE *file = fopen(own, "w");
    bool first;

    if (file == NULL || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0)
        _exit(1);
    first = link(own, main_path(f, job)) == 0;
    unlink(own);
    return first;
}

/* The process that runs the job's script. */
static pid_t main_of(const struct fake *f, const struct fake_job *job)
{
    FILE *file;
    int pid = 0;

    while ((file = fopen(main_path(f, job), "r")) == NULL)
        usleep(LOOK_US);
    (void)!fscanf(file, "%d", &pid);
    fclose(file);
    return (pid_t)pid;
}

static void start(struct fake *f, struct fake_job *job)
{
    int out = open(job->output, O_WRONLY | O_CREAT | O_APPEND, 0600);

    job->n_groups = 0;
    job->start_ms = f->now_ms;
    job->end_ms = f->now_ms + job->limit_ms;
    if (out < 0) {
        set_state(job, "FAILED", "JobLaunchFailure");
        job->end_ms = f->now_ms;
        return;
    }
    set_state(job, "RUNNING", "None");
    if (fork() == 0) {
        setsid();
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out, 1);
        dup2(out, 2);
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        if (!is_first(f, job))
            _exit(0);
        monitor(f, job);
    }
    close(out);
    fake_add_group(job, main_of(f, job));
}

/* Which groups a srun of the job has started; it may not wait for our lock. */
static void read_started(struct fake *f, struct fake_job *job)
{
    FILE *file = fopen(fake_path(f, "groups/%lld.%d", (long long)job->id, job->restarts), "r");
    long long group;

    job->n_groups = job->n_groups > 0 ? 1 : 0;
    while (file != NULL && fscanf(file, "%lld", &group) == 1)
        fake_add_group(job, (pid_t)group);
    if (file != NULL)
        fclose(file);
}

/* ---- what becomes due ---- */

static void end_processes(struct fake *f, struct fake_job *job)
{
    read_started(f, job);
    signal_groups(job, 1, SIGCONT);
    signal_groups(job, 1, SIGTERM);
    job->kill_ms = f->now_ms + f->kill_wait_ms;
    if (!f->virtual_time)
        return;
    await_processes(f, job, true);
    signal_groups(job, 0, SIGKILL);
}

/* Slurm keeps no record of an element that is cancelled as it waits, but for one without an index
 * once none waits any more. */
static void forget_element(struct fake *f, struct fake_job *job)
{
    bool waits = false;

    for (size_t i = 0; i < f->n; i++)
        waits = waits || (f->jobs[i].array == job->array && is(&f->jobs[i], "PENDING"));
    if (job->index < 0)
        return;
    job->forgotten = waits;
    job->index = -1;
}

void fake_end(struct fake *f, struct fake_job *job, const char *state)
{
    if (fake_ended(job))
        return;
    if (is(job, "PENDING")) {
        set_state(job, state, NULL);
        job->start_ms = job->end_ms = f->now_ms;
        forget_element(f, job);
        return;
    }
    snprintf(job->then, sizeof(job->then), "%s", state);
    if (is(job, "RUNNING")) {
        set_state(job, "COMPLETING", "None");
        end_processes(f, job);
    }
}

void fake_requeue(struct fake *f, struct fake_job *job)
{
    if (!is(job, "RUNNING"))
        return;
    end_processes(f, job);
    signal_groups(job, 0, SIGKILL);
    set_state(job, "PENDING", "BeginTime");
    job->restarts++;
    job->hosts = 0;
    job->n_groups = 0;
    job->start_ms = f->now_ms + REQUEUE_MS;
}

static uint64_t free_hosts(const struct fake *f, int wanted)
{
    uint64_t taken = 0, hosts = 0;

    for (size_t i = 0; i < f->n; i++)
        if (!f->jobs[i].forgotten && !is(&f->jobs[i], "PENDING") && !fake_ended(&f->jobs[i]))
            taken |= f->jobs[i].hosts;
    for (int i = 0; i < f->nodes && wanted > 0; i++)
        if ((taken >> i & 1) == 0) {
            hosts |= (uint64_t)1 << i;
            wanted--;
        }
    return wanted == 0 ? hosts : 0;
}

static void finish(struct fake *f, struct fake_job *job, int code)
{
    char then[sizeof(job->then)];
    bool ordered = is(job, "COMPLETING");

    memcpy(then, job->then, sizeof(then));
    read_started(f, job);
    signal_groups(job, 0, SIGKILL);
    if (ordered)
        set_state(job, then, strcmp(then, "TIMEOUT") == 0 ? "TimeLimit" : "None");
    else
        set_state(job, code == 0 ? "COMPLETED" : "FAILED", code == 0 ? "None" : "NonZeroExitCode");
    job->end_ms = f->now_ms;
    job->n_groups = 0; /* their ids may become those of others */
    unlink(fake_path(f, "groups/%lld.%d", (long long)job->id, job->restarts));
}

static void advance(struct fake *f, struct fake_job *job)
{
    FILE *end = fopen(exit_path(f, job), "r");
    int code = 0;
    bool over = end != NULL && fscanf(end, "%d", &code) == 1;

    if (end != NULL)
        fclose(end);
    if (fake_ended(job)) {
        job->forgotten = job->forgotten || f->now_ms - job->end_ms > f->min_age_ms;
    } else if (is(job, "PENDING")) {
        uint64_t hosts = job->known_ms <= f->now_ms && job->start_ms <= f->now_ms
                             ? free_hosts(f, job->nodes)
                             : 0;

        if (hosts != 0) {
            job->hosts = hosts;
            start(f, job);
        } else if (job->start_ms <= f->now_ms) {
            set_state(job, "PENDING", "Resources");
        }
    } else if (over) {
        finish(f, job, code);
    } else if (is(job, "RUNNING") && f->now_ms >= job->end_ms) {
        fake_end(f, job, "TIMEOUT");
    } else if (is(job, "COMPLETING") && f->now_ms >= job->kill_ms) {
        read_started(f, job);
        signal_groups(job, 0, SIGKILL);
        finish(f, job, 0);
    }
}

void fake_read(struct fake *f)
{
    read_clock(f);
    read_conf(f);
}

void fake_enter(struct fake *f)
{
    struct stat st;
    int fd;

    fake_read(f);
    f->lock = open(fake_path(f, "lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (flock(f->lock, LOCK_EX) != 0 && errno == EINTR)
        ;
    f->jobs = calloc(FAKE_JOBS, sizeof(*f->jobs));
    f->n = 0;
    fd = open(fake_path(f, "jobs"), O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && f->jobs != NULL &&
        read(fd, f->jobs, (size_t)st.st_size) == (ssize_t)st.st_size)
        f->n = (size_t)st.st_size / sizeof(*f->jobs);
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < f->n; i++) {
        bool ran = is(&f->jobs[i], "RUNNING");

        advance(f, &f->jobs[i]);
        if (!ran && is(&f->jobs[i], "RUNNING") && f->virtual_time)
            await_processes(f, &f->jobs[i], false);
    }
}

void fake_leave(struct fake *f)
{
    int fd = open(fake_path(f, "jobs.new"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t bytes = f->n * sizeof(*f->jobs);

    if (fd < 0 || write(fd, f->jobs, bytes) != (ssize_t)bytes || close(fd) != 0 ||
        rename(fake_path(f, "jobs.new"), fake_path(f, "jobs")) != 0) {
        perror("fakeslurm: jobs");
        exit(99);
    }
    free(f->jobs);
    f->jobs = NULL;
    close(f->lock);
}

bool fake_hidden(const struct fake *f, const struct fake_job *job)
{
    return job->forgotten || job->known_ms > f->now_ms;
}

struct fake_job *fake_find(struct fake *f, int64_t id)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->jobs[i].id == id && !fake_hidden(f, &f->jobs[i]))
            return &f->jobs[i];
    return NULL;
}

bool fake_meant(const struct fake_job *job, const char *word)
{
    const char *bar = strchr(word, '_');
    int64_t id = strtol(word, NULL, 10);

    if (bar != NULL)
        return job->array == id && job->index == (int)strtol(bar + 1, NULL, 10);
    return job->array == id || (job->id == id && !is(job, "PENDING"));
}

struct fake_job *fake_add(struct fake *f)
{
    struct fake_job *job = &f->jobs[f->n];
    int64_t id = 1;

    if (f->n == FAKE_JOBS) {
        fprintf(stderr, "fakeslurm: too many jobs\n");
        exit(99);
    }
    for (size_t i = 0; i < f->n; i++)
        id = f->jobs[i].id >= id ? f->jobs[i].id + 1 : id;
    *job = (struct fake_job){.id = id,
                             .submit_ms = f->now_ms,
                             .known_ms = f->now_ms,
                             .start_ms = f->now_ms,
                             .index = -1};
    job->array = job->id;
    set_state(job, "PENDING", "None");
    f->n++;
    return job;
}

void fake_stop(struct fake *f)
{
    for (size_t i = 0; i < f->n; i++) {
        struct fake_job *job = &f->jobs[i];

        if (job->n_groups > 0)
            read_started(f, job);
        signal_groups(job, 0, SIGKILL);
        if (!fake_ended(job))
            set_state(job, "CANCELLED", "None");
    }
}
