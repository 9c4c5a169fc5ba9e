#!/usr/bin/env python3
"""Kills of the real program around the times of a schedule, which come every second.

usage: fires_kill.py BUILD [KILLS [SEED]]

'flowrun serve' is killed at random moments, one after the other, KILLS times (12), while a pipeline
fires every second with catchup: all. In the end each instant has one decision, one run, one line that
its task wrote. What the instants are is counted here, apart from the program.

Beside it the same holds for a pipeline whose runs somebody removes as soon as they are over (rm), while gc
sweeps what no run needs. The hosts have their pages and the interface below a base; each that lives long enough
answers there, and nowhere else, and knows a login of the one before.
"""
import collections
import datetime
import http.client
import os
import random
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
LIVES_S = 0.9  # the longest life of a host
DEADLINE_S = 240 + 8 * KILLS
BASE = "/flow"

passed = failed = 0


def check(ok, what):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print("FAILED: seed %d: %s" % (SEED, what))


def text(second):
    return datetime.datetime.fromtimestamp(second, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def serve(env, log):
    return subprocess.Popen([BUILD + "/engine/cli/flowrun", "serve", "served", "--standby", "--base", BASE,
                             "--http", "127.0.0.1:%d" % PORT],
                            env=env, stdout=log, stderr=log)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


PORT = free_port()


def ask(path, token):
    """(status, body); None: nobody answers, or is killed meanwhile."""
    c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=DEADLINE_S)
    try:
        c.request("GET", path, headers={"Authorization": "Bearer " + token})
        answer = c.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        c.close()


class Beside(threading.Thread):
    """What others do while hosts come and go: rm, gc, looks at the pages."""

    def __init__(self, env, token):
        super().__init__()
        self.env, self.token, self.over = env, token, threading.Event()
        self.wrong, self.answers, self.removed = [], 0, 0

    def flowrun(self, *words):
        done = subprocess.run([BUILD + "/engine/cli/flowrun", *words], env=self.env, capture_output=True, text=True)
        if done.returncode < 0 or "internal" in done.stderr:
            self.wrong.append("%s: %d, %s" % (" ".join(words), done.returncode, done.stderr[-300:]))
        return done.returncode

    def look(self):
        for path, status, part in ((BASE + "/", 200, b'<base href="%s/">' % BASE.encode()), ("/", 404, b""),
                                   (BASE + "/api/v1/runs", 200, b'"items"'), ("/api/v1/runs", 404, b"")):
            got = ask(path, self.token)
            if got is not None and (got[0] != status or part not in got[1]):
                self.wrong.append("%s: %d, %.300r" % (path, got[0], got[1]))
            self.answers += got is not None

    def remove(self):
        for no, in rows("SELECT no FROM run WHERE name = 'gone' AND state = 'over'"):
            self.removed += self.flowrun("rm", str(no)) == 0

    def run(self):
        while not self.over.wait(0.05):
            self.look()
            self.remove()
            self.flowrun("gc")


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
        decided = rows("SELECT count(*) FROM fire WHERE outcome <> ''")
        if (decided and decided[0][0] >= 2 * len(instants) and said().count("this is the host") > before
                and not rows("SELECT 1 FROM run WHERE state NOT IN ('over', 'removed')")):
            break
        select.select([], [], [], 0.1)
    return host


def begin(env, log):
    """The instants, and a token. A host has seen the schedules before the first one, however slow the machine is."""
    ahead, first = 2, 0
    while time.time() >= first:
        ahead *= 2
        first = int(time.time()) + ahead
        instants = [text(first + i) for i in range(max(6, int(KILLS * LIVES_S / 2)))]
        shutil.rmtree("home", ignore_errors=True)
        token = write(env, instants)
        host = serve(env, log)
        while len(rows("SELECT 1 FROM schedule")) < 2:
            select.select([], [], [], 0.05)
        host.kill()
        host.wait()
    return first, instants, token


def write(env, instants):
    os.makedirs("served", exist_ok=True)
    for name in ("p", "gone"):
        with open("served/%s.yaml" % name, "w") as f:
            f.write("name: %s\nschedule: {at: [%s], catchup: all, catchup_limit: 1000, overlap: parallel}\n"
                    "env: {W: '${{ env.W }}'}\n"
                    "tasks: {t: {env: {AT: '${{ schedule.time }}'}, run: 'echo \"$AT\" >> $W/ran.%s'}}\n"
                    % (name, ", ".join(instants), name))
    return subprocess.run([BUILD + "/engine/cli/flowrun", "token", "new", "looker"], env=env, capture_output=True, text=True,
                          check=True).stdout.strip()


def check_fires(name, instants, first):
    with open("ran." + name) as f:
        ran = collections.Counter(f.read().split())
    check(ran == collections.Counter(instants), "tasks of %s that ran: lost %s, twice %s, none's %s" % (
        name, [i for i in instants if i not in ran], [i for i in ran if ran[i] > 1], [i for i in ran if i not in instants]))
    fires = rows("SELECT at_ms, count, decision, outcome FROM fire JOIN schedule s ON s.id = schedule WHERE pipeline = '%s' "
                 "ORDER BY at_ms" % name)
    check(fires == [((first + i) * 1000, 1, "ran", "succeeded") for i in range(len(instants))],
          "decisions of %s: %s" % (name, [f for f in fires if f[1:] != (1, "ran", "succeeded")]))


def main():
    work = tempfile.mkdtemp(prefix="fr-fires.")
    os.chdir(work)
    env = dict(os.environ, FLOWRUN_HOME=work + "/home", W=work, TZ="UTC")
    env.pop("FLOWRUN_LIBEXEC", None)
    with open("log", "w") as log:
        first, instants, token = begin(env, log)
        beside = Beside(env, token)
        beside.start()
        kill_all(env, log, random.Random(SEED))
        host = settle(env, log, instants)
        beside.over.set()
        beside.join()
        beside.look()
        host.terminate()
        ended = host.wait()
        check(ended == 0, "the last host ended with %d: %s" % (ended, said()[-1000:]))
    check(not beside.wrong, "beside it: %s" % beside.wrong[:3])
    check(beside.answers > 0 and beside.removed > 0, "%d answers, %d runs removed" % (beside.answers, beside.removed))
    check_fires("p", instants, first)
    check_fires("gone", instants, first)
    made = rows("SELECT at_ms, outcome FROM run WHERE name = 'p' AND schedule <> 0 ORDER BY at_ms")
    check(made == [((first + i) * 1000, "succeeded") for i in range(len(instants))], "runs: %s" % made)
    check(rows("PRAGMA integrity_check") == [("ok",)], "the database is whole")
    print("%d kills, %d instants, %d answers, %d runs removed" % (KILLS, len(instants), beside.answers, beside.removed))
    os.chdir("/")
    if failed and os.environ.get("KEEP"):
        print("kept: " + work)
    else:
        shutil.rmtree(work)
    print("%d passed, %d failed" % (passed, failed))
    sys.exit(1 if failed else 0)


main()
