"""Writes the files for browsers as C constants: embed.py FOLDER WORDS OUTPUT DEPFILE.

Each has its type by its ending, its hash, and its gzip where that is smaller; scripts go without comments and blanks
(tighten.py), modules that are needed together as one with short names (join.py, shorten.py). In index.html "static/" becomes "static/HASH/", HASH
being that of all files: what lies there never changes. states.js gets the table of states, index.html that of causes, from the headers in the folder WORDS. run.html is index.html for the page of a run, with its script named.
"""
import gzip
import hashlib
import json
import os
import re
import sys

from join import join
from tighten import tighten

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
         ".ico": "image/x-icon", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
         ".woff2": "font/woff2"}

PRELOADS = b"<!-- preloads -->\n"
KNOWN = b"<!-- known -->\n"  # where shell.c puts what is known of the run
CAUSES = b'<script type="application/json" id="causes"></script>'
MARKS = [b'<base href="/">', b"<title>flowrun</title>", KNOWN, PRELOADS, CAUSES, b'<main id="main" tabindex="-1"></main>']


def rows_of(path, table, pattern):
    """What the pattern has of each line X(…) of the table, a macro that goes on after backslashes."""
    with open(path, encoding="utf-8") as f:
        text = re.search(r"#define %s\(X\)(.*)" % table, re.sub(r"\s*\\\n\s*", " ", f.read()))[1]
    rows = re.findall(r"X\(" + pattern + r"\)", text)
    if len(rows) != len(re.findall(r"X\(\w+, \"", text)):
        sys.exit("embed.py: %s: a line of %s has another form than %s" % (path, table, pattern))
    return rows


def states(words):
    """[name, letter, failed by itself, ended] of each line of FR_STATES, in the order of concern."""
    rows = rows_of(words + "/states.h", "FR_STATES", r"(\w+), \"(\w+)\", '(\w)', (\d+), (true|false)")
    first = [r[0] for r in rows].index("SUCCEEDED")
    table = [(int(concern), [word, letter, int(failed == "true"), int(i >= first)])
             for i, (_, word, letter, concern, failed) in enumerate(rows)]
    return [row for _, row in sorted(table)]


def causes(words):
    """{name: what it means} of each line of FR_CAUSES."""
    return dict(rows_of(words + "/causes.h", "FR_CAUSES", r"\w+, \"(\w+)\", \d+, \w+, (?:true|false), (?:true|false), \"([^\"]*)\", \"[^\"]*\""))


def packed_json(table):
    return json.dumps(table, separators=(",", ":"))


def scripts(folder, names, words):
    files = {}
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            files[name] = f.read()
    files["states.js"] = files["states.js"].replace(" = STATES;", " = %s;" % packed_json(states(words)))
    return {name: tighten(text).encode() for name, text in join(files).items()}


def read(folder, words):
    files = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.startswith(".") or not os.path.isfile(path):
            continue
        if os.path.splitext(name)[1] not in TYPES:
            sys.exit("embed.py: %s: its type is not known by its ending" % path)
        if not name.endswith(".js"):
            with open(path, "rb") as f:
                files[name] = f.read()
    files.update(scripts(folder, sorted(n for n in os.listdir(folder) if n.endswith(".js") and n[0] != "."), words))
    shell = files.get("index.html", b"")
    places = [shell.find(mark) for mark in MARKS]
    if places[0] < 0 or places != sorted(set(places)):
        sys.exit("embed.py: %s has no index.html with these, in this order: %s" % (folder, MARKS))
    shell = shell.replace(CAUSES, CAUSES[:-len(b"</script>")] + packed_json(causes(words)).encode() + b"</script>")
    files["index.html"] = shell.replace(KNOWN, b"").replace(PRELOADS, b"")
    files["run.html"] = shell.replace(PRELOADS, b'<link rel="modulepreload" href="static/run.js">\n')
    return files


def array(out, name, data):
    out.write("static const unsigned char %s[] = {" % name)
    for i in range(0, len(data), 24):
        out.write("\n" + "".join("%d," % b for b in data[i:i + 24]))
    out.write("\n0};\n")


def main():
    folder, words, target, depfile = sys.argv[1:5]
    files = read(folder, words)
    all_of_it = hashlib.sha256(b"".join(n.encode() + b"\0" + d for n, d in files.items())).hexdigest()[:16]
    for name in ("index.html", "run.html"):
        files[name] = files[name].replace(b'"static/', b'"static/' + all_of_it.encode() + b"/")
    rows = []
    with open(target, "w", encoding="utf-8") as out:
        out.write('#include "engine/web/pages.h"\n')
        for i, (name, data) in enumerate(files.items()):
            packed = gzip.compress(data, 9, mtime=0)
            if len(packed) >= len(data):
                packed = b""
            array(out, "data_%d" % i, data)
            array(out, "gzip_%d" % i, packed)
            rows.append('    {"%s", "%s", "\\"%s\\"", data_%d, %d, gzip_%d, %d},\n' % (
                name, TYPES[os.path.splitext(name)[1]], hashlib.sha256(data).hexdigest()[:16], i, len(data), i,
                len(packed)))
        out.write("const struct web_file web_files[] = {\n%s    {0}};\n" % "".join(rows))
        out.write('const char web_files_hash[] = "%s";\n' % all_of_it)
    with open(depfile, "w", encoding="utf-8") as out: # the folder too: a file may come or go
        paths = [folder] + [os.path.join(words, n) for n in ("causes.h", "states.h")] + [os.path.join(folder, n) for n in sorted(os.listdir(folder))]
        out.write("%s: %s\n" % (target, " ".join(p.replace(" ", "\\ ") for p in paths)))


if __name__ == "__main__":
    main()
