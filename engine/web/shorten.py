"""A module whose own names are short: a tenth less to send. It reads the tokens of tighten.py and knows no scopes: all
places where a name stands for a value get the same new one, which nothing else in the module has, so what each place
means stays. Names of properties stay as they are; "{name}" becomes "{name:a}". What the module does not declare, or
others know, too, is left alone.
"""
import re
import string

from tighten import Reader

PAIRS = {")": "(", "]": "[", "}": "{"}
KEYWORDS = set("""async await break case catch class const continue default delete do else export extends false finally for
    from function get if import in instanceof let new null of return set static super switch this throw true try typeof
    undefined var void while yield""".split())
BLOCKS = {"=>", ")", "{", "}", ";"}                    # a brace behind these opens a block …
BLOCK_WORDS = {"else", "try", "finally", "do"}         # … and behind these
# What scripts take of the browser without declaring it: a name of a value that is one of these stays, too.
GLOBALS = set("""alert atob btoa caches confirm console crypto document fetch getComputedStyle getSelection history indexedDB
    innerHeight innerWidth localStorage location matchMedia navigator performance prompt queueMicrotask requestAnimationFrame
    screen scrollX scrollY sessionStorage setInterval setTimeout structuredClone window""".split())
NOT_CALLS = {"if", "for", "while", "switch"}           # "word (…) {" with these declares nothing
NAME = re.compile(r"[A-Za-z_$][\w$]*$")


class Module:
    def __init__(self, text):
        reader = Reader(text)
        reader.code()
        self.all = reader.tokens
        self.tokens = [(kind, value, i) for i, (kind, value) in enumerate(self.all) if kind != "blank"]
        self.match = {}   # place of a bracket: that of the other one
        self.inside = []  # of each token: place of the bracket around it; -1: none
        self.kinds = {}   # place of an opening brace: block, class or object
        self.nest()

    def value(self, i):
        return self.tokens[i][1] if 0 <= i < len(self.tokens) and self.tokens[i][0] != "text" else ""

    def is_name(self, i):
        return 0 <= i < len(self.tokens) and self.tokens[i][0] == "word" and NAME.match(self.value(i)) \
            and self.value(i) not in KEYWORDS

    def kind_of(self, i):
        before = self.value(i - 1)
        if self.value(i - 2) == "class" or self.value(i - 2) == "extends":
            return "class"
        return "block" if i == 0 or before in BLOCKS or before in BLOCK_WORDS else "object"

    def nest(self):
        stack = []
        for i, (kind, value, _) in enumerate(self.tokens):
            sign = kind == "sign"
            if sign and value in PAIRS:
                self.match[i] = stack[-1]
                self.match[stack.pop()] = i
            self.inside.append(stack[-1] if stack else -1)
            if sign and value in "([{":
                if value == "{":
                    self.kinds[i] = self.kind_of(i)
                stack.append(i)

    def role(self, i):
        """Of a name: value, property, or both: "{name}", of an object or a pattern."""
        before, around = self.value(i - 1), self.kinds.get(self.inside[i])
        if before == "." and self.value(i - 2) == self.value(i - 3) == ".":
            return "value"  # "...name"
        if before in (".", "?.") or around == "class":
            return "property"
        if around == "object" and before in ("{", ",", "async", "get", "set"):
            return "property" if self.value(i + 1) in (":", "(") or before not in ("{", ",") else "both"
        return "value"

    def pattern(self, i, end, out):
        """The names that a pattern, or a list of parameters, declares: what stands behind "=" does not count."""
        skip = False
        while i < end:
            value = self.value(i)
            if value == ",":
                skip = False
            elif value == "=":
                skip = True
            elif value in ("(", "[", "{") and self.tokens[i][0] == "sign":
                if not skip:
                    self.pattern(i + 1, self.match[i], out)
                i = self.match[i]
            elif not skip and self.is_name(i) and self.value(i + 1) != ":":
                out.add(value)
            i += 1

    def statement(self, i, out):
        """const a = …, [b, c] = …; and of (const d of …)"""
        begins = True
        while i < len(self.tokens) and self.value(i) not in (";", "of", "in", ")"):
            value = self.value(i)
            if begins and value in ("[", "{"):
                self.pattern(i + 1, self.match[i], out)
            elif begins and self.is_name(i):
                out.add(value)
            begins = value == ","
            i = self.match[i] + 1 if value in ("(", "[", "{") and self.tokens[i][0] == "sign" else i + 1

    def declared(self):
        out = set()
        for i in range(len(self.tokens)):
            value = self.value(i)
            if value in ("const", "let"):
                self.statement(i + 1, out)
            elif value in ("function", "class") and self.is_name(i + 1):
                out.add(self.value(i + 1))
            elif value == "=>" and self.is_name(i - 1):
                out.add(self.value(i - 1))
            elif value == "(" and self.tokens[i][0] == "sign":
                end = self.match[i]
                body = self.value(end + 1) == "{" and self.value(i - 1) not in NOT_CALLS
                if body or self.value(end + 1) == "=>":
                    self.pattern(i + 1, end, out)
        return out

    def short_names(self, known):
        """{place: what stands there instead}"""
        places, words = {}, {value for kind, value, _ in self.tokens if kind == "word"}
        for i in range(len(self.tokens)):
            if self.is_name(i) and self.role(i) != "property":
                places.setdefault(self.value(i), []).append(i)
        fresh = (a + b for b in [""] + list(string.ascii_letters) for a in string.ascii_letters)
        own = [name for name in self.declared() if len(name) > 1 and name not in known and name not in GLOBALS]
        names = {name: next(s for s in fresh if s not in words)
                 for name in sorted(own, key=lambda n: (-len(places.get(n, [])), n))}
        names.update(known)
        return {i: name + ":" + short if self.role(i) == "both" else short
                for name, short in names.items() for i in places.get(name, []) if short != name}


def shorten(text, known=()):
    """known: {name that others know, too: what it is called there}"""
    module = Module(text)
    short = {module.tokens[i][2]: name for i, name in module.short_names(dict(known)).items()}
    return "".join(short.get(i, value) for i, (_, value) in enumerate(module.all))
