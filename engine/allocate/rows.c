/* Allocations and their rows: an event changes one, and its row is written in the same turn. */
#include "engine/allocate/private.h"

#include <stdio.h>

struct host_allocations *allocations_of(const struct fr_host *host)
{
    return host_state(host, &allocations_part);
}

void alloc_apply(struct host_allocation *al, const struct fr_allocation_event *ev)
{
    struct fr_allocation_now now;

    fr_allocation_apply(&al->a, ev, fr_sys.mono_ms(), fr_sys.wall_ms(), &now);
    al->due |= now.actions;
    al->twin = now.twin != 0 ? now.twin : al->twin;
    al->dirty |= now.changed;
    al->host->woken |= now.changed || now.actions != 0;
}

/* The row's texts are those of the life until the next event: rows are written before. */
static void to_row(struct host_allocation *al)
{
    const struct fr_allocation_life *l = &al->a.life;
    struct fr_allocation_row *row = &al->row;

    row->state = l->state;
    row->job = l->job;
    row->element = l->element;
    row->submits = l->submits;
    row->slurm = l->slurm;
    row->reason = l->reason;
    row->estimate_wall = l->estimate_wall;
    row->submitted_wall = l->submitted_wall;
    row->start_wall = l->start_wall;
    row->end_wall = l->end_wall;
    row->ended_wall = l->ended_wall;
    row->cause = l->cause;
    row->proven = l->proven;
    row->note = l->note;
    row->elapsed_ms = l->elapsed_ms;
    if (al->cluster->name[0] != '\0')
        row->cluster = al->cluster->name;
}

void alloc_life(const struct fr_allocation_row *row, struct fr_allocation_life *l)
{
    *l = (struct fr_allocation_life){.state = row->state,
                                     .job = row->job,
                                     .element = row->element,
                                     .submits = row->submits,
                                     .estimate_wall = row->estimate_wall,
                                     .submitted_wall = row->submitted_wall,
                                     .start_wall = row->start_wall,
                                     .end_wall = row->end_wall,
                                     .ended_wall = row->ended_wall,
                                     .elapsed_ms = row->elapsed_ms,
                                     .cause = row->cause,
                                     .proven = row->proven != 0};
    snprintf(l->slurm, sizeof(l->slurm), "%s", row->slurm);
    snprintf(l->reason, sizeof(l->reason), "%s", row->reason);
    snprintf(l->note, sizeof(l->note), "%s", row->note);
}

static bool any_dirty(const struct host_allocations *all)
{
    for (const struct host_allocation *al = all->first; al != NULL; al = al->next)
        if (al->dirty)
            return true;
    return false;
}

enum fr_rc alloc_write(struct fr_host *host, struct fr_err *err)
{
    enum fr_rc rc;

    if (!any_dirty(allocations_of(host)))
        return FR_OK;
    if ((rc = fr_store_begin(host->env.store, err)) != FR_OK)
        return rc;
    for (struct host_allocation *al = allocations_of(host)->first; rc == FR_OK && al != NULL;
         al = al->next) {
        if (!al->dirty)
            continue;
        alloc_account_begin(al);
        to_row(al);
        rc = al->stored ? fr_store_allocation_set(host->env.store, &al->row, err)
                        : fr_store_allocation_add(host->env.store, &al->row, err);
    }
    return fr_store_end(host->env.store, rc, err);
}
