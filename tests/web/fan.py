#!/usr/bin/env python3
"""Forty tasks between two are one box with their counts, which fills the width with the others; those that fail come out of
it while they are looked at; it is unfolded and folded, by keys too, and what has the focus keeps it. usage: fan.py BUILD"""
import bed
from bed import begin, begin_run, check, clean_page, finish, log_in, page, same, serve, until, write
from look import looks

TASKS, FAILED = 40, (7, 23)
BOXES = "[...document.querySelectorAll('.box')].map((b) => b.getAttribute('aria-label'))"
ROWS = "[...document.querySelectorAll('.boxrow')].map((b) => b.innerText.replace(/\\s+/g, ' ').trim())"
SHARE = "document.querySelector('.stage > g').getBoundingClientRect().width / document.querySelector('.stage').clientWidth"


def pipeline():
    lines = ["name: fan", "tasks:", "  begin: {run: 'true'}"]
    for i in range(TASKS):
        run = "until test -e %s/go.%d; do sleep 0.02; done; exit 3" % (bed.folder, i) if i in FAILED else "true"
        lines.append("  part_%d: {needs: [begin], run: '%s'}" % (i, run))
    lines.append("  end: {needs: [%s], run: 'true'}" % ", ".join("part_%d" % i for i in range(TASKS)))
    return "\n".join(lines) + "\n"


def boxes(one, want, what):
    one.wait("JSON.stringify(%s.sort()) === JSON.stringify(%r)" % (BOXES, sorted(want)), what="%s: %s" % (what, want))


def failing(one):
    one.go(bed.url + "runs/1")
    boxes(one, ["begin: 1 succeeded", "40 tasks: 38 succeeded, 2 running", "end: 1 waiting"], "one box for forty")
    check("the width is filled", one.eval(SHARE) > 0.8)
    one.eval("document.querySelector('[aria-label^=\"40 tasks\"]').focus()")
    for n, i in enumerate(FAILED, 1):
        write("go.%d" % i, "")
        one.wait("%s.includes('part_%d: 1 failed')" % (BOXES, i), what="what failed, in a box of its own")
        check("the focus is where it was", one.eval("document.activeElement.getAttribute('aria-label')").startswith("%d tasks" % (TASKS - n)))
    boxes(one, ["begin: 1 succeeded", "38 tasks: 38 succeeded", "part_7: 1 failed", "part_23: 1 failed", "end: 1 upstream failed"], "at its end")


def by_keys(one):
    one.key("Enter")
    one.wait("document.querySelectorAll('.side .boxrow').length === 38", what="the tasks of the box")
    one.eval("[...document.querySelectorAll('.side button')].find((b) => b.textContent === 'Unfold').focus()")
    one.key("Enter")
    one.wait("%s.length === 42" % BOXES, what="a box for each")
    same("the focus is on the first of them", one.eval("document.activeElement.getAttribute('aria-label')"), "part_0: 1 succeeded")
    one.key("ArrowDown")
    same("and goes down", one.eval("document.activeElement.getAttribute('aria-label')"), "part_1: 1 succeeded")
    one.eval("[...document.querySelectorAll('.bar-row button')].find((b) => b.textContent === 'Fold').focus()")
    one.key("Enter")
    one.wait("%s.length === 5" % BOXES, what="one box again")
    same("the focus is on it", one.eval("document.activeElement.getAttribute('aria-label')"), "38 tasks: 38 succeeded")


def by_link(one):
    """A task that is named is shown, and found, where it is folded."""
    one.go(bed.url + "runs/1?task=part_11")
    one.wait("document.querySelector('.side h3')?.textContent === 'part_11'", what="the task")
    one.wait("document.querySelector('.box.chosen')?.getAttribute('aria-label').startsWith('38 tasks')", what="its box")


def on_a_phone(one):
    one.size(360, 740)
    one.go(bed.url + "runs/1")
    one.wait("JSON.stringify(%s) === JSON.stringify(['✓ begin succeeded', '✓ 38 tasks 38/38', '✗ part_7 failed', '✗ part_23 failed', '– end upstream failed'])"
             % ROWS, what="the same as a list")
    one.size(1280, 800)


def planned(one):
    """A pipeline that never ran has no states, and the same boxes."""
    one.go(bed.url + "pipelines/fan")
    boxes(one, ["begin: a task", "40 tasks: a task", "end: a task"], "a pipeline")
    one.wait_text("median")  # what stands above the boxes is there: they do not move any more
    one.click("[aria-label^='40 tasks']")
    one.press("Unfold")
    one.wait("%s.length === 42" % BOXES, what="a box for each of its tasks")


def without_rows(one):
    """A task without rows is a box and a line, with its reason."""
    write("served/none.yaml", "name: none\ntasks:\n  before: {run: 'true'}\n"
          "  fit: {needs: [before], run: 'true', matrix: {i: [1], exclude: [{i: 1}]}}\n  after: {needs: [fit], run: 'true'}\n")
    begin_run("served/none.yaml").wait()
    one.go(bed.url + "runs/2")
    boxes(one, ["before: 1 succeeded", "fit: 1 succeeded", "after: 1 succeeded"], "a run")
    one.go(bed.url + "runs/2?task=fit")
    one.wait("document.querySelector('.side')?.innerText.includes('no row of its matrix is left')", what="why")


def grows(one):
    """A task whose list is awaited is one box and one line; its elements come while the page is looked at."""
    write("served/grow.yaml", "name: grow\ntasks:\n  give: {outputs: [l], run: \"until test -e %s/give; do sleep 0.02; done; "
          "echo l=7 >> $FLOWRUN_OUTPUT\"}\n"
          "  each: {needs: [give], foreach: '[${{ tasks.give.outputs.l }}]', run: 'until test -e %s/end; do sleep 0.02; done'}\n"
          "  pair: {needs: [each], foreach: '[1, ${{ tasks.give.outputs.l }}]', run: 'true'}\n" % (bed.folder, bed.folder))
    follower = begin_run("served/grow.yaml")
    until("it goes on", lambda: "running" in bed.flow("status", "3"))
    one.go(bed.url + "runs/3?task=each")
    boxes(one, ["give: 1 running", "each: 1 waiting", "pair: 1 waiting"], "lists that are awaited")
    one.wait("document.querySelector('.side')?.innerText.includes('n elements, not known yet')", what="why it waits")
    write("give", "")
    boxes(one, ["give: 1 succeeded", "each: 1 running", "pair: 1 waiting"], "the element")
    one.wait("document.querySelector('.side').innerText.includes('each[7]')", what="in the place of what stood for it")
    write("end", "")
    boxes(one, ["give: 1 succeeded", "each: 1 succeeded", "pair: 2 succeeded"], "the elements of the other")
    follower.wait()


def main():
    begin()
    write("served/fan.yaml", pipeline())
    serve()
    one = page()
    one.call("Accessibility.enable")
    log_in(one)
    follower = begin_run("served/fan.yaml")
    until("all but two are over", lambda: bed.flow("status", "1").count("succeeded") == 39)
    failing(one)
    follower.wait()
    by_keys(one)
    by_link(one)
    on_a_phone(one)
    planned(one)
    without_rows(one)
    grows(one)
    for kind in ("light", "dark", "phone"):
        one.look(kind == "dark")
        one.size(*((360, 740) if kind == "phone" else (1280, 800)))
        looks(one, "runs/1", kind)
    clean_page("all of it", one)
    finish()


main()
