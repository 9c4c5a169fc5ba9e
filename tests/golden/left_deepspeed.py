#!/usr/bin/env python3
"""DeepSpeed under the Hugging Face Trainer beside flowtrain, which goes on from its checkpoint-5; by hand, writes nothing here.

Two processes train a model of left.json ten steps at each stage. From checkpoint-5, and from what ds_to_universal.py makes
of it, `flowtrain train --resume_from_checkpoint` goes on, on two ranks and on one; its losses are held against those of the
Trainer's own steps 6 to 10. Prints a line a layout; exit status 1 where they are further than 2e-6 apart.

Usage: CUDA_VISIBLE_DEVICES= DS_ACCELERATOR=cpu left_deepspeed.py FLOWTRAIN
Needs torch 2.9, transformers, accelerate, deepspeed 0.19 (as deepspeed_states.py has them).
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORLD = 2


def train(rank, model, ids, out, zero, port):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_SIZE=str(WORLD), OMP_NUM_THREADS="1",
                      MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TRANSFORMERS_VERBOSITY="error")
    import torch
    torch.set_num_threads(1)
    import left
    config = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
              "train_batch_size": "auto", "zero_optimization": zero, "zero_allow_untested_optimizer": True}
    run = left.trainer(model, ids, out, gradient_accumulation_steps=1, deepspeed=config, optim="adamw_torch")
    found = left.exact(run)
    run.train()
    both = torch.tensor(found)
    torch.distributed.all_reduce(both)
    if rank == 0:
        with open(out + "/losses.json", "w") as f:
            json.dump((both / WORLD).tolist(), f)
    torch.distributed.destroy_process_group()


def make_data(folder, texts):
    with open(folder + "/ex/data/texts.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in texts))
    info = folder + "/ex/data/dataset_info.json"
    with open(info) as f:
        known = json.load(f)
    known["texts"] = {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}
    with open(info, "w") as f:
        json.dump(known, f)


def go_on(flowtrain, folder, model, state, world, port):
    out = tempfile.mkdtemp(dir=folder)
    words = {"stage": "pt", "model_name_or_path": model, "finetuning_type": "full", "dataset": "texts", "dataset_dir": folder + "/ex/data",
             "packing": "false", "cutoff_len": 64, "max_steps": 10, "weight_decay": 0.1, "max_grad_norm": 1.0, "logging_steps": 1,
             "lr_scheduler_type": "linear", "warmup_steps": 2, "learning_rate": "1e-2", "per_device_train_batch_size": 1,
             "gradient_accumulation_steps": 1, "seed": 7, "save_steps": 100, "output_dir": out, "resume_from_checkpoint": state}
    run = subprocess.run([flowtrain, "launch", "--nproc_per_node", str(world), "--master_port", str(port), "--", "train", "--do_train"] +
                         [w for k, v in words.items() for w in ("--" + k, str(v))], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr[-3000:])
    with open(out + "/trainer_log.jsonl") as f:
        rows = [json.loads(line) for line in f]
    return [r["loss"] for r in rows if "loss" in r], [line for line in run.stderr.splitlines() if "Going on" in line][0].split(">> ")[1]


def main():
    import torch.multiprocessing as mp
    from deepspeed.checkpoint import ds_to_universal
    sys.path.insert(0, HERE)
    flowtrain, folder, port = os.path.abspath(sys.argv[1]), tempfile.mkdtemp(), 21000 + os.getpid() % 5000
    with open(HERE + "/left.json") as f:
        data = json.load(f)
    subprocess.run([flowtrain, "init", "--example", folder + "/ex"], check=True, stdout=subprocess.DEVNULL)
    make_data(folder, data["texts"])
    bad = False
    for k, (name, zero) in enumerate([(n, z) for n in data["models"] for z in ({"stage": 1}, {"stage": 2}, {"stage": 3},
                                      {"stage": 3, "sub_group_size": 1000})]):
        at, out = "%s/%s-%d" % (folder, name, k), "%s/out-%d" % (folder, k)
        os.mkdir(at + "-config")
        with open(at + "-config/config.json", "w") as f:
            json.dump(data["models"][name], f)
        subprocess.run([flowtrain, "init", "--config", at + "-config", "--output", at, "--tokenizer", folder + "/ex/model"],
                       check=True, stdout=subprocess.DEVNULL)
        run = subprocess.run([flowtrain, "tokenize", "--tokenizer", at], text=True, capture_output=True, check=True,
                             input="".join(json.dumps(text) + "\n" for text in data["texts"]))
        ids = [json.loads(line) for line in run.stdout.splitlines()]
        mp.spawn(train, args=(at, ids, out, zero, port + k), nprocs=WORLD)
        with open(out + "/losses.json") as f:
            want = json.load(f)
        states = [out + "/checkpoint-5"]
        whole = subprocess.run([sys.executable, ds_to_universal.__file__, "--input_folder", states[0] + "/global_step5", "--output_folder",
                                states[0] + "/universal", "--inject_missing_state"], capture_output=True, text=True)
        if whole.returncode == 0:
            states.append(states[0] + "/universal")
        else:
            print("ds_to_universal.py:", whole.stderr.strip().splitlines()[-1])
        for state in states:
            got, said = go_on(flowtrain, folder, at, state, WORLD, port + 100 + k)
            far = max(abs(a - b) / abs(b) for a, b in zip(got, want[5:]))
            bad = bad or len(got) != 5 or not far < 2e-6
            print("%-6s %-40s %-10s far %.2g  %s" % (name, json.dumps(zero), os.path.basename(state), far, said.split(" is of ")[1]), flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
