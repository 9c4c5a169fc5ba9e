"""Checkpoints in the layout of DeepSpeed 0.19, written with Python's pickle and zipfile alone; tests/golden/deepspeed_states.py
shows that DeepSpeed itself reads them. A model is {name: (type, shape, bytes)}; types are those of safetensors."""
import collections
import io
import os
import pickle
import struct
import sys
import types
import zipfile

SIZE = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8}
STORAGE = {"F32": "FloatStorage", "BF16": "BFloat16Storage", "F16": "HalfStorage", "I64": "LongStorage"}


def global_of(module, name):
    """Something that pickles as this name."""
    value = type(name, (), {"__module__": module, "__qualname__": name})
    for n in range(module.count(".") + 1):
        part = ".".join(module.split(".")[:n + 1])
        found = sys.modules.setdefault(part, types.ModuleType(part))
    if not hasattr(found, name):
        setattr(found, name, value)
    return getattr(found, name)


class Called:
    """What pickles as a call of a global."""

    def __init__(self, module, name, *args):
        self.parts = global_of(module, name), args

    def __reduce__(self):
        return self.parts


class Tensor:
    def __init__(self, dtype, shape, raw, storage=None, first=0):
        self.dtype, self.shape, self.raw, self.storage, self.first = dtype, tuple(shape), raw, storage or [raw], first
        self.typed = False  # as stage 3 has them

    def __reduce__(self):
        strides, n = [], 1
        for size in reversed(self.shape):
            strides.insert(0, n)
            n *= max(size, 1)
        args = (Storage(self), self.first, self.shape, tuple(strides), False, collections.OrderedDict())
        if self.typed:
            return (global_of("torch._tensor", "_rebuild_from_type_v2"),
                    (global_of("torch._utils", "_rebuild_tensor_v2"), global_of("torch", "Tensor"), args, {}))
        return global_of("torch._utils", "_rebuild_tensor_v2"), args


class Storage:
    def __init__(self, tensor):
        self.dtype, self.cell = tensor.dtype, tensor.storage


def flat(dtype, raw, typed=False):
    t = Tensor(dtype, (len(raw) // SIZE[dtype],), raw)
    t.typed = typed
    return t


def size(shape):
    return Called("torch", "Size", tuple(shape))


def save(path, value, byteorder="little", compress=False):
    """As torch.save: data.pkl, a file a storage, all in one folder."""
    keys, cells = {}, []

    class Pickler(pickle._Pickler):  # the one in Python looks names up by the value's own
        def persistent_id(self, obj):
            if not isinstance(obj, Storage):
                return None
            if id(obj.cell) not in keys:
                keys[id(obj.cell)] = str(len(cells))
                cells.append(obj.cell)
            return ("storage", global_of("torch", STORAGE[obj.dtype]), keys[id(obj.cell)], "cpu", len(obj.cell[0]) // SIZE[obj.dtype])

    buffer = io.BytesIO()
    Pickler(buffer, 2).dump(value)
    folder = os.path.basename(path)[:-len(".pt")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as z:
        z.writestr(folder + "/data.pkl", buffer.getvalue())
        z.writestr(folder + "/byteorder", byteorder)
        for i, cell in enumerate(cells):
            z.writestr(folder + "/data/%d" % i, cell[0])
        z.writestr(folder + "/version", "3\n")


def numel(shape):
    n = 1
    for k in shape:
        n *= k
    return n


def split(shape, raw, world):
    """A parameter as ranks have it under stage 3."""
    item = len(raw) // max(numel(shape), 1)
    part = -(-numel(shape) // world) * item
    raw = raw + b"\x7f" * (part * world - len(raw))
    return [raw[r * part:(r + 1) * part] for r in range(world)]


def scaler():
    return Called("deepspeed.runtime.fp16.loss_scaler", "LossScaler")


def stage_of(n):
    return Called("deepspeed.runtime.zero.config", "ZeroStageEnum", n)


MOMENTS = ("exp_avg", "exp_avg_sq")


def group(hyper, decay, params):
    """One of param_groups, as torch's AdamW writes it."""
    return dict({"weight_decay": decay, "lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-8, "amsgrad": False, "maximize": False,
                 "foreach": None, "capturable": False, "differentiable": False, "fused": True,
                 "decoupled_weight_decay": True}, **hyper, params=list(params))


def count(n):
    """As torch counts steps."""
    return Tensor("F32", (), struct.pack("<f", n))


class Checkpoint:
    """groups: lists of names; moments: {key of the state: {name: bytes}}, of `updates` steps; the rest are options of one
    kind of model each."""

    def __init__(self, model, groups, frozen=(), buffers=(), tied=(), pads=0, subs=1, step=3, moments=None, hyper={}, updates=3, counted=True):
        self.counted = counted  # by each parameter; else by its group
        self.model, self.groups, self.frozen, self.buffers, self.tied = model, groups, frozen, buffers, dict(tied)
        self.pads, self.subs, self.step, self.moments, self.hyper, self.updates = pads, subs, step, moments, hyper, updates

    def shapes(self):
        return [collections.OrderedDict((n, size(self.model[n][1])) for n in g) for g in self.groups]

    def fragments(self, rank, world):
        if world == 0:
            return collections.OrderedDict((n, Tensor(*self.model[n])) for n in self.frozen)
        return collections.OrderedDict((n, flat(self.model[n][0], split(*self.model[n][1:], world)[rank])) for n in self.frozen)

    def states(self, world, rank=0, whole=True, told=True):
        """told: the frozen parameters are named, which stage 1 does not do."""
        module = collections.OrderedDict()
        for n, (dtype, shape, raw) in self.model.items():
            module[n] = Tensor(dtype, shape, raw) if n in self.buffers or whole else flat(dtype, b"")
        module.update({n: module[m] for n, m in self.tied.items()})
        return {"module": module, "buffer_names": list(self.buffers), "optimizer": None, "param_shapes": self.shapes(),
                "frozen_param_shapes": collections.OrderedDict((n, size(self.model[n][1])) for n in self.frozen) if told else None,
                "shared_params": self.tied, "frozen_param_fragments": self.fragments(rank, 0 if whole else world) if told else None,
                "lr_scheduler": {"last_epoch": 3, "_last_lr": [1e-3]}, "global_steps": self.step, "dp_world_size": world,
                "skipped_steps": 0, "mp_world_size": 1, "ds_config": {"zero_optimization": {"stage": 2}}, "ds_version": "0.19.8"}

    def values(self, key=None):
        """The bytes of each parameter, or of one of its moments."""
        return self.moments[key] if key else {n: self.model[n][2] for g in self.groups for n in g}

    def flat_groups(self, world, key=None):
        """Stages 1, 2: each group as one vector, a part a rank; with moments masters are without the padding at the end."""
        parts, values = [[] for _ in range(world)], self.values(key)
        for g in self.groups:
            raw = b"".join(values[n] + b"\x7f\x01\x02\x03" * self.pads for n in g)
            end = len(raw) if self.moments and not key else None
            raw += b"\x55" * (-len(raw) % (8 * world))
            part = len(raw) // world
            for r in range(world):
                parts[r].append(raw[:end][r * part:(r + 1) * part])
        return parts

    def flat_ranks(self, world, key=None):
        """Stage 3: each rank's parts of all parameters, in subs pieces."""
        found, values = [], self.values(key)
        for r in range(world):
            raw = b"".join(split(self.model[n][1], values[n], world)[r] for g in self.groups for n in g)
            step = max(4, -(-len(raw) // (4 * self.subs)) * 4)
            found.append([raw[i:i + step] for i in range(0, len(raw), step)])
        return found

    def param_groups(self, flats):
        """Stage 3 has several flat tensors a group: here all are the first one's, or one a group."""
        shares = [range(flats)] + [[]] * (len(self.groups) - 1) if flats != len(self.groups) else [[g] for g in range(flats)]
        return [group(self.hyper, self.hyper.get("weight_decay", 0.1) if g == 0 else 0.0, share) for g, share in enumerate(shares)]

    def adam(self, stage, world, rank):
        parts = {key: (self.flat_ranks if stage == 3 else self.flat_groups)(world, key)[rank] for key in self.moments}
        flats = len(parts["exp_avg"])
        state = {g: dict({"step": count(self.updates)} if self.counted else {}, **{key: flat("F32", parts[key][g], stage == 3) for key in parts})
                 for g in range(flats)}
        return {"state": state, "param_groups": self.param_groups(flats)}

    def optim(self, stage, world, parts, rank=0):
        moments = {"state": {0: {"step": Tensor("F32", (), b"\0\0\x40\x40"), "exp_avg": flat("F32", parts[0])}},
                   "param_groups": [{"lr": 0.01, "betas": (0.9, 0.999), "foreach": None, "params": [0]}]}
        if self.moments:
            moments = self.adam(stage, world, rank)
        state = {"loss_scaler": scaler(), "dynamic_loss_scale": False, "overflow": False, "zero_stage": stage_of(stage)}
        if stage == 3:
            state.update(partition_count=world, optimizer_state_dict=moments, fp32_flat_groups=[flat("F32", p, True) for p in parts])
        else:
            state.update(clip_grad=1.0, base_optimizer_state=moments, single_partition_of_fp32_groups=[flat("F32", p) for p in parts],
                         group_paddings=[0] * len(parts), partition_count=[world] * len(parts),
                         param_alignment_paddings=[[self.pads] * len(g) for g in self.groups])
        return {"optimizer_state_dict": state, "ds_config": {}, "ds_version": "0.19.8"}

    def write(self, folder, stage, world, prefix=""):
        """folder/latest and folder/global_stepN; returns the latter."""
        at = os.path.join(folder, "global_step%d" % self.step)
        os.makedirs(at, exist_ok=True)
        with open(os.path.join(folder, "latest"), "w") as f:
            f.write("global_step%d" % self.step)
        if stage < 3:
            save(at + "/mp_rank_00_model_states.pt", self.states(world, told=stage != 1))
        parts = self.flat_ranks(world) if stage == 3 else self.flat_groups(world)
        for r in range(world if stage > 0 else 0):
            if stage == 3:
                save(at + "/zero_pp_rank_%d_mp_rank_00_model_states.pt" % r, self.states(world, r, False))
            save(at + "/%szero_pp_rank_%d_mp_rank_00_optim_states.pt" % (prefix, r), self.optim(stage, world, parts[r], r))
        return at

    def universal(self, folder, stage):
        """As ds_to_universal.py leaves it; of stage 3 a file is the tensor itself."""
        os.makedirs(folder + "/zero")
        for g in self.groups:
            for n in g:
                os.mkdir(folder + "/zero/" + n)
                value = flat("F32", self.model[n][2]) if stage == 3 else {"cat_dim": 0, "param": Tensor(*self.model[n])}
                save(folder + "/zero/%s/fp32.pt" % n, value)
                for key in self.moments or ():
                    raw = self.moments[key][n]
                    value = flat("F32", raw) if stage == 3 else {"cat_dim": 0, "param": Tensor("F32", self.model[n][1], raw)}
                    save(folder + "/zero/%s/%s.pt" % (n, key), value)
                if self.moments and stage < 3:
                    save(folder + "/zero/%s/step.pt" % n, count(self.updates))
        if self.moments:
            state = {"param_groups": self.param_groups(len(self.groups))}
            if stage == 3:
                state["optimizer_state_dict"] = self.adam(3, 2, 0)
            save(folder + "/zero/optimizer_state.pt", state)
        for r in range(2 if stage == 3 else 1):
            name = "zero_pp_rank_%d_mp_rank_00" % r if stage == 3 else "mp_rank_00"
            save(folder + "/%s_model_states.pt" % name, self.states(2, r, stage < 3, stage != 1))
