/* Keeps the home small: compacts the journal, and removes old attempts and shipped files. */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/node/compact.h"
#include "engine/node/prune.h"
#include "engine/node/private.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SWEEP_MS = 3600000,
    SWEPT_MAX = 128,
    TWICE_BYTES = 64 << 10,
    SLICE_MS = 5,         /* of a turn of the loop */
    SLICE_FILES = 16,     /* between looks at the clock */
    KEEP_ALONE_MS = 2000, /* others wait FR_HOME_WAIT_MS for the lock */
    KEEP_END_MS = 3000    /* goes on after the end of a connection */
};

/* A supervisor of an earlier version holds no lock on the home, only on its log. */
static bool has_living(const struct srv *s)
{
    for (size_t i = 0; i < s->table.n; i++)
        if (!s->table.v[i]->acked && fr_home_alive(s->home.path, s->table.v[i]->id))
            return true;
    return false;
}

static bool swept_path(const struct srv *s, char path[FR_NODE_PATH])
{
    return snprintf(path, FR_NODE_PATH, "%s/swept", s->home.path) < FR_NODE_PATH;
}

/* Writes "WHEN ALONE DAYS BYTES KEPT" about the last look through the home, whose time grows with
 * the number of files. The file is not synced: a torn or missing one only costs another look. */
static void write_swept(const struct srv *s)
{
    char path[FR_NODE_PATH], text[SWEPT_MAX];
    int n = snprintf(text, sizeof(text), "%" PRId64 " %d %" PRIu32 " %" PRIu64 " %" PRIu64 " .\n",
                     s->swept_ms, s->swept_alone, s->keep_days, s->keep_bytes, s->kept_bytes);
    int fd = swept_path(s, path)
                 ? fr_sys.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600)
                 : -1;

    if (fd < 0)
        return;
    (void)fr_write_full(fd, text, (size_t)n);
    fr_sys.close(fd);
}

/* Whether the home was scanned less than an hour ago with this connection's settings. */
static bool swept_lately(struct srv *s, bool alone)
{
    char path[FR_NODE_PATH], end = 0;
    int64_t age, when;
    uint64_t bytes, kept;
    uint32_t days;
    struct fr_buf b = {0};
    struct fr_err err;
    int was_alone;
    bool lately = swept_path(s, path) && fr_file_read(path, SWEPT_MAX, &b, &err) == FR_OK &&
                  b.n > 0 && !b.bad &&
                  sscanf(b.p, "%" SCNd64 " %d %" SCNu32 " %" SCNu64 " %" SCNu64 " %c", &when,
                         &was_alone, &days, &bytes, &kept, &end) == 6 &&
                  end == '.';

    fr_buf_finish(&b);
    if (!lately)
        return false;
    age = fr_sys.wall_ms() - when;
    if (age < 0 || age >= SWEEP_MS || days != s->keep_days || bytes != s->keep_bytes ||
        (alone && !was_alone))
        return false;
    s->swept_ms = when;
    s->swept_alone = was_alone != 0;
    s->kept_bytes = kept;
    return true;
}

static void end_prune(struct srv *s)
{
    if (s->alone)
        fr_home_share(&s->home);
    s->alone = false;
    s->kept_bytes += fr_prune_end(s->pruning);
    s->pruning = NULL;
}

/* Begins to look through the home; every turn of the loop does a part. Alone: this serve holds the
 * lock exclusively, for KEEP_ALONE_MS at most. Until then no attempt starts and no other serve
 * opens the home. */
static void prune(struct srv *s, bool alone)
{
    struct fr_prune p = {.home = s->home.path,
                         .table = &s->table,
                         .days = (int)s->keep_days,
                         .bytes = s->keep_bytes,
                         .alone = alone};
    struct fr_err err;

    if (s->pruning != NULL)
        return;
    if (fr_prune_begin(&p, &s->pruning, &err) != FR_OK) {
        fr_log(FR_LOG_WARN, "node", "%s", err.msg);
        return;
    }
    s->kept_bytes = 0;
    s->pruned_alone = s->alone = alone;
    s->alone_until_ms = fr_sys.mono_ms() + KEEP_ALONE_MS;
}

static void pruned(struct srv *s)
{
    end_prune(s);
    srv_cgroup_tidy(s);
    s->swept_ms = fr_sys.wall_ms();
    s->swept_alone = s->pruned_alone;
    s->kept_more = false;
    write_swept(s);
}

static void step_prune(struct srv *s, int64_t until)
{
    bool done = false;
    struct fr_err err;

    while (s->pruning != NULL && fr_sys.mono_ms() < until) {
        if (fr_prune_step(s->pruning, SLICE_FILES, &done, &err) != FR_OK) {
            fr_log(FR_LOG_WARN, "node", "%s", err.msg);
            end_prune(s);
        } else if (done) {
            pruned(s);
        }
    }
    if (s->alone && fr_sys.mono_ms() >= s->alone_until_ms) {
        fr_prune_share(s->pruning);
        fr_home_share(&s->home);
        s->alone = s->pruned_alone = false;
    }
}

/* Compacts the journal first: a forgotten attempt is removed by the date of its log. */
void srv_keep_begin(struct srv *s, const struct fr_hello *h)
{
    bool broken = false, alone = fr_home_alone(&s->home);
    struct fr_err err;

    s->keep_days = h->keep_days < FR_KEEP_DAYS_MAX ? h->keep_days : FR_KEEP_DAYS_MAX;
    s->keep_bytes = h->keep_bytes;
    s->same_disk = h->same_disk;
    /* what another wrote before it left is read first */
    if (alone && fr_table_read(&s->table, s->home.journal, &err) != FR_OK) {
        srv_fail(s, &err);
        return;
    }
    alone = alone && !has_living(s);
    if (alone && fr_journal_compact(&s->home, &s->table, &broken, &err) != FR_OK) {
        if (broken)
            srv_fail(s, &err);
        else
            fr_log(FR_LOG_WARN, "node", "%s", err.msg);
    }
    if (!s->over && !swept_lately(s, alone))
        prune(s, alone);
    if (!s->alone)
        fr_home_share(&s->home);
}

/* The engine's copy of a large log lies on the same disk. An empty file stays, whose date counts.
 */
static void empty_log(const struct srv *s, struct fr_id attempt)
{
    int fd;

    if (fr_home_bytes(s->home.path, FR_HOME_LOG, attempt) <= TWICE_BYTES)
        return;
    fd = fr_home_file(s->home.path, FR_HOME_LOG, attempt, O_WRONLY);
    if (fd < 0)
        return;
    (void)fr_sys.ftruncate(fd, 0);
    fr_sys.close(fd);
}

/* Without memory for it, the next look through the home finds the attempt. */
void srv_keep_acked(struct srv *s, struct fr_id attempt)
{
    if (s->keep_days == 0 || s->same_disk || s->keep_bytes > 0)
        fr_buf_add(&s->acked, &attempt, sizeof(attempt));
}

/* What stays of the attempt counts for keep_bytes. */
static void keep(struct srv *s, struct fr_id attempt)
{
    if (s->same_disk)
        empty_log(s, attempt);
    if (s->keep_bytes == 0)
        return;
    s->kept_bytes += fr_prune_size(s->home.path, attempt);
    s->kept_more = true;
    if (s->kept_bytes > s->keep_bytes)
        prune(s, false); /* unless a scan is under way */
}

/* Removes or measures the files of acknowledged attempts, some of them with every turn. */
static void step_acked(struct srv *s, int64_t until)
{
    struct fr_prune_one *p = &s->removing;
    bool done = true;
    struct fr_err err;

    while (s->acked_at < s->acked.n && fr_sys.mono_ms() < until) {
        p->home = s->home.path;
        memcpy(&p->attempt, s->acked.p + s->acked_at, sizeof(p->attempt));
        if (s->keep_days > 0)
            keep(s, p->attempt);
        else if (fr_prune_attempt(p, SLICE_FILES, &done, &err) != FR_OK)
            fr_log(FR_LOG_WARN, "node", "not removed: %s", err.msg);
        s->acked_at += done ? sizeof(p->attempt) : 0;
    }
    if (s->acked_at == s->acked.n)
        s->acked_at = s->acked.n = 0;
}

void srv_keep_step(struct srv *s)
{
    int64_t until = fr_sys.mono_ms() + SLICE_MS;

    step_acked(s, until);
    step_prune(s, until);
}

bool srv_keep_busy(const struct srv *s)
{
    return s->pruning != NULL || s->acked.n > 0;
}

/* Goes on for KEEP_END_MS, so that short connections, too, get through a whole home. */
void srv_keep_finish(struct srv *s)
{
    int64_t until = fr_sys.mono_ms() + KEEP_END_MS;

    while (srv_keep_busy(s) && fr_sys.mono_ms() < until)
        srv_keep_step(s);
    if (s->pruning != NULL)
        end_prune(s);
    fr_walk_finish(&s->removing.walk);
    fr_buf_finish(&s->acked);
    if (s->kept_more)
        write_swept(s);
}
