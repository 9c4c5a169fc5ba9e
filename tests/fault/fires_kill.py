#!/usr/bin/env python3
"""Kills of the real program around the times of a schedule, which come every second.

usage: fires_kill.py BUILD [KILLS [SEED]]

'flowrun serve' is killed at random moments, one after the other, KILLS times (12), while a pipeline
fires every second with catchup: all. In the end each instant has one decision, one run, one line that
its task wrote. What the instants are is counted here, apart from the program.
"""
import collections
import datetime
import os
import random
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
LIVES_S = 0.9  # the longest life of a host
DEADLINE_S = 240 + 8 * KILLS

passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED: seed %d: %s" % (SEED, what))


def text(second):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def serve(env, log):
    return subprocess.Popen([BUILD + "/engine/cli/flowrun", "serve", "served"], env=env, stdout=log, stderr=log)


def rows(sql):
    try:
        with sqlite3.connect("file:home/state.db?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()
    except sqlite3.OperationalError:  # it is not made yet
        return []


def kill_all(env, log, rng):
    for _ in range(KILLS):
        host = serve(env, log)
        select.select([], [], [], rng.uniform(0, LIVES_S))
        host.send_signal(signal.SIGKILL)
        host.wait()


def said():
    with open("log") as f:
        return f.read()


def settle(env, log, instants):
    """A last host decides what is left; its end is asked for once it is up and all runs are over."""
    before = said().count("this is the host")
    host, end = serve(env, log), time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        done = rows("SELECT count(*) FROM run WHERE schedule <> 0 AND state = 'over'")
        if done and done[0][0] >= len(instants) and said().count("this is the host") > before:
            break
        select.select([], [], [], 0.1)
    host.terminate()
    ended = host.wait()
    check(ended == 0, "the last host ended with %d: %s" % (ended, said()[-1000:]))


def main():
    work = tempfile.mkdtemp(prefix="fr-fires.")
    os.chdir(work)
    os.mkdir("served")
    env = dict(os.environ, FLOWRUN_HOME=work + "/home", W=work, TZ="UTC")
    env.pop("FLOWRUN_LIBEXEC", None)
    first = int(time.time()) + 4
    instants = [text(first + i) for i in range(max(6, int(KILLS * LIVES_S / 2)))]
    with open("served/p.yaml", "w") as f:
        f.write("name: p\nschedule: {at: [%s], catchup: all, catchup_limit: 1000, overlap: parallel}\n"
                "env: {W: '${{ env.W }}'}\n"
                "tasks: {t: {env: {AT: '${{ schedule.time }}'}, run: 'echo \"$AT\" >> $W/ran'}}\n"
                % ", ".join(instants))
    with open("log", "w") as log:
        host = serve(env, log)  # it has seen the schedule before the first instant
        while not rows("SELECT 1 FROM schedule"):
            select.select([], [], [], 0.05)
        host.kill()
        host.wait()
        kill_all(env, log, random.Random(SEED))
        settle(env, log, instants)
    with open("ran") as f:
        ran = collections.Counter(f.read().split())
    check(ran == collections.Counter(instants), "tasks that ran: lost %s, twice %s, none's %s" % (
        [i for i in instants if i not in ran], [i for i in ran if ran[i] > 1], [i for i in ran if i not in instants]))
    fires = rows("SELECT at_ms, count, decision, outcome FROM fire ORDER BY at_ms")
    check(fires == [((first + i) * 1000, 1, "ran", "succeeded") for i in range(len(instants))],
          "decisions: %s" % [f for f in fires if f[1:] != (1, "ran", "succeeded")])
    made = rows("SELECT at_ms, outcome FROM run WHERE schedule <> 0 ORDER BY at_ms")
    check(made == [((first + i) * 1000, "succeeded") for i in range(len(instants))], "runs: %s" % made)
    check(rows("PRAGMA integrity_check") == [("ok",)], "the database is whole")
    print("%d kills, %d instants" % (KILLS, len(instants)))
    os.chdir("/")
    if failed and os.environ.get("KEEP"):
        print("kept: " + work)
    else:
        shutil.rmtree(work)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
