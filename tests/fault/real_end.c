/* What must be so at the end of a case of real_test: rows, journals, files, processes. */
#include "tests/fault/real.h"

#include "tests/fault/killed.h"
#include "tests/fault/left.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RAN_MAX = 128, OTHERS_RAN = 7, OTHERS_DONE = 6 };

/* Rows of one column, a line each, into text. */
static void read_rows(const struct env *e, const char *sql, char text[TEXT])
{
    char path[220];
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    size_t n = 0;

    text[0] = '\0';
    snprintf(path, sizeof(path), "%s/home/state.db", e->dir);
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK)
        while (n < TEXT && sqlite3_step(st) == SQLITE_ROW)
            n += (size_t)snprintf(text + n, TEXT - n, "%s\n",
                                  (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    sqlite3_close(db);
}

long real_ask(const struct env *e, const char *sql)
{
    char text[TEXT];

    read_rows(e, sql, text);
    return text[0] != '\0' ? strtol(text, NULL, 10) : -1;
}

void real_show(const struct env *e)
{
    char text[TEXT];

    read_rows(e,
              "SELECT '    ' || " KILLED_KEY
              " || ' ' || a.no || ': ' || a.state || ', ' || a.cause || ', ' "
              "|| a.reason FROM attempt a JOIN instance i ON i.run = a.run "
              "AND i.idx = a.idx ORDER BY i.run, i.idx, a.no",
              text);
    fputs(text, stdout);
}

static bool none_twice(const struct env *e, long *ran)
{
    char path[220], line[64], seen[RAN_MAX][64];
    bool ok = true;

    *ran = 0;
    snprintf(path, sizeof(path), "%s/ran", e->dir);
    FILE *f = fopen(path, "r");
    while (f != NULL && *ran < RAN_MAX && fgets(line, sizeof(line), f) != NULL) {
        for (long i = 0; i < *ran; i++)
            ok = ok && strcmp(seen[i], line) != 0;
        memcpy(seen[(*ran)++], line, sizeof(line));
    }
    if (f != NULL)
        fclose(f);
    return ok;
}

static void take_states(const struct env *e, char text[TEXT])
{
    read_rows(
        e,
        "SELECT " KILLED_KEY " || ' ' || state || ' ' || cause FROM instance i UNION ALL SELECT "
        "(SELECT name FROM run WHERE id = o.run) || o.idx || '=' || value FROM output o UNION ALL "
        "SELECT name || ' ' || state || ' ' || outcome FROM run ORDER BY 1",
        text);
}

/* A supervisor may die of a task that is being cancelled: of that one no end is known. */
static void lost_is_cancelled(char text[TEXT])
{
    static const char was[] = " lost lost\n", is[] = " cancelled stopped\n";
    char *at = strstr(text, was), rest[TEXT];

    if (at == NULL)
        return;
    snprintf(rest, sizeof(rest), "%s", at + strlen(was));
    snprintf(at, (size_t)(text + TEXT - at), "%s%s", is, rest);
}

/* The journal that knows the killed supervisor, of whichever node. */
static void read_journals(const struct env *e, struct killed *k)
{
    char command[300], path[300];

    snprintf(command, sizeof(command), "ls %s/home/nodes/*/journal", e->dir);
    FILE *f = popen(command, "r");
    while (CHECK(f != NULL) && fgets(path, sizeof(path), f) != NULL) {
        path[strcspn(path, "\n")] = '\0';
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        CHECK(fd >= 0 && killed_read(k, fd));
        close(fd);
    }
    if (f != NULL)
        pclose(f);
}

/* Attempts that never started, as their node was made sure of that: a start was prepared there and
 * its flownode is gone. Another one takes the place of each. */
#define NEVER "a.state = 'cancelled' AND a.cause = ''"
/* Those of the other members of its gang, whose members all begin again. */
#define WITH_IT                                                                                    \
    "a.cause = 'gang_peer' AND EXISTS (SELECT 1 FROM attempt b JOIN instance j ON j.run = b.run "  \
    "AND j.idx = b.idx WHERE b.run = a.run AND b.generation = a.generation AND "                   \
    "b.state = 'cancelled' AND b.cause = '' AND j.task = i.task)"
/* The first ones of tasks that fail the first time: their second does not fail then. */
#define FAILING "a.no = 1 AND (i.key LIKE 'd@%' OR i.key LIKE 'o2@%' OR i.key LIKE 'flaky@%')"
#define ATTEMPTS                                                                                   \
    "SELECT count(*) FROM attempt a JOIN instance i ON i.run = a.run AND i.idx = a.idx WHERE "

/* Of a killed supervisor the records say what must follow, to the attempt: killed.h. */
static void check_killed(const struct env *e, const struct tracer *t)
{
    struct killed k = {.pid = t->killed};
    char rows[TEXT], hex[40], lost[64] = "";
    const char *wrong;

    if (t->struck)
        read_journals(e, &k);
    fr_id_text(k.newest, hex);
    if (k.open)
        snprintf(lost, sizeof(lost), "%s lost\n", hex);
    read_rows(e, "SELECT lower(hex(id)) || ' ' || state FROM attempt WHERE cause = 'lost'", rows);
    CHECK_TEXT(rows, lost);
    /* one died; what a host that left gives back in vain (NEVER) is no matter of the kill */
    CHECK(real_ask(e, ATTEMPTS "a.cause IN ('lost', 'start_failed')") <= 1);
    read_rows(e, KILLED_ATTEMPTS("'c', 'again', 'og'"), rows);
    wrong = killed_wrong(rows, e->recorded[t->victim].counts);
    if (!CHECK(wrong == NULL))
        printf("attempts, and how many they must be: %.*s\n", (int)strcspn(wrong, "\n"), wrong);
}

/* Nothing lies about that no row knows. */
static void check_left(const struct env *e, enum tracer_kind victim)
{
    char known[TEXT], path[220];
    int later;

    read_rows(
        e,
        "SELECT lower(hex(id)) FROM attempt UNION SELECT lower(hex(id)) FROM run UNION SELECT "
        "log FROM attempt UNION SELECT spec_hash FROM run UNION SELECT inventory_hash FROM run "
        "UNION SELECT hash FROM file",
        known);
    CHECK_INT(left_running(e->dir), 0);
    snprintf(path, sizeof(path), "%s/home", e->dir);
    if (victim == TRACER_SUPERVISOR && left_files(path, known) == 1) {
        char command[600]; /* it died behind serve, which had nothing to clear up yet: the next has
                            */
        snprintf(command, sizeof(command), "%s nodes --check %s > /dev/null", e->flowrun, e->yaml);
        CHECK(system(command) == 0);
    }
    CHECK_INT(left_files(path, known), 0);
    snprintf(path, sizeof(path), "%s/far", e->dir);
    CHECK_INT(left_files(path, known), 0);
    CHECK_INT(left_cgroup_remove(e->cgroup, &later), 0);
    CHECK(later <= 1);
}

/* Of the other two runs. */
static void check_codes(const struct env *e)
{
    char path[220], codes[64] = "";
    FILE *f;

    snprintf(path, sizeof(path), "%s/codes", e->dir);
    f = fopen(path, "r");
    if (f != NULL) {
        codes[fread(codes, 1, sizeof(codes) - 1, f)] = '\0';
        fclose(f);
    }
    CHECK_TEXT(codes, "0\n0\n");
}

static void check_counts_of(const struct env *e, const struct recording *r, long ran)
{
    long never = real_ask(e, ATTEMPTS "(" NEVER ") OR (" WITH_IT ")");
    long saved = real_ask(e, ATTEMPTS NEVER " AND " FAILING);

    CHECK_INT(real_ask(e, "SELECT count(*) FROM attempt WHERE cause = 'lost'"), 0);
    CHECK_INT(real_ask(e, "SELECT count(*) FROM attempt"), r->attempts + never - saved);
    CHECK_INT(ran, r->ran - saved);
}

void real_check_end(const struct env *e, const struct tracer *t)
{
    const struct recording *r = &e->recorded[t->victim];
    long ran;
    char states[TEXT];

    take_states(e, states);
    CHECK(none_twice(e, &ran));
    CHECK_INT(
        real_ask(e, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'"), 1);
    CHECK_INT(real_ask(e, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    CHECK_INT(real_ask(e, "SELECT count(*) FROM instance WHERE live <> 0"), 0);
    if (t->victim == TRACER_SUPERVISOR) {
        lost_is_cancelled(states);
        check_killed(e, t);
    } else {
        check_counts_of(e, r, ran);
    }
    CHECK_TEXT(states, r->states);
    if (t->victim != TRACER_SSHD && t->victim != TRACER_TAKER)
        check_codes(e);
    check_left(e, t->victim);
}

void real_record(struct env *e, const struct tracer *t)
{
    struct recording *r = &e->recorded[t->victim];
    int others = t->victim == TRACER_SSHD ? 0 : t->victim == TRACER_TAKER ? 1 : 2;

    take_states(e, r->states);
    read_rows(e,
              "SELECT " KILLED_KEY " || '|' || count(*) FROM attempt a JOIN instance i ON i.run = "
              "a.run AND i.idx = a.idx GROUP BY i.run, i.idx",
              r->counts);
    r->points = t->counts[t->victim];
    r->attempts = r->ran = (e->complete ? 49 : 11) + others * OTHERS_RAN;
    CHECK_INT(real_ask(e, "SELECT count(*) FROM instance WHERE state = 'succeeded'"),
              (e->complete ? 43 : 10) + others * OTHERS_DONE);
    CHECK_INT(real_ask(e, "SELECT count(*) FROM run WHERE state = 'over'"), 1 + others);
    CHECK(r->points > 0);
}
