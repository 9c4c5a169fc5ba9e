#!/usr/bin/env python3
"""The pages' budgets: bytes of the files, first paint of large runs, script a frame while they change. Times by the
clock depend on what else the machine does, CPU less so. Prints a table; fails on nothing but a page that does not
show. usage: page.py BUILD"""
import gzip
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/web"))
import bed  # noqa: E402
from bed import begin, finish, flow, check, log_in, page, write  # noqa: E402

STATIC = os.path.join(ROOT, "engine/web/static")


def line(what, got, limit):
    print("%-58s %10s   limit %s" % (what, got, limit))


def sizes():
    sys.path.insert(0, os.path.join(ROOT, "engine/web"))
    from embed import read
    files = read(STATIC)
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


def wide(name, tasks, nodes):
    """Layers of ten tasks; each needs two of the layer before."""
    text = "name: %s\nmax_parallel: 64\nnodes: [%s]\ntasks:\n" % (name, ", ".join("{name: n%d}" % i for i in range(1, nodes + 1)))
    for i in range(tasks):
        needs = "" if i < 10 else "needs: [t%d, t%d], " % (i - 10 - i % 10 + (i * 7) % 10, i - 10 - i % 10 + (i * 3 + 1) % 10)
        if needs and needs.split("[t")[1].split(",")[0] == needs.split(", t")[1].split("]")[0]:
            needs = "needs: [t%d], " % (i - 10)
        text += '  t%d: {%s%srun: "exit 0"}\n' % (i, needs, "on: all, " if nodes > 1 else "")
    write(name + ".yaml", text)


# Notes when the first box of the graph, or of the list that stands for it, is there.
SEEN = """(() => { const look = () => { if (document.querySelector('.box, .boxrow')) window.graphSeen = performance.now(); else requestAnimationFrame(look); };
    requestAnimationFrame(look); })()"""


def median(values):
    return sorted(values)[len(values) // 2]


def first_paint(one, no, what, limit):
    times, cpu = [], []
    one.call("Page.addScriptToEvaluateOnNewDocument", {"source": SEEN})
    for _ in range(5):
        one.go("about:blank")
        one.trace()
        one.go(bed.url + "runs/%d" % no)
        times.append([one.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"),
                      one.wait("window.graphSeen")])
        cpu.append(sum(one.traced_ms("RunTask")))
    line("%s: first paint, median of 5" % what, "%.0f ms" % median([t[0] for t in times]), limit)
    line("%s: its graph is seen" % what, "%.0f ms" % median([t[1] for t in times]), "-")
    line("%s: CPU of the page until then" % what, "%.0f ms" % median(cpu), limit)


def frames(one, no):
    """CPU of script in each frame while a run of 1,000 tasks goes on, and of all that the page does. Whether it went on."""
    one.go(bed.url + "runs")
    one.wait("document.querySelectorAll('tr.row').length === %d" % (no - 1))
    follower = bed.begin_run("thousand.yaml")
    one.wait("document.querySelectorAll('tr.row').length === %d" % no)
    one.go(bed.url + "runs/%d" % no)
    one.wait("window.graphSeen")
    if one.eval("document.title.startsWith('✓')"):
        follower.wait()
        return False  # it was over before it was looked at
    one.trace()
    one.wait("document.title.startsWith('✓')", 120)
    took = one.eval("document.querySelector('.fact .num')?.textContent || ''")
    spent, tasks = one.traced_ms("FireAnimationFrame"), one.traced_ms("RunTask")
    line("CPU of script a frame while 1,000 tasks end in %s, of %d" % (took, len(spent)), "%.1f ms" % median(spent), "8 ms")
    line("the same, the most", "%.1f ms" % spent[-1], "8 ms")
    line("all that the page does at once, the most", "%.1f ms" % tasks[-1], "-")
    follower.wait()
    return True


def main():
    os.environ["TEST_DEADLINE"] = "0"
    begin()
    sizes()
    wide("thousand", 1000, 1)
    wide("many", 1000, 10)
    bed.serve()
    flow("thousand.yaml")
    flow("many.yaml")
    one = page()
    log_in(one)
    first_paint(one, 1, "1,000 tasks", "100 ms")
    first_paint(one, 2, "1,000 tasks, 10,000 instances", "250 ms")
    check("frames of a run that went on", any(frames(one, no) for no in range(3, 10)))
    check("no errors: %s" % one.errors, one.errors == [])
    finish()


if __name__ == "__main__":
    main()
