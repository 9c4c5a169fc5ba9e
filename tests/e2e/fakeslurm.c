/*
 * Plays sbatch, squeue, scancel, scontrol, srun, sacct and sinfo over a folder as state: hosts are
 * process groups of this machine. It is what a cluster under Slurm 22.05 prints and does, as far as
 * flowrun looks.
 *
 *   fakeslurm init FOLDER [NODES]   makes FOLDER, with bin/ for PATH; SLURM_CONF=FOLDER/slurm.conf
 *                                   tells the commands where it is. Its lines Nodes=4, KillWait=5
 *                                   and MinJobAge=300 (seconds) may be changed; Accounting=1: sacct
 *                                   knows jobs, also those that squeue has forgotten;
 *                                   MaxArraySize=1001; MaxSubmit=9: so many jobs that have not
 *                                   ended, elements of arrays each, and sbatch refuses; Sinfo=…: a
 *                                   line that sinfo prints; Config=…: one that scontrol prints, too
 *   fakeslurm FOLDER end JOB STATE  ends a job as TIMEOUT, PREEMPTED, NODE_FAIL, CANCELLED …
 *   fakeslurm FOLDER requeue JOB    as an administrator's; it waits 120 s
 *   fakeslurm FOLDER forget JOB     Slurm knows it no more; its processes go on
 *   fakeslurm FOLDER begin JOB      one that waits for its time may start
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
 *   pyxis         srun has that plugin's options: a step in a container has its image in OF_IMAGE,
 *                 and the image's PATH; one whose image has "missing" in its name does not start
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

/* Of "0-3,7": what stands in the list, *n of them. */
static void read_indices(const char *list, int *indices, int *n)
{
    *n = 0;
    for (const char *at = list; at != NULL; at = strchr(at, ','), at = at != NULL ? at + 1 : NULL) {
        int from = (int)strtol(at, NULL, 10), to = from;
        const char *dash = strchr(at, '-'), *comma = strchr(at, ',');

        if (dash != NULL && (comma == NULL || dash < comma))
            to = (int)strtol(dash + 1, NULL, 10);
        for (int k = from; k <= to && *n < FAKE_JOBS; k++)
            indices[(*n)++] = k;
    }
}

/* What all elements have in common. */
static void read_arguments(struct fake_job *job, char **argv, const char **script)
{
    const char *value;

    job->nodes = 1;
    job->limit_ms = 60 * (int64_t)MINUTE_MS;
    fake_copy(job->output, sizeof(job->output), "/dev/null");
    for (; *argv != NULL; argv++) {
        if ((value = fake_option(*argv, "--nodes")) != NULL)
            job->nodes = (int)strtol(value, NULL, 10);
        else if ((value = fake_option(*argv, "--time")) != NULL)
            job->limit_ms = strtol(value, NULL, 10) * (int64_t)MINUTE_MS;
        else if ((value = fake_option(*argv, "--job-name")) != NULL)
            fake_copy(job->name, sizeof(job->name), value);
        else if ((value = fake_option(*argv, "--output")) != NULL)
            fake_copy(job->output, sizeof(job->output), value);
        else if (**argv != '-')
            *script = *argv;
    }
}

/* Its first element has the id after the array's, and so on; the last one has that of the array. */
static void name_element(struct fake_job *job, int64_t array, int k, int n, int index)
{
    job->array = array;
    job->id = k + 1 < n ? array + k + 1 : array;
    job->index = index;
}

static int64_t submit(struct fake *f, char **argv, const int *indices, int n)
{
    int64_t wait_ms = 0, hold_ms = 0, array = 0;
    const char *script = "";
    char arg[200];

    if (fake_switch(f, "delay", arg))
        wait_ms = strtol(arg, NULL, 10) * (int64_t)SECOND_MS;
    if (fake_switch(f, "hold", arg))
        hold_ms = strtol(arg, NULL, 10) * (int64_t)SECOND_MS;
    for (int k = 0; k < (n > 0 ? n : 1); k++) {
        struct fake_job *job = fake_add(f);

        array = k == 0 ? job->id : array;
        if (n > 0)
            name_element(job, array, k, n, indices[k]);
        read_arguments(job, argv, &script);
        job->known_ms = f->now_ms + wait_ms;
        job->start_ms = job->known_ms + hold_ms;
        copy_script(f, job, script);
    }
    return array;
}

/* Whether a limit lets so many more jobs in. */
static bool has_room(struct fake *f, int n)
{
    int open = 0;

    for (size_t i = 0; i < f->n; i++)
        open += !fake_ended(&f->jobs[i]);
    return f->max_submit == 0 || open + (n > 0 ? n : 1) <= f->max_submit;
}

static int refuse_full(void)
{
    fprintf(stderr, "sbatch: error: QOSMaxSubmitJobPerUserLimit\n");
    return refuse("Job violates accounting/QOS policy (job submit limit, user's size and/or "
                  "time limits)");
}

static int sbatch(struct fake *f, char **argv)
{
    static int indices[FAKE_JOBS];
    bool silent, hang, full;
    char why[200];
    int64_t job = 0;
    int n = 0;

    for (char **arg = argv; *arg != NULL; arg++)
        if (fake_option(*arg, "--array") != NULL)
            read_indices(fake_option(*arg, "--array"), indices, &n);
    for (int k = 0; k < n; k++)
        if (indices[k] >= f->max_array)
            return refuse("Invalid job array specification");

    if (fake_is_away(f, "sbatch: error: Batch job submission failed: "))
        return 1;
    if (fake_switch(f, "refuse", why))
        return refuse(why);
    if (fake_switch(f, "full", NULL))
        return refuse_full();
    if (fake_switch(f, "lost", NULL))
        return refuse("Socket timed out on send/recv operation");
    silent = fake_switch(f, "silent", NULL);
    hang = !silent && fake_switch(f, "hang", NULL);
    fake_enter(f);
    full = !has_room(f, n);
    if (!full)
        job = submit(f, argv, indices, n);
    fake_leave(f);
    if (full)
        return refuse_full();
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

/* ---- scancel, scontrol ---- */

static int scancel(struct fake *f, char **argv)
{
    if (fake_is_away(f, "scancel: error: Kill job error: "))
        return 8;
    if (fake_switch(f, "deaf", NULL))
        return 0;
    fake_enter(f);
    for (; *argv != NULL; argv++)
        for (size_t i = 0; i < f->n; i++)
            if (!fake_hidden(f, &f->jobs[i]) && fake_meant(&f->jobs[i], *argv))
                fake_end(f, &f->jobs[i], "CANCELLED");
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
    if (fake_is_away(f, "slurm_load_ctl_conf error: "))
        return 1;
    fake_enter(f);
    if (argv[0] != NULL && argv[1] != NULL && strcmp(argv[0], "requeue") == 0) {
        struct fake_job *job = fake_find(f, strtol(argv[1], NULL, 10));

        if (job != NULL)
            fake_requeue(f, job);
    } else {
        fake_print_config(f);
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

    if (fake_is_away(f, "srun: error: Unable to create step: "))
        return 1;
    fake_enter(f);
    job = fake_find(f, strtol(id, NULL, 10));
    fake_hosts(job != NULL ? job->hosts : 0, hosts, sizeof(hosts));
    snprintf(word, sizeof(word), "%s", strncmp(host, "node", 4) == 0 ? host + 4 : host);
    hosts[strcspn(hosts, "]")] = '\0';
    if (job == NULL || strcmp(job->state, "RUNNING") != 0 || strchr(hosts, '[') == NULL ||
        !fake_listed(strchr(hosts, '[') + 1, word)) {
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

/* What pyxis 0.24 does with the options of a step that it knows. Its errors go to the file of -e.
 * False: the step does not start. */
static bool enter_container(const char *image, const char *mounts, const char *errors)
{
    FILE *to = errors != NULL ? fopen(errors, "a") : NULL;
    bool ok = strstr(image, "missing") == NULL && mounts != NULL;

    if (!ok && to != NULL)
        fprintf(to,
                "slurmstepd-node1: error: pyxis: failed to import docker image: %s\n"
                "slurmstepd-node1: error: Failed to invoke spank plugin stack\n",
                image);
    if (to != NULL)
        fclose(to);
    setenv("OF_IMAGE", image, 1);
    setenv("RANK", getenv("SLURM_NODEID") != NULL ? getenv("SLURM_NODEID") : "0", 1);
    setenv("PATH", "/bin:/usr/bin", 1);
    return ok;
}

static int print_help(const struct fake *f)
{
    printf("Usage: srun [OPTIONS(0)... [executable(0) [args(0)...]]]\n"
           "      --container             Path to OCI container bundle\n");
    if (fake_switch(f, "pyxis", NULL))
        printf("      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
               "                              [pyxis] the image to use for the container\n");
    return 0;
}

static int srun(struct fake *f, char **argv)
{
    const char *id = NULL, *host = "", *image = NULL, *mounts = NULL, *errors = NULL, *value;

    for (; *argv != NULL && **argv == '-'; argv++) {
        if ((value = fake_option(*argv, "--jobid")) != NULL)
            id = value;
        else if ((value = fake_option(*argv, "--nodelist")) != NULL)
            host = value;
        else if ((value = fake_option(*argv, "--container-image")) != NULL)
            image = value;
        else if ((value = fake_option(*argv, "--container-mounts")) != NULL)
            mounts = value;
        else if (strcmp(*argv, "--help") == 0)
            return print_help(f);
        else if (strcmp(*argv, "-o") == 0 && argv[1] != NULL)
            argv++;
        else if (strcmp(*argv, "-e") == 0 && argv[1] != NULL)
            errors = *++argv;
    }
    if (image != NULL && !fake_switch(f, "pyxis", NULL)) {
        fprintf(stderr, "srun: unrecognized option '--container-image=%s'\n", image);
        return 1;
    }
    if (image != NULL && !enter_container(image, mounts, errors))
        return 1;
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
    static const char *const names[] = {"sbatch", "squeue", "scancel", "scontrol",
                                        "srun",   "sacct",  "sinfo"};
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
    struct fake_job *job = NULL;

    fake_enter(f);
    for (size_t i = 0; argc > 1 && i < f->n; i++)
        job = !fake_hidden(f, &f->jobs[i]) && fake_meant(&f->jobs[i], argv[1]) ? &f->jobs[i] : job;
    if (strcmp(argv[0], "stop") == 0)
        fake_stop(f);
    else if (strcmp(argv[0], "end") == 0 && job != NULL && argc > 2)
        fake_end(f, job, argv[2]);
    else if (strcmp(argv[0], "requeue") == 0 && job != NULL)
        fake_requeue(f, job);
    else if (strcmp(argv[0], "forget") == 0 && job != NULL)
        job->forgotten = true;
    else if (strcmp(argv[0], "begin") == 0 && job != NULL)
        job->start_ms = f->now_ms;
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
    } commands[] = {{"sbatch", sbatch},     {"squeue", fake_squeue}, {"scancel", scancel},
                    {"scontrol", scontrol}, {"srun", srun},          {"sacct", fake_sacct},
                    {"sinfo", fake_sinfo}};
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
        fake_copy(f.folder, sizeof(f.folder), argv[2]);
        return init(&f, argv[3]);
    }
    if (argc >= 3) {
        fake_copy(f.folder, sizeof(f.folder), argv[1]);
        return manage(&f, argc - 2, argv + 2);
    }
    fprintf(stderr, "usage: fakeslurm init FOLDER [NODES] | FOLDER end|requeue|forget|jobs|stop\n");
    return 2;
}
