/*
 * Plays sbatch, squeue, scancel, scontrol, srun and sacct over a folder as state: hosts are process
 * groups of this machine. It is what a cluster under Slurm 22.05 prints and does, as far as flowrun
 * looks.
 *
 *   fakeslurm init FOLDER [NODES]   makes FOLDER, with bin/ for PATH; SLURM_CONF=FOLDER/slurm.conf
 *                                   tells the commands where it is. Its lines Nodes=4, KillWait=5
 *                                   and MinJobAge=300 (seconds) may be changed; Accounting=1: sacct
 *                                   knows jobs, also those that squeue has forgotten
 *   fakeslurm FOLDER end JOB STATE  ends a job as TIMEOUT, PREEMPTED, NODE_FAIL, CANCELLED …
 *   fakeslurm FOLDER requeue JOB    as an administrator's; it waits 120 s
 *   fakeslurm FOLDER forget JOB     Slurm knows it no more; its processes go on
 *   fakeslurm FOLDER jobs           a line a job: id, state, name, restarts, "forgotten"
 *   fakeslurm FOLDER stop           kills all that jobs have started
 *
 * Switches are files FOLDER/switch/NAME, "[COUNT] [ARGUMENT]"; without a count they stay on:
 *
 *   away          "Unable to contact slurm controller" of every command; what runs goes on
 *   silent        sbatch makes the job and does not say so ("Socket timed out")
 *   hang          sbatch makes the job and hangs; the file FOLDER/hanging says that it does
 *   lost          sbatch fails as with silent, and makes no job
 *   delay S       the job of an sbatch is there S seconds later
 *   refuse TEXT   sbatch refuses with that text
 *   full          sbatch refuses for a limit of jobs
 *   hold S        a job waits S seconds before it may start
 *   deaf          scancel does nothing, and says nothing
 *   nodb          slurmdbd does not answer sacct
 *   late          sacct says of jobs that have ended what it said while they ran
 *
 * FOLDER/log has a line a command: the time in ms, its name, its process, its arguments. If there
 * is a file FOLDER/now, that is the time in ms, and jobs change only when a command is given; else
 * limits are enforced as they come.
 */
#include "tests/e2e/fakeslurm.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MINUTE_MS = 60000, SECOND_MS = 1000, TEXT = 400 };

static void copy(char *to, size_t cap, const char *text)
{
    snprintf(to, cap, "%s", text);
}

/* The value of "--name=value"; NULL: it is another option. */
static const char *option(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool is_away(const struct fake *f, const char *before)
{
    if (!fake_switch(f, "away", NULL))
        return false;
    fprintf(stderr, "%sUnable to contact slurm controller (connect failure)\n", before);
    return true;
}

static void write_log(const struct fake *f, const char *name, char **argv)
{
    char line[2000];
    int n = snprintf(line, sizeof(line), "%lld %s %d", (long long)f->now_ms, name, (int)getpid());
    int fd = open(fake_path(f, "log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    for (; *argv != NULL && n < TEXT * 4; argv++)
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %.200s", *argv);
    line[n++] = '\n';
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        exit(99);
    close(fd);
}

/* ---- sbatch ---- */

static int refuse(const char *why)
{
    fprintf(stderr, "sbatch: error: Batch job submission failed: %s\n", why);
    return 1;
}

static void copy_script(const struct fake *f, const struct fake_job *job, const char *path)
{
    FILE *in = fopen(path, "r"), *out;
    char line[2000];

    if (in == NULL) {
        fprintf(stderr, "sbatch: error: Unable to open file %s\n", path);
        exit(1);
    }
    out = fopen(fake_path(f, "scripts/%lld", (long long)job->id), "w");
    while (out != NULL && fgets(line, sizeof(line), in) != NULL)
        fputs(line, out);
    fclose(in);
    if (out == NULL || fclose(out) != 0)
        exit(99);
}

static int64_t submit(struct fake *f, char **argv)
{
    struct fake_job *job = fake_add(f);
    const char *value, *script = "";
    char arg[200];

    job->nodes = 1;
    job->limit_ms = 60 * (int64_t)MINUTE_MS;
    copy(job->output, sizeof(job->output), "/dev/null");
    for (; *argv != NULL; argv++) {
        if ((value = option(*argv, "--nodes")) != NULL)
            job->nodes = (int)strtol(value, NULL, 10);
        else if ((value = option(*argv, "--time")) != NULL)
            job->limit_ms = strtol(value, NULL, 10) * (int64_t)MINUTE_MS;
        else if ((value = option(*argv, "--job-name")) != NULL)
            copy(job->name, sizeof(job->name), value);
        else if ((value = option(*argv, "--output")) != NULL)
            copy(job->output, sizeof(job->output), value);
        else if (**argv != '-')
            script = *argv;
    }
    if (fake_switch(f, "delay", arg))
        job->known_ms = job->start_ms = f->now_ms + strtol(arg, NULL, 10) * (int64_t)SECOND_MS;
    if (fake_switch(f, "hold", arg))
        job->start_ms += strtol(arg, NULL, 10) * (int64_t)SECOND_MS;
    copy_script(f, job, script);
    return job->id;
}

static int sbatch(struct fake *f, char **argv)
{
    bool silent, hang;
    char why[200];
    int64_t job;

    if (is_away(f, "sbatch: error: Batch job submission failed: "))
        return 1;
    if (fake_switch(f, "refuse", why))
        return refuse(why);
    if (fake_switch(f, "full", NULL)) {
        fprintf(stderr, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n");
        return refuse("Job violates accounting/QOS policy (job submit limit, user's size and/or "
                      "time limits)");
    }
    if (fake_switch(f, "lost", NULL))
        return refuse("Socket timed out on send/recv operation");
    silent = fake_switch(f, "silent", NULL);
    hang = !silent && fake_switch(f, "hang", NULL);
    fake_enter(f);
    job = submit(f, argv);
    fake_leave(f);
    if (silent)
        return refuse("Socket timed out on send/recv operation");
    if (hang) {
        close(open(fake_path(f, "hanging"), O_WRONLY | O_CREAT, 0600));
        for (;;)
            pause();
    }
    printf("%lld\n", (long long)job);
    return 0;
}

/* ---- squeue ---- */

static void print_time(int64_t ms)
{
    time_t s = (time_t)(ms / SECOND_MS);
    struct tm tm;
    char text[40];

    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));
    fputs(text, stdout);
}

static void print_field(const struct fake *f, const struct fake_job *job, char field)
{
    bool waits = strcmp(job->state, "PENDING") == 0;
    bool has_time = !waits || job->start_ms > f->now_ms;
    char hosts[TEXT];

    fake_hosts(waits ? 0 : job->hosts, hosts, sizeof(hosts));
    switch (field) {
    case 'i':
    case 'A':
        printf("%lld", (long long)job->id);
        break;
    case 'T':
        fputs(job->state, stdout);
        break;
    case 'r':
        fputs(job->reason, stdout);
        break;
    case 'S':
    case 'e':
        if (has_time)
            print_time(field == 'S' ? job->start_ms
                       : waits      ? job->start_ms + job->limit_ms
                                    : job->end_ms);
        else
            fputs("N/A", stdout);
        break;
    case 'N':
        fputs(hosts, stdout);
        break;
    case 'B':
        fputs(hosts[0] != '\0' ? "node1" : "n/a", stdout);
        break;
    case 'j':
        fputs(job->name, stdout);
        break;
    default:
        fputs("0:00", stdout);
        break;
    }
}

static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

static int squeue(struct fake *f, char **argv)
{
    const char *names = NULL, *format = "%i %T %j", *value;
    bool all = false;

    if (is_away(f, "slurm_load_jobs error: "))
        return 1;
    for (; *argv != NULL; argv++) {
        if ((value = option(*argv, "--name")) != NULL)
            names = value;
        else if (strcmp(*argv, "--states=all") == 0)
            all = true;
        else if (strcmp(*argv, "-o") == 0 && argv[1] != NULL)
            format = *++argv;
    }
    fake_enter(f);
    for (size_t i = 0; i < f->n; i++) {
        const struct fake_job *job = fake_find(f, f->jobs[i].id);

        if (job == NULL || (fake_ended(job) && !all) || (names && !listed(names, job->name)))
            continue;
        for (const char *c = format; *c != '\0'; c++)
            if (*c == '%' && c[1] != '\0')
                print_field(f, job, *++c);
            else
                putchar(*c);
        putchar('\n');
    }
    fake_leave(f);
    return 0;
}

/* ---- scancel, scontrol ---- */

static int scancel(struct fake *f, char **argv)
{
    if (is_away(f, "scancel: error: Kill job error: "))
        return 8;
    if (fake_switch(f, "deaf", NULL))
        return 0;
    fake_enter(f);
    for (; *argv != NULL; argv++) {
        struct fake_job *job = fake_find(f, strtol(*argv, NULL, 10));

        if (job != NULL)
            fake_end(f, job, "CANCELLED");
    }
    fake_leave(f);
    return 0;
}

/* "node[1,3]", "node2" */
static void print_hosts(const char *list)
{
    const char *open = strchr(list, '['), *at = open;
    int prefix = open != NULL ? (int)(open - list) : (int)strlen(list);

    if (open == NULL) {
        puts(list);
        return;
    }
    do {
        at++;
        printf("%.*s%.*s\n", prefix, list, (int)strcspn(at, ",]"), at);
        at += strcspn(at, ",]");
    } while (*at == ',');
}

static int scontrol(struct fake *f, char **argv)
{
    if (argv[0] != NULL && argv[1] != NULL && strcmp(argv[1], "hostnames") == 0) {
        print_hosts(argv[2] != NULL ? argv[2] : "");
        return 0;
    }
    if (is_away(f, "slurm_load_ctl_conf error: "))
        return 1;
    fake_enter(f);
    if (argv[0] != NULL && argv[1] != NULL && strcmp(argv[0], "requeue") == 0) {
        struct fake_job *job = fake_find(f, strtol(argv[1], NULL, 10));

        if (job != NULL)
            fake_requeue(f, job);
    } else {
        printf("Configuration data\nAccountingStorageType   = accounting_storage/%s\n"
               "ClusterName             = fake\nKillWait                = %lld sec\n"
               "MaxArraySize            = 1001\nMinJobAge               = %lld sec\n"
               "ProctrackType           = proctrack/linuxproc\nSlurmctldParameters     = (null)\n"
               "SLURM_VERSION           = 22.05.8\n",
               f->accounting ? "slurmdbd" : "none", (long long)f->kill_wait_ms / SECOND_MS,
               (long long)f->min_age_ms / SECOND_MS);
    }
    fake_leave(f);
    return 0;
}

/* ---- sacct ---- */

/* A line of sacct; step: of its job, ".batch"; "": the job itself. */
static void print_account(const struct fake_job *job, const char *format, const char *step,
                          bool ended)
{
    bool batch = strcmp(step, ".batch") == 0, own = step[0] == '\0';
    char fields[200], *at = fields;

    copy(fields, sizeof(fields), format);
    for (const char *field; (field = strsep(&at, ",")) != NULL;) {
        if (strcmp(field, "JobIDRaw") == 0)
            printf("%lld%s", (long long)job->id, step);
        else if (strcmp(field, "State") == 0)
            printf("%s%s", ended ? job->state : "RUNNING",
                   own && ended && strcmp(job->state, "CANCELLED") == 0 ? " by 1000" : "");
        else if (strcmp(field, "ElapsedRaw") == 0)
            printf("%lld", (long long)(job->end_ms - job->start_ms) / SECOND_MS);
        else if (strcmp(field, "Submit") == 0)
            print_time(own ? job->submit_ms : job->start_ms);
        else if (strcmp(field, "End") == 0 && ended)
            print_time(job->end_ms);
        else if (strcmp(field, "End") == 0)
            fputs("Unknown", stdout);
        else if (strcmp(field, "MaxRSS") == 0)
            fputs(own ? "" : batch ? "9314304" : "33107968", stdout);
        else if (strcmp(field, "ConsumedEnergyRaw") == 0)
            fputs(own || batch ? "0" : "7200000", stdout);
        else if (strcmp(field, "AllocTRES") == 0 && job->hosts != 0)
            printf("%scpu=%d,gres/gpu=%d,node=%d", own ? "billing=2," : "", job->nodes,
                   2 * job->nodes, job->nodes);
        else if (strcmp(field, "JobName") == 0)
            fputs(own ? job->name : batch ? "batch" : "flownode", stdout);
        putchar(at != NULL ? '|' : '\n');
    }
}

static int sacct(struct fake *f, char **argv)
{
    const char *jobs = "", *names = "", *format = "JobID", *value;
    bool late;

    for (; *argv != NULL; argv++) {
        if ((value = option(*argv, "--jobs")) != NULL)
            jobs = value;
        else if ((value = option(*argv, "--name")) != NULL)
            names = value;
        else if ((value = option(*argv, "--format")) != NULL)
            format = value;
    }
    if (!f->accounting) {
        fprintf(stderr, "Slurm accounting storage is disabled\n");
        return 1;
    }
    if (fake_switch(f, "nodb", NULL)) {
        fprintf(stderr, "sacct: error: slurm_persist_conn_open_without_init: failed to open "
                        "persistent connection to host:localhost:6819: Connection refused\n"
                        "sacct: error: Sending PersistInit msg: Connection refused\n"
                        "sacct: error: Problem talking to the database: Connection refused\n");
        return 1;
    }
    late = fake_switch(f, "late", NULL);
    fake_enter(f);
    for (size_t i = 0; i < f->n; i++) {
        const struct fake_job *job = &f->jobs[i];
        bool ended = fake_ended(job) && !late;
        char id[24];

        snprintf(id, sizeof(id), "%lld", (long long)job->id);
        if (!listed(jobs, id) || !listed(names, job->name))
            continue;
        print_account(job, format, "", ended);
        if (job->hosts != 0) {
            print_account(job, format, ".batch", ended);
            print_account(job, format, ".0", ended);
        }
    }
    fake_leave(f);
    return 0;
}

/* ---- srun ---- */

/* Of a job's script: a process group a host. */
static int start_hosts(const struct fake *f, char **command)
{
    const char *job = getenv("SLURM_JOB_ID"), *restarts = getenv("SLURM_RESTART_COUNT");
    int nodes = (int)strtol(getenv("SLURM_JOB_NUM_NODES"), NULL, 10), code = 0, status;
    uint64_t hosts = 0;
    FILE *groups;

    for (const char *at = strchr(getenv("SLURM_JOB_NODELIST"), '['); at != NULL;
         at = strchr(at + 1, ','))
        hosts |= (uint64_t)1 << (strtol(at + 1, NULL, 10) - 1);
    groups = fopen(fake_path(f, "groups/%s.%s", job, restarts), "w");
    for (int i = 0, host = 0; i < nodes; i++, host++) {
        char text[20];
        pid_t child;

        while ((hosts >> host & 1) == 0)
            host++;
        if ((child = fork()) == 0) {
            int null = open("/dev/null", O_RDWR);

            setpgid(0, 0);
            for (int fd = 0; fd < 3; fd++)
                dup2(null, fd);
            snprintf(text, sizeof(text), "%d", i);
            setenv("SLURM_NODEID", text, 1);
            setenv("SLURM_PROCID", text, 1);
            snprintf(text, sizeof(text), "node%d", host + 1);
            setenv("SLURMD_NODENAME", text, 1);
            execvp(command[0], command);
            _exit(127);
        }
        setpgid(child, child);
        fprintf(groups, "%d\n", (int)child);
    }
    fclose(groups);
    close(open(fake_path(f, "started/%s.%s", job, restarts), O_WRONLY | O_CREAT, 0600));
    while (wait(&status) > 0)
        code = WIFEXITED(status) && WEXITSTATUS(status) <= code ? code
               : WIFEXITED(status)                              ? WEXITSTATUS(status)
                                                                : 1;
    return code;
}

/* A further step of a running job, in place of srun itself. */
static int join_step(struct fake *f, const char *id, const char *host, char **command)
{
    struct fake_job *job;
    char hosts[TEXT], word[40];
    FILE *groups;

    if (is_away(f, "srun: error: Unable to create step: "))
        return 1;
    fake_enter(f);
    job = fake_find(f, strtol(id, NULL, 10));
    fake_hosts(job != NULL ? job->hosts : 0, hosts, sizeof(hosts));
    snprintf(word, sizeof(word), "%s", strncmp(host, "node", 4) == 0 ? host + 4 : host);
    hosts[strcspn(hosts, "]")] = '\0';
    if (job == NULL || strcmp(job->state, "RUNNING") != 0 || strchr(hosts, '[') == NULL ||
        !listed(strchr(hosts, '[') + 1, word)) {
        fprintf(stderr,
                "srun: error: Unable to create step for job %s: Job/step already "
                "completing or completed\n",
                id);
        fake_leave(f);
        return 1;
    }
    setpgid(0, 0);
    groups = fopen(fake_path(f, "groups/%s.%d", id, job->restarts), "a");
    fprintf(groups, "%d\n", (int)getpid());
    fclose(groups);
    setenv("SLURM_JOB_ID", id, 1);
    setenv("SLURMD_NODENAME", host, 1);
    fake_leave(f);
    execvp(command[0], command);
    fprintf(stderr, "srun: error: %s: %s\n", command[0], strerror(errno));
    return 2;
}

static int srun(struct fake *f, char **argv)
{
    const char *id = NULL, *host = "", *value;

    for (; *argv != NULL && **argv == '-'; argv++) {
        if ((value = option(*argv, "--jobid")) != NULL)
            id = value;
        else if ((value = option(*argv, "--nodelist")) != NULL)
            host = value;
        else if (strcmp(*argv, "-o") == 0 && argv[1] != NULL)
            argv++;
    }
    if (*argv == NULL) {
        fprintf(stderr, "srun: fatal: No command given to execute.\n");
        return 1;
    }
    return id != NULL ? join_step(f, id, host, argv) : start_hosts(f, argv);
}

/* ---- by hand ---- */

static int init(struct fake *f, const char *nodes)
{
    static const char *const folders[] = {"",     "bin",    "switch", "scripts",
                                          "exit", "groups", "started"};
    static const char *const names[] = {"sbatch", "squeue", "scancel", "scontrol", "srun", "sacct"};
    char self[FAKE_PATH];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    FILE *conf;

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        mkdir(fake_path(f, "%s", folders[i]), 0700);
    self[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (symlink(self, fake_path(f, "bin/%s", names[i])) != 0)
            perror(names[i]);
    conf = fopen(fake_path(f, "slurm.conf"), "w");
    if (conf == NULL)
        return 1;
    fprintf(conf, "Nodes=%s\nKillWait=5\nMinJobAge=300\n", nodes != NULL ? nodes : "4");
    return fclose(conf) == 0 ? 0 : 1;
}

static int manage(struct fake *f, int argc, char **argv)
{
    struct fake_job *job;

    fake_enter(f);
    job = argc > 1 ? fake_find(f, strtol(argv[1], NULL, 10)) : NULL;
    if (strcmp(argv[0], "stop") == 0)
        fake_stop(f);
    else if (strcmp(argv[0], "end") == 0 && job != NULL && argc > 2)
        fake_end(f, job, argv[2]);
    else if (strcmp(argv[0], "requeue") == 0 && job != NULL)
        fake_requeue(f, job);
    else if (strcmp(argv[0], "forget") == 0 && job != NULL)
        job->forgotten = true;
    else if (strcmp(argv[0], "jobs") == 0)
        for (size_t i = 0; i < f->n; i++)
            printf("%lld %s %s %d%s\n", (long long)f->jobs[i].id, f->jobs[i].state, f->jobs[i].name,
                   f->jobs[i].restarts, f->jobs[i].forgotten ? " forgotten" : "");
    else {
        fprintf(stderr, "fakeslurm: no such job or command\n");
        fake_leave(f);
        return 1;
    }
    fake_leave(f);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(struct fake *f, char **argv);
    } commands[] = {{"sbatch", sbatch},     {"squeue", squeue}, {"scancel", scancel},
                    {"scontrol", scontrol}, {"srun", srun},     {"sacct", sacct}};
    const char *name = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    const char *conf = getenv("SLURM_CONF");
    struct fake f = {0};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i].name) == 0) {
            if (conf == NULL || strrchr(conf, '/') == NULL) {
                fprintf(stderr, "%s: SLURM_CONF is not set\n", name);
                return 1;
            }
            snprintf(f.folder, sizeof(f.folder), "%.*s", (int)(strrchr(conf, '/') - conf), conf);
            fake_read(&f);
            if (commands[i].run != srun) { /* whoever starts a job waits for it, with the lock */
                fake_enter(&f);
                fake_leave(&f);
            }
            write_log(&f, name, argv + 1);
            return commands[i].run(&f, argv + 1);
        }
    if (argc >= 3 && strcmp(argv[1], "init") == 0) {
        copy(f.folder, sizeof(f.folder), argv[2]);
        return init(&f, argv[3]);
    }
    if (argc >= 3) {
        copy(f.folder, sizeof(f.folder), argv[1]);
        return manage(&f, argc - 2, argv + 2);
    }
    fprintf(stderr, "usage: fakeslurm init FOLDER [NODES] | FOLDER end|requeue|forget|jobs|stop\n");
    return 2;
}
