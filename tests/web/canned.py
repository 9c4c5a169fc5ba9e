#!/usr/bin/env python3
"""Pages of answers that stand here, at a clock that stands: every word of their tables, of their dialogs, and of what the mouse
and the keys do to pictures. usage: canned.py BUILD"""
import json

import bed
from bed import begin, check, clean_page, finish, log_in, page, same, serve
from canned_want import (KEPT_WANT, SIDE_WANT, NODES_WANT, QUEUE_WANT, SCHEDULES_WANT, FIRES_WANT, RUNS_WANT,
    SETTINGS_WANT, PIPELINES_WANT, PIPELINE_WANT, SPANS_WANT, EVENTS_WANT, CURVES_WANT, CSV_WANT, FACTS_WANT, FIT, TIPS,
    MENU, HEAD_WANT, SMOOTH_WANT, OTHER_WANT, SINCE_WANT, TIME_WANT, BARS_WANT)

NOW = 1750000000000  # 2025-06-15 15:06:40 UTC
MIN, HOUR, DAY = 60000, 3600000, 86400000

# Answers of the interface in place of the host's, by path with its query or without; what else is sent is kept in sent.
CANNED = """(() => {
    const answers = %s, real = window.fetch, got = Headers.prototype.get;
    window.sent = []; window.asked = [];
    Date.now = () => %d;
    Headers.prototype.get = function (name) { return name === 'Date' ? null : got.call(this, name); };
    window.fetch = async (what, options = {}) => {
        const path = String(what).split('/api/v1/')[1] || '', method = options.method || 'GET', doc = answers[`${method} ${path}`] ?? answers[path] ?? answers[path.split('?')[0]];
        if (path.startsWith('stream')) return new Promise(() => {});
        if (doc === undefined) return real(what, options);
        if (method !== 'GET') window.sent.push([method, path, options.body || '', options.headers['If-Match'] || '']);
        else window.asked.push(path);
        return new Response(typeof doc === 'string' ? doc : JSON.stringify(doc), {status: doc.status_code || 200, headers: {'Content-Type': 'application/json'}});
    };
})()"""
# What an element says: its text; <where> a link leads, {its title}, [how wide] a meter is, and its look. Times that count get the
# title with their zone once the page is at rest: it does not stand here.
SAY = """(() => { window.say = (el) => { const one = (n) => n.nodeType === 3 ? n.data : (n.getAttribute('href') ? `<${n.getAttribute('href')}>` : '')
    + (n.title && !/:\\d\\d [A-Z]\\S*$/.test(n.title) ? `{${n.title}}` : '') + (n.style.width ? `[${n.style.width}]` : '') + [...n.classList].filter((c) => /^(st-|high|warn|error|danger|primary)/.test(c)).map((c) => `(${c})`).join('')
    + (n.disabled ? '#' : '') + (n.tagName === 'INPUT' || n.tagName === 'SELECT' ? `_${n.value}_` : '') + [...n.childNodes].map(one).join(''); return one(el); }; })()"""


def rows(one, where="main"):
    """Each row of the tables, its cells joined."""
    return [r.replace(bed.url, "") for r in one.eval("[...document.querySelectorAll('%s tr')].map((r) => [...r.cells].map(say).join(' | '))" % where)]


def said(one, selector):
    return one.eval("say(document.querySelector(%s))" % json.dumps(selector))


def open_page(one, where, ready="document.querySelector('main h1') !== null && document.querySelector('main .empty, main tr, main h2') !== null"):
    one.go("about:blank")
    one.go(bed.url + where, ready)


def lines(what, got, want):
    for i in range(max(len(got), len(want))):
        same("%s, row %d" % (what, i), got[i] if i < len(got) else None, want[i] if i < len(want) else None)



def node(name, state, **more):
    return {"name": name, "state": state, "attempts": [], "home": "h", **more}


def attempt(no, state):
    return {"run": no, "instance": "fit@n%d" % no, "attempt": "a", "attempt_no": 1, "state": state}


GPU = {"index": 0, "name": "H100", "use": 91, "memory": 81920, "memory_used": 20480, "degrees": 61, "watts": 350}
def allocation(run, name, state, **more):
    return {"run": run, "name": name, "state": state, "places": name + "1", "job": 0, "cluster": "", "why": "", "hosts": "", "nodes": 1,
            "start_wall": 0, "estimate_wall": 0, "end_wall": 0, "time_ms": 12 * HOUR, **more}


# The copies of wide are elements of one array.
ALLOCATIONS = [
    allocation(41, "train", "up", places="train1 to train2", job=4711, cluster="hpc", hosts="nid1 nid2", nodes=2, start_wall=NOW - 3 * HOUR, end_wall=NOW + 9 * HOUR),
    allocation(42, "prep", "queued", job=4712, cluster="hpc", why="others come first (Priority)", estimate_wall=NOW + 90 * MIN),
    *[allocation(43, "wide", "queued" if copy > 2 else "up", places="wide%d" % copy, job=4713, cluster="hpc", hosts="" if copy > 2 else "nid%d" % copy,
                 why="nodes are busy (Resources)" if copy > 2 else "", start_wall=0 if copy > 2 else NOW - MIN) for copy in range(1, 7)],
    allocation(44, "next", "wanted", places="next1 to next4", nodes=4)]
NODES = {"allocations": ALLOCATIONS, "items": [
    node("n10", "unreachable", since_wall=NOW - 5 * MIN, how="ssh", wall_offset_ms=-1500, facts={"kernel": "6.1", "arch": "x86_64", "cpus": "8"},
         load={"cpu": 0.5, "load_1m": 4.25, "memory": 3 * 2 ** 30, "memory_bytes": 4 * 2 ** 30, "disk_free": 2 ** 40, "rx": 1536, "tx": 100},
         attempts=[attempt(no, "running") for no in range(1, 8)]),
    node("n2", "up", since_wall=NOW - 2 * DAY, wall_offset_ms=20, facts={"kernel": "6.8", "arch": "x86_64", "cpus": "64"},
         load={"cpu": 0.95, "load_1m": 60, "memory": 1, "memory_bytes": 0, "disk_free": 0, "rx": None, "tx": None}, gpus=[GPU, {
             **GPU, "index": 1, "use": None, "memory": 0, "degrees": None, "watts": None}, {**GPU, "index": 2, "use": 90, "memory_used": 81920}],
         attempts=[attempt(3, "stopping")], drained={"since_wall": NOW - 90 * MIN, "note": "a disk", "who": "uid 0"}),
    node("n3", "seen", seen_wall=NOW - 3 * HOUR, facts={"kernel": "6.8", "cpus": "64"}),
    node("old", "unknown", seen_wall=NOW - 3 * HOUR, load={"cpu": 0.07, "load_1m": 1, "memory": 0, "memory_bytes": 0, "disk_free": 0})]}


def nodes(one):
    open_page(one, "nodes")
    lines("nodes", rows(one), NODES_WANT)
    asks(one, "Drain …", "Drain n3", "Nothing new starts there. 0 tasks of now go on.")
    asks(one, "Take in …", "Take n2 in again", "Tasks start there again.")


QUEUED = {"no": 12, "pipeline": "later", "priority": -1, "queued_wall": NOW - 30000, "why_waiting": ""}
QUEUE = {"items": [{"no": 13, "pipeline": "first", "priority": 10, "queued_wall": NOW - 2 * HOUR, "why_waiting": "max_active_runs 1 of 1"}, QUEUED],
         "tasks": [{"run": 3, "key": "fit@n1", "why_waiting": "a slot on n1"}, {"run": 4, "key": "fit@n2", "why_waiting": ""}]}
POOLS = {"items": [{"name": "gpus", "limit": 8, "used": 3, "runs": [3, 41], "waiting": 2}, {"name": "free", "limit": 1, "used": 0, "runs": [], "waiting": 0}]}


def queue(one):
    open_page(one, "queue")
    lines("the queue", rows(one), QUEUE_WANT)
    same("its title", one.eval("document.title"), "Queue (2) · flowrun")
    asks(one, "Priority …", "Priority of run 13", "In the queue the larger goes first, then the smaller number. The largest is 10 now.")


def refused(one):
    """What the host refuses is said where it was asked for, each mistake on a line; it may be tried again, or left."""
    open_page(one, "schedules")
    one.eval("[...document.querySelectorAll('button')].filter((b) => b.textContent === 'Run now').at(-1).click()")
    one.press("Start")
    one.wait("document.querySelector('dialog .error:not([hidden])') !== null", what="why not")
    same("why not", one.eval("[...document.querySelectorAll('dialog .error > *')].map((e) => e.textContent)"), ["r.yaml has 3 mistakes", "r.yaml:3:7 no such key", "r.yaml:9 twice", " odd"])
    same("its button", one.eval("document.querySelector('dialog [type=submit]').disabled"), False)
    one.key("Escape")
    one.wait("document.querySelector('dialog') === null", what="no dialog")
    same("what was sent", one.eval("sent.splice(0)"), [["POST", "schedules/10/run", "{}", ""]])
    same("and nothing is said of it", one.eval("document.querySelectorAll('.toast').length"), 0)
    one.errors.clear()  # the 422


DAY_MS = 1750000000000 - 54400000  # 2025-06-15 00:00 UTC
SCHEDULES = {"items": [
    {"id": 7, "etag": '"7-1"', "pipeline": "p/1", "name": "nightly", "rule": "30 2 * * *", "state": "active", "zone": "Asia/Tokyo", "error": "", "gone_wall": 0,
     "next": [{"at_ms": NOW + 5 * HOUR}, {"at_ms": NOW + 29 * HOUR}]},
    {"id": 8, "etag": '"8-1"', "pipeline": "q", "name": "hourly", "rule": "@hourly", "state": "paused", "state_wall": NOW - 4 * DAY, "note": "moving", "zone": "UTC",
     "error": "", "gone_wall": 0, "next": []},
    {"id": 9, "etag": '"9-1"', "pipeline": "q", "name": "gone", "rule": "@daily", "state": "active", "gone_wall": NOW - 1, "zone": "UTC", "error": "line 3: no such day"},
    {"id": 10, "etag": '"10-1"', "pipeline": "r", "name": "due", "rule": "@daily", "state": "active", "gone_wall": 0, "zone": "UTC", "error": "", "due_wall": NOW + 61 * MIN}]}
FIRES = {"items": [
    {"at_ms": NOW - HOUR, "count": 1, "decision": "ran", "run": 41, "outcome": "failed", "decided_wall": NOW - HOUR + 1000, "note": ""},
    {"at_ms": NOW - 2 * HOUR, "count": 3, "decision": "missed", "run": 0, "outcome": "", "decided_wall": NOW - 30 * MIN, "note": "nobody was there"}]
    + [{"at_ms": NOW - DAY, "count": 1, "decision": d, "run": 0, "outcome": "", "decided_wall": NOW, "note": ""} for d in
       ("skipped", "dropped", "superseded", "paused", "invalid", "due")]}
BACKFILLS = {"items": [
    {"id": 1, "schedule": 7, "from_ms": DAY_MS - DAY, "to_ms": DAY_MS, "made": 3, "total": 12, "state": "active", "note": ""},
    {"id": 2, "schedule": 7, "from_ms": DAY_MS - DAY, "to_ms": DAY_MS, "made": 12, "total": 12, "state": "paused", "note": "too many failed"},
    {"id": 3, "schedule": 8, "from_ms": DAY_MS - DAY, "to_ms": DAY_MS, "made": 0, "total": 0, "state": "over", "note": ""}]}


def schedules(one):
    open_page(one, "schedules")
    lines("schedules", rows(one), SCHEDULES_WANT)
    one.press("Decisions")
    one.wait("document.querySelector('dialog table') !== null", what="what became of its times")
    lines("decided times", rows(one, "dialog"), FIRES_WANT)
    one.click("dialog .titlebar button")
    one.wait("document.querySelector('dialog') === null", what="its end")
    act(one, "Run now", "Start", ["POST", "schedules/7/run", "{}", ""], "Run 77 was made")
    act(one, "Pause", "Pause", ["PUT", "schedules/7", '{"paused":true,"note":""}', '"7-1"'])
    one.press("Resume")
    one.eval("document.querySelector('dialog').dispatchEvent(new MouseEvent('click'))")  # beside it
    one.wait("document.querySelector('dialog') === null", what="no dialog")
    one.press("Resume")
    one.click("dialog input[type=checkbox]")
    act(one, None, "Resume", ["PUT", "schedules/8", '{"paused":false,"catchup":true}', '"8-1"'])


RUN = {"no": 41, "id": "x", "pipeline": "p/1", "file": "", "state": "over", "outcome": "succeeded", "reason": "", "driven": True, "origin": "cli", "who": "", "priority": 0,
       "pinned": False, "queued_wall": NOW - 3 * HOUR, "started_wall": NOW - 2 * HOUR, "ended_wall": NOW - HOUR, "retry_of": 0, "rerun_wall": 0, "counts": None,
       "median_ms": 0, "seq": 9}
RUNS = [
    {**RUN, "counts": {"succeeded": 2, "failed": 1, "waiting": 1}, "median_ms": 39 * MIN, "who": "ann", "file": "/x/p.yaml", "reason": "one task failed", "outcome": "failed"},
    {**RUN, "no": 40, "pinned": True, "median_ms": HOUR, "origin": "schedule"},
    {**RUN, "no": 39, "median_ms": 2 * HOUR, "outcome": "cancelled"},
    {**RUN, "no": 12, "state": "queued", "outcome": "", "started_wall": 0, "ended_wall": 0, "queued_wall": NOW - 30000, "reason": "no", "pipeline": "later"},
    {**RUN, "no": 11, "state": "running", "outcome": "", "started_wall": NOW - 61000, "ended_wall": 0, "median_ms": 61000},
    {**RUN, "no": 10, "state": "hooks", "outcome": "", "ended_wall": 0}]


def runs(one):
    open_page(one, "runs", "document.querySelectorAll('tr.row').length === 6")
    lines("runs", rows(one), RUNS_WANT)
    same("how they look", one.eval("[...document.querySelectorAll('tr.row')].map((r) => r.className)"),
         ["row st-ready live", "row st-running live", "row st-running live", "row st-failed", "row st-succeeded", "row st-cancelled"])
    same("its title", one.eval("document.title"), "Runs (3 live) · flowrun")
    same("a bar of counts", one.eval("[...document.querySelectorAll('.part')].map((p) => [p.className, p.style.flexGrow])"),
         [["part st-succeeded", "0.5"], ["part st-failed", "0.25"], ["part st-waiting", "0.25"]])
    one.click(".row[data-no='40'] td.reason")
    one.wait("location.pathname.endsWith('/runs/40')", what="a run's page by a click into its row")
    open_page(one, "runs?schedule=7&q=x", "document.querySelectorAll('tr.row').length === 6")
    same("of which schedule", said(one, ".head a.button"), "<runs>{All runs}of schedule 7 ×")
    one.eval("(() => { const s = document.querySelector('[aria-label=Origin]'); s.value = 'retry'; s.dispatchEvent(new Event('change')); })()")
    one.wait("asked.some((path) => path.includes('retry'))", what="these runs")
    same("what is asked for", one.eval("[location.search, ...asked.filter((path) => path.includes('retry'))]"),
         ["?schedule=7&q=x&origin=retry", "runs?origin=retry&schedule=7&q=x", "runs?state=live&origin=retry&schedule=7&q=x&limit=200"])


SETTINGS = {
    "host": {"version": "1.2", "epoch": 4, "runs": 2, "turns": 12345, "slow_turns": 3, "longest_ms": 1234, "held_by": "a sweep"},
    "tokens": {"items": [{"name": "ci", "role": "operate", "ends_wall": NOW + 3 * DAY, "used_wall": 0},
                         {"name": "a b", "role": "view", "ends_wall": NOW - DAY, "used_wall": NOW - MIN}]},
    "audit": {"items": [{"wall": NOW - 5000, "what": "asked", "name": "POST /api/v1/runs", "outcome": "201", "who": "ci", "address": "10.0.0.7"},
                        {"wall": NOW - MIN, "what": "cancel", "name": "run 3", "outcome": "", "who": "uid 0", "address": ""}]},
    "channels": {"items": [{"name": "pager", "kind": "command", "off": ""}, {"name": "mail", "kind": "smtp", "off": "no secret"}],
                 "rules": [{"on": ["failed", "succeeded"], "pipelines": ["p*"], "to": ["pager"], "throttle_ms": 60000, "quiet": [1320, 425]},
                           {"on": ["failed"], "pipelines": [], "to": ["mail", "pager"], "throttle_ms": 0, "quiet": None}]},
    "deliveries": {"items": [{"id": i, "channel": "pager", "kind": "failed", "run": 40 + i if i else 0, "pipeline": "p", "state": state, "made_wall": NOW - i * HOUR - 1000,
                              "due_wall": NOW + 10 * MIN, "tries": i % 3, "answer": "said %d" % i}
                             for i, state in enumerate(("waiting", "waiting", "sent", "dead", "held", "quiet"))]}}


def settings(one):
    open_page(one, "settings", "document.querySelector('.deliveries') !== null && document.querySelectorAll('h2').length === 5")
    lines("settings", rows(one), SETTINGS_WANT)
    same("facts", [said(one, "main section dl"), said(one, "main .columns .block dl")], FACTS_WANT)
    same("over its times", one.eval("[document.querySelector('td[title]').title, document.querySelector('.deliveries td[title]').title]"),
         ["2025-06-18 15:06:40", "2025-06-15 15:06:39"])
    act(one, "Remove …", "Remove", ["DELETE", "tokens/ci", "{}", ""])
    act(one, "Send again", "Send", ["POST", "deliveries/2/again", "{}", ""])
    act(one, "Send a test", "Send", ["POST", "deliveries", '{"channel":"pager"}', ""])
    one.press("New token")
    one.wait("document.querySelector('dialog [name=days]') !== null", what="its fields")
    same("its roles", one.eval("[...document.querySelectorAll('dialog option')].map((o) => o.value + ' ' + o.textContent)"),
         ["view view: sees all but secrets", "operate operate: starts and stops runs", "admin admin: also tokens, nodes, removal"])
    one.eval("(() => { const [name, role, days] = document.querySelectorAll('dialog [name]'); name.value = 'x'; role.value = 'admin'; days.value = '3'; })()")
    act(one, None, "Make it", ["POST", "tokens", '{"name":"x","role":"admin","days":3}', ""])
    one.wait("document.querySelector('dialog .secret') !== null", what="the token")
    same("the token", said(one, "dialog .body"), "It is shown once. Only its hash is kept.frt_x")
    one.key("Escape")


PIPELINES = {"items": [{"name": "q", "file": "/s/q.yaml", "schedules": 2, "last": None}, {"name": "p/1", "file": "/s/p.yaml", "schedules": 1, "last": RUNS[0]},
                       {"name": "alone", "file": "", "schedules": 0, "last": RUNS[3]}]}


def pipelines(one):
    open_page(one, "pipelines", "document.querySelectorAll('tr.row').length === 3")
    lines("pipelines", rows(one), PIPELINES_WANT)
    one.eval("(() => { const f = document.querySelector('[data-find]'); f.value = ' P/ '; f.dispatchEvent(new Event('input')); })()")
    same("those found", one.eval("[...document.querySelectorAll('tr.row')].map((r) => r.dataset.to)"), ["pipelines/p%2F1"])
    one.click("tr.row td.wide")
    one.wait("location.pathname.endsWith('/pipelines/p%2F1')", what="a pipeline by a click into its row")


T0 = NOW - 2 * HOUR  # when run 90 began
ONE = {**RUN, "no": 90, "pipeline": "p/1", "outcome": "failed", "ended_wall": T0 + 34000, "rerun_wall": NOW + HOUR, "retry_of": 41, "who": "ann", "reason": "fit failed"}
LIVE = {**RUN, "no": 91, "state": "running", "outcome": "", "ended_wall": 0, "driven": False, "pinned": True}


def packed(times, base, chained):
    """Times as the interface packs them: to the one before, or to base."""
    out, last = [], base
    for t in times:
        out.append(0 if t == 0 else t - last + (t >= last))
        last = t if t and chained else last
    return out


def columns(states, started, ended, attempts, causes):
    """Of prep@n1, fit@n1, fit@n2, last@n1 and the hook bye@n3."""
    base = NOW - 3 * HOUR
    return {"seq": 9, "wall": base, "tasks": ["prep", "fit", "last", "bye"], "nodes": ["n1", "n2", "n3"], "idx": [0, 5], "task": [0, 1, 1, 2, 2, 1, 3, 1],
            "node": [0, 0, 1, 0, 2], "state": states, "attempt_no": [x for n in attempts for x in (n, 1)], "cause": [x for c in causes for x in (c, 1)],
            "code": [0, 1, 3, 1, 0, 3], "reason": ["", 5], "unreachable": [0, 5], "due": [0, 5], "started": packed(started, base, True),
            "ended": [0 if e == 0 else e - s + 1 for s, e in zip(started, ended)]}


def event(ms, idx, kind, attempt_no=1, **more):
    return {"wall": T0 + ms, "idx": idx, "kind": kind, "attempt_no": attempt_no, "cause": "", "code": 0, "text": "", **more}


EVENTS = [
    event(0, 0, "ready"), event(1000, 0, "starting"), event(2000, 0, "running"), event(12000, 0, "succeeded", cause="exit"),
    event(12000, 1, "ready"), event(12000, 2, "ready"), event(13000, 1, "starting"), event(13000, 2, "starting"), event(14000, 1, "running"),
    event(14500, 2, "running"), event(20000, 1, "retrying", cause="timeout", delay_ms=5000), event(20000, 2, "retrying", cause="gang_peer"),
    event(25000, 1, "ready", 2), event(25250, 2, "ready", 2), event(25500, 1, "starting", 2), event(25500, 2, "starting", 2), event(26000, 1, "running", 2), event(26500, 2, "running", 2),
    event(28000, 1, "unreachable", 2), event(29000, 1, "reachable", 2), event(30000, 1, "stopping", 2, cause="signal", code=9),
    event(32000, 1, "failed", 2, cause="exit", code=3, text="\033[31mexit code 3"), event(32500, 2, "failed", 2, cause="gang_peer"), event(32500, 3, "upstream_failed"),
    event(33000, 4, "starting"), event(33100, 4, "running"), event(34000, 4, "succeeded"), event(34000, -1, "run_over", text="fit failed")]
DEEDS = {"items": [{"wall": T0 - 1000, "what": "asked", "name": "POST /api/v1/runs", "outcome": "201", "who": "ann", "address": "10.0.0.7"},
                   {"wall": T0 + 35000, "what": "asked", "name": "POST /api/v1/runs/90/retry", "outcome": "409", "who": "bob", "address": ""}]}
GRAPH = {"width": 600, "height": 200, "layers": 3, "hooks": 1, "boxes": [{"tasks": [i], "x": 20 + 150 * i, "y": 40, "w": 120} for i in range(4)],
         "edges": [{"from": 0, "to": 1, "critical": True, "points": [140, 60, 170, 60]}, {"from": 1, "to": 2, "critical": True, "points": [290, 60, 320, 60]}],
         "tasks": [{"name": n, "hook": "on_exit" if n == "bye" else "", "gang": n == "fit", "first": f, "count": c, "needs": needs, "critical": False, "help": ""}
                   for n, f, c, needs in (("prep", 0, 1, []), ("fit", 1, 2, [0]), ("last", 3, 1, [1]), ("bye", 4, 1, []))]}
GRAPH["tasks"][2].update(run_if="any", rules=[{"need": 1, "states": ["succeeded", "skipped"], "skip_with": True}])
PARAMS = {"items": [{"name": "lr", "type": "float", "value": 0.5, "default": 0.1, "from": "given", "help": "how fast"},
                    {"name": "mode", "type": "string", "value": "b", "default": "a", "choices": ["a", "b"], "from": "given"},
                    {"name": "dry", "type": "bool", "value": False, "default": False, "from": "default"}, {"name": "key", "secret": True, "from": "default"}]}


def mouse(one, kind, x, y, buttons=0, **more):
    one.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left" if kind in ("mousePressed", "mouseReleased") else "none",
                                          "buttons": buttons, "clickCount": 1, **more})


def drag(one, x, y, to_x, to_y):
    mouse(one, "mouseMoved", x, y)
    mouse(one, "mousePressed", x, y, 1)
    mouse(one, "mouseMoved", (x + to_x) / 2, (y + to_y) / 2, 1)
    mouse(one, "mouseMoved", to_x, to_y, 1)
    mouse(one, "mouseReleased", to_x, to_y)


def double(one, x, y):
    for n in (1, 2):
        mouse(one, "mousePressed", x, y, 1, clickCount=n)
        mouse(one, "mouseReleased", x, y, clickCount=n)


def wheel(one, x, y, by, modifiers=2):
    mouse(one, "mouseWheel", x, y, deltaX=0, deltaY=by, modifiers=modifiers)


def frames(one):
    one.eval("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


def place_of(one, selector):
    one.eval("document.querySelector(%s).scrollIntoView({block: 'center'})" % json.dumps(selector))
    return one.eval("(() => { const r = document.querySelector(%s).getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()" % json.dumps(selector))


def timeline(one):
    says = "document.querySelector('.timeline .bar-row .dim').textContent"
    whole = "6 attempts in 34s; outlined: the chain that decided the end"
    part = lambda took: "6 attempts in %s; outlined: the chain that decided the end" % took
    shows = lambda what: one.wait("%s === %s" % (says, json.dumps(what)), what=what)
    open_page(one, "runs/90?tab=timeline", "document.querySelector('.timeline .dim')?.textContent.startsWith('6 attempts in 34s; outlined')")
    left, top, width, _ = place_of(one, ".chartbox canvas")
    y = lambda row: top + 26 + 22 * row + 11
    x = lambda ms, a=0, b=34000: left + 190 + (ms - a) / (b - a) * (width - 202)

    def tip(ms, row, want, *view):
        mouse(one, "mouseMoved", x(ms, *view), y(row))
        frames(one)
        tips = "(() => { const t = document.querySelector('.timeline .tip'); return t.hidden ? '' : [...t.childNodes].map((n) => n.textContent).join('; '); })()"
        same("the tip at %d in row %d" % (ms, row), one.eval(tips), want)

    for ms, row, want in TIPS:
        tip(ms, row, want)
    one.key("t")
    lines("the timeline as a table", rows(one, ".timeline"), SPANS_WANT)
    same("the button says so", one.eval("[...document.querySelectorAll('.timeline button')].find((b) => b.textContent === 'Table').getAttribute('aria-pressed')"), "true")
    one.press("Table")
    frames(one)
    one.key("+")
    shows(part("23s"))
    tip(17000, 2, TIPS[2][2], 5100, 28900)
    one.key("-")
    shows(part("33s"))
    one.key("0")
    shows(whole)
    one.click("[aria-label=Larger]")
    shows(part("23s"))
    one.click("[aria-label=Smaller]")
    shows(part("33s"))
    one.press("Fit")
    shows(whole)
    wheel(one, x(6000), y(1), 120, 0)
    wheel(one, x(6000), y(1), -120)
    shows(part("25s"))  # 34 s by e^-0.3
    tip(6000, 1, TIPS[0][2], 6000 - 6000 * 0.7408, 6000 + 28000 * 0.7408)
    drag(one, x(10000), top + 10, x(20000), top + 10)
    frames(one)
    double(one, x(17000), y(6))
    shows(whole)
    drag(one, x(20000), top + 10, x(10000), top + 10)
    one.wait("/^6 attempts in (10|9.9|10.0)s;/.test(%s)" % says, what="ten seconds")  # by the pixel
    tip(16000, 2, TIPS[2][2], 10000, 20000)
    drag(one, x(12000, 10000, 20000), y(6), x(16000, 10000, 20000), y(6))
    tip(6500, 1, TIPS[0][2], 6000, 16000)
    mouse(one, "mouseMoved", 2, 2)
    frames(one)
    same("no tip beside it", one.eval("document.querySelector('.timeline .tip').hidden"), True)
    mouse(one, "mousePressed", x(15000, 6000, 16000), y(4), 1)
    mouse(one, "mouseReleased", x(15000, 6000, 16000), y(4))
    one.wait("location.search === '?tab=logs&i=fit%40n2&a=1'", what="the log of the bar")


def story(one):
    open_page(one, "runs/90?tab=events", "document.querySelectorAll('.events tbody tr').length === 30")
    lines("events", rows(one, ".events"), EVENTS_WANT)
    one.eval("(() => { const f = document.querySelector('[data-find]'); f.value = ' FIT@n2 '; f.dispatchEvent(new Event('input')); })()")
    same("those of one", one.eval("[...document.querySelectorAll('.events tbody tr')].map((r) => r.cells[0].textContent + r.cells[1].textContent)"),
         ["13:07:12.500+6.0s", "13:07:06.500+1.0s", "13:07:05.500+250ms", "13:07:05.250+5.3s", "13:07:00.000+5.5s", "13:06:54.500+1.5s", "13:06:53.000+1.0s", "13:06:52.000"])
    same("in the address", one.eval("location.search"), "?tab=events&task=FIT@n2")


def deeds(one):
    """What the menu of a run does."""
    open_page(one, "runs/90", "document.querySelector('.box') !== null")
    same("its head", said(one, ".runhead"), HEAD_WANT[0])
    for no, node, code in ((93, 2, 0), (90, 1, 3)):  # that of n2 came first, or because of that of n1
        open_page(one, "runs/%d" % no, "document.querySelector('.failure h2') !== null && document.querySelector('.box') !== null")
        same("what failed first", said(one, ".failure"), "(st-failed)✗failed <runs/%d?tab=logs&i=fit%%40n%d>fit on n%d"
             "{the command ended with another status than 0}exit code %d attempt 21h ago" % (no, node, node, code))
    chosen = "(() => { const s = document.querySelector('dialog select'), d = document.querySelector('dialog p.dim'); return [...s.options].map((o) => { s.value = o.value;" \
             " s.dispatchEvent(new Event('change')); return d.textContent; }); })()"
    one.key(".")
    one.press("Retry from a task")
    one.wait("document.querySelector('dialog select') !== null", what="its tasks")
    same("what each repeats", one.eval(chosen), ["Repeats 3 tasks: prep, fit, last.", "Repeats 2 tasks: fit, last.", "Repeats last and what needs it.",
                                                 "Repeats bye and what needs it."])
    one.eval("document.querySelector('dialog select').value = 'fit'")
    act(one, None, "Retry", ["POST", "runs/90/retry", '{"from":"fit"}', ""])
    one.key(".")
    one.press("Keep this run")
    one.wait("sent.length > 0", what="a pin")
    same("what is sent", one.eval("sent.splice(0)"), [["POST", "runs/90/pin", '{"pinned":true}', ""]])
    one.wait("document.querySelector('.toast span')?.textContent === 'Run 90 is kept'", what="what it says")
    one.key(".")
    one.press("Run again")
    one.wait("document.querySelector('dialog [name=lr]') !== null", what="its parameters")
    same("its fields", said(one, "dialog .fields"), "lr float_0.5_how fastmode string_b_abdry bool_false_truefalse")
    one.eval("document.querySelector('dialog [name=dry]').value = 'true'")
    act(one, None, "Start", ["POST", "runs/90/rerun", '{"params":{"dry":"true"}}', ""])
    open_page(one, "runs/91", "document.querySelector('.box') !== null")
    same("the head of one that is parked", said(one, ".runhead"), HEAD_WANT[1])
    act(one, "Resume", "Resume", ["POST", "runs/91/resume", "{}", ""])
    asks(one, "Cancel", "Cancel run 91", "Stops 2 tasks on 2 nodes. fit@n1 has run 1h 58m.")
    one.key(".")
    same("what may be done to it", said(one, "main .menu"), MENU)
    one.key("Escape")
    open_page(one, "runs/90", "document.querySelector('.box') !== null")
    one.key(".")
    one.press("Remove")
    act(one, None, "Remove", ["DELETE", "runs/90", "{}", ""])
    one.wait("location.pathname.endsWith('/runs')", what="the list")


ARTIFACTS = {"items": [{"path": "out/a.txt", "bytes": 1536, "sha256": "ab" * 32}, {"path": "big.bin", "bytes": (256 << 10) + 1, "sha256": "cd" * 32},
                       {"path": "big.PNG", "bytes": 300 << 10, "sha256": "ef" * 32}, {"path": "nul", "bytes": 256 << 10, "sha256": "01" * 32}]}
OUTPUTS = {"items": [{"key": "prep@n1", "name": "k", "value": "v"}, {"key": "fit@n1", "name": "_result", "value": "{}"}, {"key": "last@n1", "name": "z", "value": "\u202e9"}]}


def starting(one):
    """When a task starts: what it asks of all that it needs, and of one."""
    open_page(one, "runs/90?task=last", "document.querySelector('.side dl') !== null")
    same("when it starts", one.eval("document.querySelector('.side dl.facts').textContent"), "needsfit (succeeded, skipped; skip_with)startsif one of these succeeded")


def kept(one):
    """Values, those of the last tasks first, and files, of which some are shown."""
    open_page(one, "runs/90?tab=artifacts", "document.querySelectorAll('.panel table').length === 3")
    lines("values and files", rows(one, ".panel"), KEPT_WANT)
    same("what is shown", one.eval("[...document.querySelectorAll('.panel button')].map((b) => b.ariaLabel)"), ["Show out/a.txt", "Show big.PNG", "Show nul"])
    same("as what it is kept", one.eval("[...document.querySelectorAll('a[download]')].map((a) => a.download)"), ["a.txt", "big.bin", "big.PNG", "nul"])
    one.eval("[...document.querySelectorAll('.panel button')].at(-1).click()")
    one.wait("document.querySelector('dialog')?.textContent.includes('This is no text: download it')", what="a file that is no text")
    one.key("Escape")


def walked(one):
    """The boxes of a graph by arrow keys; the one under the mouse lights what it needs and what needs it."""
    open_page(one, "runs/90", "document.querySelectorAll('.box').length === 4")
    at = "document.activeElement.ariaLabel?.split(':')[0]"
    lit = "[...document.querySelectorAll('.box.lit')].map((b) => b.getAttribute('aria-label').split(':')[0])"
    one.eval("document.querySelector('.box').focus()")
    for key, want in (("ArrowRight", "fit"), ("ArrowRight", "last"), ("ArrowRight", "last"), ("ArrowLeft", "fit"), ("ArrowUp", "fit"), ("ArrowLeft", "prep"), ("ArrowDown", "prep")):
        one.key(key)
        same("the box by " + key, one.eval(at), want)
    for b, want in ((1, ["prep", "fit", "last"]), (3, ["bye"]), (None, [])):
        x, y = (2, 300) if b is None else one.eval("(() => { const r = document.querySelectorAll('.box')[%d].getBoundingClientRect(); return [r.x + 40, r.y + 9]; })()" % b)
        mouse(one, "mouseMoved", x, y)
        one.wait("JSON.stringify(document.querySelector('.lighting') ? %s : []) === JSON.stringify(%s)" % (lit, json.dumps(want)), what="what is lit: %s" % want)
    one.eval("document.querySelectorAll('.box')[3].focus()")
    one.key("Enter")
    one.wait("document.querySelector('.side h3')?.textContent === 'bye'", what="its pane")
    same("what it says", said(one, ".side"), SIDE_WANT)
    one.click(".closer")
    one.wait("document.querySelector('.side').hidden", what="no pane")


def picture(one):
    """The graph, larger and smaller, by all that does that."""
    at = "document.querySelector('svg g[transform*=scale]').getAttribute('transform').match(/-?\\d[\\d.e-]*/g).map(Number)"
    open_page(one, "runs/90", "document.querySelector('.box') !== null")
    frames(one)
    left, top, width, height = place_of(one, "svg:has(.box)")
    first = before = one.eval(at)

    def zoomed(what, factor, cx, cy):
        nonlocal before
        frames(one)
        (x, y, k), now = before, one.eval(at)
        to = min(3, max(0.15, k * factor))
        want = [cx - (cx - x) * to / k, cy - (cy - y) * to / k, to]
        check("%s: %s, expected %s" % (what, now, want), all(abs(a - b) < 1.5 for a, b in zip(now, want)) and abs(now[2] - to) < 0.01)
        before = now

    for key, factor in (("+", 1.25), ("-", 0.8)):
        one.key(key)
        zoomed("the key " + key, factor, width / 2, height / 2)
    wheel(one, left + 200, top + 50, -100)
    zoomed("the wheel", 1.2840, 200, 50)
    wheel(one, left + 100, top + 90, 400)
    zoomed("the wheel back", 0.3679, 100, 90)
    one.click("[aria-label=Larger]")
    zoomed("the button", 1.25, width / 2, height / 2)
    one.click("[aria-label=Smaller]")
    zoomed("the other button", 0.8, width / 2, height / 2)
    drag(one, left + 10, top + height - 10, left + 70, top + height - 40)
    x, y, k = one.eval(at)
    check("dragged: %s" % [x, y, before], abs(x - before[0] - 60) < 1.5 and abs(y - before[1] + 30) < 1.5 and k == before[2])
    one.press("Fit")
    same("all of it", one.eval(at), first)



def series(key, part, x, y, lost=False):
    return {"key": key, "part": part, "lost": lost, "x": x, "y": y}


HEAD = {"step": 1000, "total": 2000, "loss": 1, "loss_smooth": 1.25, "rate": 15000, "rate_median": 14800, "eta_s": 90, "epoch": 0.5, "elapsed_s": 34, "checkpoint": 900,
        "checkpoint_age_s": 30, "wall": NOW - 20000, "bad_since": None}
PARTS = [{"instance": "fit@n1", "node": "n1", "attempt_no": no, "started_wall": T0 + 20000 * (no - 1)} for no in (1, 2)]
CURVES = {"parts": PARTS, "head": HEAD, "series": [
    series("loss", 0, [0, 250, 500], [4, 3, 2]), series("loss", 0, [510, 600], [2, 9], True), series("loss", 1, [500, 750, 1000], [2, None, 1]),
    series("eval_loss", 1, [500, 1000], [2.5, 1.5]), series("lr", 0, [0, 1000], [0.001, 0.0001]), series("step", 0, [0, 1000], [0, 1000]),
    series("acc", 1, [500, 1000], [0.25, 12345])]}
SAMPLES = {"t": [T0, T0 + 500000], "gpu": [0.5, None], "gpu_memory": [2 ** 30, 2 ** 31], "cpu": [0.1, 0.25], "memory": [3 * 2 ** 30, 2 ** 32], "rx": [1e6, 2e6], "tx": [5e5, 0]}


def curves(one):
    lasts = "[...document.querySelectorAll('.chart')].map((c) => c.querySelector('h3').textContent + ': ' + c.querySelector('.last').textContent)"
    shows = lambda what, want: one.wait("JSON.stringify(%s) === JSON.stringify(%s)" % (lasts, json.dumps(want)), what="%s: %s" % (what, want))
    press = lambda label, value, kind: one.eval("(() => { const f = document.querySelector('[aria-label=\"%s\"]'); f.value = '%s'; f.dispatchEvent(new Event('%s')); })()"
                                                % (label, value, kind))
    open_page(one, "runs/90?tab=metrics", "document.querySelectorAll('.chart').length === 3")
    same("its head", one.eval("[...document.querySelectorAll('.headline > div')].map((d) => d.innerText.replace(/\\s+/g, ' '))"),
         ["step 1,000 of 2,000", "loss 1.25 smoothed, 1 last", "tokens/s 15k median 14.8k", "epoch 0.5", "checkpoint 900", "trained 34s"])
    press("Smoothing", "0", "input")
    shows("the last values", ["loss: loss 1  eval_loss 1.5", "lr: 1.00e−4", "acc: 12.35k"])
    same("for who does not see", one.eval("[...document.querySelectorAll('.chart canvas')].map((c) => c.ariaLabel)"),
         ["loss: loss 1, eval_loss 1.5", "lr: lr 1.00e−4", "acc: acc 12.35k"])
    left, top, width, height = place_of(one, ".chart canvas")
    x = lambda step, a=0, b=1000: left + 52 + (step - a) / (b - a) * (width - 60)
    mouse(one, "mouseMoved", x(260), top + 80)
    one.wait("/@ 2(59|60|61)$/.test(document.querySelector('.chart .last').textContent)", what="where the mouse is")
    same("there", [t.split(" @")[0] for t in one.eval(lasts)], ["loss: loss 3  eval_loss 2.5", "lr: 0.001", "acc: 0.25"])
    mouse(one, "mouseMoved", left + 20, 2)
    shows("the last ones again", ["loss: loss 1  eval_loss 1.5", "lr: 1.00e−4", "acc: 12.35k"])
    press("Smoothing", "0.81", "input")
    shows("smoothed", ["loss: loss 1  eval_loss 1.5", "lr: 1.00e−4", "acc: 12.35k"])
    same("it is said and kept", one.eval("[document.querySelector('.inline .num').textContent, localStorage.getItem('flowrun.smooth')]"), ["0.81", "0.81"])
    press("Smoothing", "0.99", "input")
    shows("smoother", SMOOTH_WANT)
    press("Smoothing", "0", "input")
    one.eval("window.asked = []")
    drag(one, x(750), top + 60, x(250), top + 60)
    asked = one.wait("asked.find((path) => path.startsWith('runs/90/metrics'))", what="what is asked for")
    at = dict(v.split("=") for v in asked.split("?")[1].split("&"))
    check("from where to where: %s" % asked, at["x"] == "step" and at["width"] == "1000" and abs(float(at["from"]) - 250) < 3 and abs(float(at["to"]) - 750) < 3)
    one.key("t")
    one.wait("document.querySelectorAll('.panel tbody tr').length > 0", what="a table")
    lines("a part as a table", rows(one, ".panel"), CURVES_WANT[0])
    for how in (lambda: one.press("Fit"), lambda: one.key("0"), lambda: double(one, left + 200, place_of(one, ".chart canvas")[1] + 60)):
        one.eval("window.asked = []; document.querySelector('.panel table')?.checkVisibility() && [...document.querySelectorAll('button')].find((b) => b.textContent === 'Table').click()")
        frames(one)
        how()
        same("all of it", one.wait("asked.find((path) => path.startsWith('runs/90/metrics'))", what="all of it"), "runs/90/metrics?x=step&width=1000")
    one.key("t")
    lines("as a table", rows(one, ".panel"), CURVES_WANT[1])
    one.key("t")
    one.eval("URL.createObjectURL = (blob) => { blob.text().then((t) => { window.csv = t; }); return 'data:,'; }; HTMLAnchorElement.prototype.click = function () { window.file = this.download; }")
    one.press("CSV")
    same("its file", one.wait("window.csv && [file, ...csv.split('\\n')]", what="a file"), CSV_WANT)
    one.key("l")
    one.wait("[...document.querySelectorAll('.chart header button')].every((b) => b.getAttribute('aria-pressed') === 'true')", what="logarithmic axes")
    one.eval("document.querySelector('.chart header button').click()")
    same("one by its button", one.eval("[...document.querySelectorAll('.chart header button')].map((b) => b.getAttribute('aria-pressed'))"), ["false", "true", "true"])
    press("Compare with run", "41", "change")
    shows("beside another", OTHER_WANT)
    same("the legend", said(one, ".legend"), "<runs/90?tab=metrics>#90<runs/41?tab=metrics>#41×")
    press("Compare with run", "41", "change")
    press("Compare with run", "90", "change")
    same("each once, and not itself", one.eval("location.search"), "?tab=metrics&with=41")
    one.click("[aria-label='Without run 41']")
    one.wait("document.querySelector('.legend').textContent === ''", what="it alone")
    press("x axis", "time", "change")
    shows("over time, with the nodes", TIME_WANT)
    same("in the address", one.eval("location.search"), "?tab=metrics&x=time")
    open_page(one, "runs/91?tab=metrics&x=time&with=41", "document.querySelectorAll('.chart').length === 3")
    same("the head of one that stands still", one.eval("[...document.querySelectorAll('.headline > div')].map((d) => d.innerText.replace(/\\s+/g, ' '))"),
         ["step 7", "loss 1.5 smoothed, not finite last", "checkpoint 900 11m 30s ago", "left 1m 30s by the last 50 steps", "loss not finite since step 700",
          "no progress for 11m 00s"])
    shows("two runs from where each began", SINCE_WANT)
    one.go("about:blank")
    one.go(bed.url + "runs/92?tab=metrics")
    one.wait_text("No metrics")
    same("no tools", one.eval("document.querySelector('.panel .bar-row').hidden"), True)


PAST = [{**RUN, "no": no, "state": "over", "outcome": outcome, "queued_wall": T0 + no, "started_wall": T0 + no, "ended_wall": T0 + no + took, "states": states, "reason": reason}
        for no, outcome, took, states, reason in ((1, "succeeded", 1000, "ssk", ""), (2, "failed", 90000, "sfp", "it failed"), (3, "succeeded", 2000, "tlu", ""))]
PAST.append({**RUN, "no": 4, "state": "running", "outcome": "", "queued_wall": T0 + 4, "started_wall": NOW - 5000, "ended_wall": 0, "states": "royaew"[:3]})
HISTORY = {"tasks": ["prep", "fit", "a_task_with_a_very_long_name_indeed"], "items": PAST,
           "gaps": [{"at_ms": T0 + 2.5, "count": 1, "decision": "dropped", "note": "one went on"}]}
PIPELINE = {"name": "p/1", "description": "All of it.", "file": "/s/p.yaml", "error": "line 7: no", "graph": None, "params": PARAMS["items"] + [
    {"name": "who", "type": "string", "default": None, "help": "whom"}]}


def history(one):
    """The bars of a pipeline's last runs, and what stands below them, under the mouse."""
    says = "document.querySelector('.histbars + p').textContent"
    open_page(one, "pipelines/p%2F1", "document.querySelector('.histbars') !== null")
    same("at first", one.eval(says), "median 2.0s")
    same("said", one.eval("document.querySelector('.histbars').ariaLabel"), "The last 4 runs, 1 failed; arrow keys walk through them")
    lines("its page", rows(one), PIPELINE_WANT)
    same("its head", [said(one, ".head"), said(one, ".file"), said(one, "p.error")], ["p/1All of it.(primary)#Run …", "/s/p.yaml", "(error)The file cannot be used: line 7: no"])
    left, top, _, height = place_of(one, ".histbars")
    for k, want in enumerate(BARS_WANT):
        mouse(one, "mouseMoved", left + 170 + 14 * k + 7, top + height - 3)
        one.wait("%s === %s" % (says, json.dumps(want)), what="%r, not %r" % (want, one.eval(says)))
    mouse(one, "mouseMoved", left + 170 + 14 * 5 + 7, top + 9)
    one.wait("%s === 'median 2.0s'" % says, what="no run there")
    left, top, _, _ = place_of(one, ".scroll canvas")
    for k, t, want in ((0, 2, "prep: succeeded"), (1, 1, "fit: failed"), (1, 2, "a_task_with_a_very_long_name_indeed: upstream failed"), (3, 0, "prep: timed out"),
                       (3, 1, "fit: lost"), (4, 0, "prep: running"), (4, 1, "fit: stopping")):
        if want.startswith("prep"):
            t = 0
        mouse(one, "mouseMoved", left + 170 + 14 * k + 7, top + 14 * t + 7)
        one.wait("%s.endsWith(%s)" % (says, json.dumps("  " + want)), what=want)
    mouse(one, "mousePressed", left + 170 + 14 + 7, top + 7, 1)
    mouse(one, "mouseMoved", left + 170 + 14 + 7, top + 7, 1)
    mouse(one, "mouseReleased", left + 170 + 14 + 7, top + 7)
    one.wait("location.pathname.endsWith('/runs/2')", what="the run by a click")
    open_page(one, "pipelines/p%2F1", "document.querySelector('.histbars') !== null")
    one.eval("document.querySelector('.histbars').focus()")
    one.keys("ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowRight")
    same("the last one by keys", one.eval(says), BARS_WANT[4])
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/4')", what="its page by Enter")


def asks(one, button, title, line):
    """What a dialog says; it is left by its button."""
    one.press(button)
    one.wait("document.querySelector('dialog[open]') !== null", what=title)
    same("what it asks", one.eval("['h2', 'form p'].map((s) => document.querySelector('dialog ' + s).textContent)"), [title, line])
    one.press("Back")
    one.wait("document.querySelector('dialog') === null", what="its end")
    same("nothing was sent", one.eval("sent"), [])


def act(one, button, yes, want, told=None):
    """What is sent once it is said; what the page says then."""
    if button:
        one.press(button)
        one.wait("document.querySelector('dialog[open]') !== null", what=button)
    one.press(yes)
    one.wait("sent.length > 0", what="what %s sends" % yes)
    same("what is sent", one.eval("sent.splice(0)"), [want])
    if told:
        one.wait("document.querySelector('.toast span')?.textContent === %s" % json.dumps(told), what=told)
    one.wait("[...document.querySelectorAll('dialog')].every((d) => d.querySelector('form') === null)", what="its end")



ANSWERS_OF_RUNS = {}
for no, row in [(90, ONE), (91, LIVE)] + [(no, {**ONE, "no": no}) for no in (2, 4, 40, 92, 93)]:
    over = no != 91
    ANSWERS_OF_RUNS.update({
        "runs/%d" % no: row, "runs/%d/graph" % no: GRAPH, "runs/%d/params" % no: PARAMS, "runs/%d/outputs" % no: OUTPUTS, "runs/%d/artifacts" % no: ARTIFACTS, "runs/%d/audit" % no: DEEDS,
        "runs/%d/events" % no: {"items": EVENTS, "after": 28}, "runs/%d/events?after=28" % no: {"items": [], "after": 28},
        "runs/%d/instances?form=columns" % no: columns("sffps" if over else "srrww", [T0 + 1000, T0 + (25500 if over else 90000), T0 + (25500 if over else 95000), 0, T0 + 33000 if over else 0],
                                                       [T0 + 12000, T0 + 32000 if over else 0, T0 + (30000 if no == 93 else 32500) if over else 0, 0, T0 + 34000 if over else 0], [1, 2, 2, 0, 1 if over else 0],
                                                       ["", "exit", "exit" if no == 93 else "gang_peer", "", ""] if over else ["", "", "", "", ""]),
        "runs/%d/instances" % no: {"items": [{"attempts": []}]}})
ANSWERS = {"nodes": NODES, "queue": QUEUE, "pools": POOLS, "schedules": SCHEDULES, "schedules/7/fires": FIRES, "schedules/7/run": {"no": 77}, "schedules/10/run": {"status_code": 422, "detail": "r.yaml has 3 mistakes", "issues": [{"file": "r.yaml", "line": 3, "col": 7, "text": "no such key"},
               {"file": "r.yaml", "line": 9, "text": "twice"}, {"text": "odd"}]}, "runs/90/artifacts/" + "01" * 32: "a\0b", "schedules/7": {}, "schedules/8": {}, "backfills": BACKFILLS,
           "runs": {"items": RUNS, "next": ""}, "runs?state=live&limit=200": {"items": RUNS[3:], "next": ""}, **SETTINGS, "POST tokens": {"name": "x", "token": "frt_x"}, "tokens/ci": {}, "deliveries/2/again": {}, "pipelines": PIPELINES, **ANSWERS_OF_RUNS, "POST runs/90/retry": {}, "POST runs/90/pin": {}, "POST runs/90/rerun": {"no": 90}, "POST runs/91/resume": {}, "DELETE runs/90": {}, "runs/90/metrics": CURVES, "runs/41/metrics": {**CURVES, "series": CURVES["series"][:1]},
           "runs/91/metrics": {**CURVES, "head": {**HEAD, "step": 7, "total": None, "loss": None, "loss_smooth": 1.5, "rate": None, "epoch": None, "wall": NOW - 11 * MIN, "bad_since": 700}},
           "nodes/n2/samples": SAMPLES, "nodes/n3/samples": {key: [] for key in SAMPLES}, "pipelines/p%2F1": PIPELINE, "pipelines/p%2F1/history": HISTORY,
           "runs/92/metrics": {"parts": [], "series": [], "head": None}}

def main():
    begin()
    serve()
    one = page()
    log_in(one)
    one.call("Page.addScriptToEvaluateOnNewDocument", {"source": CANNED % (json.dumps(ANSWERS), NOW) + ";" + SAY})
    for part in (nodes, queue, schedules, refused, runs, settings, pipelines, timeline, story, deeds, starting, kept, walked, picture, curves, history):
        part(one)
    clean_page("all of it", one)
    finish()


main()
