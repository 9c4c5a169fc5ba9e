/* Coroutines, the clock, memory and chance. */
/* Jumps lead to other stacks, which the check of glibc refuses that Ubuntu turns on. */
#undef _FORTIFY_SOURCE

#include "tests/sim/sim.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVE(save, stack, n) __sanitizer_start_switch_fiber((save), (stack), (n))
#define FIBER_ENTER(save) __sanitizer_finish_switch_fiber((save), NULL, NULL)
#define STACK_CLEAN(stack, n) ASAN_UNPOISON_MEMORY_REGION((stack), (n))
#else
#define FIBER_LEAVE(save, stack, n) ((void)(save))
#define FIBER_ENTER(save) ((void)(save))
#define STACK_CLEAN(stack, n) ((void)(stack))
#endif

enum { STACK_BYTES = 1 << 20, STEP_US = 3, EPOCH_MS = 1700000000 };

struct sim *sim;

uint64_t sim_draw(uint64_t *rng)
{
    /* splitmix64, Steele et al. 2014 */
    uint64_t z = *rng += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t sim_random(struct sim *s)
{
    return sim_draw(&s->rng);
}

int64_t sim_between(struct sim *s, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(sim_random(s) % (uint64_t)(hi - lo + 1));
}

void sim_switch_to_scheduler(void)
{
    struct sim_proc *p = sim->cur;

    FIBER_LEAVE(&p->fiber, NULL, 0);
    if (_setjmp(p->here) == 0)
        _longjmp(sim->main_here, 1);
    FIBER_ENTER(sim->cur->fiber);
}

/* A call of fr_sys: perhaps somebody else's turn. */
void sim_step(void)
{
    sim->steps++;
    sim->now_us += STEP_US;
    errno = 0;
    if (sim->cur != NULL && sim->cur == sim->doomed) {
        sim->doomed = NULL;
        sim->on_doom(sim);
    }
    if (sim->cur != NULL && (sim->steps >= sim->fault_step || sim_random(sim) % 8 == 0))
        sim_switch_to_scheduler();
}

void sim_point(enum sim_point what)
{
    if (sim->on_point != NULL)
        sim->on_point(sim, what);
}

size_t sim_frame(struct sim_frames *f, const char *p, size_t n, bool *starts)
{
    size_t used = 0;

    if (f->skip > 0) { /* the magic */
        *starts = false;
        used = f->skip < n ? f->skip : n;
        f->skip -= used;
        return used;
    }
    *starts = f->left == 0 && f->n_head == 0;
    while (f->left == 0 && f->n_head < sizeof(f->head) && used < n)
        f->head[f->n_head++] = (unsigned char)p[used++];
    if (f->left == 0 && f->n_head == sizeof(f->head))
        f->left = f->head[0] | (size_t)f->head[1] << 8 | (size_t)f->head[2] << 16;
    size_t body = f->left < n - used ? f->left : n - used;
    f->left -= body;
    if (f->left == 0 && f->n_head == sizeof(f->head))
        f->n_head = 0;
    return used + body;
}

bool sim_block(bool (*ready)(void *arg), void *arg, int64_t until_us)
{
    struct sim_proc *p = sim->cur;

    while (!ready(arg)) {
        if (sim->now_us >= until_us)
            return false;
        p->state = SIM_BLOCKED;
        p->ready = ready;
        p->ready_arg = arg;
        p->until_us = until_us;
        sim_switch_to_scheduler();
    }
    return true;
}

void sim_name(char comm[16], const char *name)
{
    memcpy(comm, name, strlen(name) + 1);
}

static void entry(void)
{
    FIBER_ENTER(NULL);
    struct sim_proc *p = sim->cur;
    int code = p->body(p->arg);

    sim_end(p, false, code);
    sim_switch_to_scheduler();
    abort(); /* an ended process is never switched to */
}

static void *proc_alloc(struct sim_proc *p, size_t n)
{
    struct sim_block *b = malloc(sizeof(*b) + n);

    if (b == NULL)
        return NULL;
    *b = (struct sim_block){.next = p != NULL ? p->blocks : NULL, .owner = p, .n = n};
    if (b->next != NULL)
        b->next->prev = b;
    if (p != NULL)
        p->blocks = b;
    return b->bytes;
}

/* Stacks of ended processes are used again; the next free one stands at the start of each. */
static char *free_stacks;

static char *take_stack(void)
{
    char *stack = free_stacks;

    if (stack == NULL) {
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
            abort();
    } else {
        memcpy(&free_stacks, stack, sizeof(free_stacks));
    }
    return stack;
}

void sim_give_stack(char *stack)
{
    STACK_CLEAN(stack, STACK_BYTES);
    memcpy(stack, &free_stacks, sizeof(free_stacks));
    free_stacks = stack;
}

struct sim_proc *sim_start(struct sim_machine *m, int (*body)(void *arg), const void *arg,
                           size_t arg_bytes)
{
    struct sim_proc *p = calloc(1, sizeof(*p));

    p->m = m;
    p->pid = ++m->last_pid;
    p->ppid = 1;
    p->session = p->pgrp = p->pid;
    p->start = (uint64_t)(sim->now_us / 10000) + 1;
    p->stack = take_stack();
    p->body = body;
    p->arg = proc_alloc(p, arg_bytes + 1);
    memcpy(p->arg, arg, arg_bytes);
    sim_name(p->comm, "flownode");
    getcontext(&p->ctx);
    p->ctx.uc_stack.ss_sp = p->stack;
    p->ctx.uc_stack.ss_size = STACK_BYTES;
    p->ctx.uc_link = NULL;
    makecontext(&p->ctx, entry, 0);
    p->next = m->procs;
    m->procs = p;
    return p;
}

/* swapcontext(3) asks the kernel for the mask of signals each time; this does it once a process. */
static void go_into(struct sim_proc *p)
{
    if (p->begun)
        _longjmp(p->here, 1);
    p->begun = true;
    setcontext(&p->ctx);
    abort();
}

/* ---- what each process has of its own, and a test has one of ---- */

static char **own_vars;
static struct sim_proc *lent; /* whose stand in their place; NULL: nobody's */

static void print_put(void *arg, int fd, const char *text, size_t n)
{
    (void)arg;
    (void)fd;
    (void)fr_sys.write(1, text, n);
}

static int print_error(void *arg)
{
    (void)arg;
    return 0;
}

static void lend(struct sim_proc *p)
{
    static const struct fr_printer plain = {print_put, print_error, NULL};

    lent = p->vars != NULL ? p : NULL;
    if (lent == NULL)
        return;
    own_vars = environ;
    environ = p->vars;
    fr_print_by(p->printer.put != NULL ? &p->printer : &plain);
    if (sim->on_lend != NULL)
        sim->on_lend(p, true);
}

static void take_back(void)
{
    if (lent == NULL)
        return;
    environ = own_vars;
    lent->printer = fr_print_by(NULL);
    if (lent->printer.put == print_put)
        lent->printer.put = NULL;
    if (sim->on_lend != NULL)
        sim->on_lend(lent, false);
    lent = NULL;
}

void sim_own(char **vars)
{
    sim->cur->vars = vars;
    lend(sim->cur);
}

static void run(struct sim *s, struct sim_proc *p)
{
    p->state = SIM_READY;
    s->cur = p;
    lend(p);
    FIBER_LEAVE(&s->main_fiber, p->stack, STACK_BYTES);
    if (_setjmp(s->main_here) == 0)
        go_into(p);
    FIBER_ENTER(sim->main_fiber);
    take_back();
    sim->cur = NULL;
    sim_sweep(sim);
}

static bool can_run(const struct sim *s, struct sim_proc *p)
{
    if (s->now_us < p->m->awake_us || s->now_us < p->held_us)
        return false;
    if (p->state == SIM_READY)
        return true;
    if (p->state != SIM_BLOCKED)
        return false;
    return s->now_us >= p->until_us || p->ready(p->ready_arg);
}

/* One of those that can run, by chance. */
static struct sim_proc *choose(struct sim *s, int64_t *due)
{
    struct sim_proc *chosen = NULL;
    uint64_t n = 0;

    for (int i = 0; i < SIM_MACHINES; i++)
        for (struct sim_proc *p = s->machines[i].procs; p != NULL; p = p->next) {
            if (can_run(s, p) && sim_random(s) % ++n == 0)
                chosen = p;
            int64_t from = p->held_us > p->m->awake_us ? p->held_us : p->m->awake_us;
            int64_t until = p->until_us > from ? p->until_us : from;
            if (p->state == SIM_BLOCKED && until < *due)
                *due = until;
            if (p->state != SIM_ZOMBIE && p->held_us > s->now_us && p->held_us < *due)
                *due = p->held_us;
        }
    return chosen;
}

bool sim_turn(struct sim *s, bool *idle)
{
    int64_t due;

    sim_links_pump(s);
    due = sim_links_due(s) < s->wake_us ? sim_links_due(s) : s->wake_us;
    struct sim_proc *p = choose(s, &due);
    *idle = false;
    if (p != NULL) {
        run(s, p);
        return true;
    }
    for (int i = 0; i < SIM_MACHINES; i++) {
        const struct sim_machine *m = &s->machines[i];
        if (!m->up && m->up_us < due)
            due = m->up_us;
        if (m->cut && m->heal_us < due)
            due = m->heal_us;
        if (m->full && m->room_us < due)
            due = m->room_us;
        if (m->awake_us > s->now_us && m->awake_us < due)
            due = m->awake_us;
    }
    *idle = due == INT64_MAX;
    if (due != INT64_MAX && due > s->now_us)
        s->now_us = due;
    return false;
}

void sim_init(struct sim *s, uint64_t seed)
{
    static const char *const names[SIM_MACHINES] = {"control", "n1", "n2", "n3"};

    memset(s, 0, sizeof(*s));
    sim = s;
    s->rng = seed;
    s->rng = sim_random(s) ^
             (seed << 32); /* so that streams of neighbours are no shifts of one another */
    s->now_us = 1000000;
    s->fault_step = UINT64_MAX;
    s->wake_us = INT64_MAX;
    s->no_proc_fd = sim_random(s) % 4 == 0;
    for (int i = 0; i < SIM_MACHINES; i++) {
        struct sim_machine *m = &s->machines[i];
        memcpy(m->name, names[i], strlen(names[i]) + 1);
        m->up = true;
        m->last_pid = 100;
        m->skew_ms = sim_between(s, -5000, 5000);
        sim_crash(m, true);
        m->up = true;
        m->up_us = 0;
        sim_put_file(m, "/", NULL);
    }
}

void sim_finish(struct sim *s)
{
    sim_links_finish(s);
    for (int i = 0; i < SIM_MACHINES; i++) {
        struct sim_machine *m = &s->machines[i];
        sim_crash(m, false);
        for (int k = 0; k < SIM_NAMES; k++)
            if (m->names[k].path != NULL) {
                sim_unref_inode(m->names[k].inode);
                free(m->names[k].path);
            }
    }
    sim_sweep(s);
}

static int64_t boot_ms(void)
{
    const struct sim_machine *m = sim->cur != NULL ? sim->cur->m : &sim->machines[0];

    return (sim->now_us - m->boot_us) / 1000 + 100000;
}

static int64_t mono_ms(void)
{
    const struct sim_machine *m = sim->cur != NULL ? sim->cur->m : &sim->machines[0];

    return (sim->now_us - m->boot_us - m->slept_us) / 1000 + 100000;
}

void sim_suspend(struct sim_machine *m, int64_t us)
{
    int64_t until = sim->now_us + us;

    if (m->awake_us > sim->now_us) /* it sleeps already: the rest alone is new */
        us = until - m->awake_us;
    for (struct sim_proc *p = m->procs; p != NULL; p = p->next)
        if (p->state == SIM_BLOCKED && p->until_us != INT64_MAX)
            p->until_us += us; /* time-outs count on the monotonic clock */
    m->awake_us = until;
    m->slept_us += us;
    if (!m->cut || m->heal_us < m->awake_us)
        m->heal_us = m->awake_us;
    m->cut = true;
}

static int64_t wall_ms(void)
{
    const struct sim_machine *m = sim->cur != NULL ? sim->cur->m : &sim->machines[0];

    return (int64_t)EPOCH_MS * 1000 + sim->now_us / 1000 + m->skew_ms;
}

static int fill_random(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((char *)p)[i] = (char)sim_random(sim);
    return 0;
}

static void *alloc(size_t n)
{
    return proc_alloc(sim != NULL ? sim->cur : NULL, n);
}

static void release(void *p)
{
    if (p == NULL)
        return;
    struct sim_block *b =
        (struct sim_block *)(void *)((char *)p - offsetof(struct sim_block, bytes));
    if (b->next != NULL)
        b->next->prev = b->prev;
    if (b->prev != NULL)
        b->prev->next = b->next;
    else if (b->owner != NULL)
        b->owner->blocks = b->next;
    free(b);
}

static void *resize(void *p, size_t n)
{
    void *q = alloc(n);

    if (p != NULL && q != NULL) {
        size_t had =
            ((struct sim_block *)(void *)((char *)p - offsetof(struct sim_block, bytes)))->n;
        memcpy(q, p, had < n ? had : n);
        release(p);
    }
    return q;
}

void sim_sys_core(struct fr_sys *t)
{
    t->mono_ms = mono_ms;
    t->boot_ms = boot_ms;
    t->wall_ms = wall_ms;
    t->random = fill_random;
    t->alloc = alloc;
    t->realloc = resize;
    t->free = release;
}
