/* The machine of tiles itself: what it sums, loads and stores, and what it faults at. */
#include "tests/unit/check.h"

#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

enum { K = 3, PERMISSION = 0x1023, TILE_DATA = 18 };

struct config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

/* Sums (2, 3) in tile 0, a (2, K) in 1, b (K, 3) in 2, all in cells; tile 3: a again. */
static const struct config good = {
    .palette = 1, .bytes = {12, 4 * K, 12, 4 * K}, .rows = {2, 2, K, 2}};

static void ask(void)
{
    CHECK(syscall(SYS_arch_prctl, PERMISSION, TILE_DATA) == 0);
}

/* ---- sums ---- */

/* One sum of K pairs of products, beginning at `held`. */
struct sum {
    const char *what;
    float held, a[2 * K], b[2 * K], want;
};

static const struct sum sums[] = {
    {"all products count", 0.5f, {1, 2, 3, 4, 5, 6}, {1, 10, 2, 20, 3, 30}, 302.5f},
    {"odd products by themselves",
     0,
     {1, 0, 0, 1, 0, 1},
     {1, 0, 0, 0x1p-24f, 0, 0x1p-24f},
     1 + 0x1p-23f},
    {"even products in order", 0, {1, 0, 1, 0, 1, 0}, {1, 0, 0x1p-24f, 0, 0x1p-24f, 0}, 1},
    {"even and odd ones before what was held",
     -1,
     {1, 1, 0, 0, 0, 0},
     {1, 0x1p-24f, 0, 0, 0, 0},
     0},
    {"ties go to even", 0, {1, 0, 3, 0, 0, 0}, {1, 0, 0x1p-24f, 0, 0, 0}, 1 + 0x1p-22f},
    {"a product is not rounded",
     0,
     {-1, 0, 0x1p64f, 0, 0, 0},
     {0x1p127f, 0, 0x1p64f, 0, 0, 0},
     0x1p127f},
    {"a factor below the normal numbers is 0",
     0,
     {0x1p-130f, 0, 0, 0, 0, 0},
     {0x1p100f, 0, 0, 0, 0, 0},
     0},
    {"a sum below the normal numbers is 0",
     0,
     {0x1p-70f, 0, 0, 0, 0, 0},
     {0x1p-70f, 0, 0, 0, 0, 0},
     0},
    {"what was held below the normal numbers is 0", 0x1p-130f, {0}, {0}, 0},
};

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint32_t pair_of(const float x[2])
{
    return bits_of(x[0]) >> 16 | (bits_of(x[1]) & 0xffff0000);
}

/* The sum that stands in the last row and column, beside others. */
static float run(const struct sum *s)
{
    float c[2][3] = {{7, 7, 7}, {7, 7, s->held}};
    uint32_t a[2][K] = {0}, b[K][3] = {0};

    for (int k = 0; k < K; k++) {
        a[1][k] = pair_of(s->a + 2 * k);
        b[k][2] = pair_of(s->b + 2 * k);
    }
    _tile_loadconfig(&good);
    _tile_loadd(0, c, sizeof c[0]);
    _tile_loadd(1, a, sizeof a[0]);
    _tile_loadd(2, b, sizeof b[0]);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, c, sizeof c[0]);
    _tile_release();
    for (int i = 0; i < 5; i++)
        CHECK(c[i / 3][i % 3] == 7);
    return c[1][2];
}

static void sum_cases(void)
{
    static const unsigned modes[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN};

    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        for (int m = 0; m < 3; m++) {
            unsigned control = _mm_getcsr();
            float got;

            check_row(sums[i].what);
            _MM_SET_ROUNDING_MODE(modes[m]);
            got = run(&sums[i]);
            CHECK(_MM_GET_ROUNDING_MODE() == modes[m]);
            _mm_setcsr(control);
            CHECK_INT(bits_of(got), bits_of(sums[i].want));
        }
    check_row("");
}

/* ---- rows ---- */

enum { OLD = 0x63636363 };

/* A load takes a tile's rows and bytes alone, a store leaves what is beside them. */
static void row_cases(void)
{
    static const uint32_t from[2][5] = {{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}};
    static const uint32_t copied[3][5] = {
        {1, 2, 3, OLD, OLD}, {6, 7, 8, OLD, OLD}, {OLD, OLD, OLD, OLD, OLD}};
    static const uint32_t empty[3][5] = {
        {0, 0, 0, OLD, OLD}, {0, 0, 0, OLD, OLD}, {OLD, OLD, OLD, OLD, OLD}};
    uint32_t to[3][5];

    for (int way = 0; way < 3; way++) {
        check_row(way == 0 ? "copied" : way == 1 ? "zeroed" : "configured again");
        memset(to, OLD & 0xff, sizeof to);
        _tile_loadconfig(&good);
        _tile_loadd(0, from, sizeof from[0]);
        if (way == 1)
            _tile_zero(0);
        else if (way == 2)
            _tile_loadconfig(&good);
        _tile_stored(0, to, sizeof to[0]);
        _tile_release();
        CHECK(memcmp(to, way == 0 ? copied : empty, sizeof to) == 0);
    }
    check_row("");
}

/* ---- faults ---- */

static void load_config(struct config c)
{
    ask();
    _tile_loadconfig(&c);
}

#define CONFIG_CASE(name, change)                                                                  \
    static void name(void)                                                                         \
    {                                                                                              \
        struct config c = good;                                                                    \
                                                                                                   \
        c.change;                                                                                  \
        load_config(c);                                                                            \
    }
CONFIG_CASE(palette, palette = 2)
CONFIG_CASE(start, start = 1)
CONFIG_CASE(reserved, reserved[13] = 1)
CONFIG_CASE(ninth_bytes, bytes[8] = 4)
CONFIG_CASE(last_rows, rows[15] = 1)
CONFIG_CASE(many_rows, rows[0] = 17)
CONFIG_CASE(many_bytes, bytes[7] = 65)
CONFIG_CASE(no_rows, rows[3] = 0)
CONFIG_CASE(no_bytes, bytes[3] = 0)

static void unasked(void)
{
    _tile_loadconfig(&good);
}

static void asked_wrongly(void)
{
    CHECK(syscall(SYS_arch_prctl, PERMISSION, TILE_DATA - 1) == -1);
    _tile_loadconfig(&good);
}

static void unconfigured(void)
{
    ask();
    _tile_zero(0);
}

static void released(void)
{
    float c[2][3];

    load_config(good);
    _tile_release();
    _tile_stored(0, c, sizeof c[0]);
}

static void no_tile(void)
{
    load_config(good);
    _tile_zero(4);
}

static void part_of_a_cell(void)
{
    struct config c = good;
    uint32_t a[2][K];

    c.bytes[1] = 4 * K - 1;
    load_config(c);
    _tile_loadd(1, a, sizeof a[0]);
}

static void same_tile(void)
{
    load_config(good);
    _tile_dpbf16ps(0, 1, 1);
}

#define SIZE_CASE(name, change)                                                                    \
    static void name(void)                                                                         \
    {                                                                                              \
        struct config c = good;                                                                    \
                                                                                                   \
        c.change;                                                                                  \
        load_config(c);                                                                            \
        _tile_dpbf16ps(0, 1, 2);                                                                   \
    }
SIZE_CASE(rows_of_sums, rows[0] = 1)
SIZE_CASE(rows_of_a, rows[1] = 3)
SIZE_CASE(cells_of_a, bytes[1] = 4)
SIZE_CASE(rows_of_b, rows[2] = 4)
SIZE_CASE(columns_of_b, bytes[2] = 16)

static void held(void)
{
    load_config(good);
    _tile_dpbf16ps(0, 1, 2);
}

static void none_run(void)
{
    load_config(good);
    _tile_release();
}

static const struct fault {
    const char *name;
    void (*run)(void);
    const char *text;
} faults[] = {
    {"unasked", unasked, "LDTILECFG: the system was not asked for tiles"},
    {"asked wrongly", asked_wrongly, "LDTILECFG: the system was not asked for tiles"},
    {"palette", palette, "LDTILECFG: palette, start or reserved bytes"},
    {"start", start, "LDTILECFG: palette, start or reserved bytes"},
    {"reserved", reserved, "LDTILECFG: palette, start or reserved bytes"},
    {"bytes of a ninth tile", ninth_bytes, "LDTILECFG: palette 1 has eight tiles"},
    {"rows of a sixteenth tile", last_rows, "LDTILECFG: palette 1 has eight tiles"},
    {"many rows", many_rows, "LDTILECFG: a tile of a wrong size"},
    {"many bytes", many_bytes, "LDTILECFG: a tile of a wrong size"},
    {"bytes without rows", no_rows, "LDTILECFG: a tile of a wrong size"},
    {"rows without bytes", no_bytes, "LDTILECFG: a tile of a wrong size"},
    {"unconfigured", unconfigured, "a tile is used before LDTILECFG"},
    {"released", released, "a tile is used before LDTILECFG"},
    {"no tile", no_tile, "a tile is used that has no rows"},
    {"part of a cell", part_of_a_cell, "a tile is used whose rows end within a cell"},
    {"same tile", same_tile, "TDPBF16PS: a tile is named twice"},
    {"rows of sums", rows_of_sums, "TDPBF16PS: sizes do not fit"},
    {"rows of a", rows_of_a, "TDPBF16PS: sizes do not fit"},
    {"cells of a", cells_of_a, "TDPBF16PS: sizes do not fit"},
    {"rows of b", rows_of_b, "TDPBF16PS: sizes do not fit"},
    {"columns of b", columns_of_b, "TDPBF16PS: sizes do not fit"},
    {"held", held, "a thread holds tiles at the end"},
    {"none run", none_run, "no product of tiles was run"},
};

/* What a process of its own says and how it ends. */
static void fault_case(const struct fault *f)
{
    char text[256] = "", want[256];
    int ends[2], status = 0;
    pid_t child;
    ssize_t n;

    check_row(f->name);
    if (!CHECK(pipe(ends) == 0))
        return;
    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        f->run();
        exit(EXIT_SUCCESS);
    }
    (void)close(ends[1]);
    n = read(ends[0], text, sizeof text - 1);
    (void)close(ends[0]);
    CHECK(n >= 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    (void)snprintf(want, sizeof want, "FAILED: AMX: %s\n", f->text);
    CHECK_TEXT(text, want);
}

int main(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        fault_case(&faults[i]);
    check_row("");
    ask();
    sum_cases();
    row_cases();
    return check_done();
}
