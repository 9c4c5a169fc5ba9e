#!/usr/bin/env python3
"""Parts of pages by what one does there: ranks of a merged log are chosen, a gang's bars are joined by a bracket, the
pane of a task is made wider by keys and by dragging, two runs' files are compared, a file of a run is shown and
downloaded, a queued run is put first, colours of output, the list of runs by pages. usage: views.py BUILD"""
import base64
import json
import sqlite3

import bed
from bed import begin, begin_run, check, clean_page, finish, flow, log_in, page, same, serve, until, write

GANG = """\
name: gang
params: {who: {default: you}}
nodes: [{name: n1}, {name: n2}, {name: n3}]
tasks:
  train: {on: all, %srun: "for i in 1 2 3; do echo step $i of $NODE; done", env: {NODE: "${{ node.name }}"}, files: {in: small.txt}}
%s"""
QUEUED = """\
name: queued
max_active_runs: 1
pool: shared
params: {hold: {default: none}}
tasks:
  wait: {env: {HOLD: "${{ params.hold }}"}, run: "test $HOLD = none || until test -e $HOLD; do sleep 0.02; done"}
"""
SMALL = "a small file <b>\u202e of the run\n"
# The longest vertical line in the colour of brackets, right of the names.
LINE = """(() => {
    const canvas = document.querySelector('.chartbox canvas'), probe = document.createElement('i');
    probe.style.color = 'var(--dim)'; document.body.append(probe);
    const c = document.createElement('canvas').getContext('2d'); c.fillStyle = getComputedStyle(probe).color; probe.remove();
    c.fillRect(0, 0, 1, 1); const want = c.getImageData(0, 0, 1, 1).data, w = canvas.width, d = canvas.getContext('2d').getImageData(0, 0, w, canvas.height).data;
    let best = 0;
    for (let x = 185; x < w; x++)
        for (let y = 0, n = 0; y < canvas.height; y++) {
            const i = 4 * (y * w + x);
            n = Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 30 ? n + 1 : 0;
            best = Math.max(best, n);
        }
    return best;
})()"""


def ranks(one):
    one.go(bed.url + "runs/1?tab=logs&i=train&all=1")
    lines = "[...document.querySelectorAll('.ln')].map((l) => l.innerText.replace(/\\s+/g, ' '))"
    one.wait("document.querySelectorAll('.ln').length === 9", what="the lines of all three ranks")
    same("a button a rank", one.eval("[...document.querySelectorAll('.chip.rank')].map((b) => b.textContent)"), ["n1", "n2", "n3"])
    one.eval("[...document.querySelectorAll('.chip.rank')].find((b) => b.textContent === 'n2').focus()")
    one.key("Enter")
    one.wait("document.querySelectorAll('.ln').length === 3", what="the lines of one rank")
    check("it is that one: %s" % one.eval(lines), all("of n2" in l for l in one.eval(lines)))
    one.wait("document.activeElement.textContent === 'n2'", what="the focus where it was")
    one.press("n3")
    one.wait("document.querySelectorAll('.ln').length === 6", what="the lines of two ranks")
    one.go("about:blank")
    one.go(bed.url + "runs/1?tab=logs&i=train&all=1&r=train@n2,train@n3")
    one.wait("document.querySelectorAll('.ln').length === 6", what="two ranks by the address")
    same("which are pressed", one.eval("[...document.querySelectorAll('.chip.rank')].map((b) => b.getAttribute('aria-pressed'))"),
         ["false", "true", "true"])


def bracket(one):
    drawn = "%s >= 40" % LINE
    one.go(bed.url + "runs/1?tab=timeline")
    one.wait(drawn, what="a bracket over the gang's rows")
    one.go(bed.url + "runs/2?tab=timeline")
    one.wait("document.querySelector('.timeline .dim')?.textContent.startsWith('4 attempts')", what="four bars")
    one.eval("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    check("none where no gang is", not one.eval(drawn))


def counts():
    """Of instances, of tasks, and in the list: all say the same."""
    for no in (1, 2, 4):
        rows = [r["task"] for r in json.loads(flow("api", "runs/%d/instances" % no))["items"]]
        run = json.loads(flow("api", "runs/%d" % no))
        same("tasks of run %d" % no, [(t["name"], t["counts"]) for t in run["tasks"]],
             [(name, {"succeeded": rows.count(name)}) for name in dict.fromkeys(rows)])
        same("its counts", run["counts"], {"succeeded": len(rows)})
        item = next(r for r in json.loads(flow("api", "runs"))["items"] if r["no"] == no)
        same("in the list", item["counts"], run["counts"])
    past = json.loads(flow("api", "pipelines/gang/history"))
    same("the history", [past["tasks"], [r["states"] for r in past["items"]]], [["train", "more"], ["s-", "ss", "ss"]])


def pane(one):
    width = "Math.round(document.querySelector('.side').getBoundingClientRect().width)"
    one.go(bed.url + "runs/1?task=train")
    one.wait("document.querySelector('.side:not([hidden]) h3') !== null", what="the task's pane")
    first = one.eval(width)
    one.eval("document.querySelector('.sizer').focus()")
    one.key("ArrowLeft")
    one.wait("%s === %d" % (width, first + 24), what="a wider pane")
    same("which is said", one.eval("Number(document.querySelector('.sizer').getAttribute('aria-valuenow'))"), first + 24)
    x, y = one.eval("(() => { const r = document.querySelector('.sizer').getBoundingClientRect(); return [r.x + 6, r.y + 20]; })()")
    for kind, at in (("mousePressed", x), ("mouseMoved", x - 100), ("mouseReleased", x - 100)):
        one.call("Input.dispatchMouseEvent", {"type": kind, "x": at, "y": y, "button": "left", "clickCount": 1,
                                              "buttons": 0 if kind == "mouseReleased" else 1})
    wide = one.wait("%s > %d && %s" % (width, first + 100, width), what="a pane as wide as dragged")
    one.go(bed.url + "runs/2?task=train")
    one.wait("document.querySelector('.side:not([hidden]) h3') !== null", what="a pane of another run")
    same("as wide", one.eval(width), wide)


def compare(one):
    one.go(bed.url + "runs/2?tab=params")
    one.wait("document.querySelector('pre.spec') !== null", what="the file")
    one.eval("document.querySelector('[aria-label=\"Compare with run\"]').focus()")
    one.type("1")
    one.key("Enter")
    one.wait("document.querySelector('.spec.diffed') !== null", what="what differs")
    lines = "[...document.querySelectorAll('.line.%s')].map((l) => l.textContent.slice(1, 11).trim())"
    same("a line removed", one.eval(lines % "removed"), ["train: {"])
    same("lines added", one.eval(lines % "added"), ["train: {", "more: {r"])
    check("in the address", "with=1" in one.eval("location.search"))
    one.go("about:blank")
    one.go(bed.url + "runs/3?tab=params&with=2")
    one.wait_text("The file is the same")
    same("what differs of them", one.eval("[...document.querySelectorAll('td.other')].map((e) => e.textContent)"), ["you"])
    with open("gang.yaml", "a") as f:
        f.write("# changed since\n")
    one.press("or the file now")
    one.wait_text("What changed in the file since run 3")
    same("a line of the file as it is", one.eval("[...document.querySelectorAll('.line.added')].map((l) => l.textContent.slice(1).trim())"), ["# changed since"])


def many(one):
    """Of more boxes than one can look at, those near the chosen one are drawn; a list stands for all."""
    count = "document.querySelectorAll('.box').length"
    one.go(bed.url + "runs/4")
    one.wait("document.querySelectorAll('.boxrow').length === 450", what="the list of all tasks")
    same("boxes drawn", one.eval(count), 0)
    one.press("List")
    near = one.wait("%s > 0 && %s" % (count, count), what="boxes near the first")
    check("boxes near it: %d" % near, near < 60)
    one.eval("document.querySelector('[data-find]').focus()")
    one.type("t333")
    one.key("Enter")
    one.wait("document.querySelector('.box.chosen')?.getAttribute('aria-label') === 't333: 1 succeeded'", what="the one that was sought")
    one.wait("document.querySelector('.side h3')?.textContent === 't333'", what="its pane")
    needs = one.eval("[...document.querySelectorAll('.side dd')].slice(0, 2).flatMap((d) => [...d.children].map((a) => a.textContent))")
    check("with what it needs, and what needs it: %s" % needs, {"t318", "t347"} <= set(needs))
    labels = one.eval("[...document.querySelectorAll('.box')].map((b) => b.getAttribute('aria-label').split(':')[0])")
    check("all of these are drawn: %s" % labels, set(needs) <= set(labels) and len(labels) < 60)


def files(one):
    one.go(bed.url + "runs/1?tab=artifacts")
    one.press("Show")
    one.wait("document.querySelector('dialog[open] pre') !== null", what="the file")
    same("its text, as text", one.eval("document.querySelector('dialog[open] pre').textContent"), SMALL.replace("\u202e", "‹202E›"))
    one.key("Escape")
    got = one.eval("""(async () => { const a = document.querySelector('a.button[download]'), r = await fetch(a.href);
        return [a.getAttribute('download'), await r.text(), r.headers.get('content-disposition'), r.headers.get('content-security-policy'),
            r.headers.get('content-type')]; })()""")
    same("the download", got, ["small.txt", SMALL, "attachment", "sandbox; default-src 'none'", "application/octet-stream"])
    same("no file of others by its hash", one.eval("fetch('api/v1/runs/1/artifacts/%s').then((r) => r.status)" % ("0" * 64)), 404)
    one.errors.clear()  # the 404


def packed(one):
    one.go(bed.url + "runs/1?tab=logs&i=train@n1")
    one.wait("document.querySelectorAll('.ln').length === 3", what="a log")
    got = one.eval("""(async () => { const a = [...document.querySelectorAll('a.button')].find((b) => b.href.endsWith('/log.gz')), r = await fetch(a.href);
        return [a.download, r.headers.get('content-type'), r.headers.get('content-encoding'),
            await new Response(r.body.pipeThrough(new DecompressionStream('gzip'))).text()]; })()""")
    same("the packed log", got, ["run1-train@n1-1.log.gz", "application/gzip", None, "step 1 of n1\nstep 2 of n1\nstep 3 of n1\n"])
    one.go(bed.url + "runs/1?tab=logs&i=train&all=1")
    one.wait("document.querySelectorAll('.ln').length === 9", what="the lines of all three ranks")
    check("not of several as one", one.eval("[...document.querySelectorAll('a.button')].find((b) => b.textContent === '.gz').hidden"))


def pattern(one):
    """What is sought in a log is a text, or a pattern: of one attempt by the server, of several here."""
    for where in ("train@n1", "train&all=1"):
        one.go("about:blank")
        one.go(bed.url + "runs/1?tab=logs&i=" + where)
        one.wait("document.querySelectorAll('.ln').length >= 3", what="a log")
        one.eval("document.querySelector('[data-find]').focus()")
        one.type("step [12] of n1$")
        one.key("Enter")
        one.wait("document.querySelector('.bar-row').innerText.includes('not found')", what="no such text")
        one.press("Pattern")
        one.eval("document.querySelector('[data-find]').focus()")
        one.key("Enter")
        one.wait("document.querySelector('.bar-row').innerText.includes('1 of 2')", what="two lines of that pattern")


def letters(one):
    """Small letters stand for large ones, too; large ones for themselves; signs of patterns for themselves."""
    for where in ("i=more@n1", "all=1"):
        for text, want in (("more 2 of Them", "not found"), ("more 2 of them", "1 of 1"), ("more . of them", "not found"), ("of THEM", "1 of 1")):
            one.go("about:blank")
            one.go(bed.url + "runs/2?tab=logs&" + where)
            one.wait("document.querySelectorAll('.ln').length >= 1", what="a log")
            one.eval("document.querySelector('[data-find]').focus()")
            one.type(text)
            one.key("Enter")
            one.wait("document.querySelector('.bar-row').innerText.includes(%s)" % json.dumps(want), what="%s: %s" % (text, want))


def everywhere(one):
    """Something is sought in all output of a task, and of the run; a hit leads to its line."""
    links = "[...document.querySelectorAll('.hits a')].map((a) => a.innerText.replace(/\\s+/g, ' '))"
    for where, want in (("i=train&all=1", 3), ("all=1", 4)):
        one.go("about:blank")
        one.go(bed.url + "runs/2?tab=logs&" + where)
        one.wait("document.querySelectorAll('.ln').length >= 9", what="a log")
        one.eval("document.querySelector('[data-find]').focus()")
        if want == 3:
            one.type("2 of THEM")
            one.key("Enter")
            one.wait("document.querySelector('.bar-row').innerText.includes('not found')", what="no hit of another task")
            one.eval("document.querySelector('[data-find]').select()")
        one.type("step 2" if want == 3 else "2 of")
        one.key("Enter")
        one.wait("document.querySelectorAll('.hits a').length === %d" % want, what="hits of %s" % where)
    same("of all tasks", one.eval(links), ["train@n%d 2 step 2 of n%d" % (i, i) for i in (1, 2, 3)] + ["more@n1 1 more 2 of THEM"])
    same("each of its own attempt", one.eval("[...document.querySelectorAll('.hits a')].map((a) => new URL(a.href).searchParams.get('a'))"), ["1"] * 4)
    same("and here", one.eval("document.querySelector('.bar-row').innerText.includes('1 of 4')"), True)
    one.press("train@n2 2")
    one.wait("document.querySelector('.ln.picked .tx')?.textContent === 'step 2 of n2'", what="the line of the hit")
    one.wait("document.querySelector('.which select').value === 'train@n2'", what="its log")
    one.eval("(() => { const s = document.querySelector('.which select'); s.value = '*'; s.dispatchEvent(new Event('change')); })()")
    one.wait("document.querySelectorAll('.ln').length === 10", what="the lines of all tasks")
    same("in the address", one.eval("location.search"), "?tab=logs&all=1")


def times(one):
    """When each line was written: of one log, and of several."""
    texts = "[...document.querySelectorAll('.ln time')].map((t) => t.textContent)"
    for where, n in (("i=train@n1", 3), ("i=train&all=1", 9)):
        one.go(bed.url + "runs/2?tab=logs&" + where)
        one.wait("document.querySelectorAll('.ln').length === %d" % n, what="a log")
        if n == 3:
            same("no times unless asked for", one.eval(texts), [])
            one.press("Times")
        one.wait("%s.length === %d" % (texts, n), what="a time a line")
        run = json.loads(flow("api", "runs/2"))
        bounds = one.eval("[%d, %d].map((ms) => new Date(ms).toTimeString().slice(0, 8))"  # nodes read a clock of their own
                          % (run["started_wall"] - 100, run["ended_wall"] + 100))
        check("within the run: %s" % one.eval(texts), all(bounds[0] <= t <= bounds[1] for t in one.eval(texts)) or bounds[0] > bounds[1])
    one.press("Times")
    one.wait("%s.length === 0" % texts, what="no times")


def days(one):
    """Runs of some days alone; they stand in the address."""
    rows = "document.querySelectorAll('tr.row').length"
    put = "(() => { const f = document.querySelector('[aria-label=%s]'); f.value = '%s'; f.dispatchEvent(new Event('input')); })()"
    one.go(bed.url + "runs")
    one.wait("%s >= 4" % rows, what="all runs")
    one.eval(put % ("from", "2999-01-01"))
    one.wait_text("No run fits these filters")
    one.wait("location.search === '?since=2999-01-01'", what="the day in the address")
    one.eval(put % ("from", ""))
    one.wait("%s >= 4" % rows, what="all runs again")
    today = one.eval("new Date().toLocaleDateString('sv')")
    one.eval(put % ("to", today))
    one.wait("location.search === '?until=%s'" % today, what="another day")
    one.wait("%s >= 4" % rows, what="those of today")
    one.eval(put % ("to", "2020-02-29"))
    one.wait_text("No run fits these filters")
    one.go(bed.url + "runs?until=2020-02-29")
    one.wait_text("No run fits these filters")
    same("in its field", one.eval("document.querySelector('[aria-label=to]').value"), "2020-02-29")


def image(one):
    """A file that is a picture is shown as one."""
    dot = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAAAAADRSSBWAAAAC0lEQVR4nGP4zwAAAgEBADK6K5IAAAAASUVORK5CYII=")
    with open("dot.png", "wb") as f:
        f.write(dot)
    write("picture.yaml", 'name: picture\ntasks: {t: {run: "true", files: {in: dot.png}}}\n')
    flow("picture.yaml")
    no = json.loads(flow("api", "runs?pipeline=picture"))["items"][0]["no"]
    one.go(bed.url + "runs/%d?tab=artifacts" % no)
    one.press("Show")
    one.wait("document.querySelector('dialog img')?.naturalWidth === 2", what="the picture")
    one.key("Escape")


def failure(one):
    """The end of what failed leads to the line that says why."""
    write("fails.yaml", 'name: fails\ntasks: {t: {run: "seq 1 2000; echo Traceback; seq 1 9; exit 1"}}\n')
    flow("fails.yaml")
    one.go(bed.url + "runs/%d" % json.loads(flow("api", "runs?pipeline=fails"))["items"][0]["no"])
    one.press("All of its output")
    one.wait("document.querySelector('.ln.picked .tx')?.textContent === 'Traceback'", what="the line of the error")
    same("its number", one.eval("document.querySelector('.ln.picked .lno').dataset.no"), "2001")


# What is printed, and the pieces of it that have a look: [class, colour, background, text].
COLOURS = (
    (r"\033[1;31ma\033[22mb\033[39mc", [["bold fg1", "", "", "a"], ["fg1", "", "", "b"]]),
    (r"\033[91;103ma\033[49mb\033[0mc", [["fg9 bg11", "", "", "a"], ["fg9", "", "", "b"]]),
    (r"\033[38;5;9;4ma", [["fg9 under", "", "", "a"]]),
    (r"\033[38;5;196;1ma", [["bold", "rgb(255, 0, 0)", "", "a"]]),
    (r"\033[48;5;244;3ma", [["italic", "", "rgb(128, 128, 128)", "a"]]),
    (r"\033[38;2;1;2;0ma", [["", "rgb(1, 2, 0)", "", "a"]]),
    (r"\033[38;2;1;2;4ma", [["", "rgb(1, 2, 4)", "", "a"]]),
    (r"\033[48;2;1;2;7;9ma", [["strike", "", "rgb(1, 2, 7)", "a"]]),
    (r"\033[38;2;999;0;0ma\033[mb", [["", "rgb(255, 0, 0)", "", "a"]]),
)


def colours(one):
    write("colours.yaml", "name: colours\ntasks:\n  t:\n    run: |\n" + "".join("      printf '%s\\n'\n" % text for text, _ in COLOURS))
    flow("colours.yaml")
    one.go(bed.url + "runs/%d?tab=logs&i=t@local" % json.loads(flow("api", "runs?pipeline=colours"))["items"][0]["no"])
    one.wait("document.querySelectorAll('.ln').length === %d" % len(COLOURS), what="a line each")
    got = one.eval("[...document.querySelectorAll('.ln .tx')].map((l) => [...l.querySelectorAll('span')].map("
                   "(s) => [s.className, s.style.color, s.style.backgroundColor, s.textContent]))")
    for (text, want), pieces in zip(COLOURS, got):
        same(text, [[" ".join(sorted(p[0].split()))] + p[1:] for p in pieces], [[" ".join(sorted(w[0].split()))] + w[1:] for w in want])


def older(one):
    """Runs of further pages; another filter begins with the first page again."""
    rows = "document.querySelectorAll('tr.row').length"
    with sqlite3.connect("home/state.db") as db:
        last = db.execute("SELECT max(no) FROM run").fetchone()[0]
        for no in range(last + 1, last + 131):
            db.execute("INSERT INTO run(id, no, name, source, folder, spec_hash, inventory_hash, inventory, params, state, outcome, started_wall, "
                       "ended_wall) VALUES(randomblob(16), ?, 'past', '', '', '', '', '', '{}', 'over', ?, 1, 2)",
                       (no, "cancelled" if no > last + 128 else "succeeded"))
    one.go(bed.url + "runs")
    first = one.wait("%s > 40 && %s" % (rows, rows), what="the first page")
    one.press("Older runs")
    more = one.wait("%s > %d && %s" % (rows, first, rows), what="runs behind them")
    one.press("Cancelled")
    one.wait("%s === 2" % rows, what="cancelled runs alone")
    one.press("All")
    one.wait("%s === %d" % (rows, first), what="the first page again")
    one.press("Older runs")
    one.wait("%s === %d" % (rows, more), what="those behind them again")


def drained(one):
    one.go(bed.url + "nodes")
    row = "[...document.querySelectorAll('tr')].find((r) => r.cells[0].innerText.startsWith('n2'))"
    one.wait("%s !== undefined" % row, what="a node")
    one.eval("%s.querySelector('button').click()" % row)
    one.wait("document.querySelector('dialog [name=note]') !== null", what="why")
    one.type("a new disk")
    one.key("Enter")
    one.wait("/drained (now|\\d+s ago) a new disk/.test(%s.innerText)" % row, what="a node that is drained")
    node = json.loads(flow("api", "nodes/n2"))
    same("so it is", node["drained"]["note"], "a new disk")
    one.eval("%s.querySelector('button').click()" % row)
    one.wait("document.querySelector('dialog form') !== null", what="a question")
    one.key("Enter")
    one.wait("!%s.innerText.includes('drained')" % row, what="a node that is none")


def gaps(one):
    """Among the bars of a pipeline's runs there is a dash where its schedule made none."""
    write("served/gaps.yaml", 'name: gaps\nschedule: {cron: "0 0 1 1 *"}\ntasks: {t: {run: "true"}}\n')
    until("its schedule is known", lambda: "gaps/default" in flow("schedules"))
    flow("served/gaps.yaml")
    made = json.loads(flow("api", "runs?pipeline=gaps"))["items"][0]
    with sqlite3.connect("home/state.db") as db:
        db.execute("INSERT INTO fire(schedule, at_ms, first_ms, count, decision, run, decided_wall, note) SELECT id, ?1, ?1, 3, 'missed', 0, ?1, "
                   "'nobody was there' FROM schedule WHERE pipeline = 'gaps'", (made["queued_wall"] + 1,))
    one.go(bed.url + "pipelines/gaps")
    one.wait("document.querySelector('.histbars') !== null", what="its bars")
    same("runs alone are counted", one.eval("document.querySelector('.histbars').ariaLabel.split(',')[0]"), "The last 1 run")
    one.eval("document.querySelector('.histbars').focus()")
    one.key("ArrowLeft")
    one.wait_text("nobody was there")
    check("what became of it", "missed × 3" in one.eval("document.querySelector('.histbars + p').innerText"))
    one.key("ArrowLeft")
    one.wait("document.querySelector('.histbars + p').innerText.includes('#%d')" % made["no"], what="the run before it")
    check("its next times", one.eval("[...document.querySelectorAll('.schedules td')].some((d) => d.innerText.split('01-01').length === 6)"))


def queue(one):
    rows = "[...document.querySelector('.block').querySelectorAll('tbody tr')].map((r) => r.children[1].textContent).join()"
    begin_run("queued.yaml", "-p", "hold=%s/go" % bed.folder)
    until("one goes on", lambda: "running" in flow("status", "5"))
    for no in (6, 7):
        begin_run("queued.yaml")
        until("one waits", lambda: len(json.loads(flow("api", "queue"))["items"]) == no - 5)
    one.go(bed.url + "queue")
    one.wait("%s === '#6,#7'" % rows, what="the queue in its order")
    pool = one.eval("[...document.querySelectorAll('tr')].at(-1).innerText")
    same("who holds a pool", [cell.strip() for cell in pool.split("\t")[:3]], ["shared", "1 of 5", "#5"])
    one.eval("[...document.querySelectorAll('tbody tr')][1].querySelector('button').click()")
    one.wait("document.querySelector('dialog [name=priority]') !== null", what="a field")
    one.eval("document.querySelector('dialog [name=priority]').select()")
    one.type("10")
    one.key("Enter")
    one.wait("%s === '#7,#6'" % rows, what="the other one first")
    same("and in the store", flow("queue").split("\n")[1].split()[:4], ["1", "7", "queued", "10"])
    same("one that does not wait", one.eval("fetch('api/v1/runs/5/priority', {method: 'POST', headers: {'Content-Type': 'application/json'},"
                                            " body: '{\"priority\": 3}'}).then((r) => r.status)"), 409)
    one.errors.clear()
    write("go", "")
    ends = lambda no: json.loads(flow("api", "runs/%d" % no))["ended_wall"]
    until("both are over", lambda: ends(6) and ends(7))
    check("the first was first", ends(7) <= json.loads(flow("api", "runs/6"))["started_wall"])


def main():
    begin()
    write("small.txt", SMALL)
    write("queued.yaml", QUEUED)
    write("home/config.yaml", "pools: {shared: 5}\n")
    serve()
    write("gang.yaml", GANG % ("gang: true, ", ""))
    flow("gang.yaml")
    write("gang.yaml", GANG % ("", '  more: {run: "echo more 2 of THEM"}\n'))
    flow("gang.yaml")
    flow("gang.yaml", "-p", "who=me")
    write("many.yaml", "name: many\nmax_parallel: 8\ntasks:\n" + "".join(
        "  t%d: {%srun: \"true\"}\n" % (i, "needs: [t%d, t%d], " % (i - 15, i - 15 - i % 15 + (i + 1) % 15) if i >= 15 else "")
        for i in range(450)))
    flow("many.yaml")
    one = page()
    log_in(one)
    for part in (ranks, bracket, pane, many, compare, files, packed, pattern, letters, everywhere, times, days, queue, image, failure, colours, drained, gaps):
        part(one)
    counts()
    older(one)
    clean_page("all of it", one)
    finish()


main()
