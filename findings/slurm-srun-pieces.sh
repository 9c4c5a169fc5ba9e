#!/bin/bash
# Slurm 22.05.8 (Debian 12), a controller and one node on this machine: srun as a pair of pipes to a program, in an allocation, with
# --unbuffered. Needs root, python3 and Debian 12's apt.
#
# Seen: what the program writes at once comes out of srun line by line, a write(2) each, also with --unbuffered and without --label.
# A request of 1,000 bytes is answered at once and one of 1,500 after some 40 ms: srun sends stdin on in pieces of 1 KiB, and the
# second waits until the first is acknowledged (its connection is without TCP_NODELAY).
more=
. "$(dirname "$0")/slurm.sh"

cat > pieces.py <<'PYTHON'
import os
import statistics
import subprocess
import sys
import time

SRUN = ["srun", "--jobid=" + sys.argv[1], "--overlap", "-u", "-Q", "-N1", "-n1", "--export=ALL", sys.executable, "-c"]
ANSWER = ("import os\nn = int(os.environ['SIZE'])\nwhile True:\n    left = n\n    while left > 0:\n        left -= len(os.read(0, left))\n"
          "    os.write(1, b'x')")

r, w = os.pipe2(os.O_DIRECT)  # each write is a packet
p = subprocess.Popen(SRUN + ["import os\nos.write(1, b'one\\ntwo\\nthree\\n')"], stdin=subprocess.DEVNULL, stdout=w)
os.close(w)
packets = []
while piece := os.read(r, 65536):
    packets.append(piece.decode().split())
print("three lines written at once, writes of srun:", len(packets), packets)


def answered(size):
    """The median time of 20 requests of so many bytes, milliseconds."""
    p = subprocess.Popen(SRUN + [ANSWER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env={**os.environ, "SIZE": str(size)})
    times = []
    for _ in range(20):
        begin = time.monotonic()
        p.stdin.write(b"x" * size)
        p.stdout.read(1)
        times.append((time.monotonic() - begin) * 1000)
    p.kill()
    return statistics.median(times)


small, large = answered(1000), answered(1500)
print("1,000 bytes: %.1f ms, 1,500 bytes: %.1f ms" % (small, large), file=sys.stderr)
print("1,500 bytes are answered ten times later than 1,000:", large > 10 * small and large > 20)
PYTHON
runs() { [ "$(squeue -h -j "$1" -o %T)" = RUNNING ]; }
job=$(sbatch --parsable -D / -o /dev/null --wrap 'sleep 600')
within 60 runs "$job"
python3 pieces.py "$job" > output || exit 1
cat output
cat > stated <<'STATED'
three lines written at once, writes of srun: 3 [['one'], ['two'], ['three']]
1,500 bytes are answered ten times later than 1,000: True
STATED
diff stated output || { echo "not as stated (< stated, > now)"; exit 1; }
echo "as stated"
