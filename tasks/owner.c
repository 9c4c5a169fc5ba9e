#include "tasks/owner.h"

#include "engine/base/file.h"
#include "tasks/command.h"

#include <string.h>
#include <unistd.h>

enum { PASSWD_MAX = 16 << 20 };

/* Calls take for each line "NAME:x:UID:…" until it returns true. */
static bool each_user(bool (*take)(void *arg, struct fr_str name, int64_t uid), void *arg)
{
    struct fr_buf text = {0};
    bool found = false;

    if (fr_file_read("/etc/passwd", PASSWD_MAX, &text, NULL) != FR_OK)
        return false;
    for (const char *p = text.p; !found && p != NULL && *p != '\0';) {
        size_t line = strcspn(p, "\n"), name = strcspn(p, ":\n");
        const char *second = name < line ? memchr(p + name + 1, ':', line - name - 1) : NULL;
        int64_t uid;
        if (second != NULL && fr_parse_i64((struct fr_str){second + 1, strcspn(second + 1, ":\n")},
                                           &uid, NULL) == FR_OK)
            found = take(arg, (struct fr_str){p, name}, uid);
        p += p[line] == '\n' ? line + 1 : line;
    }
    fr_buf_finish(&text);
    return found;
}

struct wanted {
    const char *name;
    int64_t uid;
    struct fr_job *job;
    const char *found;
};

static bool by_name(void *arg, struct fr_str name, int64_t uid)
{
    struct wanted *w = arg;

    w->uid = uid;
    return fr_str_is(name, w->name);
}

static bool by_uid(void *arg, struct fr_str name, int64_t uid)
{
    struct wanted *w = arg;

    if (uid == w->uid)
        w->found = fr_arena_text(&w->job->arena, name.p, name.n);
    return uid == w->uid;
}

enum fr_rc fr_owner_uid(const char *name, uid_t *uid, struct fr_err *err)
{
    struct wanted w = {.name = name};
    const char *argv[] = {"id", "-u", "--", name, NULL};
    struct fr_command c = {.argv = argv, .timeout_ms = 10000};
    enum fr_rc rc = FR_OK;

    *uid = getuid();
    if (strcmp(name, "self") == 0)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(name), &w.uid, NULL) != FR_OK && !each_user(by_name, &w)) {
        rc = fr_command_must(&c, err);
        struct fr_str text = fr_last_line(&c.out);
        if (rc != FR_OK || fr_parse_i64(text, &w.uid, NULL) != FR_OK)
            rc = fr_fail(err, FR_NOTFOUND, "there is no user '%s' on this node", name);
        fr_command_finish(&c);
    }
    if (rc == FR_OK && (w.uid < 0 || w.uid > UINT32_MAX - 1))
        rc = fr_fail(err, FR_USAGE, "'%s' is no user", name);
    *uid = (uid_t)w.uid;
    return rc;
}

const char *fr_owner_name(struct fr_job *job, uid_t uid)
{
    struct wanted w = {.uid = uid, .job = job};

    if (each_user(by_uid, &w) && w.found != NULL)
        return w.found;
    return fr_arena_fmt(&job->arena, "%u", (unsigned)uid);
}
