"""The table of requests in C, from openapi.json: routes.py INPUT TABLE HEADER.

Of each operation: its path, its role (x-role), the names and words of its query, and its function, which
is its operationId in the spelling of C. Operations that are a part of another one (x-part-of) have that
one's function and row, and x-query: any takes every query.
"""
import json
import re
import sys

SERVER = "/api/v1"
CHOICES_MOST = 4  # as in engine/answer/routes.h


def c_name(operation):
    return re.sub("([A-Z])", lambda m: "_" + m.group(1).lower(), operation)


def resolve(doc, part):
    while "$ref" in part:
        at = doc
        for key in part["$ref"].split("/")[1:]:
            at = at[key]
        part = at
    return part


def pattern(path, servers):
    """"*": a run, "#": a number; another part ends it, and is the function's to read."""
    path = (SERVER if not servers else "") + path.replace("{run}", "*").replace("{id}", "#")
    return path[:path.index("{")] if "{" in path else path


class Row:
    def __init__(self, method, path, role):
        self.method, self.path, self.role, self.names, self.words = method, path, role, [], {}

    def take(self, doc, operation):
        if operation.get("x-query") == "any":
            self.names.append("*")
        for parameter in operation.get("parameters", []):
            parameter = resolve(doc, parameter)
            if parameter["in"] != "query":
                continue
            if parameter["name"] not in self.names:
                self.names.append(parameter["name"])
            if "enum" in resolve(doc, parameter["schema"]):
                self.words[parameter["name"]] = [str(w) for w in resolve(doc, parameter["schema"])["enum"]]

    def text(self, function):
        choices = "".join('{"%s", "%s", %s}, ' % (name, " ".join(w for w in words if w), "true" if "" in words else "false")
                          for name, words in self.words.items())
        return '    {FR_API_%s, "%s", FR_ROLE_%s, %s, "%s",\n     {%s}},\n' % (
            self.method.upper(), self.path, self.role.upper(), function, " ".join(self.names), choices or "{NULL, NULL, false}")


def main(source, table, header):
    with open(source, encoding="utf-8") as f:
        doc = json.load(f)
    rows = {}
    for path, methods in doc["paths"].items():
        for method, operation in methods.items():
            if method == "servers" or operation["operationId"] == "getStream":  # engine/stream answers that
                continue
            function = c_name(operation.get("x-part-of", operation["operationId"]))
            row = rows.setdefault(function, Row(method, pattern(path, methods.get("servers")), operation["x-role"]))
            if (row.method, row.role) != (method, operation["x-role"]):
                sys.exit("%s: %s has another method or role than what it is a part of" % (source, operation["operationId"]))
            row.take(doc, operation)
            if len(row.words) > CHOICES_MOST:
                sys.exit("%s: %s has more than %d lists of words in its query" % (source, operation["operationId"], CHOICES_MOST))
    with open(header, "w", encoding="utf-8") as f:
        f.write("".join("handler %s;\n" % function for function in rows))
    with open(table, "w", encoding="utf-8") as f:
        f.write('#include "engine/answer/routes.h"\n\nconst struct route routes[] = {\n')
        f.write("".join(row.text(function) for function, row in rows.items()))
        f.write("    {.path = NULL},\n};\n")


main(*sys.argv[1:])
