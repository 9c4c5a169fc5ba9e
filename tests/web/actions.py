#!/usr/bin/env python3
"""What is done in the browser: a run is started with a parameter, seen to fail in its graph, retried, repeated with
another parameter; a schedule is paused, its past times are made up; messages are sent again; a token is made and lets one in. All with the keyboard where keys are named.
usage: actions.py BUILD"""
import json
import os

import bed
from bed import begin, check, clean_page, finish, flow, log_in, page, same, serve, until, write

PIPELINE = """\
name: act
params:
  who: {default: nobody, help: whom to greet}
  go: {default: none, help: file that lets the second task succeed}
schedule: {cron: "30 2 * * *", zone: UTC}
tasks:
  first: {env: {WHO: "${{ params.who }}"}, run: "echo hello $WHO; sleep 0.3"}
  second: {needs: [first], env: {GO: "${{ params.go }}"}, run: "echo looking; test -e $GO"}
  third: {needs: [second], run: "echo done"}
"""
CONFIG = """\
channels:
  pager: {kind: command, command: [sh, -c, 'cat > "$W/told"']}
  down: {kind: webhook, url: "http://127.0.0.1:9/planted-path"}
notify: [{on: failed, to: [pager, down], throttle: 1s}, {on: schedule_missed, to: pager, quiet: 22:00-07:05}]
"""


def box(name):
    """The classes of a task's box."""
    return "[...document.querySelectorAll('.box')].find((b) => b.getAttribute('aria-label').startsWith('%s:'))?.getAttribute('class')" % name


def field(one, name, text):
    one.wait("document.querySelector('dialog [name=%s]') !== null" % name, what="a field " + name)
    one.eval("(() => { const f = document.querySelector('dialog [name=%s]'); f.focus(); f.select(); })()" % name)
    one.type(text)


def listed():
    """What the list says of run 1, and the history of its pipeline: both looked at it before."""
    runs, past = (json.loads(flow("api", path))["items"] for path in ("runs", "pipelines/act/history"))
    return [next(r["counts"] for r in runs if r["no"] == 1), past[0]["states"]]


def start(one):
    one.go(bed.url + "pipelines")
    one.wait_text("act")
    one.key("j")
    one.key("Enter")
    one.wait("location.pathname.endsWith('/pipelines/act')", what="the pipeline's page by keys")
    one.press("Run …")
    field(one, "who", "everybody")
    field(one, "go", bed.folder + "/go")
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/1')", what="the run that was made")


def fails(one):
    one.wait(box("first") + ".includes('st-succeeded')", what="the first box succeeded")
    one.wait(box("second") + ".includes('st-failed')", what="the second box failed")
    one.wait(box("third") + ".includes('st-skipped')", what="the third box left out")
    one.wait("document.querySelector('.failure:not([hidden])')?.innerText.includes('second')", what="the first failure on top")
    one.wait_text("looking")
    one.wait("document.title === '✗ 1 act · flowrun'", what="the title of its end, which is told behind that of its last task")
    same("in the list", listed(), [{"failed": 1, "upstream_failed": 1, "succeeded": 1}, "sfp"])
    check("what differs from the default", "who everybody" in one.eval("document.querySelector('.diff').innerText").replace("\n", " "))


def retry(one):
    write("go", "")
    one.press("Retry failed")
    one.wait_text("Starts 2 tasks again: second, third.")
    one.key("Enter")
    one.wait("document.title.startsWith('✓')", what="the end")
    one.wait(box("third") + ".includes('st-succeeded')", what="the third box succeeded")
    one.wait("document.querySelector('.failure').hidden", what="no failure on top")
    same("in the list now", listed(), [{"succeeded": 3}, "sss"])
    one.key("7")
    one.wait("document.querySelector('table.events')?.innerText.includes('retry')", what="who retried it among its events")
    deeds = one.eval("[...document.querySelectorAll('.events tr')].map((r) => r.innerText.replace(/\\s+/g, ' ')).filter((t) => t.includes('uid'))")
    check("who did what: %s" % deeds, len(deeds) == 2 and " run retry by uid" in deeds[0] and " run begun by uid" in deeds[1])


def repeat(one):
    one.key(".")
    one.key("Enter")
    field(one, "who", "again")
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/2')", what="the next run")
    one.wait("document.title.startsWith('✓ 2')", what="its end")
    check("it took the other value", "hello again" in flow("logs", "2", "first"))
    one.key("3")
    one.wait("location.search.includes('tab=logs') && document.querySelector('.ln') !== null", what="the logs by a key")
    one.key("/")
    same("the field to search in", one.eval("document.activeElement.type"), "search")
    one.type("o")
    one.key("Enter")
    one.wait("document.querySelector('.ln.current') !== null", what="a hit")


def schedule(one):
    one.keys("Escape", "g", "s")
    one.wait_text("act/default")
    one.press("Pause")
    field(one, "note", "moving house")
    one.key("Enter")
    one.wait_text("moving house")
    check("it is paused", "paused" in flow("schedules", "act"))
    one.press("Resume")
    one.press("Resume")
    until("it goes on", lambda: "active" in flow("schedules", "act"))


def row(name):
    """What stands in the row of the newest message through that channel."""
    return "[...document.querySelectorAll('.deliveries tbody tr')].find((r) => r.cells[2].textContent === '%s')?.innerText" % name


def messages(one):
    """The run that failed was told through one channel, not through the other."""
    until("both were tried", lambda: flow("notify", "list", "--channel", "down").count("waiting") == 1 and "sent" in flow("notify", "list"))
    one.go(bed.url + "settings")
    one.wait("%s.includes('sent')" % row("pager"), what="the message that was sent")
    one.wait("/failed[^]*#1[^]*waiting\\s+next try/.test(%s)" % row("down"), what="the message that waits")
    check("the rule by which it was sent", one.eval("[...document.querySelectorAll('tr')].some((r) => r.innerText === "
                                                    "'failed\\tall\\tpager, down\\tone in 1.0s')"))
    check("and another", one.eval("[...document.querySelectorAll('tr')].some((r) => r.innerText === 'schedule_missed\\tall\\tpager\\tquiet 22:00–07:05')"))
    check("no address is shown", not one.eval("document.body.innerText.includes('planted-path')"))
    os.remove("told")
    one.press("Send again")
    one.press("Send")
    until("it came once more", lambda: os.path.exists("told") and "run.failed" in open("told").read())
    one.press("Send a test")
    one.wait_text("A message goes through the channel pager.")
    one.key("Enter")
    one.wait("[...document.querySelectorAll('.deliveries tbody tr')][0].innerText.startsWith('test')", what="the test in the list")


def backfill(one):
    """What a backfill would make is said before it is asked for; then its buttons do what they say."""
    states = lambda: [b["state"] for b in json.loads(flow("api", "backfills"))["items"]]
    one.go(bed.url + "schedules")
    one.press("Backfill")
    one.wait("document.querySelector('dialog [name=to]') !== null", what="the form")
    for name, day in (("from", "2020-01-01"), ("to", "2020-12-31")):
        one.eval("(() => { const f = document.querySelector('dialog [name=%s]'); f.value = '%s'; f.dispatchEvent(new Event('change')); })()" % (name, day))
    one.wait("/Makes .*\\d+ runs/.test(document.querySelector('dialog').innerText)", what="what it would make")
    same("nothing is made yet", states(), [])
    one.press("Make the runs")
    for button, state in (("Pause", "paused"), ("Resume", "active"), ("Cancel", "cancelled")):
        one.wait("(() => { const b = [...document.querySelectorAll('.block button')].find((one) => one.textContent === '%s');"
                 " if (b) b.click(); return b !== undefined; })()" % button, what="its button " + button)
        one.wait("document.querySelector('dialog[open]')?.innerText.includes('366 of its runs')", what="how far it is")
        one.press(button)
        until("it is " + state, lambda: states() == [state])


def token(one):
    one.go(bed.url + "settings")
    one.press("New token")
    field(one, "name", "ci")
    one.key("Enter")
    secret = one.wait("document.querySelector('.secret')?.textContent", what="the token, once")
    one.key("Escape")
    one.press("uid")
    one.press("Log out")
    one.wait("document.querySelector('form.login') !== null", what="the login")
    one.errors.clear()  # 401 is what says that a login is needed
    one.eval("document.querySelector('.login input').focus()")
    one.type("frt_wrong")
    one.key("Enter")
    one.wait_text("not known")
    one.errors.clear()
    one.eval("document.querySelector('.login input').select()")
    one.type(secret)
    one.key("Enter")
    one.wait_text("ci ▾")
    check("who only looks has no buttons", one.eval("[...document.querySelectorAll('button')].every((b) => !b.textContent.includes('token'))"))


def main():
    begin()
    write("served/act.yaml", PIPELINE)
    os.makedirs("home", 0o700)
    write("home/config.yaml", CONFIG)
    serve()
    one = page()
    log_in(one)
    until("the file is known", lambda: "act/default" in flow("schedules"))
    start(one)
    fails(one)
    retry(one)
    repeat(one)
    schedule(one)
    messages(one)
    backfill(one)
    clean_page("all of it", one)
    token(one)
    clean_page("behind the login", one)
    finish()


main()
