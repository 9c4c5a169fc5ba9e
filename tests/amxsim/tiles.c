#include "tests/amxsim/ops.h"

#include <errno.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in tiles.h, which would replace what is used here. */
long amxsim_syscall(long number, long option, long feature);
void amxsim_config(const void *config);
void amxsim_release(void);
void amxsim_zero(int tile);
void amxsim_load(int tile, const void *from, long apart);
void amxsim_store(int tile, void *to, long apart);
void amxsim_add(int sums, int a, int b);

enum { TILES = 8, ROWS = 16, BYTES = 64, NAMED = 16, CELL = 4 };

struct config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[NAMED];
    uint8_t rows[NAMED];
};

struct tile {
    int rows, bytes;
    uint32_t cell[ROWS][BYTES / CELL];
};

static _Thread_local struct {
    bool configured;
    struct tile tiles[TILES];
} own;

static atomic_bool allowed;     /* the system lets this process use tiles */
static atomic_int holders, ran; /* threads with tiles; products of tiles */
static const char *op = "";     /* the op that runs, if that is known */

static _Noreturn void fault(const char *what)
{
    printf("FAILED: AMX%s%s: %s\n", op[0] != '\0' ? " in " : "", op, what);
    (void)fflush(stdout);
    _exit(EXIT_FAILURE);
}

void amxsim_begin_op(const char *name)
{
    op = name;
}

void amxsim_end_op(void)
{
    if (atomic_load(&holders) != 0)
        fault("a thread holds tiles at the end");
    op = "";
}

/* The code around the tiles needs the rest of such a chip, and that it may be used (cells.h). */
static bool fits(void)
{
    return __builtin_cpu_supports("avx512bf16") && getenv("FLOWTRAIN_MAX_ISA") == NULL;
}

__attribute__((constructor)) static void check_chip(void)
{
    if (fits())
        return;
    printf("skipped: the chip has no AVX-512 with BF16, or it is not to be used\n");
    exit(77);
}

__attribute__((destructor)) static void check_end(void)
{
    if (!fits())
        return;
    amxsim_end_op();
    if (atomic_load(&ran) == 0)
        fault("no product of tiles was run");
}

long amxsim_syscall(long number, long option, long feature)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    if (number != SYS_arch_prctl || option != REQUEST_PERMISSION || feature != TILE_DATA) {
        errno = EINVAL;
        return -1;
    }
    atomic_store(&allowed, true);
    return 0;
}

static struct tile *tile_at(int i)
{
    if (!own.configured)
        fault("a tile is used before LDTILECFG");
    if (i < 0 || i >= TILES || own.tiles[i].rows == 0)
        fault("a tile is used that has no rows");
    if (own.tiles[i].bytes % CELL != 0)
        fault("a tile is used whose rows end within a cell");
    return &own.tiles[i];
}

static struct tile tile_of(const struct config *c, int i)
{
    struct tile t = {.rows = c->rows[i], .bytes = c->bytes[i]};

    if (i >= TILES && (t.rows != 0 || t.bytes != 0))
        fault("LDTILECFG: palette 1 has eight tiles");
    if (t.rows > ROWS || t.bytes > BYTES || (t.rows == 0) != (t.bytes == 0))
        fault("LDTILECFG: a tile of a wrong size");
    return t;
}

void amxsim_config(const void *config)
{
    static const uint8_t none[14];
    struct config c;

    if (!atomic_load(&allowed))
        fault("LDTILECFG: the system was not asked for tiles");
    memcpy(&c, config, sizeof c);
    if (c.palette != 1 || c.start != 0 || memcmp(c.reserved, none, sizeof none) != 0)
        fault("LDTILECFG: palette, start or reserved bytes");
    for (int i = 0; i < NAMED; i++) {
        struct tile t = tile_of(&c, i);

        if (i < TILES)
            own.tiles[i] = t;
    }
    atomic_fetch_add(&holders, !own.configured);
    own.configured = true;
}

void amxsim_release(void)
{
    atomic_fetch_sub(&holders, own.configured);
    own.configured = false;
}

void amxsim_zero(int tile)
{
    struct tile *t = tile_at(tile);

    memset(t->cell, 0, sizeof t->cell);
}

void amxsim_load(int tile, const void *from, long apart)
{
    struct tile *t = tile_at(tile);

    memset(t->cell, 0, sizeof t->cell);
    for (int i = 0; i < t->rows; i++)
        memcpy(t->cell[i], (const char *)from + i * apart, (size_t)t->bytes);
}

void amxsim_store(int tile, void *to, long apart)
{
    const struct tile *t = tile_at(tile);

    for (int i = 0; i < t->rows; i++)
        memcpy((char *)to + i * apart, t->cell[i], (size_t)t->bytes);
}

/* A pair's lower and upper bf16, as f32. */
static float lower(uint32_t cell)
{
    float x;

    cell <<= 16;
    memcpy(&x, &cell, sizeof x);
    return x;
}

static float upper(uint32_t cell)
{
    float x;

    cell &= 0xffff0000;
    memcpy(&x, &cell, sizeof x);
    return x;
}

/* One row of sums: even and odd products by themselves, then both, then what the sums were. */
__attribute__((target("fma"))) static void add_row(const struct tile *c, float *sums,
                                                   const uint32_t *a, const struct tile *b)
{
    float even[BYTES / CELL] = {0}, odd[BYTES / CELL] = {0};

    for (int k = 0; k < b->rows; k++)
        for (int j = 0; j < BYTES / CELL; j++) {
            even[j] = __builtin_fmaf(lower(a[k]), lower(b->cell[k][j]), even[j]);
            odd[j] = __builtin_fmaf(upper(a[k]), upper(b->cell[k][j]), odd[j]);
        }
    for (int j = 0; j < c->bytes / CELL; j++)
        sums[j] += even[j] + odd[j];
}

void amxsim_add(int sums, int a, int b)
{
    struct tile *c = tile_at(sums), *x = tile_at(a), *y = tile_at(b);
    unsigned control = _mm_getcsr();

    if (sums == a || sums == b || a == b)
        fault("TDPBF16PS: a tile is named twice");
    if (c->rows != x->rows || x->bytes / CELL != y->rows || c->bytes != y->bytes)
        fault("TDPBF16PS: sizes do not fit");
    _mm_setcsr(0x9fc0); /* to nearest, numbers below the normal ones are 0 */
    for (int i = 0; i < c->rows; i++) {
        float row[BYTES / CELL];

        memcpy(row, c->cell[i], sizeof row);
        add_row(c, row, x->cell[i], y);
        memcpy(c->cell[i], row, sizeof row);
    }
    _mm_setcsr(control);
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
}
