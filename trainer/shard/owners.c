#include "trainer/shard/owners.h"

#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

/* An expert and its load. */
struct heavy {
    int64_t rows, expert;
};

static int heavier(const void *a, const void *b)
{
    const struct heavy *x = a, *y = b;

    if (x->rows != y->rows)
        return x->rows < y->rows ? 1 : -1;
    return x->expert < y->expert ? -1 : 1;
}

/* Load and experts of a rank so far. */
struct place {
    int64_t rows, experts;
};

static int least(const struct place *places, int P, int64_t slots)
{
    int best = -1;

    for (int k = 0; k < P; k++)
        if (places[k].experts < slots &&
            (best < 0 || places[k].rows < places[best].rows ||
             (places[k].rows == places[best].rows && places[k].experts < places[best].experts)))
            best = k;
    return best;
}

static void by_load(int64_t E, int P, struct heavy *order, struct place *places, int32_t *rank)
{
    qsort(order, (size_t)E, sizeof(*order), heavier);
    for (int64_t i = 0; i < E; i++) {
        int k = least(places, P, (E + P - 1) / P);

        rank[order[i].expert] = k;
        places[k].rows += order[i].rows;
        places[k].experts++;
    }
}

void tr_owners_number(int64_t E, const int32_t *rank, int32_t *local)
{
    for (int64_t e = 0; e < E; e++) {
        local[e] = 0;
        for (int64_t before = 0; before < e; before++)
            local[e] += rank[before] == rank[e];
    }
}

enum fr_rc tr_owners_place(int64_t E, int P, const int64_t *rows, int32_t *rank, int32_t *local,
                           struct fr_err *err)
{
    struct heavy *order = fr_sys.alloc((size_t)E * sizeof(*order));
    struct place *places = fr_sys.alloc((size_t)P * sizeof(*places));

    if (order == NULL || places == NULL) {
        fr_sys.free(order);
        fr_sys.free(places);
        return fr_fail(err, FR_NOMEM, "owners of %lld experts", (long long)E);
    }
    memset(places, 0, (size_t)P * sizeof(*places));
    for (int64_t e = 0; e < E; e++) {
        order[e] = (struct heavy){rows != NULL ? rows[e] : 0, e};
        rank[e] = (int32_t)(e * P / E);
    }
    if (rows != NULL)
        by_load(E, P, order, places, rank);
    tr_owners_number(E, rank, local);
    fr_sys.free(order);
    fr_sys.free(places);
    return FR_OK;
}

double tr_owners_skew(int64_t E, int P, const int64_t *rows, const int32_t *rank)
{
    double all = 0, most = 0;

    for (int64_t e = 0; e < E; e++)
        all += (double)rows[e];
    for (int k = 0; k < P && all > 0; k++) {
        double sum = 0;

        for (int64_t e = 0; e < E; e++)
            sum += rank[e] == k ? (double)rows[e] : 0;
        most = sum > most ? sum : most;
    }
    return all > 0 ? most * P / all : 1;
}
