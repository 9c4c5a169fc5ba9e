#include "tests/unit/trainer/train/score_data.h"

#include "engine/base/sys.h"
#include "trainer/dataset/dataset_state.h"

/* The greedy answer of dense/llama_plain to its first token, of golden/generate.json: each token is
 * the model's first choice. */
static const int32_t answer[] = {3, 25, 9, 17, 9, 66, 27, 56, 25, 9, 62, 53, 10, 48, 6, 40, 55};

/* Every third sample has tokens that the model does not choose, the others end with one. */
static int32_t token(int64_t i, int64_t k, int64_t n)
{
    return i % 3 == 1 || k + 1 == n ? (int32_t)((i * 31 + k * 7) % 61) : answer[k];
}

struct tr_dataset *score_data(const int64_t *lengths, const int64_t *prompts, int64_t n)
{
    struct tr_tokens t = {.n = n};
    struct tr_dataset *d = NULL;

    t.offsets = fr_sys.alloc(((size_t)n + 1) * sizeof(*t.offsets));
    t.offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < lengths[i]; k++) {
            int32_t id = token(i, k, lengths[i]), label = k > prompts[i] ? id : TR_IGNORE;

            (void)tr_ids_add(&t.ids, &id, 1, NULL);
            (void)tr_ids_add(&t.labels, &label, 1, NULL);
        }
        t.offsets[i + 1] = t.offsets[i] + lengths[i];
    }
    (void)tr_dataset_hold(&t, NULL, &d, NULL);
    return d;
}
