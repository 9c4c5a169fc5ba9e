/* The configuration of a home: what is read, what is refused, and its schema. */
#include "engine/spec/config.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include "tests/unit/check.h"

static char folder[64], path[96];

static enum fr_rc load(const char *text, struct fr_config **out, struct fr_issues *issues,
                       struct fr_err *err)
{
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, err), FR_OK);
    return fr_config_load(path, out, issues, err);
}

static const struct {
    const char *name, *text;
    const char *zone;
    int active, queued, runs, days, failed_days;
    long long bytes;
    int secret_wait_s; /* 0: the usual 12 hours; -1: no end */
} right[] = {
    {"nothing", "", "UTC", 0, 0, 0, 0, 0, 0, 0},
    {"comments alone", "# keep: {runs: 3}\n", "UTC", 0, 0, 0, 0, 0, 0, 0},
    {"everything",
     "zone: Europe/Berlin\n"
     "limits: {max_active_runs: 4, max_queued: 100}\n"
     "keep: {runs: 100, days: 30, failed_days: 90, bytes: 20GiB}\n",
     "Europe/Berlin", 4, 100, 100, 30, 90, 20LL << 30, 0},
    {"failed runs stay as long as others", "keep: {days: 7}", "UTC", 0, 0, 0, 7, 7, 0, 0},
    {"failed runs alone", "keep: {failed_days: 7}", "UTC", 0, 0, 0, 0, 7, 0, 0},
    {"the greatest", "limits: {max_active_runs: 100000}\nkeep: {days: 36500, runs: 10000000}",
     "UTC", 100000, 0, 10000000, 36500, 36500, 0, 0},
    {"no limit of bytes, said", "keep: {bytes: 0}", "UTC", 0, 0, 0, 0, 0, 0, 0},
    {"UTC, said", "zone: UTC", "UTC", 0, 0, 0, 0, 0, 0, 0},
    {"how long a secret is waited for", "limits: {secret_wait: 90s}", "UTC", 0, 0, 0, 0, 0, 0, 90},
    {"for ever", "limits: {secret_wait: never}", "UTC", 0, 0, 0, 0, 0, 0, -1},
    {"channels and rules",
     "channels:\n"
     "  hook: {kind: webhook, url: \"https://h/x\", sign_with: {env: KEY}}\n"
     "  team: {kind: slack, url: {file: slack.url}}\n"
     "  mail: {kind: email, server: \"smtp://mail:587\", from: f@x, to: [a@x, b@x], user: u, "
     "password: {env: P}, ca: /ca.pem}\n"
     "  pager: {kind: command, command: [pager, -x]}\n"
     "notify:\n"
     "  - {on: [failed, schedule_missed], to: [hook, mail]}\n"
     "  - {on: recovered, pipelines: \"night*\", to: team, throttle: 1h, quiet: 22:30-07:05}\n",
     "UTC", 0, 0, 0, 0, 0, 0, 0},
};

static void test_right(void)
{
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        struct fr_config *c = NULL;
        struct fr_issues issues = {0};
        struct fr_err err = {0};

        check_row(right[i].name);
        if (CHECK_INT(load(right[i].text, &c, &issues, &err), FR_OK)) {
            CHECK(c->there);
            CHECK_TEXT(c->zone, right[i].zone);
            CHECK_INT(c->limits.max_active_runs, right[i].active);
            CHECK_INT(c->limits.max_queued, right[i].queued);
            CHECK_INT(c->limits.secret_wait_ms, right[i].secret_wait_s == 0 ? 12 * 3600000
                                                : right[i].secret_wait_s < 0
                                                    ? 0
                                                    : right[i].secret_wait_s * 1000);
            CHECK_INT(c->keep.runs, right[i].runs);
            CHECK_INT(c->keep.days, right[i].days);
            CHECK_INT(c->keep.failed_days, right[i].failed_days);
            CHECK_INT(c->keep.bytes, right[i].bytes);
        } else {
            printf("   %s\n", err.msg);
        }
        fr_config_destroy(c);
        fr_issues_finish(&issues);
    }
    check_row("");
}

#define ONE "; write one such as Europe/Berlin, or UTC"
#define NONE                                                                                       \
    " in /usr/share/zoneinfo; write one as the IANA database names it, such as Europe/Berlin, or " \
    "UTC"

/* Each gives these lines, without the path in front. */
static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"an unknown key", "kep: {runs: 3}",
     "1:1: the configuration has no key 'kep'; did you mean 'keep'?"},
    {"an unknown limit", "limits:\n  max_active: 3\n",
     "2:3: limits has no key 'max_active'; did you mean 'max_active_runs'?"},
    {"a wait that is none", "limits: {secret_wait: 0}",
     "1:23: secret_wait is '0'; expected never or a duration like 10s, above zero"},
    {"all mistakes, in order",
     "keep: {runs: none, dais: 3, bytes: many}\nlimits: {max_queued: 0}\n",
     "1:14: runs is 'none'; expected a whole number from 1 to 10000000\n"
     "1:20: keep has no key 'dais'; did you mean 'days'?\n"
     "1:36: bytes is 'many'; expected a size like 512MiB\n"
     "2:22: max_queued is '0'; expected a whole number from 1 to 1000000"},
    {"no map", "keep: 30", "1:7: keep is '30'; expected a map of its keys, like {days: 30}"},
    {"a list", "- keep", "1:1: the configuration is a list; expected a map of its keys"},
    {"a zone that is none", "zone: Europe/Nowhere", "1:7: zone: no zone 'Europe/Nowhere'" NONE},
    {"a zone and another mistake", "zone: CEST\nkeep: {day: 3}",
     "1:7: zone: 'CEST' is an abbreviation, not a zone; write a place such as Europe/Berlin, or "
     "UTC\n2:8: keep has no key 'day'; did you mean 'days'?"},
    {"a path for a zone", "zone: ../zoneinfo/UTC",
     "1:7: zone: '../zoneinfo/UTC' is not the name of a zone" ONE},
    {"a folder of zones", "zone: Europe", "1:7: zone: no zone 'Europe'" NONE},
    {"another file there", "zone: zone.tab", "1:7: zone: 'zone.tab' is not the name of a zone" ONE},
    {"zones with leap seconds", "zone: right/UTC",
     "1:7: zone: 'right/UTC' is a variant of 'UTC'; write that"},
    {"an empty zone", "zone: ''", "1:7: zone: '' is not the name of a zone" ONE},
    {"an expression", "zone: ${{ params.z }}",
     "1:11: unknown param 'z'; expected a name under params:"},
    {"broken YAML", "keep: {runs: 3",
     "2:1: did not find expected ',' or '}' while parsing a flow mapping that began at line 1; "
     "expected quotes around a text with braces, commas or ': ' in it"},
    {"a channel without its keys",
     "channels:\n  a: {kind: email, url: \"http://h\"}\n  b: {kind: pigeon}\n",
     "2:6: a channel of kind email needs the key 'server'\n"
     "2:6: a channel of kind email needs the key 'from'\n"
     "2:6: a channel of kind email needs the key 'to'\n"
     "2:25: a channel of kind email has no url\n"
     "3:13: kind is 'pigeon'; expected webhook, slack, teams, email, command or otlp"},
    {"secrets in the file",
     "channels:\n  a: {kind: webhook, url: \"http://h\", sign_with: whsec_AAAA}\n"
     "  b: {kind: slack, url: {env: X, file: y}}\n",
     "2:50: sign_with does not stand in the file itself; expected {env: NAME} or {file: "
     "PATH}\n3:25: url is not complete; expected one of env or file"},
    {"addresses that are none",
     "channels:\n  a: {kind: webhook, url: \"ftp://h\"}\n"
     "  b: {kind: email, server: mail, from: \"a@b\\nBcc: c@d\", to: x, user: u}\n",
     "2:27: url does not begin with http:// or https://, or has blanks\n"
     "3:6: user and password belong together; expected both, or none\n"
     "3:28: server is no address of a mail server; expected smtp://HOST:PORT or "
     "smtps://HOST:PORT; user: and password: have keys of their own\n"
     "3:40: from is a text; expected an address like flowrun@example.org\n"
     "3:61: to is 'x'; expected an address like team@example.org"},
    {"a password in an address",
     "channels: {a: {kind: email, server: \"smtp://me:planted@mail\", from: a@b, to: c@d}}",
     "1:37: server is no address of a mail server; expected smtp://HOST:PORT or "
     "smtps://HOST:PORT; user: and password: have keys of their own"},
    {"hours that are none",
     "channels: {a: {kind: slack, url: \"http://h\"}}\n"
     "notify:\n  - {on: failed, to: a, quiet: 22:00}\n  - {on: failed, to: a, quiet: 22:00-24:00}\n"
     "  - {on: failed, to: a, quiet: 08:00-08:00}\n  - {on: failed, to: a, quiet: 8:00-09:00}\n"
     "  - {on: failed, to: a, quiet: 08:00-09:000}\n  - {on: failed, to: a, quiet: "
     "\"08:60-09:00\"}\n",
     "3:32: quiet is '22:00'; expected two times of a day like 22:00-07:00\n"
     "4:32: quiet is '22:00-24:00'; expected two times of a day like 22:00-07:00\n"
     "5:32: quiet is '08:00-08:00'; expected two times of a day like 22:00-07:00\n"
     "6:32: quiet is '8:00-09:00'; expected two times of a day like 22:00-07:00\n"
     "7:32: quiet is '08:00-09:000'; expected two times of a day like 22:00-07:00\n"
     "8:32: quiet is '08:60-09:00'; expected two times of a day like 22:00-07:00"},
    {"pools", "pools: {gpu-a: 0, \"a b\": 1, c: many}",
     "1:16: gpu-a is '0'; expected a whole number from 1 to 100000\n"
     "1:19: 'a b' cannot be the name of a pool; expected letters, digits, '_', '-' and '.', at "
     "most 64\n"
     "1:32: c is 'many'; expected a whole number from 1 to 100000"},
    {"pools as a list", "pools: [a]",
     "1:8: pools is a list; expected a map of at most 64 names and "
     "numbers of runs"},
    {"rules that lead nowhere",
     "channels: {a: {kind: slack, url: \"http://h\"}}\n"
     "notify:\n  - {on: faild, to: b}\n  - {to: a}\n  - {on: failed}\n  - {on: failed, to: []}\n",
     "3:10: on is 'faild'; expected started, succeeded, recovered, failed, cancelled, stalled, "
     "not_finite, late, node_unreachable, schedule_missed, schedule_paused or disk_low; did you "
     "mean 'failed'?\n"
     "3:21: there is no channel 'b'; expected a name under channels:\n"
     "4:5: a rule of notify needs the key 'on'\n"
     "5:5: a rule of notify needs the key 'to'\n"
     "6:22: to is an empty list; expected at least one name of a channel"},
    {"a key twice", "zone: UTC\nzone: UTC",
     "2:1: key 'zone' stands here a second time; first at line 1"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_config *c = NULL;
        struct fr_issues issues = {0};
        struct fr_err err = {0};
        struct fr_buf got = {0};

        check_row(wrong[i].name);
        CHECK_INT(load(wrong[i].text, &c, &issues, &err), FR_USAGE);
        CHECK(c == NULL);
        for (size_t k = 0; k < issues.n; k++) {
            const char *line = issues.lines[k];
            bool named = fr_has_prefix(line, path);

            CHECK(named);
            fr_buf_fmt(&got, "%s%s", k > 0 ? "\n" : "", named ? line + strlen(path) + 1 : line);
        }
        CHECK_TEXT(got.p, wrong[i].want);
        fr_buf_finish(&got);
        fr_issues_finish(&issues);
    }
    check_row("");
}

static void test_files(void)
{
    struct fr_config *c = NULL;
    struct fr_issues issues = {0};
    struct fr_err err = {0};

    unlink(path);
    CHECK_INT(fr_config_load(path, &c, &issues, &err), FR_OK);
    CHECK(c != NULL && !c->there && c->keep.runs == 0 && strcmp(c->zone, "UTC") == 0);
    fr_config_destroy(c);
    CHECK_INT(mkdir(path, 0700), 0);
    CHECK(fr_config_load(path, &c, &issues, &err) != FR_OK && c == NULL);
    CHECK(issues.n == 0 && strstr(err.msg, path) != NULL);
    rmdir(path);
}

/* The committed schema is what the code accepts. After a change: config_test --write FILE. */
static int schema(const char *write_to)
{
    struct fr_buf made = {0}, stored = {0};

    CHECK_INT(fr_config_schema(&made, NULL), FR_OK);
    if (write_to != NULL)
        CHECK_INT(fr_file_write(write_to, made.p, made.n, 0644, NULL), FR_OK);
    if (CHECK_INT(fr_file_read(SOURCE_ROOT "/schema/config.schema.json", 1 << 20, &stored, NULL),
                  FR_OK))
        CHECK(made.n == stored.n && memcmp(made.p, stored.p, made.n) == 0);
    fr_buf_finish(&made);
    fr_buf_finish(&stored);
    return check_done();
}

static long calls_left;

static void *failing_alloc(size_t n)
{
    return calls_left-- <= 0 ? NULL : fr_sys_real.alloc(n);
}

static void *failing_realloc(void *p, size_t n)
{
    return calls_left-- <= 0 ? NULL : fr_sys_real.realloc(p, n);
}

/* Each allocation fails once, and all behind it. */
static void test_no_memory(void)
{
    const char *texts[] = {right[2].text, wrong[2].text};

    for (size_t t = 0; t < 2; t++)
        for (long n = 0;; n++) {
            struct fr_config *c = NULL;
            struct fr_issues issues = {0};
            struct fr_err err = {0};
            enum fr_rc rc;

            CHECK_INT(fr_file_write(path, texts[t], strlen(texts[t]), 0600, &err), FR_OK);
            calls_left = n;
            fr_sys.alloc = failing_alloc;
            fr_sys.realloc = failing_realloc;
            rc = fr_config_load(path, &c, &issues, &err);
            fr_sys = fr_sys_real;
            CHECK((rc == FR_OK) == (c != NULL));
            CHECK(rc == FR_NOMEM || rc == (t == 0 ? FR_OK : FR_USAGE));
            fr_config_destroy(c);
            fr_issues_finish(&issues);
            if (rc != FR_NOMEM)
                break;
        }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return schema(argv[2]);
    snprintf(folder, sizeof(folder), "/tmp/fr-config.XXXXXX");
    if (!CHECK(mkdtemp(folder) != NULL))
        return check_done();
    snprintf(path, sizeof(path), "%s/config.yaml", folder);
    test_right();
    test_wrong();
    test_files();
    test_no_memory();
    unlink(path);
    rmdir(folder);
    return schema(NULL);
}
