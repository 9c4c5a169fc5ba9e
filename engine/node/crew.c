/* Supervisors without an attempt, kept for the next: a new process costs more than a task that does
 * little. */
#include "engine/node/cgroup.h"
#include "engine/node/srv.h"
#include "engine/node/supervise.h"

/* A message that did not all go out would garble the next attempt's. */
void srv_crew_keep(struct srv *s, struct srv_live *l)
{
    if (l->fd >= 0 && l->out.n == 0 && s->n_crew < SRV_CREW)
        s->crew[s->n_crew++] = l->fd;
    else if (l->fd >= 0)
        fr_sys.close(l->fd);
    l->fd = -1;
}

void srv_crew_gone(struct srv *s, int fd)
{
    for (size_t i = 0; i < s->n_crew; i++)
        if (s->crew[i] == fd) {
            fr_sys.close(fd);
            s->crew[i] = s->crew[--s->n_crew];
            srv_live_tidy(s);
            return;
        }
}

static bool find_own(struct srv *s)
{
    if (s->cgroup[0] == '\0' && !s->no_cgroups)
        s->no_cgroups = !fr_cgroup_own(s->cgroup);
    return !s->no_cgroups;
}

void srv_crew_tidy(struct srv *s)
{
    if (find_own(s))
        fr_cgroup_tidy(s->cgroup);
}

void srv_crew_cgroup(struct srv *s, struct fr_id door, char path[FR_NODE_PATH])
{
    path[0] = '\0';
    if (find_own(s))
        fr_cgroup_path(fr_str_of(s->cgroup), door, path);
}

static enum fr_rc hire(struct srv *s, int *fd, struct fr_err *err)
{
    char cgroup[FR_NODE_PATH];
    struct fr_supervisor_args a = {.home = s->home.path, .cgroup = cgroup};
    enum fr_rc rc = fr_id_new(&a.door, err);

    if (rc != FR_OK)
        return rc;
    srv_crew_cgroup(s, a.door, cgroup);
    if (cgroup[0] != '\0' && fr_sys.mkdir(cgroup, 0755) != 0) {
        s->no_cgroups = true; /* only root may, or who was given one */
        cgroup[0] = '\0';
    }
    rc = fr_supervisor_start(&a, fd, err);
    if (rc == FR_OK)
        fr_sys.set_nonblock(*fd, true);
    else
        fr_cgroup_remove(cgroup);
    return rc;
}

enum fr_rc srv_crew_hand(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                         struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_HANDOVER};
    struct fr_buf bytes = {0};
    enum fr_rc rc;

    fr_supervise_put(sup, &bytes);
    m.handover.bytes = (struct fr_str){bytes.p, bytes.n};
    fr_buf_finish(&l->order);
    rc = bytes.bad ? fr_fail(err, FR_NOMEM, "no memory to start a supervisor")
                   : fr_msg_put(&m, &l->order, err);
    fr_buf_finish(&bytes);
    if (rc != FR_OK)
        return rc;
    l->hired = s->n_crew == 0;
    if (l->hired)
        rc = hire(s, &l->fd, err);
    else
        l->fd = s->crew[--s->n_crew];
    if (rc != FR_OK)
        return rc;
    fr_buf_add(&l->out, l->order.p, l->order.n);
    return l->out.bad ? fr_fail(err, FR_NOMEM, "no memory to start a supervisor") : FR_OK;
}

bool srv_crew_again(struct srv *s, struct srv_live *l)
{
    struct fr_err err;

    if (l->order.n == 0 || l->hired || hire(s, &l->fd, &err) != FR_OK)
        return false;
    l->hired = true;
    fr_buf_finish(&l->out);
    fr_buf_add(&l->out, l->order.p, l->order.n);
    return !l->out.bad;
}

void srv_crew_finish(struct srv *s)
{
    while (s->n_crew > 0)
        fr_sys.close(s->crew[--s->n_crew]);
}
