#!/usr/bin/env python3
"""The arithmetic of the pages, a module at a time as its source stands: numbers in words, durations, ticks and ranges of axes, what
differs between two texts, instances as they are packed, which state shows of several. usage: pure.py BUILD"""
import json
import os
import re
import sys

import bed
from bed import begin, finish, page, same

STATIC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/web/static")
sys.path.append(os.path.dirname(STATIC))
import embed

WORDS = os.path.join(STATIC, "../../words")
STATES, CAUSES = json.dumps(embed.states(WORDS)), json.dumps(embed.causes(WORDS))
STUBS = {"times": "const h = null;", "columns": "const letters = {s: 'succeeded', f: 'failed', w: 'waiting'};",
         # Three pages of a search: nothing by then, nothing by then, a hit; and of what is searched from there nothing.
         "logsource": "const pages = {'': {items: [], next: 'a'}, a: {items: [], next: 'b'}, b: {items: [{line: 7, text: 'x'}], next: 'c'}},"
                      " logSearch = (no, attempt, q) => q.q === 'x' ? pages[q.from] : {items: []};"
                      # Two lines are written, and said, while the size of an empty log is on its way.
                      " let log = ''; const logSize = async () => log.length,"
                      " logRange = async (no, attempt, from) => ({bytes: new TextEncoder().encode(log.slice(from)), total: log.length});"
                      " export const meanwhile = async () => { const s = new LogSource(1, ''), read = s.read(() => {}); log = 'one\\ntwo\\n';"
                      " await s.grow(log.length, () => {}); await read; return s.count; };"
                      # The last block is asked for twice; the first answer, of one line, comes after the second, of two.
                      " const waits = [], logLines = () => new Promise((done) => waits.push((total) => done({total, bytes: total, items: Array(total).fill('x')})));"
                      " export const overtaken = async () => { const s = new LogSource(1, ''); s.indexed = true; const all = [s.grow(1, () => {}), s.grow(2, () => {})];"
                      " waits[1](2); await all[1]; waits[0](1); await all[0]; return [s.count, s.blocks.get(0).length]; };",
         # Three are asked for; the first answers behind the second.
         "dom": "export const ordered = async () => { const waits = [], seen = [];"
                " const go = inOrder(() => new Promise((done) => waits.push(done)), (x) => seen.push(x)), all = [go(), go(), go()];"
                " for (const [i, x] of [[1, 'b'], [0, 'a'], [2, 'c']]) { waits[i](x); await all[i]; } return seen; };",
         "states": "const h = null, STATES = %s;" % STATES,
         "failure": "const ERRORS = null, document = {getElementById: () => ({text: %s})};" % json.dumps(CAUSES),
         "model": "const ended = new Set(['succeeded', 'failed']), live = new Set(['starting', 'running']), oncePerFrame = (fn) => fn, throttled = () => () => asked++;"
                  " let asked = 0; export const each = (changes) => { const m = new RunModel(1), task = {name: 't', counts: {waiting: 1}, away: 0};"
                  " m.inst = {seq: 0, task: ['t'], state: ['waiting'], attempt_no: [0], started_wall: [0], ended_wall: [0], unreachable_wall: [0],"
                  " due_wall: [0], cause: [''], code: [0], reason: ['']}; m.tasks.set('t', task); m.at = new Map([[7, 0]]); m.tell = () => {};"
                  " return changes.map((change) => { m.changed.whole = false; m.apply({seq: m.inst.seq + 1, changes: [[7, ...change]]});"
                  " return ['started_wall', 'ended_wall', 'attempt_no', 'cause', 'code', 'reason', 'due_wall', 'unreachable_wall'].map((name) => m.inst[name][0])"
                  ".concat(task.counts[change[0]], task.away, m.changed.whole, asked); }); };"}
# Of a task's instances the one shows whose state is named first.
URGENT = ["stop_unproven", "failed", "timed_out", "lost", "retrying", "stopping", "running", "starting", "ready", "cancelled", "upstream_failed",
          "waiting", "succeeded", "skipped"]

# module: [[expression, value] …]; NaN and infinities as texts.
ROWS = {
    "words": [
        ["[0, 1, 1023, 1024, 1536, 10240, 1048576, 5.5 * 2 ** 30, 2 ** 40, 2 ** 50, 2 ** 60].map(bytes)",
         ["0 B", "1 B", "1023 B", "1.0 KiB", "1.5 KiB", "10 KiB", "1.0 MiB", "5.5 GiB", "1.0 TiB", "1024 TiB", "1048576 TiB"]],
        ["[0, 1, 2].map((n) => count(n, 'task'))", ["0 tasks", "1 task", "2 tasks"]],
    ],
    # The first hit, however long the server has searched; none, once it has searched all; none of a page that was left. Lines that were
    # written while a read was under way; an answer that a newer one has overtaken.
    "logsource": [
        ["new LogSource(1, '').first('x')", [{"line": 6, "text": "x"}]],
        ["new LogSource(1, '').first('y')", []],
        ["Object.assign(new LogSource(1, ''), {closed: true}).first('x')", []],
        ["meanwhile()", 2],
        ["overtaken()", [2, 2]],
    ],
    "dom": [["ordered()", ["b", "c"]]],
    "failure": [
        ["[['exit', 3], ['signal', 9], ['node_lost', 0], ['', 0]].map(([cause, code]) => causeWords(cause, code))", ["exit code 3", "signal 9", "node lost", ""]],
        ["[causeMeaning('start_failed'), causeMeaning('expression'), causeMeaning('none'), causeMeaning('later')]",
         ["it could not be started, or its files could not be shipped", "when: or a value that it starts with could not be worked out", None, None]],
    ],
    # What the stream's changes make of an instance: begun, ended, attempt, cause, code, reason, due, unreachable since; how many have its
    # state, how many are unreachable, whether all is drawn again, how often it is read again.
    "model": [
        ["each([['starting', 1, '', 0, '', 70, 0, 0], ['running', 1, '', 0, '', 71, 0, 0], ['failed', 1, 'exit', 3, 'exit code 3', 72, 0, 0],"
         " ['ready', 1, '', 0, '', 73, 0, 0], ['running', 2, '', 0, '', 74, 0, 0], ['succeeded', 2, '', 0, '', 75, 0, 0], ['succeeded', 2, '', 0, '', 76, 0, 0]])",
         [[70, 0, 1, "", 0, "", 0, 0, 1, 0, False, 0], [70, 0, 1, "", 0, "", 0, 0, 1, 0, False, 0], [70, 72, 1, "exit", 3, "exit code 3", 0, 0, 1, 0, False, 0],
          [0, 0, 1, "", 0, "", 0, 0, 1, 0, False, 0], [74, 0, 2, "", 0, "", 0, 0, 1, 0, False, 0], [74, 75, 2, "", 0, "", 0, 0, 1, 0, False, 0],
          [74, 75, 2, "", 0, "", 0, 0, 1, 0, False, 0]]],
        ["each([['running', 1, '', 0, '', 70, 0, 0], ['retrying', 1, 'signal', 9, 'ended by signal 9', 71, 5071, 0], ['running', 2, '', 0, '', 72, 0, 0],"
         " ['running', 2, '', 0, '', 73, 0, 1], ['stopping', 2, '', 0, '', 74, 0, 1], ['stopping', 2, '', 0, '', 75, 0, 0]])",
         [[70, 0, 1, "", 0, "", 0, 0, 1, 0, False, 0], [70, 0, 1, "signal", 9, "ended by signal 9", 5071, 0, 1, 0, False, 0],
          [70, 0, 2, "", 0, "", 0, 0, 1, 0, False, 0], [70, 0, 2, "", 0, "", 0, 73, 1, 1, True, 0], [70, 0, 2, "", 0, "", 0, 73, 1, 1, False, 0],
          [70, 0, 2, "", 0, "", 0, 0, 1, 0, True, 0]]],
    ],
    "times": [
        ["[-5, 0, 999.4, 1000, 9940, 10000, 59999, 60000, 3599999, 3600000, 86399999, 86400000, 2 * 86400000 + 3 * 3600000 + 60000].map(duration)",
         ["0ms", "0ms", "999ms", "1.0s", "9.9s", "10s", "59s", "1m 00s", "59m 59s", "1h 00m", "23h 59m", "1d 0h", "2d 3h"]],
        ["[0, 61, 1439].map(minutes)", ["00:00", "01:01", "23:59"]],
        ["[absolute(1750000000000), absolute(NaN), clockTime(1750000000042, {millis: true}), clockTime(1750000000000)]",
         ["2025-06-15 15:06:40", "–", "15:06:40.042", "15:06:40"]],
        ["[inZone(1750000000000, 'Asia/Tokyo'), inZone(0, 'No/Where')]", ["2025-06-16 00:06:40", ""]],
        ["[dayBegin('2024-02-28', 1), dayBegin('2024-02-28'), dayBegin('x'), dayBegin('')]", [1709164800000, 1709078400000, "", ""]],
        ["(learnNow(1e12), Math.abs(now() - 1e12) < 60000)", True],
        ["(learnNow(NaN), Math.abs(now() - 1e12) < 60000)", True],
    ],
    "smooth": [
        ["[0, 1234, 9999, 10000, 12345, 999999, 1e6, 123456789, 0.001, 0.00099, -0.5, 0.123456, NaN, Infinity, -Infinity].map(short)",
         ["0", "1234", "9999", "10k", "12.35k", "1000k", "1M", "123.5M", "0.001", "9.90e−4", "-0.5", "0.1235", "NaN", "∞", "−∞"]],
        ["ticks(0, 10, 5)", [0, 2, 4, 6, 8, 10]],
        ["ticks(-1, 1, 4)", [-1, -0.5, 0, 0.5, 1]],
        ["ticks(3, 97, 4)", [25, 50, 75]],
        ["ticks(5, 5, 4)", [5]],
        ["logTicks(0.1, 10)", [0.1, 0.2, 0.5, 1, 2, 5, 10]],
        ["logTicks(1, 10000)", [1, 10, 100, 1000, 10000]],
        ["logTicks(3, 30)", [5, 10, 20]],
        ["yRange([1, 3, NaN], false).map((v) => Math.round(v * 1000) / 1000)", [0.88, 3.12]],
        ["yRange([0.01, 1], false).map((v) => Math.round(v * 1000) / 1000)", [0, 1.059]],
        ["yRange([-1, 1], false).map((v) => Math.round(v * 1000) / 1000)", [-1.12, 1.12]],
        ["yRange([2, 2], false).map((v) => Math.round(v * 1000) / 1000)", [1.776, 2.224]],
        ["yRange([0, 0], false).map((v) => Math.round(v * 1000) / 1000)", [-0.56, 0.56]],
        ["[yRange([], false), yRange([NaN], true), yRange([-1, 0], true)]", [[0, 1], [0.1, 1], [0.1, 1]]],
        ["yRange([1, 100, -5, 0], true).map((v) => Math.round(v * 1000) / 1000)", [0.794, 125.893]],
        ["yRange([...Array(99).fill(0).map((_, i) => i), 1e9], false)[1] > 1e8", True],
        ["yRange([...Array(1000).fill(0).map((_, i) => i % 100), 1e9], false).map(Math.round)", [0, 105]],
        ["smooth([[0, 4], [250, 3], [500, NaN], [1000, 1]], 0.99, 1000).map(([x, y]) => [x, Math.round(y * 1000) / 1000])", [[0, 4], [250, 3.222], [1000, 1.064]]],
        ["smooth([[0, 4], [1, 2]], 0, 1)", [[0, 4], [1, 2]]],
        ["smooth([], 0.5, 0)", []],
    ],
    "diff": [
        ["diffLines(['a', 'b', 'c'], ['a', 'c', 'd']).map(([kind, line]) => kind + line)", [" a", "-b", " c", "+d"]],
        ["diffLines(['a'], ['a']).map(([kind, line]) => kind + line)", [" a"]],
        ["diffLines([], ['a', 'b']).map(([kind, line]) => kind + line)", ["+a", "+b"]],
        ["diffLines(['a', 'b'], []).map(([kind, line]) => kind + line)", ["-a", "-b"]],
        ["diffLines(['a', 'b'], ['b', 'a']).map(([kind, line]) => kind + line)", ["-a", " b", "+a"]],
        ["diffLines(Array(3000).fill(0).map((_, i) => 'a' + i), Array(3000).fill(0).map((_, i) => 'b' + i))", None],
    ],
    "columns": [
        ["unpack({seq: 7, wall: 1000, tasks: ['a', 'b'], nodes: ['n1', 'n2'], idx: [0, 1, 1, 2], task: [0, 2, 1, 1], node: [0, 1, 0], state: 'sfw', attempt_no: [1, 1, 2, 1, 0, 1],"
         " cause: ['', 1, 'exit', 1, '', 1], code: [0, 1, 3, 1, 0, 1], reason: ['', 3], unreachable: [0, 1, 1, 1, 11, 1], due: [0, 2, 501, 1], started: [1, -5, 0], ended: [2001, 1, 0]})",
         {"seq": 7, "idx": [0, 2, 4], "task": ["a", "a", "b"], "node": ["n1", "n2", "n1"], "key": ["a@n1", "a@n2", "b@n1"], "state": ["succeeded", "failed", "waiting"],
          "attempt_no": [1, 2, 0], "cause": ["", "exit", ""], "code": [0, 3, 0], "reason": ["", "", ""], "unreachable_wall": [0, 1000, 1010], "due_wall": [0, 0, 1500],
          "started_wall": [1000, 995, 0], "ended_wall": [3000, 995, 0]}],
    ],
}

ROWS["states"] = [
    ["worst({%s: 1, %s: 2}).name" % (a, b), URGENT[min(i, k)]] for i, a in enumerate(URGENT) for k, b in enumerate(URGENT)] + [
    ["[worst({failed: 0, skipped: 1}).name, worst({}).word, worst({later: 1}).word]", ["skipped", "unknown", "unknown"]],
    ["[[...ended], [...failures], Object.values(letters)].map((names) => names.sort().join(' '))",
     ["cancelled failed lost skipped stop_unproven succeeded timed_out upstream_failed", "failed lost stop_unproven timed_out", " ".join(sorted(URGENT))]],
    ["'wearoystfclukp'.split('').map((c) => letters[c]).join(' ')",
     "waiting ready starting running stopping retrying succeeded timed_out failed cancelled lost stop_unproven skipped upstream_failed"],
    ["countWords({failed: 1, running: 2, waiting: 0, succeeded: 3, later: 1})", "3 succeeded, 1 failed, 2 running"],
    ["[done({failed: 1, running: 2, skipped: 3}), sum({a: 1, b: 2})]", [4, 3]],
    ["[{state: 'over', outcome: 'succeeded'}, {state: 'over'}, {state: 'cancelling'}, {state: 'hooks'}, {state: 'queued'}].map((run) => runState(run).word)",
     ["succeeded", "failed", "cancelling", "running hooks", "queued"]],
]

# zone that is chosen: what a browser in Berlin shows
IN_BERLIN = {
    "'UTC'": ["UTC", "2025-06-15 15:06:40", "15:06:40", 1709078400000],
    "'browser'": ["Europe/Berlin", "2025-06-15 17:06:40", "17:06:40", 1709074800000],
}
SHOWN = "[zoneName(), absolute(1750000000000), clockTime(1750000000000), dayBegin('2024-02-28')]"


def check(one, module, rows, zone="null"):
    with open(os.path.join(STATIC, module + ".js"), encoding="utf-8") as f:
        text = STUBS.get(module, "") + re.sub(r"(?m)^import .*\n", "", f.read())
    text = text.replace("localStorage.getItem('flowrun.zone')", zone)
    one.eval("import('data:text/javascript;charset=utf-8,' + encodeURIComponent(%s)).then((m) => { Object.assign(window, m); })" % json.dumps(text))
    for expression, want in rows:
        got = one.eval("(async () => JSON.parse(JSON.stringify(await %s, (_, v) => (typeof v === 'number' && !Number.isFinite(v) ? String(v) : v))))()" % expression)
        same("%s: %s" % (module, expression), got, want)


def main():
    begin()
    bed.url = "none"
    one = page()
    for module, rows in ROWS.items():
        check(one, module, rows)
    one.call("Emulation.setTimezoneOverride", {"timezoneId": "Europe/Berlin"})
    for zone, want in IN_BERLIN.items():
        check(one, "times", [[SHOWN, want]], zone)
    finish()


main()
