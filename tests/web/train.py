#!/usr/bin/env python3
"""The main job in the browser: started by its form, its graph seen to change, its log followed and searched, its curves
drawn; over a kill of the host the page goes on; it is cancelled, retried, and made again with fewer steps, which ends
in a published adapter. usage: train.py BUILD"""
import json
import os
import shutil
import signal
import time

import bed
from bed import FOLLOWS, begin, check, clean_page, finish, flow, log_in, page, same, serve, stop_host, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = 60


def box(name, look):
    return ("[...document.querySelectorAll('.box')].some((b) => b.getAttribute('aria-label').startsWith('%s:') && b.classList.contains('st-%s'))"
            % (name, look))


def field(one, name, text):
    one.wait("document.querySelector('dialog [name=%s]') !== null" % name, what="a field " + name)
    one.eval("(() => { const f = document.querySelector('dialog [name=%s]'); f.focus(); f.select(); })()" % name)
    one.type(text)


def start(one):
    one.go(bed.url + "pipelines/deepseek-lora")
    one.press("Run …")
    field(one, "max_steps", "5000")
    field(one, "port", str(20000 + os.getpid() % 300 * 40))  # this one, and the 31 above it
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/1')", LONG, "the run that was made")
    one.wait(box("cleanup", "succeeded"), LONG, "the first box")
    one.wait(box("train", "running"), 2 * LONG, "the training")
    same("what differs, and no path that is its default",
         one.eval("[...document.querySelectorAll('.diff .param')].map((e) => e.textContent.split(' ')[0]).sort()"), ["max_steps", "port"])


def logs(one):
    one.go(bed.url + "runs/1?tab=logs&i=train@n1")
    one.wait_text("{'loss':", LONG)
    same("it is followed", one.eval(FOLLOWS), "true")
    last = "Number([...document.querySelectorAll('.ln')].at(-1).dataset.line)"
    at = one.eval(last)
    one.wait("%s > %d" % (last, at), LONG, "a line more")
    one.eval("document.querySelector('[data-find]').focus()")
    one.type("trainable parameters")
    one.key("Enter")
    one.wait("document.querySelector('.ln.current')?.innerText.includes('trainable parameters')", LONG, "what was sought")


def restart(one):
    """The host dies; the training goes on, and so does the page with the next host."""
    port = int(bed.url.rsplit(":", 1)[1].strip("/"))
    one.go(bed.url + "runs/1?tab=metrics")
    one.wait("document.querySelectorAll('.chart canvas').length >= 3 && document.querySelector('.headline') !== null", LONG, "curves")
    step = "Number(document.querySelector('.headline .big').textContent.replace(/\\D/g, ''))"
    before = one.wait(step, LONG, "a step")
    clean_page("until the host ended", one)
    until("samples of its node", lambda: len(samples("n1")) > 1)
    sampled = samples("n1")[:-1]  # the next host's first may take the place of the last: there is one for ten seconds
    stop_host(signal.SIGKILL)
    one.wait("document.querySelector('.live').dataset.kind !== 'live'", LONG, "a stale mark")
    serve(port)
    one.wait("document.querySelector('.live').dataset.kind === 'live'", LONG, "a live mark again")
    one.wait("%s > %d" % (step, before), LONG, "steps behind %s" % before)
    same("samples of before are there", samples("n1")[:len(sampled)], sampled)
    one.eval("(() => { const s = document.querySelector('[aria-label=\\'x axis\\']'); s.value = 'time'; s.dispatchEvent(new Event('change')); })()")
    one.wait("[...document.querySelectorAll('.chart h3')].some((e) => e.textContent === 'CPU, %')", LONG, "the load of its nodes")
    one.key("1")
    one.wait(box("train", "running"), LONG, "the training, which goes on")
    same("as its first attempt", [line.split()[2] for line in flow("status", "1").split("\n") if line.startswith("train@n1")], ["1"])
    one.errors.clear()  # of the time without a host


def samples(node):
    """The seconds in which they were taken, of the last half an hour; none: []."""
    text = flow("api", "nodes/%s/samples?from=%d&width=2000" % (node, (time.time() - 1800) * 1000))
    return json.loads(text)["t"] if text.startswith("{") else []


def cancel(one):
    one.press("Cancel")
    one.wait("document.querySelector('dialog[open]')?.innerText.includes('Stops 3 tasks on 3 nodes.')", what="what a cancel does")
    one.press("Cancel the run")
    one.wait("document.title.startsWith('■')", 2 * LONG, "the end in the title")


def again(one):
    cancel(one)
    one.press("Retry failed")
    one.wait("document.querySelector('dialog[open]')?.innerText.includes('train')", what="what a retry does")
    one.key("Enter")
    one.wait(box("train", "running"), 2 * LONG, "the training again")
    cancel(one)
    one.press("Actions")
    one.press("Run again")
    field(one, "max_steps", "6")
    one.key("Enter")
    one.wait("location.pathname.endsWith('/runs/2')", LONG, "another run")
    one.wait("document.title.startsWith('✓ 2')", 3 * LONG, "its end")
    one.wait(box("publish", "succeeded"), what="the adapter")
    one.key("5")
    one.wait("document.querySelector('table.params') !== null", what="its parameters")
    same("which differ", one.eval("[...document.querySelectorAll('.differs th')].map((e) => e.firstChild.data).sort()"), ["max_steps", "port"])
    one.key("6")
    one.wait_text("version", LONG)
    same("what it was for comes first", one.eval("document.querySelector('.panel tbody tr').cells[0].textContent"), "publish@n1")
    same("what tasks found out is behind it", one.eval("[...document.querySelectorAll('tbody th')].filter((e) => e.textContent === '_result')"
                                                      ".every((e) => e.closest('details:not([open])') !== null)"), True)
    items = json.loads(flow("api", "runs/2/instances"))["items"]
    longest = max(items, key=lambda i: i["ended_wall"] - i["started_wall"] if i["attempt_no"] else -1)
    one.key("3")
    one.wait("document.querySelector('[aria-label=\"Whose log\"]')?.value === '%s@n1'" % longest["task"], what="the log of what took longest")


def main():
    begin()
    for name in os.listdir(os.path.join(ROOT, "pipelines")):
        shutil.copy(os.path.join(ROOT, "pipelines", name), "served")
    shutil.copytree(os.path.join(ROOT, "examples"), "examples")
    serve()
    until("its pipeline is known", lambda: "deepseek-lora" in flow("api", "pipelines"))
    one = page()
    log_in(one)
    for part in (start, logs, restart, again):
        part(one)
    clean_page("behind the restart", one)
    finish()


main()
