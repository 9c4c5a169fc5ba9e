/* Which link a node is reached by: its own child process, libssh2, or the system's ssh. */
#include "engine/exec/private.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"
#include "engine/link/child.h"

#include <string.h>

enum { ANSWER_MAX = 256 << 10, NO_PROGRAM = 127 };

static enum fr_rc route_local(struct fr_chan *ch, struct fr_err *err)
{
    const struct fr_nodes_args *a = &ch->ex->args;
    struct fr_arena arena = {0};
    char *program = fr_arena_fmt(&arena, "%s/flownode", a->flownode_dir);
    char *home = fr_arena_fmt(&arena, "%s/nodes/%s", a->home, ch->node.name);
    const char *argv[] = {program, "serve", "--home", home, NULL};
    enum fr_rc rc = FR_OK;

    if (program == NULL || home == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a link");
    if (rc == FR_OK)
        rc = fr_mkdirs(home, 0700, err);
    if (rc == FR_OK)
        rc = fr_check_private(home, "the node's folder", "remove it", err);
    if (rc == FR_OK)
        rc = fr_link_local_create(&ch->link, ch->ex->loop, argv, err);
    fr_arena_finish(&arena);
    return rc;
}

/* The home's name holds the store's id: users may share a work folder. */
static bool name_home(const struct fr_chan *ch, struct fr_arena *arena, struct fr_boot_home *out)
{
    char id[FR_ID_TEXT], *old;

    fr_id_text(ch->ex->args.control, id);
    old = fr_arena_fmt(arena, "%.12s-%s", id, ch->node.name);
    for (char *p = old; p != NULL && *p != '\0'; p++)
        if (*p == '/')
            *p = '_';
    *out = (struct fr_boot_home){ch->node.work, fr_arena_fmt(arena, "%.12s", id), old};
    return out->name != NULL && old != NULL;
}

/* Chooses libssh2 or the system's ssh by the configuration; a note has the reason for the latter.
 */
static enum fr_rc choose(struct fr_chan *ch, bool no_client, enum fr_transport *t,
                         struct fr_err *err)
{
    const char *needs = ch->conf.needs_ssh, *why = needs != NULL ? needs : ch->conf.no_key;
    struct fr_buf note = {0};

    *t = ch->node.transport;
    if (*t == FR_TRANSPORT_LIBSSH2 && needs != NULL)
        return fr_fail(err, FR_USAGE, "libssh2 cannot honour '%s': set transport: openssh, or auto",
                       needs);
    if (*t == FR_TRANSPORT_AUTO)
        *t = needs != NULL || (why != NULL && !no_client) ? FR_TRANSPORT_OPENSSH
                                                          : FR_TRANSPORT_LIBSSH2;
    if (*t == FR_TRANSPORT_OPENSSH && no_client)
        return fr_fail(err, FR_UNSUPPORTED,
                       "there is no program ssh here (package openssh-client), and this node needs "
                       "it: %s",
                       needs != NULL ? needs : "transport: openssh");
    if (*t != ch->node.transport && *t == FR_TRANSPORT_OPENSSH) {
        fr_buf_fmt(&note, "by the system's ssh: %s", why);
        if (!note.bad)
            fr_chan_tell(ch, FR_EXEC_NOTE, note.p);
    }
    fr_buf_finish(&note);
    return FR_OK;
}

/* answer: NULL where no configuration is read. */
static enum fr_rc make_ssh_link(struct fr_chan *ch, const struct fr_ssh_answer *answer,
                                bool no_client, struct fr_err *err)
{
    const struct fr_ssh_target *target = &ch->node.ssh;
    enum fr_transport t = FR_TRANSPORT_AUTO;
    enum fr_rc rc;

    fr_arena_finish(&ch->conf_arena);
    rc = fr_ssh_conf_load(target, answer, &ch->conf_arena, &ch->conf, err);
    if (rc == FR_OK)
        fr_chan_tell(ch, FR_EXEC_CONFIG, ch->conf.used);
    if (rc == FR_OK)
        rc = choose(ch, no_client, &t, err);
    if (rc == FR_OK && t == FR_TRANSPORT_LIBSSH2)
        rc = fr_link_ssh_create(&ch->link, ch->ex->loop, &ch->conf, fr_boot_command(), err);
    else if (rc == FR_OK)
        rc = fr_link_openssh_create(&ch->link, ch->ex->loop, target, fr_boot_command(), err);
    return rc;
}

/* Without a client no configuration can be read: the link uses the inventory's values, and a note
 * reports this. */
static enum fr_rc no_client(struct fr_chan *ch, struct fr_err *err)
{
    const char *config = ch->node.ssh.config;

    if (config != NULL && config[0] != '\0')
        return fr_fail(err, FR_NOTFOUND,
                       "there is no program ssh here (package openssh-client) to read %s", config);
    if (fr_ssh_conf_unread())
        fr_chan_tell(ch, FR_EXEC_NOTE,
                     "there is no program ssh here: ~/.ssh/config and the system's ssh_config "
                     "are not read");
    return make_ssh_link(ch, NULL, true, err);
}

static void on_answer_bytes(void *arg, const char *p, size_t n)
{
    struct fr_chan *ch = arg;

    if (ch->answer.n + n <= ANSWER_MAX)
        fr_buf_add(&ch->answer, p, n);
}

/* `ssh -G` ended: its output is the defaults, a line ".", and the directives in force. */
static void on_answer(void *arg, const struct fr_err *ended, bool ran)
{
    static const char mark[] = "\n.\n";
    struct fr_chan *ch = arg;
    struct fr_buf *all = &ch->answer, *defaults = &ch->ex->ssh_defaults;
    struct fr_err err = *ended;
    const char *end = all->n > 0 ? strstr(all->p, mark) : NULL;
    size_t cut = end == NULL ? 0 : (size_t)(end - all->p) + 1;
    enum fr_rc rc = ended->rc;

    (void)ran;
    fr_link_destroy(&ch->ask);
    if (rc == FR_OK && defaults->n == 0)
        fr_buf_add(defaults, all->p, cut);
    if (rc == FR_OK && (all->bad || defaults->bad))
        rc = fr_fail(&err, FR_NOMEM, "no memory for the ssh configuration");
    if (cut > 0)
        fr_buf_cut(all, cut + 2);
    if (rc == FR_OK)
        rc = make_ssh_link(
            ch, &(struct fr_ssh_answer){{all->p, all->n}, {defaults->p, defaults->n}}, false, &err);
    else if (rc == FR_NOTFOUND)
        rc = no_client(ch, &err);
    fr_buf_finish(all);
    *all = (struct fr_buf){0};
    if (rc == FR_OK)
        fr_chan_open(ch);
    else
        fr_chan_lost(ch, &err, false);
}

static void no_event(void *arg)
{
    (void)arg;
}

static enum fr_rc judge_answer(int code, struct fr_str tail, struct fr_buf *advice)
{
    (void)tail;
    (void)advice;
    return code == 0 ? FR_OK : code == NO_PROGRAM ? FR_NOTFOUND : FR_USAGE;
}

/* Starts `ssh -G` for the node, and once also for a host without a configuration. */
static enum fr_rc ask_ssh(struct fr_chan *ch, struct fr_err *err)
{
    static const char both[] = "command -v ssh >/dev/null || exit 127; "
                               "ssh -T -G -F none -- none && echo . && exec ssh -T -G \"$@\"";
    static const char one[] = "exec ssh -T -G \"$@\"";
    const struct fr_link_events events = {no_event, on_answer_bytes, no_event, on_answer, ch};
    const char *argv[FR_SSH_ARGS_MAX + 5] = {"/bin/sh", "-c", both, "sh"};
    struct fr_child_args args = {.argv = argv, .die_with_parent = true, .judge = judge_answer};
    struct fr_arena arena = {0};
    size_t n = 4;
    enum fr_rc rc = fr_ssh_target_args(&ch->node.ssh, &arena, argv, &n, err);

    if (ch->ex->ssh_defaults.n > 0)
        argv[2] = one;
    argv[n] = NULL;
    args.what = fr_arena_fmt(&arena, "ssh -G %s", ch->node.ssh.host);
    if (rc == FR_OK && args.what == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a link");
    fr_link_destroy(&ch->ask);
    if (rc == FR_OK)
        rc = fr_link_child_create(&ch->ask, ch->ex->loop, &args, err);
    if (rc == FR_OK)
        rc = ch->ask.ops->open(ch->ask.self, &events, err);
    if (rc != FR_OK)
        fr_link_destroy(&ch->ask);
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc route_ssh(struct fr_chan *ch, struct fr_err *err)
{
    const char *config = ch->node.ssh.config;
    struct fr_arena arena = {0};
    struct fr_boot_home home;
    enum fr_rc rc = FR_OK;

    ch->folders.n = 0;
    if (!name_home(ch, &arena, &home))
        rc = fr_fail(err, FR_NOMEM, "no memory for a link");
    if (rc == FR_OK)
        rc = fr_boot_folders(&home, &ch->folders, err);
    ch->boot.folders = (struct fr_str){ch->folders.p, ch->folders.n};
    ch->booting = true;
    if (rc == FR_OK && config != NULL && strcmp(config, "none") == 0)
        rc = make_ssh_link(ch, NULL, false, err);
    else if (rc == FR_OK)
        rc = ask_ssh(ch, err);
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc find_place(struct fr_chan *ch, struct fr_arena *arena, struct fr_exec_place *out,
                             struct fr_err *err)
{
    if (ch->ex->find_place == NULL)
        return fr_fail(err, FR_BUSY, "nobody knows where %s is", ch->node.name);
    return ch->ex->find_place(ch->ex->find_arg, &ch->node, arena, out, err);
}

enum fr_rc fr_chan_find(struct fr_chan *ch, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_exec_place place = {0};
    enum fr_rc rc = find_place(ch, &arena, &place, err);

    if (rc != FR_BUSY)
        fr_link_destroy(&ch->link); /* it may be another machine now */
    ch->in.swaps = ch->ex->args.make_link == NULL;
    if (rc == FR_OK && ch->in.swaps)
        rc = place.runner->ops->make(
            place.runner->self, &(struct fr_runner_command){.what = place.what, .argv = place.argv},
            &ch->link, err);
    fr_arena_finish(&arena);
    return rc;
}

void fr_chan_leave_place(struct fr_chan *ch)
{
    struct fr_arena arena = {0};
    struct fr_exec_place place;
    struct fr_err err = {0};
    bool leaves = find_place(ch, &arena, &place, &err) == FR_BUSY;

    if (leaves && ch->acks.first == NULL) {
        err.rc = FR_UNREACHABLE;
        fr_chan_lost(ch, &err, false);
    } else if (leaves && !ch->leaves) {
        fr_loop_arm_in(ch->ex->loop, ch->timer, 0); /* pings, and looks again */
    }
    ch->leaves = leaves && ch->state == FR_CHAN_UP;
    fr_arena_finish(&arena);
}

enum fr_rc fr_chan_route(struct fr_chan *ch, struct fr_err *err)
{
    const struct fr_nodes_args *a = &ch->ex->args;

    if (a->make_link != NULL)
        return a->make_link(a->make_link_arg, &ch->node, &ch->link, err);
    if (ch->node.transport == FR_TRANSPORT_LOCAL)
        return route_local(ch, err);
    return route_ssh(ch, err);
}
