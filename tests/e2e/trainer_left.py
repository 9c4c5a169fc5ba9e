#!/usr/bin/env python3
"""--resume_from_checkpoint with what another trainer left: the checkpoint-5 that the Hugging Face Trainer itself wrote goes on
as it does there (tests/golden/left.py); a run's own state, written in every layout of the others, goes on bit for bit; what
cannot go on is named with what to do.

usage: trainer_left.py BUILD golden|layouts|refused|cuda     (cuda: on the simulated GPU)
"""
import json
import os
import shutil
import sys

import deepspeed_lib as d
import trainer_lib as t
from fp8_lib import read, write

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
with open(GOLDEN + "/left.json") as found:
    DATA = json.load(found)
HYPER = {"lr": 1e-2, "initial_lr": 1e-2}  # of a constant schedule
FULL = dict(finetuning_type="full", stage="pt", packing="false", template=None, dataset="texts", cutoff_len=64, steps=10, weight_decay=0.1,
            max_grad_norm=1.0, lr_scheduler_type="linear", warmup_steps=2, learning_rate="1e-2", tokenized_path=None, accumulation=2,
            lora_rank=None, lora_alpha=None, lora_dropout=None, lora_target=None, save_steps=100, deepspeed=None)
EXACT = dict(FULL, lr_scheduler_type="constant", warmup_steps=None, max_samples=6)


def make_inputs():
    for name, config in DATA["models"].items():
        os.mkdir(name + "-config")
        with open(name + "-config/config.json", "w") as f:
            json.dump(config, f)
        t.same(name + " is made", t.Run(["init", "--config", name + "-config", "--output", name, "--tokenizer", "ex/model"]).wait(), 0)
        shutil.copy("ex/model/tokenizer_config.json", name)
    with open("ex/data/texts.jsonl", "w") as f:
        f.write("".join(json.dumps({"text": text}) + "\n" for text in DATA["texts"]))
    with open("ex/data/dataset_info.json") as f:
        info = json.load(f)
    info["texts"] = {"file_name": "texts.jsonl", "columns": {"prompt": "text"}}
    with open("ex/data/dataset_info.json", "w") as f:
        json.dump(info, f)


def losses(out):
    return [e["loss"] for e in t.log_lines(out) if "loss" in e]


def far(got, want):
    return max(abs(a - b) / abs(b) for a, b in zip(got, want)) if len(got) == len(want) else "%d steps" % len(got)


# ---- as the Trainer goes on ----

def golden():
    for name, runs in DATA["runs"].items():
        text = t.train(name, name + "-on", 1, model_name_or_path=name, resume_from_checkpoint="%s/left/%s/checkpoint-5" % (GOLDEN, name),
                       **FULL).text()
        found = far(losses(name + "-on"), runs["resumed"])
        t.check(name + ": the Trainer's own losses", isinstance(found, float) and found < 1e-6, found)
        t.check(name + ": without moments they are others", far(losses(name + "-on")[1:], runs["without_moments"][1:]) > 3e-3)
        t.has(name + ": what is said", text, "/left/%s/checkpoint-5, which is of the Hugging Face Trainer: weights and AdamW's moments are those of step 5\n" % name)
        t.has(name + ": what is not taken over", text, "note: not taken over: the states of random generators, what was counted of tokens and losses; samples go on")
        t.has(name + ": the place", text, "Will skip the first 1 epochs then the first 2 batches in the first epoch.")
        t.same(name + ": one note", text.count(">> note:"), 1)


# ---- every layout ----

def order(names):
    """named_parameters(), as its classes in transformers have it."""
    inner = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm",
             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm")
    roots = [("model.embed_tokens", -1)] + [("model.layers.%d.%s" % (n, m), n) for n in range(2) for m in inner] + [("model.norm", 9), ("lm_head", 9)]
    return [r + end for r, _ in roots for end in (".weight", ".bias") if r + end in names]


def decays(name):
    return "norm" not in name and "bias" not in name


class State:
    """A resume state of one rank: {name: bytes} of masters and moments."""

    def __init__(self, out, step):
        shapes = {n: v[1] for n, v in read("%s/checkpoint-%d/model.safetensors" % (out, step)).items()}
        parts = read("%s/resume/step-%d/part-00000-of-00001.safetensors" % (out, step))
        whole = {"master": {}, "m": {}, "v": {}}
        for key in sorted(parts, key=lambda k: int(k.rsplit("@", 1)[1])):
            kind, name = key.rsplit("@", 1)[0].split(":", 1)
            whole[kind][name] = whole[kind].get(name, b"") + parts[key][2]
        self.out, self.step, self.names = out, step, order(whole["master"])
        t.same("every parameter has its place", sorted(self.names), sorted(whole["master"]))
        self.model = {n: ("F32", tuple(shapes[n]), whole["master"][n]) for n in self.names}
        self.moments = {"exp_avg": whole["m"], "exp_avg_sq": whole["v"]}
        self.groups = [[n for n in self.names if decays(n)], [n for n in self.names if not decays(n)]]

    def beside(self, to):
        """What stands beside: the configuration, and what the Trainer says of its progress."""
        os.makedirs(to, exist_ok=True)
        for n in ("config.json", "trainer_state.json"):
            shutil.copy("%s/checkpoint-%d/%s" % (self.out, self.step, n), to)
        return to

    def optimizer(self, groups=None, hyper=HYPER, kind="F32", keys=d.MOMENTS, **more):
        """optimizer.pt: parameters are numbered group by group."""
        groups, state, shares = self.groups if groups is None else groups, {}, []
        for g in groups:
            shares.append(range(len(state), len(state) + len(g)))
            for n in g:
                state[len(state)] = dict({"step": d.count(self.step)}, **{key: d.Tensor(kind, self.model[n][1], self.moments[m][n][:2 * d.numel(
                    self.model[n][1]) if kind == "BF16" else None]) for key, m in zip(keys, d.MOMENTS)})
        return {"state": state, "param_groups": [d.group(dict(hyper, **more), 0.1 if g == 0 else 0.0, share) for g, share in enumerate(shares)]}

    def trainer(self, to, **more):
        """A checkpoint-N of the Trainer."""
        self.beside(to)
        write(to + "/model.safetensors", {n: v for n, v in self.model.items()})
        d.save(to + "/optimizer.pt", self.optimizer(**more))
        d.save(to + "/scheduler.pt", {"base_lrs": [1e-2, 1e-2], "last_epoch": self.step, "_last_lr": [1e-2, 1e-2], "lr_lambdas": [{}, {}]})
        return to

    def deepspeed(self, **more):
        return d.Checkpoint(self.model, self.groups, step=self.step, moments=self.moments, hyper=HYPER, updates=self.step, **more)


def go_on(what, state, name, want, world=1, **more):
    """From a foreign state to the end: the run's own losses and model."""
    out = "on-%d" % len(t.started)
    text = t.train(what, out, world, model_name_or_path=name, resume_from_checkpoint=state, **dict(EXACT, **more)).text()
    t.has(what + ": goes on", text, "Going on from %s, which is of " % state)
    t.same(what + ": losses", losses(out), losses(want)[5:])
    t.check(what + ": the model", t.file_bytes(out + "/model.safetensors") == t.file_bytes(want + "/model.safetensors"))
    return text


def own_run(name, **more):
    out = "own-%d" % len(t.started)
    t.train(out, out, 1, model_name_or_path=name, **dict(EXACT, save_steps=5, **more))
    return State(out, 5)


def zero(stage, **more):
    return json.dumps({"train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
                       "zero_optimization": dict({"stage": stage}, **more)})


def layouts():
    for name in ("qwen3", "llama"):
        own = own_run(name)
        go_on(name + ", the Trainer", own.trainer("tr-%s/checkpoint-5" % name), name, own.out)
        for stage, world, more in ((1, 1, {}), (1, 2, {}), (2, 3, {"pads": 2}), (3, 2, {}), (3, 3, {"subs": 4})):
            at = own.beside("ds-%s-%d-%d/checkpoint-5" % (name, stage, world))
            own.deepspeed(**more).write(at, stage, world)
            text = go_on("%s, stage %d of %d ranks %s" % (name, stage, world, more), at, name, own.out)
            t.has("what it is", text, "which is of ZeRO stage %d of %d ranks, step 5: weights" % (stage, world))
            t.same("one note", text.count(">> note:"), 1)
        for stage in (2, 3):
            own.deepspeed().universal("un-%s-%d" % (name, stage), stage)
            go_on("%s, universal of stage %d" % (name, stage), "un-%s-%d" % (name, stage), name, own.out)
    go_on("onto two ranks at stage 3", "ds-llama-2-3/checkpoint-5", "llama", own.out, 2, accumulation=1, deepspeed=zero(3))
    go_on("onto the host", "tr-llama/checkpoint-5", "llama", own.out, deepspeed=zero(2, offload_optimizer={"device": "cpu"}, sub_group_size=100))
    fused = own.deepspeed()  # FusedAdam: the group's 0 counts nothing, parameters count in ints; before, the group counted
    fused.hyper = dict(HYPER, step=0)
    older = own.deepspeed(counted=False)
    older.hyper = dict(HYPER, step=5)
    real, d.count = d.count, int
    fused.write(own.beside("ds-fused/checkpoint-5"), 3, 2)
    fused.universal("un-fused", 2)
    d.count = real
    older.write(own.beside("ds-older/checkpoint-5"), 2, 2)
    for at in ("ds-fused/checkpoint-5", "un-fused", "ds-older/checkpoint-5"):
        go_on(at, at, "llama", own.out)
    os.makedirs("alone")
    own.deepspeed().write("alone", 2, 2)
    go_on("DeepSpeed alone", "alone", "llama", own.out)
    kinds()


def kinds():
    """Other runs, and folders without a name."""
    own = own_run("llama", bf16=True)
    own.deepspeed().write(own.beside("ds-bf16/checkpoint-5"), 2, 2)
    go_on("bf16", "ds-bf16/checkpoint-5", "llama", own.out, bf16=True)
    some = dict(finetuning_type="freeze", freeze_trainable_layers=1, freeze_extra_modules="norm")
    own = own_run("llama", **some)
    frozen = [n for n in read("llama/model.safetensors") if n not in own.names]
    base = read("llama/model.safetensors")
    own.model.update({n: base[n] for n in frozen})
    go_on("freeze", own.trainer("tr-freeze/checkpoint-5"), "llama", own.out, **some)
    d.Checkpoint(own.model, own.groups, frozen=frozen, step=5, moments=own.moments, hyper=HYPER, updates=5).write(own.beside("ds-freeze/checkpoint-5"), 3, 2)
    go_on("freeze, stage 3", "ds-freeze/checkpoint-5", "llama", own.out, **some)
    unnamed()


def unnamed():
    """A Trainer's output folder: its newest checkpoint is gone on from, until there is a state of this program's own."""
    own = own_run("llama")
    for k, more in enumerate((dict(resume_from_checkpoint="true"), dict(resume_from_checkpoint="last"), {})):
        out = "taken-%d" % k
        own.trainer(out + "/checkpoint-5")
        own.trainer(out + "/checkpoint-3", hyper=dict(HYPER, eps=1))
        text = t.train("begins", out, 1, model_name_or_path="llama", **dict(EXACT, steps=8, save_steps=4, **more)).text()
        t.has("the newest checkpoint is found %s" % more, text, "Going on from %s/checkpoint-5, which is of the Hugging Face Trainer" % out)
        os.remove(out + "/model.safetensors")
        own.trainer(out + "/checkpoint-9")
        text = t.train("goes on", out, 1, model_name_or_path="llama", **dict(EXACT, **more)).text()
        t.check("then its own state counts %s" % more, "Going on from" not in text and "Continuing training from global step 8" in text, text[-2000:])
        t.same("losses", losses(out), losses(own.out)[5:])
    text = t.train("anew", out, 1, model_name_or_path="llama", overwrite_output_dir=True, **dict(EXACT, steps=2)).text()
    t.same("overwrite_output_dir begins anew", losses(out), losses(own.out)[:2])


# ---- what cannot go on ----

def fails(what, state, want, **more):
    run = t.launch("never", 1, **dict(EXACT, **dict(dict(model_name_or_path="llama", resume_from_checkpoint=state), **more)))
    t.same(what + ": exit status", run.wait(), 2)
    for part in want:
        t.has(what, run.text(), part)


def changed(own, edit, n=[0]):
    """A checkpoint of the Trainer, changed by edit(its folder)."""
    n[0] += 1
    at = own.trainer("bad-%d/checkpoint-5" % n[0])
    edit(at)
    return at


def rewritten(own, **more):
    return changed(own, lambda at: d.save(at + "/optimizer.pt", own.optimizer(**more)))


def gone(own, name):
    return changed(own, lambda at: os.remove(at + "/" + name))


def edited(own, name, key, value):
    def edit(at):
        with open(at + "/" + name) as f:
            found = json.load(f)
        found[key] = value
        with open(at + "/" + name, "w") as f:
            json.dump(found, f)
    return changed(own, edit)


class Evil:
    def __reduce__(self):
        return os.system, ("touch " + os.path.abspath("was-run"),)


def refused():
    own = own_run("llama")
    decay, other = own.groups
    fails("moments of 16 bits", rewritten(own, kind="BF16"), ["optimizer.pt: exp_avg of parameter 0 is BF16, expected F32", "; --model_name_or_path bad-1/checkpoint-5 without --resume_from_checkpoint begins with its weights alone"])
    fails("another optimizer", rewritten(own, keys=("state1", "state2")), ["optimizer.pt is of another optimizer", "it keeps step, state1, state2, not exp_avg"])
    fails("amsgrad", rewritten(own, amsgrad=True), ["optimizer.pt is of an optimizer with amsgrad"])
    fails("Adam", rewritten(own, decoupled_weight_decay=False), ["optimizer.pt is of Adam with weight decay in the gradient"])
    fails("fewer parameters", rewritten(own, groups=[decay, other[1:]]), ["optimizer.pt has groups of 16 and 18 parameters, expected 16 that decay and 19"])
    fails("an order that is not known", rewritten(own, groups=[decay[1:], other + decay[:1]]), ["optimizer.pt has groups of 15 and 20 parameters"])
    fails("a bias that decays", rewritten(own, groups=[decay + other[:1], other[1:]]), ["optimizer.pt has groups of 17 and 18 parameters, expected 16 that decay and 19 that do not"])
    fails("other shapes", rewritten(own, groups=[decay[1:] + decay[:1], other]), ["optimizer.pt has model.embed_tokens.weight as [8, 8], --model_name_or_path as [512, 8]: another model"])
    fails("another beta", rewritten(own, hyper=dict(HYPER, betas=(0.9, 0.95))), ["--adam_beta2 is 0.95 in bad-", "0.999 here: give what the training began with"])
    fails("another rate", rewritten(own, hyper=dict(HYPER, initial_lr=2e-2)), ["--learning_rate is 0.02 in bad-", "0.01 here"])
    fails("another decay", own.trainer("bad-0/checkpoint-5"), ["--weight_decay is 0.1 in bad-0/checkpoint-5, 0.3 here"], weight_decay=0.3)
    fails("a pickle that calls", changed(own, lambda at: d.save(at + "/optimizer.pt", Evil())), ["optimizer.pt: offset ", "names posix.system, which no checkpoint needs: refused"])
    fails("a schedule that calls", changed(own, lambda at: d.save(at + "/scheduler.pt", [Evil()])), ["scheduler.pt: offset ", "posix.system"])
    t.check("nothing was run", not os.path.exists("was-run"))
    fails("no weights", gone(own, "model.safetensors"), ["has optimizer.pt, but no model.safetensors", "adapters"])
    fails("no progress", gone(own, "trainer_state.json"), ["/trainer_state.json"])
    fails("weights of 16 bits", changed(own, lambda at: write(at + "/model.safetensors", {n: ("BF16", s, raw[::2][:2 * d.numel(s)]) for n, (_, s, raw) in own.model.items()})),
          ["model.safetensors has model.embed_tokens.weight as BF16, expected F32"])
    fails("another model", edited(own, "config.json", "rope_theta", 5000.0), ["config.json describes another model than --model_name_or_path llama"])
    fails("no progress in it", edited(own, "trainer_state.json", "log_history", None), ["trainer_state.json has no global_step and log_history"])
    over = t.launch("over", 1, **dict(EXACT, model_name_or_path="llama", resume_from_checkpoint=edited(own, "trainer_state.json", "global_step", 10 ** 15)))
    t.same("more steps than this run has: exit status", over.wait(), 0)
    t.check("more steps than this run has: none is done", not losses("over"), losses("over"))
    fsdp = changed(own, lambda at: os.rename(at + "/optimizer.pt", at + "/optimizer.bin"))
    fails("FSDP", fsdp, ["--resume_from_checkpoint %s: optimizer.bin is of FSDP" % fsdp])
    weights = gone(own, "optimizer.pt")
    fails("weights alone", weights, ["no node holds a whole resume state of step 5", "; %s holds weights alone: --model_name_or_path %s without" % (weights, weights)])
    t.check("nothing is written", not os.path.exists("never/model.safetensors"))
    other_runs(own)
    of_deepspeed(own)
    said(own)


def other_runs(own):
    """This run keeps something else."""
    at = own.trainer("bad-0/checkpoint-5")
    lora = dict(finetuning_type="lora", lora_rank=2, lora_target="all")
    fails("LoRA", at, [at + " is a checkpoint of another trainer, from which runs of --finetuning_type full and freeze go on", "--adapter_name_or_path " + at], **lora)
    own.trainer("of-lora/checkpoint-5")
    run = t.launch("of-lora", 1, **dict(EXACT, model_name_or_path="llama", resume_from_checkpoint="last", **lora))
    t.same("LoRA in a Trainer's folder: exit status", run.wait(), 2)
    t.has("LoRA in a Trainer's folder", run.text(), "--adapter_name_or_path of-lora/checkpoint-5 --overwrite_output_dir")
    fails("8 bits", at, [at + " has f32 moments of AdamW, this run keeps moments of 8 bits: give --optim adamw_torch"], optim="adamw_8bit")
    fails("Muon", at, ["this run keeps Muon's momentum"], use_muon=True)
    fails("experts", at, ["optimizer.pt numbers its parameters, whose order is known of dense models"], model_name_or_path="ex/model", bf16=True)
    fails("freeze", at, ["optimizer.pt has groups of 16 and 19 parameters, expected "], finetuning_type="freeze", freeze_trainable_layers=1)


def of_deepspeed(own):
    def made(stage, world, edit, n=[0], **more):
        n[0] += 1
        at = own.beside("dsbad-%d/checkpoint-5" % n[0])
        edit(own.deepspeed(**more).write(at, stage, world))
        return at
    other = d.Checkpoint(own.model, own.groups, step=5)  # no moments
    rank = "/zero_pp_rank_%d_mp_rank_00_optim_states.pt"
    fails("a rank is missing", made(2, 3, lambda at: os.remove(at + rank % 1)), ["the file of rank 1 is missing"])
    fails("another optimizer", made(2, 2, lambda at: d.save(at + rank % 1, other.optim(2, 2, other.flat_groups(2)[1], 1))), ["_mp_rank_00_optim_states.pt "])
    fails("no stage", made(0, 2, lambda at: None), ["has no ZeRO stage: the moments of stages 1 to 3 and of universal checkpoints are read", "; its weights alone become a model by flowtrain convert --from-deepspeed dsbad-3/checkpoint-5 --to FOLDER"])
    at = own.beside("un-bad/checkpoint-5")
    own.deepspeed().universal(at, 2)
    os.remove(at + "/zero/model.norm.weight/exp_avg_sq.pt")
    fails("a file is missing", at, ["zero/model.norm.weight/exp_avg_sq.pt"])
    d.save(at + "/zero/model.norm.weight/exp_avg_sq.pt", d.flat("BF16", own.moments["exp_avg_sq"]["model.norm.weight"][:16]))
    fails("16 bits", at, ["zero/model.norm.weight/exp_avg_sq.pt is BF16, expected F32"])
    at = made(3, 2, lambda at: None)
    fails("other weights train", at, [at + " has moments of model.embed_tokens.weight, which does not train here"], finetuning_type="freeze", freeze_trainable_layers=1)
    less = d.Checkpoint(own.model, [own.groups[0], own.groups[1][1:]], step=5, moments=own.moments, hyper=HYPER, updates=5)
    less.write(own.beside("ds-less/checkpoint-5"), 2, 2)
    fails("fewer train there", "ds-less/checkpoint-5", ["ds-less/checkpoint-5 has no moments of model.layers.0.self_attn.q_proj.bias, which trains here"])
    wide = dict(own.model, **{"model.norm.weight": ("F32", (2, 4), own.model["model.norm.weight"][2])})
    d.Checkpoint(wide, own.groups, step=5, moments=own.moments, hyper=HYPER, updates=5).write(own.beside("ds-wide/checkpoint-5"), 3, 2)
    fails("other shapes", "ds-wide/checkpoint-5", ["has model.norm.weight as [2, 4], --model_name_or_path as [8]: another model"])
    named = {"base_model.model." + n: v for n, v in own.model.items()}
    d.Checkpoint(named, [list(named)], step=5, moments={k: {"base_model.model." + n: v for n, v in m.items()} for k, m in own.moments.items()},
                 hyper=HYPER).write(own.beside("ds-peft/checkpoint-5"), 2, 1)
    fails("adapters", "ds-peft/checkpoint-5", ["ds-peft/checkpoint-5 is of a run with adapters of PEFT"])


def said(own):
    """What is otherwise than there, and does not hinder: a line each."""
    base = dict(EXACT, model_name_or_path="llama", steps=6)
    def note(what, want, at, **more):
        t.has(what, t.train(what, "noted", 1, **dict(base, resume_from_checkpoint=at, overwrite_output_dir=True, **more)).text(), "note: " + want)
    at = own.trainer("bad-0/checkpoint-5")
    note("another schedule", "the learning rate of the next step was to be 0.01 there, it is 0.0016", at, lr_scheduler_type="linear")
    note("other samples", "step 5 was at epoch 1.66", at, max_samples=4)
    whole = own.trainer("one-group/checkpoint-5", groups=[own.names])
    note("one group", "the weight decay of 19 tensors was another there", whole)
    text = t.train("no schedule", "noted", 1, **dict(base, resume_from_checkpoint=gone(own, "scheduler.pt"), overwrite_output_dir=True)).text()
    t.same("without scheduler.pt", (losses("noted")[-1:], text.count(">> note:")), (losses(own.out)[5:6], 1))


def on_simulated_gpu():
    t.simulate()
    own = own_run("llama", bf16=True)
    go_on("the Trainer", own.trainer("tr/checkpoint-5"), "llama", own.out, bf16=True)
    own.deepspeed(subs=2).write(own.beside("ds/checkpoint-5"), 3, 3)
    go_on("stage 3", "ds/checkpoint-5", "llama", own.out, bf16=True, deepspeed=zero(3))


def main():
    t.begin()
    make_inputs()
    for part in {"golden": (golden,), "layouts": (layouts,), "refused": (refused,), "cuda": (on_simulated_gpu,)}[sys.argv[2]]:
        part()
    t.finish()


main()
