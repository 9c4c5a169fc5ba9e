#!/usr/bin/env python3
"""Checks the loop in which a strip of products spends its time on AArch64: of a disassembly on stdin (objdump -d), the
smallest loop of the named strip with the 96 multiplications of four cells. It has to keep its sums in registers, and to need
few instructions beside them, so that chips that issue four vector instructions of eight a cycle are bound by the sums.
usage: neon_loop.py strip_12_f32|strip_12_bf16 < DISASSEMBLY"""
import re
import sys

ADDS, MOST = 96, 192

name = sys.argv[1]
text = sys.stdin.read().partition("<%s>:" % name)[2].partition("\n\n")[0]
code = [(int(m[1], 16), m[2], m[3]) for m in re.finditer(r"^ *([0-9a-f]+):\t(\S+)\s*(.*)$", text, re.M)]
loops = []
for at, op, what in code:
    to = re.match(r"(?:\w+, )*(?:#\w+, )?([0-9a-f]+) <", what)
    if to and op[0] in "bct" and int(to[1], 16) < at:
        loops.append([c for c in code if int(to[1], 16) <= c[0] <= at])
loops = [l for l in loops if sum(op in ("fmla", "bfdot") for _, op, _ in l) == ADDS]
if not loops:
    sys.exit("%s has no loop of %d sums" % (name, ADDS))
loop = min(loops, key=len)
kept = sum("sp" in what for _, _, what in loop)
print("%s: %d instructions, %d of them add products; %d reach the stack" % (name, len(loop), ADDS, kept))
sys.exit(len(loop) > MOST or kept > 0)
