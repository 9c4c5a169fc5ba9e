#!/usr/bin/env python3
"""Runs the Meson tests of build folders and ends with "N passed, N failed, N skipped".

usage: suite.py [--all] BUILD[:SUITE,SUITE…] …

Without --all the tests of whole.txt are left out.

A test that does not come on ends itself (tests/README.md); Meson's timeouts are for those that cannot, at four times
what the lists say. The folders' tests run side by side. TEST_PROCESSES: how many of the first folder's run at once
(cores + 3; of each other folder's: half). TEST_NAMES: these tests alone, in each folder that has them.
"""
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def left_out(folder):
    """The names of whole.txt for this folder, and those of them that it must have."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "whole.txt"), encoding="utf-8") as f:
        lines = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    with open(os.path.join(folder, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as f:
        sanitized = any(o["name"] == "b_sanitize" and o["value"] != "none" for o in json.load(f))
    plain = {line for line in lines if not line.startswith("asan: ")}
    asan = {line[6:] for line in lines if line.startswith("asan: ")}
    return (plain | asan, asan) if sanitized else (plain, plain)


def chosen(folder, suites, whole):
    """The names of the folder's tests to run."""
    listed = subprocess.run(["meson", "test", "-C", folder, "--no-rebuild", "--list"], stdout=subprocess.PIPE, text=True, check=True)
    tests = [line.split(" / ", 1) for line in listed.stdout.splitlines() if " / " in line]
    names = {name for _, name in tests}
    if os.environ.get("TEST_NAMES"):
        return [name for name in os.environ["TEST_NAMES"].split() if name in names]
    out, there = left_out(folder)
    if not there <= names:
        raise SystemExit("whole.txt names tests that %s does not have: %s" % (folder, ", ".join(sorted(there - names))))
    return sorted({name for suite, name in tests
                   if (not suites or suite.partition(":")[2] in suites) and (whole or name not in out)})


def run(folder, suites, many, whole):
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--num-processes", str(many),
               "--timeout-multiplier", "4"]
    for suite in suites:
        command += ["--suite", suite]
    command += chosen(folder, suites, whole)
    log = os.path.join(folder, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    # gcc 13 aligns variables of 64 bytes wrongly on the stack that is watched for use after return
    env = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=0",
               UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    status = subprocess.run(command, env=env).returncode
    with open(log) as f:
        results = [json.loads(line) for line in f]
    return status, results


def telling(r):
    """What a test that failed said: its failed checks, and its last lines."""
    lines = (r.get("stdout", "") + r.get("stderr", "")).splitlines()
    checks = [l for l in lines[:-12] if re.match(r"\S+\.(c|cc|h|py|sh):\d+: |FAIL|failed: ", l)]
    return checks[:12] + lines[-12:]


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    bad, began = [], time.time()
    many = int(os.environ.get("TEST_PROCESSES") or (os.cpu_count() or 1) + 3)  # much of a test is waiting
    whole = sys.argv[1:2] == ["--all"]
    builds = sys.argv[1 + whole:]
    folders = [arg.partition(":")[0] for arg in builds]
    suites = [[s for s in arg.partition(":")[2].split(",") if s] for arg in builds]
    processes = [many if i == 0 else max(1, many // 2) for i in range(len(folders))]
    with ThreadPoolExecutor(len(folders)) as pool:
        ended = list(pool.map(run, folders, suites, processes, [whole] * len(folders)))
    for folder, (status, results) in zip(folders, ended):
        for r in results:
            kind = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(r["result"], "failed")
            counts[kind] += 1
            if kind == "failed":
                bad.append((folder + ": " + r["name"], telling(r)))
            if kind == "skipped":
                lines = [l for l in r.get("stdout", "").splitlines() if l.startswith("skipped")]
                print("skipped", folder + ": " + r["name"], *(lines[:1]))
        if status != 0 and not any(name.startswith(folder) for name, _ in bad):
            bad.append((folder + ": meson test exited %d" % status, []))
            counts["failed"] += 1
    for name, tail in bad:
        print("FAILED " + name, *("    " + line for line in tail), sep="\n")
    print("took %d s" % (time.time() - began))
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] or not counts["passed"] else 0


sys.exit(main())
