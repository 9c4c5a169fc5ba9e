#!/usr/bin/env python3
"""By hand: every page in light, dark and 360 pixels wide by axe-core, whose script lies in packages of Python's such as
axe-playwright-python, in an environment outside of this tree. Prints what it finds; exits with 1 where that is anything.
usage: axe.py BUILD AXE.JS"""
import os
import sys

import bed
import sample
from bed import begin, check, finish, log_in, page
from look import PAGES

# What opens on a page, too: [where, what opens it].
OPENED = [("runs/2", "document.querySelector('.menubox button').click()"),
          ("runs/4", "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Cancel').click()"),
          ("pipelines/fine-tune", "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Run …').click()"),
          ("runs/1", "document.querySelector('[aria-label=Keyboard]').click()"),
          ("runs/1?tab=timeline", "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Table').click()"),
          ("runs/1?tab=metrics", "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Table').click()"),
          ("pipelines/nightly", "[...document.querySelectorAll('button')].find((b) => b.textContent === 'Backfill …').click()"),
          ("runs/2?tab=logs&all=1", "const f = document.querySelector('[data-find]'); f.value = 'o'; f.focus();"
           " f.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}));"
           " if (document.querySelector('.hits').hidden) throw 0"),
          ("runs/1?task=train", "0"), ("runs/1?tab=logs&i=train&all=1", "0"), ("runs/1?tab=params&with=2", "0"),
          ("settings", "[...document.querySelectorAll('button')].find((b) => b.textContent.startsWith('New token')).click()")]
RUN = """(async () => {
    const {violations} = await axe.run(document, {resultTypes: ['violations']});
    return violations.map((v) => `${v.impact} ${v.id}: ${v.help}\\n` + v.nodes.slice(0, 4).map((n) => `      ${n.html.slice(0, 160)}\\n        ${n.any.concat(n.all).map((c) => c.message)[0]}`).join('\\n'));
})()"""


def look_at(one, script, where, kind, opens=None):
    one.go(bed.url + where)
    one.wait("document.querySelector('main').children.length > 0 && document.querySelector('.loading') === null")
    one.wait("document.querySelector('main h1') !== null")
    if opens:
        one.wait("(() => { %s; return true; })()" % opens, what=opens)
    one.eval("new Promise((resolve) => setTimeout(resolve, 200))")
    one.eval(script + "; 0")
    for found in one.eval(RUN):
        check("%s, %s%s: %s" % (where, kind, ", opened" if opens else "", found), False)
    check("", True)


def main():
    with open(sys.argv[2], encoding="utf-8") as f:
        script = f.read()
    os.environ["TEST_DEADLINE"] = "0"
    begin()
    sample.make()
    one = page()
    log_in(one)
    for kind in ("light", "dark", "phone"):
        one.look(kind == "dark")
        one.size(*((360, 740) if kind == "phone" else (1280, 800)))
        for where in PAGES:
            look_at(one, script, where, kind)
        for where, opens in OPENED:
            look_at(one, script, where, kind, opens)
    finish()


main()
