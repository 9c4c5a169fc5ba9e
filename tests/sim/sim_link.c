/* Links between the engine's process and a serve on a machine. */
#include "tests/sim/sim.h"

#include "engine/wire/wire.h"

#include <stdlib.h>
#include <string.h>

enum {
    LATE_US = 20000,
    STALL_US = 4000000,
    OPEN_TIMEOUT_US = 5000000,
    WINDOW_BYTES = 32768,
    PIECE = 4096
};

enum link_state { LINK_CLOSED, LINK_OPENING, LINK_UP, LINK_BROKEN /* on_down is to be called */ };

/* One connection. It outlives the engine: bytes that were sent still arrive, then the end of input.
 */
struct sim_wire {
    struct sim_wire *next;
    struct sim_machine *m;
    struct sim_chunk *in, **in_last;   /* to the node */
    struct sim_chunk *out, **out_last; /* to the engine */
    size_t in_bytes;
    struct sim_frames frames;
    int64_t in_us, out_us;      /* due time of the last chunk each way */
    struct sim_file *to, *from; /* our ends of serve's stdin and stdout; NULL once closed */
    int64_t stall_us;           /* after a cut: until it sends again what got lost */
    bool shut;                  /* the engine closed it */
    int64_t shut_us;
    bool ended; /* serve closed its side, and all of it was moved */
};

struct sim_link {
    struct sim_link *next; /* of the world, while its owner lives */
    const struct sim_proc *owner;
    struct sim_machine *m;
    int (*serve)(void *arg);
    enum link_state state;
    struct fr_link_events ev;
    int64_t due_us; /* OPENING */
    struct sim_wire *wire;
    bool up_posted, full;
};

struct sim_wires {
    struct sim_wire *first;
};

static struct sim_wires wires;

/* When n bytes that leave now arrive at the other end, behind those before them. */
static int64_t later(const struct sim_machine *m, int64_t *last, size_t n)
{
    bool bad = sim->now_us < m->rate_us;
    int64_t t = sim->now_us + sim_between(sim, 0, LATE_US) + (bad ? m->late_us : 0);

    *last = (t > *last ? t : *last) + (bad ? (int64_t)n * m->us_a_kb / 1024 : 0);
    return *last;
}

static void push(struct sim_chunk ***last, int64_t due_us, const char *p, size_t n)
{
    struct sim_chunk *c = malloc(sizeof(*c) + n);

    *c = (struct sim_chunk){.due_us = due_us, .n = n};
    memcpy(c->bytes, p, n);
    **last = c;
    *last = &c->next;
}

static struct sim_chunk *pop(struct sim_chunk **first, struct sim_chunk ***last)
{
    struct sim_chunk *c = *first;

    if ((*first = c->next) == NULL)
        *last = first;
    return c;
}

/* serve on the machine, its stdin and stdout in our hands. */
static struct sim_wire *connect_wire(struct sim_link *l)
{
    struct sim_wire *w = calloc(1, sizeof(*w));
    struct sim_pipe *in = sim_pipe_new(), *out = sim_pipe_new();
    struct sim_proc *p = sim_start(l->m, l->serve, &l->m, sizeof(l->m));
    l->m->untidy = false;

    *w = (struct sim_wire){.next = wires.first, .m = l->m};
    w->in_last = &w->in;
    w->out_last = &w->out;
    w->to = sim_stream(NULL, in);
    w->from = sim_stream(out, NULL);
    w->to->refs = w->from->refs = 1;
    p->fds[0] = sim_stream(in, NULL);
    p->fds[1] = sim_stream(NULL, out);
    p->fds[0]->refs = p->fds[1]->refs = 1;
    p->fds[1]->frames = calloc(1, sizeof(struct sim_frames));
    p->fds[1]->frames->skip = strlen(FR_WIRE_MAGIC);
    sim_name(p->comm, "serve");
    wires.first = w;
    return w;
}

static void close_end(struct sim_file **f)
{
    if (*f != NULL)
        sim_file_unref(*f);
    *f = NULL;
}

static void move_in(struct sim_wire *w)
{
    while (w->in != NULL && w->in->due_us <= sim->now_us && w->to != NULL) {
        struct sim_pipe *p = w->to->wr;
        if (p->readers > 0 && SIM_PIPE_BYTES - p->n < w->in->n)
            return;
        struct sim_chunk *c = pop(&w->in, &w->in_last);
        if (p->readers > 0)
            sim_pipe_put(p, c->bytes, c->n);
        w->in_bytes -= c->n;
        free(c);
    }
    if (w->shut && w->in == NULL && w->shut_us <= sim->now_us)
        close_end(&w->to);
}

static void move_out(struct sim_wire *w)
{
    char piece[PIECE];
    size_t k;

    while (w->from != NULL && (k = sim_pipe_take(w->from->rd, piece, sizeof(piece))) > 0)
        if (!w->shut)
            push(&w->out_last, later(w->m, &w->out_us, k), piece, k);
    if (w->from != NULL && w->from->rd->writers == 0) {
        close_end(&w->from);
        w->ended = true;
    }
}

static void free_wire(struct sim_wire **at)
{
    struct sim_wire *w = *at;

    *at = w->next;
    while (w->in != NULL)
        free(pop(&w->in, &w->in_last));
    while (w->out != NULL)
        free(pop(&w->out, &w->out_last));
    close_end(&w->to);
    close_end(&w->from);
    free(w);
}

void sim_links_pump(struct sim *s)
{
    for (struct sim_wire **at = &wires.first; *at != NULL;) {
        struct sim_wire *w = *at;
        if (w->m->cut && w->stall_us < w->m->heal_us)
            /* an old connection comes back later than a new one is made */
            w->stall_us = w->m->heal_us + w->m->stale_us + sim_between(s, 0, STALL_US);
        if (w->m->up && !w->m->cut && s->now_us >= w->stall_us) {
            move_in(w);
            move_out(w);
        }
        if (w->shut && w->ended)
            free_wire(at);
        else
            at = &w->next;
    }
    for (struct sim_link *l = s->links; l != NULL; l = l->next) {
        if (l->state != LINK_OPENING || s->now_us < l->due_us)
            continue;
        if (l->m->up && !l->m->cut) {
            l->wire = connect_wire(l);
            l->state = LINK_UP;
        } else {
            l->state = LINK_BROKEN;
        }
    }
}

int64_t sim_links_due(const struct sim *s)
{
    int64_t due = INT64_MAX;

    for (const struct sim_wire *w = wires.first; w != NULL; w = w->next) {
        if (!w->m->up || w->m->cut)
            continue;
        if (w->stall_us > s->now_us) {
            due = w->stall_us < due ? w->stall_us : due;
            continue;
        }
        if (w->in != NULL && w->in->due_us > s->now_us && w->in->due_us < due)
            due = w->in->due_us;
        if (w->shut && w->to != NULL && w->shut_us > s->now_us && w->shut_us < due)
            due = w->shut_us;
    }
    if (s->machines[0].awake_us > s->now_us)
        return due; /* nobody there to hear of more */
    for (const struct sim_link *l = s->links; l != NULL; l = l->next) {
        if (l->state == LINK_OPENING && l->due_us < due)
            due = l->due_us;
        if (l->state == LINK_UP && l->wire->out != NULL && l->wire->out->due_us < due &&
            l->wire->out->due_us > s->now_us) /* else its owner has it, once it runs */
            due = l->wire->out->due_us;
    }
    return due;
}

static void shut(struct sim_link *l)
{
    if (l->wire != NULL) {
        l->wire->shut = true;
        l->wire->shut_us = later(l->m, &l->wire->in_us, 0);
        while (l->wire->out != NULL)
            free(pop(&l->wire->out, &l->wire->out_last));
    }
    l->wire = NULL;
    l->state = LINK_CLOSED;
}

void sim_links_orphan(struct sim *s, const struct sim_proc *owner)
{
    for (struct sim_link **at = &s->links; *at != NULL;) {
        struct sim_link *l = *at;

        if (l->owner != owner) {
            at = &l->next;
            continue;
        }
        shut(l);
        *at = l->next;
        free(l);
    }
}

void sim_links_drop(struct sim_machine *m)
{
    for (struct sim_wire *w = wires.first; w != NULL; w = w->next) {
        if (w->m != m || w->to == NULL)
            continue;
        while (w->in != NULL)
            free(pop(&w->in, &w->in_last));
        while (w->out != NULL)
            free(pop(&w->out, &w->out_last));
        w->in_bytes = 0;
        close_end(&w->to);
        close_end(&w->from);
        w->ended = true;
    }
}

void sim_links_stall(struct sim_machine *m, int64_t us)
{
    for (struct sim_wire *w = wires.first; w != NULL; w = w->next)
        if (w->m == m)
            w->stall_us = sim->now_us + us;
}

void sim_links_finish(struct sim *s)
{
    while (s->links != NULL)
        sim_links_orphan(s, s->links->owner);
    while (wires.first != NULL)
        free_wire(&wires.first);
}

/* ---- as the engine sees a link ---- */

static enum fr_rc link_open(void *self, const struct fr_link_events *ev, struct fr_err *err)
{
    struct sim_link *l = self;

    (void)err;
    l->ev = *ev;
    l->up_posted = l->full = false;
    l->state = LINK_OPENING;
    l->due_us =
        sim->now_us + (l->m->up && !l->m->cut ? sim_between(sim, 1000, LATE_US) : OPEN_TIMEOUT_US);
    return FR_OK;
}

static size_t link_send(void *self, const char *p, size_t n)
{
    struct sim_link *l = self;

    if (l->state != LINK_UP || !l->up_posted)
        return 0;
    size_t room = l->wire->in_bytes < WINDOW_BYTES ? WINDOW_BYTES - l->wire->in_bytes : 0;
    size_t k = n < room ? n : room;
    for (size_t at = 0, piece; at < k; at += piece) {
        bool starts;
        piece = sim_frame(&l->wire->frames, p + at, k - at < PIECE ? k - at : PIECE, &starts);
        if (starts)
            sim_point(SIM_AT_SEND);
        if (l->wire->ended) /* what struck there cut this connection */
            return k;
        push(&l->wire->in_last, later(l->m, &l->wire->in_us, piece), p + at, piece);
        l->wire->in_bytes += piece;
        if (l->wire->frames.left == 0 && l->wire->frames.n_head == 0)
            sim_point(SIM_AT_SEND);
    }
    l->full = k < n;
    return k;
}

static void link_close(void *self)
{
    shut(self);
}

static void link_destroy(void *self)
{
    struct sim_link *l = self, **at = &sim->links;

    shut(l);
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    free(l);
}

static const struct fr_link_ops link_ops = {"sim", link_open, link_send, link_close, link_destroy};

enum fr_rc sim_link_create(struct fr_link *out, struct sim_machine *m, int (*serve)(void *arg))
{
    struct sim_link *l = calloc(1, sizeof(*l));

    *l = (struct sim_link){.next = sim->links, .owner = sim->cur, .m = m, .serve = serve};
    sim->links = l;
    *out = (struct fr_link){&link_ops, l};
    return FR_OK;
}

size_t sim_links_to(const struct sim *s, const struct sim_machine *m)
{
    size_t n = 0;

    for (const struct sim_link *l = s->links; l != NULL; l = l->next)
        n += l->m == m && l->owner == s->cur;
    return n;
}

/* Something for its owner to hear. */
static bool link_pending(const struct sim_link *l)
{
    if (l->state == LINK_BROKEN)
        return true;
    if (l->state != LINK_UP)
        return false;
    if (!l->up_posted || (l->full && l->wire->in_bytes < WINDOW_BYTES / 2))
        return true;
    return l->wire->out != NULL ? l->wire->out->due_us <= sim->now_us : l->wire->ended;
}

static void link_tell(struct sim_link *l)
{
    struct fr_err err;

    if (l->state == LINK_BROKEN || (l->up_posted && l->wire->out == NULL && l->wire->ended)) {
        fr_fail(&err, FR_UNREACHABLE, "%s", l->state == LINK_BROKEN ? "no route" : "closed");
        shut(l);
        l->ev.on_down(l->ev.arg, &err, false);
    } else if (!l->up_posted) {
        l->up_posted = true;
        l->ev.on_up(l->ev.arg);
    } else if (l->wire->out != NULL && l->wire->out->due_us <= sim->now_us) {
        struct sim_chunk *c = pop(&l->wire->out, &l->wire->out_last);
        l->ev.on_bytes(l->ev.arg, c->bytes, c->n);
        free(c);
        sim_point(SIM_AT_ARRIVE);
    } else {
        l->full = false;
        l->ev.on_writable(l->ev.arg);
    }
}

static struct sim_link *next_pending(const struct sim *s, const struct sim_proc *owner)
{
    struct sim_link *l = s->links;

    while (l != NULL && (l->owner != owner || !link_pending(l)))
        l = l->next;
    return l;
}

bool sim_links_pending(const struct sim *s, const struct sim_proc *owner)
{
    return next_pending(s, owner) != NULL;
}

void sim_links_tell(struct sim *s)
{
    struct sim_link *l = next_pending(s, s->cur);

    if (l != NULL)
        link_tell(l);
}
