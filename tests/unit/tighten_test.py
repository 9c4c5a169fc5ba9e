#!/usr/bin/env python3
"""Scripts without what they do not need: what is left means the same."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/web"))
from tighten import tighten

ROWS = [
    ("blanks", "const a = b + c ;", "const a=b+c;"),
    ("words", "return typeof a in b", "return typeof a in b"),
    ("signs that would be another one", "a + +b - -c + ++d", "a+ +b- -c+ ++d"),
    ("a statement a line", "a()\nb++\nc", "a()\nb++\nc"),
    ("that goes on", "a(b,\n  c)\n  .d\n  ? e\n  : f", "a(b,c).d?e:f"),
    ("a block", "if (a) {\n  b();\n}\nelse\n  c();", "if(a){b();}\nelse\nc();"),
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


def main():
    failed = 0
    for name, text, want in ROWS:
        got = tighten(text)
        if got != want:
            failed += 1
            print("FAILED: %s: %r, expected %r" % (name, got, want))
    print("%d passed, %d failed" % (len(ROWS) - failed, failed))
    return failed > 0


sys.exit(main())
