"""For tests of the host's interface: a host in a home of its own, requests byte by byte over TCP and
over its socket, and a checker of answers against schema/openapi.json (JSON Schema 2020-12, as far as
that document uses it)."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = "planted-tiger-7261"
DEADLINE_S = 200  # what is awaited comes at once, unless others have the processors
PIPELINE = """name: demo
description: what the test runs
schedule: {every: 6h}
params: {x: {default: 3, type: int, help: how many}, who: {default: me}}
secrets: {s: {env: PLANTED}}
tasks:
  first: {run: "for i in $(seq 3000); do echo line $i of $W; done; echo v=7 >> $FLOWRUN_OUTPUT", outputs: [v], env: {W: "${{ params.who }}"}, files: {in: kept.txt}}
  bad: {needs: [first], run: "echo error: no; test -n \\"$S\\" && exit 3", env: {S: "${{ secrets.s }}"}}
  last: {needs: [bad], run: "true"}
"""
KEPT = "a file that goes along\n"
LONG = """name: long
tasks: {wait: {run: "exec sleep 600"}}
"""


def whole(chunked):
    """The body that the chunks are of; all of it must be there."""
    out = b""
    while True:
        size, _, rest = chunked.partition(b"\r\n")
        n = int(size, 16)
        if n == 0:
            return out
        if rest[n:n + 2] != b"\r\n":
            raise ValueError("a chunk is cut off")
        out, chunked = out + rest[:n], rest[n + 2:]


class Answer:
    def __init__(self, raw):
        head, _, self.body = raw.partition(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 1"):  # it is worked on
            head, _, self.body = self.body.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1]) if lines[0].startswith("HTTP/1.1 ") else 0
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers.setdefault(name.strip().lower(), value.strip())
        if self.headers.get("transfer-encoding") == "chunked":
            self.body = whole(self.body)

    def json(self):
        return json.loads(self.body)


class Host:
    """A flowrun serve with pages, its pipelines, and tokens of each role."""

    def __init__(self, build, *options):
        self.work = tempfile.mkdtemp(prefix="fr-api.")
        self.flowrun = os.path.join(os.path.abspath(build), "engine/cli/flowrun")
        self.env = dict(os.environ, FLOWRUN_HOME=self.work + "/home", NO_COLOR="1", TZ="UTC", PLANTED=SECRET,
                        W=self.work)
        self.folder = self.work + "/pipelines"
        os.mkdir(self.folder)
        for name, text in (("demo.yaml", PIPELINE), ("long.yaml", LONG), ("kept.txt", KEPT)):
            with open(os.path.join(self.folder, name), "w") as f:
                f.write(text)
        os.mkdir(self.work + "/home", 0o700)
        with open(self.work + "/home/config.yaml", "w") as f:
            f.write("channels: {sink: {kind: command, command: [sh, -c, cat > /dev/null]}}\n"
                    "notify: {on: failed, to: sink}\n")
        self.seen = b""  # all that was answered
        self.log = open(self.work + "/served", "w+b")
        self.host = subprocess.Popen([self.flowrun, "serve", "--http", "127.0.0.1:0", *options, self.folder],
                                     env=self.env, stdout=self.log, stderr=subprocess.STDOUT)
        self.url = self.wait_for(rb"pages at http://127\.0\.0\.1:(\d+)/")
        self.port = int(self.url)
        self.tokens = {r: self.run("token", "new", r, "--role", r).strip() for r in ("view", "operate", "admin")}
        self.until("/schedules", lambda doc: doc["items"])

    def wait_for(self, pattern):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            with open(self.log.name, "rb") as f:
                m = re.search(pattern, f.read())
            if m:
                return m.group(1).decode()
            if self.host.poll() is not None:
                sys.exit("the host ended")
            time.sleep(0.02)
        sys.exit("the host does not begin")

    def run(self, *args, ok=0):
        p = subprocess.run([self.flowrun, *args], env=self.env, cwd=self.work, capture_output=True, text=True)
        if ok is not None and p.returncode != ok:
            print("FAILED: flowrun %s: %d\n%s%s" % (" ".join(args), p.returncode, p.stdout, p.stderr))
        return p.stdout

    def send(self, text, over="tcp", wait=20):
        """The connection over which it went."""
        if over == "tcp":
            s = socket.create_connection(("127.0.0.1", self.port), wait)
        else:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(wait)
            s.connect(self.work + "/home/host.sock")
        try:
            s.sendall(text if isinstance(text, bytes) else text.encode())
        except (TimeoutError, ConnectionError):
            pass
        return s

    def take(self, s):
        """What comes until the host closes, or nothing comes any more."""
        got = b""
        try:
            while part := s.recv(1 << 16):
                got += part
        except (TimeoutError, ConnectionError):
            pass
        self.seen += got
        return got

    def raw(self, text, over="tcp", wait=20, half=True):
        """The bytes that are answered to text until the host closes, or nothing comes any more."""
        with self.send(text, over, wait) as s:
            try:
                if half:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            return self.take(s)

    def ask(self, method, path, body=None, role="admin", over="tcp", headers=()):
        text = "%s /api/v1%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" % (method, path)
        if over == "tcp" and role:
            text += "Authorization: Bearer %s\r\n" % self.tokens[role]
        data = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            text += "Content-Type: application/json\r\nContent-Length: %d\r\n" % len(data)
        for name, value in headers:
            text += "%s: %s\r\n" % (name, value)
        return Answer(self.raw((text + "\r\n").encode() + data, over, half=False))

    def until(self, path, fits, role="admin"):
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            doc = self.ask("GET", path, role=role).json()
            if fits(doc):
                return doc
            time.sleep(0.05)
        sys.exit("never came true: %s" % path)

    def end(self):
        self.host.send_signal(signal.SIGTERM)
        self.host.wait(30)
        for pid in os.listdir("/proc"):  # tasks that the test began
            try:
                if pid.isdigit() and b"W=" + self.work.encode() in open("/proc/%s/environ" % pid, "rb").read():
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        shutil.rmtree(self.work, ignore_errors=True)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED: " + what)
        return ok

    def done(self):
        print("%d passed, %d failed" % (self.passed, self.failed))
        sys.exit(1 if self.failed or not self.passed else 0)


TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def mistakes(doc, schema, value, at="$"):
    """What of value does not fit schema, a list of texts."""
    if "$ref" in schema:
        target = doc
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        return mistakes(doc, target, value, at)
    out = []
    types = schema.get("type")
    if types and not any(is_type(value, t) for t in ([types] if isinstance(types, str) else types)):
        return ["%s is %r, not %s" % (at, value, types)]
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        out.append("%s is %r" % (at, value))
    if "oneOf" in schema:
        fits = [mistakes(doc, s, value, at) for s in schema["oneOf"]]
        if sum(not f for f in fits) != 1:
            out.append("%s fits %d of oneOf: %s" % (at, sum(not f for f in fits), fits))
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        out.append("%s is %r, which is not %s" % (at, value, schema["pattern"]))
    if is_type(value, "number"):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            out.append("%s is %r" % (at, value))
    if isinstance(value, dict):
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        out += ["%s lacks %s" % (at, n) for n in schema.get("required", []) if n not in value]
        for name, v in value.items():
            if name in known:
                out += mistakes(doc, known[name], v, "%s.%s" % (at, name))
            elif more is False:
                out.append("%s has %s" % (at, name))
            elif isinstance(more, dict):
                out += mistakes(doc, more, v, "%s.%s" % (at, name))
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            out.append("%s has %d items" % (at, len(value)))
        first = schema.get("prefixItems", [])
        for i, v in enumerate(value):
            s = first[i] if i < len(first) else schema.get("items")
            if s:
                out += mistakes(doc, s, v, "%s[%d]" % (at, i))
    return out
