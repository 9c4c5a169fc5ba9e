#!/usr/bin/env python3
"""Scripts without what they do not need, and with short names: what is left means the same."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/web"))
from shorten import shorten
from tighten import tighten

ROWS = [
    ("blanks", "const a = b + c ;", "const a=b+c;"),
    ("words", "return typeof a in b", "return typeof a in b"),
    ("signs that would be another one", "a + +b - -c + ++d", "a+ +b- -c+ ++d"),
    ("a statement a line", "a()\nb++\nc", "a()\nb++\nc"),
    ("that goes on", "a(b,\n  c)\n  .d\n  ? e\n  : f", "a(b,c).d?e:f"),
    ("a block", "if (a) {\n  b();\n}\nelse\n  c();", "if(a){b()}else\nc();"),
    ("a block and a word", "function a() {}\n\nconst b = 1;", "function a(){}const b=1;"),
    ("a block and a list", "if (a) {\n}\n[b] = c;", "if(a){}\n[b]=c;"),
    ("declarations", "const a = 1; const b = (c) => { let d = 2; let e; f(d); }; let g; const h = 3;",
     "const a=1,b=(c)=>{let d=2,e;f(d)};let g;const h=3;"),
    ("declarations and others", "if (a) b(); const c = 1; d(); const e = {f: 2}; const g = 3", "if(a)b();const c=1;d();const e={f:2},g=3"),
    ("of a loop", "for (let a = 0; a < b; a++) { let c = a; while (c); }", "for(let a=0;a<b;a++){let c=a;while(c);}"),
    ("the last semicolon", "if (a) { for (;;); } while (b()) { if (c) { d(); } }", "if(a){for(;;);}while(b()){if(c){d()}}"),
    ("what a line's end ends", "return\na", "return\na"),
    ("comments", "/* a\n * b */\na; /* c */ b", "a;b"),
    ("texts", "a = 'b  /* c */' + \"d ' e\"", "a='b  /* c */'+\"d ' e\""),
    ("texts in backticks", "a = `b  ${c + `d ${ {e: 1}.e }  `}  /* f */`", "a=`b  ${c+`d ${{e:1}.e}  `}  /* f */`"),
    ("patterns", "a = /b  [/'] \\/c/g.exec(d)", "a=/b  [/'] \\/c/g.exec(d)"),
    ("a pattern behind a word", "return /a  b/", "return/a  b/"),
    ("divisions", "a = (b) / c / d['e  f'] / 2", "a=(b)/c/d['e  f']/2"),
    ("a number with a point", "a = 0.25 * 1e-3", "a=0.25*1e-3"),
    ("what may be missing", "a ?. b ?? c ? .5 : d", "a?.b??c?.5:d"),
]

NAMES = [
    ("values", "function sum(one, two) { return one + two; }", "function c(a, b) { return a + b; }"),
    ("the most frequent first", "const one = 1, two = 2; f(two, two, one);", "const b = 1, a = 2; f(a, a, b);"),
    ("letters that are there", "const one = 1; a(one, b.c);", "const d = 1; a(d, b.c);"),
    ("what it does not declare", "const one = fetch(url);", "const a = fetch(url);"),
    ("properties", "const one = two.one; one.one = {one: one, two};", "const a = two.one; a.one = {one: a, two};"),
    ("both at once", "const {one, two: three} = f({one, ...three});", "const {one:a, two: b} = f({one:a, ...b});"),
    ("with a value that is meant else", "function f({one = other, two} = {}) { g(one, two); }", "function f({one:a = other, two:b} = {}) { g(a, b); }"),
    ("methods", "class Box { open(one) { this.open(one); } static one() {} }", "class b { open(a) { this.open(a); } static one() {} }"),
    ("of objects", "const one = {one() {}, async two() {}, get one() {}};", "const a = {one() {}, async two() {}, get one() {}};"),
    ("arrows", "all.map((one) => one.one).filter(([two, three = one]) => three);", "all.map((a) => a.one).filter(([c, b = a]) => b);"),
    ("loops", "for (const [key, value] of all) { let other = key; } for (let idx = 0; idx < 9; idx++) idx;",
     "for (const [b, d] of all) { let c = b; } for (let a = 0; a < 9; a++) a;"),
    ("choices", "const one = two ? one : three; switch (one) { case one: f(); }", "const a = two ? a : three; switch (a) { case a: f(); }"),
    ("texts", "const one = `one ${one + `${one}`} one`; f('one', /one/);", "const a = `one ${a + `${a}`} one`; f('one', /one/);"),
    ("what is caught", "try { f(); } catch (problem) { g(problem); }", "try { f(); } catch (a) { g(a); }"),
    ("names of the browser", "const name = window.name, location = 1;", "const a = window.name, location = 1;"),
    ("what others know", "function known() {} const one = known, other = {known};", "function $k() {} const a = $k, b = {known:$k};"),
]


def main():
    failed = 0
    done = [(name, tighten(text), want) for name, text, want in ROWS]
    done += [("names: " + name, shorten(text, {"known": "$k"}), want) for name, text, want in NAMES]
    for name, got, want in done:
        if got != want:
            failed += 1
            print("FAILED: %s: %r, expected %r" % (name, got, want))
    print("%d passed, %d failed" % (len(done) - failed, failed))
    return failed > 0


sys.exit(main())
