/* Which ended runs leave a home: by keep: of its configuration, and by what a pipeline says of its
 * own. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/retain/retain.h"
#include "tests/unit/store/store_bed.h"

static char home[BED_HOME];

enum { DAY = 86400000 };

static struct fr_store *st;
static struct fr_err err;

static const struct {
    const char *name;
    struct fr_keep_runs keep;
    /* Oldest first: pipeline, outcome (s f c), age in days, '!' pinned, '+' large, '*' its file
     * says keep_runs: own. */
    const char *runs;
    const char *want; /* numbers that go, the newest first */
    const char *own;
} choices[] = {
    {"no limit", {0, 0, 0, 0}, "as900 as800 as1", "", ""},
    {"two of each", {2, 0, 0, 0}, "as9 bs9 as8 as7 bs6 as5 bs4 bs3", "5 3 2 1", ""},
    {"the newest failed and the newest succeeded stay",
     {1, 0, 0, 0},
     "as9 as8 af7 af6 ac5 ac4 ac3",
     "6 5 3 1",
     ""},
    {"pinned ones stay, and count", {2, 0, 0, 0}, "as9! as8 as7! as6", "2", ""},
    {"by age", {0, 3, 3, 0}, "as9 as4 ac4 as2 as1", "3 2 1", ""},
    {"failed ones by an age of their own", {0, 3, 8, 0}, "af9 af5 as9 as5 af1 as1", "4 3 1", ""},
    {"failed ones alone", {0, 0, 3, 0}, "af9 as9 as8 af4 af1", "4 1", ""},
    {"whichever is first", {3, 5, 5, 0}, "as9 as4 as3 as2 as1", "2 1", ""},
    {"by size: each has 10 bytes", {0, 0, 0, 35}, "as9 as8 as7 as6 as5", "2 1", ""},
    {"no more than must", {0, 0, 0, 40}, "as9 as8 as7+ as6", "2 1", ""},
    {"the oldest, however large the others are", {0, 0, 0, 50}, "as9 as8+ as7 as6", "1", ""},
    {"what goes for its age takes no room", {0, 7, 7, 20}, "as9 as8 as6 as5", "2 1", ""},
    {"what stays takes room, too", {0, 0, 0, 15}, "af9 as8 as7! as6 as5", "4 2", ""},
    {"nothing of another pipeline", {1, 0, 0, 0}, "as9 bs8 cs7", "", ""},
    {"more of its own", {2, 0, 0, 0}, "as9 as8 as7 as6*", "1", "runs: 3"},
    {"fewer of its own", {3, 0, 0, 0}, "as9 as8 as7*", "2 1", "runs: 1"},
    {"not of another one", {1, 0, 0, 0}, "as9 bs9 as8 bs8 as7*", "2 1", "runs: 2"},
    {"what the newest run says counts", {0, 0, 0, 0}, "as9 as8* as7", "", "runs: 1"},
    {"of what it does not say the home's", {0, 3, 3, 0}, "as9 af8 as2 af2 as1*", "2 1", "runs: 5"},
    {"the number, too", {1, 0, 0, 0}, "as9 as8*", "1", "days: 30"},
    {"days of its own, of failed ones too",
     {0, 3, 3, 0},
     "as9 af9 as5 af5 as1 af1*",
     "2 1",
     "days: 7"},
    {"of failed ones alone", {0, 3, 3, 0}, "as9 af9 as5 af5 as1 af1*", "3 2 1", "failed_days: 7"},
    {"days of either kind",
     {0, 0, 0, 0},
     "as9 af9 as5 af5 as1 af1*",
     "3 2 1",
     "days: 3, failed_days: 7"},
    {"a size of its own", {0, 0, 0, 0}, "as9 bs9 as8 bs8 as7*", "1", "bytes: 25"},
    {"beside the home's, which has room",
     {0, 0, 0, 35},
     "as9 bs9 as8 bs8 as7*",
     "3 1",
     "bytes: 15"},
    {"and which has none", {0, 0, 0, 25}, "as9 bs9 as8 bs8 as7*", "3 2 1", "bytes: 15"},
    {"what goes for its number takes no room of its own",
     {0, 0, 0, 0},
     "as9 as8 as7 as6*",
     "2 1",
     "runs: 2, bytes: 25"},
};

static void write_file(const char *run, const char *name, const char *text)
{
    struct fr_buf path = {0};

    fr_buf_fmt(&path, "%s/runs/%s", home, run);
    CHECK_INT(fr_mkdirs(path.p, 0700, &err), FR_OK);
    fr_buf_fmt(&path, "/%s", name);
    CHECK_INT(fr_file_write(path.p, text, strlen(text), 0600, &err), FR_OK);
    fr_buf_finish(&path);
}

/* own: what its file says, where it is marked so; else there is none that could be read. */
static void add_choice(const char **p, int n, const char *own)
{
    struct fr_run_row run = {.id = {{0xab, (uint8_t)n}},
                             .source = "/p.yaml",
                             .folder = "/",
                             .spec_hash = "h",
                             .state = FR_RUN_OVER,
                             .params = "{}"};
    char name[2] = {*(*p)++, '\0'}, text[FR_ID_TEXT], spec[200], hash[FR_SHA256_TEXT];
    char outcome = *(*p)++;
    bool large;

    run.name = name;
    run.outcome = outcome == 's'   ? FR_OUT_SUCCEEDED
                  : outcome == 'f' ? FR_OUT_FAILED
                                   : FR_OUT_CANCELLED;
    run.ended_wall = fr_sys.wall_ms() - strtol(*p, (char **)p, 10) * DAY - DAY / 2;
    run.pinned = **p == '!';
    large = **p == '+';
    if (**p == '*') {
        snprintf(spec, sizeof(spec), "name: a\nkeep_runs: {%s}\ntasks: {t: {run: x}}\n", own);
        CHECK_INT(fr_blob_put(home, fr_str_of(spec), hash, &err), FR_OK);
        run.spec_hash = hash;
    }
    CHECK_INT(fr_store_run_add(st, &run, &err), FR_OK);
    *p += strspn(*p, "!+* ");
    fr_id_text(run.id, text);
    write_file(text, "log", "123456");
    write_file(text, "y", large ? "123456789012345678901234" : "1234");
}

static void test_choices(void)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_over_rows rows;
        struct fr_buf got = {0};
        int n = 0;

        check_row(choices[i].name);
        st = open_store(home);
        for (const char *p = choices[i].runs; *p != '\0';)
            add_choice(&p, ++n, choices[i].own);
        fr_buf_text(&got, "");
        CHECK_INT(fr_retain_choose(st, &(struct fr_keep_by){choices[i].keep, fr_sys.wall_ms()},
                                   &arena, &rows, &err),
                  FR_OK);
        for (size_t k = 0; k < rows.n; k++)
            fr_buf_fmt(&got, "%s%d", k > 0 ? " " : "", (int)rows.rows[k].no);
        CHECK_TEXT(got.n > 0 ? got.p : "", choices[i].want);
        fr_buf_finish(&got);
        fr_arena_finish(&arena);
        fr_store_close(st);
        remove_store(home);
    }
    check_row("");
}

int main(void)
{
    make_home(home);
    test_choices();
    remove_home(home);
    return check_done();
}
