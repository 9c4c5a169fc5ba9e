#!/usr/bin/env python3
"""Drawn dense models, as dense.py makes its own: COUNT of each family with odd sizes.

    python3 tests/golden/dense_drawn.py SEED COUNT FOLDER     # with torch, transformers, peft, safetensors
    build/tests/unit/parity_test folders FOLDER/*             # flowtrain's logits, gradients and steps of the same

By hand, with a seed of one's own: what differs becomes a configuration of dense.py. Limits of bf16 are not dense.py's
but of an error analysis (rounding.py): of thousands of drawn tensors some are lucky in the reference and not here.

Not drawn, for there is nothing to compare with:
  - rope type dynamic with heads of 2: the reference divides by head_dim - 2;
  - rope type dynamic and a sample of more than max_position_embeddings: the reference takes the frequencies of the
    longest batch, padding included, since the last that was shorter than that. So the loss of a sample depends on the
    others beside and before it, on the rank and on resumes; flowtrain refuses such a sample;
  - q_proj and k_proj with a window of one token: the softmax of one score is 1 whatever q and k are, so their gradients
    are 0, and the reference's are rounding (sdpa 1e-7 in f32 and 1e-16 in f64, eager 0);
  - Qwen3 with heads of 2: of thousands of norms of two numbers some are so small that bf16 has no digit of them, and
    limits mean nothing (rounding.py). In f32 they agree.
"""
import os
import random
import sys

import torch

import dense
import rounding


def rope(rng):
    theta = rng.choice((100.0, 500.0, 10000.0, 1e6))
    kind = rng.choice(("default", "default", "linear", "dynamic", "llama3", "yarn"))
    made = {"rope_type": kind, "rope_theta": theta}
    if kind != "default":
        made["factor"] = rng.choice((1.0, 1.7, 2.0, 8.0))
    if kind == "llama3":
        made.update(low_freq_factor=rng.choice((1.0, 1.5)), high_freq_factor=rng.choice((4.0, 2.5)),
                    original_max_position_embeddings=rng.choice((16, 32, 61)))
    if kind == "yarn":
        made.update(original_max_position_embeddings=rng.choice((16, 29)))
        for key, values in (("mscale", (1.0, 0.7)), ("mscale_all_dim", (0.5, 1.0)), ("beta_fast", (16.0, 32.0)), ("beta_slow", (1.0, 2.0)),
                            ("attention_factor", (1.25, 0.9)), ("truncate", (True, False))):
            if rng.random() < 0.3:
                made[key] = rng.choice(values)
    return made


def config(rng, family):
    kv = rng.choice((1, 1, 2, 3, 5))
    heads = kv * rng.choice((1, 2, 3, 7))
    hidden = heads * rng.choice([n for n in range(1, 70) if 5 <= heads * n <= 70])  # a multiple is asked for there
    made = dict(num_key_value_heads=kv, num_attention_heads=heads, head_dim=2 * rng.choice((1, 2, 3, 5, 7, 9, 17)), hidden_size=hidden,
                intermediate_size=rng.choice((3, 19, 45, 64, 77)), vocab_size=rng.choice((31, 64, 97, 131)),
                num_hidden_layers=rng.choice((1, 2, 3)), rms_norm_eps=rng.choice((1e-6, 1e-5, 1e-3)),
                tie_word_embeddings=rng.random() < 0.4, rope_parameters=rope(rng), max_position_embeddings=rng.choice((64, 128)))
    if made["rope_parameters"]["rope_type"] == "dynamic":
        made["max_position_embeddings"] = max(dense.LENGTHS)
        made["head_dim"] = max(made["head_dim"], 4)
    if family in ("llama", "qwen3") and rng.random() < 0.4:
        made["attention_bias"] = True
    if family == "qwen3":
        made["head_dim"] = max(made["head_dim"], 4)
    if family == "llama" and rng.random() < 0.3:
        made["mlp_bias"] = True
    if family == "mistral":
        made["sliding_window"] = rng.choice((None, 1, 2, 7, 22, 1000))
    if family in ("qwen2", "qwen3") and rng.random() < 0.5:
        made.update(use_sliding_window=True, sliding_window=rng.choice((3, 11)), max_window_layers=rng.randint(0, made["num_hidden_layers"]))
    return made


def targets(rng, made):
    drawn = rng.sample(dense.ALL, rng.randint(1, 7))
    if made.get("sliding_window") != 1:
        return drawn
    return [name for name in drawn if name not in ("q_proj", "k_proj")] or ["v_proj"]


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    seed, count, dense.HERE = int(sys.argv[1]), int(sys.argv[2]), os.path.abspath(sys.argv[3])
    rng = random.Random(seed)
    for family in dense.CLASSES:
        for k in range(count):
            name = "drawn%d" % k
            dense.CONFIGS[family] = {name: config(rng, family)}
            dense.TARGETS[name] = targets(rng, dense.CONFIGS[family][name])
            print(family, dense.CONFIGS[family][name], dense.TARGETS[name], flush=True)
            dense.write(family, name, rng.randrange(1 << 30), rounding.limits)


main()
