#!/usr/bin/env python3
"""A run of many tasks. Its head is there before its instances are; the list that stands for its picture is built over some
frames, and changes reach all of it; what has the focus keeps it; what is not listed is found. usage: wide.py BUILD"""
import bed
from bed import begin, begin_run, check, clean_page, finish, log_in, page, same, serve, write

TASKS, LAYER, LISTED = 600, 10, 500
HELD = range(400, 410)
# Holds back answers with a run's instances and parameters until letGo() is called; others pass.
HOLD = """{ const real = window.fetch, gone = new Promise((resolve) => { window.letGo = resolve; });
    window.fetch = (url, options) => (/instances|params/.test(url.href || url) ? gone.then(() => real(url, options)) : real(url, options)); }"""
ROWS = "[...document.querySelectorAll('.boxrow .name')].map((e) => e.textContent)"
ROW = "[...document.querySelectorAll('.boxrow')].find((b) => b.querySelector('.name').textContent === 't%d')"


def pipeline():
    lines = ["name: wide", "max_parallel: 64", "nodes: [{name: n1, slots: 64}]", "tasks:"]
    for i in range(TASKS):
        needs = "" if i < LAYER else "needs: [t%d, t%d], " % (i - LAYER, i - i % LAYER - LAYER + (i + 3) % LAYER)
        run = "until test -e %s/go; do sleep 0.05; done" % bed.folder if i in HELD else "true"
        lines.append('  t%d: {%srun: "%s"}' % (i, needs, run))
    return "\n".join(lines) + "\n"


def head_first(one):
    script = one.call("Page.addScriptToEvaluateOnNewDocument", {"source": HOLD})
    one.go(bed.url + "runs/1")
    one.wait("document.querySelector('.runhead')?.innerText.includes('#1 wide')", what="its name without its instances")
    one.wait("document.querySelector('.runhead .badge')?.innerText.includes('running')", what="its state")
    same("nothing is said of its tasks yet", one.eval("document.querySelectorAll('.progress .num, .boxrow, .actions').length"), 0)
    one.call("Page.removeScriptToEvaluateOnNewDocument", script)
    one.eval("window.letGo()")
    one.wait("document.querySelector('.progress .num')?.innerText === '400 of 600'", what="how far it is")
    one.wait("document.querySelector('.actions')?.innerText.includes('Cancel')", what="what may be done to it")


def asked_for(one):
    """The shell of a run names its script, and has what is asked for first; nothing is asked for twice."""
    named = "fetch('%s').then((r) => r.text()).then((t) => [...t.matchAll(/modulepreload.*\\/(\\w+)\\.js/g)].map((m) => m[1]).join())"
    same("scripts that the shell names: of a run", one.eval(named % "runs/1"), "run")
    same("of all runs", one.eval(named % "runs"), "")
    one.wait("document.querySelector('.boxrow') !== null", what="the first of its tasks")
    seen = one.eval("performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname.split('/').at(-1))")
    for name, times in (("first.js", 1), ("app.js", 1), ("run.js", 1), ("graph.js", 1), ("graph", 1), ("me", 0)):
        same("how often %s was asked for" % name, seen.count(name), times)


def listed(one):
    one.wait("document.querySelectorAll('.boxrow').length === %d" % LISTED, what="a row for each that is listed")
    one.wait_text("The first %d" % LISTED)
    rows = one.eval(ROWS)
    for layer in (0, 1, LISTED // LAYER - 1):
        want = sorted("t%d" % i for i in range(LAYER * layer, LAYER * (layer + 1)))
        same("step %d" % (layer + 1), sorted(rows[LAYER * layer:LAYER * (layer + 1)]), want)
    same("headings of steps", one.eval("document.querySelectorAll('.layers h3').length"), LISTED // LAYER)
    same("boxes of the picture, which nobody looks at", one.eval("document.querySelectorAll('.box').length"), 0)
    for i, state in ((7, "succeeded"), (405, "running"), (495, "waiting")):
        one.wait(ROW % i + "?.textContent.includes('%s')" % state, what="t%d is %s" % (i, state))
    one.wait(r"/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+$/.test(document.querySelector('.facts time').title)", what="a time with its zone in its title")


def changes(one):
    one.eval("window.held = %s, window.held.focus()" % (ROW % 405))
    write("go", "")
    one.wait("document.title.startsWith('✓')", 60, "its end")
    for i in (405, 409, 495, 499):
        one.wait(ROW % i + ".textContent.includes('succeeded')", what="t%d has succeeded" % i)
    same("rows that say otherwise", one.eval("[...document.querySelectorAll('.boxrow')].filter((b) => !b.matches('.st-succeeded')"
                                             " || !b.textContent.includes('succeeded')).length"), 0)
    check("the focus is where it was", one.eval("document.activeElement === window.held && window.held === %s" % (ROW % 405)))


def found(one):
    one.eval("document.querySelector('[data-find]').focus()")
    same("names that are offered", one.eval("document.querySelectorAll('#task-names option').length"), TASKS)
    one.type("t59")
    one.wait(ROWS + ".sort().join() === 't59,%s'" % ",".join("t59%d" % i for i in range(10)), what="those of that name, also beyond the first")
    one.type("8")
    one.key("Enter")
    one.wait("document.querySelector('.side:not([hidden]) h3')?.textContent === 't598'", what="the pane of the one that was sought")
    one.key("Escape")
    one.key("Escape")
    one.wait("document.querySelector('.side').hidden", what="no pane")
    same("the focus is in its row", one.eval("document.activeElement.matches('.boxrow') && document.activeElement.textContent.includes('t598')"), True)
    same("boxes of the picture, which nobody looked at", one.eval("document.querySelectorAll('.box').length"), 0)
    one.press("List")
    one.wait("document.querySelectorAll('.box').length > 0", what="the picture")
    check("it was moved to its place", one.eval("document.querySelector('.stage > g').hasAttribute('transform')"))
    check("the first is in view", one.eval("(() => { const s = document.querySelector('.stage').getBoundingClientRect(); return [...document.querySelectorAll('.box')].some((b) => {"
                                           " const r = b.getBoundingClientRect(); return r.left >= s.left && r.top >= s.top && r.right <= s.right && r.bottom <= s.bottom; }); })()"))


def main():
    begin()
    write("wide.yaml", pipeline())
    serve()
    one = page()
    log_in(one)
    begin_run("wide.yaml")
    one.go(bed.url + "runs")
    one.wait("document.querySelector('tr.row') !== null", what="the run")
    bed.until("all before those that are held are over", lambda: bed.flow("status", "1").count("succeeded") >= 400, 60)
    for part in (head_first, asked_for, listed, changes, found):
        part(one)
    clean_page("all of it", one)
    finish()


main()
