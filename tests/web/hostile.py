#!/usr/bin/env python3
"""Whatever names, parameters, reasons and output say: it is shown as text. usage: hostile.py BUILD"""
import bed
from bed import begin, check, clean_page, finish, flow, log_in, page, same, serve, write

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
TURNED = "a\u202eb"
PIPELINE = """
name: evil
description: "%(evil)s"
params:
  p: {default: "%(evil)s", help: "%(evil)s"}
tasks:
  t:
    description: "%(evil)s"
    outputs: [o]
    env: {P: "${{ params.p }}"}
    run: |
      printf '%%s\\n' "$P" 'turned: %(turned)s' 'javascript:alert(1)'
      printf '\\033]0;title\\007\\033[31mred\\033[0m \\033[8mhidden\\033[0m\\033[2J\\n'
      printf 'o=%%s\\n' "$P" >> "$FLOWRUN_OUTPUT"
      printf '\\377\\376 not text\\n'
      exit 3
""" % {"evil": EVIL.replace('"', '\\"'), "turned": TURNED}


def unharmed(what, one):
    same("%s: no script ran" % what, one.eval("window.hacked === undefined"), True)
    same("%s: no element came of it" % what, one.eval("document.querySelectorAll('body script, img, main b').length"), 0)


def main():
    begin()
    write("served/evil.yaml", PIPELINE)
    serve()
    flow("served/evil.yaml")
    one = page()
    log_in(one)
    for where in ("runs", "runs/1", "runs/1?task=t", "runs/1?tab=events", "runs/1?tab=params", "runs/1?tab=artifacts", "pipelines",
                  "pipelines/evil", "runs?q=" + "%3Cscript%3E"):
        one.go(bed.url + where)
        one.wait("document.querySelector('main h1') !== null", what=where)
        one.wait("document.querySelector('.loading') === null")
        unharmed(where, one)
    one.go(bed.url + "pipelines/evil")
    one.wait_text(EVIL)
    one.go(bed.url + "runs/1?tab=logs")
    one.wait_text("turned: a‹202E›b")
    text = one.text()
    check("the tags are text", EVIL in text)
    check("escapes are gone", "\x1b" not in text and "title" not in text.split("turned")[1].split("not text")[0])
    check("what is no UTF-8 is marked", "\ufffd\ufffd not text" in text)
    unharmed("the log", one)
    one.go(bed.url + "runs/1?tab=params")
    one.wait_text(EVIL)
    same("a link to another host is the browser's", one.eval("""(() => { let left; const a = document.createElement('a'); a.href = 'http://other.example/runs';
        document.body.append(a); window.addEventListener('click', (event) => { left = !event.defaultPrevented; event.preventDefault(); }, {once: true});
        a.click(); a.remove(); return left; })()"""), True)
    clean_page("all of it", one)
    finish()


main()
