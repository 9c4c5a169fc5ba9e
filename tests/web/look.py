#!/usr/bin/env python3
"""Every page in light, dark and 360 pixels wide: no errors, no request elsewhere, names for all that can be
used, contrast of all text, nothing wider than the screen, order of the focus. usage: look.py BUILD"""
import bed
import sample
from bed import begin, check, clean_page, finish, log_in, page, same, until

PAGES = ["runs", "runs/2", "runs/4?task=train", "runs/1?tab=timeline", "runs/2?tab=logs", "runs/1?tab=metrics", "runs/1?tab=metrics&x=time&with=3",
         "runs/2?tab=params", "runs/3?tab=params&with=2", "runs/1?tab=artifacts", "runs/2?tab=events", "pipelines", "pipelines/fine-tune", "pipelines/long",
         "schedules", "queue", "nodes", "settings"]
USED = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "slider", "tab", "menuitem", "img", "image", "spinbutton"}
STATES = {  # on #ffffff, on #14171c; least contrast
    "waiting": ("#6b7280", "#9aa3ae", 4.5), "ready": ("#6d4fb3", "#b79cf2", 4.5), "starting": ("#0e7490", "#38c6dd", 4.5),
    "running": ("#1d63c9", "#4a9eed", 4.5), "stopping": ("#8a6100", "#d9b44a", 4.5), "retrying": ("#b45309", "#fdb52a", 4.5),
    "succeeded": ("#13795b", "#5fe3a1", 4.5), "failed": ("#b3123e", "#ef5350", 4.5), "unproven": ("#b3123e", "#ef5350", 4.5),
    "cancelled": ("#44403c", "#a8a29e", 4.5), "skipped": ("#7c8798", "#7a8699", 3)}
GROUND = ("#ffffff", "#14171c")

# Text whose colour is too near to what lies below it. Colours are read off a canvas, whatever their notation.
CONTRAST = """(() => {
    const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgba = (text) => { c.clearRect(0, 0, 1, 1); c.fillStyle = text; c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data].map((v) => v / 255); };
    const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
    const light = (p) => { const [r, g, b] = p.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((m, n) => n - m); return (x + 0.05) / (y + 0.05); };
    const ground = (el) => { const all = []; for (let e = el; e; e = e.parentElement) all.push(rgba(getComputedStyle(e).backgroundColor));
        return all.reverse().reduce((below, top) => over(top, below), rgba(getComputedStyle(document.documentElement).colorScheme.includes('dark') && matchMedia('(prefers-color-scheme: dark)').matches ? '#14171c' : '#fff')); };
    const bad = [];
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
        const el = walk.currentNode.parentElement, style = getComputedStyle(el);
        if (!walk.currentNode.data.trim() || el.closest('svg, noscript, .unseen, #said, .skip, option, :disabled') || !el.checkVisibility({opacityProperty: true, visibilityProperty: true}))
            continue;
        const least = el.closest('.st-skipped .glyph') ? 3 : 4.5;
        const r = ratio(over(rgba(style.color), ground(el)), ground(el));
        if (r < least - 0.05)
            bad.push(`${r.toFixed(2)} ${el.tagName}.${el.className} "${walk.currentNode.data.trim().slice(0, 30)}"`);
    }
    return [...new Set(bad)].slice(0, 10);
})()"""
# Headings that skip a level, heads of columns without a word.
ORDER = """(() => { let last = 1; const bad = [];
    for (const e of document.querySelectorAll('main :is(h1, h2, h3, h4, h5, h6)')) if (e.checkVisibility()) {
        const level = Number(e.tagName[1]); if (level > last + 1) bad.push(`${e.tagName} ${e.textContent} behind H${last}`); last = level; }
    return bad.concat([...document.querySelectorAll('th')].filter((e) => !e.textContent.trim()).map((e) => `TH of ${e.closest('table').className}`)); })()"""
# Measured twice: parts that are not in view are laid out when they are asked for.
SMALL = """[0, 1].reduce((all) => all.filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 43.5), [...document.querySelectorAll('button, .button, select, input')])
    .map((e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 20)} ${e.getBoundingClientRect().height}`).slice(0, 8)"""


# What is cut off, where nothing scrolls; texts that are broken at each letter or two.
CUT = """[...document.querySelectorAll('.boxrow')].filter((e) => e.getBoundingClientRect().right > innerWidth)
    .concat([...document.querySelectorAll('main td')].filter((e) => e.checkVisibility() && e.textContent.length > 12 && e.clientWidth < 60))
    .map((e) => `${e.className} ${e.textContent.slice(0, 30)}`).slice(0, 8)"""


def channel(v):
    v /= 255
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


def light(colour):
    r, g, b = (channel(int(colour[i:i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    a, b = sorted((light(one), light(other)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def colours(one, dark):
    """The table of states, as the browser has it."""
    for name, row in STATES.items():
        want = row[dark]
        got = one.eval("(() => { const e = document.createElement('i'); e.style.color = 'var(--st-%s)'; document.body.append(e);"
                       " const c = getComputedStyle(e).color; e.remove(); return '#' + c.match(/\\d+/g).slice(0, 3)"
                       ".map((v) => Number(v).toString(16).padStart(2, '0')).join(''); })()" % name)
        same("the colour of %s, %s" % (name, "dark" if dark else "light"), got, want)
        check("its contrast is %.2f" % contrast(want, GROUND[dark]), contrast(want, GROUND[dark]) >= row[2])


def names(what, one):
    """Whatever can be used, and each picture, has a name in the tree that screen readers get."""
    until("%s: its bar" % what, lambda: one.eval("document.querySelector('nav') !== null"))
    nodes = one.call("Accessibility.getFullAXTree")["nodes"]
    bare = [n["role"]["value"] for n in nodes if not n.get("ignored") and n.get("role", {}).get("value") in USED
            and not n.get("name", {}).get("value", "").strip()]
    same("%s: without a name" % what, bare, [])
    roles = {n["role"]["value"] for n in nodes if not n.get("ignored") and "role" in n}
    check("%s: has a main part, a bar and a heading: %s" % (what, sorted(roles)[:40]), {"main", "banner", "navigation", "heading"} <= roles)


def looks(one, where, kind):
    what = "%s, %s" % (where, kind)
    one.go(bed.url + where)
    one.wait("document.querySelector('main').children.length > 0 && document.querySelector('.loading') === null", what=what)
    one.wait("document.fonts.status === 'loaded' && document.querySelector('main h1') !== null", what=what)
    same("%s: contrast" % what, one.eval(CONTRAST), [])
    same("%s: order of headings" % what, one.eval(ORDER), [])
    if kind == "phone":
        check("%s: as wide as the screen" % what, one.eval("document.documentElement.scrollWidth") <= 360)
        same("%s: too small for a finger" % what, one.eval(SMALL), [])
        same("%s: cut off" % what, one.eval(CUT), [])
    else:
        names(what, one)


def focus_order(one, where):
    """Tab goes through a page in the order of the document, and one sees where it is."""
    one.go(bed.url + where)
    one.wait("document.querySelector('main h1') !== null")
    one.eval("document.activeElement.blur()")
    seen, outlines = [], set()
    for _ in range(40):
        one.key("Tab")
        place, outline = one.eval("(() => { const e = document.activeElement; const s = getComputedStyle(e.matches('.box') ? e.querySelector('.ground') : e);"
                                  " return [[...document.querySelectorAll('*')].indexOf(e), e === document.body || e.matches('.box')"
                                  " || (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2)]; })()")
        if place <= (seen[-1] if seen else -1) or place < 5:
            break
        seen.append(place)
        outlines.add(outline)
    check("%s: Tab reaches things in order (%d)" % (where, len(seen)), len(seen) >= 10)
    same("%s: the focus is seen" % where, outlines, {True})


def main():
    begin()
    sample.make()
    one = page()
    one.call("Accessibility.enable")
    log_in(one)
    for kind in ("light", "dark", "phone"):
        one.look(kind == "dark")
        one.size(*((360, 740) if kind == "phone" else (1280, 800)))
        if kind != "phone":
            colours(one, kind == "dark")
        for where in PAGES:
            looks(one, where, kind)
        clean_page(kind, one)
    one.size(1280, 800)
    for where in ("runs", "runs/2"):
        focus_order(one, where)
    finish()


if __name__ == "__main__":
    main()
