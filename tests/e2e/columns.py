#!/usr/bin/env python3
"""Instances as columns: unpacked by the rules of schema/openapi.json they are what the rows say, and 10,000 of
them are no more bytes than a page is to load. usage: columns.py BUILD"""
import random
import sqlite3
import sys

from api_lib import Checks, Host

MOST_BYTES = 132000
LETTERS = {"s": "succeeded", "f": "failed", "t": "timed_out", "l": "lost", "u": "stop_unproven", "c": "cancelled", "k": "skipped",
           "p": "upstream_failed", "r": "running", "a": "starting", "o": "stopping", "y": "retrying", "e": "ready", "w": "waiting"}
WIDE = """name: wide
nodes: [{name: n1}, {name: n2}, {name: n3}]
tasks:
  a: {on: all, run: "true"}
  b: {on: all, needs: [a], retry: {times: 1, delay: 10ms}, run: "test $FLOWRUN_NODE != n2"}
  c: {on: all, needs: [b], run: "true"}
"""


def flat(runs):
    return [value for value, times in zip(runs[::2], runs[1::2]) for _ in range(times)]


def time_of(packed, base):
    return 0 if packed == 0 else base + packed - (packed > 0)


def unpack(doc):
    """The columns as rows of (idx, key, hook, state, attempt_no, cause, code, reason, unreachable, started, ended)."""
    idx, at = [], 0
    for skipped in flat(doc["idx"]):
        idx.append(at + skipped)
        at = idx[-1] + 1
    started, last = [], doc["wall"]
    for packed in doc["started"]:
        started.append(time_of(packed, last))
        last = started[-1] or last
    ended = [time_of(packed, begin or doc["wall"]) for packed, begin in zip(doc["ended"], started)]
    keys = doc.get("key") or ["%s@%s" % (doc["tasks"][t], doc["nodes"][n]) for t, n in zip(flat(doc["task"]), doc["node"])]
    away = [time_of(packed, doc["wall"]) for packed in flat(doc["unreachable"])]
    states = [LETTERS[letter] for letter in doc["state"]]
    return list(zip(idx, keys, flat(doc["hook"]), states, flat(doc["attempt_no"]), flat(doc["cause"]), flat(doc["code"]),
                    flat(doc["reason"]), away, started, ended, strict=True))


def row_of(item):
    return tuple(item[name] for name in ("idx", "key", "hook", "state", "attempt_no", "cause", "code", "reason",
                                         "unreachable_wall", "started_wall", "ended_wall"))


def compare(h, c, run, query=""):
    """The columns' bytes."""
    rows = h.ask("GET", "/runs/%s/instances?form=rows%s" % (run, query)).json()["items"]
    answer = h.ask("GET", "/runs/%s/instances?form=columns%s" % (run, query))
    got, want = unpack(answer.json()), [row_of(item) for item in rows]
    c.check(got == want, "%d columns%s are not the %d rows: %s" % (len(got), query, len(want),
            [pair for pair in zip(got, want) if pair[0] != pair[1]][:2]))
    return len(answer.body), rows


def widen(path, run_id, tasks, nodes):
    """What a run of that many instances would have left: they begin and end at all times, some fail, one never began."""
    rng, wall, rows = random.Random(5), 1795000000000, []
    for t in range(tasks):
        for n in range(nodes):
            wall += rng.randrange(-40, 400)
            bad, none = rng.random() < 0.01, t == tasks - 1
            rows.append((run_id, t * nodes + n, "task%d@node%d" % (t, n), "task%d" % t, "node%d" % n, "",
                         "upstream_failed" if none else "failed" if bad else "succeeded", 0 if none else 1 + bad, "exit" if bad else "",
                         3 if bad else 0, "exit code 3" if bad else "", 0 if none else wall, wall + int(10 ** rng.uniform(0, 4.5))))
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM instance WHERE run = ?", (run_id,))
        names = [row[1] for row in db.execute("PRAGMA table_info(instance)")]
        given = ["run", "idx", "key", "task", "node", "hook", "state", "attempt_no", "cause", "code", "reason", "started_wall", "ended_wall"]
        blank = {"attempt_state": "", "stop_cause": "", "attempt": None}
        rest = [name for name in names if name not in given]
        db.executemany("INSERT INTO instance(%s) VALUES(%s)" % (", ".join(given + rest), ", ".join("?" * len(names))),
                       [row + tuple(blank.get(name, 0) for name in rest) for row in rows])
    db.close()


def main():
    c, h = Checks(), Host(sys.argv[1])
    try:
        with open(h.folder + "/wide.yaml", "w") as f:
            f.write(WIDE)
        h.run(h.folder + "/wide.yaml", ok=1)
        doc = h.until("/runs/1", lambda r: r["state"] == "over")
        rows = compare(h, c, 1)[1]
        states = ["succeeded"] * 4 + ["failed", "succeeded"] + ["upstream_failed"] * 3
        c.check([r["state"] for r in rows] == states, "the states: %s" % [r["state"] for r in rows])
        tries = rows[4].get("attempts", [])
        c.check([no for no, _ in tries] == [1, 2] and tries[1][1] == rows[4]["attempt"], "both attempts of b@n2: %s" % rows[4])
        c.check(not any("attempts" in r for r in rows[:4]), "one attempt needs no list")
        for query in ("&task=b", "&node=n3", "&state=failed", "&task=none"):
            compare(h, c, 1, query)
        widen(h.work + "/home/state.db", bytes.fromhex(doc["id"]), 1000, 10)
        n, rows = compare(h, c, 1)
        c.check(len(rows) == 10000, "there are %d" % len(rows))
        c.check(n <= MOST_BYTES, "10,000 instances are %d bytes, at most %d" % (n, MOST_BYTES))
        print("10,000 instances: %d bytes" % n)
    finally:
        h.end()
    c.done()


main()
