#!/usr/bin/env python3
"""What the pages below docs say, word for word: each block of code is run here, or stands in the list of docs_lib.py with
where it is run, or why nowhere; commands and flags that the text names are those of the programs. Ports are free ones, names
of other machines loopback's, loads a tiny model's. Proxies, sshd and systemd-analyze are used where they are.
usage: docs_pages.py BUILD"""
import atexit
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import deepspeed_lib
from docs_lib import ROOT, Docs, unknown_flags

counts = {"passed": 0, "failed": 0}
docs, started = Docs(), []
SBIN = os.environ["PATH"] + ":/usr/sbin:/sbin"


def check(what, value, more=""):
    counts["passed" if value else "failed"] += 1
    if not value:
        print("FAILED: %s%s" % (what, more and ":\n" + more))
    return value


def until(what, fn, seconds=60):
    end = time.monotonic() + seconds
    while not fn():
        if time.monotonic() > end:
            return check("not within %d s: %s" % (seconds, what), False)
        time.sleep(0.02)
    return True


def write(name, text):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "w", encoding="utf-8") as f:
        f.write(text)
    return name


def read(name):
    with open(name, encoding="utf-8", errors="replace") as f:
        return f.read()


def replaced(text, *pairs):
    """text with each first of a pair, which must be there, as the second."""
    for old, new in pairs:
        check("the page says %r" % old, old in text, text)
        text = text.replace(old, new)
    return text


def sh(what, text, rc=0, **env):
    """Runs a block of commands; what they printed."""
    got = subprocess.run(["bash", "-e", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         env=dict(os.environ, **env), stdin=subprocess.DEVNULL)
    check("%s: status %d, not %d" % (what, got.returncode, rc), got.returncode == rc, got.stdout[-2000:])
    return got.stdout


def begin(text, log, **env):
    """A command that goes on; its output in the file log."""
    with open(log, "wb") as out:
        child = subprocess.Popen(["bash", "-c", "exec " + text], stdout=out, stderr=out, env=dict(os.environ, **env))
    started.append(child)
    return child


def end(child, sig=signal.SIGTERM):
    child.send_signal(sig)
    child.wait()
    started.remove(child)


def clean():
    for child in started:
        child.kill()
        child.wait()
    mark, found = ("FLOWRUN_HOME=" + work).encode(), True
    while found:  # what tasks and nodes left
        found = False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    if int(pid) != os.getpid() and mark in f.read():
                        os.kill(int(pid), signal.SIGKILL)
                        found = True
            except OSError:
                pass
    os.chdir("/")
    shutil.rmtree(work, ignore_errors=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def has(name):
    return shutil.which(name, path=SBIN)


# ---- docs/page.md

READER = "127.0.0.2"


def ask(port, path, method="GET", body=None, host=None, **headers):
    """(answer, its text or itself where it is a stream) of a request of READER to 127.0.0.1:port that names another host."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(READER, 0))
    c.request(method, path, body, {"Host": host or "127.0.0.1:%d" % port, **{k.replace("_", "-"): v for k, v in headers.items()}})
    r = c.getresponse()
    return r, (r if "event-stream" in r.getheader("Content-Type", "") else r.read().decode())


def served(command, log, *folders):
    """A host by a line of the pages: its port instead of 8470, folders instead of FOLDER…"""
    port = free_port()
    child = begin(replaced(command, ("127.0.0.1:8470", "127.0.0.1:%d" % port), ("FOLDER…", " ".join(folders))), log)
    until("the host listens", lambda: "pages at" in read(log) or child.poll() is not None)
    check("it does", "pages at" in read(log), read(log))
    return child, port


def goes_through(name, front, host, operate):
    """The page, its stream, what changes something, and whom the audit names, through a proxy or a tunnel."""
    base = "" if name == "ssh" else "/flowrun"
    r, page = ask(front, base + "/", host=host)
    check("%s: the page: %d" % (name, r.status), r.status == 200 and '<base href="%s/">' % base in page)
    r, stream = ask(front, base + "/api/v1/stream?topics=list", host=host, Authorization="Bearer " + operate)
    line = stream.readline() if r.status == 200 else b""
    while line and not line.startswith(b"event: hello"):
        line = stream.readline()
    check("%s: the stream comes at once: %d" % (name, r.status), line.startswith(b"event: hello"))
    r, text = ask(front, base + "/api/v1/login", "POST", json.dumps({"token": operate}), host, Content_Type="application/json",
                  Origin="http://" + host)
    check("%s: a login, from its own page: %d %s" % (name, r.status, text), r.status == 200)


def nginx(lines, port):
    front = free_port()
    write("nginx.conf", "daemon off; master_process off; pid %s/nginx.pid;\nevents {}\nhttp { access_log off; %s server { listen 127.0.0.1:%d;\n%s} }\n"
          % (work, " ".join("%s_temp_path %s/%s;" % (k, work, k) for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
             front, replaced(lines, ("127.0.0.1:8470", "127.0.0.1:%d" % port))))
    return front, begin("%s -e %s/nginx.err -c %s/nginx.conf" % (has("nginx"), work, work), "nginx.log")


def caddy(lines, port):
    front = free_port()
    write("Caddyfile", "{\n\tadmin off\n\tauto_https off\n}\n" + replaced(lines, ("127.0.0.1:8470", "127.0.0.1:%d" % port),
                                                                      ("flow.example.org {", "http://flow.example.org:%d {" % front)))
    return front, begin("%s run --config Caddyfile --adapter caddyfile" % has("caddy"), "caddy.log", HOME=work, XDG_DATA_HOME=work, XDG_CONFIG_HOME=work)


def tunnel(line, port):
    """sshd of this user's, whom ssh calls head-node."""
    front, at = free_port(), free_port()
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    shutil.copy("user.pub", "allowed")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)
    write("sshd.conf", "Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nPidFile none\nAuthorizedKeysFile %s/allowed\nStrictModes no\nUsePAM no\n"
          "PermitRootLogin yes\n" % (at, work, work))
    write("ssh.conf", "Host head-node\n HostName 127.0.0.1\n Port %d\n IdentityFile %s/user\n IdentitiesOnly yes\n StrictHostKeyChecking no\n"
          " UserKnownHostsFile /dev/null\n" % (at, work))
    sshd = begin("%s -D -e -f %s/sshd.conf" % (has("sshd"), work), "sshd.log")
    until("sshd listens", lambda: listens(at) or sshd.poll() is not None)
    return front, begin(replaced(line, ("ssh -N", "ssh -F ssh.conf -N"), ("8470:localhost:8470", "%d:localhost:%d" % (front, port))).strip(), "ssh.log")


def page_md():
    begins = {"nginx": "location /flowrun/", "caddy": "flow.example.org {", "sshd": "ssh -N"}
    blocks = {name: docs.take("docs/page.md", text) for name, text in begins.items()}
    first, link = docs.take("docs/page.md", "flowrun serve --http 127.0.0.1:8470 FOLDER…").splitlines()
    check("the README says the same", docs.take("README.md", "flowrun serve --http").split("#")[0] == first.split("#")[0])
    os.makedirs("pipelines")
    shutil.copy(ROOT + "/examples/nightly.yaml", "pipelines")
    host, port = served(first.split("#")[0], "served.1", "pipelines")
    check("a link that logs in", "http://127.0.0.1:%d/#login=" % port in sh("web", link))
    operate = sh("a token", "flowrun token new ci --role operate --days 90").strip()
    if has("sshd") and has("ssh"):
        front, child = tunnel(blocks["sshd"], port)
        if until("the tunnel stands", lambda: listens(front) or child.poll() is not None) and check("ssh goes on", child.poll() is None, read("ssh.log") + read("sshd.log")):
            goes_through("ssh", front, "localhost:%d" % front, operate)
        end(child)
    else:
        print("there is no sshd here: its tunnel was not tried (skipped)")
    check("the interface by the socket", '"items"' in sh("api", "flowrun api 'runs?state=failed'"))
    end(host)
    host, port = served(docs.take("docs/page.md", "flowrun serve --http 127.0.0.1:8470 --base").strip(), "served.2", "pipelines")
    for name, begun in (("nginx", nginx), ("caddy", caddy)):
        if not has(name):
            print("there is no %s here: its lines were not tried (skipped)" % name)
            continue
        front, child = begun(blocks[name], port)
        if until("%s listens" % name, lambda: listens(front) or child.poll() is not None):
            goes_through(name, front, "flow.example.org:%d" % front, operate)
        end(child)
    seen = sum(has(name) is not None for name in ("nginx", "caddy"))
    check("the audit names the reader, not the proxy", sh("audit", "flowrun api audit").count('"address":"%s"' % READER) == seen)
    end(host)


# ---- docs/schedules.md

def shape(text):
    """A pattern of what a page shows: numbers and what is measured may be others."""
    out = re.escape(text.strip()).replace(r"\ ", " ")
    out = re.sub(r"\d[\d:.]*", r"\\d[\\d:.]*", out)
    return re.sub(r" +", " +", out)


def schedules_md():
    page, shown = "docs/schedules.md", {}
    rules = docs.take(page, "schedule: {cron").splitlines()
    check("the example has these lines", set(rules) <= set(read(ROOT + "/examples/nightly.yaml").splitlines()))
    commands = docs.take(page, "mkdir served").replace(" &\n", "\n").splitlines()
    check("every minute, as it says", "every: 1m" in commands[1])
    sh("a folder to serve", "\n".join(commands[:2]).replace("every: 1m", "every: 10s"))
    host = begin(commands[2], "served.3")
    status = docs.take(page, "flowrun schedules nightly")
    until("its first run is over", lambda: "ran: run 1 succeeded" in subprocess.run(status, shell=True, capture_output=True, text=True).stdout)
    said = sh("schedules", status)
    want = docs.take(page, "nightly/default of").splitlines()
    for line in want[1:3] + want[-1:]:
        check("it shows %r" % line, re.search(shape(line), said), said)
    log, out = docs.take(page, "flowrun logs 1 report"), docs.take(page, "report@local")
    check("its report", re.search(shape(out.split(" since ")[0]), sh("logs", log)))
    sh("pause", 'flowrun schedules pause nightly --note "moving house"')
    sh("resume", "flowrun schedules resume nightly --catchup")
    end(host)
    check("past times", "2026-03-" in sh("backfill", "flowrun backfill examples/nightly.yaml --from 2026-03-01 --to 2026-04-01 --dry-run"))
    lines = docs.take(page, "{ echo 'schedule:").splitlines()
    check("the host serves that folder", lines[-1] == "flowrun serve pipelines &")
    os.rename("pipelines", "pipelines.of.page")
    shutil.copytree(ROOT + "/pipelines", "pipelines")
    shown = sh("the main job by night", "\n".join(lines[:-1]))
    check("its rule in words", "every day at 02:30 in Europe/Berlin" in shown, shown)
    check("the second list of schedules", docs.take(page, "flowrun schedules nightly"))


def units_md():
    """The unit with the line that names a folder, as 'systemctl --user edit' puts it."""
    line = re.search(r"`(Environment=FLOWRUN_FOLDERS=[^`]*)`", read(ROOT + "/docs/schedules.md")).group(1)
    unit = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=" + programs["flowrun"], read(build + "/engine/cli/flowrun.service"))
    check("the unit serves these folders", re.search(r"(?m)^ExecStart=.* serve .*\$FLOWRUN_FOLDERS", unit), unit)
    write("units/flowrun.service.d/override.conf", "[Service]\n%s\n" % line)
    if has("systemd-analyze"):
        said = sh("the unit", "systemd-analyze --user --man=no verify " + write("units/flowrun.service", unit), XDG_RUNTIME_DIR=work)
        check("nothing is wrong with it", "flowrun" not in said, said)
    else:
        print("there is no systemd-analyze here: the unit was not verified (skipped)")


# ---- docs/messages.md

class Hook(http.server.BaseHTTPRequestHandler):
    got = []

    def do_POST(self):
        Hook.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"])).decode(), dict(self.headers)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def messages_md():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = "http://127.0.0.1:%d" % server.server_port
    config = docs.take("docs/messages.md", "channels:")
    write("slack-url", at + "/slack")
    write("mail-password", "planted")
    write("page", "#!/bin/sh\ncat > %s/paged\n" % work)
    os.chmod("page", 0o755)
    write(os.environ["FLOWRUN_HOME"] + "/config.yaml", replaced(
        config, ("/etc/flowrun/slack-url", work + "/slack-url"), ("https://example.org/flowrun", at + "/hook"),
        ("/etc/flowrun/mail", work + "/mail-password"), ("smtp://mail.example.org:587", "smtp://127.0.0.1:%d" % free_port()),
        ("/usr/local/bin/page", work + "/page"), ("22:00-07:00", "00:00-00:01")))
    os.environ["HOOK_KEY"] = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    check("the configuration is in force", "slack" in sh("config", "flowrun config"))
    write("fails.yaml", "name: fails\ntasks: {t: {run: 'echo a planted end; exit 3'}}\n")
    sh("a run that fails", "flowrun fails.yaml", 1)
    if "needs libcurl" in sh("what became of it", "flowrun notify list"):
        print("there is no libcurl here: no message was sent (skipped)")
        os.remove(os.environ["FLOWRUN_HOME"] + "/config.yaml")
        return
    for channel in ("hook", "pager"):
        sh("a test of " + channel, "flowrun notify test " + channel)
    until("Slack hears of it", lambda: any(path == "/slack" and "a planted end" in body for path, body, _ in Hook.got))
    until("the webhook, signed", lambda: any(path == "/hook" and h.get("webhook-signature") for path, _, h in Hook.got))
    until("the command", lambda: os.path.exists("paged"))
    os.remove(os.environ["FLOWRUN_HOME"] + "/config.yaml")
    line = docs.take("docs/messages.md", "OTEL_EXPORTER_OTLP_ENDPOINT")
    host = begin("env " + replaced(line.strip(), ("http://collector:4318", at), ("flowrun serve …", "flowrun serve")), "served.4")
    until("a host", lambda: "this is the host" in read("served.4"))
    sh("a run of it", "flowrun fails.yaml", 1)
    until("its trace comes", lambda: any(path == "/v1/traces" and "resourceSpans" in body for path, body, _ in Hook.got))
    check("trace prints the same", "resourceSpans" in sh("trace", "flowrun trace 1"))
    end(host)


# ---- docs/pipelines.md, docs/cluster.md

def pipelines_md():
    page = "docs/pipelines.md"
    write("causes.yaml", "name: causes\n%stasks:\n  t:\n    run: 'true'\n    %s" % (docs.take(page, "rerun:"), docs.take(page, "retry:")))
    sh("causes of retries and reruns", "flowrun validate causes.yaml")
    said = sh("parts that come again", "flowrun %s" % write("parts.yaml", docs.take(page, "name: parts")))
    check("they all ran", all(w in said for w in ("fetched", "warm", "level info color 1")))
    said = sh("a list of elements", "flowrun %s" % write("shards.yaml", docs.take(page, "name: shards")))
    check("each of them ran", all(w in said for w in ("count: 2 elements", "count[a.txt] succeeded", 'of all ["5","5"]')), said)
    write("rescue.yaml", docs.take(page, "name: rescue"))
    said = sh("when a task starts", "flowrun rescue.yaml")
    check("what ran, and what was skipped", all(w in said for w in ("a smaller batch", "published", "tidy")) and "at the first" not in said and "ring" not in said)
    text = read(ROOT + "/" + page)
    for rule in re.findall(r"`(schedule: \{[^`]*\})`", text) + ["schedule: {every: 6h}", "schedule: {at: [2046-12-24T02:00]}"]:
        write("rule.yaml", "name: rule\n%s\ntasks: {t: {run: 'true'}}\n" % rule)
        check("%s in words" % rule, "schedule default: " in sh(rule, "flowrun validate rule.yaml"))
    write("curve.yaml", "name: curve\ntasks: {t: {metrics: steps.jsonl, run: \"echo '%s' > steps.jsonl\"}}\n" % re.search(r"`(\{\"step\": 12[^`]*)`", text).group(1).replace('"', '\\"'))
    sh("a curve", "flowrun curve.yaml")


def cluster_md():
    inventory = docs.take("docs/cluster.md", "defaults:")
    same = [docs.take("README.md", "defaults:"), docs.take("docs/migrate.md", "a1 slots=8")]
    check("the README has the same inventory", same[0] == inventory)
    hosts = "\n".join(re.sub(r"^.{20,}?(→   | {20})|^a2 slots=8 +", "", line) for line in same[1].splitlines())
    for name, text in (("my-cluster.yaml", inventory), ("hosts.yaml", hosts)):
        check("the nodes of " + name, "a2" in sh(name, "flowrun nodes " + write(name, text)))
    os.makedirs("data", exist_ok=True)
    write("data/dataset_info.json", '{"my_sft": {"file_name": "x.json"}}')
    write("data/x.json", "[]")
    check_line, main = docs.take("README.md", "flowrun nodes my-cluster.yaml --check").split("\n", 1)
    check("the README checks nodes", check_line == "flowrun nodes my-cluster.yaml --check")
    check("and runs the same", docs.take("docs/cluster.md", "flowrun pipelines/deepseek-lora.yaml") == main)
    sh("the main job is right", main.replace("flowrun pipelines", "flowrun validate pipelines"))
    keys = [text for text in re.findall(r"`((?:keep|limits|pools): \{[^`]*\})`", read(ROOT + "/docs/cluster.md")) if "14" not in text]
    merged = write("config.yaml", "\n".join(keys) + "\n")
    check("keys of config.yaml: %s" % keys, len(keys) >= 3 and "gpu-a" in sh("config", "flowrun config " + merged))


def slurm_md():
    page = "docs/slurm.md"
    inventory = docs.take(page, "slurm:")
    write("my-slurm.yaml", inventory.replace("/scratch/me", os.getcwd()))
    write("fit.yaml", docs.take(page, "name: fit"))
    check("what validate says of allocations", sh("slurm", "flowrun validate fit.yaml") == docs.take(page, "fit.yaml: 2 tasks"))
    write("my-copies.yaml", docs.take(page, "slurm:").replace("/scratch/me", os.getcwd()))
    write("copies.yaml", "name: copies\nnodes: my-copies.yaml\n" + docs.take(page, "tasks:"))
    check("copies of an allocation", "allocation wide: 200 " in sh("slurm", "flowrun validate copies.yaml"))
    boxed = "".join("  %s\n" % line for line in docs.take(page, "allocations:").splitlines())
    write("my-boxes.yaml", "slurm:\n  work: %s/w\n%s" % (os.getcwd(), boxed))
    write("boxes.yaml", "name: boxes\nnodes: my-boxes.yaml\ntasks: {a: {on: train, run: 'true'}, b: {on: prep, run: 'true'}}\n")
    check("allocations in containers", "2 tasks on 5 nodes, nothing wrong" in sh("slurm", "flowrun validate boxes.yaml"))
    write("laptop.yaml", "name: far\nnodes: my-login.yaml\ntasks: {a: {on: train, run: 'true'}}\n")
    write("my-login.yaml", docs.take(page, "slurm:"))
    check("a cluster behind a login node", "allocation train: 4 nodes for 12h00m" in sh("slurm", "flowrun validate laptop.yaml"))
    os.makedirs("bin", exist_ok=True)
    for name, text in (("scontrol", "AccountingStorageType = accounting_storage/slurmdbd\nClusterName = hpc\nMaxArraySize = 1001\n"
                        "ProctrackType = proctrack/cgroup\nSLURM_VERSION = 24.11.5\n"),
                       ("sinfo", "up|1-00:00:00|2/6/0/8|1-infinite|gpu:a100:8(S:0-1)|gpu*\ndown|infinite|0/4/0/4|1-infinite|(null)|cpu\n")):
        os.chmod(write("bin/" + name, "#!/bin/sh\ncat << 'END'\n%sEND\n" % text), 0o755)
    said = docs.take(page, "cluster hpc: Slurm 24.11").replace("/home/me", os.getcwd())
    check("what nodes --check says", sh("slurm", "PATH=$PWD/bin:$PATH flowrun nodes my-slurm.yaml --check", 6).endswith("\n" + said), said)
    write("one.yaml", "name: one\ntasks: {a: {run: 'true'}}\n")
    home = "FLOWRUN_HOME=%s/accounts " % os.getcwd()
    sh("slurm", home + "flowrun one.yaml")
    row = dict(name="train", no=1, tag="ab" * 16, folder="", path="", rpc=12, state="over", job=4711, hosts="nid1 nid2",
               elapsed_ms=3720000, accounting="known", exit_state="CANCELLED by 1000", max_rss=33929541222, energy_j=77040000,
               tres="cpu=4,gres/gpu=16,node=2")
    with contextlib.closing(sqlite3.connect("accounts/state.db", isolation_level=None)) as store:
        store.execute("INSERT INTO allocation(run, %s) SELECT id, %s FROM run" % (", ".join(row), ", ".join(map(":".__add__, row))), row)
    line = docs.take(page, "allocation train: over")
    check("what status says of allocations", sh("slurm", home + "flowrun status").endswith("\n" + line), line)
    text, schema = read(ROOT + "/" + page), json.loads(read(ROOT + "/schema/pipeline.schema.json"))["$defs"]
    for name in ("slurm", "login", "allocation"):
        missing = [key for key in schema[name]["properties"] if "`%s" % key not in text]
        check("all keys of %s: %s" % (name, missing), not missing)
    options = re.findall(r'"(--[a-z-]+)"', read(ROOT + "/engine/spec/slurm.c").split("allowed[]")[1].split("};")[0])
    check("all options: %d" % len(options), len(options) == 22 and all("`%s`" % option in text for option in options))


# ---- docs/layouts.md, docs/migrate.md, docs/trainer.md

SMALL = "model_name_or_path: example/model\ndataset: arithmetic\ndataset_dir: example/data\ntemplate: default\nfinetuning_type: lora\n"


def layouts_md():
    config = json.loads(read(ROOT + "/pipelines/ds_z3.json"))
    config.update(json.loads("{%s}" % docs.take("docs/layouts.md", '"moe"')))
    write("ds_moe.json", json.dumps(config))
    os.makedirs("v3")
    shutil.copy(ROOT + "/tests/bench/deepseek_v3.json", "v3/config.json")
    write("train.yaml", SMALL.replace("example/model", "v3") + "stage: sft\ndo_train: true\ndeepspeed: ds_moe.json\noutput_dir: planned\nbf16: true\ncutoff_len: 256\n")
    said = sh("plan", docs.take("docs/layouts.md", "flowtrain plan"))
    check("it says what to take", "experts over all ranks" in said and "GB" in said, said)
    os.makedirs("llama-2-7b")
    write("llama-2-7b/config.json", json.dumps(dict(
        architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=32000, hidden_size=4096, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=32, intermediate_size=11008, hidden_act="silu", rms_norm_eps=1e-5,
        max_position_embeddings=4096, tie_word_embeddings=False, torch_dtype="bfloat16")))
    said = sh("plan of all weights", docs.take("docs/layouts.md", "flowtrain plan --gpus 8"))
    check("the page's figures", all(" %s " % gb in said for gb in ("23.2", "32.4")), said)


def here(text):
    """Of a block that has what is said there and here: the lines of flowtrain, without comments."""
    return [line.split(" # ")[0].strip() for line in text.splitlines() if line.startswith("flowtrain")]


def migrate_md():
    page = "docs/migrate.md"
    tiny = SMALL + "stage: sft\ndo_train: true\noutput_dir: %s\nmax_steps: 1\nper_device_train_batch_size: 1\ncutoff_len: 64\noverwrite_output_dir: true\n"
    one, eight = here(docs.take(page, "llamafactory-cli train"))
    write("my.yaml", tiny % "lf")
    sh("train my.yaml", one)
    sh("launch", replaced(eight, ("--nproc_per_node 8", "--nproc_per_node 2")))
    write("merge.yaml", "model_name_or_path: example/model\nadapter_name_or_path: lf\ntemplate: default\nexport_dir: merged.lf\n")
    line = here(docs.take(page, "llamafactory-cli export"))[0]
    sh("merge.yaml", line)
    write("merge.yaml", "model_name_or_path: merged.lf\ntemplate: default\nexport_dir: copied.lf\nexport_size: 1\n")
    check("without an adapter", "copied " in sh("a model alone", line) and "copied " in sh("by export", replaced(line, ("merge ", "export "))))
    write("infer.yaml", "model_name_or_path: example/model\nadapter_name_or_path: lf\ntemplate: default\nmax_new_tokens: 4\n")
    sh("infer.yaml", replaced(here(docs.take(page, "llamafactory-cli chat"))[0], ("…", "What is 33 plus 89?")))
    line = here(docs.take(page, "torchrun --nnodes"))[0]
    sh("torchrun's line", replaced(line, ("--nnodes 2", "--nnodes 1"), ("--nproc_per_node 8", "--nproc_per_node 2"), ("--master_addr a1", "--master_addr 127.0.0.1"),
                                   ("29500", str(free_port()))))
    tensor = ("F32", (3, 5), bytes(range(60)))
    deepspeed_lib.Checkpoint({"norm.weight": tensor}, [["norm.weight"]]).write("checkpoint-400", 3, 2)
    said = sh("a checkpoint of DeepSpeed", here(docs.take(page, "flowtrain convert --from-deepspeed"))[0])
    check("what it says", "converted 1 tensors of ZeRO stage 3 of 2 ranks" in said and bytes(range(60)) in open("model-400/model.safetensors", "rb").read(), said)
    check("deepspeed's line is theirs", docs.take(page, "deepspeed --hostfile").count("\n") == 1)


def going_on():
    """A checkpoint that the Trainer itself wrote."""
    golden = ROOT + "/tests/golden/left"
    data = json.loads(read(golden + ".json"))
    os.makedirs("small-config")
    write("small-config/config.json", json.dumps(data["models"]["llama"]))
    sh("a small model", "flowtrain init --config small-config --output small --tokenizer example/model")
    write("example/data/texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in data["texts"]))
    info = json.loads(read("example/data/dataset_info.json"))
    write("example/data/dataset_info.json", json.dumps(dict(info, texts={"file_name": "texts.jsonl", "columns": {"prompt": "text"}})))
    write("my.yaml", "model_name_or_path: small\nstage: pt\ndo_train: true\nfinetuning_type: full\ndataset: texts\ndataset_dir: example/data\n"
          "packing: false\ncutoff_len: 64\nmax_steps: 6\nlearning_rate: 1e-2\nweight_decay: 0.1\nper_device_train_batch_size: 1\n"
          "gradient_accumulation_steps: 2\noutput_dir: out\n")
    shutil.copytree(golden + "/llama/checkpoint-5", "out/checkpoint-400")
    said = sh("a training that is not over", here(docs.take("docs/migrate.md", "llamafactory-cli train my.yaml resume_from"))[0])
    check("it goes on", "Going on from out/checkpoint-400, which is of the Hugging Face Trainer" in said, said)


def deepspeed_script():
    """What started a script, and what is said where it went wrong."""
    page = "docs/migrate.md"
    shutil.copy(ROOT + "/pipelines/ds_z3.json", "ds.json")
    for begins in ("deepspeed --num_gpus=4", "accelerate launch --num_processes=4"):
        sh(begins, here(docs.take(page, begins))[0])
    said = sh("too little memory", "flowtrain plan --check --gpus 1 --gpu h100-80g llama-2-7b --finetuning_type full --bf16 true --cutoff_len 2048", 2)
    need = re.search(r"a GPU needs [0-9.]+ GB of [0-9.]+ GB", read(ROOT + "/" + page)).group(0)
    check("the page's words: " + need, "finetuning_type full: " in said and need in said, said)
    write("both.json", '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": true}, "fp16": {"enabled": true}}')
    said = sh("both types", "flowtrain train my.yaml deepspeed=both.json bf16=true", 2)
    check("they are named", "fp16 and bf16 are both enabled" in said, said)


def tutorial():
    """Configurations of a tutorial of DeepSpeed: they run as they stand, or it is said which number has to be another."""
    folder = os.path.join(os.environ.get("FLOWRUN_DATA", ""), "tutorial")
    if not os.path.isdir(folder):
        print("the tutorial's configurations: FLOWRUN_DATA is not set (skipped)")
        return
    files = {name[:-5]: json.loads(read(folder + "/" + name)) for name in os.listdir(folder) if name.endswith(".json")}
    large = files["7b_z3_cpu"]
    nvme = dict(files["nvme_part"]["offload_optimizer"], nvme_path=work + "/nvme")
    os.makedirs(nvme["nvme_path"])
    files["nvme"] = dict(large, zero_optimization=dict(large["zero_optimization"], offload_optimizer=nvme))
    files["fp16"] = dict({k: v for k, v in large.items() if k != "bf16"}, **files["fp16_part"])
    for name, config in files.items():
        write("tutorial/%s.json" % name, json.dumps(config))
    batch, trainer = "per_device_train_batch_size=%d gradient_accumulation_steps=%d ", "gradient_checkpointing=true logging_steps=10 save_steps=500 "
    rows = (("trainer_z3", 4, batch % (2, 4) + trainer + "bf16=true", "full"), ("trainer_z3", 4, batch % (2, 4) + trainer + "bf16=true", "lora"),
            ("standalone_z2", 4, batch % (4, 2) + "bf16=true learning_rate=3e-5 weight_decay=0.01", "full"),
            ("7b_z3_cpu", 8, batch % (1, 8) + "bf16=true", "full"), ("nvme", 8, batch % (1, 8) + "bf16=true", "full"),
            ("fp16", 8, batch % (1, 8) + "fp16=true", "full"))
    if subprocess.run(["stat", "-f", "-c", "%T", work], capture_output=True, check=True, text=True).stdout.strip() == "tmpfs":
        print("the tutorial's nvme: %s is a tmpfs (skipped)" % work)
        rows = [row for row in rows if row[0] != "nvme"]
    for name, ranks, words, kind in rows:
        sh("%s, %s" % (name, kind), "flowtrain launch --nproc_per_node %d -- train my.yaml deepspeed=tutorial/%s.json %s finetuning_type=%s output_dir=t-%s-%s"
           % (ranks, name, words, kind, name, kind), OMP_NUM_THREADS="1")
        check("%s, %s: a result" % (name, kind), os.path.exists("t-%s-%s/%smodel.safetensors" % (name, kind, "adapter_" if kind == "lora" else "")))
    for name, ranks, words, want in (
            ("standalone_z2", 4, batch % (4, 2) + "bf16=true", "ds lr=3e-05 vs hf learning_rate=5e-05"),
            ("7b_z3_cpu", 4, batch % (1, 8) + "bf16=true", "ds train_batch_size=64 vs hf train_batch_size (calculated)=32"),
            ("fp16", 8, batch % (1, 8) + "bf16=true", "fp16")):
        said = sh("%s: refused" % name, "flowtrain launch --nproc_per_node %d -- train my.yaml deepspeed=tutorial/%s.json %s finetuning_type=full output_dir=t-no" %
                  (ranks, name, words), 2, OMP_NUM_THREADS="1")
        check("%s: %s" % (name, want), want in said, said[-1500:])


def trainer_md():
    line = docs.take("docs/trainer.md", "flowtrain convert").split("#")
    check("and back, it says", "--to fp8" in line[1])
    sh("convert to FP8", replaced(line[0], ("DeepSeek-V3", "example/model"), ("bf16", "fp8")))
    sh("convert", replaced(line[0], ("DeepSeek-V3", "fp8")))
    sh("modules beside adapters", replaced(docs.take("docs/trainer.md", "flowtrain train --stage sft --do_train --additional_target"), ("--max_steps 20", "--max_steps 2")))
    check("they are in the adapter", "base_model.model.lm_head.weight" in open("ends/adapter_model.safetensors", "rb").read(4096).decode("latin1"))
    full = docs.take("docs/trainer.md", "flowtrain launch --nproc_per_node 4")
    sh("full fine-tuning", replaced(full, ("--nproc_per_node 4", "--nproc_per_node 2"), ("pipelines/", ROOT + "/pipelines/"), ("--max_steps 40", "--max_steps 2")))
    check("a model of it", os.path.exists("tuned/model.safetensors"))
    said = sh("a model of its state", docs.take("docs/trainer.md", "flowtrain export --from tuned/resume"))
    check("what it says", "wrote the model of step 2" in said and "to masters in float32" in said and os.path.exists("masters/model.safetensors"), said)
    after = docs.take("docs/trainer.md", "flowtrain generate --model_name_or_path tuned")
    said = sh("it answers, and goes on", replaced(after, ("--nproc_per_node 2", "--nproc_per_node 1"), ("pipelines/", ROOT + "/pipelines/"), ("--max_steps 60", "--max_steps 3")))
    check("from its state", "Continuing training from global step 2" in said, said)
    freeze = docs.take("docs/trainer.md", "flowtrain train --stage sft --do_train --finetuning_type freeze")
    sh("freeze", replaced(freeze, ("--max_steps 40", "--max_steps 2")))
    check("a model of it", os.path.exists("frozen/model.safetensors"))
    muon = docs.take("docs/trainer.md", "flowtrain launch --nproc_per_node 4")
    sh("Muon", replaced(muon, ("--nproc_per_node 4", "--nproc_per_node 2"), ("pipelines/", ROOT + "/pipelines/"), ("--max_steps 40", "--max_steps 2")))
    check("a model of Muon", os.path.exists("muon/model.safetensors"))
    rows = [line for line in read(ROOT + "/docs/trainer.md").splitlines() if re.match(r"\| \d × ", line)]
    lines = docs.take("docs/trainer.md", "flowtrain plan --gpus 4").splitlines()
    check("a line for each row of machines", len(rows) == len(lines) == 3, rows)
    for row, line in zip(rows, lines):
        said, figures = sh("plan: " + row, line), re.findall(r"\d+\.\d", row)
        check("plan says what the page does: " + row, len(figures) >= 2 and all(" %s " % gb in said for gb in figures), said)
        check("and what does not fit: " + row, ("does not fit" in row) == ("does not fit" in said), said)
    check("a checkpoint in bf16", os.path.exists("bf16/model.safetensors.index.json") or os.path.exists("bf16/model.safetensors"))


def main():
    for part in (pipelines_md, page_md, schedules_md, units_md, messages_md, cluster_md, slurm_md):
        os.environ["FLOWRUN_HOME"] = "%s/home.%s" % (work, part.__name__)
        os.makedirs(os.environ["FLOWRUN_HOME"], mode=0o700)
        part()
    if os.path.exists(programs["flowtrain"]):
        sh("the example", "flowtrain init --example example > /dev/null")
        for part in (layouts_md, going_on, migrate_md, deepspeed_script, tutorial, trainer_md):
            part()
        check("commands and flags of the text", unknown_flags(programs) == [], "\n".join(unknown_flags(programs)))
        check("blocks that are neither run nor listed, or listed and gone", docs.left() == [], "\n".join(docs.left()))
    print("%(passed)d passed, %(failed)d failed" % counts)
    sys.exit(0 if counts["failed"] == 0 and counts["passed"] > 0 else 1)


build = os.path.abspath(sys.argv[1])
programs = {"flowrun": build + "/engine/cli/flowrun", "flowtrain": build + "/trainer/cli/flowtrain"}
work = tempfile.mkdtemp(prefix="fr-docs.")
os.environ.update(TZ="UTC", NO_COLOR="1", PATH=":".join([os.path.dirname(p) for p in programs.values()] + [os.environ["PATH"]]))
os.environ.pop("FLOWRUN_LIBEXEC", None)
os.chdir(work)
os.symlink(ROOT + "/examples", "examples")
atexit.register(clean)
main()
