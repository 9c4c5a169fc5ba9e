/* Processes: spawn, detach, wait, kill, and what a crash leaves. */
#include "tests/sim/sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_proc *sim_find(const struct sim_machine *m, pid_t pid)
{
    struct sim_proc *p = m->procs;

    while (p != NULL && p->pid != pid)
        p = p->next;
    return p;
}

/* Orphans go to the nearest living ancestor that is a subreaper, else to init, which reaps at once.
 */
static pid_t new_parent(const struct sim_proc *dead)
{
    for (pid_t up = dead->ppid; up > 1;) {
        const struct sim_proc *p = sim_find(dead->m, up);
        if (p == NULL)
            break;
        if (p->subreaper && p->state != SIM_ZOMBIE)
            return p->pid;
        up = p->ppid;
    }
    return 1;
}

void sim_end(struct sim_proc *p, bool signaled, int code)
{
    if (p->state == SIM_ZOMBIE)
        return;
    p->state = SIM_ZOMBIE;
    p->end = (struct fr_wait){p->pid, signaled, code};
    if (sim->on_exit != NULL)
        sim->on_exit(sim, p);
    for (int fd = 0; fd < SIM_FDS; fd++)
        if (p->fds[fd] != NULL) {
            struct sim_file *f = p->fds[fd];
            p->fds[fd] = NULL;
            sim_file_unref(f);
        }
    pid_t heir = new_parent(p);
    for (struct sim_proc *c = p->m->procs; c != NULL; c = c->next)
        if (c->ppid == p->pid) {
            c->ppid = heir;
            if (c->dies_with_parent)
                sim_end(c, true, SIGKILL);
        }
}

static void free_proc(struct sim_proc *p)
{
    while (p->blocks != NULL) {
        struct sim_block *b = p->blocks;
        p->blocks = b->next;
        free(b);
    }
    sim_give_stack(p->stack);
    free(p);
}

/* Only the memory of a zombie waits for its parent; without one, all of it goes. */
void sim_sweep(struct sim *s)
{
    for (int i = 0; i < SIM_MACHINES; i++)
        for (struct sim_proc **at = &s->machines[i].procs; *at != NULL;) {
            struct sim_proc *p = *at;
            const struct sim_proc *parent = p->ppid > 1 ? sim_find(p->m, p->ppid) : NULL;
            if (p->state != SIM_ZOMBIE || p == s->cur ||
                (parent != NULL && parent->state != SIM_ZOMBIE)) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            free_proc(p);
        }
}

void sim_crash(struct sim_machine *m, bool reboot)
{
    m->untidy = true;
    for (struct sim_proc *p = m->procs; p != NULL; p = p->next) {
        p->ppid = 1;
        sim_end(p, true, SIGKILL);
    }
    if (!reboot)
        return;
    sim_lose_unsynced(sim, m);
    m->boot_us = sim->now_us;
    m->slept_us = 0;
    snprintf(m->boot, sizeof(m->boot), "%08x-%s", (unsigned)sim_random(sim), m->name);
}

struct flat { /* what a spawned program gets: words of argv and envp, NUL-terminated */
    size_t argc, envc;
    char text[];
};

const char *sim_arg(const void *arg, size_t i)
{
    const struct flat *f = arg;
    const char *p = f->text;

    if (i >= f->argc)
        return NULL;
    while (i-- > 0)
        p += strlen(p) + 1;
    return p;
}

const char *sim_env(const void *arg, const char *name)
{
    const struct flat *f = arg;
    const char *p = f->text;
    size_t len = strlen(name);

    for (size_t i = 0; i < f->argc + f->envc; i++, p += strlen(p) + 1)
        if (i >= f->argc && strncmp(p, name, len) == 0 && p[len] == '=')
            return p + len + 1;
    return "";
}

static void add(struct fr_buf *b, const char *s)
{
    fr_buf_add(b, s, strlen(s) + 1);
}

static int proc_spawn(const struct fr_spawn *sp, struct fr_proc *out)
{
    struct flat head = {0, 0};
    struct fr_buf b = {0};

    sim_step();
    bool own = strcmp(sp->argv[0], "sim") == 0;
    if (!own && sim->command == NULL) {
        errno = ENOENT;
        return -1;
    }
    if (own && sim->on_spawn != NULL)
        sim->on_spawn(sim, sim->cur->m, sp);
    fr_buf_add(&b, &head, sizeof(head));
    for (; sp->argv[head.argc] != NULL; head.argc++)
        add(&b, sp->argv[head.argc]);
    for (; sp->envp[head.envc] != NULL; head.envc++)
        add(&b, sp->envp[head.envc]);
    memcpy(b.p, &head, sizeof(head));
    struct sim_proc *p = sim_start(sim->cur->m, own ? sim->program : sim->command, b.p, b.n);
    fr_buf_finish(&b);
    sim_name(p->comm, sp->argv[0]);
    p->ppid = sim->cur->pid;
    p->dies_with_parent = sp->die_with_parent;
    p->session = sp->new_session ? p->pid : sim->cur->session;
    p->pgrp = sp->new_session || sp->new_group ? p->pid : sim->cur->pgrp;
    for (size_t i = 0; i < head.envc; i++)
        if (strncmp(sp->envp[i], "FLOWRUN_ATTEMPT=", 16) == 0)
            snprintf(p->marker, sizeof(p->marker), "%s", sp->envp[i] + 16);
    for (int i = 0; i < 3; i++)
        if (sp->fds[i] >= 0 && (p->fds[i] = sim_fd(sp->fds[i])) != NULL)
            p->fds[i]->refs++;
    *out = (struct fr_proc){p->pid, p->start};
    return 0;
}

static int proc_detach(const struct fr_detach *d)
{
    sim_step();
    struct sim_proc *p = sim_start(sim->cur->m, d->body, d->arg, d->arg_bytes);
    p->ppid = new_parent(sim->cur);
    for (size_t i = 0; i < d->n_keep; i++)
        if ((p->fds[d->keep[i]] = sim_fd(d->keep[i])) != NULL)
            p->fds[d->keep[i]]->refs++;
    return 0;
}

struct child_wait {
    struct sim_proc *parent;
    pid_t pid;
};

static struct sim_proc *ended_child(const struct child_wait *w, bool *any)
{
    *any = false;
    for (struct sim_proc *p = w->parent->m->procs; p != NULL; p = p->next)
        if (p->ppid == w->parent->pid && (w->pid == -1 || w->pid == p->pid)) {
            *any = true;
            if (p->state == SIM_ZOMBIE)
                return p;
        }
    return NULL;
}

static bool child_ready(void *arg)
{
    bool any;

    return ended_child(arg, &any) != NULL || !any;
}

static int proc_wait(pid_t pid, struct fr_wait *out, int flags)
{
    struct child_wait w = {sim->cur, pid};
    bool any;

    sim_step();
    *out = (struct fr_wait){0};
    if (!(flags & FR_WAIT_NOHANG))
        sim_block(child_ready, &w, INT64_MAX);
    struct sim_proc *p = ended_child(&w, &any);
    if (p == NULL && !any) {
        errno = ECHILD;
        return -1;
    }
    if (p == NULL)
        return 0;
    *out = p->end;
    if (!(flags & FR_WAIT_PEEK))
        p->ppid = 1;
    return 0;
}

static int proc_fd(pid_t child)
{
    sim_step();
    if (sim->no_proc_fd) {
        errno = ENOSYS;
        return -1;
    }
    struct sim_file *f = calloc(1, sizeof(*f));
    *f = (struct sim_file){.kind = SIM_CHILD, .child = child};
    return sim_fd_new(sim->cur, f);
}

void sim_signal(struct sim_proc *p, int signo)
{
    if (sim->now_us < p->stuck_us || p->state == SIM_ZOMBIE)
        return;
    p->came |= 1u << signo;
    if (signo != SIGKILL && (p->handled >> signo & 1))
        p->pending |= 1u << signo;
    else if (signo == SIGKILL || signo == SIGINT || (signo == SIGTERM && !p->ignores_term))
        sim_end(p, true, signo);
    if (p == sim->cur && p->state == SIM_ZOMBIE)
        sim_switch_to_scheduler();
}

static int proc_kill(struct fr_proc proc, int sig)
{
    sim_step();
    struct sim_proc *p = sim_find(sim->cur->m, proc.pid);
    if (p == NULL || p->start != proc.start) {
        errno = ESRCH;
        return -1;
    }
    sim_signal(p, sig);
    return 0;
}

static int proc_subreaper(void)
{
    sim->cur->subreaper = true;
    return 0;
}

static uid_t proc_uid(void)
{
    return 1000;
}

static int proc_self(struct fr_proc *out)
{
    *out = (struct fr_proc){sim->cur->pid, sim->cur->start};
    return 0;
}

static int proc_list(struct fr_procinfo **list, size_t *n)
{
    struct sim_machine *m = sim->cur->m;

    sim_step();
    *n = 0;
    for (struct sim_proc *p = m->procs; p != NULL; p = p->next)
        ++*n;
    *list = fr_sys.alloc((*n + 1) * sizeof(**list));
    *n = 0;
    for (struct sim_proc *p = m->procs; p != NULL; p = p->next) {
        struct fr_procinfo i = {.proc = {p->pid, p->start},
                                .ppid = p->ppid,
                                .pgrp = p->pgrp,
                                .session = p->session,
                                .state = p->state == SIM_ZOMBIE      ? 'Z'
                                         : sim->now_us < p->stuck_us ? 'D'
                                                                     : 'S'};
        memcpy(i.comm, p->comm, sizeof(p->comm));
        memcpy(i.marker, p->marker, sizeof(p->marker));
        (*list)[(*n)++] = i;
    }
    return 0;
}

static uint32_t proc_umask(void)
{
    return FR_UMASK_SET | 022;
}

static int proc_boot_id(char out[40])
{
    memcpy(out, sim->cur->m->boot, sizeof(sim->cur->m->boot));
    return 0;
}

void sim_sys_proc(struct fr_sys *t)
{
    t->spawn = proc_spawn;
    t->detach = proc_detach;
    t->wait = proc_wait;
    t->proc_fd = proc_fd;
    t->kill = proc_kill;
    t->subreaper = proc_subreaper;
    t->self = proc_self;
    t->uid = proc_uid;
    t->procs = proc_list;
    t->boot_id = proc_boot_id;
    t->umask = proc_umask;
}
