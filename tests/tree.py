#!/usr/bin/env python3
"""Checks the shape of the tree: sizes, banned calls, mutable file-scope variables, includes, links of pages, options of the build.

The include rule is read from ARCHITECTURE.md (its lines "floors: …"). Prints one line a finding;
exit status 1 when there is any.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMITS = {"file": 600, "test": 700, "header": 300, "function": 60, "table": 100, "functions": 30,
          "params": 5, "columns": 100}
BANNED = {"strcpy", "strcat", "sprintf", "atoi", "atol", "strtok", "gets", "vsprintf"}
PRINTING = {"exit", "abort", "printf", "fprintf", "puts", "fputs", "perror"}
PRINTERS = {"main.c", "log.c"}
MUTABLE_OK = {("engine/base/sys.c", "fr_sys"), ("engine/base/log.c", "sink"), ("engine/base/thread.c", "left")}
findings = []


def say(path, line, text):
    findings.append("%s:%d: %s" % (path, line, text))


def sources(kind=r"\.(c|h|cu|cuh)$"):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"],
                           capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = [n for n in names if re.search(kind, n)]
    return [n for n in wanted if os.path.exists(os.path.join(ROOT, n))]


def bare(text):
    """The text without comments and with empty string literals; line numbers stay."""
    def blank(m):
        s = m.group(0)
        if s.startswith("/"):
            return "\n" * s.count("\n") or " "
        return s[0] + s[0]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def check_functions(path, lines, is_test):
    start, count = None, 0
    for i, line in enumerate(lines, 1):
        if line.rstrip() == "{" and i > 1 and re.search(r"\)\s*(__attribute__.*)?$", lines[i - 2].rstrip()):
            start = i
        elif line.startswith("}") and start:
            length, count = i - start - 1, count + 1
            head, k = "", start - 2
            while k >= 0 and lines[k].strip() and not lines[k].rstrip().endswith((";", "}")) and not lines[k].startswith("#"):
                head, k = lines[k] + head, k - 1
            kernel = re.search(r"kernel|_table\b|__global__", head) or re.search(r"/(ref|cpu|cuda|cudasim)/", path)
            if length > (LIMITS["table"] if kernel else LIMITS["function"]):
                say(path, start, "a function of %d lines" % length)
            args = head[head.find("(") + 1:head.rfind(")")]
            args = re.sub(r",\s*const char \*fmt,\s*\.\.\.\s*$", "", args)  # a format and its values
            depth, commas = 0, 0
            for c in args:
                depth += (c == "(") - (c == ")")
                commas += c == "," and depth == 0
            limit = 9 if kernel else LIMITS["params"]
            commas -= bool(re.search(r"struct fr_err \*err\s*$", args))
            if commas + 1 > limit and "(*" not in head:
                say(path, start, "a function of %d parameters" % (commas + 1))
            start = None
    if count > LIMITS["functions"] and not is_test:
        say(path, 1, "%d functions in a file" % count)


def check_text(path, text):
    is_test = path.startswith("tests/")
    code = bare(text)
    lines, raw = code.split("\n"), text.split("\n")
    limit = LIMITS["header"] if path.endswith(".h") else LIMITS["test"] if is_test else LIMITS["file"]
    if len(raw) - 1 > limit:
        say(path, len(raw), "%d lines, at most %d" % (len(raw) - 1, limit))
    for i, line in enumerate(raw, 1):
        if len(line) > LIMITS["columns"]:
            say(path, i, "%d columns" % len(line))
    check_functions(path, lines, is_test)
    for i, line in enumerate(lines, 1):
        for name in re.findall(r"(?<![\w.>])([a-z]+)\s*\(", line):
            if name in BANNED:
                say(path, i, "banned call %s" % name)
            if name in PRINTING and not is_test and os.path.basename(path) not in PRINTERS:
                say(path, i, "%s outside main.c and log.c" % name)
        m = re.match(r"(?:static\s+)?(?:struct \w+|enum \w+|[a-z_0-9]+)\s+\**(\w+)(\[[^\]]*\])*\s*(=|;)", line)
        if m and path.endswith(".c") and not is_test and not re.match(r"(typedef|return|extern|goto|else|case)\b", line):
            if "const" not in line.split("=")[0] and (path, m.group(1)) not in MUTABLE_OK:
                say(path, i, "mutable file-scope variable %s" % m.group(1))


def floors():
    rules = []
    with open(os.path.join(ROOT, "ARCHITECTURE.md")) as f:
        for line in f:
            if line.strip().startswith("floors:"):
                rules.append([[m.strip() for m in floor.split(",")] for floor in line.split("floors:")[1].split("→")])
    return rules


def module_of(path):
    parts = path.split("/")
    if parts[0] == "engine" and len(parts) > 2:
        return parts[1]
    if parts[0] == "trainer" and len(parts) > 2:
        return "trainer/cli" if parts[1] == "cli" else parts[1]
    return "tasks" if parts[0] == "tasks" else None


def check_includes(path, text, rules):
    module = module_of(path)
    if module is None:
        return
    allowed = {module}
    for rule in rules:
        for depth, floor in enumerate(rule):
            if module in floor:
                allowed.update(m for lower in rule[depth + 1:] for m in lower)
    for i, line in enumerate(text.split("\n"), 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        target = m.group(1)
        if target.startswith("tests/"):
            say(path, i, "the product includes a test")
            continue
        to = module_of(target)
        same_side = (path.split("/")[0] == target.split("/")[0] or to == "base"
                     or path.startswith("tasks/") and target.startswith("engine/"))
        if to is not None and (to not in allowed or not same_side):
            say(path, i, "%s may not include %s" % (module, target))
        deep = target.split("/")[:-1]
        if len(deep) > 2 and not path.startswith("/".join(deep) + "/"):
            say(path, i, "%s is private to its folder" % target)


def check_links(path):
    """Every file that a page names is there."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        for i, line in enumerate(f, 1):
            for to in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
                if not os.path.exists(os.path.join(ROOT, os.path.dirname(path), to)):
                    say(path, i, "%s is not there" % to)


def check_options():
    """Every option of the build is read by it."""
    read = set()
    for path in sources(r"(^|/)meson\.build$"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            read.update(re.findall(r"get_option\('([^']+)'\)", f.read()))
    with open(os.path.join(ROOT, "meson_options.txt"), encoding="utf-8") as f:
        for i, line in enumerate(f, 1):
            name = re.match(r"option\('([^']+)'", line)
            if name and name.group(1) not in read:
                say("meson_options.txt", i, "no meson.build reads the option %s" % name.group(1))


def main():
    rules = floors()
    if not rules:
        say("ARCHITECTURE.md", 1, "no line 'floors: …'")
    for path in sources():
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        check_text(path, text)
        check_includes(path, text, rules)
    for path in ["README.md", "ARCHITECTURE.md"] + ["docs/" + n for n in os.listdir(os.path.join(ROOT, "docs")) if n.endswith(".md")]:
        check_links(path)
    check_options()
    print("\n".join(findings))
    print("%d findings" % len(findings))
    return 1 if findings else 0


sys.exit(main())
