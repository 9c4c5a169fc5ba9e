#include "tests/unit/check.h"
#include "trainer/data/mt.h"

/* torch.randperm(10, generator=torch.Generator().manual_seed(seed)) and, for n = 1000, its sum of
 * i * value, from torch 2.15. */
static const struct {
    const char *name;
    int64_t seed;
    int64_t order[10];
} rows[] = {
    {"seed 42", 42, {2, 6, 1, 8, 4, 5, 0, 9, 3, 7}},
    {"seed 43", 43, {8, 4, 9, 0, 5, 1, 6, 7, 2, 3}},
};

int main(void)
{
    int64_t got[1000], sum = 0;
    int seen[1000] = {0};
    struct tr_mt mt;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        tr_randperm(rows[i].seed, 10, got);
        for (int k = 0; k < 10; k++)
            CHECK_INT(got[k], rows[i].order[k]);
    }
    check_row("1000 numbers");
    tr_randperm(7, 1000, got);
    for (int k = 0; k < 1000; k++) {
        sum += k * got[k];
        seen[got[k]]++;
    }
    for (int k = 0; k < 1000; k++)
        CHECK_INT(seen[k], 1);
    CHECK_INT(sum, 251046965);
    check_row("the generator's own test: seed 5489, 10,000th number");
    tr_mt_seed(&mt, 5489);
    for (int k = 0; k < 9999; k++)
        (void)tr_mt_next(&mt);
    CHECK_INT(tr_mt_next(&mt), 4123659995);
    check_row("one");
    got[0] = 1;
    tr_randperm(1, 1, got);
    CHECK_INT(got[0], 0);
    return check_done();
}
