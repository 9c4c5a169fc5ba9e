"""Writes a file as a C string constant: embed.py INPUT OUTPUT SYMBOL."""
import sys

source, target, symbol = sys.argv[1:4]
with open(source, encoding="utf-8") as f:
    lines = f.read().split("\n")
with open(target, "w", encoding="utf-8") as f:
    f.write("extern const char %s[];\nconst char %s[] =\n" % (symbol, symbol))
    for line in lines:
        text = line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
        f.write('    "%s\\n"\n' % text)
    f.write("    ;\n")
