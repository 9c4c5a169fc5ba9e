#!/usr/bin/env python3
"""DeepSpeed itself beside `flowtrain convert --from-deepspeed`, by hand; writes nothing here.

Trains a tiny Llama three steps in each layout (stage, ranks, frozen, tied, bf16, small groups), saves it with
save_checkpoint(), and compares every bit of what flowtrain makes of it with zero_to_fp32, also of universal checkpoints. Frozen
weights of stage 1, which zero_to_fp32 leaves out, have to be those of the module.
Then the other way: zero_to_fp32 reads what tests/e2e/deepspeed_lib.py writes, whose layout the test of flowtrain uses.
Prints a line a layout; exit status 1 when one differs.

Usage: CUDA_VISIBLE_DEVICES= DS_ACCELERATOR=cpu deepspeed_states.py FLOWTRAIN
Needs torch 2.9, transformers and deepspeed 0.19 (DS_BUILD_OPS=0 pip install --no-build-isolation deepspeed; wheel and ninja).
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
LAYOUTS = [(1, 2, {}), (2, 2, {}), (2, 3, {}), (2, 1, {}), (3, 2, {}), (3, 3, {}), (3, 2, {"sub_group": 3000}), (1, 2, {"frozen": True}),
           (2, 2, {"frozen": True}), (3, 2, {"frozen": True}), (2, 2, {"tied": True}), (3, 2, {"tied": True}), (1, 2, {"bf16": True}), (2, 2, {"bf16": True}),
           (3, 2, {"bf16": True, "frozen": True})]


def train(rank, world, out, stage, options, port):
    import deepspeed
    from transformers import LlamaConfig, LlamaForCausalLM
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_SIZE=str(world),
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.manual_seed(0)
    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    model = LlamaForCausalLM(LlamaConfig(hidden_size=24, intermediate_size=36, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
                                         vocab_size=51, tie_word_embeddings=options.get("tied", False), attention_bias=True))
    model.register_buffer("extra_scale", torch.arange(5, dtype=torch.float32))
    for name, p in model.named_parameters():
        if p.ndim == 1:
            torch.nn.init.normal_(p)
        if options.get("frozen") and ("layers.0" in name or "embed" in name):
            p.requires_grad = False
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.ndim > 1], "weight_decay": 0.1}, {"params": [p for p in trained if p.ndim == 1], "weight_decay": 0.0}]
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 10},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}}, "bf16": {"enabled": options.get("bf16", False)}}
    if "sub_group" in options:
        config["zero_optimization"]["sub_group_size"] = options["sub_group"]
    engine = deepspeed.initialize(model=model, model_parameters=groups, config=config)[0]
    for step in range(3):
        x = torch.randint(0, 51, (1, 16), generator=torch.Generator().manual_seed(100 * step + rank))
        engine.backward(engine(input_ids=x, labels=x).loss)
        engine.step()
    engine.save_checkpoint(out)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def wanted(at, stage, reference):
    found = reference(at)
    if stage != 1:
        return found
    return {**torch.load(at + "/global_step3/mp_rank_00_model_states.pt", weights_only=False)["module"], **found}


def bits(t):
    return t.contiguous().flatten().view(torch.uint8)


def compare(what, flowtrain, folder, want):
    """want: what zero_to_fp32 gives; flowtrain's float32 are its bits, bfloat16 its values rounded by torch."""
    from safetensors.torch import load_file
    for word, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        out = tempfile.mkdtemp()
        subprocess.run([flowtrain, "convert", "--from-deepspeed", folder, "--to", out, "--save_dtype", word], check=True, stdout=subprocess.DEVNULL)
        got = load_file(out + "/model.safetensors")
        odd = sorted(set(got) ^ set(want)) + [n for n in got if n in want and (got[n].shape != want[n].shape or not torch.equal(
            bits(got[n]), bits(want[n].to(dtype) if want[n].is_floating_point() else want[n])))]
        print("%-44s %-8s %3d tensors %s" % (what, word, len(got), "differ: %s" % odd if odd else "equal"), flush=True)
        if odd:
            sys.exit(1)


def built(folder, reference, flowtrain):
    """Both read what the test's builder writes."""
    sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
    import deepspeed_lib as d
    shapes = {"a.weight": (7, 5), "b.weight": (5, 11), "b.bias": (13,), "c.weight": (3, 3, 3), "d.bias": (1,)}
    model = {n: ("F32", s, struct.pack("<%df" % d.numel(s), *range(d.numel(s)))) for n, s in shapes.items()}
    model["cold"] = ("BF16", (3, 7), bytes([0x3f, 0x12] * 21))
    model["steps"] = ("I64", (3,), struct.pack("<3q", 1, -2, 3))
    groups = [[n for n in shapes if "weight" in n], [n for n in shapes if "bias" in n]]
    for stage, world, more in ((1, 2, {}), (2, 3, {"pads": 2}), (2, 2, {"tied": {"e.weight": "a.weight"}}), (3, 2, {}), (3, 4, {})):
        at = os.path.join(folder, "built-%d-%d-%d" % (stage, world, len(more)))
        d.Checkpoint(model, groups, frozen=["cold"], buffers=["steps"], **more).write(at, stage, world)
        compare("the test's: stage %d, ranks %d %s" % (stage, world, json.dumps(more)), flowtrain, at, wanted(at, stage, reference))


def main():
    import torch.multiprocessing as mp
    from deepspeed.checkpoint import ds_to_universal
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as reference
    flowtrain = os.path.abspath(sys.argv[1])
    folder = tempfile.mkdtemp()
    for k, (stage, world, options) in enumerate(LAYOUTS):
        at = os.path.join(folder, str(k))
        mp.spawn(train, args=(world, at, stage, options, 20000 + (os.getpid() * 17 + k) % 10000), nprocs=world)
        want = wanted(at, stage, reference)
        compare("stage %d, ranks %d %s" % (stage, world, json.dumps(options)), flowtrain, at, want)
        if world == 2 and (stage > 1 and not options or stage == 1 and "frozen" in options):
            subprocess.run([sys.executable, ds_to_universal.__file__, "--input_folder", at + "/global_step3", "--output_folder",
                            at + "/universal", "--inject_missing_state"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            compare("universal, of stage %d" % stage, flowtrain, at + "/universal", want)
    built(folder, reference, flowtrain)


if __name__ == "__main__":
    main()
