#include "engine/supervise/logind.h"

#include "engine/base/str.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CONF_MAX = 64 << 10, USERS_MAX = 1024 };

struct logind {
    const char *user;
    bool kills, excluded, only, named; /* named: by KillOnlyUsers */
};

/* The user among names that blanks separate. */
static bool names_user(const char *names, const char *user)
{
    size_t n = strlen(user);

    while (*names != '\0') {
        size_t k = strcspn(names, " \t");

        if (k == n && n > 0 && memcmp(names, user, n) == 0)
            return true;
        names += k + strspn(names + k, " \t");
    }
    return false;
}

static bool is_yes(const char *value)
{
    static const char *const words[] = {"yes", "true", "on", "1", "y", "t"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(value, words[i]) == 0)
            return true;
    return false;
}

/* A list that is set to nothing is empty again; else names are added to it. */
static void take(struct logind *l, const char *key, const char *value)
{
    if (strcmp(key, "KillUserProcesses") == 0)
        l->kills = is_yes(value);
    else if (strcmp(key, "KillExcludeUsers") == 0)
        l->excluded = value[0] != '\0' && (l->excluded || names_user(value, l->user));
    else if (strcmp(key, "KillOnlyUsers") == 0) {
        l->only = value[0] != '\0';
        l->named = l->only && (l->named || names_user(value, l->user));
    }
}

static void take_line(struct logind *l, const char *line, size_t n)
{
    char text[USERS_MAX], *eq, *value;
    size_t end;

    while (n > 0 && isspace((unsigned char)*line)) {
        line++;
        n--;
    }
    if (n == 0 || n >= sizeof(text) || *line == '#' || *line == ';')
        return;
    snprintf(text, sizeof(text), "%.*s", (int)n, line);
    if ((eq = strchr(text, '=')) == NULL)
        return;
    for (end = strlen(text); end > 0 && isspace((unsigned char)text[end - 1]);)
        text[--end] = '\0';
    value = eq + 1 + strspn(eq + 1, " \t");
    while (eq > text && isspace((unsigned char)eq[-1]))
        eq--;
    *eq = '\0';
    take(l, text, value);
}

static void take_file(struct logind *l, const char *path)
{
    struct fr_buf b = {0};

    if (fr_file_read(path, CONF_MAX, &b, NULL) == FR_OK && b.p != NULL)
        for (const char *p = b.p; *p != '\0';) {
            size_t n = strcspn(p, "\n");

            take_line(l, p, n);
            p += n + (p[n] == '\n');
        }
    fr_buf_finish(&b);
}

static void take_folder(struct logind *l, const char *path)
{
    char **names, file[PATH_MAX];
    size_t n;

    if (fr_sys.list(path, &names, &n) != 0)
        return;
    qsort(names, n, sizeof(*names), fr_by_text);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);

        if (len > 5 && strcmp(names[i] + len - 5, ".conf") == 0 &&
            snprintf(file, sizeof(file), "%s/%s", path, names[i]) < (int)sizeof(file))
            take_file(l, file);
    }
    fr_sys_names_free(names, n);
}

bool fr_logind_kills(const char *root, const char *user, const char *cgroup)
{
    static const char *const above[] = {"/usr/lib", "/run", "/etc"}; /* the last has the word */
    struct logind l = {.user = user, .excluded = strcmp(user, "root") == 0};
    const char *scope = strstr(cgroup, "/session-");
    char path[PATH_MAX];

    if (scope == NULL || strstr(scope, ".scope") == NULL)
        return false; /* logind has no session of it */
    snprintf(path, sizeof(path), "%s/etc/systemd/logind.conf", root);
    take_file(&l, path);
    for (size_t i = 0; i < sizeof(above) / sizeof(above[0]); i++) {
        snprintf(path, sizeof(path), "%s%s/systemd/logind.conf.d", root, above[i]);
        take_folder(&l, path);
    }
    return l.kills && !l.excluded && (!l.only || l.named);
}
