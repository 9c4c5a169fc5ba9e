#!/usr/bin/env python3
"""By keys and small buttons: what "?" lists, where "g" leads, the tabs of a run, the colours, and in a log its attempts, hits,
errors, lines that are chosen and copied, and how they are shown. usage: keys.py BUILD"""
import bed
from bed import begin, begin_run, clean_page, finish, flow, log_in, page, same, serve, until, write

LINES = 400
PIPELINE = """\
name: keys
tasks:
  again:
    retry: {times: 1, delay: 0s}
    run: |
      printf 'gone\\ra \\033[31mred\\033[0m word\\n'
      for i in $(seq 2 %d); do case $i in 5|250|399) echo hit $i;; 100|300) echo Traceback $i;; *) echo line $i;; esac; done
      echo this is attempt $FLOWRUN_ATTEMPT_NO
      test $FLOWRUN_ATTEMPT_NO = 2
""" % LINES
GOES_ON = """\
name: on
env: {W: "${{ env.W }}"}
tasks:
  t:
    retry: {times: 1, delay: 0s}
    run: |
      echo begun $FLOWRUN_ATTEMPT_NO
      until test -e $W/go.more; do sleep 0.02; done
      echo more
      until test -e $W/go.next; do sleep 0.02; done
      test $FLOWRUN_ATTEMPT_NO = 2 || exit 1
      until test -e $W/go.end; do sleep 0.02; done
"""
LIST = """Everywhere
g r: Runs
g p: Pipelines
g s: Schedules
g q: Queue
g n: Nodes
g ,: Settings
?: these keys
/: find
.: actions
j: next row
k: row before
Run
1: Graph
2: Timeline
3: Logs
4: Metrics
5: Params
6: Artifacts
7: Events
Logs
f: follow
w: wrap lines
n: next hit
N: hit before
c: copy the chosen lines
e: next error
G: end"""
PICKED = "[location.hash, [...document.querySelectorAll('.ln.picked')].map((l) => l.querySelector('.tx').textContent)]"
PRESSED = "[...document.querySelectorAll('.toggle')].find((b) => b.textContent === '%s').getAttribute('aria-pressed')"
# The number of the line on top of the log, and how many there are in view.
TOP = "[Math.round(document.querySelector('.logbox').scrollTop / 18) + 1, Math.ceil(document.querySelector('.logbox').clientHeight / 18)]"


def log(one, query="", line=""):
    one.go("about:blank")
    one.go(bed.url + "runs/1?tab=logs&i=again@local" + query + line)
    one.wait("document.querySelectorAll('.ln').length > 20", what="a log")


def number(one, no, shift=False):
    """A press on the number of a line."""
    one.wait("document.querySelector('[data-no=\"%d\"]') !== null" % no, what="line %d" % no)
    one.eval("document.querySelector('[data-no=\"%d\"]').dispatchEvent(new MouseEvent('click', {bubbles: true, shiftKey: %s}))" % (no, str(shift).lower()))


def attempts(one):
    log(one)
    chips = "[...document.querySelectorAll('.attempts .chip')].map((c) => [c.textContent, c.getAttribute('aria-pressed')])"
    same("the newest attempt", one.eval(chips), [["attempt 1", "false"], ["attempt 2", "true"]])
    one.press("attempt 1")
    one.wait("%s[0][1] === 'true'" % chips, what="the first one")
    same("in the address", one.eval("location.search"), "?tab=logs&i=again@local&a=1")
    last = "[...document.querySelectorAll('.ln .tx')].at(-1).textContent"
    one.eval("document.activeElement.blur()")
    one.key("G")
    one.wait("%s === 'this is attempt 1'" % last, what="its end")
    # Keys that are pressed before the log is there are for the log that is asked for.
    one.eval("window.fetch = ((get) => (...all) => window.held ? window.held.then(() => get(...all)) : get(...all))(window.fetch)")
    for key, want in (("G", "false"), ("f", "true")):
        one.eval("window.held = new Promise((done) => { window.release = () => { window.held = null; done(); }; }); 0")
        one.press("attempt 2")
        one.eval("document.activeElement.blur()")
        one.key(key)
        one.eval("release()")
        one.wait("%s === 'this is attempt 2'" % last, what="the end of the second by " + key)
        same("followed", one.eval(PRESSED % "Follow"), want)
        one.press("attempt 1")
        one.wait("%s[0][1] === 'true' && document.querySelector('.ln .tx') !== null" % chips, what="the first again")


def chosen(one):
    """Lines that are chosen stand in the address, and are copied."""
    log(one, line="#L3")
    one.eval("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    number(one, 7)
    one.wait("window.copied !== undefined", what="a link")
    one.wait("JSON.stringify(%s) === '[\"#L7\",[\"line 7\"]]'" % PICKED, what="a line, drawn with the next frame")
    same("its link", one.eval("copied"), one.eval("location.href"))
    one.wait("document.querySelector('.toast span')?.textContent === 'The link to this line was copied'", what="which is said")
    number(one, 9, True)
    one.wait("location.hash === '#L7-L9'", what="lines")
    number(one, 6, True)
    one.wait("location.hash === '#L6-L9'", what="more lines")
    one.wait("document.querySelectorAll('.ln.picked').length === 4", what="marked")
    one.key("c")
    one.wait("copied === 'line 6\\nline 7\\nline 8\\nline 9'", what="their text")
    number(one, 5)
    one.wait("location.hash === '#L5'", what="one again")
    one.key("c")
    one.wait("copied === 'hit 5'", what="its text")


def hits(one):
    found = "document.querySelector('.bar-row > .num').textContent"
    log(one)
    one.key("/")
    one.type("hit")
    one.key("Enter")
    at = lambda n, no: (one.wait("%s === '%d of 3'" % (found, n), what="hit %d" % n),
                        one.wait("document.querySelector('.ln.current .tx')?.textContent === 'hit %d'" % no, what="its line"))
    at(1, 5)
    one.key("Enter")
    at(2, 250)
    one.key("Enter", 8)
    at(1, 5)
    one.key("Escape")
    one.key("n")
    at(2, 250)
    one.key("n")
    at(3, 399)
    one.key("n")
    at(1, 5)
    one.key("N")
    at(3, 399)
    marks = "[...document.querySelectorAll('.marks .mark')].map((m) => m.className + ' ' + m.style.top)"
    one.wait("%s.join() === 'mark bad 24.69%%,mark bad 74.56%%,mark hit 1%%,mark hit 62.09%%,mark hit 99.25%%'" % marks, what="marks beside the scroll bar")
    for no in (100, 300, 100):
        one.key("e")
        one.wait("((at) => at[0] < %d && at[0] + at[1] > %d)(%s)" % (no, no, TOP), what="error %d" % no)


def shown(one):
    """Wrapped, raw, followed."""
    log(one)
    first = "document.querySelector('.ln .tx').textContent"
    one.eval("document.querySelector('.logbox').scrollTop = 0")
    one.wait("%s === 'a red word'" % first, what="the first line")
    pressed = lambda name: one.eval(PRESSED % name)
    one.press("Raw")
    one.wait("%s === 'gone␍a red word'" % first, what="as it was written")
    same("said", pressed("Raw"), "true")
    one.press("Raw")
    one.wait("%s === 'a red word'" % first, what="in colour")
    for kept in ("1", "0"):
        one.key("w")
        one.wait("document.querySelector('.logframe').classList.contains('wrap') === %s" % ("true" if kept == "1" else "false"), what="wrapped or not")
        same("wrapping", [pressed("Wrap"), one.eval("localStorage.getItem('flowrun.wrap')")], ["true" if kept == "1" else "false", kept])
    for key, want in (("f", "true"), ("f", "false")):
        one.key(key)
        one.wait("%s === '%s'" % (PRESSED % "Follow", want), what="followed or not")
    one.press("Follow")
    one.wait("%s === 'true'" % (PRESSED % "Follow"), what="by its button")
    one.wait("((at) => at[0] + at[1] >= %d)(%s)" % (LINES, TOP), what="the end")


def grows(one):
    """A log of all tasks gets what is written; that of one goes on with its next attempt, and stays with one that was asked for."""
    texts = "[...document.querySelectorAll('.ln .tx')].map((t) => t.textContent).join()"
    begin_run("on.yaml")
    until("run 3 goes on", lambda: "running" in flow("status", "3"))
    one.go(bed.url + "runs/3?tab=logs&all=1")
    one.wait("%s === 'begun 1'" % texts, what="its first line")
    write("go.more", "")
    one.wait("%s === 'begun 1,more'" % texts, what="its next line")
    one.go(bed.url + "runs/3?tab=logs&i=t@local")
    one.wait("%s === 'begun 1,more'" % texts, what="the log of one")
    write("go.next", "")
    one.wait("%s === 'begun 2,more'" % texts, what="its next attempt")
    one.press("attempt 1")
    one.wait("%s === 'begun 1,more'" % texts, what="the first one")
    write("go.end", "")
    one.wait("document.title.startsWith('✓')", what="its end")
    same("still the first one", one.eval(texts), "begun 1,more")


def listed(one):
    log(one)
    one.eval("document.activeElement.blur()")
    one.key("?")
    one.wait("document.querySelector('dialog') !== null", what="the keys")
    same("all keys", one.eval("[...document.querySelectorAll('section.keys')].map((s) => [s.querySelector('h3').textContent, ...[...s.querySelectorAll('dt')].map((d) => "
                              "[...d.querySelectorAll('kbd')].map((k) => k.textContent).join(' ') + ': ' + d.nextSibling.textContent)].join('\\n')).join('\\n')"), LIST)
    same("one is not pressed twice", one.eval("document.querySelectorAll('dialog').length"), 1)
    one.key("Escape")
    one.wait("document.querySelector('dialog') === null", what="its end")


def tabs(one):
    names = ["graph", "timeline", "logs", "metrics", "params", "artifacts", "events"]
    now = "[document.activeElement.id, document.querySelector('[aria-selected=true]').id, document.querySelector('.panel').className, location.search, " \
          "document.querySelector('h2.unseen').textContent, document.querySelector('.panel').getAttribute('aria-labelledby')]"
    want = lambda name: ["tab-" + name, "tab-" + name, "panel " + name, "" if name == "graph" else "?tab=" + name, name.title(), "tab-" + name]
    one.go(bed.url + "runs/1")
    one.wait("document.querySelector('.box') !== null", what="the graph")
    one.eval("document.getElementById('tab-graph').focus()")
    for key, order in (("ArrowRight", names[1:] + names[:1]), ("ArrowLeft", names[:0:-1])):
        for name in order:
            one.key(key)
            same("the tab %s by %s" % (name, key), one.eval(now), want(name))
    one.eval("document.activeElement.blur()")
    for i, name in enumerate(names):
        one.key(str(i + 1))
        same("the tab %s by its number" % name, one.eval(now)[1:], want(name)[1:])


def ways(one):
    for key, to in (("p", "pipelines"), ("s", "schedules"), ("q", "queue"), ("n", "nodes"), (",", "settings"), ("r", "runs")):
        one.keys("g", key)
        one.wait("location.pathname === '/%s' && document.querySelector('#top [aria-current]').getAttribute('href') === '%s'" % (to, to), what="g " + key)
    one.wait("document.querySelectorAll('tr.row').length === 2", what="two runs")
    for key, no in (("j", "2"), ("j", "1"), ("j", "1"), ("k", "2"), ("k", "2")):
        one.key(key)
        same("the row by " + key, one.eval("document.activeElement.dataset.no"), no)


def colours(one):
    said = "(() => { const b = document.querySelector('#top .icon[title^=Colours]'); return [b.textContent, b.title, b.ariaLabel, localStorage.getItem('flowrun.theme')," \
           " document.documentElement.dataset.theme || '']; })()"
    ground = "getComputedStyle(document.body).backgroundColor"
    same("at first", one.eval(said), ["◐", "Colours: as the system", "Colours: as the system", None, ""])
    for glyph, word, name, rgb in (("☀", "light", "light", "rgb(255, 255, 255)"), ("☾", "dark", "dark", "rgb(20, 23, 28)"), ("◐", "as the system", "", "rgb(255, 255, 255)")):
        one.eval("document.querySelector('#top .icon[title^=Colours]').click()")
        same("colours", one.eval(said), [glyph, "Colours: " + word, "Colours: " + word, name, name])
        same("the ground", one.eval(ground), rgb)
    one.eval("document.querySelector('#top .icon[title^=Colours]').click()")
    one.look(True)
    one.go(bed.url + "queue")
    same("kept over a load, whatever the system has", one.eval(ground), "rgb(255, 255, 255)")
    one.look(False)


def out(one):
    one.press("uid")
    one.press("Log out")
    one.wait("document.querySelector('form.login') !== null", what="the login")
    same("where one is", one.eval("location.pathname"), "/")
    one.errors.clear()  # 401 is what says that a login is needed


def main():
    begin()
    write("keys.yaml", PIPELINE)
    write("on.yaml", GOES_ON)
    serve()
    flow("keys.yaml")
    flow("keys.yaml")
    one = page()
    log_in(one)
    for part in (attempts, chosen, hits, shown, listed, tabs, ways, colours, grows):
        part(one)
    clean_page("all of it", one)
    out(one)
    finish()


main()
