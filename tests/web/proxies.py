#!/usr/bin/env python3
"""The page behind proxies: by the lines for nginx in docs/page.md it is live; behind one that lets everything through but
the stream it looks again by itself, and goes on with the stream once that comes; what is seen stays while the host is
away. usage: proxies.py BUILD"""
import http.client
import http.server
import os
import shutil
import signal
import subprocess
import threading

import bed
from bed import begin, begin_run, check, clean_page, finish, flow, free_port, log_in, page, same, serve, until, write

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs/page.md")
KIND = "document.querySelector('.live')?.dataset.kind"
ROW = "document.querySelector('tr.row[data-no=\"%d\"]') !== null"
# The page's own waits, shortened: between two looks, and how long a silent stream is believed.
HASTY = """(() => { const interval = window.setInterval, timeout = window.setTimeout;
    window.setInterval = (fn, ms) => interval(fn, ms === 5000 ? 50 : ms);
    window.setTimeout = (fn, ms) => timeout(fn, ms === 40000 ? 300 : ms); })()"""
NGINX = """daemon off; master_process off; pid %(f)s/nginx.pid; error_log %(f)s/nginx.err;
events {}
http { access_log off; client_body_temp_path %(f)s/body; proxy_temp_path %(f)s/proxied; fastcgi_temp_path %(f)s/1;
       uwsgi_temp_path %(f)s/2; scgi_temp_path %(f)s/3;
       server { listen 127.0.0.1:%(port)d;
%(lines)s} }
"""


class Proxy(http.server.BaseHTTPRequestHandler):
    """way: what becomes of requests for the stream; with "down" of all."""
    protocol_version = "HTTP/1.1"
    way, held = "pass", threading.Event()

    def log_message(self, *args):
        pass

    def answer(self, status, kind, body, headers=()):
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def barred(self):
        if Proxy.way == "405":
            self.answer(405, "application/problem+json", b'{"status":405,"title":"Method Not Allowed"}')
        elif Proxy.way in ("502", "down"):
            self.answer(502, "text/html", b"<h1>502 Bad Gateway</h1>")
        elif Proxy.way == "html":
            self.answer(200, "text/html", b"<h1>Welcome</h1>")
        elif Proxy.way == "empty":
            self.answer(200, "text/event-stream", b"")
        elif Proxy.way == "held":
            Proxy.held.wait()
        self.close_connection = True  # "cut": without a word

    def do_GET(self):
        stream = "/api/v1/stream" in self.path
        if Proxy.way == "down" or (stream and Proxy.way != "pass"):
            self.barred()
            return
        upstream = http.client.HTTPConnection("127.0.0.1", bed.host_port, timeout=None)
        n = int(self.headers.get("Content-Length", 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "accept-encoding")}
        upstream.request(self.command, self.path, self.rfile.read(n), headers)
        got = upstream.getresponse()
        if not stream:
            self.answer(got.status, got.getheader("Content-Type", ""), got.read(),
                        [(k, v) for k, v in got.getheaders() if k in ("Set-Cookie", "ETag", "Cache-Control")])
            return
        self.send_response(got.status)
        self.send_header("Content-Type", got.getheader("Content-Type"))
        self.end_headers()
        self.close_connection = True
        while Proxy.way == "pass" and (part := got.read1()):
            self.wfile.write(part)

    do_POST = do_GET


def proxy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    server.daemon_threads = True
    server.handle_error = lambda *args: None  # a browser that leaves
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:%d/" % server.server_port


def barred(one, at):
    """Whatever stands in for the stream, a run that begins is seen."""
    for no, way in enumerate(("405", "502", "html", "empty", "cut", "held"), 1):
        Proxy.way = way
        one.go(at + "runs")
        one.wait(KIND + " === 'polling'", what="%s: a page that looks by itself" % way)
        same("%s: its mark says so" % way, one.eval("document.querySelector('.live').title.includes('every 5 s')"), True)
        flow("served/quick.yaml")
        one.wait(ROW % no, what="%s: the new run" % way)
    one.go(at + "runs/1")
    one.wait(KIND + " === 'polling' && document.title.startsWith('✓')", what="a run that is looked at again")


def away(one, at):
    seen = "document.querySelector('main').innerText.includes('quick')"
    one.go(at + "pipelines")
    one.wait(KIND + " === 'polling' && " + seen, what="a page that looks by itself")
    Proxy.way = "down"
    one.wait(KIND + " === 'stale'", what="a mark that says that nothing comes")
    asked = "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/health')).length"
    one.wait("%s > %d" % (asked, one.eval(asked) + 3), what="more looks")
    check("what was seen is seen", one.eval(seen))
    Proxy.way = "pass"
    Proxy.held.set()
    one.go(at + "runs")
    one.wait(KIND + " === 'live'", what="the stream")
    flow("served/quick.yaml")
    one.wait(ROW % 7, what="its news")


def nginx_lines():
    """Of the docs: the block that begins with "location", for this host's port."""
    with open(DOCS, encoding="utf-8") as f:
        lines = f.read().split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("    location "))
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("    "))
    return "\n".join(lines[first:last]).replace("127.0.0.1:8470", "127.0.0.1:%d" % bed.host_port) + "\n"


def behind_nginx(one):
    program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        print("there is no nginx here: not behind it")
        return
    port = free_port()
    write("nginx.conf", NGINX % {"f": bed.folder, "port": port, "lines": nginx_lines()})
    child = subprocess.Popen([program, "-e", os.path.join(bed.folder, "nginx.err"), "-c", os.path.join(bed.folder, "nginx.conf")])
    bed.started.append(child)
    until("nginx listens", lambda: bed.answers(port) or child.poll() is not None)
    bed.stop_host()
    serve(bed.host_port, "--base", "/flowrun", "--proxy", "127.0.0.1")
    link = flow("web").split()[0].replace(bed.url, "http://127.0.0.1:%d/flowrun/" % port)
    bed.url = link.split("#")[0]
    one.go("about:blank")
    one.requests.clear()
    one.errors.clear()  # refusals were such
    one.go(link)
    one.wait(KIND + " === 'live'", what="behind nginx: a live stream")
    flow("served/quick.yaml")
    one.wait(ROW % 8, what="behind nginx: the new run")
    one.eval(ROW.replace(" !== null", ".querySelector('a').click()") % 8)
    one.wait("document.title.startsWith('✓') && location.pathname === '/flowrun/runs/8'", what="its page")
    one.press("Actions")
    one.press("Run again")
    one.wait("document.querySelector('dialog[open]') !== null", what="a question")
    one.eval("document.querySelector('dialog[open] [type=submit]').click()")
    one.wait("location.pathname === '/flowrun/runs/9' && document.title.startsWith('✓')", what="what is asked there is done")
    clean_page("behind nginx", one)
    killed(one, link.split("#")[0])


def killed(one, at):
    """The host dies behind nginx, which answers for it meanwhile: the page, its login and the run go on."""
    write("served/waits.yaml", 'name: waits\ntasks: {t: {run: "until test -e %s/go; do sleep 0.05; done"}}\n' % bed.folder)
    follower = begin_run("served/waits.yaml")
    one.go(at + "runs")
    one.wait(ROW % 10, what="a run that waits")
    until("it is the host's", lambda: "running" in flow("status", "10"))
    follower.kill()
    follower.wait()
    for _ in range(3):
        bed.stop_host(signal.SIGKILL)
        one.wait(KIND + " !== 'live'", what="behind nginx: a host that is gone")
        serve(bed.host_port, "--base", "/flowrun", "--proxy", "127.0.0.1")
        one.wait(KIND + " === 'live'", what="behind nginx: the next one")
    write("go", "")
    one.wait("document.querySelector('tr.row[data-no=\"10\"] .state').innerText.includes('succeeded')", what="its end")
    same("nobody had to log in again", one.eval("location.pathname"), "/flowrun/runs")


def main():
    begin()
    write("served/quick.yaml", 'name: quick\ntasks: {t: {run: "true"}}\n')
    serve(0, "--proxy", "127.0.0.1")
    bed.host_port = int(bed.url.rsplit(":", 1)[1].strip("/"))
    one = page()
    hasty = one.call("Page.addScriptToEvaluateOnNewDocument", {"source": HASTY})
    log_in(one)
    at = proxy()
    barred(one, at)
    away(one, at)
    one.call("Page.removeScriptToEvaluateOnNewDocument", hasty)
    behind_nginx(one)
    finish()


main()
