"""An sshd of this user's on loopback, as a login node for tests.

    d = sshd_lib.Sshd(FOLDER, SLURM_CONF="…")   # FOLDER is there; variables of its commands' environment
    d.start(); d.cut(); d.stop()
    d.keys                                      # the keys of an inventory's node

why_not() says why there can be none.
"""
import atexit
import getpass
import os
import shutil
import signal
import subprocess

import trainer_lib as t


def find():
    return shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")


def why_not():
    """Why there can be no sshd here; None: there can."""
    return None if find() and shutil.which("ssh-keygen") else "no sshd or ssh-keygen"


def parents():
    """The parent and the words of each process of this machine."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                found[int(pid)] = parent, f.read().decode(errors="replace").split("\0")
        except OSError:
            continue
    return found


class Sshd:
    def __init__(self, folder, **env):
        self.folder, self.process, self.sshd = folder, None, find()
        self.port = t.free_port()
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        for name in ("host", "id", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder + "/" + name], check=True)
        shutil.copy(folder + "/id.pub", folder + "/allowed")
        self.know("known", "host")
        self.know("wrong", "other")
        lines = ["Port %d" % self.port, "ListenAddress 127.0.0.1", "HostKey %s/host" % folder, "PidFile none",
                 "AuthorizedKeysFile %s/allowed" % folder, "StrictModes no", "UsePAM no", "LogLevel VERBOSE",
                 "SetEnv " + " ".join("%s=%s" % pair for pair in {**env, "FT_E2E": t.folder}.items())]
        open(folder + "/config", "w").close()
        with open(folder + "/sshd_config", "w") as f:
            f.write("\n".join(lines) + "\n")
        self.keys = "address: 127.0.0.1, port: %d, user: %s, key: %s/id, known_hosts: %s/known, ssh_config: %s/config" % (
            self.port, getpass.getuser(), folder, folder, folder)

    def know(self, name, key):
        with open("%s/%s.pub" % (self.folder, key)) as f, open("%s/%s" % (self.folder, name), "w") as g:
            g.write("[127.0.0.1]:%d %s\n" % (self.port, " ".join(f.read().split()[:2])))

    def start(self):
        log = open(self.folder + "/log", "ab")
        self.process = subprocess.Popen([self.sshd, "-D", "-e", "-f", self.folder + "/sshd_config"],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        atexit.register(self.stop)
        t.until("sshd listens", lambda: "listening on" in self.log() or self.process.poll() is not None)

    def log(self):
        with open(self.folder + "/log", errors="replace") as f:
            return f.read()

    def logins(self):
        return self.log().count("Accepted publickey")

    def below(self):
        """What the sessions run, and their own processes: {pid: words}."""
        all, found, more = parents(), {}, True
        while more:
            more = [pid for pid, (parent, _) in all.items()
                    if pid not in found and (parent == self.process.pid or parent in found)]
            found.update({pid: all[pid][1] for pid in more})
        return found

    def flownodes(self):
        """Processes of flownode serve."""
        return [pid for pid, words in self.below().items() if "serve" in words[1:2]]

    def cut(self):
        """The connections fall."""
        for pid, words in self.below().items():
            if words[0].startswith("sshd"):
                t.kill([pid])

    def stop(self):
        if self.process is not None:
            self.cut()
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
            self.process = None
