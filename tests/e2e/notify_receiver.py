#!/usr/bin/env python3
"""Receivers of messages, as threads: HTTP with scripted answers, SMTP with STARTTLS and a login. What
comes stands in files of the current folder, a line of JSON each: got.http, got.mail.
usage: notify_receiver.py [CERT KEY]: writes its ports to the file ports; reads answers from the files answer (status) and says (body)"""
import base64
import http.server
import json
import os
import socketserver
import ssl
import sys
import threading

lock = threading.Lock()


def note(name, doc):
    with lock, open(name, "a") as f:
        f.write(json.dumps(doc) + "\n")


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with lock:
            script = open("answer").read().split() if os.path.exists("answer") else ["200" if os.path.exists("says") else "204"]
            status, after = int(script[0]), script[1] if len(script) > 1 else None
        note("got.http", {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body,
                          "status": status})
        if os.path.exists("slow") and self.path == "/slow":
            open("slow").read()  # a pipe: until somebody writes
        self.send_response(status)
        if after:
            self.send_header("Retry-After", after)
        self.end_headers()
        if os.path.exists("says") and status == 200:
            self.wfile.write(open("says", "rb").read())

    def log_message(self, *_):
        pass


class Mail(socketserver.StreamRequestHandler):
    """RFC 5321 with STARTTLS (3207) and AUTH PLAIN (4954)."""

    def say(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def handle(self):
        doc = {"tls": False, "login": None, "to": []}
        self.say("220 test")
        while True:
            line = self.rfile.readline().decode().rstrip("\r\n")
            word = line.upper().split(" ")[0]
            if word == "EHLO":
                more = "250-AUTH PLAIN" if doc["tls"] else "250-STARTTLS" if len(sys.argv) > 1 else "250-HELP"
                self.say("250-test\r\n%s\r\n250 8BITMIME" % more)
            elif word == "STARTTLS":
                self.say("220 go on")
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(sys.argv[1], sys.argv[2])
                self.request = context.wrap_socket(self.request, server_side=True)
                self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
                doc["tls"] = True
            elif word == "AUTH":
                text = line.split(" ")[2] if line.count(" ") > 1 else self.more()
                doc["login"] = base64.b64decode(text).decode().split("\0")[1:]
                self.say("235 ok")
            elif word == "MAIL":
                doc["from"] = line
                self.say("250 ok")
            elif word == "RCPT":
                if "refused@" in line or "busy@" in line:
                    self.say("550 no such user" if "refused@" in line else "450 busy")
                    continue
                doc["to"].append(line)
                self.say("250 ok")
            elif word == "DATA":
                self.say("354 go on")
                lines = []
                while (line := self.rfile.readline().decode()) not in (".\r\n", ""):
                    lines.append(line[1:] if line.startswith(".") else line)
                note("got.mail", dict(doc, text="".join(lines)))
                self.say("250 ok")
            elif word in ("QUIT", ""):
                self.say("221 bye")
                return
            else:
                self.say("250 ok")

    def more(self):
        self.say("334 ")
        return self.rfile.readline().decode().strip()


class Threads(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_):
        pass  # who trusts no certificate, or was refused, hangs up


hook = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("HOOK_PORT", 0))), Hook)
mail = Threads(("127.0.0.1", 0), Mail)
with open("ports.new", "w") as f:
    f.write("%d %d\n" % (hook.server_port, mail.server_address[1]))
os.rename("ports.new", "ports")
threading.Thread(target=mail.serve_forever, daemon=True).start()
hook.serve_forever()
