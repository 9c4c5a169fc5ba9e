#!/usr/bin/env python3
"""Columns of the store that the interface shows, in openapi.json: rows.py [--check].

Adds to each schema of SCHEMAS what its table in engine/store lacks there: a property, with its type and the comment of
its line as the description, and its name among those that are always there. What is there stays as it is written;
a property whose type is not its column's is an error. --check writes nothing and fails where something is missing.
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(ROOT, "schema", "openapi.json")
SCHEMAS = {"Run": ("store.h", "FR_RUN_COLUMNS"), "Instance": ("store.h", "FR_INST_COLUMNS"),
           "Fire": ("occurrences.h", "FR_OCCURRENCE_COLUMNS"), "Backfill": ("backfills.h", "FR_BACKFILL_COLUMNS"),
           "Allocation": ("allocations.h", "FR_ALLOCATION_COLUMNS"),
           "Delivery": ("outbox.h", "FR_DELIVERY_COLUMNS"), "Token": ("access.h", "FR_TOKEN_COLUMNS")}
TYPES = {"INT": "integer", "BOOL": "boolean"}  # the other kinds are shown as strings
ID = "^([0-9a-f]{32})?$"
WALL = "ms since 1970; "


def columns(header, table):
    """{shown name: its property} of each shown column."""
    with open(os.path.join(ROOT, "engine", "store", header), encoding="utf-8") as f:
        body = re.search(r"#define %s\(C, S, R\)(.*)" % table, re.sub(r"\s*\\\n\s*", " ", f.read()))[1]
    rows = re.findall(r'[CS]\(R, (\w+), \w+, (?:"(\w+)"|NULL)\)(?: */\* (.*?) \*/)?', body)
    if len(rows) != len(re.findall(r"[CS]\(R,", body)):
        sys.exit("rows.py: a line of %s in engine/store/%s has another form than C(R, kind, name, shown)" % (table, header))
    out = {}
    for kind, shown, comment in rows:
        if shown:
            about = WALL + (comment or "0: not yet, none") if shown.endswith("_wall") else comment
            out[shown] = {"type": TYPES.get(kind, "string"), **({"pattern": ID} if kind == "ID" else {}),
                          **({"description": about} if about else {})}
    return out


def wrong(schema, wanted):
    """The names of properties that are missing, and of those with another type."""
    there = schema["properties"]
    return ([name for name in wanted if name not in there or name not in schema["required"]],
            [name for name in wanted if there.get(name, {}).get("type", wanted[name]["type"]) != wanted[name]["type"]])


def add(text, name, wanted, missing):
    """The text of openapi.json with these properties of the schema, each a line."""
    start = text.index('\n   "%s": {\n' % name)
    end = text.index("\n   }", start)
    part = text[start:end]
    last = [m for m in re.finditer(r'\n     "(\w+)": \{.*\},?', part) if m[1] in wanted][-1]
    lines = ['\n     %s: %s' % (json.dumps(m), json.dumps(wanted[m], ensure_ascii=False)) for m in missing]
    comma = "," if last[0].endswith(",") else ""
    part = part[:last.end() - len(comma)] + "".join("," + line for line in lines) + comma + part[last.end():]
    names = re.search(r'"required": \[(.*?)\]', part, re.S)
    required = sorted(set(json.loads("[%s]" % names[1])) | set(wanted))
    part = part[:names.start(1)] + ",".join('\n     "%s"' % n for n in required) + "\n    " + part[names.end(1):]
    return text[:start] + part + text[end:]


def main():
    with open(TARGET, encoding="utf-8") as f:
        text = f.read()
    schemas, bad = json.loads(text)["components"]["schemas"], 0
    for name, table in SCHEMAS.items():
        wanted = columns(*table)
        missing, others = wrong(schemas[name], wanted)
        for other in others:
            print("schema/openapi.json: %s.%s has not the type of its column, %s" % (name, other, wanted[other]["type"]))
        if missing and sys.argv[1:] == ["--check"]:
            print("schema/openapi.json: %s lacks %s: run schema/rows.py" % (name, ", ".join(missing)))
        elif missing:
            text = add(text, name, wanted, [m for m in missing if m not in schemas[name]["properties"]])
        bad += len(others) + (len(missing) if sys.argv[1:] == ["--check"] else 0)
    if sys.argv[1:] != ["--check"]:
        with open(TARGET, "w", encoding="utf-8") as f:
            f.write(text)
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
