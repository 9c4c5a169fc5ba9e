"""A script without comments and without the blanks, semicolons and repeated words that nothing needs: a third less to
send. It reads tokens, so texts, texts in backticks and patterns stay as they are. Statements of the scripts end with
semicolons or braces: one that did not would be no script any more.
"""
import re

WORD = re.compile(r"[\w$]+(?:\.\d+)?")
TEXT = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
PATTERN = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/\w*")
BLANK = re.compile(r"(?:\s+|/\*.*?\*/)+", re.S)
SIGN = re.compile(r"\+\+|--|=>|[-+*/%&|^<>=!?]=+|&&|\|\||\?\?|\?\.(?!\d)|[^\s]")
ENDS_VALUE = {")", "]", "}"}             # behind these a slash divides, …
ENDS_LINE = ENDS_VALUE | {"++", "--"}    # … and a statement may end
GOES_ON = {".", "?.", ")", "]", "}", ",", "?", ":", "&&", "||", "??", "=", "=="}  # no statement begins with these
WORDS_BEFORE_VALUE = {"return", "typeof", "case", "in", "of", "await", "else", "new"}


class Reader:
    def __init__(self, text):
        self.text, self.at, self.tokens = text, 0, []  # (kind: word, text, sign or blank; what it is)

    def add(self, kind, value):
        self.tokens.append((kind, value))
        self.at += len(value)

    def before(self):
        return next((t for t in reversed(self.tokens) if t[0] != "blank"), ("sign", ";"))

    def divides(self):
        kind, value = self.before()
        return value in ENDS_VALUE if kind == "sign" else value not in WORDS_BEFORE_VALUE

    def backticks(self):
        """A text in backticks; what stands in its ${} is code again."""
        start = self.at
        self.at += 1
        while self.text[self.at] != "`":
            if self.text.startswith("${", self.at):
                self.tokens.append(("text", self.text[start:self.at + 2]))
                self.at += 2
                self.code("}")
                start = self.at
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1
        self.tokens.append(("text", self.text[start:self.at]))

    def code(self, end=None):
        """Up to `end` of this level, which stays; None: the end of the text."""
        depth = 0
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == end and depth == 0:
                return
            blank, word, text = (p.match(self.text, self.at) for p in (BLANK, WORD, TEXT))
            if blank:
                self.tokens.append(("blank", "\n" if "\n" in blank.group() else " "))
                self.at = blank.end()
            elif here == "`":
                self.backticks()
            elif word or text:
                self.add("word" if word else "text", (word or text).group())
            elif here == "/" and not self.divides():
                self.add("text", PATTERN.match(self.text, self.at).group())
            else:
                sign = SIGN.match(self.text, self.at).group()
                depth += (sign in "({[") - (sign in ")}]")
                self.add("sign", sign)


def kept(before, blank, after):
    """What stands for a blank between two tokens."""
    (kind, one), (next_kind, other) = before, after
    if blank == "\n":
        goes_on = kind == "sign" and one not in ENDS_LINE or next_kind == "sign" and other in GOES_ON
        ended = one == "}" and next_kind == "word"
        return "" if goes_on or ended else "\n"
    joined = kind == next_kind == "word" or one[-1] in "+-/" and one[-1] == other[0]
    return " " if joined else ""


def join_declarations(tokens):
    """Of "const a = 1; const b = 2;" the second "const" goes."""
    out, begins, stack = [], None, []  # begins: first word of the statement
    for i, (kind, value) in enumerate(tokens):
        if kind == "sign" and value in "([{":
            stack.append(begins)
            begins = None
        elif kind == "sign" and value in ")]}":
            begins = stack.pop() if stack else None
        elif kind == "sign" and value == ";":
            following = [t for t in tokens[i + 1:i + 3] if t[0] != "blank"][:1]
            again = begins in ("const", "let") and following == [("word", begins)]
            begins = "more" if again else None
            value = "," if again else value
        elif kind == "word" and begins == "more":
            begins = value
            continue
        elif kind != "blank" and begins is None:
            begins = value
        out.append((kind, value))
    return out


def drop_last_semicolons(tokens):
    """Of "{ a(); }" the semicolon goes, but not of "{ while (a); }"."""
    solid = [t for t in tokens if t[0] != "blank"]
    out, stack, loop, k = [], [], False, 0  # loop: the last bracket that closed is that of a loop
    for kind, value in tokens:
        if kind == "blank":
            out.append((kind, value))
            continue
        before, after = solid[k - 1][1] if k > 0 else "", solid[k + 1] if k + 1 < len(solid) else ("", "")
        k += 1
        if kind == "sign" and value in "([{":
            stack.append(before in ("for", "while", "if"))
        elif kind == "sign" and value in ")]}":
            loop = stack.pop() if stack else False
        if not ((kind, value) == ("sign", ";") and after == ("sign", "}") and not (before == ")" and loop)):
            out.append((kind, value))
    return out


def tighten(text):
    reader = Reader(text.strip())
    reader.code()
    tokens, out = drop_last_semicolons(join_declarations(reader.tokens)), []
    for i, (kind, value) in enumerate(tokens):
        inside = kind == "blank" and 0 < i < len(tokens) - 1
        out.append(kept(tokens[i - 1], value, tokens[i + 1]) if inside else "" if kind == "blank" else value)
    return "".join(out)
