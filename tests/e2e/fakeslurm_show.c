/* What the commands of fakeslurm.c print that only show something. */
#include "tests/e2e/fakeslurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SECOND_MS = 1000, TEXT = 400 };

void fake_copy(char *to, size_t cap, const char *text)
{
    snprintf(to, cap, "%s", text);
}

/* The value of "--name=value"; NULL: it is another option. */
const char *fake_option(const char *arg, const char *name)
{
    size_t n = strlen(name);

    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

bool fake_is_away(const struct fake *f, const char *before)
{
    if (!fake_switch(f, "away", NULL))
        return false;
    fprintf(stderr, "%sUnable to contact slurm controller (connect failure)\n", before);
    return true;
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

static void print_name(const struct fake_job *job)
{
    printf("%lld", (long long)job->array);
    if (job->index >= 0)
        printf("_%d", job->index);
}

static void print_field(const struct fake *f, const struct fake_job *job, char field)
{
    bool waits = strcmp(job->state, "PENDING") == 0;
    bool has_time = !waits || job->start_ms > f->now_ms;
    char hosts[TEXT];

    fake_hosts(waits ? 0 : job->hosts, hosts, sizeof(hosts));
    switch (field) {
    case 'i':
        print_name(job);
        break;
    case 'A':
        printf("%lld", (long long)(waits ? job->array : job->id));
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

bool fake_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    return false;
}

int fake_squeue(struct fake *f, char **argv)
{
    const char *names = NULL, *format = "%i %T %j", *value;
    bool all = false;

    if (fake_is_away(f, "slurm_load_jobs error: "))
        return 1;
    for (; *argv != NULL; argv++) {
        if ((value = fake_option(*argv, "--name")) != NULL)
            names = value;
        else if (strcmp(*argv, "--states=all") == 0)
            all = true;
        else if (strcmp(*argv, "-o") == 0 && argv[1] != NULL)
            format = *++argv;
    }
    fake_enter(f);
    for (size_t i = 0; i < f->n; i++) {
        const struct fake_job *job = &f->jobs[i];

        if (fake_hidden(f, job) || (fake_ended(job) && !all) ||
            (names && !fake_listed(names, job->name)))
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

/* ---- sacct ---- */

/* A line of sacct; step: of its job, ".batch"; "": the job itself. */
static void print_account(const struct fake_job *job, const char *format, const char *step,
                          bool ended)
{
    bool batch = strcmp(step, ".batch") == 0, own = step[0] == '\0';
    char fields[200], *at = fields;

    fake_copy(fields, sizeof(fields), format);
    for (const char *field; (field = strsep(&at, ",")) != NULL;) {
        if (strcmp(field, "JobID") == 0) {
            print_name(job);
            fputs(step, stdout);
        } else if (strcmp(field, "State") == 0)
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

int fake_sacct(struct fake *f, char **argv)
{
    const char *jobs = "", *names = "", *format = "JobID", *value;
    bool late;

    for (; *argv != NULL; argv++) {
        if ((value = fake_option(*argv, "--jobs")) != NULL)
            jobs = value;
        else if ((value = fake_option(*argv, "--name")) != NULL)
            names = value;
        else if ((value = fake_option(*argv, "--format")) != NULL)
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
        char id[40];

        if (job->index >= 0)
            snprintf(id, sizeof(id), "%lld_%d", (long long)job->array, job->index);
        else
            snprintf(id, sizeof(id), "%lld", (long long)job->id);
        if (!fake_listed(jobs, id) || !fake_listed(names, job->name))
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

/* ---- scontrol show config, sinfo ---- */

/* Prints what slurm.conf has behind "name=", a line each. False: nothing. */
static bool print_conf(const struct fake *f, const char *name)
{
    FILE *conf = fopen(fake_path(f, "slurm.conf"), "r");
    char line[TEXT];
    bool any = false;

    while (conf != NULL && fgets(line, sizeof(line), conf) != NULL)
        if (fake_option(line, name) != NULL) {
            fputs(fake_option(line, name), stdout);
            any = true;
        }
    if (conf != NULL)
        fclose(conf);
    return any;
}

void fake_print_config(const struct fake *f)
{
    printf("Configuration data\nAccountingStorageType   = accounting_storage/%s\n"
           "ClusterName             = fake\nKillWait                = %lld sec\n"
           "MaxArraySize            = %d\nMinJobAge               = %lld sec\n"
           "ProctrackType           = proctrack/linuxproc\nSlurmctldParameters     = (null)\n"
           "SLURM_VERSION           = 22.05.8\n",
           f->accounting ? "slurmdbd" : "none", (long long)f->kill_wait_ms / SECOND_MS,
           f->max_array, (long long)f->min_age_ms / SECOND_MS);
    print_conf(f, "Config");
}

int fake_sinfo(struct fake *f, char **argv)
{
    const char *format = "";

    if (fake_is_away(f, "slurm_load_partitions: "))
        return 1;
    for (; *argv != NULL; argv++)
        if (fake_option(*argv, "--format") != NULL)
            format = fake_option(*argv, "--format");
    if (strcmp(format, "%a|%l|%F|%s|%G|%P") != 0) {
        fprintf(stderr, "fakeslurm: sinfo knows no other format\n");
        return 1;
    }
    if (!print_conf(f, "Sinfo"))
        printf("up|infinite|0/%d/0/%d|1-infinite|gpu:2|all*\n", f->nodes, f->nodes);
    return 0;
}
