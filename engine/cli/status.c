/* runs: lists the runs of the home; status: prints one run with its tasks. */
#include "engine/cli/cli.h"
#include "engine/cli/items.h"
#include "engine/client/waiting.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/loop/loop.h"
#include "engine/slurm/accounting.h"
#include "engine/slurm/wait.h"
#include "engine/store/home.h"
#include "engine/store/types.h"
#include "engine/view/allocations.h"

#include <string.h>
#include <time.h>

static json_t *run_json(struct fr_store *st, const struct fr_run_row *r)
{
    json_t *doc = fr_row_json(&fr_run_type, r);

    json_object_set_new(doc, "state", json_string(cli_run_word(st, r)));
    json_object_set_new(doc, "driven", json_boolean(cli_is_driven(st, r)));
    return doc;
}

static void print_runs(struct fr_store *st, const struct fr_run_rows *rows, bool json)
{
    if (!json)
        fr_print("%5s  %-8s  %-24s  %-10s  %-19s  %8s\n", "run", "id", "pipeline", "state",
                 "started", "time");
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_run_row *r = &rows->rows[i];
        char id[FR_ID_TEXT], date[32], time[24];

        if (json) {
            cli_put_json(run_json(st, r));
            continue;
        }
        fr_id_text(r->id, id);
        cli_date(r->started_wall, date);
        cli_took(r->started_wall, r->ended_wall, time);
        fr_print("%5lld  %.8s  %-24s  %-10s  %-19s  %8s%s%s\n", (long long)r->no, id, r->name,
                 cli_run_word(st, r), date, time, r->reason[0] != '\0' ? "  " : "", r->reason);
    }
}

enum fr_rc cli_runs(struct cli_call *c, struct fr_err *err)
{
    struct fr_run_rows rows = {0};
    int64_t limit = 20;
    enum fr_rc rc = cli_number(c, "--limit", (struct cli_range){0, INT64_MAX}, &limit, err);

    if (rc == FR_OK)
        rc = cli_store_read(&c->home.st, err);
    if (rc == FR_OK)
        rc = fr_store_runs(c->home.st, (size_t)limit, &c->arena, &rows, err);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        if (cli_is_queued(&rows.rows[i]))
            rc = cli_queue_reason(c->home.st, &c->arena, &rows.rows[i], err);
    if (rc == FR_OK)
        print_runs(c->home.st, &rows, c->json);
    return rc;
}

/* ---- status ---- */

bool cli_has_failed(const struct fr_inst_row *row)
{
    return fr_state_failed(row->state);
}

/* Keeps only the rows of tasks that failed. */
static void keep_failed(struct fr_inst_rows *rows)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++)
        if (cli_has_failed(&rows->rows[i]))
            rows->rows[n++] = rows->rows[i];
    rows->n = n;
}

/* Prints the outputs of tasks without items. None holds a secret: the node refuses secrets as
 * outputs. */
static void print_outputs(const struct fr_output_rows *outs, const struct fr_inst_rows *rows)
{
    const char *gap = "\n";

    for (size_t o = 0, i = 0; o < outs->n; o++) {
        const struct fr_output_row *out = &outs->rows[o];
        struct fr_buf b = {0};

        while (i < rows->n && rows->rows[i].idx < out->idx)
            i++;
        if (i == rows->n || rows->rows[i].idx != out->idx || strcmp(out->key, FR_RESULT) == 0 ||
            cli_is_item(&rows->rows[i]))
            continue;
        fr_buf_visible(&b, out->value, strlen(out->value));
        fr_print("%s%s gave %s=%s\n", gap, rows->rows[i].key, out->key, b.p != NULL ? b.p : "");
        fr_buf_finish(&b);
        gap = "";
    }
}

/* The outputs of instance idx as an object. *at moves past them; outs is in order of idx. */
static json_t *outputs_json(const struct fr_output_rows *outs, int64_t idx, size_t *at)
{
    json_t *doc = json_object();

    for (; *at < outs->n && outs->rows[*at].idx <= idx; ++*at) {
        const struct fr_output_row *out = &outs->rows[*at];
        json_t *value = strcmp(out->key, FR_RESULT) == 0 ? json_loads(out->value, 0, NULL) : NULL;

        if (out->idx == idx)
            json_object_set_new(doc, out->key, value != NULL ? value : json_string(out->value));
        else
            json_decref(value);
    }
    return doc;
}

/* ---- the host that drives it ---- */

enum { HOST_MS = 1000 }; /* time for the host's answer */

struct host { /* pid 0: no host drives the run, or its pid is not known yet */
    int64_t pid;
    json_t *turns; /* owns: figures of its loop; NULL: it does not answer */
};

static struct host ask_host(struct fr_store *st, const struct fr_run_row *run)
{
    const char *home = fr_store_home(st);
    struct fr_home_who who = {0};
    struct host out = {0};
    struct cli_question q = {.method = "GET", .answer = &out.turns, .deadline_ms = HOST_MS};

    if (!cli_is_driven(st, run) || fr_home_leader(home, &who, NULL) != FR_OK)
        return out;
    out.pid = who.pid;
    (void)cli_ask(home, &q, &(struct fr_err){0}, "/api/v1/host");
    return out;
}

static int64_t number_of(const struct host *host, const char *key)
{
    return json_integer_value(json_object_get(host->turns, key));
}

static json_t *host_json(const struct host *host)
{
    const char *held_by = json_string_value(json_object_get(host->turns, "held_by"));

    if (host->turns == NULL)
        return json_pack("{s:I, s:b}", "pid", (json_int_t)host->pid, "answers", 0);
    return json_pack("{s:I, s:b, s:I, s:I, s:I, s:s}", "pid", (json_int_t)host->pid, "answers", 1,
                     "turns", (json_int_t)number_of(host, "turns"), "slow_turns",
                     (json_int_t)number_of(host, "slow_turns"), "longest_ms",
                     (json_int_t)number_of(host, "longest_ms"), "held_by",
                     held_by != NULL ? held_by : "");
}

static void print_host(const struct host *host)
{
    const char *held_by = json_string_value(json_object_get(host->turns, "held_by"));
    int64_t slow = number_of(host, "slow_turns"), turns = number_of(host, "turns");

    if (host->pid == 0)
        return;
    fr_print("driven by flowrun (pid %lld)", (long long)host->pid);
    if (host->turns == NULL)
        fr_print(", which does not answer\n");
    else if (slow == 0)
        fr_print(": none of its %lld turns took over %d ms\n", (long long)turns, FR_LOOP_SLOW_MS);
    else
        fr_print(": %lld of its %lld turns took over %d ms, the longest %lld ms, mostly by %s\n",
                 (long long)slow, (long long)turns, FR_LOOP_SLOW_MS,
                 (long long)number_of(host, "longest_ms"), held_by);
}

/* ---- allocations of a cluster under Slurm ---- */

enum { KWH_J = 3600000 };

/* What it had, once it is over: elapsed time, and what Slurm's accounting says. */
static void print_account(const struct fr_allocation_row *r)
{
    int64_t gpus = fr_tres_count(r->tres, "gres/gpu");
    char text[24];

    if (r->elapsed_ms != 0) {
        fr_show_duration(r->elapsed_ms, text);
        fr_print(", ran %s", text);
    }
    if (gpus > 0)
        fr_print(", %lld GPU%s", (long long)gpus, gpus > 1 ? "s" : "");
    if (r->max_rss != 0) {
        fr_show_size(r->max_rss, text);
        fr_print(", at most %s a task", text);
    }
    if (r->energy_j >= KWH_J / 100)
        fr_print(", %.2f kWh", (double)r->energy_j / KWH_J);
    else if (r->energy_j != 0)
        fr_print(", %lld J", (long long)r->energy_j);
}

static void print_allocation(const struct fr_allocation_row *r)
{
    const char *word = r->exit_state[0] != '\0' ? r->exit_state : r->slurm;
    char date[32], job[FR_SLURM_JOB_TEXT];

    fr_print("allocation %s: %s", r->name, fr_word(&fr_allocation_state_words, r->state));
    if (r->job != 0)
        fr_print(", Slurm job %s%s%s", fr_slurm_job_text(r->job, r->element, job),
                 word[0] != '\0' ? " " : "", word);
    if (r->hosts[0] != '\0')
        fr_print(" on %s", r->hosts);
    print_account(r);
    if (r->end_wall != 0 && r->ended_wall == 0) {
        cli_date(r->end_wall, date);
        fr_print(", until %s", date);
    }
    fr_print("%s%s\n", r->note[0] != '\0' ? ": " : "", r->note);
}

/* All of that name in a line: how many are in each state, and what the first that waits waits for.
 */
static void print_copies(const struct fr_allocation_rows *rows, const char *name)
{
    size_t count[FR_ALLOCATION_OVER + 1] = {0};
    const struct fr_allocation_row *waits = NULL;
    struct fr_allocation_life life;
    struct fr_buf text = {0};

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_allocation_row *r = &rows->rows[i];

        if (r->copy == 0 || strcmp(r->name, name) != 0)
            continue;
        count[r->state]++;
        if (waits == NULL && (r->state == FR_ALLOCATION_QUEUED || r->state == FR_ALLOCATION_WANTED))
            waits = r;
    }
    fr_print("allocation %s:", name);
    for (size_t i = 0, n = 0; i <= FR_ALLOCATION_OVER; i++)
        if (count[i] > 0)
            fr_print("%s %zu %s", n++ > 0 ? "," : "", count[i],
                     fr_word(&fr_allocation_state_words, (int)i));
    if (waits != NULL) {
        life = (struct fr_allocation_life){
            .state = waits->state, .job = waits->job, .estimate_wall = waits->estimate_wall};
        snprintf(life.reason, sizeof(life.reason), "%s", waits->reason);
        snprintf(life.note, sizeof(life.note), "%s", waits->note);
        fr_allocation_wait(&life, name, &text);
    }
    if (text.n > 0 && !text.bad)
        fr_print("; the next waits for %s", text.p);
    fr_print("\n");
    fr_buf_finish(&text);
}

static void print_allocations(const struct fr_allocation_rows *rows)
{
    if (rows->n > 0)
        fr_print("\n");
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_allocation_row *r = &rows->rows[i];
        bool first = true;

        for (size_t k = 0; k < i; k++)
            first = first && (rows->rows[k].copy == 0 || strcmp(rows->rows[k].name, r->name) != 0);
        if (r->copy == 0)
            print_allocation(r);
        else if (first)
            print_copies(rows, r->name);
    }
}

/* ---- all of it ---- */

struct shown {
    struct fr_run_row run;
    struct fr_inst_rows insts;
    struct fr_output_rows outs;
    struct fr_allocation_rows allocations;
};

static void print_json(struct fr_store *st, const struct shown *s)
{
    const struct fr_run_row *run = &s->run;
    const struct fr_inst_rows *rows = &s->insts;
    struct host host = ask_host(st, run);
    json_t *doc = run_json(st, run), *tasks = json_array();
    size_t at = 0;

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_inst_row *r = &rows->rows[i];
        json_t *task = fr_row_json(&fr_inst_type, r);

        json_object_set_new(task, "attempts", json_integer((json_int_t)cli_began(r)));
        json_object_set_new(task, "outputs", outputs_json(&s->outs, r->idx, &at));
        json_array_append_new(tasks, task);
    }
    if (host.pid != 0)
        json_object_set_new(doc, "host", host_json(&host));
    json_object_set_new(doc, "tasks", tasks);
    if (s->allocations.n > 0)
        json_object_set_new(doc, "allocations", fr_allocations_json(&s->allocations, s->run.no));
    cli_put_json(doc);
    json_decref(host.turns);
}

static void print_rerun(const struct fr_run_row *run)
{
    char date[32];

    cli_date(run->rerun_wall, date);
    fr_print("it runs again from %s at %s, if a 'flowrun serve' drives the home's runs then; "
             "'flowrun cancel %lld' prevents it\n",
             strcmp(run->rerun_from, "start") == 0 ? "its start, as a new run," : "what failed",
             date, (long long)run->no);
}

static void print_status(struct fr_store *st, const struct shown *s)
{
    const struct fr_run_row *run = &s->run;
    char id[FR_ID_TEXT], date[32], time[24];
    const char *word = cli_run_word(st, run);
    struct host host = ask_host(st, run);
    struct fr_buf source = {0};

    fr_id_text(run->id, id);
    cli_date(run->started_wall, date);
    cli_took(run->started_wall, run->ended_wall, time);
    fr_print("run %lld (%s) of %s: %s%s%s%s\n", (long long)run->no, id, run->name, word,
             run->reason[0] != '\0' ? ": " : "", run->reason, run->pinned != 0 ? ", pinned" : "");
    fr_buf_visible(&source, run->source, strlen(run->source));
    if (!source.bad)
        fr_print("%s, started %s, time %s\n", source.n > 0 ? source.p : "", date, time);
    fr_buf_finish(&source);
    print_host(&host);
    json_decref(host.turns);
    if (run->retry_of != 0)
        fr_print("it repeats run %lld\n", (long long)run->retry_of);
    if (run->rerun_wall != 0)
        print_rerun(run);
    if (cli_is_queued(run) && !cli_is_driven(st, run))
        fr_print("no flowrun looks after it; 'flowrun resume %lld' lets it start when it may\n",
                 (long long)run->no);
    if (strcmp(word, "left") == 0)
        fr_print("no flowrun looks after it; 'flowrun resume %lld' takes over\n",
                 (long long)run->no);
    if (s->insts.n > 0)
        cli_print_tasks(&s->insts);
    else
        fr_print("\nno task has failed\n");
    cli_print_items(&s->insts, &s->outs);
    print_outputs(&s->outs, &s->insts);
    print_allocations(&s->allocations);
    if (strcmp(word, "failed") == 0)
        fr_print("\n'flowrun logs %lld' shows the output, 'flowrun retry %lld' runs again what "
                 "failed\n",
                 (long long)run->no, (long long)run->no);
}

enum fr_rc cli_status(struct cli_call *c, struct fr_err *err)
{
    struct shown s = {0};
    enum fr_rc rc = cli_store_read(&c->home.st, err);
    struct fr_store *st = c->home.st;

    if (rc == FR_OK)
        rc = fr_store_run_find(st, cli_arg(c, 0), &c->arena, &s.run, err);
    if (rc == FR_OK)
        rc = fr_store_insts(st, s.run.id, &c->arena, &s.insts, err);
    if (rc == FR_OK)
        rc = fr_store_outputs(st, s.run.id, &c->arena, &s.outs, err);
    if (rc == FR_OK)
        rc = fr_store_allocations(st, s.run.id, &c->arena, &s.allocations, err);
    if (rc == FR_OK && cli_is_queued(&s.run))
        rc = cli_queue_reason(st, &c->arena, &s.run, err);
    if (rc == FR_OK && cli_is_driven(st, &s.run))
        rc = cli_ready_reasons(st, &c->arena, &s.run, &s.insts, err);
    if (rc == FR_OK && cli_has(c, "--failed"))
        keep_failed(&s.insts);
    if (rc == FR_OK)
        (c->json ? print_json : print_status)(st, &s);
    return rc;
}
