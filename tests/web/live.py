#!/usr/bin/env python3
"""A run in the browser: what goes on is seen at once, its log is followed, it is cancelled; over a
restart of the host nothing is missed. usage: live.py BUILD"""
import signal

import bed
from bed import FOLLOWS, begin, begin_run, check, clean_page, finish, flow, log_in, page, same, serve, stop_host, until, write

LINES = 300
PIPELINE = """
name: live
env: {W: "${{ env.W }}"}
tasks:
  first: {run: "echo begun; until test -e $W/go.first; do sleep 0.02; done"}
  talk:
    needs: [first]
    run: "i=0; while test $i -lt %d; do i=$((i + 1)); echo line $i; done; until test -e $W/go.talk; do sleep 0.02; done; echo the end"
  last: {needs: [talk], run: "until test -e $W/go.last; do sleep 0.02; done"}
""" % LINES


EARLY = """
name: early
tasks:
  first: {run: "until test -e %(f)s/go.early; do sleep 0.02; done"}
  again: {retry: {times: 1, delay: 1s}, run: "until test -e %(f)s/go.retry; do sleep 0.02; done; test $FLOWRUN_ATTEMPT_NO = 2 || exit 7; until test -e %(f)s/go.later; do sleep 0.02; done; exit 8"}
"""
# Keeps what the stream is asked to go on from, and counts how often all instances are read; of a page with hold=1 their answers
# are held until letGo() is called. Nothing is looked at again but for what the stream tells.
WATCHED = """(() => { const interval = window.setInterval; window.setInterval = (fn, ms) => interval(fn, ms === 5000 ? 1e9 : ms);
    const real = window.fetch; window.asked = []; window.reads = 0; const held = new Promise((go) => { window.letGo = go; });
    window.told = []; window.heard = new BroadcastChannel('flowrun /');
    heard.onmessage = ({data}) => told.push(...(data.event === 'inst' ? data.data.changes : []).map(([, state]) => state));
    window.fetch = async (what, options) => { const path = String(what);
        if (path.includes('/stream')) window.asked.push(options?.headers?.['Last-Event-ID'] ?? null);
        const answer = await real(what, options); if (path.includes('form=columns')) { window.reads++; if (location.search.includes('hold')) { window.holding = true; await held; } }
        return answer; }; })()"""


def row(no):
    return "document.querySelector('tr.row[data-no=\"%d\"]')" % no


def state(no):
    return "%s?.querySelector('.state').innerText.includes" % row(no)


def shown(one):
    """Numbers of the log's lines that are in the document, and their texts."""
    return one.eval("[...document.querySelectorAll('.ln')].map((l) => [Number(l.dataset.line) + 1, l.querySelector('.tx').textContent])")


def list_is_live(one):
    one.go(bed.url + "runs")
    one.wait_text("No runs yet")
    one.wait("document.querySelector('.live').dataset.kind === 'live'", what="a live stream")
    follower = begin_run("live.yaml")
    one.wait(state(1) + "('running')", what="the run in the list")
    follower.kill()  # from now on the host alone drives the run
    follower.wait()
    one.eval(row(1) + ".focus()")
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/1')", what="the run's page by Enter")


def log_is_followed(one):
    one.go(bed.url + "runs/1?tab=logs&i=" + "talk@local")
    one.wait("document.querySelector('.lognote:not([hidden])') !== null", what="a log that is not there yet")
    write("go.first", "")
    one.wait_text("line %d" % LINES)
    same("the newest lines are numbered", shown(one)[-1], [LINES, "line %d" % LINES])
    one.eval("document.querySelector('.logbox').scrollTop = 0")
    one.wait("document.querySelector('.ln .tx').textContent === 'line 1'", what="the first line")
    one.wait(FOLLOWS + " === 'false'", what="no follow behind a scroll")
    one.go(bed.url + "runs/1?tab=logs&i=talk@local#L120")
    one.wait("document.querySelector('.ln.picked .tx')?.textContent === 'line 120'", what="the line of the address")
    check("it is in view", one.eval("(() => { const r = document.querySelector('.ln.picked').getBoundingClientRect();"
                                    " const b = document.querySelector('.logbox').getBoundingClientRect();"
                                    " return r.top >= b.top && r.bottom <= b.bottom; })()"))
    count = len(shown(one))
    check("a window of the lines is in the document: %d" % count, count < 250)


def restart(one):
    """The stream goes on with the next host: what changed meanwhile, and what changes then, is shown."""
    port = int(bed.url.rsplit(":", 1)[1].strip("/"))
    one.eval("document.querySelector('.logbox').focus()")
    one.key("f")
    stop_host(signal.SIGKILL)
    one.wait("document.querySelector('.live').dataset.kind !== 'live'", what="a stale mark")
    same("which says so", one.eval("document.querySelector('.live').innerText.includes('stale')"), True)
    write("go.talk", "")
    serve(port)
    one.wait("document.querySelector('.live').dataset.kind === 'live'", 60, "a live mark again")
    one.wait_text("the end", 60)
    lines = shown(one)
    same("no line twice, none missed", [n for n, _ in lines], list(range(lines[0][0], LINES + 2)))
    one.wait("document.querySelector('.runhead .progress').innerText.includes('2 of 3')", 60, "two of three")
    asked = one.eval("asked")
    check("each further stream goes on from what was read: %s" % asked, len(asked) > 1 and all(asked[1:]))  # the first may go on from an earlier page's


def early(one):
    """What happens while a run's instances are read is there with them. A retry, a failure and an end read nothing again."""
    begin_run("early.yaml")
    no = 5
    until("the run has begun", lambda: flow("status", str(no)).count("running") > 2)
    one.go(bed.url + "runs/%d?task=again&hold=1" % no)
    one.wait("window.holding === true && document.querySelector('.live')?.dataset.kind === 'live'", what="instances that are read")
    write("go.early", "")
    until("its first task is over", lambda: flow("status", str(no)).count("succeeded") == 1)
    one.wait("told.includes('succeeded')", what="news of it, which comes by the stream")
    one.eval("letGo()")
    one.wait("document.querySelector('.runhead .progress').innerText.includes('1 of 2')", what="what happened meanwhile")
    write("go.retry", "")
    one.wait("told.includes('retrying') && document.querySelector('.instances')?.innerText.includes('exit code 7')", what="why the attempt failed")
    one.wait_text("attempt 2")
    write("go.later", "")
    one.wait("document.querySelector('.failure:not([hidden])')?.innerText.includes('exit code 8')", what="why the task failed")
    one.wait("document.title.startsWith('✗')", what="its end")
    one.wait("document.querySelector('.runhead .progress').innerText.includes('2 of 2')", what="both tasks, each once")
    same("reads of its instances", one.eval("reads"), 1)


def cancel(one):
    one.press("Cancel")
    one.wait("document.querySelector('dialog[open]') !== null", what="a question")
    check("it says what it stops", "Stops 1 task on 1 node. last@" in one.eval("document.querySelector('dialog').innerText"))
    one.press("Cancel the run")
    one.wait("document.title.startsWith('■')", what="the end in the title")
    check("the run is cancelled", "cancelled" in flow("status", "1"))


def gap(one):
    """A run that ended between the load of its page and the begin of the stream."""
    begin_run("gap.yaml")
    until("the run has begun", lambda: "running" in flow("status", "2"))
    one.call("Network.setBlockedURLs", {"urls": ["*/api/v1/stream*"]})
    one.go(bed.url + "runs/2")
    one.wait("document.title.startsWith('▶') && document.querySelector('.live').dataset.kind === 'stale'", what="a page without a stream")
    write("go.gap", "")
    until("it is over", lambda: "succeeded" in flow("status", "2"))
    one.call("Network.setBlockedURLs", {"urls": []})
    one.click(".live")
    one.wait("document.title.startsWith('✓')", what="what happened before the stream")


def list_gap(one):
    """A run that began and ended between the load of a list and the begin of the stream; a page's last runs are a list, too."""
    for no, where, seen in ((3, "runs", row(3) + " !== null"), (4, "pipelines/quick", "document.querySelector('a[href=\"runs/4\"]') !== null")):
        one.call("Network.setBlockedURLs", {"urls": ["*/api/v1/stream*"]})
        one.go(bed.url + where)
        one.wait("document.querySelector('main h1') !== null && document.querySelector('.live')?.dataset.kind === 'stale'", what="a list without a stream")
        one.wait("document.querySelector('main').innerText.includes('#%d')" % (no - 1), what="the list")
        flow("served/quick.yaml")
        one.call("Network.setBlockedURLs", {"urls": []})
        one.click(".live")
        one.wait(seen, what="in %s the run before the stream" % where)


def main():
    begin()
    write("live.yaml", PIPELINE)
    write("gap.yaml", 'name: gap\ntasks: {t: {run: "until test -e %s/go.gap; do sleep 0.02; done"}}\n' % bed.folder)
    write("early.yaml", EARLY % {"f": bed.folder})
    write("served/quick.yaml", 'name: quick\ntasks: {t: {run: "true"}}\n')
    serve()
    one = page()
    log_in(one)
    one.call("Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED})
    list_is_live(one)
    log_is_followed(one)
    clean_page("until the host ended", one)
    restart(one)
    cancel(one)
    gap(one)
    list_gap(one)
    early(one)
    finish()


main()
