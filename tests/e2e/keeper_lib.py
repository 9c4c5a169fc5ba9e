"""Keepers without Slurm, for tests: `flownode keep` in the environment of a step, relays to it, and an
engine of one connection (node_say.c). trainer_lib has the checks."""
import os
import signal
import subprocess
import sys

import trainer_lib as t

JOB = 4711
flownode = say_program = tmp = None
# What Apptainer 1.4.5 does, as far as keepers see it: it takes its words, adds the image's variables, has a process
# beside it that serves the image's files, hands its input on, and ends with the status of what it runs.
FAKE = """#!/bin/sh
printf '%%s\\n' "$@" > %(dir)s/args
echo $$ > %(dir)s/program
test ! -e %(dir)s/fatal || { echo "INFO:    looking"; echo "FATAL:   could not open image" >&2; exit 255; }
python3 -c 'import signal; signal.pthread_sigmask(0, [15]); signal.sigwait([15]); open("%(dir)s/termed", "w")' < /dev/null > /dev/null 2>&1 &
files=$!
echo $files > %(dir)s/files
while [ "${1%%.sif}" = "$1" ]; do shift; done
export OF_IMAGE=$1 LD_LIBRARY_PATH=/.singularity.d/libs APPTAINER_CONTAINER=$1 PATH=%(dir)s/bin:$PATH
shift
"$@"
code=$?
kill -9 $files
exit $code
"""


def begin():
    """argv[1]: the build folder. tmp is where the homes of the nodes lie."""
    global flownode, say_program, tmp
    flownode = os.path.abspath(os.path.join(sys.argv[1], "tasks/flownode"))
    say_program = os.path.abspath(os.path.join(sys.argv[1], "tests/e2e/node_say"))
    t.begin_plain()
    tmp = t.folder + "/tmp"
    os.mkdir(tmp)


def fake_apptainer(path):
    """A fake of the program at path, with its files in that folder: args, termed, fatal."""
    with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as f:
        f.write(FAKE % dict(dir=os.path.dirname(os.path.abspath(path))))


def allocation(tag):
    """The folder of an allocation."""
    folder = "%s/alloc/%s" % (t.folder, tag)
    os.makedirs(folder, mode=0o700)
    os.chmod(folder, 0o700)
    return folder


def step_env(place, job=JOB, **more):
    env = dict(os.environ, TMPDIR=tmp, SLURM_JOB_ID=str(job), SLURM_NODEID=str(place - 1),
               SLURMD_NODENAME="nid%03d" % place, SLURM_LAUNCH_NODE_IPADDR="127.0.0.1")
    env.update(more)
    return {name: value for name, value in env.items() if value is not None}


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except OSError:
        return ""


class Keeper:
    def __init__(self, folder, place=1, wait=None, job=JOB, user=None, lease=None, more=(), **env):
        words = [flownode, "keep", "--alloc", folder, *more] + (["--kill-wait", str(wait)] if wait is not None else [])
        words += ["--lease", str(lease)] if lease is not None else []
        self.folder, self.place, self.file = folder, place, "%s/place.%d" % (folder, place)
        self.process = subprocess.Popen(words, env=step_env(place, job, **env), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=user)
        t.started.append(self)

    def up(self):
        """Waits until it listens, and gives the lines of place.K."""
        t.until("place %d is up" % self.place, lambda: os.path.exists(self.file) or self.process.poll() is not None)
        return dict(line.split(" ", 1) for line in read(self.file).splitlines())

    def error(self):
        return read(self.file + ".error")

    def term(self):
        self.process.send_signal(signal.SIGTERM)

    def ended(self):
        """Its exit status."""
        return t.until("the keeper of place %d ends" % self.place,
                       lambda: (self.process.poll(),) if self.process.poll() is not None else None)[0]

    def said(self):
        """Waits for the end; what it printed."""
        text = self.process.communicate(timeout=60)[0]
        t.step()
        return text

    def wait(self):
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()


def relay_words(folder, place):
    return [flownode, "relay", "--alloc", folder, "--place", str(place)]


def relay(folder, place, **env):
    """Exit status and errors of a relay whose input has ended."""
    p = subprocess.run(relay_words(folder, place), env=step_env(place, **env), stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    t.step()
    return p.returncode, p.stderr


class Say:
    """node_say in the background."""

    def __init__(self, epoch, actions, command, place=1, user=None, **env):
        self.lines = []
        self.process = subprocess.Popen([say_program, str(epoch)] + actions + ["--"] + command,
                                        env=step_env(place, **env), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=user)
        t.started.append(self)

    def line(self, word):
        """Reads on to the line that begins so; what follows the word. None: it does not come."""
        for text in self.process.stdout:
            t.step()
            self.lines.append(text.rstrip("\n"))
            if self.lines[-1].split(" ")[0] == word:
                return self.lines[-1][len(word) + 1:]
        t.check("node_say says %s" % word, False, self.lines)
        return None

    def rest(self):
        """All its lines, after its end."""
        self.lines += self.process.communicate(timeout=120)[0].splitlines()
        t.step()
        return self.lines

    def wait(self):
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()


def say(epoch, actions, command, **env):
    return Say(epoch, actions, command, **env).rest()


def serve_words(home):
    """What an engine finds that comes after the keeper."""
    return [flownode, "serve", "--home", home]


def carriers(attempt):
    """Processes of an attempt."""
    mark = ("FLOWRUN_ATTEMPT=" + attempt).encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if mark in f.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found
