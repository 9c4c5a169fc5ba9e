#!/usr/bin/env python3
"""Seven tabs have one stream: all are live, also when the tab that reads it is closed. usage: tabs.py BUILD"""
import bed
from bed import begin, begin_run, check, clean_page, finish, log_in, page, same, serve, until, write

TABS = 7
LIVE = "document.querySelector('.live')?.dataset.kind === 'live'"


def streams(tabs):
    """How often each tab asked for the stream."""
    return [sum("/api/v1/stream" in r for r in one.requests) for one in tabs]


def readers(tabs, before):
    """How many tabs have asked for the stream since."""
    while tabs[0].chrome.pump(0.05):
        pass
    return sum(b > a for a, b in zip(before, streams(tabs)))


def main():
    begin()
    write("p.yaml", "name: p\ntasks:\n  t: {run: 'until test -e %s/go; do sleep 0.02; done'}\n" % bed.folder)
    serve()
    tabs = [page() for _ in range(TABS)]
    log_in(tabs[0])
    for one in tabs:
        one.go(bed.url + "runs")
        one.wait_text("No runs yet")
    for one in tabs:
        one.wait(LIVE, what="a live mark")
    asked = streams(tabs)
    same("tabs that read a stream", sum(n > 0 for n in asked), 1)
    begin_run("p.yaml")
    for one in tabs:
        one.wait("document.querySelector('tr.row')?.innerText.includes('running')", what="the run in each tab")
    reader = tabs.pop(asked.index(max(asked)))
    clean_page("the tab that read", reader)
    before = streams(tabs)  # another takes over as soon as it is closed
    reader.close()
    until("another tab reads it", lambda: readers(tabs, before) > 0)
    write("go", "")
    for one in tabs:
        one.wait("document.querySelector('tr.row')?.innerText.includes('succeeded')", what="the end in each tab")
        one.wait(LIVE, what="a live mark again")
    same("tabs that read it now", readers(tabs, before), 1)
    check("nobody was refused", all(one.errors == [] for one in tabs))
    finish()


main()
