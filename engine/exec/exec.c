#include "engine/exec/exec.h"

#include "engine/base/sys.h"

void fr_exec_event_free(struct fr_exec_event *ev)
{
    if (ev == NULL)
        return;
    fr_arena_finish(&ev->arena);
    fr_sys.free(ev);
}

void fr_exec_destroy(struct fr_exec *ex)
{
    if (ex == NULL || ex->ops == NULL)
        return;
    ex->ops->destroy(ex->self);
    *ex = (struct fr_exec){0};
}
