"""What the tests of the pages share: a home with a host that serves them, a browser that is logged in, checks.

A script calls begin(), makes its checks and ends with finish(), which prints "N passed, N failed". It exits
with 77 where no Chromium is. Nothing sleeps to synchronise: pages are asked until something is so, with a
bound, and tasks go on when the test makes a file.
"""
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from chrome import Chrome, program

counts = {"passed": 0, "failed": 0}
folder = flowrun = url = chrome = host = None
started = []


def late(sig, frame):
    print("FAILED: no check for too long")
    sys.exit(1)


def step():
    """The test comes on: it is not over until nothing is checked for TEST_DEADLINE seconds."""
    signal.alarm(int(os.environ.get("TEST_DEADLINE", "150")))


def begin():
    """argv[1]: the build folder."""
    global folder, flowrun, chrome
    if program() is None:
        print("skipped: there is no chromium here")
        sys.exit(77)
    signal.signal(signal.SIGALRM, late)
    step()
    flowrun = os.path.abspath(os.path.join(sys.argv[1], "engine/cli/flowrun"))
    folder = tempfile.mkdtemp(prefix="fr-web.")
    atexit.register(clean)
    os.makedirs(os.path.join(folder, "served"))
    os.environ.update(FLOWRUN_HOME=os.path.join(folder, "home"), W=folder, TZ="UTC", NO_COLOR="1")
    os.environ.pop("FLOWRUN_LIBEXEC", None)
    os.chdir(folder)
    chrome = Chrome()


def clean():
    if chrome is not None:
        chrome.close()
    for child in started:
        if child.poll() is None:
            child.kill()
            child.wait()
    end_tasks()
    os.chdir("/")
    shutil.rmtree(folder, ignore_errors=True)


def end_tasks():
    """Tasks and their supervisors name this test's folder in their environment. A shell may have forked meanwhile."""
    mark, found = folder.encode(), True
    while found:
        found = False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    if int(pid) != os.getpid() and mark in f.read():
                        os.kill(int(pid), signal.SIGKILL)
                        found = True
            except OSError:
                pass


def check(what, value):
    counts["passed" if value else "failed"] += 1
    step()
    if not value:
        print("FAILED: %s" % what)
    return value


def same(what, got, want):
    return check("%s: %r, expected %r" % (what, got, want), got == want)


def finish():
    print("%(passed)d passed, %(failed)d failed" % counts)
    sys.exit(0 if counts["failed"] == 0 and counts["passed"] > 0 else 1)


def until(what, fn, seconds=120):
    end = time.monotonic() + seconds
    while not fn():
        if time.monotonic() > end:
            print("FAILED: not within %d s: %s" % (seconds, what))
            sys.exit(1)
        time.sleep(0.02)


def write(name, text):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(port):
    """Whether somebody listens there."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def serve(port=0, *options):
    """A host with the folder "served"; its pages at url."""
    global host, url
    with open("served.log", "wb") as log:
        host = subprocess.Popen([flowrun, "serve", "--http", "127.0.0.1:%d" % port, *options, "served"],
                                stdout=log, stderr=log, start_new_session=True)
    started.append(host)
    until("the host is there", lambda: "pages at" in open("served.log").read() or host.poll() is not None)
    text = open("served.log").read()
    if "pages at" not in text:
        sys.exit("FAILED: no host: " + text)
    url = text.split("pages at ")[1].split(";")[0]


def stop_host(sig=signal.SIGTERM):
    host.send_signal(sig)
    host.wait()


# Whether the log that is shown is followed: 'true' or 'false'.
FOLLOWS = "[...document.querySelectorAll('.toggle')].find((b) => b.textContent === 'Follow').getAttribute('aria-pressed')"


def flow(*args):
    return subprocess.run([flowrun, *args], capture_output=True, text=True).stdout


def begin_run(*args):
    """A run that goes on by itself; its follower."""
    child = subprocess.Popen([flowrun, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    started.append(child)
    return child


def page(width=1280, height=800, dark=False):
    return chrome.page(width, height, dark)


def log_in(one):
    """By a link of the owner."""
    one.go(flow("web").split()[0])
    one.wait("document.querySelector('#top nav') !== null", what="the bar")


def clean_page(what, one):
    """Nothing was logged as an error, and nothing was asked of another host."""
    same("%s: errors" % what, one.errors, [])
    foreign = [r for r in one.requests if not r.startswith((url, "data:", "blob:" + url, "about:"))]
    same("%s: requests to other hosts" % what, foreign, [])
