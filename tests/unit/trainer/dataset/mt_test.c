#include "tests/unit/check.h"
#include "trainer/dataset/mt.h"

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

/* RandomState(5): permutation(n), then choice(n, k - n); of numpy 2. */
static const struct {
    const char *name;
    int64_t n, k, order[9];
} chosen[] = {
    {"as many as there are", 5, 5, {4, 0, 1, 2, 3}},
    {"fewer", 5, 2, {4, 0, 1, 2, 3}},
    {"more", 5, 9, {4, 0, 1, 2, 3, 0, 1, 0, 4}},
    {"of one", 1, 3, {0, 0, 0}},
};

static void test_chosen(void)
{
    enum { MANY = 65537 }; /* the first draw is of 17 bits, of which most has one */
    int64_t got[9], sum = 0, *many = malloc((MANY + 3) * sizeof(*many));
    struct tr_mt mt;

    for (size_t i = 0; i < sizeof(chosen) / sizeof(chosen[0]); i++) {
        int64_t n = chosen[i].n > chosen[i].k ? chosen[i].n : chosen[i].k;

        check_row(chosen[i].name);
        memset(got, 0xff, sizeof(got));
        tr_mt_seed(&mt, 5);
        tr_mt_choose(&mt, chosen[i].n, chosen[i].k, got);
        for (int64_t k = 0; k < 9; k++)
            CHECK_INT(got[k], k < n ? chosen[i].order[k] : -1);
    }
    check_row("of many");
    memset(many, 0xff, (MANY + 3) * sizeof(*many));
    tr_mt_seed(&mt, 5);
    tr_mt_choose(&mt, MANY, MANY + 3, many);
    for (int64_t k = 0; k < MANY; k++)
        sum += k * many[k];
    CHECK_INT(sum, 70376671481051);
    CHECK(many[0] == 4701 && many[3] == 15862);
    CHECK(many[MANY] == 40664 && many[MANY + 1] == 3563 && many[MANY + 2] == 54676);
    free(many);
}

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
    test_chosen();
    return check_done();
}
