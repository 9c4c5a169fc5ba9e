#include "engine/node/shim.h"

#include "engine/supervise/environ.h"
#include "engine/node/keep.h"
#include "engine/node/private.h"
#include "engine/supervise/supervise.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { READ_PIECE = 16 << 10 };

/* serve's side */

enum fr_rc srv_shim_start(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                          struct fr_err *err)
{
    const struct fr_container *c = &sup->prepare.request.container;
    struct fr_arena arena = {0};
    char id[FR_ID_TEXT];
    const struct fr_strs *base[] = {&s->environ};
    enum fr_rc rc;

    fr_id_text(sup->prepare.attempt, id);
    fr_home_unlink(s->home.path, FR_HOME_SOCKET, sup->prepare.attempt);
    snprintf(l->box, sizeof(l->box), "%.*s", (int)c->name.n, c->name.p);
    struct fr_str words[] = {c->runtime,          FR_STR("exec"),  FR_STR("-d"),     c->name,
                             c->flownode,         FR_STR("shim"),  FR_STR("--home"), c->home,
                             FR_STR("--attempt"), {id, strlen(id)}};
    struct fr_strs list = {words, sizeof(words) / sizeof(words[0])};
    struct fr_spawn sp = {.argv = fr_vector(&list, &arena),
                          .envp = fr_environ_make(base, 1, &arena),
                          .fds = {-1, -1, -1}};
    if (sp.argv == NULL || sp.envp == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to start a shim");
    else if ((rc = fr_supervise_message(sup, &l->out, err)) == FR_OK &&
             fr_sys.spawn(&sp, &l->runtime) != 0)
        rc = fr_fail_errno(err, errno, "cannot run %s", sp.argv[0]);
    l->shim_until_ms = rc == FR_OK ? fr_sys.mono_ms() + SRV_SHIM_MS : 0;
    l->due_ms = fr_sys.mono_ms();
    fr_arena_finish(&arena);
    return rc;
}

/* The shim's side */

struct flat { /* what fr_sys.detach copies */
    int sock; /* listening */
    char home[FR_HOME_MAX], self[FR_NODE_PATH];
    size_t n_environ;
    char environ[]; /* NUL-terminated texts */
};

/* Reads from fd until a handover is whole. */
static enum fr_rc take_handover(int fd, struct fr_arena *arena, struct fr_msg *m,
                                struct fr_err *err)
{
    struct fr_wire_in in = {0};
    char piece[READ_PIECE];
    enum fr_rc rc = FR_OK;
    bool got = false;

    while (rc == FR_OK && !got) {
        ssize_t k = fr_sys.read(fd, piece, sizeof(piece));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            rc = fr_fail(err, FR_UNREACHABLE, "serve went away");
            break;
        }
        fr_wire_feed(&in, piece, (size_t)k);
        rc = fr_wire_next(&in, arena, m, &got, err);
    }
    fr_wire_finish(&in);
    if (rc == FR_OK && m->type != FR_MSG_HANDOVER)
        rc = fr_fail(err, FR_PROTO, "a %s message instead of a handover", fr_msg_name(m->type));
    return rc;
}

/* The paths of the container, and its environment, in place of the node's, but for the variables of
 * Slurm, which name what the job has. The work folder has the same path in both
 * (tasks/container.c). False without memory. */
static bool adapt(const struct flat *f, struct fr_arena *arena, struct fr_supervise *sup)
{
    const char *p = f->environ;
    const char **v = fr_arena_array(arena, f->n_environ + 1, sizeof(char *));
    const struct fr_strs node = sup->environ;

    if (v == NULL || !fr_environ_work(&sup->prepare.request.env, &sup->environ, arena))
        return false;
    for (size_t i = 0; i < f->n_environ; i++, p += strlen(p) + 1)
        v[i] = p;
    sup->home = fr_str_of(f->home);
    sup->self = fr_str_of(f->self);
    return fr_environ_base(v, NULL, arena, &sup->environ) &&
           fr_environ_pass(&sup->environ, &node, fr_keep_environ, arena);
}

static int body(void *arg)
{
    struct flat *f = arg;
    struct pollfd p = {.fd = f->sock, .events = POLLIN};
    struct fr_arena arena = {0};
    struct fr_supervise sup;
    struct fr_msg m;
    struct fr_err err;
    int fd = fr_sys.poll(&p, 1, SRV_SHIM_MS) > 0 ? fr_sys.accept(f->sock) : -1, code = 1;

    fr_sys.close(f->sock);
    if (fd >= 0 && take_handover(fd, &arena, &m, &err) == FR_OK &&
        fr_supervise_get(m.handover.bytes, &arena, &sup, &err) == FR_OK && adapt(f, &arena, &sup)) {
        code = fr_supervise_run(&sup, fd);
    } else if (fd >= 0) {
        fr_sys.close(fd);
    }
    fr_arena_finish(&arena);
    return code;
}

enum fr_rc fr_shim(const struct fr_shim_args *a, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    struct fr_buf b = {0};
    struct flat head = {0};
    enum fr_rc rc = FR_OK;

    if (strlen(a->home) >= sizeof(head.home) || strlen(a->self) >= sizeof(head.self))
        return fr_fail(err, FR_USAGE, "too long a path");
    memcpy(head.home, a->home, strlen(a->home));
    memcpy(head.self, a->self, strlen(a->self));
    fr_home_path(a->home, FR_HOME_SOCKET, a->attempt, path);
    fr_sys.unlink(path);
    if ((head.sock = fr_sys.listen_unix(path)) < 0)
        return fr_fail_errno(err, errno, "cannot listen on %s", path);
    while (a->environ != NULL && a->environ[head.n_environ] != NULL)
        head.n_environ++;
    fr_buf_add(&b, &head, offsetof(struct flat, environ));
    for (size_t i = 0; i < head.n_environ; i++)
        fr_buf_add(&b, a->environ[i], strlen(a->environ[i]) + 1);
    struct fr_detach d = {body, b.p, b.n, &head.sock, 1, NULL};
    if (b.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to start a supervisor");
    else if (fr_sys.detach(&d) != 0)
        rc = fr_fail_errno(err, errno, "cannot start a supervisor");
    fr_buf_finish(&b);
    fr_sys.close(head.sock);
    return rc;
}
