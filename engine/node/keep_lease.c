#include "engine/node/keep_lease.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/node/closing.h"
#include "engine/supervise/environ.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOKS = 10, /* in the time of a lease … */
    LOOK_MIN_MS = 50,
    LOOK_MAX_MS = 10000, /* … but not more seldom */
    STOPPED_MS = 30000,  /* a keeper that looks so late was stopped: its links were, too */
    VERDICT_MAX = 100
};

static const char renewed[] = "renewed\n", over[] = "over\n";

enum fr_rc keep_lease_init(struct keep_lease *l, const struct keep_place *p,
                           const struct fr_keep_args *a, struct fr_err *err)
{
    int64_t places = 1;
    enum fr_rc rc = FR_OK;

    if (a->lease_ms > 0)
        rc = keep_places(a, &places, err);
    *l = (struct keep_lease){.place = p,
                             .ms = a->lease_ms,
                             .places = (int)places,
                             .since_ms = fr_sys.mono_ms(),
                             .looked_ms = fr_sys.mono_ms()};
    return rc;
}

static int64_t look_every(const struct keep_lease *l)
{
    int64_t ms = l->ms / LOOKS;

    return ms > LOOK_MAX_MS ? LOOK_MAX_MS : ms < LOOK_MIN_MS ? LOOK_MIN_MS : ms;
}

int keep_lease_wait(const struct keep_lease *l)
{
    int64_t left = l->looked_ms + look_every(l) - fr_sys.mono_ms();

    if (l->ms == 0 || l->over)
        return -1;
    return left > 0 ? (int)left : 0;
}

/* ---- files ---- */

static void verdict_path(const struct keep_lease *l, char out[FR_NODE_PATH])
{
    snprintf(out, FR_NODE_PATH, "%s/lease.%d", l->place->folder, l->generation);
}

static void quiet_path(const struct keep_lease *l, int place, char out[FR_NODE_PATH])
{
    snprintf(out, FR_NODE_PATH, "%s/quiet.%d.%d", l->place->folder, l->generation, place);
}

/* Whatever was decided binds. True: something was. */
static bool take_verdict(struct keep_lease *l)
{
    char path[FR_NODE_PATH];
    struct fr_buf b = {0};
    bool is_renewed, is_over;

    verdict_path(l, path);
    is_renewed = is_over = fr_file_read(path, VERDICT_MAX, &b, NULL) == FR_OK && !b.bad;
    is_renewed = is_renewed && fr_str_is((struct fr_str){b.p, b.n}, renewed);
    is_over = is_over && fr_str_is((struct fr_str){b.p, b.n}, over);
    fr_buf_finish(&b);
    if (is_renewed) {
        l->generation++;
        l->agreed = 0;
        l->since_ms = l->quiet ? fr_sys.mono_ms() : l->since_ms;
        l->quiet = false;
    }
    l->over = l->over || is_over;
    return is_renewed || is_over;
}

/* False: the folder could not be written, and nothing is decided. */
static bool decide(struct keep_lease *l, const char *verdict)
{
    char path[FR_NODE_PATH];
    struct fr_err err;

    verdict_path(l, path);
    return keep_make_once(l->place, path, fr_str_of(verdict), &err) == FR_OK && take_verdict(l);
}

static bool all_agree(struct keep_lease *l)
{
    char path[FR_NODE_PATH];
    struct stat st;

    while (l->agreed < l->places) {
        quiet_path(l, l->agreed + 1, path);
        if (fr_sys.lstat(path, &st) != 0)
            return false;
        l->agreed++;
    }
    return true;
}

/* ---- looks ---- */

/* What is not known counts as use. */
static bool is_used(const struct keep_lease *l)
{
    size_t owed;

    return fr_closing_owed(l->place->home, &owed, NULL) != FR_OK || owed > 0;
}

static bool is_quiet(struct keep_lease *l, int64_t heard_ms)
{
    int64_t now = fr_sys.mono_ms();

    if (heard_ms > l->since_ms)
        l->since_ms = heard_ms;
    if (now - l->looked_ms > STOPPED_MS)
        l->since_ms = now;
    else if (now - l->since_ms >= look_every(l) && is_used(l))
        l->since_ms = now;
    l->looked_ms = now;
    return now - l->since_ms >= l->ms;
}

bool keep_lease_look(struct keep_lease *l, int64_t heard_ms)
{
    if (keep_lease_wait(l) != 0)
        return false;
    if (!l->quiet)
        return is_quiet(l, heard_ms);
    l->looked_ms = fr_sys.mono_ms();
    if (!take_verdict(l) && l->place->place == 1 && all_agree(l))
        (void)decide(l, over);
    return false;
}

void keep_lease_agree(struct keep_lease *l, int64_t heard_ms)
{
    char path[FR_NODE_PATH];

    if (!is_quiet(l, heard_ms))
        return;
    while (take_verdict(l) && !l->over)
        ; /* of generations in which this place was not quiet */
    if (l->over)
        return;
    quiet_path(l, l->place->place, path);
    l->quiet = fr_file_write(path, "quiet\n", 6, 0600, NULL) == FR_OK;
}

bool keep_lease_renew(struct keep_lease *l)
{
    if (l->quiet)
        (void)decide(l, renewed);
    return !l->quiet && !l->over;
}
