#include "engine/link/runner.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "engine/link/child.h"

struct local {
    struct fr_loop *loop; /* borrows */
    struct fr_arena arena;
    const char **envp;
};

static enum fr_rc local_make(void *self, const struct fr_runner_command *command,
                             struct fr_link *out, struct fr_err *err)
{
    struct local *l = self;

    return fr_link_child_create(out, l->loop,
                                &(struct fr_child_args){.what = command->what,
                                                        .argv = command->argv,
                                                        .envp = l->envp,
                                                        .die_with_parent = true,
                                                        .own_failure = -1},
                                err);
}

static void local_destroy(void *self)
{
    struct local *l = self;

    fr_arena_finish(&l->arena);
    fr_sys.free(l);
}

static const struct fr_runner_ops local_ops = {
    .name = "local", .make = local_make, .code = fr_link_child_code, .destroy = local_destroy};

enum fr_rc fr_runner_local_create(struct fr_runner *out, struct fr_loop *loop,
                                  const char *const *envp, struct fr_err *err)
{
    struct local *l = fr_sys.alloc(sizeof(*l));
    size_t n = 0;
    bool whole = l != NULL;

    *out = (struct fr_runner){0};
    if (whole) {
        *l = (struct local){.loop = loop};
        while (envp[n] != NULL)
            n++;
        whole = (l->envp = fr_arena_array(&l->arena, n + 1, sizeof(*l->envp))) != NULL;
    }
    for (size_t i = 0; i < n && whole; i++)
        whole = (l->envp[i] = fr_arena_dup(&l->arena, envp[i])) != NULL;
    if (!whole) {
        if (l != NULL)
            local_destroy(l);
        return fr_fail(err, FR_NOMEM, "no memory for commands of Slurm");
    }
    *out = (struct fr_runner){&local_ops, l};
    return FR_OK;
}

bool fr_runner_ready(const struct fr_runner *r)
{
    return r->ops->ready == NULL || r->ops->ready(r->self);
}

void fr_runner_destroy(struct fr_runner *r)
{
    if (r == NULL || r->ops == NULL)
        return;
    r->ops->destroy(r->self);
    *r = (struct fr_runner){0};
}
