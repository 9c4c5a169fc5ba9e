#!/usr/bin/env python3
"""What nvcc makes of the kernels, held against budget.txt, without a device.

usage: sass.py NVCC NVDISASM [SOURCE.cu...]      (default: all of trainer/backend/cuda)

Prints a row a kernel for sm_90a: registers, bytes of the stack, of spills, the widest load and store of global memory
in bytes; where warpgroups multiply, the loop of products: instructions of the shortest way round (without what masks
and waits again), and the cycles that its products keep the tensor cores busy: m64nNk16 takes N / 2 of them, and a
scheduler issues for one warp of each warpgroup, so that instructions over cycles is the share of issue slots that the
loop needs for full rate.
"""
import heapq
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CUDA = os.path.join(ROOT, "trainer", "backend", "cuda")
FLAGS = ["-std=c++17", "-O2", "-gencode=arch=compute_90a,code=sm_90a", "-I" + ROOT, "-Xptxas", "-v", "-cubin"]
SAMPLE = """	.section .text._Z1kv
.text._Z1kv:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_0:
        /*0010*/                   HGMMA.64x128x16.F32 R24, gdesc[UR16].tnspB, R24 ;
        /*0020*/              @!P0 BRA `(.L_x_1) ;
        /*0030*/                   STG.E.U16 desc[UR4][R2.64], R5 ;
        /*0040*/                   FADD R1, R1, R1 ;
.L_x_1:
        /*0050*/              @P1 BRA `(.L_x_0) ;
        /*0060*/                   EXIT ;
"""


class Kernel:
    def __init__(self, name):
        self.name = name
        self.code = []   # (predicated, opcode, operands)
        self.labels = {}
        self.registers = self.stack = self.spills = 0

    def width(self, *opcodes):
        """The widest access by these opcodes in bytes; 0: none."""
        sizes = {"UTMA": 16, ".128": 16, ".64": 8, ".U16": 2, ".S16": 2, ".U8": 1, ".S8": 1}
        return max((next((n for part, n in sizes.items() if part in op), 4)
                    for _, op, _ in self.code if op.split(".")[0] in opcodes), default=0)

    def load(self):
        return self.width("LDG", "LDGSTS", "UTMALDG")

    def store(self):
        return self.width("STG", "UTMASTG")

    def target(self, i):
        found = re.search(r"\.L_x_\d+", self.code[i][2])
        return self.labels.get(found.group(0)) if found else None

    def after(self, i):
        """Instructions that may follow i."""
        predicated, op, _ = self.code[i]
        to = self.target(i) if op.split(".")[0] in ("BRA", "BSYNC") else None
        if op.split(".")[0] in ("EXIT", "RET") and not predicated:
            return []
        if to is not None and not predicated:
            return [to]
        return [n for n in (i + 1, to) if n is not None and n < len(self.code)]

    def way(self, start, end):
        """(instructions, tensor cycles) of the shortest way from start to end; None: there is none."""
        done, queue = set(), [(1, start, 0)]
        while queue:
            length, i, cycles = heapq.heappop(queue)
            if i in done:
                continue
            done.add(i)
            if self.code[i][1].startswith("HGMMA"):
                cycles += int(re.search(r"x(\d+)x", self.code[i][1]).group(1)) // 2
            if i == end:
                return length, cycles
            for n in self.after(i):
                heapq.heappush(queue, (length + 1, n, cycles))
        return None

    def loop(self):
        """(instructions, tensor cycles) of the loop that is busiest with products; None: there is none."""
        back = [(self.target(i), i) for i, (_, op, _) in enumerate(self.code)
                if op.startswith("BRA") and (self.target(i) or i + 1) <= i]
        ways = [way for way in (self.way(a, b) for a, b in back) if way and way[1]]
        return min(ways, key=lambda way: way[0] / way[1], default=None)


def read(sass, log):
    """The kernels of a disassembly and of what ptxas said."""
    kernels, kernel = {}, None
    for line in sass.splitlines():
        text = re.match(r"\.text\.(\S+):", line)
        label = re.match(r"(\.L_x_\d+):", line)
        code = re.match(r"\s+/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z]\S*)\s*(.*?);", line)
        if text:
            kernel = kernels.setdefault(text.group(1), Kernel(text.group(1)))
        elif label and kernel:
            kernel.labels[label.group(1)] = len(kernel.code)
        elif code and kernel:
            kernel.code.append((code.group(1) is not None, code.group(2), code.group(3)))
    for name, rest in re.findall(r"Compiling entry function '(\S+)'(.*?bytes.*?Used \d+ registers)", log, re.S):
        numbers = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill.*Used (\d+) registers", rest, re.S)
        kernels[name].stack, kernels[name].spills, kernels[name].registers = map(int, numbers.groups())
    return kernels


def check_reader():
    k = read(SAMPLE, "")["_Z1kv"]
    if (k.loop(), k.load(), k.store()) != ((3, 64), 16, 2):
        raise SystemExit("sass.py does not read its own sample: %s %d %d" % (k.loop(), k.load(), k.store()))


def compile_one(nvcc, nvdisasm, source):
    with tempfile.TemporaryDirectory() as folder:
        cubin = os.path.join(folder, "a.cubin")
        said = subprocess.run([nvcc, *FLAGS, source, "-o", cubin], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if said.returncode != 0:
            raise SystemExit("%s: %s" % (source, said.stdout))
        sass = subprocess.run([nvdisasm, "-c", cubin], stdout=subprocess.PIPE, text=True, check=True).stdout
    kernels = read(sass, said.stdout)
    shown = subprocess.run(["c++filt"], input="\n".join(kernels), stdout=subprocess.PIPE, text=True, check=True).stdout
    for kernel, name in zip(kernels.values(), shown.splitlines()):
        kernel.name = re.sub(r"^void |\((?:[^()]|\([^()]*\))*\)$", "", name.replace("__nv_bfloat16", "bf16").replace("__half", "f16")).replace(" ", "")
    return list(kernels.values())


def budgets():
    """Rows of budget.txt: (pattern, {what: most})."""
    rows = []
    with open(os.path.join(HERE, "budget.txt"), encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                pattern, *pairs = line.split()
                rows.append((pattern, {k: float(v) for k, v in (p.split("=") for p in pairs)}))
    return rows


def over(kernel, rows, met):
    """What of the kernel is not within its budget: of each figure the first row that has it decides."""
    loop = kernel.loop()
    figures = {"stack": kernel.stack, "spills": kernel.spills, "registers": kernel.registers,
               "issue": loop[0] / loop[1] if loop else 0}
    wide = {"load": kernel.load(), "store": kernel.store()}
    said, decided = [], set()
    for i, (pattern, most) in enumerate(rows):
        if not kernel.name.startswith(pattern) and pattern != "*":
            continue
        met.add(i)
        for what, limit in most.items():
            if what in decided:
                continue
            decided.add(what)
            if what in wide and 0 < wide[what] < limit:
                said.append("%s: the widest %s of global memory is %d bytes, not %g" % (kernel.name, what, wide[what], limit))
            if what in figures and figures[what] > limit:
                said.append("%s: %s %.3g, budget %g" % (kernel.name, what, figures[what], limit))
    return said


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    nvcc, nvdisasm = sys.argv[1:3]
    sources = sys.argv[3:] or sorted(os.path.join(CUDA, f) for f in os.listdir(CUDA) if f.endswith(".cu"))
    check_reader()
    rows, met, failed, passed = budgets(), set(), [], 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, kernels in zip(sources, pool.map(lambda s: compile_one(nvcc, nvdisasm, s), sources)):
            for k in kernels:
                loop = k.loop()
                print("%-24s %3d registers, %2d stack, %3d spills, load %2d, store %2d%s  %s" % (
                    os.path.basename(source), k.registers, k.stack, k.spills, k.load(), k.store(),
                    ", loop %4d for %4d cycles: %.2f" % (*loop, loop[0] / loop[1]) if loop else "", k.name))
                said = over(k, rows, met)
                failed += said
                passed += not said
    if not sys.argv[3:]:
        failed += ["budget.txt: no kernel begins with %s" % rows[i][0] for i in range(len(rows)) if i not in met]
    for line in failed:
        print("not within the budget: " + line)
    print("%d passed, %d failed" % (passed, len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
