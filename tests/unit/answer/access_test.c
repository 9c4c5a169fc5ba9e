/* Tokens, sessions, links and failed logins, on a clock of the test's own. */
#include "engine/answer/access.h"
#include "engine/base/sys.h"
#include "engine/store/access.h"
#include "tests/unit/store/store_bed.h"

#include <string.h>

static char home[BED_HOME];

static struct fr_store *st;
static struct fr_access *a;
static struct fr_err err;
static int64_t now_ms = 1795320000000;

static const int64_t MINUTE = 60000, HOUR = 3600000, DAY = 86400000;

static int64_t clock_ms(void)
{
    return now_ms;
}

static void reopen(void)
{
    fr_access_destroy(a);
    CHECK_INT(fr_access_create(st, &a, &err), FR_OK);
}

static enum fr_rc new_token(const char *name, enum fr_role role, int64_t days,
                            char secret[FR_SECRET_TEXT])
{
    struct fr_grant grant = {name, role, days};
    enum fr_rc rc = fr_token_make(st, &grant, secret, &err);

    CHECK_INT(fr_access_reload(a, &err), FR_OK);
    return rc;
}

static int64_t wait_ms; /* of the newest login */

static enum fr_rc login(const char *secret, const char *address, char session[FR_SECRET_TEXT],
                        struct fr_api_caller *who)
{
    enum fr_rc rc;

    *who = (struct fr_api_caller){0};
    (void)snprintf(who->address, sizeof(who->address), "%s", address);
    rc = fr_access_login(a, secret, who, session, &wait_ms, &err);
    CHECK((rc == FR_BUSY) == (wait_ms > 0));
    return rc;
}

static bool knows(enum fr_api_secret kind, const char *secret, struct fr_api_caller *who)
{
    *who = (struct fr_api_caller){0};
    return fr_access_identify(a, kind, secret, true, who);
}

static void tokens(void)
{
    static const char *const wrong[] = {"", "a b", "a/b", "\xc3\xa4", "-"};
    char one[FR_SECRET_TEXT], two[FR_SECRET_TEXT], other[FR_SECRET_TEXT];
    struct fr_api_caller who;
    char name[70];

    check_row("tokens");
    CHECK_INT(new_token("ci", FR_ROLE_OPERATE, 1, one), FR_OK);
    CHECK_INT(new_token("wall", FR_ROLE_VIEW, 90, two), FR_OK);
    CHECK(strncmp(one, "frt_", 4) == 0 && strlen(one) == 47 && strcmp(one, two) != 0);
    CHECK_INT(new_token("ci", FR_ROLE_ADMIN, 1, other), FR_BUSY);
    CHECK(knows(FR_SECRET_TOKEN, one, &who) && who.role == FR_ROLE_OPERATE);
    CHECK_TEXT(who.name, "ci");
    CHECK(knows(FR_SECRET_TOKEN, two, &who) && who.role == FR_ROLE_VIEW);
    CHECK(!knows(FR_SECRET_SESSION, one, &who) && !knows(FR_SECRET_TOKEN, "", &who));
    memcpy(other, one, sizeof(other));
    other[46] = (char)(other[46] == 'A' ? 'B' : 'A');
    CHECK(!knows(FR_SECRET_TOKEN, other, &who));
    reopen();
    CHECK(knows(FR_SECRET_TOKEN, one, &who));
    now_ms += DAY;
    CHECK(!knows(FR_SECRET_TOKEN, one, &who) && knows(FR_SECRET_TOKEN, two, &who));
    CHECK_INT(fr_store_token_drop(st, "ci", &err), FR_OK);
    CHECK_INT(fr_store_token_drop(st, "ci", &err), FR_NOTFOUND);

    check_row("wrong ones");
    for (size_t i = 0; i + 1 < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK_INT(new_token(wrong[i], FR_ROLE_VIEW, 1, other), FR_USAGE);
    memset(name, 'x', sizeof(name));
    name[65] = '\0';
    CHECK_INT(new_token(name, FR_ROLE_VIEW, 1, other), FR_USAGE);
    name[64] = '\0';
    CHECK_INT(new_token(name, FR_ROLE_VIEW, 1, other), FR_OK);
    CHECK_INT(new_token("x", FR_ROLE_VIEW, 0, other), FR_USAGE);
    CHECK_INT(new_token("x", FR_ROLE_VIEW, 3651, other), FR_USAGE);
    CHECK_INT(new_token("x", FR_ROLE_NONE, 1, other), FR_USAGE);
}

/* ---- what is written of them ---- */

static bool no_random;

/* 255, 248, 241 … */
static int some_random(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)(255 - 7 * i);
    return no_random ? -1 : 0;
}

/* The last token of a home ends like any other, with its sessions. */
static void last(void)
{
    char secret[FR_SECRET_TEXT], session[FR_SECRET_TEXT];
    struct fr_api_caller who;

    check_row("the only token");
    CHECK_INT(new_token("only", FR_ROLE_VIEW, 1, secret), FR_OK);
    CHECK_INT(login(secret, "10.0.0.1", session, &who), FR_OK);
    CHECK(knows(FR_SECRET_SESSION, session, &who));
    CHECK_INT(fr_store_token_drop(st, "only", &err), FR_OK);
    CHECK_INT(fr_access_reload(a, &err), FR_OK);
    CHECK(!knows(FR_SECRET_TOKEN, secret, &who) && !knows(FR_SECRET_SESSION, session, &who));
}

static void secrets(void)
{
    char secret[FR_SECRET_TEXT];
    struct fr_api_caller who;

    check_row("a secret is its random bytes, all of them");
    fr_sys.random = some_random;
    CHECK_INT(new_token("drawn", FR_ROLE_VIEW, 1, secret), FR_OK);
    CHECK_TEXT(secret, "frt___jx6uPc1c7HwLmyq6Sdlo-IgXpzbGVeV1BJQjs0LSY");
    check_row("no random bytes");
    no_random = true;
    CHECK_INT(new_token("none", FR_ROLE_VIEW, 1, secret), FR_IO);
    CHECK_INT(fr_access_code(a, secret, &err), FR_IO);
    fr_sys.random = fr_sys_real.random;
    CHECK_INT(fr_store_token_drop(st, "none", &err), FR_NOTFOUND);
    CHECK(!knows(FR_SECRET_TOKEN, "", &who));
}

static int64_t used_of(const char *name)
{
    struct fr_arena arena = {0};
    struct fr_token_rows rows = {0};
    int64_t used = -1;

    CHECK_INT(fr_store_tokens(st, &arena, &rows, &err), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.rows[i].name, name) == 0)
            used = rows.rows[i].used_wall;
    fr_arena_finish(&arena);
    return used;
}

/* Every five minutes, and behind a clock that was set back. */
static void uses(void)
{
    static const struct {
        int64_t after;
        bool used, news;
    } rows[] = {{0, false, false},       {0, true, true}, {5 * 60000 - 1, true, false},
                {1, false, false},       {0, true, true}, {60000, true, false},
                {-600000, false, false}, {0, true, true}};
    char secret[FR_SECRET_TEXT];
    struct fr_api_caller who = {0};
    int64_t want = 0;

    check_row("when it was used");
    CHECK_INT(new_token("used", FR_ROLE_VIEW, 1, secret), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        now_ms += rows[i].after;
        CHECK(fr_access_identify(a, FR_SECRET_TOKEN, secret, rows[i].used, &who));
        want = rows[i].news ? now_ms : want;
        CHECK_INT(used_of("used"), want);
    }
    check_row("the next host knows when it was used");
    reopen();
    now_ms += 60000;
    CHECK(fr_access_identify(a, FR_SECRET_TOKEN, secret, true, &who));
    CHECK_INT(used_of("used"), want);
}

static size_t count_sessions(void)
{
    struct fr_arena arena = {0};
    struct fr_session_rows rows = {0};

    CHECK_INT(fr_store_sessions(st, &arena, &rows, &err), FR_OK);
    fr_arena_finish(&arena);
    return rows.n;
}

static void sessions(void)
{
    char token[FR_SECRET_TEXT], day[FR_SECRET_TEXT], s[FR_SECRET_TEXT], t[FR_SECRET_TEXT];
    struct fr_api_caller who;

    check_row("a session");
    CHECK_INT(new_token("eve", FR_ROLE_ADMIN, 3650, token), FR_OK);
    CHECK_INT(login(token, "::1", s, &who), FR_OK);
    CHECK(who.role == FR_ROLE_ADMIN && who.session[0] != '\0' && strcmp(s, who.session) != 0);
    CHECK(!knows(FR_SECRET_TOKEN, s, &who) && knows(FR_SECRET_SESSION, s, &who));
    CHECK_TEXT(who.name, "eve");
    CHECK_INT(login(token, "::1", t, &who), FR_OK);
    CHECK(strcmp(s, t) != 0);

    check_row("it ends when it is not used");
    now_ms += 12 * HOUR - 1;
    CHECK(knows(FR_SECRET_SESSION, s, &who));
    now_ms += 1;
    CHECK(!knows(FR_SECRET_SESSION, t, &who));
    now_ms += 11 * HOUR;
    CHECK(knows(FR_SECRET_SESSION, s, &who));

    check_row("a look is no use");
    now_ms += 11 * HOUR;
    CHECK(fr_access_identify(a, FR_SECRET_SESSION, s, false, &who));
    now_ms += HOUR;
    CHECK(!fr_access_identify(a, FR_SECRET_SESSION, s, false, &who));

    check_row("it outlives the host, and ends after a week");
    CHECK_INT(login(token, "::1", s, &who), FR_OK);
    for (int i = 0; i < 27; i++) {
        now_ms += 6 * HOUR;
        reopen();
        CHECK(knows(FR_SECRET_SESSION, s, &who));
    }
    now_ms += 6 * HOUR;
    CHECK(!knows(FR_SECRET_SESSION, s, &who));

    check_row("it ends when its token does");
    CHECK_INT(new_token("day", FR_ROLE_VIEW, 1, day), FR_OK);
    CHECK_INT(login(day, "::1", s, &who), FR_OK);
    for (int i = 0; i < 3; i++) {
        now_ms += 6 * HOUR;
        CHECK(knows(FR_SECRET_SESSION, s, &who));
    }
    now_ms += 6 * HOUR;
    CHECK(!knows(FR_SECRET_SESSION, s, &who));

    check_row("logout");
    CHECK_INT(login(token, "::1", s, &who), FR_OK);
    CHECK_INT(fr_access_logout(a, who.session, &err), FR_OK);
    CHECK(!knows(FR_SECRET_SESSION, s, &who));
    reopen();
    CHECK(!knows(FR_SECRET_SESSION, s, &who));

    check_row("it ends with its token");
    CHECK_INT(login(token, "::1", s, &who), FR_OK);
    CHECK_INT(fr_store_token_drop(st, "eve", &err), FR_OK);
    CHECK_INT(fr_access_reload(a, &err), FR_OK);
    CHECK(!knows(FR_SECRET_SESSION, s, &who));
}

static void links(void)
{
    char code[FR_SECRET_TEXT], s[FR_SECRET_TEXT], later[16][FR_SECRET_TEXT];
    struct fr_api_caller who;

    check_row("a link");
    CHECK_INT(fr_access_code(a, code, &err), FR_OK);
    CHECK(!knows(FR_SECRET_SESSION, code, &who) && !knows(FR_SECRET_TOKEN, code, &who));
    CHECK_INT(login(code, "::1", s, &who), FR_OK);
    CHECK_INT(who.role, FR_ROLE_ADMIN);
    CHECK(knows(FR_SECRET_SESSION, s, &who));
    CHECK(who.role == FR_ROLE_ADMIN && strncmp(who.name, "uid ", 4) == 0);
    CHECK_INT(login(code, "::1", s, &who), FR_DENIED);
    CHECK_INT(fr_access_code(a, code, &err), FR_OK);
    now_ms += MINUTE;
    CHECK_INT(login(code, "::1", s, &who), FR_DENIED);

    check_row("sixteen links");
    CHECK_INT(fr_access_code(a, code, &err), FR_OK);
    for (int i = 0; i < 16; i++)
        CHECK_INT(fr_access_code(a, later[i], &err), FR_OK);
    CHECK_INT(login(code, "::1", s, &who), FR_DENIED);
    for (int i = 0; i < 16; i++)
        CHECK_INT(login(later[i], "::1", s, &who), FR_OK);
}

static void failures(void)
{
    char code[FR_SECRET_TEXT], s[FR_SECRET_TEXT];
    struct fr_api_caller who;

    check_row("five failures a minute");
    now_ms += MINUTE;
    CHECK_INT(fr_access_code(a, code, &err), FR_OK);
    for (int i = 0; i < 5; i++)
        CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_DENIED);
    CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_BUSY);
    CHECK_INT(wait_ms, MINUTE);
    CHECK_TEXT(err.msg, "too many logins from 9.9.9.9 failed: try again in a minute");
    CHECK_INT(login(code, "9.9.9.9", s, &who), FR_BUSY);
    CHECK_INT(login("frt_no", "9.9.9.8", s, &who), FR_DENIED);
    now_ms += MINUTE - 1;
    CHECK_INT(login(code, "9.9.9.9", s, &who), FR_BUSY);
    CHECK_INT(wait_ms, 1);
    CHECK_INT(login(code, "8.8.8.8", s, &who), FR_OK);
    now_ms += 1;
    CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_DENIED);

    check_row("users of one machine do not lock out each other");
    CHECK_INT(fr_access_code(a, code, &err), FR_OK);
    for (int i = 0; i < 5; i++)
        CHECK_INT(login("frt_guessed-by-another", "127.0.0.1", s, &who), FR_DENIED);
    CHECK_INT(login("frt_guessed-by-another", "127.0.0.1", s, &who), FR_BUSY);
    CHECK_TEXT(err.msg,
               "too many logins from 127.0.0.1 with such a token failed: try again in a minute");
    CHECK_INT(login("frt_guessed-again", "127.0.0.1", s, &who), FR_BUSY);
    CHECK_INT(login("frt_other", "127.0.0.1", s, &who), FR_DENIED);
    CHECK_INT(login(code, "127.0.0.1", s, &who), FR_OK);
}

/* Each address is a source of its own; as many are known as may be. */
static void sources(void)
{
    char s[FR_SECRET_TEXT], address[20];
    struct fr_api_caller who;

    check_row("of more sources than are known the oldest is forgotten");
    now_ms += MINUTE;
    for (int i = 0; i < 5; i++)
        CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_DENIED);
    now_ms++;
    for (int i = 0; i < 63; i++) {
        (void)snprintf(address, sizeof(address), "10.9.0.%d", i);
        CHECK_INT(login("frt_no", address, s, &who), FR_DENIED);
    }
    CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_BUSY);
    for (int i = 0; i < 5; i++)
        CHECK_INT(login("frt_no", "10.9.0.62", s, &who), i < 4 ? FR_DENIED : FR_BUSY);
    CHECK_INT(login("frt_no", "10.9.1.0", s, &who), FR_DENIED);
    CHECK_INT(login("frt_no", "10.9.0.62", s, &who), FR_BUSY);
    CHECK_INT(login("frt_no", "9.9.9.9", s, &who), FR_DENIED);
    check_row("… and not the newest");
    now_ms++;
    for (int i = 0; i < 6; i++)
        CHECK_INT(login("frt_no", "10.9.2.0", s, &who), i < 5 ? FR_DENIED : FR_BUSY);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(address, sizeof(address), "10.9.3.%d", i);
        CHECK_INT(login("frt_no", address, s, &who), FR_DENIED);
    }
    CHECK_INT(login("frt_no", "10.9.2.0", s, &who), FR_BUSY);

    check_row("many addresses");
    for (int i = 0; i < 300; i++) {
        (void)snprintf(address, sizeof(address), "10.0.%d.%d", i / 100, i % 100);
        CHECK_INT(login("frt_no", address, s, &who), FR_DENIED);
    }
}

/* More sessions than are kept: the one that was not used for the longest time goes. */
static void many(void)
{
    static char secrets[1002][FR_SECRET_TEXT];
    struct fr_api_caller who;
    char token[FR_SECRET_TEXT];

    check_row("many sessions");
    now_ms += 30 * DAY;
    CHECK_INT(new_token("many", FR_ROLE_VIEW, 30, token), FR_OK);
    CHECK(count_sessions() > 1);
    for (int i = 0; i < 1002; i++) {
        now_ms++;
        CHECK_INT(login(token, "::1", secrets[i], &who), FR_OK);
        if (i == 0) /* those that are over are gone */
            CHECK_INT(count_sessions(), 1);
    }
    CHECK_INT(count_sessions(), 1000);
    CHECK(!knows(FR_SECRET_SESSION, secrets[0], &who) &&
          !knows(FR_SECRET_SESSION, secrets[1], &who));
    CHECK(knows(FR_SECRET_SESSION, secrets[2], &who) &&
          knows(FR_SECRET_SESSION, secrets[1001], &who));
}

int main(void)
{
    make_home(home);
    st = open_store(home);
    fr_sys.wall_ms = fr_sys.mono_ms = clock_ms;
    reopen();
    last();
    tokens();
    secrets();
    uses();
    sessions();
    links();
    failures();
    sources();
    many();
    fr_access_destroy(a);
    fr_store_close(st);
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}
