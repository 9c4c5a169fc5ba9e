#include "engine/supervise/cgroup.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 4 << 20, NAME_ROOM = 64, EVENTS_MAX = 256, LEAVE_MS = 10000, LEFT_S = 60 };

static const char name_head[] = "/flowrun-";

/* What a file has, read into text; nothing, if it cannot be read. */
static struct fr_str read_all(const char *path, struct fr_buf *text)
{
    return fr_file_read(path, FILE_MAX, text, NULL) == FR_OK ? (struct fr_str){text->p, text->n}
                                                             : (struct fr_str){0};
}

/* The cgroup that this process is in, as the kernel names it: line "0::/PATH". Without the last
 * slash. */
static bool read_own(char out[FR_NODE_PATH])
{
    struct fr_buf text = {0};
    struct fr_str rest = read_all("/proc/self/cgroup", &text), line;
    bool found = false;

    while (!found && fr_next_line(&rest, &line))
        found = line.n >= 4 && line.n < FR_NODE_PATH && memcmp(line.p, "0::/", 4) == 0;
    if (found)
        snprintf(out, FR_NODE_PATH, "%.*s", line.n > 4 ? (int)line.n - 3 : 0, line.p + 3);
    fr_buf_finish(&text);
    return found && strncmp(out, "/..", 3) != 0; /* outside of what this namespace shows */
}

/* Where cgroup2 is mounted, and which of its cgroups is on top there: proc_pid_mountinfo(5), "ID
 * PARENT MAJOR:MINOR ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS". */
static bool find_mount(char root[FR_NODE_PATH], char point[FR_NODE_PATH])
{
    struct fr_buf text = {0};
    struct fr_str rest = read_all("/proc/self/mountinfo", &text), line;
    bool found = false;

    while (!found && fr_next_line(&rest, &line)) {
        char copy[2 * FR_NODE_PATH];
        snprintf(copy, sizeof(copy), "%.*s", (int)line.n, line.p);
        found = strstr(copy, " - cgroup2 ") != NULL &&
                sscanf(copy, "%*s %*s %*s %1023s %1023s", root, point) == 2;
    }
    fr_buf_finish(&text);
    return found;
}

bool fr_cgroup_own(char out[FR_NODE_PATH])
{
    char path[FR_NODE_PATH], root[FR_NODE_PATH], point[FR_NODE_PATH];

    out[0] = '\0';
    if (!read_own(path) || !find_mount(root, point))
        return false;
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return false;
    return snprintf(out, FR_NODE_PATH, "%s%s", point, path + n) < FR_NODE_PATH - NAME_ROOM;
}

void fr_cgroup_path(struct fr_str own, struct fr_id socket_id, char out[FR_NODE_PATH])
{
    char id[FR_ID_TEXT];

    out[0] = '\0';
    if (own.n == 0 || own.n >= FR_NODE_PATH - NAME_ROOM)
        return;
    fr_id_text(socket_id, id);
    snprintf(out, FR_NODE_PATH, "%.*s%s%s", (int)own.n, own.p, name_head, id);
}

struct fr_str fr_cgroup_above(const char *path)
{
    const char *slash = strrchr(path, '/');

    return (struct fr_str){path, slash != NULL ? (size_t)(slash - path) : 0};
}

bool fr_cgroup_joined(const char *path)
{
    char own[FR_NODE_PATH];
    const char *name = strrchr(path, '/'), *last = NULL;

    if (name != NULL && read_own(own))
        last = strrchr(own, '/');
    return last != NULL && strcmp(name, last) == 0;
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[FR_NODE_PATH + NAME_ROOM];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int fd = fr_sys.open(path, O_WRONLY | O_NOFOLLOW, 0);
    if (fd >= 0) {
        fr_write_full(fd, text, strlen(text));
        fr_sys.close(fd);
    }
}

static void add_pids(const char *path, struct fr_buf *out)
{
    char procs[FR_WALK_PATH + NAME_ROOM];
    struct fr_buf text = {0};
    struct fr_str rest, line;

    snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
    rest = read_all(procs, &text);
    while (fr_next_line(&rest, &line)) {
        char number[16];
        snprintf(number, sizeof(number), "%.*s", (int)line.n, line.p);
        pid_t pid = (pid_t)strtol(number, NULL, 10);
        if (pid > 0) /* 0: of another pid namespace */
            fr_buf_add(out, &pid, sizeof(pid));
    }
    fr_buf_finish(&text);
}

static void remove_one(const char *path, struct fr_buf *out)
{
    (void)out;
    fr_sys.rmdir(path);
}

/* Calls each for all cgroups below path, then for path. */
static void walk(const char *path, void (*each)(const char *path, struct fr_buf *out),
                 struct fr_buf *out)
{
    enum fr_walk_entry entry;
    struct fr_walk w;
    enum fr_rc rc = fr_walk_begin(&w, path, NULL);

    if (rc != FR_OK)
        return;
    do {
        rc = fr_walk_next(&w, &entry, NULL);
        if (entry == FR_WALK_LEAVE || (entry == FR_WALK_ENTER && rc != FR_OK)) /* not listed */
            each(w.path, out);
    } while (rc != FR_OK || entry != FR_WALK_END);
    fr_walk_finish(&w);
}

void fr_cgroup_pids(const char *path, struct fr_buf *out)
{
    if (path != NULL && path[0] != '\0')
        walk(path, add_pids, out);
}

void fr_cgroup_kill(const char *path)
{
    write_file(path, "cgroup.kill", "1");
}

void fr_cgroup_remove(const char *path)
{
    if (path != NULL && path[0] != '\0' && fr_sys.rmdir(path) != 0 && errno != ENOENT)
        walk(path, remove_one, NULL);
}

void fr_cgroup_tidy(const char *own)
{
    char path[FR_NODE_PATH];
    struct stat st;
    char **names;
    size_t n;

    if (fr_sys.list(own, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], name_head + 1, sizeof(name_head) - 2) == 0 &&
            snprintf(path, sizeof(path), "%s/%s", own, names[i]) < (int)sizeof(path) &&
            fr_sys.lstat(path, &st) == 0 && fr_sys.wall_ms() / 1000 - st.st_mtim.tv_sec > LEFT_S)
            fr_sys.rmdir(path); /* fails where anybody is in it */
    fr_sys_names_free(names, n);
}

/* Waits until path has no process: poll(2) wakes when its file cgroup.events changes. */
static void wait_empty(const char *path)
{
    char events[FR_NODE_PATH + NAME_ROOM], text[EVENTS_MAX + 1];
    bool lived = true;

    snprintf(events, sizeof(events), "%s/cgroup.events", path);
    int fd = fr_sys.open(events, O_RDONLY | O_NOFOLLOW, 0);
    while (fd >= 0 && lived) {
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        ssize_t n = fr_sys.pread(fd, text, EVENTS_MAX, 0);
        text[n > 0 ? n : 0] = '\0';
        lived = strstr(text, "populated 1") != NULL && fr_sys.poll(&p, 1, LEAVE_MS) > 0;
    }
    if (fd >= 0)
        fr_sys.close(fd);
}

static void move_up(const char *path, const char *above)
{
    struct fr_buf pids = {0};

    add_pids(path, &pids);
    for (size_t i = 0; i < pids.n / sizeof(pid_t); i++) {
        char number[16];
        snprintf(number, sizeof(number), "%d", (int)((pid_t *)(void *)pids.p)[i]);
        write_file(above, "cgroup.procs", number);
    }
    fr_buf_finish(&pids);
    fr_cgroup_remove(path);
}

struct leaving {
    char path[FR_NODE_PATH], above[FR_NODE_PATH];
};

/* The process that outlives a leaving one. It was born outside path where that is possible. */
static int remove_behind(void *arg)
{
    const struct leaving *l = arg;

    if (fr_cgroup_joined(l->path)) {
        move_up(l->path, l->above);
    } else {
        wait_empty(l->path);
        fr_cgroup_remove(l->path);
    }
    return 0;
}

void fr_cgroup_leave(const char *path)
{
    struct fr_str above = fr_cgroup_above(path);
    struct fr_buf pids = {0};
    struct leaving l;
    struct fr_detach d = {
        .body = remove_behind, .arg = &l, .arg_bytes = sizeof(l), .cgroup = l.above};

    if (above.n == 0)
        return;
    snprintf(l.path, sizeof(l.path), "%s", path);
    snprintf(l.above, sizeof(l.above), "%.*s", (int)above.n, above.p);
    add_pids(path, &pids);
    bool alone = pids.n == sizeof(pid_t);
    fr_buf_finish(&pids);
    if (!alone || fr_sys.detach(&d) != 0)
        move_up(path, l.above);
}
