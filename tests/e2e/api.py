#!/usr/bin/env python3
"""Every operation of schema/openapi.json, over TCP and over the host's socket: each answer fits its
schema, each route is in the document and each of its operations was asked. No secret is in any answer.
usage: api.py BUILD"""
import contextlib
import gzip
import json
import os
import pwd
import re
import sqlite3
import sys
import time

from api_lib import KEPT, REPO, SECRET, Answer, Checks, Host, mistakes

PLAIN = {"text/plain", "text/event-stream", "application/octet-stream", "application/gzip"}


NONE = {("post", "/login"), ("post", "/logout"), ("get", "/health"), ("get", "/ready"), ("get", "/openapi.json")}
ADMIN = {"/channels", "/deliveries", "/deliveries/{id}", "/deliveries/{id}/again", "/audit", "/tokens", "/tokens/{name}", "/sweep",
         "/nodes/{name}/drain", "/nodes/{name}/undrain"}
OWNER = {"/codes", "/runs/{run}/shell"}


def least_role(method, path):
    """Who looks needs view, who changes something operate; but for these."""
    if (method, path) in NONE:
        return "none"
    if path in OWNER:
        return "owner"
    if path in ADMIN or method == "delete":
        return "admin"
    return "view" if method == "get" else "operate"


class Driver:
    def __init__(self, host, checks):
        self.host, self.c, self.asked = host, checks, set()
        with open(os.path.join(REPO, "schema/openapi.json")) as f:
            self.doc = json.load(f)

    def fits(self, what, operation, answer):
        r = operation["responses"].get(str(answer.status), operation["responses"]["default"])
        if "$ref" in r:
            r = self.doc["components"]["responses"][r["$ref"].rsplit("/", 1)[1]]
        content = r.get("content")
        if content is None:
            self.c.check(answer.body == b"", "%s has a body" % what)
            return
        kind = answer.headers.get("content-type", "").split(";")[0]
        if not self.c.check(kind in content, "%s is %s, not of %s" % (what, kind, list(content))) or kind in PLAIN:
            return
        wrong = mistakes(self.doc, content[kind]["schema"], answer.json())
        self.c.check(not wrong, "%s: %s" % (what, "; ".join(wrong[:4])))

    def ask(self, method, path, status, body=None, query="", over="tcp", role="admin", headers=(), **names):
        operation = self.doc["paths"][path][method]
        full = path
        for name, value in names.items():
            full = full.replace("{%s}" % name, str(value))
        what = "%s %s%s over %s" % (method.upper(), full, query, over)
        a = self.host.ask(method.upper(), full + query, body if method == "get" else body or {}, role, over, headers)
        self.asked.add((method, path))
        self.c.check(a.status == status, "%s: %d, want %d: %s" % (what, a.status, status, a.body[:300]))
        if status == 401:
            self.c.check(a.headers.get("www-authenticate") == "Bearer", "%s does not say how to log in" % what)
        for name in ("content-security-policy", "x-content-type-options", "cache-control"):
            self.c.check(name in a.headers, "%s has no %s" % (what, name))
        self.fits(what, operation, a)
        return a

    def both(self, method, path, status, **more):
        self.ask(method, path, status, over="tcp", **more)
        return self.ask(method, path, status, over="socket", **more)


def drive_lists(d):
    """In other orders, page by page; and what the reader has is not sent again."""
    first = d.both("get", "/runs", 200, query="?sort=oldest&limit=1").json()
    behind = d.host.ask("GET", first["next"][len("/api/v1"):]).json()
    d.c.check([first["items"][0]["no"], behind["items"][0]["no"]] == [1, 2], "the oldest, then the next: %s" % first["next"])
    took = [r["ended_wall"] - r["started_wall"] for r in d.both("get", "/runs", 200, query="?sort=longest&state=failed").json()["items"]]
    d.c.check(took and took == sorted(took, reverse=True), "the longest first: %s" % took)
    d.both("get", "/runs", 400, query="?sort=largest")
    d.both("get", "/runs", 400, query="?sort=oldest&cursor=1.2")
    for path in ("/runs", "/runs/1", "/runs/1/instances"):
        tag = d.host.ask("GET", path).headers["etag"]
        again = d.host.ask("GET", path, headers=[("If-None-Match", '"x", W/' + tag.removeprefix("W/"))])
        d.c.check((again.status, again.body) == (304, b""), "%s again: %d" % (path, again.status))


def drive_queries(d):
    """Names that the document has are those of the host; others are refused, as a slip would change the answer."""
    said = {}
    for path, ops in d.doc["paths"].items():
        if "get" not in ops or path in ("/health", "/ready", "/metrics"):
            continue
        names = [p["name"] for p in ops["get"].get("parameters", []) if p.get("in") == "query"]
        full = re.sub(r"\{id\}", "1", re.sub(r"\{run\}", "1", path)).replace("{attempt}", "0" * 32).replace("{name}", "demo")
        a = d.host.ask("GET", full + "?nothing=1")
        detail = a.json()["detail"]
        d.c.check(a.status == 400 and "no parameter 'nothing' here" in detail, "%s: %d %s" % (full, a.status, detail))
        said.setdefault(detail, set()).update(names)
    for detail, names in said.items():
        known = set(detail.partition(", but: ")[2].split())
        d.c.check(known == names, "the host knows %s, the document %s" % (sorted(known), sorted(names)))
    drive_words(d)
    d.both("get", "/health", 200, query="?probe=1")


def drive_words(d):
    """Values that the document lists are those of the host, which names them to who asks for another."""
    attempt = d.host.ask("GET", "/runs/1/instances").json()["items"][0]["attempt"]
    for path, ops in d.doc["paths"].items():
        full = re.sub(r"\{id\}|\{run\}", "1", path).replace("{attempt}", attempt)
        for p in ops.get("get", {}).get("parameters", []):
            words = p["schema"].get("enum") if p.get("in") == "query" else None
            if words is None or path in ("/health", "/ready", "/metrics"):
                continue
            a = d.host.ask("GET", "%s?%s=nosuch" % (full, p["name"]))
            detail = a.json()["detail"]
            known = re.sub(" or ", ", ", detail.partition(" must be ")[2].partition(", not 'nosuch'")[0]).split(", ")
            d.c.check(a.status == 400 and known == [str(w) for w in words if w != ""], "%s?%s: %d %s, the document %s"
                      % (full, p["name"], a.status, detail, words))
            for word in words:
                query = "?%s=%s%s" % (p["name"], word, "&q=x" if path.endswith("search") else "")
                d.c.check((status := d.host.ask("GET", full + query).status) == 200, "%s%s: %d" % (full, query, status))


def drive_wait(d, run):
    """?seq=: the answer comes with the event, not before."""
    seq = d.ask("get", "/runs/{run}", 200, query="?seq=0", run=run).json()["seq"]
    ask = "GET /api/v1/runs/%s?seq=%d&form=row HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n"
    with d.host.send(ask % (run, seq, d.host.tokens["view"])) as waits:
        d.ask("post", "/runs/{run}/cancel", 202, run=run)
        a = Answer(d.host.take(waits))
    d.c.check(a.status == 200 and a.json()["seq"] > seq, "who waits has the news: %d %s" % (a.status, a.body[:200]))


def drive_reads(d, run, attempt):
    for path in ("/health", "/ready", "/openapi.json", "/me", "/host", "/runs", "/queue", "/pipelines", "/schedules",
                 "/backfills", "/audit", "/tokens", "/nodes", "/pools", "/channels", "/deliveries"):
        d.both("get", path, 200)
    for query in ("?state=failed&count=1", "?pipeline=demo&limit=1", "?q=demo&origin=api&since=1&until=9999999999999",
                  "?state=live"):
        d.both("get", "/runs", 200, query=query)
    d.both("get", "/runs", 400, query="?limit=0")
    for tail in ("", "/instances", "/events", "/outputs", "/artifacts", "/graph", "/params", "/spec", "/metrics"):
        d.both("get", "/runs/{run}" + tail, 200, run=run)
    d.both("get", "/runs/{run}/instances", 200, query="?form=columns&task=first", run=run)
    whole, row = (d.both("get", "/runs/{run}", 200, query=q, run=run).json() for q in ("", "?form=row"))
    d.c.check({k: v for k, v in whole.items() if k not in ("tasks", "counts")} == row, "without its tasks: %s" % row)
    d.both("get", "/runs/{run}", 400, query="?form=rows", run=run)
    stored, now = (d.both("get", "/runs/{run}/spec", 200, query=q, run=run).json() for q in ("", "?form=now"))
    d.c.check(stored == now, "the file as it was, and as it is: %s" % now)
    with open(now["file"], "a") as f:
        f.write("# more\n")
    d.c.check(d.ask("get", "/runs/{run}/spec", 200, query="?form=now", run=run).json()["text"] == stored["text"] + "# more\n"
              and d.ask("get", "/runs/{run}/spec", 200, run=run).json() == stored, "the file was changed")
    with open(now["file"], "w") as f:
        f.write(stored["text"])
    d.both("get", "/runs/{run}/spec", 400, query="?form=then", run=run)
    d.both("get", "/runs/{run}", 404, run=9999)
    log = "/runs/{run}/attempts/{attempt}/log"
    whole = d.both("get", log, 200, run=run, attempt=attempt).body
    part = d.ask("get", log, 206, headers=[("Range", "bytes=5-20")], run=run, attempt=attempt)
    d.c.check(part.body == whole[5:21] and part.headers["flowrun-growing"] == "0", "a part of a log")
    none = d.ask("get", log, 416, headers=[("Range", "bytes=%d-" % len(whole))], run=run, attempt=attempt)
    d.c.check(none.headers["content-range"] == "bytes */%d" % len(whole), "behind its end: %s" % none.headers)
    packed = d.both("get", log + ".gz", 200, headers=[("Range", "bytes=5-20")], run=run, attempt=attempt)
    d.c.check(gzip.decompress(packed.body) == whole and packed.headers["content-disposition"] == "attachment", "a packed log")
    d.both("get", log + ".gz", 404, run=run, attempt="0" * 32)
    lines = d.both("get", log + "/lines", 200, query="?from=2049&n=3", run=run, attempt=attempt).json()
    d.c.check([i["text"] for i in lines["items"]] == ["line %d of me" % n for n in (2049, 2050, 2051)]
              and lines["total"] == 3000 and lines["items"][0]["offset"] == whole.index(b"line 2049 "), "lines by number")
    hits = d.both("get", log + "/search", 200, query="?q=line%20299", run=run, attempt=attempt).json()
    d.c.check([h["line"] for h in hits["items"]] == [299] + list(range(2990, 3000)), "a text in a log")
    hits = d.both("get", log + "/search", 200, query="?q=%5Eline%20(17%7C1999)%20&re=1", run=run, attempt=attempt).json()
    d.c.check([h["line"] for h in hits["items"]] == [17, 1999], "a pattern in a log")
    d.both("get", log + "/search", 400, query="?q=(&re=1", run=run, attempt=attempt)
    d.both("get", log + "/lines", 400, query="?n=0", run=run, attempt=attempt)
    d.both("get", log, 404, run=run, attempt="0" * 32)
    merged = d.both("get", "/runs/{run}/log", 200, query="?task=first&tail=2", run=run).body
    d.c.check(merged == b"first@local | line 2999 of me\nfirst@local | line 3000 of me\n", "merged: %r" % merged[-200:])
    merged = d.both("get", "/runs/{run}/log", 200, run=run).body
    d.c.check(merged.count(b"\n") == 2000 and merged.endswith(b"bad@local | error: no\n"), "merged: %r" % merged[-200:])
    d.both("get", "/runs/{run}/log", 400, query="?tail=0", run=run)
    marks = d.both("get", log + "/times", 200, query="?from=0&to=%d" % len(whole), run=run, attempt=attempt).json()["items"]
    clock = 1000 * time.time()
    d.c.check(marks[0][0] == 0 and all(clock - 600e3 < ms <= clock for _, ms in marks), "when it was written: %s" % marks[:3])
    d.both("get", log + "/times", 400, query="?from=x", run=run, attempt=attempt)
    merged = d.both("get", "/runs/{run}/log", 200, query="?tail=1&times=ms", run=run).body.split()
    d.c.check(marks[0][1] <= int(merged[0]) <= clock, "times of all logs: %s" % merged[:3])
    found = d.both("get", "/runs/{run}/log/search", 200, query="?q=line%20299", run=run).json()
    d.c.check([h["line"] for h in found["items"]] == [299] + list(range(2990, 3000)) and not found["truncated"]
              and {(h["attempt"], h["attempt_no"]) for h in found["items"]} == {(attempt, 1)}, "a text in all logs: %s" % found["items"][:2])
    rest = d.both("get", "/runs/{run}/log/search", 200, query="?q=line%%20299&attempt=%s&from=2998" % attempt, run=run).json()
    d.c.check([h["line"] for h in rest["items"]] == [2998, 2999], "from where it was left")
    d.both("get", "/runs/{run}/log/search", 200, query="?q=line&task=none", run=run)
    d.both("get", "/runs/{run}/log/search", 400, query="?q=", run=run)
    d.both("get", "/runs/{run}/log/search", 404, query="?q=line&attempt=" + "0" * 32, run=run)
    for tail in ("", "/history"):
        d.both("get", "/pipelines/{name}" + tail, 200, name="demo")
        d.both("get", "/pipelines/{name}" + tail, 404, name="none")
    drive_files(d, run)
    drive_served(d)
    drive_lists(d)
    drive_queries(d)
    name = d.both("get", "/nodes", 200).json()["items"][0]["name"]
    d.both("get", "/nodes/{name}", 200, name=name)
    d.both("get", "/nodes/{name}", 404, name="none")
    d.both("get", "/nodes/{name}/samples", 404, name="none")
    d.ask("post", "/nodes/{name}/drain", 404, body={}, name="none")
    d.ask("post", "/nodes/{name}/drain", 400, body={"why": "x"}, name=name)
    drained = d.ask("post", "/nodes/{name}/drain", 200, body={"note": "a new disk"}, name=name).json()["drained"]
    d.c.check(drained["note"] == "a new disk", "drained: %s" % drained)
    d.ask("post", "/nodes/{name}/undrain", 200, body={}, name=name)
    d.ask("post", "/nodes/{name}/undrain", 409, body={}, name=name)
    d.both("get", "/schedules/{id}", 200, id=1)
    next_ = d.both("get", "/schedules", 200, query="?pipeline=demo").json()["items"][0]["next"]
    d.c.check(len(next_) == 5 and next_ == sorted(next_, key=lambda n: n["at_ms"]), "when it fires next: %s" % next_)
    d.c.check(d.both("get", "/schedules", 200, query="?pipeline=none").json()["items"] == [], "of another pipeline")
    d.both("get", "/schedules/{id}/fires", 200, id=1)
    d.both("get", "/schedules/{id}", 404, id=77)


def drive_files(d, run):
    (one,) = d.both("get", "/runs/{run}/artifacts", 200, run=run).json()["items"]
    file = "/runs/{run}/artifacts/{name}"
    d.c.check(d.both("get", file, 200, run=run, name=one["sha256"]).body == KEPT.encode(), "a file that was kept")
    part = d.ask("get", file, 206, headers=[("Range", "bytes=2-5")], run=run, name=one["sha256"])
    d.c.check(part.body == b"file" and part.headers["content-disposition"] == "attachment", "a part of it")
    for name in ("0" * 64, one["sha256"][:20], "x"):
        d.both("get", file, 404, run=run, name=name)


def drive_priority(d):
    """Of a run that waits, and of no other."""
    d.ask("post", "/runs", 201, {"pipeline": d.host.folder + "/long.yaml", "cwd": "/", "id": "cd" * 16,
                                 "not_before_wall": 4000000000000}, over="socket")
    tag = d.ask("get", "/runs/{run}", 200, run="cd" * 16).headers["etag"]
    doc = d.ask("post", "/runs/{run}/priority", 200, {"priority": -7}, run="cd" * 16).json()
    d.c.check(doc["priority"] == -7 and d.ask("get", "/runs/{run}", 200, run="cd" * 16).headers["etag"] != tag, "another tag")
    d.ask("post", "/runs/{run}/priority", 200, {"priority": 8}, run="cd" * 16, over="socket")
    d.c.check([r["priority"] for r in d.ask("get", "/queue", 200).json()["items"]] == [8], "in the queue")
    for body in ({}, {"priority": "8"}, {"priority": 1.5}, {"priority": 1, "more": 1}):
        d.both("post", "/runs/{run}/priority", 400, body=body, run="cd" * 16)
    d.ask("post", "/runs/{run}/cancel", 202, run="cd" * 16)
    d.host.until("/runs/" + "cd" * 16, lambda r: r["state"] == "over")
    d.both("post", "/runs/{run}/priority", 409, body={"priority": 1}, run="cd" * 16)


def drive_served(d):
    """A file of the folder that never ran: it is known, has no runs yet, and can be begun."""
    with open(d.host.folder + "/fresh.yaml", "w") as f:
        f.write('name: fresh\nparams: {w: {default: "${{ env.W }}"}}\ntasks: {t: {run: "true"}}\n')
    d.host.until("/pipelines", lambda doc: [p for p in doc["items"] if p["name"] == "fresh"])
    doc = d.both("get", "/pipelines/{name}", 200, name="fresh").json()
    d.c.check("error" not in doc and doc["params"][0]["value"] == d.host.work and doc["graph"]["tasks"][0]["name"] == "t",
              "it is read as a run would read it: %s" % doc)
    doc = d.both("get", "/pipelines/{name}/history", 200, name="fresh").json()
    d.c.check(doc == {"tasks": [], "items": [], "gaps": []}, "no runs yet: %s" % doc)
    no = d.ask("post", "/runs", 201, {"pipeline": "fresh"}).json()["no"]
    d.host.until("/runs/%d" % no, lambda r: r["outcome"] == "succeeded")
    os.unlink(d.host.folder + "/fresh.yaml")


def drive_search(d):
    """Through all logs of a run, answer by answer: each hit once, with its attempt."""
    with open(d.host.folder + "/said.yaml", "w") as f:
        f.write("""name: said
tasks:
  again: {retry: {times: 1, delay: 0s}, run: 'for i in $(seq 600); do echo "needle $i"; done; test "$FLOWRUN_ATTEMPT_NO" = 2'}
  long: {needs: [again], run: 'printf "needle %0600000d needle\\nhay\\nneedle\\n" 7'}
""")
    d.host.until("/pipelines", lambda doc: any(p["name"] == "said" for p in doc["items"]))
    no = d.ask("post", "/runs", 201, {"pipeline": "said"}).json()["no"]
    d.host.until("/runs/%d" % no, lambda r: r["outcome"] == "succeeded")
    hits, query = [], "?q=needle"
    while query:
        doc = d.both("get", "/runs/{run}/log/search", 200, query=query, run=no).json()
        hits += doc["items"]
        d.c.check(len(doc["items"]) <= 1000 and doc["truncated"] == ("next" in doc), "an answer: %d hits" % len(doc["items"]))
        query = "?q=needle&attempt=%(attempt)s&from=%(from)d" % doc["next"] if "next" in doc else None
    want = [("again@local", a, n) for a in (1, 2) for n in range(1, 601)] + [("long@local", 1, 1), ("long@local", 1, 3)]
    d.c.check([(h["instance"], h["attempt_no"], h["line"]) for h in hits] == want, "each hit once: %d hits" % len(hits))
    found = d.both("get", "/runs/{run}/log/search", 200, query="?q=needle&task=long", run=no).json()["items"]
    d.c.check([h["line"] for h in found] == [1, 3], "of one task: %s" % found[:3])
    os.unlink(d.host.folder + "/said.yaml")


def drive_runs(d):
    """The run that failed, its first attempt, and one that goes on."""
    h = d.host
    made = d.ask("post", "/runs", 201, {"pipeline": "demo", "params": {"x": 5}}, headers=[("Idempotency-Key", "k1")]).json()
    again = d.ask("post", "/runs", 201, {"pipeline": "demo", "params": {"x": 5}}, headers=[("Idempotency-Key", "k1")]).json()
    d.c.check(made["no"] == again["no"], "a key makes one run")
    d.ask("post", "/runs", 422, {"pipeline": "demo"}, headers=[("Idempotency-Key", "k1")])
    d.ask("post", "/runs", 404, {"pipeline": "none"})
    d.ask("post", "/runs", 422, {"pipeline": "demo", "params": {"x": "many"}})
    d.ask("post", "/runs", 400, {"pipeline": "demo", "file": "/etc/passwd"})
    d.ask("post", "/runs", 201, {"pipeline": h.folder + "/long.yaml", "cwd": "/", "id": "ab" * 16}, over="socket")
    doc = h.until("/runs/%d" % made["no"], lambda r: r["state"] == "over")
    d.c.check(doc["outcome"] == "failed" and doc["who"] == "admin", "the run fails; who began it: %s" % doc)
    d.c.check(h.ask("GET", "/runs/" + "ab" * 16).json()["who"] == pwd.getpwuid(os.getuid()).pw_name, "the owner's run")
    rows = h.ask("GET", "/runs/%d/instances" % made["no"]).json()["items"]
    return made["no"], rows[0]["attempt"], "ab" * 16


def drive_allocations(d, run):
    """One row of a cluster that nobody asks: it is over."""
    row = dict(name="train", no=1, tag="ab" * 16, folder="/work/alloc/" + "ab" * 16, path="", rpc=12, state="over", job=4711,
               submits=1, slurm="TIMEOUT", hosts="nid1 nid2", cause="time_limit", note="its limit of 2h was reached",
               elapsed_ms=7200000, accounting="known", exit_state="TIMEOUT", max_rss=1 << 30, energy_j=3600, tres="cpu=2,gres/gpu=4,node=2")
    open_ones = lambda: [(i["run"], i["name"], i["state"], i["places"], i["why"]) for i in d.both("get", "/nodes", 200).json()["allocations"]]
    with contextlib.closing(sqlite3.connect(d.host.work + "/home/state.db", isolation_level=None)) as store:
        store.execute("INSERT INTO allocation(run, %s) SELECT id, %s FROM run WHERE no = %d"
                      % (", ".join(row), ", ".join(":" + name for name in row), run), row)
        d.c.check(open_ones() == [], "nodes have none that is over: %s" % open_ones())
        store.execute("UPDATE allocation SET state = 'queued', reason = 'Priority', nodes = 3")
        want = [(run, "train", "queued", "train1 to train3", "others come first (Priority)")]
        d.c.check(open_ones() == want, "they have one that waits: %s" % open_ones())
        store.execute("UPDATE allocation SET state = 'over', reason = ''")
    items = d.both("get", "/runs/{run}/allocations", 200, run=run).json()["items"]
    d.c.check([(i["name"], i["job"], i["slurm_state"], i["cause"], i["elapsed_ms"], i["accounting"], i["max_rss"], i["energy_j"],
                i["tres"]) for i in items]
              == [("train", 4711, "TIMEOUT", "time_limit", 7200000, "known", 1 << 30, 3600, "cpu=2,gres/gpu=4,node=2")],
              "its allocation: %s" % items)


def drive_audit(d, run):
    """Who began the run and what was asked of it since; only administrators see from where."""
    asked = d.both("get", "/runs/{run}/audit", 200, run=run).json()["items"][::-1]
    last = lambda items: [(i["name"].rsplit("/", 1)[1], i["who"], i["outcome"]) for i in items]
    d.c.check(last(asked)[:2] == [("runs", "admin", "201"), ("retry", "admin", "202")], "what was asked: %s" % last(asked))
    d.c.check(last(asked)[2] == ("retry", "uid %d" % os.getuid(), "202") and last(asked)[3][2] == "400", "and refused: %s" % last(asked))
    d.c.check([i["address"] for i in asked][:3] == ["127.0.0.1", "127.0.0.1", ""], "from where: %s" % asked)
    seen = d.ask("get", "/runs/{run}/audit", 200, role="view", run=run).json()["items"]
    d.c.check(len(seen) == len(asked) and all(i["address"] == "" for i in seen), "not for others: %s" % seen)


def drive_changes(d, run, long):
    h = d.host
    d.ask("post", "/runs/{run}/retry", 202, {"failed": True}, run=run)
    h.until("/runs/%d" % run, lambda r: r["state"] == "over")
    d.ask("post", "/runs/{run}/retry", 202, {"from": "first"}, run=run, over="socket")
    h.until("/runs/%d" % run, lambda r: r["state"] == "over")
    d.both("post", "/runs/{run}/retry", 400, body={"from": "first", "failed": True}, run=run)
    drive_audit(d, run)
    drive_allocations(d, run)
    made = d.ask("post", "/runs/{run}/rerun", 201, {"params": {"who": "you"}}, run=run).json()["no"]
    h.until("/runs/%d" % made, lambda r: r["state"] == "over")
    d.both("post", "/runs/{run}/resume", 202, run=long)
    d.both("post", "/runs/{run}/abandon", 400, body={"node": "nowhere"}, run=long)
    d.ask("post", "/runs/{run}/shell", 202, {"secrets": {"PLANTED": SECRET}}, run=long, over="socket")
    d.ask("post", "/runs/{run}/shell", 403, {"secrets": {"PLANTED": SECRET}}, run=long)
    d.ask("delete", "/runs/{run}", 409, run=long)
    drive_wait(d, long)
    h.until("/runs/" + long, lambda r: r["state"] == "over")
    d.both("post", "/runs/{run}/cancel", 409, run=long)
    d.both("post", "/runs/{run}/pin", 200, body={"pinned": True}, run=long)
    d.ask("delete", "/runs/{run}", 409, run=long)
    d.both("post", "/runs/{run}/pin", 200, body={"pinned": False}, run=long)
    d.ask("delete", "/runs/{run}", 200, run=long)
    d.both("get", "/runs/{run}", 404, run=long)
    drive_priority(d)
    d.both("post", "/sweep", 200)
    d.both("post", "/pipelines/validate", 200, body={"text": "name: x\ntasks: {a: {run: y}}"})
    d.both("post", "/pipelines/validate", 200, body={"text": "name: x\ntasks: {a: {runn: y}}"})
    rules = "name: x\ntasks: {a: {run: y}, b: {run: y, needs: a, run_if: any, skip_with: a}, c: {run: y, needs: {task: b, states: [failed, lost]}}}"
    tasks = d.both("post", "/pipelines/validate", 200, body={"text": rules}).json()["graph"]["tasks"]
    d.c.check([(t.get("run_if"), t.get("rules")) for t in tasks] == [(None, None), ("any", [{"need": 0, "states": [], "skip_with": True}]),
              (None, [{"need": 1, "states": ["failed", "lost"], "skip_with": False}])], "when tasks start: %s" % tasks)


def drive_schedules(d):
    tag = [("If-Match", d.ask("get", "/schedules/{id}", 200, id=1).headers["etag"])]
    d.ask("put", "/schedules/{id}", 200, {"paused": True, "note": "for a test"}, id=1, headers=tag)
    d.ask("put", "/schedules/{id}", 412, {"paused": False}, id=1, headers=tag)
    d.both("put", "/schedules/{id}", 428, body={"paused": False}, id=1)
    now = [("If-Match", "*")]
    d.ask("put", "/schedules/{id}", 409, {"paused": True}, id=1, over="socket", headers=now)
    d.ask("put", "/schedules/{id}", 200, {"paused": False, "catchup": False}, id=1, over="socket", headers=now)
    seen = d.ask("get", "/schedules", 200).json()["items"][0]["etag"]
    d.c.check(seen == d.ask("get", "/schedules/{id}", 200, id=1).headers["etag"], "a list has the same tag")
    d.c.check(seen == d.ask("get", "/pipelines/{name}", 200, name="demo").json()["schedules"][0]["etag"], "and a pipeline")
    no = d.ask("post", "/schedules/{id}/run", 201, id=1).json()["no"]
    d.host.until("/runs/%d" % no, lambda r: r["state"] == "over")
    day = 86400000
    d.host.run("schedules", "pause", "demo")
    body = {"schedule": 1, "from_ms": 1795000000000 - 1795000000000 % day, "to_ms": 1795000000000 - 1795000000000 % day + day,
            "total": 4, "order": "oldest", "existing": "skip", "max_active": 1, "priority": 0, "params": []}
    made = d.ask("post", "/backfills", 201, body).json()["id"]
    d.ask("post", "/backfills/{id}/pause", 202, id=made)
    d.ask("post", "/backfills/{id}/resume", 202, id=made)
    d.ask("post", "/backfills/{id}/cancel", 202, id=made)
    d.both("post", "/backfills/{id}/cancel", 409, id=made)
    d.both("get", "/backfills", 200)


def drive_access(d):
    d.ask("post", "/tokens", 201, {"name": "more", "role": "view", "days": 1})
    d.both("post", "/tokens", 409, body={"name": "more"})
    once = d.ask("post", "/tokens", 201, {"name": "once"}, headers=[("Idempotency-Key", "secret-k")]).json()["token"]
    for name in os.listdir(d.host.env["FLOWRUN_HOME"]):
        if name.startswith("state.db"):
            with open(os.path.join(d.host.env["FLOWRUN_HOME"], name), "rb") as f:
                d.c.check(once.encode() not in f.read(), "the answer with a new token is not kept in %s" % name)
    d.ask("post", "/tokens", 409, {"name": "once"}, headers=[("Idempotency-Key", "secret-k")])
    d.ask("delete", "/tokens/{name}", 204, name="more")
    d.both("delete", "/tokens/{name}", 404, name="more")
    d.ask("post", "/codes", 403)
    code = d.ask("post", "/codes", 201, over="socket").json()["code"]
    ours = [("Sec-Fetch-Site", "same-origin")]
    a = d.ask("post", "/login", 200, {"code": code}, role=None, headers=ours)
    cookie = [("Cookie", a.headers["set-cookie"].split(";")[0])]
    d.c.check(d.ask("get", "/me", 200, role=None, headers=cookie).json()["by"] == "session", "a session")
    d.ask("post", "/login", 401, {"token": "frt_no"}, role=None, headers=ours)
    d.ask("post", "/logout", 204, role=None, headers=ours + cookie)
    d.ask("get", "/me", 401, role=None, headers=cookie)


def drive_deliveries(d):
    channels = d.both("get", "/channels", 200).json()["items"]
    d.c.check(channels == [{"name": "sink", "kind": "command", "off": ""}], "channels: %s" % channels)
    rules = d.both("get", "/channels", 200).json()["rules"]
    d.c.check(rules and rules[0]["to"] == ["sink"], "rules: %s" % rules)
    items = d.both("get", "/deliveries", 200, query="?channel=sink&state=sent&limit=2").json()
    d.c.check(len(items["items"]) == 2 and all(i["kind"] == "failed" for i in items["items"]), "failures: %s" % items)
    behind = d.host.ask("GET", items["next"][len("/api/v1"):]).json()["items"]
    d.c.check(behind and behind[0]["id"] < items["items"][1]["id"], "the next page: %s" % behind)
    one = d.both("get", "/deliveries/{id}", 200, id=items["items"][0]["id"]).json()
    d.c.check(one["message"]["type"] == "run.failed" and one["message"]["data"]["run"] == one["run"], "a message: %s" % one)
    d.both("get", "/deliveries/{id}", 404, id=9999)
    d.both("get", "/deliveries", 400, query="?state=gone")
    d.both("get", "/deliveries", 404, query="?channel=none")
    made = d.ask("post", "/deliveries", 201, {"channel": "sink"}).json()
    d.both("post", "/deliveries", 404, body={"channel": "none"})
    d.host.until("/deliveries/%d" % made["id"], lambda r: r["state"] == "sent")
    d.ask("post", "/deliveries/{id}/again", 202, id=made["id"])
    d.host.until("/deliveries/%d" % made["id"], lambda r: r["state"] == "sent")
    d.both("post", "/deliveries/{id}/again", 404, id=9999)


def drive_figures(d):
    """At the root, not below /api/v1."""
    ask = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n"
    a = Answer(d.host.raw(ask % d.host.tokens["view"], half=False))
    d.c.check(a.status == 200 and a.headers["content-type"].startswith("text/plain") and b"flowrun_runs" in a.body,
              "figures: %d %r" % (a.status, a.body[:200]))
    d.asked.add(("get", "/metrics"))


def drive_stream(d):
    text = "GET /api/v1/stream?runs=1&topics=list,queue HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
    got = d.host.raw(text % d.host.tokens["view"], wait=2, half=False)
    d.c.check(b"text/event-stream" in got and b"event: hello\ndata: {\"epoch\":" in got, "the stream begins: %r" % got[:300])
    d.asked.add(("get", "/stream"))
    d.ask("get", "/stream", 400, query="?topics=nothing")
    epoch = d.host.ask("GET", "/host").json()["epoch"]
    for last in ("%d.1" % epoch, "%d-00000000.1" % epoch, "%d-00000000.1" % (epoch - 1), "x"):  # of another home, an older host
        again = text.replace("\r\n\r\n", "\r\nLast-Event-ID: %s\r\n\r\n" % last) % d.host.tokens["view"]
        got = b""
        with d.host.send(again) as s:
            while b"event: reset" not in got and (part := s.recv(1 << 16)):
                got += part
        d.c.check(b"event: reset" in got, "behind %s: %r" % (last, got[-200:]))


def check_cli(d):
    doc = json.loads(d.host.run("api", "openapi.json"))
    d.c.check(doc == d.doc, "the document is what is served")
    d.c.check(json.loads(d.host.run("api", "/api/v1/me"))["by"] == "socket", "flowrun api")
    d.host.run("api", "GET", "runs/9999", ok=2)
    d.c.check(json.loads(d.host.run("api", "-d", '{"text": "x"}', "pipelines/validate"))["valid"] is False, "flowrun api -d")


def main():
    checks = Checks()
    host = Host(sys.argv[1])
    try:
        d = Driver(host, checks)
        run, attempt, long = drive_runs(d)
        drive_reads(d, run, attempt)
        drive_search(d)
        drive_changes(d, run, long)
        drive_schedules(d)
        drive_access(d)
        drive_deliveries(d)
        drive_stream(d)
        drive_figures(d)
        check_cli(d)
        said = {(m, p): o for p, ops in d.doc["paths"].items() for m, o in ops.items() if m != "servers"}
        for method, path in sorted(said):
            checks.check(said[method, path]["x-role"] == least_role(method, path), "the role of %s %s" % (method, path))
        checks.check(set(said) == d.asked, "not asked: %s" % sorted(set(said) - d.asked))
        checks.check(SECRET.encode() not in host.seen, "a secret is in an answer")
        checks.check(not re.search(rb'"hash"', host.seen), "a hash of a secret is in an answer")
    finally:
        host.end()
    checks.done()


main()
