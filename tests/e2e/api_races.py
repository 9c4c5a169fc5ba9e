#!/usr/bin/env python3
"""Several clients ask the same at once: what can happen once happens once, each gets an answer that fits
what became of it, and the host goes on. usage: api_races.py BUILD"""
import collections
import os
import sys
import threading

from api_lib import Checks, Host

CLIENTS = 8
WAITS = """name: waits
env: {W: "${{ env.W }}"}
tasks: {t: {run: "test ! -e $W/bad && until test -e $W/go; do sleep 0.02; done"}}
"""


def at_once(calls):
    """The answers to all of them, begun in the same moment."""
    start, out = threading.Barrier(len(calls)), [None] * len(calls)

    def call(i, fn):
        start.wait()
        out[i] = fn()

    threads = [threading.Thread(target=call, args=(i, fn)) for i, fn in enumerate(calls)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


def each(fn):
    return [lambda i=i: fn(i) for i in range(CLIENTS)]


def statuses(answers):
    return dict(collections.Counter(a.status for a in answers))


def count(host):
    return host.ask("GET", "/runs?count=1").json()["count"]


def check_keys(host, c):
    """Clicks with the same key are one run, those with others are others."""
    before = count(host)
    got = at_once(each(lambda i: host.ask("POST", "/runs/1/rerun", {}, headers=[("Idempotency-Key", "one-click")])))
    c.check(all(a.status in (200, 201) for a in got), "the same key: %s" % statuses(got))
    c.check(len({a.json()["no"] for a in got}) == 1 and count(host) == before + 1, "one run: %d" % (count(host) - before))
    got = at_once(each(lambda i: host.ask("POST", "/runs/1/rerun", {}, headers=[("Idempotency-Key", "click-%d" % i)])))
    c.check(statuses(got) == {201: CLIENTS}, "other keys: %s" % statuses(got))
    c.check(len({a.json()["no"] for a in got}) == CLIENTS and count(host) == before + 1 + CLIENTS, "a run each")


def check_retry(host, c, no):
    """Of many retries of a run one is made, and cancels beside them leave it over or going on, not between."""
    got = at_once(each(lambda i: host.ask("POST", "/runs/%d/retry" % no, {"failed": True})))
    c.check(statuses(got) == {202: 1, 409: CLIENTS - 1}, "one retry: %s" % statuses(got))
    got = at_once(each(lambda i: host.ask("POST", "/runs/%d/%s" % (no, "cancel" if i % 2 else "retry"), {})))
    c.check(set(statuses(got)) <= {202, 409}, "cancels beside retries: %s" % statuses(got))
    last = host.ask("POST", "/runs/%d/cancel" % no, {})
    c.check(last.status in (202, 409), "the last cancel: %d" % last.status)
    doc = host.until("/runs/%d" % no, lambda r: r["state"] == "over")
    c.check(doc["outcome"] == "cancelled", "the run ends: %s" % doc["outcome"])
    got = at_once(each(lambda i: host.ask("DELETE", "/runs/%d" % no, {})))
    c.check(statuses(got).get(200) == 1 and set(statuses(got)) <= {200, 404, 409}, "it is removed once: %s" % statuses(got))


def check_rows(host, c):
    tag = [("If-Match", host.ask("GET", "/schedules/1").headers["etag"])]
    got = at_once(each(lambda i: host.ask("PUT", "/schedules/1", {"paused": True, "note": str(i)}, headers=tag)))
    c.check(statuses(got).get(200) == 1 and set(statuses(got)) <= {200, 409, 412}, "a schedule is paused once: %s" % statuses(got))
    got = at_once(each(lambda i: host.ask("POST", "/tokens", {"name": "same"})))
    c.check(statuses(got) == {201: 1, 409: CLIENTS - 1}, "a token of a name: %s" % statuses(got))
    code = host.ask("POST", "/codes", {}, over="socket").json()["code"]
    ours = [("Sec-Fetch-Site", "same-origin")]
    got = at_once(each(lambda i: host.ask("POST", "/login", {"code": code}, role=None, headers=ours)))
    c.check(statuses(got).get(200) == 1 and set(statuses(got)) <= {200, 401, 429}, "a code lets in once: %s" % statuses(got))


def main():
    c, host = Checks(), Host(sys.argv[1])
    bad, go = os.path.join(host.work, "bad"), os.path.join(host.work, "go")
    try:
        with open(host.folder + "/waits.yaml", "w") as f:
            f.write(WAITS)
        host.until("/pipelines", lambda doc: [p for p in doc["items"] if p["name"] == "waits"])
        for path in (bad, go):
            open(path, "w").close()
        no = host.ask("POST", "/runs", {"pipeline": "waits"}).json()["no"]
        host.until("/runs/%d" % no, lambda r: r["outcome"] == "failed")
        os.unlink(bad)
        check_keys(host, c)
        host.until("/runs?state=live&pipeline=waits", lambda doc: not doc["items"])
        os.unlink(go)
        check_retry(host, c, no)
        check_rows(host, c)
        c.check(host.host.poll() is None and host.ask("GET", "/health").status == 200, "the host is there")
    finally:
        host.end()
    c.done()


main()
