#!/usr/bin/env python3
"""The pages' budgets: bytes of the files, what is seen of large runs and when, script a frame while they change.

A timed round is neither traced nor polled: a script in the page notes when the run's head (state, number, name) and the first
of its tasks were painted, and tells it once. In each round an answer of one word by the same host is opened in the same tab,
too: that much of the times is Chromium's own. CPU is traced in rounds of its own. Times by the clock depend on what else the
machine does, CPU less so. Prints a table; fails on nothing but a page that does not show. usage: page.py BUILD [ROUNDS]"""
import gzip
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/web"))
import bed  # noqa: E402
from bed import begin, finish, flow, check, log_in, page, write  # noqa: E402

STATIC = os.path.join(ROOT, "engine/web/static")
ROUNDS, TRACED, FOLLOWED = 15, 5, 5


def line(what, got, limit):
    print("%-62s %10s   limit %s" % (what, got, limit))


def sizes():
    sys.path.insert(0, os.path.join(ROOT, "engine/web"))
    from embed import read
    files = read(STATIC, os.path.join(ROOT, "engine/words"))
    packed = {name: len(gzip.compress(data, 9)) for name, data in files.items()}
    line("shell, gzip", "%d B" % packed["index.html"], "4096")
    line("all scripts, gzip", "%d B" % sum(n for name, n in packed.items() if name.endswith(".js")), "61440")
    needed, todo = set(), ["app.js", "run.js", "graph.js"]
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += re.findall(r"from '\./([a-z]+\.js)'", files[name].decode())
    line("scripts of a run with its graph, gzip", "%d B" % sum(packed[name] for name in needed), "-")
    line("style, gzip", "%d B" % packed["app.css"], "10240")


def wide(name, tasks, nodes, gate=""):
    """Layers of ten tasks; each needs two of the layer before, the first ones a task that ends once there is the file gate."""
    text = "name: %s\nmax_parallel: 64\nnodes: [%s]\ntasks:\n" % (name, ", ".join("{name: n%d}" % i for i in range(1, nodes + 1)))
    for i in range(tasks):
        needs = (gate and "needs: [gate], ") if i < 10 else "needs: [t%d, t%d], " % (i - 10 - i % 10 + (i * 7) % 10, i - 10 - i % 10 + (i * 3 + 1) % 10)
        if i >= 10 and needs.split("[t")[1].split(",")[0] == needs.split(", t")[1].split("]")[0]:
            needs = "needs: [t%d], " % (i - 10)
        text += '  t%d: {%s%srun: "exit 0"}\n' % (i, needs, "on: all, " if nodes > 1 else "")
    if gate:
        text += "  gate: {run: 'until test -e %s; do sleep 0.02; done'}\n" % gate
    write(name + ".yaml", text)


# Painted: the paint time of the element itself (Element Timing), which is marked before the frame that shows it first.
MARKS = """(() => {
    const times = {}, parts = {head: '.runhead h1 + h1', tasks: '.boxrow .name'}, small = location.pathname.includes('/api/');
    const take = (name, t) => {
        times[name] = times[name] || t;
        if (times.first && (small || times.head && times.tasks))
            window.measured?.(JSON.stringify(times));
    };
    const watch = new MutationObserver(() => {
        for (const [name, selector] of Object.entries(parts)) {
            const el = document.querySelector(selector);
            if (el !== null && el.textContent !== '') {
                el.setAttribute('elementtiming', name);
                delete parts[name];
            }
        }
        if (Object.keys(parts).length === 0)
            watch.disconnect();
    });
    new PerformanceObserver((list) => list.getEntries().forEach((e) => e.name === 'first-contentful-paint' && take('first', e.startTime)))
        .observe({type: 'paint', buffered: true});
    new PerformanceObserver((list) => list.getEntries().forEach((e) => take(e.identifier, e.renderTime || e.startTime))).observe({type: 'element', buffered: true});
    watch.observe(document, {childList: true, subtree: true});
})()"""


def median(values):
    return sorted(values)[len(values) // 2]


def timed(one, path):
    """Milliseconds since the navigation began: {first, head, tasks}."""
    one.told.clear()
    one.call("Page.navigate", {"url": "about:blank"})
    one.call("Page.navigate", {"url": bed.url + path})
    return json.loads(one.hear("measured"))


def paints(one, rounds):
    what = {"api/v1/health": ("a page of one word", {"first": "-"}),
            "runs/1": ("1,000 tasks", {"first": "100 ms", "head": "100 ms", "tasks": "-"}),
            "runs/2": ("10,000 instances", {"first": "250 ms", "head": "250 ms", "tasks": "-"})}
    words = {"first": "first contentful paint", "head": "state and name are painted", "tasks": "the first tasks are painted"}
    times = {path: [] for path in what}
    for i in range(rounds + 2):
        for path in what:
            got = timed(one, path)
            if i >= 2:  # the first fill caches
                times[path].append(got)
    for path, (name, limits) in what.items():
        for part, limit in limits.items():
            values = sorted(t[part] for t in times[path])
            line("%s: %s, median of %d" % (name, words[part], rounds),
                 "%.0f ms" % median(values), "%s   (%.0f to %.0f)" % (limit, values[len(values) // 4], values[-1 - len(values) // 4]))


def traced(one, path, name):
    cpu = []
    for _ in range(TRACED):
        one.call("Page.navigate", {"url": "about:blank"})
        one.trace()
        timed(one, path)
        cpu.append(sum(t[0] for t in one.traced_tasks()))
    line("%s: CPU of the page until then, median of %d" % (name, TRACED), "%.0f ms" % median(cpu), "-")


def follow(one, no):
    """What the page does in each task of its thread while 1,000 tasks of a run that it shows begin and end."""
    follower = bed.begin_run("gated.yaml")
    bed.until("the run waits", lambda: "running" in flow("status", str(no)))
    one.go(bed.url + "runs/%d" % no)
    one.wait("document.querySelector('.boxrow.st-running') !== null && document.querySelector('.live').dataset.kind === 'live'")
    one.eval("new MutationObserver(() => document.title.startsWith('✓') && ended('')).observe(document.querySelector('title'), {childList: true})")
    one.told.clear()
    one.trace()
    write("go", "")
    one.hear("ended", 120)
    os.remove("go")
    follower.wait()
    return one.traced_tasks()


def frames(one, first):
    runs = [follow(one, no) for no in range(first, first + FOLLOWED)]
    of = {"CPU of script a frame": [[t[1] for t in tasks if t[2]] for tasks in runs],
          "CPU of script between frames": [[t[1] for t in tasks if not t[2]] for tasks in runs],
          "all that the page does at once": [[t[0] for t in tasks] for tasks in runs]}
    line("frames while 1,000 tasks end, of each of %d runs" % len(runs), " ".join(str(len(f)) for f in of["CPU of script a frame"]), "-")
    line("CPU of script a frame, median", "%.1f ms" % median(sum(of["CPU of script a frame"], [])), "8 ms")
    for what, values in of.items():
        most = sorted(max(v) for v in values)
        line("%s: the most of a run, median and most" % what, "%.1f, %.1f ms" % (median(most), most[-1]), "8 ms" if "script" in what else "-")


def main():
    os.environ["TEST_DEADLINE"] = "0"
    begin()
    sizes()
    wide("thousand", 1000, 1)
    wide("many", 1000, 10)
    wide("gated", 1000, 1, os.path.join(bed.folder, "go"))
    bed.serve()
    flow("thousand.yaml")
    flow("many.yaml")
    one = page()
    log_in(one)
    for domain in ("Network", "Log"):
        one.call(domain + ".disable")
    for name in ("measured", "ended"):
        one.tell(name)
    mark = one.call("Page.addScriptToEvaluateOnNewDocument", {"source": MARKS})
    paints(one, int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
    traced(one, "runs/1", "1,000 tasks")
    traced(one, "runs/2", "10,000 instances")
    one.call("Page.removeScriptToEvaluateOnNewDocument", mark)
    frames(one, 3)
    check("no errors: %s" % one.errors, one.errors == [])
    finish()


if __name__ == "__main__":
    main()
