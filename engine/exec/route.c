/* Which link a node is reached by: its own child process, libssh2, or the system's ssh. */
#include "engine/exec/chan.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"

#include <string.h>

static void post_note(struct fr_chan *ch, const char *text)
{
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_NOTE);

    if (ev == NULL)
        return; /* a note less */
    ev->text = fr_str_of(fr_arena_dup(&ev->arena, text));
    fr_chan_post(ch, ev);
}

static enum fr_rc route_local(struct fr_chan *ch, struct fr_err *err)
{
    const struct fr_exec_node_args *a = &ch->ex->args;
    struct fr_arena arena = {0};
    char *program = fr_arena_fmt(&arena, "%s/flownode", a->flownode_dir);
    char *home = fr_arena_fmt(&arena, "%s/nodes/%s", a->home, ch->node->name);
    const char *argv[] = {program, "serve", "--home", home, NULL};
    enum fr_rc rc = FR_OK;

    if (program == NULL || home == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a link");
    if (rc == FR_OK)
        rc = fr_mkdirs(home, 0700, err);
    if (rc == FR_OK)
        rc = fr_link_local_create(&ch->link, ch->ex->loop, argv, err);
    fr_arena_finish(&arena);
    return rc;
}

/* One home for each control home and node name: users share work folders, machines share $HOME. */
static char *home_name(const struct fr_chan *ch, struct fr_arena *arena)
{
    char id[FR_ID_TEXT], *name;

    fr_id_text(ch->ex->args.control, id);
    name = fr_arena_fmt(arena, "%.12s-%s", id, ch->node->name);
    for (char *p = name; p != NULL && *p != '\0'; p++)
        if (*p == '/')
            *p = '_';
    return name;
}

static enum fr_rc route_ssh(struct fr_chan *ch, struct fr_err *err)
{
    enum fr_transport t = ch->node->transport;
    struct fr_arena arena = {0};
    struct fr_buf command = {0}, why = {0};
    char *home = home_name(ch, &arena);
    enum fr_rc rc = FR_OK;

    if (home == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a link");
    if (rc == FR_OK && t == FR_TRANSPORT_AUTO)
        rc = fr_transport_choose(&ch->node->ssh, &t, &why, err);
    if (rc == FR_OK)
        rc = fr_boot_command(ch->node->work, home, &command, err);
    if (rc == FR_OK && t == FR_TRANSPORT_LIBSSH2)
        rc = fr_link_ssh_create(&ch->link, ch->ex->loop, &ch->node->ssh, command.p, err);
    else if (rc == FR_OK)
        rc = fr_link_openssh_create(&ch->link, ch->ex->loop, &ch->node->ssh, command.p, err);
    if (rc == FR_OK && why.n > 0)
        post_note(ch, why.p);
    ch->booting = true;
    fr_buf_finish(&why);
    fr_buf_finish(&command);
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc fr_chan_route(struct fr_chan *ch, struct fr_err *err)
{
    const struct fr_exec_node_args *a = &ch->ex->args;

    if (a->make_link != NULL)
        return a->make_link(a->make_link_arg, ch->index, &ch->link, err);
    if (ch->node->transport == FR_TRANSPORT_LOCAL)
        return route_local(ch, err);
    return route_ssh(ch, err);
}
