#!/usr/bin/env python3
"""Paths in requests: a token of role operate names files in the folders that the host serves, and what a
pipeline names by default, by no key and no route any other; texts are checked without a look at the files
that they name.
usage: api_paths.py BUILD"""
import json
import os
import sys
import time

from api_lib import Checks, Host

PLANTED = "outside-lion-5519"
# key: a pipeline's lines; P is where the parameter stands
KEYS = {
    "nodes": 'nodes: P',
    "key": 'nodes: [{name: n1, address: 192.0.2.1, key: "P"}]',
    "known_hosts": 'nodes: [{name: n1, address: 192.0.2.1, known_hosts: "P"}]',
    "ssh_config": 'nodes: [{name: n1, address: 192.0.2.1, ssh_config: "P"}]',
    "defaults-key": 'nodes: {defaults: {key: "P"}, nodes: [{name: n1, address: 192.0.2.1}]}',
    "env-file": 'env_file: "P"',
    "secret-file": 'secrets: {s: {file: "P"}}',
    "secret-choice": 'secrets: {s: {file: "${{ 1 > 2 && \'x\' || params.p }}"}}',
    "files": '"P"',
    "files-node": '"node:P"',
    "files-joined": '"/P"',
    "files-or": '"${{ \'\' || params.p }}"',
    "with-model": '{model: "P", dataset_dir: "node:/d", dataset: d}',
    "with-data": '{model: "node:/m", dataset_dir: "P", dataset: d}',
    "with-deepspeed": '{model: "node:/m", dataset_dir: "node:/d", dataset: d, deepspeed: "P"}',
}
# of these not even a path in the folder may be given: what they name shows later, or is no file
NEVER = {
    "secret-env": 'secrets: {s: {env: "P"}}',
    "secret-command": 'secrets: {s: {command: "P"}}',
    "files-late": '"P/${{ node.name }}"',
    "with-late": '{model: "P/${{ node.name }}", dataset_dir: "node:/d", dataset: d}',
}
JOINED = ("files-node", "files-joined")  # they make another path of it


# By what a key takes: a file that a pipeline names by default, and another one of its folder.
def files_of(name):
    return ("in.env", "other.env") if name.startswith("env-file") else ("in.yaml", "other.yaml")


def pipeline(name, part, kind):
    """A pipeline with a schedule, whose parameter p is of that type."""
    default = files_of(name)[0]
    part = part.replace("P", "${{ params.p }}")
    task = "run: 'true'"
    if name.startswith("files"):
        task, part = "run: 'true', files: {f: %s}" % part, ""
    if name.startswith("with"):
        task, part = "uses: train, with: " + part, ""
    return ("name: %s\nschedule: {every: 6h}\nparams: {p: {default: %s, type: %s}}\n%s\n"
            "tasks: {a: {%s}}\n" % (name, default, kind, part, task))


class Test:
    def __init__(self, build):
        self.c = Checks()
        self.h = Host(build)
        self.out = self.h.work + "/outside.yaml"
        self.write(self.out, "- {name: n1, executor: local, %s: 1}\n" % PLANTED)
        self.write(self.h.folder + "/in.yaml", "[{name: n1, executor: local}]\n")
        self.write(self.h.folder + "/other.yaml", "[{name: n2, executor: local}]\n")
        self.write(self.h.folder + "/in.env", "A=1\n")
        self.write(self.h.folder + "/other.env", "A=2\n")
        os.symlink(self.out, self.h.folder + "/link.yaml")
        os.symlink(self.h.work + "/nowhere", self.h.folder + "/dangling.yaml")
        self.bad = [self.out, "../outside.yaml", "link.yaml", "dangling.yaml", self.h.work + "/none.yaml",
                    self.h.folder + "/no/../../outside.yaml", "/", "~/x", self.h.folder + "x/in.yaml"]

    def write(self, path, text):
        with open(path, "w") as f:
            f.write(text)
        os.utime(path, (1e9, 1e9))

    def serve(self, names):
        for kind in ("string", "path"):
            for name, lines in names.items():
                self.write("%s/%s-%s.yaml" % (self.h.folder, name, kind), pipeline("%s-%s" % (name, kind), lines, kind))
        want = {"%s-%s" % (n, k) for n in names for k in ("string", "path")}
        self.schedules = {s["pipeline"]: s["id"] for s in self.h.until(
            "/schedules", lambda doc: want <= {s["pipeline"] for s in doc["items"]})["items"]}

    def refused(self, answer, what):
        text = answer.body.decode("utf-8", "replace")
        self.c.check(answer.status == 422 and "a token of role operate may" in text, "%s: %d %s" % (what, answer.status, text))
        return [i["text"] for i in json.loads(text).get("issues", [])]

    def taken(self, answer, what):
        text = answer.body.decode("utf-8", "replace")
        self.c.check(answer.status in (200, 201, 202, 422) and "role operate may" not in text, "%s: %d %s" % (what, answer.status, text))

    def runs(self):
        """POST /runs, for each key and each way to name a file."""
        for name in [*KEYS, *NEVER]:
            for kind in ("string", "path"):
                p = "%s-%s" % (name, kind)
                for bad in self.bad if name in ("nodes", "secret-file", "files") else self.bad[:1]:
                    self.refused(self.h.ask("POST", "/runs", {"pipeline": p, "params": {"p": bad}}, "operate"), p + " " + bad)
                first, other = files_of(name)
                ask = {"pipeline": p, "params": {"p": first}}
                self.taken(self.h.ask("POST", "/runs", ask, "operate"), p + ": what it names by default")
                ask["params"]["p"] = other
                if name in NEVER:
                    self.refused(self.h.ask("POST", "/runs", ask, "operate"), p + ": in the folder")
                elif name not in JOINED:
                    self.taken(self.h.ask("POST", "/runs", ask, "operate"), p + ": in the folder")
                ask["params"]["p"] = self.h.work + "/none.yaml"
                self.taken(self.h.ask("POST", "/runs", ask, "admin"), p + ": by an admin")
        # whether a file is there is not told
        one = [self.refused(self.h.ask("POST", "/runs", {"pipeline": "nodes-string", "params": {"p": p}}, "operate"), p)
               for p in (self.out, self.h.work + "/none.yaml", "/root/x", "/etc/shadow")]
        texts = {t.replace(p, "P") for issues, p in zip(one, (self.out, self.h.work + "/none.yaml", "/root/x", "/etc/shadow")) for t in issues}
        self.c.check(len(texts) == 1, "the same for each: %s" % texts)

    def again(self):
        """A run of the owner, repeated: its own parameters stay, others are as in a new one."""
        h = self.h
        self.write(self.out + ".list", "[{name: n9, executor: local}]\n")
        h.run("run", h.folder + "/nodes-string.yaml", "-p", "p=" + self.out + ".list")
        no = h.ask("GET", "/runs?pipeline=nodes-string&limit=1").json()["items"][0]["no"]
        path = "/runs/%d/rerun" % no
        for params in ({}, {"p": self.out + ".list"}, {"p": h.folder + "/other.yaml"}):
            self.c.check(h.ask("POST", path, {"params": params}, "operate").status == 201, "rerun %s" % params)
        self.refused(h.ask("POST", path, {"params": {"p": self.out}}, "operate"), "rerun with another file")
        for route in ("resume", "retry"):
            a = h.ask("POST", "/runs/%d/%s" % (no, route), {"file": self.out}, "operate")
            self.c.check(a.status == 400 and PLANTED.encode() not in a.body, "%s with a file: %d" % (route, a.status))

    def clocks(self):
        """Schedules take no parameters; those of backfills have the fence when a run is made."""
        h, sid = self.h, self.schedules["files-string"]
        a = h.ask("POST", "/schedules/%d/run" % sid, {"params": {"p": self.out}}, "operate")
        self.c.check(a.status == 400, "a run of a schedule with parameters: %d" % a.status)
        a = h.ask("PUT", "/schedules/%d" % sid, {"paused": True, "params": {"p": self.out}}, "operate", headers=[("If-Match", "*")])
        self.c.check(a.status == 400, "a change of a schedule with parameters: %d" % a.status)
        self.c.check(h.ask("POST", "/schedules/%d/run" % sid, {}, "operate").status == 201, "a run of a schedule")
        now = int(time.time() * 1000)
        ask = {"schedule": sid, "from_ms": now - 12 * 3600000, "to_ms": now, "order": "oldest", "existing": "all", "max_active": 1, "priority": 0}
        for role, path, want in (("operate", self.out, "paused"), ("operate", "other.yaml", "over"), ("admin", self.out, "over")):
            a = h.ask("POST", "/backfills", dict(ask, params=["p=" + path]), role)
            if not self.c.check(a.status == 201, "a backfill: %d %s" % (a.status, a.body)):
                continue
            doc = h.until("/backfills", lambda d: [b for b in d["items"] if b["id"] == a.json()["id"] and b["state"] in ("paused", "over")])
            b = [b for b in doc["items"] if b["id"] == a.json()["id"]][0]
            self.c.check(b["state"] == want and ("may name" in b["note"]) == (want == "paused"), "a backfill of %s with %s: %s" % (role, path, b))
        a = h.ask("POST", "/backfills", dict(ask, params=[True, "p=x"]), "operate")
        self.c.check(a.status == 400, "a backfill with a parameter that is no text: %d" % a.status)

    def texts(self):
        """POST /pipelines/validate opens nothing, so nothing waits either."""
        os.mkfifo(self.h.work + "/fifo")
        for role in ("operate", "admin"):
            for path in (self.out, "/etc/passwd", self.h.work + "/fifo", self.h.work + "/none"):
                text = ("nodes: %s\nenv_file: %s\nsecrets: {s: {file: %s}}\n"
                        "tasks: {a: {on: [n1, n7], run: x, files: {f: %s}, outputs: [o]}, "
                        "b: {on: n7, needs: [a], run: x, env: {O: \"${{ tasks.a.on('n7').outputs.o }}\"}}}\n" % (path, path, path, path))
                doc = self.h.ask("POST", "/pipelines/validate", {"text": text}, role).json()
                self.c.check(doc.get("valid") and "is not opened here" in doc["notes"][0]["text"], "validate %s: %s" % (path, doc))
        held = []
        for i in range(40):
            text = json.dumps({"text": "nodes: %s/fifo\ntasks: {a: {run: x}}\n" % self.h.work})
            held.append(self.h.send("POST /api/v1/pipelines/validate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                    "Authorization: Bearer %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (self.h.tokens["operate"], len(text), text)))
        self.c.check(self.h.ask("GET", "/runs", over="unix").status == 200, "the owner's socket answers meanwhile")
        for s in held:
            got = self.h.take(s)
            self.c.check(b'"valid":true' in got or b"HTTP/1.1 503 " in got, "each of 40 is answered: %s" % got[-300:])
            s.close()
        self.c.check(self.h.ask("GET", "/runs").status == 200, "and the pages, behind them")

    def all(self):
        try:
            self.serve({**KEYS, **NEVER})
            self.texts()
            self.runs()
            self.again()
            self.clocks()
            self.c.check(PLANTED.encode() not in self.h.seen, "no answer quotes the file")
        finally:
            self.h.end()
        self.c.done()


Test(sys.argv[1]).all()
