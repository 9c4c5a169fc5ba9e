#!/usr/bin/env python3
"""The page of a run has its head before a script runs: it is what the scripts would draw, stays as it is while they begin, and
then changes with the run. usage: first.py BUILD"""
import re
import urllib.request

import bed
from bed import begin, begin_run, check, clean_page, finish, flow, log_in, page, same, serve, until, write

WAITS = 'name: %s\nmax_active_runs: 1\ntasks: {t: {run: "until test -e %s/go.%s; do sleep 0.02; done"}}\n'
HEADS = "[...document.querySelectorAll('.runhead h1')].map((e) => e.outerHTML).join('')"
# What the head, its title and the document's parts said, each once, from where the document has been read to its end (its parser
# may pause anywhere) and before the first script runs; requests for instances are held while window.hold is true.
WATCHED = """(() => {
    window.said = []; const held = new Promise((go) => { window.letGo = go; }), real = window.fetch;
    const look = () => { const now = JSON.stringify([document.title, [...document.querySelectorAll('main h1')].map((e) => e.textContent),
        document.querySelectorAll('.runhead').length, document.querySelectorAll('main').length]);
        if (document.readyState !== 'loading' && document.querySelector('main h1') && said.at(-1) !== now) said.push(now); };
    document.addEventListener('readystatechange', look);
    new MutationObserver(look).observe(document, {childList: true, subtree: true, characterData: true});
    window.fetch = async (what, options) => { if (window.hold && String(what).includes('/instances')) await held; return real(what, options); };
})()"""
OVER = "document.querySelector('.boxrow, .box') !== null && document.querySelector('.live')?.dataset.kind === 'live'"


def sent(path, token):
    """The document of a page as the host sends it."""
    request = urllib.request.Request(bed.url + path, headers={"Authorization": "Bearer " + token} if token else {})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode(), answer.headers["Cache-Control"]


def drawn(one, no):
    """The head as the scripts draw it, for a page that is opened from another one."""
    one.go(bed.url + "runs")
    one.wait("document.querySelector('tr.row[data-no=\"%d\"]') !== null" % no, what="run %d in the list" % no)
    one.eval("document.querySelector('tr.row[data-no=\"%d\"] a').click()" % no)
    one.wait("document.querySelector('.runhead h1 + h1')?.textContent.startsWith('#%d ')" % no, what="its page")
    one.wait(OVER, what="all of it")
    return one.eval(HEADS), one.eval("document.title")


def same_heads(one, token):
    for no in range(1, 6):
        heads, title = drawn(one, no)
        text, cache = sent("runs/%d" % no, token)
        same("run %d: what is sent is what is drawn" % no, "".join(re.findall("<h1.*?</h1>", text)), heads)
        same("its title", re.search("<title>(.*?)</title>", text).group(1), title)
        same("how long it is kept", cache, "no-store")


def nobody(one, token):
    text, cache = sent("runs/1", "")
    check("who is not logged in is sent nothing of it", "quick" not in text and "<h1" not in text and cache == "private, no-cache")
    for path in ("runs/99", "runs/x"):
        check("%s: there is nothing to be sent" % path, "<h1" not in sent(path, token)[0])
    one.go(bed.url + "runs/99")
    one.wait_text("99")
    one.wait("document.querySelector('main .error') !== null", what="that there is no such run")
    same("no head of it", one.eval("document.querySelector('.runhead')"), None)
    same("where to go", one.eval("[...document.querySelectorAll('main a, main button')].map((e) => e.textContent)"), ["All runs"])
    one.go(bed.url + "nowhere")
    one.wait_text("There is no such page")
    one.errors.clear()  # the 404


def stays(one):
    """No other text in between, nothing twice; what has the focus keeps it while the run goes on."""
    for no in (1, 4):
        one.go("about:blank")
        one.go(bed.url + "runs/%d" % no)
        one.wait(OVER, what="run %d" % no)
        check("run %d: its head said one thing: %s" % (no, one.eval("said")), len(one.eval("said")) == 1)
    check("it runs: %s" % one.eval("said"), "running" in one.eval("said")[0])
    one.eval("document.querySelector('.runhead h1 a').focus()")
    write("go.four", "")
    one.wait("document.title.startsWith('✓') && document.querySelector('.runhead h1').textContent === '✓succeeded'", what="its end")
    same("the focus", one.eval("document.activeElement.textContent"), "four")
    check("and nothing else: %s" % one.eval("said"), len(one.eval("said")) <= 3)  # the title and the head, one behind the other


def ends_early(one):
    """A run that ends behind what is sent of it, before its instances are read; no stream tells of it."""
    begin_run("five.yaml")
    until("the run has begun", lambda: "running" in flow("status", "6"))
    one.go("about:blank")
    one.call("Network.setBlockedURLs", {"urls": ["*/api/v1/stream*"]})
    hold = one.call("Page.addScriptToEvaluateOnNewDocument", {"source": "window.hold = true"})
    one.go(bed.url + "runs/6")
    one.wait("document.title.startsWith('▶') && document.querySelector('.live')?.dataset.kind === 'stale'", what="its head alone")
    write("go.five", "")
    until("it is over", lambda: "succeeded" in flow("status", "6"))
    one.eval("letGo()")
    one.wait("document.title.startsWith('✓') && document.querySelector('.runhead h1').textContent === '✓succeeded'", what="its end")
    one.call("Page.removeScriptToEvaluateOnNewDocument", hold)
    one.call("Network.setBlockedURLs", {"urls": []})
    one.errors.clear()  # the stream


def looks_only(one):
    """The role view has the head, and no buttons."""
    secret = re.search(r"frt_[\w-]+", flow("token", "new", "eyes", "--role", "view")).group(0)
    one.eval("fetch('api/v1/logout', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'}).then((r) => r.status)")
    one.go(bed.url + "runs/1")
    one.wait("document.querySelector('input[type=password]') !== null", what="the login")
    same("nothing of the run beside it", one.eval("document.querySelectorAll('.runhead').length"), 0)
    one.eval("document.querySelector('input[type=password]').focus()")
    one.type(secret)
    one.key("Enter")
    one.wait(OVER, what="the page behind the login")
    one.go("about:blank")
    one.go(bed.url + "runs/1")
    one.wait(OVER, what="the page once more")
    check("its head said one thing: %s" % one.eval("said"), len(one.eval("said")) == 1)
    check("there is nothing to press", one.eval("document.querySelector('.runhead button')") is None)
    one.errors.clear()  # the 401 of the login
    return secret


def main():
    begin()
    write("served/quick.yaml", 'name: quick\ntasks: {t: {run: "true"}}\n')
    write("bad.yaml", 'name: bad\ntasks: {t: {run: "exit 3"}}\n')
    for name in ("three", "four", "five"):
        write(name + ".yaml", WAITS % (name, bed.folder, name))
    serve()
    token = re.search(r"frt_[\w-]+", flow("token", "new", "all", "--role", "operate")).group(0)
    flow("served/quick.yaml")
    flow("bad.yaml")
    begin_run("three.yaml")
    until("the third run has begun", lambda: "running" in flow("status", "3"))
    flow("cancel", "3")
    begin_run("four.yaml")
    until("the fourth run has begun", lambda: "running" in flow("status", "4"))
    begin_run("four.yaml")
    until("the fifth run waits", lambda: "queued" in flow("status", "5"))
    one = page()
    log_in(one)
    one.call("Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED})
    same_heads(one, token)
    nobody(one, token)
    stays(one)
    ends_early(one)
    looks_only(one)
    clean_page("all of it", one)
    finish()


main()
