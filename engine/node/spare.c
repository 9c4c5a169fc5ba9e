/* Spare supervisors: idle processes that are kept for the next attempts, because a new process
 * costs more than a short task. */
#include "engine/supervise/cgroup.h"
#include "engine/node/private.h"
#include "engine/supervise/supervise.h"

/* A supervisor that still has a partly written message is closed: the rest of the message would
 * corrupt the next attempt's handover. */
void srv_spare_keep(struct srv *s, struct srv_live *l)
{
    if (l->fd >= 0 && l->out.n == 0 && s->n_spare < SRV_SPARE)
        s->spare[s->n_spare++] = l->fd;
    else
        fr_fd_close(&l->fd);
    l->fd = -1;
}

void srv_spare_gone(struct srv *s, int fd)
{
    for (size_t i = 0; i < s->n_spare; i++)
        if (s->spare[i] == fd) {
            fr_sys.close(fd);
            s->spare[i] = s->spare[--s->n_spare];
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

void srv_cgroup_tidy(struct srv *s)
{
    if (find_own(s))
        fr_cgroup_tidy(s->cgroup);
}

void srv_supervisor_cgroup(struct srv *s, struct fr_id socket_id, char path[FR_NODE_PATH])
{
    path[0] = '\0';
    if (find_own(s))
        fr_cgroup_path(fr_str_of(s->cgroup), socket_id, path);
}

static enum fr_rc start_supervisor(struct srv *s, int *fd, struct fr_err *err)
{
    char cgroup[FR_NODE_PATH];
    struct fr_supervisor_args a = {.home = s->home.path, .cgroup = cgroup};
    enum fr_rc rc = fr_id_new(&a.socket_id, err);

    if (rc != FR_OK)
        return rc;
    srv_supervisor_cgroup(s, a.socket_id, cgroup);
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

enum fr_rc srv_hand_over(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                         struct fr_err *err)
{
    enum fr_rc rc;

    fr_buf_finish(&l->order);
    if ((rc = fr_supervise_message(sup, &l->order, err)) != FR_OK)
        return rc;
    l->handed_over = s->n_spare == 0;
    if (l->handed_over)
        rc = start_supervisor(s, &l->fd, err);
    else
        l->fd = s->spare[--s->n_spare];
    if (rc != FR_OK)
        return rc;
    fr_buf_add(&l->out, l->order.p, l->order.n);
    return l->out.bad ? fr_fail(err, FR_NOMEM, "no memory to start a supervisor") : FR_OK;
}

bool srv_hand_over_again(struct srv *s, struct srv_live *l)
{
    struct fr_err err;

    if (l->order.n == 0 || l->handed_over || start_supervisor(s, &l->fd, &err) != FR_OK)
        return false;
    l->handed_over = true;
    fr_buf_finish(&l->out);
    fr_buf_add(&l->out, l->order.p, l->order.n);
    return !l->out.bad;
}

void srv_spare_finish(struct srv *s)
{
    while (s->n_spare > 0)
        fr_sys.close(s->spare[--s->n_spare]);
}
