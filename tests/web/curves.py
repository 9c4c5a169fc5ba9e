#!/usr/bin/env python3
"""Curves in the browser: a spike is seen among 20,000 points, a restart and the work that it lost are drawn, what is
not finite is marked, runs are laid over each other, zoomed, logarithmic. usage: curves.py BUILD"""
import bed
from bed import begin, check, clean_page, finish, flow, log_in, page, same, serve, write

PIPELINE = """\
name: curve
params:
  shift: {default: 0, type: float}
tasks:
  fit:
    retry: {times: 1, delay: 0s}
    metrics: log.jsonl
    env: {SHIFT: "${{ params.shift }}"}
    run: |
      row() { awk -v a=$1 -v b=$2 -v s=$SHIFT 'BEGIN { for (i = a; i <= b; i++) printf "{\\"step\\": %d, \\"loss\\": %s, \\"grad_norm\\": %.4f}\\n",
        i, i == 9000 ? "null" : 1 + 4 / (1 + i / 500) + s, i == 7777 ? 40 : 1 + (i % 10) / 100 }' >> log.jsonl
        echo "{\\"step\\": $2, \\"elapsed_time\\": $2, \\"checkpoint\\": $2}" >> log.jsonl; }
      if [ $FLOWRUN_ATTEMPT_NO = 1 ]; then row 1 12000; exit 1; fi
      row 8000 20000
"""
# Whether a pixel of that colour (of app.css) is in the canvas, within x0..x1 of its width and above y1 pixels.
PIXEL = """((chart, colour, x0, x1, y1) => {
    const canvas = [...document.querySelectorAll('.chart')].find((c) => c.querySelector('h3').textContent === chart).querySelector('canvas');
    const probe = document.createElement('i'); probe.style.color = `var(--${colour})`; document.body.append(probe);
    const c = document.createElement('canvas').getContext('2d'); c.fillStyle = getComputedStyle(probe).color; probe.remove();
    c.fillRect(0, 0, 1, 1); const want = c.getImageData(0, 0, 1, 1).data, w = canvas.width;
    const d = canvas.getContext('2d').getImageData(0, 0, w, canvas.height).data;
    for (let i = 0; i < d.length; i += 4) { const x = (i / 4) % w / w;
        if (x >= x0 && x <= x1 && Math.floor(i / 4 / w) < y1 && Math.abs(d[i] - want[0]) + Math.abs(d[i + 1] - want[1]) + Math.abs(d[i + 2] - want[2]) < 40) return true; }
    return false; })"""


def pixel(one, chart, colour, x0, x1, y1=1000):
    return one.eval("%s('%s', '%s', %f, %f, %d)" % (PIXEL, chart, colour, x0, x1, y1))


def place(step):
    """Where on a canvas of the page that step is, as a share of its width."""
    return (52 + (step - 1) / 19999 * (WIDTH - 60)) / WIDTH


WIDTH = 578  # of a canvas at 1,280 pixels, two charts beside each other


def drawn(one):
    global WIDTH
    one.wait("document.querySelectorAll('.chart canvas').length === 2", what="two charts")
    WIDTH = one.wait("parseFloat(document.querySelector('.chart canvas').style.width)")
    one.eval("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")


def main():
    begin()
    write("curve.yaml", PIPELINE)
    serve()
    flow("curve.yaml")
    flow("curve.yaml", "-p", "shift=2")
    one = page()
    log_in(one)
    one.go(bed.url + "runs/1?tab=metrics")
    drawn(one)
    head = one.eval("document.querySelector('.headline').innerText").replace("\n", " ")
    check("the head line: " + head, "step 20,000" in head and "checkpoint 20,000" in head)
    check("an arrow where the spike lies beyond the axis", # its left half, where no line is
          pixel(one, "grad_norm", "k4", place(7777) - 3.6 / WIDTH, place(7777) - 2.6 / WIDTH, 9))
    check("a mark where the loss is not finite", pixel(one, "loss", "st-failed", place(9000) - 0.02, place(9000) + 0.02))
    check("none elsewhere", not pixel(one, "loss", "st-failed", place(14000), 1))
    check("a tick where the second attempt began", pixel(one, "loss", "st-retrying", place(8000) - 0.01, place(8000) + 0.01)
          or pixel(one, "grad_norm", "st-retrying", place(8000) - 0.01, place(8000) + 0.01))
    label = "[...document.querySelectorAll('.chart canvas')][0].getAttribute('aria-label')"
    check("the canvas says what it shows: " + one.eval(label), one.eval(label).startswith("loss: loss 1.0"))
    one.eval("document.querySelector('.chart canvas').focus()")
    one.key("ArrowLeft")
    one.wait("document.querySelector('.chart .last').innerText.includes('@')", what="a crosshair by keys")
    check("in all charts", one.eval("[...document.querySelectorAll('.chart .last')].every((e) => e.innerText.includes('@'))"))
    one.key("l")
    one.wait("[...document.querySelectorAll('.chart header button')].every((b) => b.getAttribute('aria-pressed') === 'true')", what="logarithmic axes")
    one.eval("document.querySelector('[aria-label=\"Compare with run\"]').focus()")
    one.type("2")
    one.key("Enter")
    one.wait("location.search.includes('with=2')", what="the other run in the address")
    one.wait("document.querySelector('.chart .last').innerText.includes('#2')", what="its line")
    drawn(one)
    check("in a colour of its own", pixel(one, "loss", "k1", 0.2, 1))
    one.eval("document.activeElement.blur()")
    one.key("t")
    cells = "[...document.querySelectorAll('.panel table tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    one.wait("document.querySelectorAll('.panel tbody tr').length > 20", what="a table of the same")
    rows = one.eval(cells)
    same("its columns", rows[0], ["step", "loss #1", "loss #2", "grad_norm #1", "grad_norm #2"])
    check("its last row: %s" % rows[-1], rows[-1][0] == "20k" and rows[-1][1].startswith("1.0") and rows[-1][2].startswith("3.0"))
    check("not too long: %d" % len(rows), len(rows) <= 53)
    one.key("t")
    one.wait("document.querySelectorAll('.panel table').length === 0 || !document.querySelector('.panel table').checkVisibility()", what="the charts again")
    clean_page("all of it", one)
    same("and behind a reload", one.eval("location.reload()"), None)
    one.wait("document.querySelector('.legend')?.innerText.includes('#2')", what="both runs again")
    finish()


main()
