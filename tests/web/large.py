#!/usr/bin/env python3
"""A log of half a million lines: it opens at its end, a link leads to any line, a search finds, what is written
behind is followed; some hundred rows are in the document at most. Its error is marked, its time shown, its long line
shown whole. usage: large.py BUILD"""
import bed
from bed import begin, begin_run, check, clean_page, finish, flow, log_in, page, same, serve, until, write

LINES = 500000
PIPELINE = """\
name: large
tasks:
  t: {run: "seq -f 'line %%.0f of many, with some words behind it to make it longer' 1 %d; seq -s ' ' 1 3000; echo 'error: a planted one'; until test -e %s/go; do sleep 0.05; done; echo the end"}
"""


# Answers with lines by their numbers are held until window.letGo() is called: so long they are not counted yet.
HELD = """(() => { const real = window.fetch, held = new Promise((go) => { window.letGo = go; });
    window.fetch = async (...args) => { const answer = await real(...args); if (String(args[0]).includes('/log/lines')) await held; return answer; }; })()"""
SHOWN = "[...document.querySelectorAll('.ln')].map((l) => [l.querySelector('.lno').dataset.label, l.querySelector('.tx').textContent.slice(0, 11)])"


def uncounted():
    """While lines are counted the end is there, or the beginning of what succeeded, and stays where it is."""
    two = page()
    two.call("Page.addScriptToEvaluateOnNewDocument", {"source": HELD})
    two.go(bed.url + "runs/1?tab=logs&i=t@local&end=1")
    two.wait_text("error: a planted one")
    same("it has no number yet", two.eval(SHOWN)[-1][0], "")
    two.eval("letGo()")
    two.wait("%s.at(-1)[0] === '%d'" % (SHOWN, LINES + 2), what="its number")
    two.go(bed.url + "runs/1?tab=logs&i=t@local&end=1&again=1")
    two.wait_text("error: a planted one")
    two.eval("document.querySelector('.logbox').scrollTop = 9000")
    two.wait("%s[0][1].startsWith('line ')" % SHOWN, what="lines before the end")
    top = "(() => { const at = document.querySelector('.logbox').getBoundingClientRect().top; return [...document.querySelectorAll('.ln')].find((l) => l.getBoundingClientRect().top >= at - 9).querySelector('.tx').textContent; })()"
    two.eval("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")
    was = two.eval(top)
    two.eval("letGo()")
    two.wait("Number(%s[0][0]) > 400000" % SHOWN, what="numbers of those before the end")
    two.wait("%s === %r" % (top, was), what="the line that was on top: %s" % was)
    clean_page("before lines are counted", two)
    two.close()


def main():
    begin()
    write("large.yaml", PIPELINE % (LINES, bed.folder))
    serve()
    begin_run("large.yaml")
    until("all was written", lambda: "planted" in flow("logs", "1", "--tail", "1"), 90)
    one = page()
    log_in(one)
    one.go(bed.url + "runs/1?tab=logs")
    one.wait_text("error: a planted one")
    one.wait("%s.at(-1)[0] === '%d'" % (SHOWN, LINES + 2), what="numbers")
    numbers = one.eval("[...document.querySelectorAll('.ln')].map((l) => Number(l.dataset.line) + 1)")
    same("its end is shown, with its numbers", numbers[-1], LINES + 2)
    check("rows in the document: %d" % len(numbers), len(numbers) < 250)
    uncounted()
    one.go(bed.url + "runs/1?tab=logs&i=t@local#L250000")
    one.wait("document.querySelector('.ln.picked .tx')?.textContent.startsWith('line 250000 ')", what="the line of the link")
    one.eval("document.querySelector('[data-find]').focus()")
    one.type("line 400000 ")
    one.key("Enter")
    one.wait("document.querySelector('.ln.current .tx')?.textContent.startsWith('line 400000 ')", 60, "what is sought")
    one.press("Times")
    one.wait("/^\\d\\d:\\d\\d:\\d\\d$/.test(document.querySelector('.ln.current time')?.textContent)", what="when it was written")
    one.press("Times")
    one.wait("document.querySelector('.mark.bad') !== null", what="the mark of its error")
    one.eval("document.activeElement.blur()")
    one.key("e")
    one.wait("document.querySelector('.ln.bad .tx')?.textContent === 'error: a planted one'", what="the error by a key")
    one.press("show all of it")
    one.wait("[...document.querySelectorAll('.ln')].some((l) => l.innerText.trim().endsWith(' 2999 3000'))", what="all of a long line")
    one.eval("document.querySelector('.logbox').scrollTop = 0")
    one.wait("document.querySelector('.ln .tx').textContent.startsWith('line 1 ')", what="the beginning")
    one.eval("document.querySelector('.logbox').focus()")
    one.key("f")
    write("go", "")
    one.wait_text("the end")
    clean_page("all of it", one)
    finish()


main()
