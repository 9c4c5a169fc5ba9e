/* What commands of Slurm print: the first byte says which. */
#include "tests/fuzz/fuzz.h"

#include "engine/slurm/accounting.h"
#include "engine/slurm/commands.h"
#include "engine/slurm/partitions.h"
#include "engine/slurm/reason.h"

#include <string.h>

enum { STATES = FR_ALLOCATION_OVER + 1 };

struct told {
    struct fr_str out;
    struct fr_allocation in[STATES]; /* one in each state */
    int64_t ms;
};

static void on_job(void *arg, const struct fr_squeue_line *line)
{
    struct told *t = arg;
    const struct fr_slurm_job *job = &line->job;
    struct fr_allocation_event ev = {
        .kind = FR_ALLOCATION_ANSWERED, .seen = job, .n_seen = 1, .text = job->hosts};
    struct fr_allocation_now now;

    fuzz_want(job->job > 0, "a job has an id");
    fuzz_want(strlen(line->tag) == 32, "a tag is whole");
    fuzz_want(job->state[0] != '\0' && strlen(job->state) < sizeof(job->state), "a state");
    fuzz_want(fr_utf8_valid(job->reason, strlen(job->reason)), "a reason is UTF-8");
    fuzz_want(job->hosts.n == 0 ||
                  (job->hosts.p >= t->out.p && job->hosts.p + job->hosts.n <= t->out.p + t->out.n),
              "hosts are borrowed");
    for (int s = 0; s < STATES; s++) {
        struct fr_allocation *a = &t->in[s];
        bool over = a->life.state == FR_ALLOCATION_OVER;

        t->ms += 1000;
        fr_allocation_apply(a, &ev, t->ms, t->ms, &now);
        fuzz_want(!over || a->life.state == FR_ALLOCATION_OVER, "what is over stays so");
        fuzz_want(memchr(a->life.note, '\0', sizeof(a->life.note)) != NULL, "a note has an end");
    }
}

static void squeue(struct fr_str in)
{
    struct told t = {.out = in, .ms = 1000};
    struct fr_err err = {0};

    for (int s = 0; s < STATES; s++)
        t.in[s].life = (struct fr_allocation_life){
            .state = (enum fr_allocation_state)s, .submits = 1, .job = s > 2 ? 1 : 0};
    fuzz_want_err(fr_squeue_read(in, on_job, &t, &err), &err);
}

static void on_record(void *arg, const struct fr_account *record)
{
    struct fr_account *sum = arg;
    const struct fr_accounted of = {record->job, record->element, record->tag, 0};

    fuzz_want(record->job > 0, "a record has a job");
    fuzz_want(strlen(record->tag) == 32, "a tag is whole");
    fuzz_want(record->state[0] != '\0' && strlen(record->state) < sizeof(record->state), "a state");
    fuzz_want(strlen(record->tres) < sizeof(record->tres), "a list has an end");
    fuzz_want(record->elapsed_ms >= 0 && record->max_rss >= 0 && record->energy_j >= 0,
              "nothing is less than none");
    fuzz_want(record->ended || !record->whole, "what goes on is not whole");
    fuzz_want(fr_tres_count(record->tres, "gres/gpu") >= 0, "a count");
    fr_account_add(sum, record, &of);
    fuzz_want(sum->job == record->job, "a record of the job counts");
}

static void sacct(struct fr_str in)
{
    struct fr_account sum = {0};
    struct fr_err err = {0};

    fuzz_want_err(fr_sacct_read(in, on_record, &sum, &err), &err);
}

static void on_finding(void *arg, const struct fr_slurm_finding *f)
{
    ++*(int *)arg;
    fuzz_want(f->text[0] != '\0' && strlen(f->text) < sizeof(f->text), "a finding is a text");
}

static void sinfo(struct fr_str in)
{
    static const struct fr_allocation_spec specs[] = {
        {.name = "a", .nodes = 2, .time_ms = 3600000, .gpus = 1},
        {.name = "b", .nodes = 1, .partition = "all,x", .gpus = 2, .gpu_type = "a100"}};
    struct fr_arena arena = {0};
    struct fr_partitions p;
    struct fr_err err = {0};
    int n = 0;

    fuzz_want_err(fr_sinfo_read(in, &arena, &p, &err), &err);
    for (size_t i = 0; i < p.n; i++) {
        fuzz_want(p.lines[i].nodes >= 0 && p.lines[i].usable >= 0 && p.lines[i].limit_ms >= 0,
                  "nothing is less than none");
        fuzz_want(fr_gres_gpus(p.lines[i].gres, NULL) >= fr_gres_gpus(p.lines[i].gres, "a100"),
                  "GPUs of a type are GPUs");
    }
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        fr_slurm_check_allocation(&p, &specs[i], (struct fr_slurm_sink){on_finding, &n});
    fuzz_want(p.n > 0 || n >= 2, "without partitions nothing fits");
    fr_arena_finish(&arena);
}

static void sbatch(struct fr_str out, struct fr_str errors, int code)
{
    struct fr_arena arena = {0};
    int64_t job;
    enum fr_sbatch_end end = fr_sbatch_read(code, out, errors, &job);
    const char *text = fr_sbatch_refusal(errors, &arena);

    fuzz_want((end == FR_SBATCH_JOB) == (job > 0), "a job has an id");
    fuzz_want(end != FR_SBATCH_JOB || code == 0, "only success gives a job");
    fuzz_want(text != NULL && strchr(text, '\n') == NULL && fr_utf8_valid(text, strlen(text)),
              "a refusal is a line of UTF-8");
    fr_arena_finish(&arena);
}

static void reason(struct fr_str in)
{
    struct fr_arena arena = {0};
    const char *text = fr_arena_text(&arena, in.p, in.n);
    char buf[100];

    fuzz_want(fr_slurm_reason(text, buf, sizeof(buf)) == buf && strlen(buf) < sizeof(buf),
              "a reason fits");
    (void)fr_slurm_reason_final(text);
    fr_arena_finish(&arena);
}

void fuzz_squeue(struct fr_str in)
{
    struct fr_str rest = in.n > 0 ? (struct fr_str){in.p + 1, in.n - 1} : in, none = {0};
    struct fr_slurm_config config;
    struct fr_err err = {0};

    switch (in.n > 0 ? in.p[0] : 'q') {
    case 'h':
        break;
    case 'a':
        sacct(rest);
        break;
    case 'i':
        sinfo(rest);
        break;
    case 'c':
        fuzz_want_err(fr_slurm_config_read(rest, &config, &err), &err);
        break;
    case 'j':
        sbatch(rest, none, 0);
        break;
    case 's':
        sbatch(none, rest, 1);
        break;
    case 'r':
        reason(rest);
        break;
    default:
        squeue(rest);
        break;
    }
}
