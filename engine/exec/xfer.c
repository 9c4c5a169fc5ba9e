#include "engine/exec/xfer.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <string.h>

enum {
    PATH_BYTES = 4096,
    OUT_ENOUGH = 32 << 10, /* bytes waiting to be sent, above which no bulk is added */
};

void fr_xfer_close(struct fr_xfer *x)
{
    fr_hash_close(x->hash);
    x->hash = NULL;
    fr_source_close(x->source);
    x->source = NULL;
    x->reading = false;
    fr_get_forget(x);
    if (x->fd >= 0)
        fr_sys.close(x->fd);
    x->fd = -1;
}

void fr_xfer_free(struct fr_xfer *x)
{
    fr_xfer_close(x);
    fr_arena_finish(&x->arena);
    fr_sys.free(x);
}

static void take_off(struct fr_chan *ch, struct fr_xfer *x)
{
    struct fr_xfer **at = &ch->xfers;

    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
}

static void begin(struct fr_chan *ch, struct fr_xfer *x);

/* Begins the next transfer of the same kind and run. */
static void start_next(struct fr_use *use, bool put)
{
    struct fr_xfer *x = use->ch->xfers;

    while (x != NULL && (x->use != use || x->is_put != put))
        x = x->next;
    if (x != NULL && !x->active && use->ch->state == FR_CHAN_UP)
        begin(use->ch, x);
}

void fr_xfer_end(struct fr_chan *ch, struct fr_xfer *x, struct fr_exec_event *ev)
{
    struct fr_use *use = x->use;
    bool put = x->is_put;

    if (ev != NULL) {
        ev->ref = x->asked;
        fr_use_post(use, ev);
    }
    take_off(ch, x);
    fr_xfer_free(x);
    start_next(use, put);
}

void fr_xfer_fail(struct fr_chan *ch, struct fr_xfer *x, const struct fr_err *err)
{
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_FAILED);

    if (ev == NULL) {
        x->active = false;
        fr_chan_try_again(ch);
        return;
    }
    ev->err = *err;
    fr_while(&ev->err, "node %s", ch->node.name);
    if (x->active && ch->state == FR_CHAN_UP) /* else the rest of it would still come */
        fr_chan_put(ch, &(struct fr_msg){.type = FR_MSG_CANCEL, .cancel = {x->ref}});
    if (!x->is_put && fr_sys.unlink(x->part) == 0 && x->fd >= 0) {
        fr_loop_close(ch->ex->loop, x->fd);
        x->fd = -1;
    }
    fr_xfer_end(ch, x, ev);
}

static void begin_put(struct fr_chan *ch, struct fr_xfer *x)
{
    const struct fr_ship_file *f = &x->files[x->at];
    struct fr_msg m = {.type = FR_MSG_PUT_BEGIN};

    m.put_begin = (struct fr_put_begin){
        .ref = x->ref,
        .path = fr_str_of(f->path),
        .sha256 = fr_str_of(f->sha256),
        .size = f->size,
        .mode = f->mode,
        .run = x->use->run->id,
    };
    x->phase = ASK;
    fr_chan_put(ch, &m);
}

static void put_done(struct fr_chan *ch, struct fr_xfer *x)
{
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_PUT_DONE);
    char *dir = ev != NULL ? fr_arena_dup(&ev->arena, x->dir) : NULL;

    if (dir == NULL) {
        fr_exec_event_free(ev);
        fr_chan_try_again(ch);
        return;
    }
    ev->put.dir = fr_str_of(dir);
    fr_xfer_end(ch, x, ev);
}

static void begin(struct fr_chan *ch, struct fr_xfer *x)
{
    x->active = true;
    if (x->is_put && x->at == x->n) {
        put_done(ch, x); /* there was no memory for the event before */
        return;
    }
    if (x->is_put)
        begin_put(ch, x);
    else
        fr_get_begin(ch, x);
    fr_chan_flush(ch);
}

void fr_xfer_restart(struct fr_chan *ch)
{
    for (struct fr_xfer *x = ch->xfers; x != NULL; x = x->next)
        x->active = false;
    for (struct fr_use *use = ch->uses, *next; use != NULL; use = next) {
        next = use->next;
        start_next(use, true);
        start_next(use, false);
    }
}

static void more(void *arg)
{
    struct fr_xfer *x = arg;

    x->reading = false;
    fr_xfer_pump(x->use->ch);
}

static enum fr_rc open_source(struct fr_xfer *x, struct fr_err *err)
{
    const struct fr_ship_file *f = &x->files[x->at];

    if (f->local == NULL || x->source != NULL)
        return FR_OK;
    return fr_source_open(x->use->ch->ex->loop, f->local, more, x, &x->source, err);
}

/* The file could be read for its hash: the next try ships its content at that time. */
static enum fr_rc changed(const struct fr_ship_file *f, struct fr_err *err)
{
    struct fr_err why = *err;

    return fr_fail(err, FR_IO, "%s changed while it was shipped: %s", f->local, why.msg);
}

/* Sends one piece, or waits for it. */
static enum fr_rc send_piece(struct fr_chan *ch, struct fr_xfer *x, size_t max, struct fr_err *err)
{
    const struct fr_ship_file *f = &x->files[x->at];
    uint64_t left = f->size - x->offset;
    struct fr_msg m = {.type = FR_MSG_PUT_DATA};
    struct fr_str bytes = {f->bytes.p + x->offset, left};
    enum fr_rc rc = FR_OK;

    if (f->local != NULL)
        rc = fr_source_bytes(x->source, x->offset, &bytes, err);
    x->reading = rc == FR_OK && bytes.n == 0;
    if (rc == FR_NOTFOUND || rc == FR_USAGE) /* the file is gone, or is no regular file */
        return changed(f, err);
    if (rc != FR_OK || x->reading)
        return rc;
    if (bytes.n > left)
        bytes.n = left;
    if (bytes.n > max)
        bytes.n = max;
    m.put_data = (struct fr_put_data){x->ref, x->offset, bytes};
    x->offset += m.put_data.bytes.n;
    ch->credit -= m.put_data.bytes.n;
    fr_chan_put(ch, &m);
    return FR_OK;
}

/* The put whose turn it is to send; NULL: none has something to send. */
static struct fr_xfer *next_put(const struct fr_chan *ch)
{
    struct fr_xfer *best = NULL;

    for (struct fr_xfer *x = ch->xfers; x != NULL; x = x->next)
        if (x->is_put && x->active && x->phase == SEND && !x->reading &&
            (best == NULL || x->turn < best->turn))
            best = x;
    return best;
}

/* After a flush that leaves bytes the link says when it takes more; after one that leaves none it
 * does not. */
static bool has_room(struct fr_chan *ch)
{
    if (ch->out.n >= OUT_ENOUGH)
        fr_chan_flush(ch);
    return ch->out.n < OUT_ENOUGH;
}

void fr_xfer_pump(struct fr_chan *ch)
{
    struct fr_xfer *x;
    struct fr_err err = {0};

    while (ch->state == FR_CHAN_UP && (x = next_put(ch)) != NULL) {
        if (x->offset == x->files[x->at].size) {
            struct fr_msg m = {.type = FR_MSG_PUT_END, .put_end = {x->ref}};

            x->phase = CHECK;
            fr_xfer_close(x);
            fr_chan_put(ch, &m);
        } else if (ch->credit == 0 || !has_room(ch)) {
            return;
        } else {
            size_t max = ch->credit < FR_BULK_MAX ? (size_t)ch->credit : FR_BULK_MAX;

            x->turn = ++ch->turns;
            if (send_piece(ch, x, max, &err) != FR_OK)
                fr_xfer_fail(ch, x, &err);
        }
        fr_chan_flush(ch);
    }
}

/* STORE, from STORE/path. */
static enum fr_rc learn_dir(struct fr_xfer *x, struct fr_str whole, struct fr_err *err)
{
    const char *path = x->files[x->at].path;
    size_t n = strlen(path);

    if (whole.n <= n + 1 || whole.n > PATH_BYTES || whole.p[0] != '/' ||
        memcmp(whole.p + whole.n - n, path, n) != 0)
        return fr_fail(err, FR_PROTO, "the node says that %s lies at %.*s", path, (int)whole.n,
                       whole.p);
    x->dir = fr_arena_text(&x->arena, whole.p, whole.n - n - 1);
    return x->dir != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a path");
}

static enum fr_rc on_file_done(struct fr_chan *ch, struct fr_xfer *x, struct fr_str path,
                               struct fr_err *err)
{
    enum fr_rc rc = x->dir == NULL ? learn_dir(x, path, err) : FR_OK;

    if (rc == FR_NOMEM)
        fr_chan_try_again(ch);
    if (rc != FR_OK)
        return rc == FR_NOMEM ? FR_OK : rc;
    fr_xfer_close(x);
    if (++x->at == x->n)
        put_done(ch, x);
    else
        begin_put(ch, x);
    return FR_OK;
}

static enum fr_rc on_put_state(struct fr_chan *ch, struct fr_xfer *x, const struct fr_put_state *s,
                               struct fr_err *err)
{
    enum fr_rc rc;

    if (x->at == x->n)
        return FR_OK; /* done; the event is still to be posted */
    if (s->done)
        return on_file_done(ch, x, s->path, err);
    if (x->phase != ASK || s->offset > x->files[x->at].size)
        return fr_fail(err, FR_PROTO, "the node did not take %s", x->files[x->at].path);
    x->offset = s->offset;
    x->phase = SEND;
    if ((rc = open_source(x, err)) == FR_OK)
        fr_xfer_pump(ch);
    return rc;
}

static struct fr_xfer *find(struct fr_chan *ch, uint64_t ref)
{
    struct fr_xfer *x = ch->xfers;

    while (x != NULL && (x->ref != ref || !x->active))
        x = x->next;
    return x;
}

static enum fr_rc on_xfer_error(struct fr_xfer *x, const struct fr_error *e, struct fr_err *err)
{
    const struct fr_ship_file *f = x->is_put ? &x->files[x->at] : NULL;
    enum fr_rc rc = e->rc == 0 || e->rc > FR_BUG ? FR_PROTO : (enum fr_rc)e->rc;

    fr_fail(err, rc, "%s: %.*s", f != NULL ? f->path : x->path, (int)e->text.n, e->text.p);
    if (f != NULL && f->local != NULL && e->rc == FR_CORRUPT)
        rc = changed(f, err);
    x->active = false; /* the node has dropped it */
    return rc;
}

bool fr_xfer_message(struct fr_chan *ch, const struct fr_msg *m)
{
    uint64_t ref = m->type == FR_MSG_ERROR       ? m->error.ref
                   : m->type == FR_MSG_PUT_STATE ? m->put_state.ref
                   : m->type == FR_MSG_GET_DATA  ? m->get_data.ref
                                                 : m->get_end.ref;
    struct fr_xfer *x = find(ch, ref);
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    if (x == NULL)
        return false;
    if (m->type == FR_MSG_ERROR)
        rc = on_xfer_error(x, &m->error, &err);
    else if (m->type == FR_MSG_PUT_STATE && x->is_put)
        rc = on_put_state(ch, x, &m->put_state, &err);
    else if (m->type == FR_MSG_GET_DATA && !x->is_put)
        rc = fr_get_data(ch, x, &m->get_data, &err);
    else if (m->type == FR_MSG_GET_END && !x->is_put)
        rc = fr_get_end(ch, x, &m->get_end, &err);
    if (rc != FR_OK)
        fr_xfer_fail(ch, x, &err);
    return true;
}

struct fr_xfer *fr_xfer_new(struct fr_use *use, uint64_t ref, bool put)
{
    struct fr_xfer *x = fr_sys.alloc(sizeof(*x));

    if (x != NULL)
        *x = (struct fr_xfer){.use = use, .asked = ref, .is_put = put, .fd = -1};
    return x;
}

enum fr_rc fr_xfer_add(struct fr_xfer *x)
{
    struct fr_xfer **at = &x->use->ch->xfers;

    while (*at != NULL)
        at = &(*at)->next;
    *at = x;
    x->ref = ++x->use->ch->last_ref;
    fr_use_begin(x->use);
    start_next(x->use, x->is_put);
    return FR_OK;
}

static bool copy_file(struct fr_xfer *x, struct fr_ship_file *to, const struct fr_ship_file *from)
{
    *to = *from;
    to->path = fr_arena_dup(&x->arena, from->path);
    to->sha256 = fr_arena_dup(&x->arena, from->sha256);
    if (from->local != NULL)
        to->local = fr_arena_dup(&x->arena, from->local);
    else
        to->bytes.p = fr_arena_text(&x->arena, from->bytes.p, from->bytes.n);
    return to->path != NULL && to->sha256 != NULL && (to->local != NULL || to->bytes.p != NULL);
}

enum fr_rc fr_xfer_put(struct fr_use *use, uint64_t ref, const struct fr_ship_file *v, size_t n,
                       struct fr_err *err)
{
    const char *name = use->ch->node.name;
    struct fr_xfer *x;
    bool ok;

    if (ref == 0 || n == 0)
        return fr_fail(err, FR_BUG, "a put of nothing to node %s", name);
    if ((x = fr_xfer_new(use, ref, true)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a put to node %s", name);
    x->n = n;
    x->files = fr_arena_array(&x->arena, n, sizeof(*x->files));
    ok = x->files != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = copy_file(x, &x->files[i], &v[i]);
    if (!ok) {
        fr_xfer_free(x);
        return fr_fail(err, FR_NOMEM, "no memory for a put to node %s", name);
    }
    return fr_xfer_add(x);
}

void fr_xfer_leave(struct fr_use *use)
{
    for (struct fr_xfer **at = &use->ch->xfers, *x; (x = *at) != NULL;) {
        if (x->use != use) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        fr_xfer_free(x);
    }
}