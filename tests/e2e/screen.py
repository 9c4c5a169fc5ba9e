#!/usr/bin/env python3
"""The table on a terminal, seen through a small terminal emulator: no frame is torn, no line is lost,
on terminals of several sizes. usage: screen.py BUILD"""
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unicodedata

DEADLINE_S = 400


class Screen:
    """What a VT100 with insert-line does with the bytes; rows that scroll off are kept."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.grid = [[] for _ in range(rows)]
        self.wraps = [False] * rows  # the row goes on in the next one
        self.past = []               # (text, wraps) of rows that scrolled off
        self.row = self.column = 0
        self.sync = False
        self.frames = 0
        self.rest = b""

    def text(self, row):
        text = "".join(self.grid[row])
        return text if self.wraps[row] else text.rstrip()

    def line_feed(self):
        if self.row + 1 < self.rows:
            self.row += 1
            return
        self.past.append((self.text(0), self.wraps[0]))
        self.grid = self.grid[1:] + [[]]
        self.wraps = self.wraps[1:] + [False]

    def put(self, c):
        width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if self.column + width > self.columns:
            self.wraps[self.row] = True
            self.line_feed()
            self.column = 0
        cells = self.grid[self.row]
        cells.extend(" " * (self.column + width - len(cells)))
        cells[self.column] = c
        if width == 2:
            cells[self.column + 1] = ""
        self.column += width

    def control(self, words, kind):
        n = int(words or 0) if words.isdigit() or not words else 0
        if kind == "A":
            assert n <= self.row, "the cursor is sent above the screen"
            self.row -= n
        elif kind == "B":
            self.row = min(self.rows - 1, self.row + max(n, 1))
        elif kind == "K":
            del self.grid[self.row][self.column:]
            self.wraps[self.row] = False
        elif kind == "J":
            del self.grid[self.row][self.column:]
            for r in range(self.row + 1, self.rows):
                self.grid[r], self.wraps[r] = [], False
        elif kind == "L":
            assert all(not self.text(r) for r in range(self.rows - n, self.rows)), "rows pushed off the screen"
            self.grid[self.row:] = ([[] for _ in range(n)] + self.grid[self.row:])[:self.rows - self.row]
            self.wraps[self.row:] = ([False] * n + self.wraps[self.row:])[:self.rows - self.row]
            self.column = 0
        elif words == "?2026":
            self.frames += self.sync and kind == "l"
            self.sync = kind == "h"
        else:
            assert kind == "m", "unknown control %s%s" % (words, kind)

    def feed(self, data, look):
        """Takes data; calls look() whenever a terminal with synchronized output would show itself."""
        data = self.rest + data
        text = data.decode(errors="ignore") if not data or data[-1] < 0x80 else None
        if text is None or re.search(r"\x1b(\[[^A-Za-z]*)?$", text):
            self.rest = data  # a character or a control is cut in two
            return
        self.rest = b""
        for m in re.finditer(r"\x1b\[([^A-Za-z]*)([A-Za-z])|(.|\n)", text):
            was = self.sync
            if m.group(2):
                self.control(m.group(1), m.group(2))
            elif m.group() == "\r":
                self.column = 0
            elif m.group() == "\n":
                self.line_feed()
            else:
                self.put(m.group())
            if was and not self.sync:
                look()

    def transcript(self):
        rows = self.past + [(self.text(r), self.wraps[r]) for r in range(self.rows)]
        whole, part = [], ""
        for text, wraps in rows:
            part += text
            if not wraps:
                whole.append(part)
                part = ""
        return whole


def check_frame(screen):
    """Lines, then rows of the table, then the totals, then nothing but the cursor's row."""
    rows = [screen.text(r) for r in range(screen.rows)]
    while rows and not rows[-1]:
        rows.pop()
    kinds, wrapped = "", False
    for r, text in enumerate(rows):
        if wrapped or re.match(r"\d\d:\d\d:\d\d ", text):
            kinds += "l"
        elif text.startswith("run 1: "):
            kinds += "t"
        elif re.match(r"(t|long)\d+ ", text):
            kinds += "r"
        else:
            kinds += "l" if "l" not in kinds and "r" not in kinds else "?"
        wrapped = screen.wraps[r]
        assert len(text) <= screen.columns
    assert re.fullmatch(r"l*r+t|l*t|l+", kinds), "a torn frame: %s\n%s" % (kinds, "\n".join(rows))
    assert "t" not in kinds or screen.row == len(rows), "the cursor is in row %d" % screen.row
    return "t" in kinds


def run(flowrun, columns, rows, n):
    with open("p.yaml", "w") as f:
        f.write("name: p\nnodes: [{name: n1, executor: local}]\nmax_parallel: 8\ntasks:\n")
        for i in range(n):
            f.write("  t%d: {run: 'echo output %d'}\n" % (i, i))
        f.write("  long1: {run: 'for i in 1 2 3; do printf \"%%%ds\\n\" x; printf \"%%%ds|\\n\" y; sleep 0.15; done'}\n" % (columns - 19, 3 * columns))
        f.write("  long2: {run: 'for i in 1 2 3; do echo 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字; sleep 0.15; done'}\n")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = dict(os.environ, TERM="xterm", FLOWRUN_HOME=os.path.abspath("home"), TZ="UTC")
    env.pop("NO_COLOR", None)
    child = subprocess.Popen([flowrun, "p.yaml"], stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    screen, tables, end = Screen(columns, rows), 0, time.monotonic() + DEADLINE_S

    def look():
        nonlocal tables
        tables += child_shows and check_frame(screen)

    child_shows = True
    while True:
        assert time.monotonic() < end, "it does not end"
        if not select.select([master], [], [], 1)[0]:
            continue
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        at = data.find(b"task ") if b"attempts" in data else -1
        if at >= 0:  # the last frame: the table at the end is no frame
            child_shows = False
        screen.feed(data, look)
    os.close(master)
    assert child.wait() == 0, "exit code %d" % child.returncode
    assert tables >= 2, "%d frames with a table" % tables
    got = screen.transcript()
    for i in range(n):
        lines = [line for line in got if line.endswith(" t%d@n1 | output %d" % (i, i))]
        assert len(lines) == 1, "output of t%d is shown %d times" % (i, len(lines))
    assert sum(line.endswith(" long2@n1 | " + "漢字" * 17) for line in got) == 3, "a line of wide characters"
    assert sum(line.endswith(" y|") and len(line) == 3 * columns + 1 + 20 for line in got) == 3, "a line of four rows"
    assert sum(line.endswith(" x") and len(line) == columns + 1 for line in got) == 3, "a line a little too long"
    assert not any(line.startswith("run 1: ") for line in got), "a table is left behind"
    return "%d x %d, %d tasks: %d frames, %d with a table" % (columns, rows, n, screen.frames, tables)


def main():
    flowrun = os.path.join(os.path.abspath(sys.argv[1]), "engine/cli/flowrun")
    failed = 0
    sizes = [(80, 24, 1000), (40, 10, 60), (20, 6, 40), (132, 50, 60)]
    for columns, rows, n in sizes:
        work = tempfile.mkdtemp(prefix="fr-screen.")
        os.chdir(work)
        try:
            print(run(flowrun, columns, rows, n))
        except AssertionError as e:
            failed += 1
            print("FAILED: %d x %d: %s" % (columns, rows, e))
        os.chdir("/")
        shutil.rmtree(work, ignore_errors=True)
    print("%d passed, %d failed" % (len(sizes) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
