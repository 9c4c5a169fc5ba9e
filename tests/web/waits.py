#!/usr/bin/env python3
"""What waits and what is away: a run that goes on stands on top however old it is, a
node that does not answer is seen in the graph, what is tried again says when, a queued run and a task that is ready say what they wait for; times stand
in the zone that is chosen, of a schedule first in its own; times of a schedule are made up. usage: waits.py BUILD"""
import json
import contextlib
import os
import pwd
import signal

import bed
from bed import begin, begin_run, check, clean_page, finish, flow, log_in, page, same, serve, until, write

HOLD = "until test -e %s/%s; do sleep 0.02; done"
HELD = """\
name: held
tasks:
  first: {run: "%s"}
  last: {needs: [first], run: "echo over"}
"""
SLOTS = """\
name: slots
nodes: [{name: n1, slots: 1}]
tasks:
  one: {on: all, run: "%s"}
  two: {on: all, run: "echo two"}
"""
ALONE = """\
name: alone
max_active_runs: 1
tasks: {t: {run: "%s"}}
"""
AGAIN = """\
name: again
tasks: {t: {retry: {times: 1, delay: 1h, jitter: 0}, run: "exit 1"}}
"""
# Pixels of the timeline in the colour of back-off.
DOTS = """(() => {
    const canvas = document.querySelector('.chartbox canvas'), probe = document.createElement('i');
    probe.style.color = 'var(--st-retrying)'; document.body.append(probe);
    const c = document.createElement('canvas').getContext('2d'); c.fillStyle = getComputedStyle(probe).color; probe.remove();
    c.fillRect(0, 0, 1, 1); const want = c.getImageData(0, 0, 1, 1).data, d = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let n = 0;
    for (let i = 0; i < d.length; i += 4)
        n += Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 30;
    return n; })()"""
DAILY = """\
name: daily
schedule: {cron: "30 2 * * *", zone: Asia/Tokyo}
tasks: {t: {run: "true"}}
"""
NUMBERS = "[...document.querySelectorAll('tr.row')].map((r) => r.dataset.no).join()"
NEXT = "document.querySelector('.schedules .num')?.textContent"


def node_pid():
    """flownode's process that the host talks to."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid) as f, open("/proc/%s/stat" % pid) as stat:
                if "flownode\0serve" in f.read() and int(stat.read().rsplit(")", 1)[1].split()[1]) == bed.host.pid:
                    return int(pid)
        except OSError:
            pass
    return 0


def away(one):
    """By the stream alone: nothing is opened anew."""
    box = "[...document.querySelectorAll('.box')].find((b) => b.getAttribute('aria-label').startsWith('first:'))"
    begin_run("held.yaml")
    until("run 1 goes on", lambda: "running" in flow("status", "1"))
    one.go(bed.url + "runs/1?task=first")
    one.wait("%s?.getAttribute('aria-label') === 'first: 1 running'" % box, what="a box")
    # How long the node is away is the host's choice, which lets a flownode go that does not answer and talks to another.
    one.eval("""new MutationObserver(() => {
        if (%s?.getAttribute('aria-label') === 'first: 1 running, 1 unreachable' &&
            /unreachable .*(ago|now)/.test(document.querySelector('.instances')?.innerText) &&
            document.querySelector('.runhead').innerText.includes('1 instance unreachable'))
            window.mark = %s.querySelector('.away').textContent;
    }).observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true})""" % (box, box))
    node = node_pid()
    os.kill(node, signal.SIGSTOP)
    one.wait("window.mark", what="a box, the instance with since when, and the head that say so")
    same("its mark", one.eval("window.mark"), "⚠")
    with contextlib.suppress(ProcessLookupError):
        os.kill(node, signal.SIGCONT)
    one.wait("%s.getAttribute('aria-label') === 'first: 1 running'" % box, 60, "a node that is there again")
    same("no mark", one.eval("%s.querySelector('.away').textContent" % box), "")


def on_top(one):
    flow("quick.yaml")
    flow("quick.yaml")
    one.go(bed.url + "runs")
    one.wait(NUMBERS + " === '1,3,2'", what="the old run on top")
    who = pwd.getpwuid(os.getuid()).pw_name
    same("who began it", one.eval("document.querySelector('tr.row .origin').innerText"), "cli " + who)
    one.eval("document.activeElement.blur()")
    one.keys("j", "j")
    same("rows by keys", one.eval("document.activeElement.dataset.no"), "3")
    write("go.held", "")
    one.wait(NUMBERS + " === '3,2,1'", what="by number, once it is over")


def queued(one):
    begin_run("alone.yaml")
    until("run 4 goes on", lambda: "running" in flow("status", "4"))
    begin_run("alone.yaml")
    one.wait("document.querySelector('tr.row[data-no=\"5\"] .reason')?.textContent.includes('max_active_runs 1 of 1: run 4 of alone')",
             what="why it waits, in the list")
    one.go(bed.url + "runs/5")
    one.wait("document.querySelector('.runhead .reason')?.textContent.includes('max_active_runs 1 of 1: run 4 of alone')", what="and on its page")
    write("go.alone", "")
    one.wait("document.title.startsWith('✓')", what="its end")


def ready(one):
    begin_run("slots.yaml")
    until("run 6 waits", lambda: "ready" in flow("status", "6"))
    one.go(bed.url + "runs/6?task=two")
    one.wait("/n1.*1 of 1|slot/.test(document.querySelector('.instances')?.innerText)", what="what the task waits for")
    one.go(bed.url + "queue")
    one.wait_text("two@n1")
    why = one.eval("[...document.querySelectorAll('tr')].find((r) => r.innerText.includes('two@n1')).cells[2].innerText")
    one.go(bed.url + "runs/6?task=two")
    one.wait("document.querySelector('.instances .hint')?.innerText === %s" % json.dumps(why), what="the words of the queue")
    write("go.slots", "")
    one.wait("document.title.startsWith('✓')", what="its end")


def retried(one):
    begin_run("again.yaml")
    until("run 7 is tried again", lambda: "retrying" in flow("status", "7"))
    one.go(bed.url + "runs/7?task=t")
    one.wait("/again in \\d+m/.test(document.querySelector('.instances')?.innerText)", what="when it is tried again")
    one.go(bed.url + "runs/7?tab=timeline")
    one.wait("document.querySelector('.chartbox canvas')?.width > 300 && %s > 10" % DOTS, what="its back-off, dotted")
    flow("cancel", "7")


def zones(one):
    until("the schedule is known", lambda: "daily/default" in flow("schedules"))
    one.call("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    one.go(bed.url + "schedules")
    day = r"\d{4}-\d\d-\d\d"
    mine = " = %s 1[23]:30 America/New_York" % day
    for zone, also, kept in (("America/New_York", mine, None), ("UTC", " = %s 17:30 UTC" % day, "UTC"), ("America/New_York", mine, "browser")):
        one.wait("document.querySelector('.zone').textContent === %s && /^%s 02:30 Asia\\/Tokyo%s in/.test(%s)" % (json.dumps(zone), day, also.replace("/", "\\/"), NEXT),
                 what="its next time, in its zone and in %s" % zone)
        same("what is kept", one.eval("localStorage.getItem('flowrun.zone')"), kept)
        one.click(".clock")
    one.go(bed.url + "runs/1?tab=events")
    one.wait("document.querySelectorAll('.events tbody tr').length > 3", what="events")
    one.eval("localStorage.removeItem('flowrun.zone')")
    one.call("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})


def made_up(one):
    one.go(bed.url + "pipelines/daily")
    one.press("Backfill")
    for name in ("from", "to"):
        one.wait("document.querySelector('dialog [name=%s]') !== null" % name, what="a field")
        one.eval("(() => { const f = document.querySelector('dialog [name=%s]'); f.value = '2026-03-0%d'; f.dispatchEvent(new Event('change')); })()"
                 % (name, 1 if name == "from" else 3))
    one.wait_text("Makes 3 runs, for 2026-0")
    one.press("Make the runs")
    one.wait("[...document.querySelectorAll('h2')].some((h) => h.textContent === 'Backfills')", what="the backfill on its page")
    until("its runs", lambda: len(json.loads(flow("api", "runs?pipeline=daily&state=succeeded"))["items"]) == 3)
    same("of these times", sorted(r["origin"] for r in json.loads(flow("api", "runs?pipeline=daily"))["items"]), 3 * ["backfill"])


def tips(one):
    """What a title says is shown at once, to keys, too, and the title is there again behind it."""
    one.go(bed.url + "runs")
    one.wait("document.querySelector('.clock') !== null")
    title = one.eval("document.querySelector('.clock').title")
    x, y = one.eval("(() => { const r = document.querySelector('.clock').getBoundingClientRect(); return [r.x + 9, r.y + 9]; })()")
    one.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    one.wait("document.querySelector('[role=tooltip]:not([hidden])')?.textContent === %s" % json.dumps(title), what="a tip")
    one.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 2, "y": 500})
    one.wait("document.querySelector('[role=tooltip]').hidden", what="no tip")
    same("its title", one.eval("document.querySelector('.clock').title"), title)

    def by_keys():
        """Once more where the page was drawn anew between the two."""
        said = one.eval("document.querySelector('.live').focus(), document.querySelector('.clock').title")
        one.key("Tab")
        return said != "" and one.eval("document.querySelector('[role=tooltip]:not([hidden])')?.textContent") == said

    until("a tip by keys", by_keys)


def main():
    begin()
    write("quick.yaml", 'name: quick\ntasks: {t: {run: "true"}}\n')
    for name, text in (("held", HELD), ("alone", ALONE), ("slots", SLOTS)):
        write(name + ".yaml", text % (HOLD % (bed.folder, "go." + name)))
    write("again.yaml", AGAIN)
    write("served/daily.yaml", DAILY)
    serve()
    one = page()
    log_in(one)
    for part in (away, on_top, queued, ready, retried, zones, made_up, tips):
        part(one)
    clean_page("all of it", one)
    finish()


main()
