#!/usr/bin/env python3
"""A home whose disk is full: what would write is refused and says why, what reads is answered, and once there is
room all goes on; of a large run that came meanwhile all is there or nothing. usage: api_full.py BUILD"""
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile

if not os.environ.get("FR_INSIDE"):
    if os.geteuid() != 0 or subprocess.call(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL) != 0:
        print("skipped: no file systems can be mounted here")
        sys.exit(77)
    os.environ["FR_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])

from api_lib import Checks, Host

WIDE = 4000
FULL = 507


def fill(path, spare=0):
    """All but so many bytes of the disk."""
    with open(path, "wb", buffering=0) as f:
        with contextlib.suppress(OSError):
            while f.write(bytes(1 << 16)):
                pass
        with contextlib.suppress(OSError):
            while f.write(bytes(512)):
                pass
        f.truncate(max(0, f.tell() - spare))


def check_refused(c, host):
    """Of what is asked while the disk is full."""
    tag = [("If-Match", "*")]
    rows = [("POST", "/runs", {"pipeline": "demo"}, ()), ("POST", "/runs/1/rerun", {}, ()), ("POST", "/runs/1/retry", {}, ()),
            ("PUT", "/schedules/1", {"paused": True}, tag), ("POST", "/runs/1/pin", {"pinned": True}, ()),
            ("POST", "/tokens", {"name": "more"}, ()), ("DELETE", "/runs/1", {}, ()), ("POST", "/deliveries", {"channel": "sink"}, ()),
            ("POST", "/runs", {"pipeline": "wide"}, ())]
    for method, path, body, headers in rows:
        a = host.ask(method, path, body, headers=headers)
        c.check(a.status == FULL and a.headers["content-type"] == "application/problem+json", "%s %s: %d %s" % (method, path, a.status, a.body[:200]))
    for path in ("/runs", "/runs/1", "/runs/1/events", "/runs/1/log", "/runs/1/graph", "/schedules", "/queue", "/pipelines", "/health", "/me"):
        c.check(host.ask("GET", path).status == 200, "GET %s is answered" % path)


def sound(host):
    with contextlib.closing(sqlite3.connect(host.work + "/home/state.db")) as store:
        return store.execute("PRAGMA integrity_check").fetchone()[0]


@contextlib.contextmanager
def no_room_in_journal(host):
    """The journal is empty, and what it gets stays: a commit needs room on the disk, be it as small as may be."""
    with contextlib.closing(sqlite3.connect(host.work + "/home/state.db", isolation_level=None)) as store:
        while store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] != 0:
            pass
        store.execute("BEGIN")
        store.execute("SELECT count(*) FROM run").fetchone()
        yield
        store.execute("COMMIT")


def check_large(c, host, filler):
    """A run whose rows are half written when the disk is full goes on when it has room, or was never there."""
    fill(filler, 400 << 10)
    before = host.ask("GET", "/runs?count=1").json()["count"]
    a = host.ask("POST", "/runs", {"pipeline": "wide"})
    c.check(a.status in (201, FULL), "a large run: %d %s" % (a.status, a.body[:200]))
    os.unlink(filler)
    c.check(host.ask("POST", "/runs", {"pipeline": "demo"}).status == 201, "another one, with room")
    runs = host.ask("GET", "/runs?pipeline=wide").json()["items"]
    c.check(len(runs) == 1 or (a.status == FULL and not runs), "%d: runs of it: %s" % (a.status, runs))
    made = host.ask("POST", "/runs", {"pipeline": "wide"})
    c.check(made.status == 201, "with room it is made: %d %s" % (made.status, made.body[:200]))
    for run in host.ask("GET", "/runs?pipeline=wide").json()["items"]:
        doc = host.until("/runs/%d" % run["no"], lambda r: r["state"] == "running")
        c.check(sum(doc["counts"].values()) == WIDE + 1, "all of it is there: %s" % doc["counts"])
        c.check(host.ask("POST", "/runs/%d/cancel" % run["no"], {}).status == 202, "it is cancelled")
        host.until("/runs/%d" % run["no"], lambda r: r["state"] == "over")
    c.check(before + 1 + len(runs) + 1 == host.ask("GET", "/runs?count=1").json()["count"], "no run too many")


def main():
    c = Checks()
    small = tempfile.mkdtemp(prefix="fr-small.")
    if subprocess.call(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", small]) != 0:
        print("skipped: no small file system can be mounted")
        sys.exit(77)
    tempfile.tempdir = small
    filler = small + "/filler"
    host = Host(sys.argv[1])
    try:
        with open(host.folder + "/wide.yaml", "w") as f:
            f.write('name: wide\ntasks:\n  gate: {run: "exec sleep 600"}\n' + "".join('  t%d: {needs: [gate], run: "true"}\n' % i for i in range(WIDE)))
        host.until("/pipelines", lambda doc: [p for p in doc["items"] if p["name"] == "wide"])
        host.ask("POST", "/runs", {"pipeline": "demo"})
        host.until("/runs/1", lambda r: r["state"] == "over")
        host.until("/deliveries", lambda doc: [i for i in doc["items"] if i["state"] == "sent"])
        with no_room_in_journal(host):
            fill(filler)
            check_refused(c, host)
        os.unlink(filler)
        c.check(host.ask("POST", "/runs/1/pin", {"pinned": False}).status == 200, "room again")
        c.check(host.ask("GET", "/runs?count=1").json()["count"] == 1, "nothing was done meanwhile")
        check_large(c, host, filler)
        c.check(host.host.poll() is None, "the host is there")
    finally:
        host.end()
        subprocess.call(["umount", "-l", small])
        os.rmdir(small)
    c.done()


main()
