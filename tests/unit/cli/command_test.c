/* The commands of flowrun: how a command line is taken apart, and what all rows of the table keep.
 */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 12 };

static struct fr_buf printed; /* stdout and stderr */

static void take(void *arg, int fd, const char *text, size_t n)
{
    (void)arg;
    (void)fd;
    fr_buf_add(&printed, text, n);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

/* Prints what was given, an option that was not as nothing. */
static enum fr_rc probe(struct cli_call *c, struct fr_err *err)
{
    const char *color;
    int64_t count = -7;
    size_t act = 9;
    enum fr_rc rc = cli_number(c, "--count", (struct cli_range){1, 99}, &count, err);

    if (rc == FR_OK)
        rc = cli_number(c, "--any", cli_any_number, &count, err);
    if (rc == FR_OK)
        rc = cli_word(c, "--color", "red", &color, err);
    if (rc == FR_OK)
        rc = cli_verb(c, "pause resume cancel", &act, err);
    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; cli_arg(c, i) != NULL; i++)
        fr_print("%s ", cli_arg(c, i));
    for (size_t i = 0; i < cli_values(c, "--list")->n; i++)
        fr_print("list=%s ", cli_values(c, "--list")->v[i]);
    fr_print("%lld %s %zu%s%s", (long long)count, color, act, c->json ? " json" : "",
             cli_has(c, "--flag") ? " flag" : "");
    c->code = 42;
    return FR_OK;
}

static enum fr_rc mistakes(struct cli_call *c, struct fr_err *err)
{
    static const char *lines[] = {"one", "two"};

    c->issues.lines = lines;
    c->issues.n = 2;
    return fr_fail(err, FR_IO, "not shown");
}

static const struct cli_opt opts[] = {
    {"--count", 'n', "N", "how many", NULL},
    {"--any", 0, "N", "any number", NULL},
    {"--color", 0, "COLOR", "which", "red green blue"},
    {"--list", 'l', "X", "again", NULL},
    {"--flag", 'f', NULL, "a flag", NULL},
    {"--secret", 0, NULL, NULL, NULL},
    {"--json", 0, NULL, "as JSON", NULL},
    {.name = NULL},
};
static const struct cli_opt none[] = {{.name = NULL}};

static const struct cli_command commands[] = {
    {"probe", "[pause | resume [A] [B]]", "probes", "More.\n", opts, .run = probe},
    {"raw", "[WORD…]", "takes all", NULL, opts, .run = probe, .raw = true},
    {"two", "A B", "takes two", NULL, opts, .run = probe},
    {"bare", "", "takes none", NULL, none, .run = mistakes},
};

static const struct row {
    const char *line; /* words, parted by spaces; ~ is a space in a word */
    int code;
    const char *text;
} rows[] = {
    {"probe", 42, "-7 red 9"},
    {"probe --json -f", 42, "-7 red 9 json flag"},
    {"probe resume a b", 42, "resume a b -7 red 1"},
    {"probe cancel -n 3 --color blue", 42, "cancel 3 blue 2"},
    {"probe -n3 --color=green --flag pause", 42, "pause 3 green 0 flag"},
    {"probe -n 3 -n 4 -l a --list=b -lc", 42, "list=a list=b list=c 4 red 9"},
    {"probe -n 1", 42, "1 red 9"},
    {"probe -n 99", 42, "99 red 9"},
    {"probe --any -5", 42, "-5 red 9"},
    {"probe --secret", 42, "-7 red 9"},
    {"probe -- pause -f", 42, "pause -f -7 red 0"},
    {"raw pause --help --flag", 42, "pause --help --flag -7 red 0"},
    {"probe -n 0", 2, "flowrun: probe: --count is a whole number from 1 on, not '0'\n"},
    {"probe -n 100", 2, "flowrun: probe: --count is a whole number from 1 on, not '100'\n"},
    {"probe -n x", 2, "flowrun: probe: --count is a whole number from 1 on, not 'x'\n"},
    {"probe --any x", 2, "flowrun: probe: --any is a whole number, not 'x'\n"},
    {"probe --color re", 2, "flowrun: probe: --color is red, green or blue, not 're'\n"},
    {"probe res", 2, "flowrun: probe: what is 'res'? It takes pause, resume or cancel\n"},
    {"probe pause~resume", 2,
     "flowrun: probe: what is 'pause resume'? It takes pause, resume or cancel\n"},
    {"probe resume a b c", 2,
     "flowrun: probe: what is 'c'? It takes [pause | resume [A] [B]]; see 'flowrun help probe'\n"},
    {"probe -n", 2, "flowrun: probe: --count needs a value: N\n"},
    {"probe --flag=1", 2, "flowrun: probe: --flag takes no value\n"},
    {"probe -fx", 2, "flowrun: probe: --flag takes no value\n"},
    {"probe --flg", 2, "flowrun: probe: there is no option '--flg'; did you mean '--flag'?\n"},
    {"probe --secre", 2,
     "flowrun: probe: there is no option '--secre'; 'flowrun help probe' lists them\n"},
    {"probe -Z", 2, "flowrun: probe: there is no option '-Z'; 'flowrun help probe' lists them\n"},
    {"two a", 2, "flowrun: two needs A B; see 'flowrun help two'\n"},
    {"two a b c", 2, "flowrun: two: what is 'c'? It takes A B; see 'flowrun help two'\n"},
    {"bare x", 2, "flowrun: bare: what is 'x'? It takes no arguments; see 'flowrun help bare'\n"},
    {"bare", 7, "one\ntwo\n2 mistakes\n"},
    {"bare --help", 0, "flowrun bare\n\ntakes none\n"},
    {"probe -n x --help", 0,
     "flowrun probe [pause | resume [A] [B]] [options]\n\nprobes\n\nMore.\n\noptions:\n"
     "  -n, --count N              how many\n"
     "  --any N                    any number\n"
     "  --color COLOR              which\n"
     "  -l, --list X               again\n"
     "  -f, --flag                 a flag\n"
     "  --json                     as JSON\n"},
    /* What completion says of a real row. */
    {"complete backfill --order ''", 0, "oldest\nnewest\n"},
    {"complete backfill --existing=", 0, "skip\nfailed\nall\n"},
    {"complete backfill --from ''", 0, ""},
    {"complete notify --de", 0, ""},
    {"complete graph --format ''", 0, "text\ndot\nsvg\n"},
};

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return cli_command_find(name);
}

static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[120], empty[] = "", *argv[WORDS] = {NULL}, *rest = NULL;
        size_t n = 0;

        check_row(rows[i].line);
        snprintf(line, sizeof(line), "%s", rows[i].line);
        for (char *w = strtok_r(line, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest)) {
            for (char *p = w; (p = strchr(p, '~')) != NULL;)
                *p = ' ';
            argv[n++] = strcmp(w, "''") == 0 ? empty : w;
        }
        CHECK_INT(cli_dispatch(find(argv[0]), argv), rows[i].code);
        CHECK_TEXT(printed.n > 0 ? printed.p : "", rows[i].text);
        fr_buf_finish(&printed);
    }
}

/* Each row of the table: an option is found by its name and by its letter, and has its value. */
static void test_table(void)
{
    for (const struct cli_command *c = cli_command_table(); c->name != NULL; c++) {
        size_t n = 0;

        check_row(c->name);
        CHECK(cli_command_find(c->name) == c && c->help[0] != '\0' && c->run != NULL);
        CHECK(c->more == NULL || c->more[strlen(c->more) - 1] == '\n');
        for (const struct cli_opt *o = c->opts; o->name != NULL; o++, n++) {
            CHECK(strncmp(o->name, "--", 2) == 0 && (o->words == NULL || o->meta != NULL));
            for (const struct cli_opt *k = c->opts; k < o; k++)
                CHECK(strcmp(k->name, o->name) != 0 && (k->letter == 0 || k->letter != o->letter));
        }
        CHECK(n <= CLI_OPTS_MOST);
    }
    CHECK(cli_command_find("nothing") == NULL);
}

int main(void)
{
    setenv("FLOWRUN_HOME", "/dev/null/none", 1); /* no command here reads a home */
    fr_print_by(&(struct fr_printer){take, no_error, NULL});
    test_lines();
    test_table();
    fr_print_by(NULL);
    return check_done();
}
