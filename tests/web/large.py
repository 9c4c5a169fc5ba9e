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
    numbers = one.eval("[...document.querySelectorAll('.ln')].map((l) => Number(l.dataset.line) + 1)")
    same("its end is shown, with its numbers", numbers[-1], LINES + 2)
    check("rows in the document: %d" % len(numbers), len(numbers) < 250)
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
