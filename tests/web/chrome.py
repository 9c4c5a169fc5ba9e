"""A headless Chromium through its DevTools protocol, over two pipes (JSON texts, each ended by NUL).

    with Chrome() as chrome:
        page = chrome.page(width=1280, height=800)
        page.go("http://127.0.0.1:8080/")
        page.wait("document.querySelector('table') !== null")

Every call has a deadline; what a page logs as an error or an exception, and each address that it asks for,
is kept in page.errors and page.requests.
"""
import base64
import collections
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = 100  # a step of a page, while others have the processors
SCRIPT = {"FireAnimationFrame", "FunctionCall", "EvaluateScript", "v8.evaluateModule", "v8.callFunction",
          "BlinkScheduler_PerformMicrotaskCheckpoint", "RunMicrotasks", "TimerFire", "EventDispatch"}
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--disable-extensions", "--disable-sync", "--no-first-run",
         "--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe", "about:blank"]
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "\t"), "ArrowRight": (39, ""), "ArrowLeft": (37, ""),
        "ArrowDown": (40, ""), "ArrowUp": (38, ""), " ": (32, " ")}


class Late(Exception):
    pass


def program():
    """The browser's path; None: there is none."""
    return next((p for p in map(shutil.which, ["chromium", "chromium-browser", "google-chrome"]) if p), None)


class Chrome:
    def __init__(self, path=None):
        self.folder = tempfile.mkdtemp(prefix="fr-chrome.")
        to_child, self.out = os.pipe()
        self.inp, from_child = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_child, from_child)]

        def place():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        with open(os.path.join(self.folder, "stderr"), "wb") as err:
            self.child = subprocess.Popen([path or program(), "--user-data-dir=" + self.folder] + FLAGS, stdout=err, stderr=err,
                                          preexec_fn=place, pass_fds=[3, 4] + high, start_new_session=True)
        for fd in [to_child, from_child] + high:
            os.close(fd)
        self.buffer = b""
        self.number = 0
        self.answers = {}
        self.pages = {}
        self.context = None

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.close()

    def close(self):
        try:
            os.write(self.out, b'{"id":0,"method":"Browser.close"}\0')
            self.child.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        for fd in (self.out, self.inp):
            os.close(fd)
        shutil.rmtree(self.folder, ignore_errors=True)

    def take(self, message):
        if "id" in message:
            self.answers[message["id"]] = message
        elif message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].take(message["method"], message["params"])

    def pump(self, seconds):
        """Takes what comes, for at most so long; False: nothing came."""
        if not select.select([self.inp], [], [], seconds)[0]:
            return False
        self.buffer += os.read(self.inp, 1 << 20)
        *whole, self.buffer = self.buffer.split(b"\0")
        for text in whole:
            self.take(json.loads(text))
        return True

    def call(self, method, params=None, session=None, deadline=DEADLINE):
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": params or {}}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + deadline
        while number not in self.answers:
            if not self.pump(max(0, end - time.monotonic())) and time.monotonic() >= end:
                raise Late("no answer to %s %s" % (method, str(params)[:200]))
        answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError("%s: %s" % (method, answer["error"]))
        return answer["result"]

    def page(self, width=1280, height=800, dark=False, reduced=True):
        """A tab; all of them share cookies and storage."""
        if self.context is None:
            self.context = self.call("Target.createBrowserContext")["browserContextId"]
        target = {"url": "about:blank", "browserContextId": self.context}
        target_id = self.call("Target.createTarget", target)["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target_id, "flatten": True})["sessionId"]
        page = self.pages[session] = Page(self, session, target_id)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(domain + ".enable")
        page.size(width, height)
        page.look(dark, reduced)
        return page


class Page:
    def __init__(self, chrome, session, target):
        self.chrome, self.session, self.target = chrome, session, target
        self.errors = []
        self.requests = collections.deque(maxlen=20000)
        self.traced, self.tracing = [], False
        self.told = {}

    def call(self, method, params=None, deadline=DEADLINE):
        return self.chrome.call(method, params, self.session, deadline)

    def take(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append("%s %s" % (params["entry"]["text"], params["entry"].get("url", "")))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.bindingCalled":
            self.told[params["name"]] = params["payload"]
        elif method == "Tracing.dataCollected":
            self.traced += params["value"]
        elif method == "Tracing.tracingComplete":
            self.tracing = False

    def trace(self):
        """Records what the page's thread does, until traced_tasks()."""
        self.traced, self.tracing = [], True
        self.call("Tracing.start", {"transferMode": "ReportEvents",
                                    "traceConfig": {"includedCategories": ["devtools.timeline", "toplevel", "v8"]}})

    def traced_tasks(self):
        """Of each task of the page's thread: CPU milliseconds of all of it, of its script, and whether it was a frame's."""
        if self.tracing:
            self.call("Tracing.end")
        while self.tracing and self.chrome.pump(DEADLINE):
            pass
        main = collections.Counter((e["pid"], e["tid"]) for e in self.traced if e["name"] == "FunctionCall").most_common(1)[0][0]
        events = sorted((e for e in self.traced if (e["pid"], e["tid"]) == main and "tdur" in e), key=lambda e: (e["ts"], -e["dur"]))
        tasks, until, end = [], 0, 0
        for e in events:
            if e["name"].endswith("RunTask") and e["ts"] >= end:
                end = e["ts"] + e["dur"]
                tasks.append([e["tdur"] / 1000, 0.0, False])
            elif e["name"] in SCRIPT and until <= e["ts"] < end:
                until = e["ts"] + e["dur"]
                tasks[-1][1] += e["tdur"] / 1000
                tasks[-1][2] |= e["name"] == "FireAnimationFrame"
        return tasks

    def tell(self, name):
        """Gives the page a function of that name; what it is called with last is for hear()."""
        self.call("Runtime.addBinding", {"name": name})

    def hear(self, name, deadline=DEADLINE):
        end = time.monotonic() + deadline
        while name not in self.told:
            if not self.chrome.pump(max(0, end - time.monotonic())) and time.monotonic() >= end:
                raise Late("the page did not call %s; it says: %s" % (name, self.text()[:1500]))
        return self.told.pop(name)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def look(self, dark, reduced=True):
        self.call("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}]})

    def go(self, url, ready="document.readyState === 'complete'"):
        self.call("Page.navigate", {"url": url})
        self.wait(ready)

    def eval(self, script):
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True,
                                                "userGesture": True})
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError("%s: %s" % (script[:200], details.get("exception", {}).get("description", details["text"])))
        return answer["result"].get("value")

    def wait(self, script, deadline=DEADLINE, what=None):
        """Until the expression is true; its value."""
        end = time.monotonic() + deadline
        while True:
            try:
                value = self.eval(script)
            except RuntimeError:  # the page is between two documents
                value = None
            if value:
                return value
            if time.monotonic() >= end:
                raise Late("not within %d s: %s; the page says: %s" % (deadline, what or script, self.text()[:1500]))
            self.chrome.pump(0.05)

    def text(self):
        try:
            return self.eval("document.body.innerText") or ""
        except (RuntimeError, Late):
            return ""

    def wait_text(self, text, deadline=DEADLINE):
        self.wait("document.body.innerText.includes(%s)" % json.dumps(text), deadline, "the text %r" % text)

    def click(self, selector):
        """A press with the mouse in the middle of the element, once it stands still."""
        at = None
        while True:
            now = self.wait("(() => { const e = document.querySelector(%s); if (!e) return null; e.scrollIntoView({block: 'nearest'});"
                            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
                            % json.dumps(selector), what="an element " + selector)
            if now == at:
                break
            at = now
            self.chrome.pump(0.05)
        x, y = at
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left" if kind != "mouseMoved" else "none",
                                                   "clickCount": 1, "buttons": 1 if kind == "mousePressed" else 0})

    def press(self, text):
        """The button or link that begins with that text, in the dialog where one is open."""
        self.wait("(() => { const all = [...document.querySelectorAll('dialog[open]')].at(-1) || document;"
                  " const e = [...all.querySelectorAll('button, a, [role=tab]')].find((b) => b.offsetParent !== null"
                  " && b.textContent.trim().startsWith(%s)); if (!e) return false; e.click(); return true; })()" % json.dumps(text),
                  what="a button %r" % text)

    def key(self, key, modifiers=0):
        code, text = KEYS.get(key, (ord(key.upper()) if len(key) == 1 else 0, key if len(key) == 1 else ""))
        base = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        down = dict(base, type="keyDown" if text else "rawKeyDown")
        if text:
            down["text"] = text
        self.call("Input.dispatchKeyEvent", down)
        self.call("Input.dispatchKeyEvent", dict(base, type="keyUp"))

    def keys(self, *keys):
        for key in keys:
            self.key(key)

    def type(self, text):
        self.call("Input.insertText", {"text": text})

    def picture(self, path, full=False):
        params = {"format": "png"}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["captureBeyondViewport"] = True
            params["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", params)["data"]))

    def close(self):
        self.chrome.call("Target.closeTarget", {"targetId": self.target})
        self.chrome.pages.pop(self.session, None)
