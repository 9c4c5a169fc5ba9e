"""Checkpoints as bytes, and models in FP8 as DeepSeek-V3 is released: linears in E4M3 with one f32 multiplier
a block, in a shard of their own; embedding, norms, head and router in bf16.
"""
import bisect
import json
import math
import os
import re
import struct

LINEAR = re.compile(r"(_proj(_with_mqa)?|experts\.\d+\.w[123])\.weight$")


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    value = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -value if code & 0x80 else value


VALUES = [e4m3(code) for code in range(0x7f)]  # finite, not negative, ascending: the index is the code


def nearest(x):
    """The code of the nearest value, ties to the even code; x is at most 448 in magnitude."""
    size = min(abs(x), 448.0)
    i = bisect.bisect_left(VALUES, size)
    if i > 0 and (i == len(VALUES) or size - VALUES[i - 1] < VALUES[i] - size or
                  (size - VALUES[i - 1] == VALUES[i] - size and (i - 1) % 2 == 0)):
        i -= 1
    return i | (0x80 if math.copysign(1, x) < 0 else 0)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    return {name: (e["dtype"], e["shape"], data[e["data_offsets"][0]:e["data_offsets"][1]])
            for name, e in header.items() if name != "__metadata__"}


def write(path, tensors):
    header, size = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [size, size + len(raw)]}
        size += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


def floats(dtype, raw):
    if dtype == "F32":
        return list(struct.unpack("<%df" % (len(raw) // 4), raw))
    if dtype == "F16":
        return list(struct.unpack("<%de" % (len(raw) // 2), raw))
    assert dtype == "BF16", dtype
    return [struct.unpack("<f", struct.pack("<I", h << 16))[0]
            for h in struct.unpack("<%dH" % (len(raw) // 2), raw)]


def quantise(shape, values, block):
    """Codes, multipliers by block row and column, and the dequantised values."""
    rows, cols = shape
    width = -(-cols // block[1])
    scales = [0.0] * (-(-rows // block[0]) * width)
    for i, x in enumerate(values):
        at = i // cols // block[0] * width + i % cols // block[1]
        scales[at] = max(scales[at], abs(x))
    scales = [f32(amax / 448) if amax > 0 else 1.0 for amax in scales]
    codes, back = bytearray(), []
    for i, x in enumerate(values):
        scale = scales[i // cols // block[0] * width + i % cols // block[1]]
        codes.append(nearest(x / scale))
        back.append(f32(e4m3(codes[-1]) * scale))
    return bytes(codes), scales, back


def convert(source, fp8, twin, block):
    """Model folders fp8, in two shards, and twin, in f32, of the model in source."""
    weights, scales, plain = {}, {}, {}
    for name, (dtype, shape, raw) in read(source + "/model.safetensors").items():
        if LINEAR.search(name):
            codes, multipliers, back = quantise(shape, floats(dtype, raw), block)
            weights[name] = ("F8_E4M3", shape, codes)
            scales[name + "_scale_inv"] = ("F32", [-(-shape[i] // block[i]) for i in (0, 1)],
                                           struct.pack("<%df" % len(multipliers), *multipliers))
            plain[name] = ("F32", shape, struct.pack("<%df" % len(back), *back))
        else:
            weights[name] = plain[name] = (dtype, shape, raw)
    with open(source + "/config.json") as f:
        config = json.load(f)
    for folder in (fp8, twin):
        os.mkdir(folder)
        for name in os.listdir(source):
            if name.startswith(("adapter", "tokenizer")):
                os.symlink(os.path.abspath(os.path.join(source, name)), os.path.join(folder, name))
    shards = ["model-%05d-of-00002.safetensors" % k for k in (1, 2)]
    write(fp8 + "/" + shards[0], weights)
    write(fp8 + "/" + shards[1], scales)
    with open(fp8 + "/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": {n: shards[n in scales] for n in list(weights) + list(scales)}}, f)
    write(twin + "/model.safetensors", plain)
    with open(twin + "/config.json", "w") as f:
        json.dump(dict(config, torch_dtype="float32", dtype="float32"), f)
    config["quantization_config"] = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                     "weight_block_size": block}
    with open(fp8 + "/config.json", "w") as f:
        json.dump(config, f)
