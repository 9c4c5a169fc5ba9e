"""Joins the modules of the pages into the scripts that are served: what is needed together comes with one request, and
packs better. Each module keeps a scope of its own; what it exports is a constant of its script. So an exported name is
that of one module alone, and none of the browser's; "open", which opens a page or tab, is no such constant. Names are
shorter there (shorten.py), but for those of modules that are loaded when they are wanted.
"""
import re
import string
import sys

from shorten import KEYWORDS, shorten

# A script is named after its last module. A module imports only modules before it, so there is no circle.
SCRIPTS = [
    ["dom", "words", "times", "states", "columns", "nav", "api", "ask", "keys", "ansi", "stream", "livepage", "paramform", "tip", "app"],
    ["model", "actions", "failure", "events", "diff", "params", "artifacts", "run"],
    ["boxes", "panzoom", "sizer", "task", "graph"],
    ["logsource", "logwindow", "logs"],
    ["spans", "timeline", "smooth", "chart", "curves"],
    ["queue", "nodes", "deliveries", "settings", "schedules", "history", "pipeline", "pipelines", "runs"],
]
ALONE = ["first"]  # no module: runs before all else
SCRIPT_OF = {module: modules[-1] for modules in SCRIPTS for module in modules}

IMPORT = re.compile(r"(?m)^import \{([^}]*)\} from '\./(\w+)\.js';\n")
EXPORT = re.compile(r"(?m)^export ((?:async )?function|class|const) (\w+)")
LOAD = re.compile(r"import\('\./(\w+)\.js'\)")
OF_BROWSERS = set("""alert atob blur btoa caches close closed confirm crypto document event external fetch find focus frames
    history indexedDB innerHeight innerWidth length location matchMedia name navigation navigator opener origin parent
    performance postMessage print prompt queueMicrotask screen scroll scrollX scrollY self status stop structuredClone top
    window""".split())


def refuse(module, what):
    sys.exit("join.py: %s.js: %s" % (module, what))


class Joiner:
    def __init__(self, files):
        self.files = files
        self.loaded = set(LOAD.findall("".join(files.values())))  # modules that come when they are wanted
        self.owner = {}    # exported name: its module
        self.imports = {}  # (script, another one): names that it has from there
        fresh = ("$" + a + b for a in [""] + list(string.ascii_letters) for b in string.ascii_letters)
        self.short = {name: next(fresh) for modules in SCRIPTS for module in modules if module not in self.loaded
                      for _, name in EXPORT.findall(files[module + ".js"]) if len(name) > 2 and name not in KEYWORDS}

    def called(self, name):
        return self.short.get(name, name)

    def take_import(self, module, names, source, known):
        for name in re.split(r",\s*", names.strip()):
            if self.owner.get(name) != source:
                refuse(module, "imports %s of %s.js, which no module before it exports" % (name, source))
            known[name] = self.called(name)
            if SCRIPT_OF[source] != SCRIPT_OF[module]:
                self.imports.setdefault((SCRIPT_OF[module], SCRIPT_OF[source]), set()).add(known[name])
        return ""

    def take_load(self, module, name):
        if name not in SCRIPT_OF:
            refuse(module, "loads %s.js, which join.py does not name" % name)
        return "import('./%s.js').then((script) => script.$%s)" % (SCRIPT_OF[name], name)

    def take_exports(self, module, names):
        for name in names:
            if name in OF_BROWSERS:
                refuse(module, "exports %s, which is a name of the browser's" % name)
            if name in self.owner:
                refuse(module, "exports %s, and so does %s.js" % (name, self.owner[name]))
            self.owner[name] = module

    def scope(self, module):
        known = {}
        text = IMPORT.sub(lambda m: self.take_import(module, m.group(1), m.group(2), known), self.files[module + ".js"])
        text = LOAD.sub(lambda m: self.take_load(module, m.group(1)), text)
        names = [name for _, name in EXPORT.findall(text)]
        shared = [self.called(name) for name in names if name != "open"]
        text = EXPORT.sub(r"\1 \2", text)
        odd = re.search(r"(?m)^(?:import|export)\b.*|\bimport\(`.*", text)
        if odd:
            refuse(module, "join.py cannot read: %s" % odd.group(0))
        self.take_exports(module, [name for name in names if name != "open"])
        text = shorten(text, {**known, **{name: self.called(name) for name in names}})
        left = ["$" + module] if module in self.loaded else []
        left += ["{%s}" % ", ".join(shared)] if shared else []
        whole = "(() => {\n%sreturn {%s};\n})()" % (text, ", ".join(map(self.called, names)))
        return "const %s = %s;\n" % ((" = %s, " % whole).join(left), whole if len(left) < 2 else left[0]) if left else whole + ";\n"

    def script(self, modules):
        body = "".join(self.scope(module) for module in modules)
        head = "".join("import {%s} from './%s.js';\n" % (", ".join(sorted(names)), source)
                       for (script, source), names in self.imports.items() if script == modules[-1])
        return head + body

    def all(self):
        scripts = {modules[-1]: self.script(modules) for modules in SCRIPTS}
        for name, text in scripts.items():
            exports = {"$" + module for module in self.loaded if SCRIPT_OF[module] == name}
            exports |= {n for (_, source), names in self.imports.items() if source == name for n in names}
            scripts[name] = "%sexport {%s};\n" % (text, ", ".join(sorted(exports)))
        return {name + ".js": text for name, text in scripts.items()}


def join(files):
    """files: the text of each module by its file's name; those that are served."""
    known, have = set(SCRIPT_OF) | set(ALONE), {name[:-3] for name in files}
    if known != have:
        sys.exit("join.py: it names %s, but the modules are %s" % (sorted(known - have), sorted(have - known)))
    return {**{name + ".js": files[name + ".js"] for name in ALONE}, **Joiner(files).all()}
