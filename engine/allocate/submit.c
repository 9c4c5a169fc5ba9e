/* sbatch: of one allocation, or of the copies of an allocation that are wanted at once, as an
 * array.
 */
#include "engine/allocate/private.h"

#include <string.h>

enum { SBATCH_MS = 60000, LATER_MS = 60000, CHUNK_MOST = 100000 };

/* ---- what is submitted together ---- */

/* One that cannot be asked at all is found out at once. */
static int64_t may_ask_ms(const struct host_allocation *al)
{
    return al->cluster->broken[0] != '\0' ? 0 : fr_cluster_may_ask_ms(al->cluster->cluster);
}

/* How many more jobs the cluster may have. */
static int room(const struct host_allocation *al)
{
    return fr_run_spec(al->h->run)->slurm->max_jobs - al->cluster->open;
}

int64_t alloc_begin_ms(const struct host_allocation *al)
{
    int64_t ms = al->a.due_ms, ask;

    if (al->a.life.state != FR_ALLOCATION_WANTED || al->dirty || al->h == NULL ||
        !al->cluster->known || room(al) <= 0)
        return INT64_MAX;
    ask = may_ask_ms(al);
    if (al->row.copy > 0 && al->cluster->submits)
        return INT64_MAX;
    if (al->row.copy > 0 && al->cluster->later_ms > ms)
        ms = al->cluster->later_ms;
    return ask > ms ? ask : ms;
}

static bool asked_by(const struct host_allocation *al, const struct host_allocation *lead)
{
    return al == lead || al->lead == lead;
}

/* Whether both may be of one array, which is new or not. What was submitted once stays in the array
 * that it was in. */
static bool fits(const struct host_allocation *al, const struct host_allocation *lead, bool is_new)
{
    if (al->h != lead->h || al->spec != lead->spec || (al->row.element == 0) != is_new)
        return false;
    return is_new || fr_slurm_same_array(al->row.tag, lead->row.tag);
}

/* Its tag and folder become those of an element. */
static bool set_element(struct host_allocation *al, const char *any, int64_t element)
{
    const char *end = strrchr(al->row.folder, '/'), *folder, *kept;
    char tag[FR_ID_TEXT];

    fr_slurm_tag(any, element, tag);
    kept = fr_arena_dup(&al->arena, tag);
    folder = fr_arena_fmt(&al->arena, "%.*s/%s", (int)(end - al->row.folder), al->row.folder, tag);
    if (kept == NULL || folder == NULL)
        return false;
    al->row.tag = kept;
    al->row.folder = folder;
    al->row.element = al->a.life.element = element;
    return true;
}

/* How many may be in one array now. */
static size_t most(const struct host_allocation *al)
{
    const struct host_cluster *c = al->cluster;
    size_t n = (size_t)room(al);

    n = c->chunk > 0 && c->chunk < n ? c->chunk : n;
    return (size_t)c->max_array < n ? (size_t)c->max_array : n;
}

void alloc_begin(struct host_allocation *al)
{
    bool first = al->row.copy > 0 && al->row.element == 0;
    size_t n = 0, limit = al->row.copy > 0 ? most(al) : 1;
    const char *tag = al->row.tag;
    int64_t now = fr_sys.mono_ms();

    for (struct host_allocation *m = al; m != NULL && n < limit; m = m->next) {
        if (m != al && (alloc_begin_ms(m) > now || !fits(m, al, first)))
            continue;
        if (first && !set_element(m, tag, (int64_t)n + 1))
            break; /* without memory; a later turn tries again */
        m->lead = al;
        alloc_apply(m, &(struct fr_allocation_event){.kind = FR_ALLOCATION_MAY_ASK});
        n++;
    }
    al->cluster->open += (int)n;
    al->cluster->submits = al->cluster->submits || (al->row.copy > 0 && n > 0);
}

/* ---- sbatch ---- */

static size_t asked(const struct host_allocation *lead)
{
    size_t n = 0;

    for (const struct host_allocation *al = allocations_of(lead->host)->first; al; al = al->next)
        n += asked_by(al, lead);
    return n;
}

/* How it ended counts for all that it asks for. */
static void tell(struct host_allocation *lead, const struct fr_allocation_event *ev)
{
    for (struct host_allocation *al = allocations_of(lead->host)->first; al; al = al->next) {
        if (!asked_by(al, lead))
            continue;
        al->lead = NULL;
        alloc_apply(al, ev);
    }
    if (lead->row.copy > 0)
        lead->cluster->submits = false;
}

void alloc_refuse(struct host_allocation *al, const struct fr_err *err)
{
    tell(al, &(struct fr_allocation_event){.kind = FR_ALLOCATION_REFUSED,
                                           .transient =
                                               err->rc == FR_NOMEM || err->rc == FR_UNREACHABLE,
                                           .text = fr_str_of(err->msg)});
}

/* A limit of Slurm counts the elements: it may let fewer through, and later more. */
static void meet_limit(struct host_allocation *lead, struct fr_allocation_event *ev)
{
    size_t n = asked(lead);

    ev->kind = FR_ALLOCATION_REFUSED;
    ev->transient = true;
    ev->soon = n > 1;
    lead->cluster->chunk = n > 1 ? n / 2 : 1;
    lead->cluster->later_ms = n > 1 ? 0 : fr_sys.mono_ms() + LATER_MS;
}

/* Which key it is about, as far as Slurm's words say. */
static struct fr_pos refused_at(const struct fr_allocation_spec *spec, const char *words)
{
    const struct {
        const char *word;
        struct fr_pos pos;
    } keys[] = {{"time", spec->time_pos},           {"gres", spec->gpus_pos},
                {"partition", spec->partition_pos}, {"Partition", spec->partition_pos},
                {"ode count", spec->nodes_pos},     {"ode config", spec->nodes_pos}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strstr(words, keys[i].word) != NULL)
            return keys[i].pos;
    return spec->pos;
}

/* Slurm's words, and where what it refuses stands. NULL: no memory. */
static const char *with_place(const struct host_allocation *al, const char *words,
                              struct fr_arena *arena)
{
    struct fr_pos pos;

    if (al->h == NULL)
        return words;
    pos = refused_at(al->spec, words);
    return fr_arena_fmt(arena, "%s:%d:%d: Slurm refuses allocation '%s': %s",
                        fr_run_spec(al->h->run)->sources[pos.file].path, pos.line, pos.col,
                        al->spec->name, words);
}

static void on_submitted(void *arg, const struct fr_command_end *end)
{
    struct host_allocation *al = arg;
    struct host_cluster *c = al->cluster;
    struct fr_arena arena = {0};
    const char *refusal = fr_sbatch_refusal(end->errors, &arena);
    struct fr_allocation_event ev = {.text = fr_str_of(refusal != NULL ? refusal : "")};

    switch (fr_sbatch_read(end->code, end->out, end->errors, &ev.job)) {
    case FR_SBATCH_JOB:
        ev.kind = FR_ALLOCATION_SUBMITTED;
        c->chunk = c->chunk < CHUNK_MOST ? 2 * c->chunk : 0;
        break;
    case FR_SBATCH_LATER:
        meet_limit(al, &ev);
        break;
    case FR_SBATCH_REFUSED:
        ev.kind = FR_ALLOCATION_REFUSED;
        refusal = with_place(al, refusal != NULL ? refusal : "", &arena);
        ev.text = fr_str_of(refusal != NULL ? refusal : "no memory for the reason");
        break;
    default:
        ev.kind = FR_ALLOCATION_UNCLEAR;
        break;
    }
    tell(al, &ev);
    fr_arena_finish(&arena);
}

/* The indices of the array. */
static bool add_elements(const struct host_allocation *lead, struct fr_slurm_submit *s,
                         struct fr_arena *arena)
{
    int64_t *elements = fr_arena_array(arena, asked(lead), sizeof(*elements));

    for (const struct host_allocation *al = allocations_of(lead->host)->first;
         elements != NULL && al != NULL; al = al->next)
        if (asked_by(al, lead))
            elements[s->n_elements++] = al->row.element;
    s->elements = elements;
    return elements != NULL;
}

static void submit(struct host_allocation *al)
{
    char run[FR_ID_TEXT];
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    struct fr_slurm_submit s = {.spec = al->spec,
                                .account = fr_run_spec(al->h->run)->slurm->account,
                                .tag = al->row.tag,
                                .folder = al->row.folder,
                                .flownode = al->row.program};
    struct fr_command command = {
        .asks = true, .limit_ms = SBATCH_MS, .ended = on_submitted, .arg = al};
    enum fr_rc rc;

    fr_id_text(al->row.run, run);
    s.comment = fr_arena_fmt(&arena, "flowrun:%s:%s", run, al->row.name);
    if (s.comment != NULL && (al->row.element == 0 || add_elements(al, &s, &arena)))
        command.argv = fr_sbatch_args(&s, &arena);
    rc = command.argv != NULL ? fr_cluster_run(al->cluster->cluster, &command, &err)
                              : fr_fail(&err, FR_NOMEM, "no memory for a job");
    fr_arena_finish(&arena);
    al->made = false;
    if (rc != FR_OK)
        alloc_refuse(al, &err);
}

/* The program's path is to be in the rows before there may be a job. */
void alloc_made(struct host_allocation *lead, struct folder_job *j)
{
    for (struct host_allocation *al = allocations_of(lead->host)->first; al; al = al->next) {
        if (j->rc != FR_OK || !asked_by(al, lead))
            continue;
        al->row.program = fr_arena_dup(&al->arena, j->program);
        al->dirty = true;
        if (al->row.program == NULL) {
            al->row.program = "";
            j->rc = fr_fail(&j->err, FR_NOMEM, "no memory for a path");
        }
    }
    if (j->rc != FR_OK) {
        alloc_refuse(lead, &j->err);
        return;
    }
    lead->made = true;
    lead->due |= FR_ALLOCATION_DO_SUBMIT;
}

/* Slurm cannot be asked from here; the next allocation tries that anew. */
static void refuse_broken(struct host_allocation *al)
{
    struct fr_err err = {0};

    (void)fr_fail(&err, FR_NOTFOUND, "%s", al->cluster->broken);
    alloc_refuse(al, &err);
    alloc_cluster_again(al->cluster);
}

/* Its run has left: nothing is submitted for it before it is back. */
static void refuse_left(struct host_allocation *al)
{
    struct fr_err err = {0};

    (void)fr_fail(&err, FR_UNREACHABLE, "its run has left");
    alloc_refuse(al, &err);
}

void alloc_submit(struct host_allocation *al)
{
    struct fr_err err = {0};
    enum fr_rc rc = FR_BUSY; /* the thread is not back */

    if (al->lead != NULL && al->lead != al)
        return; /* its lead does */
    if (al->job == NULL && al->h == NULL) {
        refuse_left(al);
        return;
    }
    if (al->job == NULL && al->cluster->broken[0] != '\0') {
        refuse_broken(al);
        return;
    }
    if (al->job == NULL)
        rc = alloc_container_ok(al, &err);
    if (rc == FR_BUSY)
        al->due |= FR_ALLOCATION_DO_SUBMIT;
    else if (rc != FR_OK)
        alloc_refuse(al, &err);
    else if (!al->made)
        alloc_job_start(al, FOLDER_MAKE);
    else
        submit(al);
}
