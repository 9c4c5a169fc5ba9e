#!/usr/bin/env python3
"""Wrong and evil requests over TCP: each gets the status of its row, and changes nothing: no run, token,
schedule or backfill is another one behind it. No answer has a secret. usage: api_hostile.py BUILD"""
import contextlib
import json
import sqlite3
import sys

from api_lib import SECRET, Answer, Checks, Host

HOST = "Host: localhost\r\n"
JSON = "Content-Type: application/json\r\n"
OURS = "Sec-Fetch-Site: same-origin\r\n"


def body(text, kind=JSON):
    return "%sContent-Length: %d\r\n\r\n%s" % (kind, len(text.encode()), text)


def rows(token):
    view, operate, admin = ("Authorization: Bearer %s\r\n" % token[r] for r in ("view", "operate", "admin"))
    run = "POST /api/v1/runs HTTP/1.1\r\n"
    deep = '{"pipeline":"demo","params":' + '{"x":' * 40 + "1" + "}" * 41
    return [
        # what is no request, or two at once
        ("no HTTP", "\x16\x03\x01\x02\r\n\r\n", 400),
        ("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("a bare newline as a request", "\n\n", 400),
        ("a line without a version", "GET /api/v1/runs\r\n\r\n", 400),
        ("no Host", "GET /api/v1/runs HTTP/1.1\r\n%s\r\n" % admin, 400),
        ("two Hosts", "GET /api/v1/runs HTTP/1.1\r\n%s%s%s\r\n" % (HOST, HOST, admin), 400),
        ("Host with a path", "GET /api/v1/runs HTTP/1.1\r\nHost: localhost/x\r\n%s\r\n" % admin, 400),
        ("Host with a user", "GET /api/v1/runs HTTP/1.1\r\nHost: a@localhost\r\n%s\r\n" % admin, 400),
        ("an absolute target", "GET http://localhost/api/v1/runs HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("CONNECT", "CONNECT localhost:22 HTTP/1.1\r\n%s\r\n" % HOST, 501),
        ("OPTIONS", "OPTIONS /api/v1/runs HTTP/1.1\r\n%sOrigin: http://evil.example\r\n\r\n" % HOST, 501),
        ("PATCH", "PATCH /api/v1/runs/1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 501),
        ("TRACE", "TRACE /api/v1/me HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 501),
        ("chunks that are none", run + HOST + admin + JSON + "Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n", 400),
        ("chunked and a length", run + HOST + admin + JSON + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", 400),
        ("a coding in capitals", run + HOST + admin + JSON + "TRANSFER-ENCODING: xchunked\r\n\r\n", 400),
        ("a coding of chunks", run + HOST + admin + JSON + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("two lengths", run + HOST + admin + JSON + "Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}", 400),
        ("a list of lengths", run + HOST + admin + JSON + "Content-Length: 2, 2\r\n\r\n{}", 400),
        ("a signed length", run + HOST + admin + JSON + "Content-Length: +2\r\n\r\n{}", 400),
        ("a length in hex", run + HOST + admin + JSON + "Content-Length: 0x2\r\n\r\n{}", 400),
        ("a huge length", run + HOST + admin + JSON + "Content-Length: 99999999999999999999\r\n\r\n", 413),
        ("a body that is too long", run + HOST + admin + JSON + "Content-Length: 1048577\r\n\r\n", 413),
        ("a header that goes on", "GET /api/v1/runs HTTP/1.1\r\n%s%sX: a\r\n b\r\n\r\n" % (HOST, admin), 400),
        ("a blank before a colon", "GET /api/v1/runs HTTP/1.1\r\n%s%sX : a\r\n\r\n" % (HOST, admin), 400),
        ("a NUL in a header", "GET /api/v1/runs HTTP/1.1\r\n%s%sX: a\0b\r\n\r\n" % (HOST, admin), 400),
        ("a carriage return in a header", "GET /api/v1/runs HTTP/1.1\r\n%s%sX: a\rY: b\r\n\r\n" % (HOST, admin), 400),
        ("too many headers", "GET / HTTP/1.1\r\n%s%s\r\n" % (HOST, "X: y\r\n" * 200), 431),
        ("a head that is too long", "GET / HTTP/1.1\r\n%sX: %s\r\n\r\n" % (HOST, "y" * 20000), 431),
        ("a target that is too long", "GET /%s HTTP/1.1\r\n%s\r\n" % ("y" * 3000, HOST), 414),
        ("two tokens", "GET /api/v1/runs HTTP/1.1\r\n%s%s%s\r\n" % (HOST, view, admin), 400),
        ("Expect of something else", run + HOST + admin + JSON + "Expect: tea\r\nContent-Length: 2\r\n\r\n{}", 417),
        # paths
        ("dots", "GET /api/v1/../../etc/passwd HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("coded dots", "GET /static/%%2e%%2e/%%2e%%2e/etc/passwd HTTP/1.1\r\n%s\r\n" % HOST, 400),
        ("dots coded twice", "GET /static/%%252e%%252e/etc/passwd HTTP/1.1\r\n%s\r\n" % HOST, 404),
        ("a coded slash", "GET /static/..%%2fetc%%2fpasswd HTTP/1.1\r\n%s\r\n" % HOST, 400),
        ("backslashes", "GET /static/..\\..\\etc\\passwd HTTP/1.1\r\n%s\r\n" % HOST, 404),
        ("a NUL", "GET /static/app.js%%00.html HTTP/1.1\r\n%s\r\n" % HOST, 400),
        ("two slashes", "GET //api/v1/runs HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("no UTF-8", "GET /api/v1/pipelines/%%ff HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("half an escape", "GET /api/v1/runs/%%4 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("a log of another file", "GET /api/v1/runs/1/attempts/%s/log HTTP/1.1\r\n%s%s\r\n" % ("..%2f..%2fstate.db", HOST, admin), 400),
        ("an attempt that is no id", "GET /api/v1/runs/1/attempts/state.db/log HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 404),
        ("a run by SQL", "GET /api/v1/runs/1%%20OR%%201=1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 404),
        ("a filter by SQL", "GET /api/v1/runs?pipeline='%%20OR%%20''=' HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 200),
        ("capitals", "GET /API/V1/runs HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 404),
        # who asks
        ("nobody", "GET /api/v1/runs HTTP/1.1\r\n%s\r\n" % HOST, 401),
        ("nobody, of what is not there", "GET /api/v1/nothing HTTP/1.1\r\n%s\r\n" % HOST, 401),
        ("a wrong token", "GET /api/v1/runs HTTP/1.1\r\n%sAuthorization: Bearer frt_%s\r\n\r\n" % (HOST, "A" * 43), 401),
        ("a token as a cookie", "GET /api/v1/runs HTTP/1.1\r\n%sCookie: flowrun=%s\r\n\r\n" % (HOST, token["admin"]), 401),
        ("a token in the query", "GET /api/v1/runs?token=%s HTTP/1.1\r\n%s\r\n" % (token["admin"], HOST), 401),
        ("a token as a password", "GET /api/v1/runs HTTP/1.1\r\n%sAuthorization: Basic %s\r\n\r\n" % (HOST, token["admin"]), 401),
        ("a stream for nobody", "GET /api/v1/stream HTTP/1.1\r\n%s\r\n" % HOST, 401),
        ("a stream elsewhere", "GET /api/v1/runs/stream HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 404),
        ("view begins a run", run + HOST + view + body('{"pipeline":"demo"}'), 403),
        ("view pauses a schedule", "PUT /api/v1/schedules/1 HTTP/1.1\r\n" + HOST + view + body('{"paused":true}'), 403),
        ("view validates", "POST /api/v1/pipelines/validate HTTP/1.1\r\n" + HOST + view + body('{"text":"x"}'), 403),
        ("operate makes a token", "POST /api/v1/tokens HTTP/1.1\r\n" + HOST + operate + body('{"name":"x","role":"admin"}'), 403),
        ("operate removes a run", "DELETE /api/v1/runs/1 HTTP/1.1\r\n" + HOST + operate + body("{}"), 403),
        ("operate reads the audit", "GET /api/v1/audit HTTP/1.1\r\n%s%s\r\n" % (HOST, operate), 403),
        ("admin makes a link of the owner", "POST /api/v1/codes HTTP/1.1\r\n" + HOST + admin + body("{}"), 403),
        ("admin gives a shell", "POST /api/v1/runs/1/shell HTTP/1.1\r\n" + HOST + admin + body('{"secrets":{"PLANTED":"x"}}'), 403),
        # from where
        ("a name that was rebound", "GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\n%s\r\n" % admin, 421),
        ("its page", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        ("its file", "GET /static/app.js HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", 421),
        ("its login", "POST /api/v1/login HTTP/1.1\r\nHost: evil.example\r\n" + OURS + body('{"token":"x"}'), 421),
        ("a login with a key", "POST /api/v1/login HTTP/1.1\r\n" + HOST + OURS + "Idempotency-Key: of-nobody\r\n" + body('{"token":"x"}'), 401),
        ("localhost as a part of a name", "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 421),
        ("another site", run + HOST + admin + "Sec-Fetch-Site: cross-site\r\n" + body('{"pipeline":"demo"}'), 403),
        ("another port of this machine", run + HOST + admin + "Sec-Fetch-Site: same-site\r\n" + body('{"pipeline":"demo"}'), 403),
        ("another Origin", run + HOST + admin + "Origin: http://evil.example\r\n" + body('{"pipeline":"demo"}'), 403),
        ("Origin null", run + HOST + admin + "Origin: null\r\n" + body('{"pipeline":"demo"}'), 403),
        ("a form of another site", run + HOST + "Origin: http://evil.example\r\n" + body("pipeline=demo", "Content-Type: text/plain\r\n"), 403),
        ("neither Origin nor token", run + HOST + body('{"pipeline":"demo"}'), 403),
        ("logout by another site", "POST /api/v1/logout HTTP/1.1\r\n" + HOST + "Sec-Fetch-Site: cross-site\r\n" + body("{}"), 403),
        ("a forwarded name that nobody trusts", "GET /api/v1/runs HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n%s\r\n" % admin, 421),
        # bodies
        ("no JSON", run + HOST + admin + body("pipeline: demo"), 400),
        ("a form", run + HOST + admin + body("pipeline=demo", "Content-Type: application/x-www-form-urlencoded\r\n"), 415),
        ("text", run + HOST + admin + body('{"pipeline":"demo"}', "Content-Type: text/plain\r\n"), 415),
        ("nearly JSON", run + HOST + admin + body('{"pipeline":"demo"}', "Content-Type: application/jsonp\r\n"), 415),
        ("no type", run + HOST + admin + body('{"pipeline":"demo"}', ""), 415),
        ("a key twice", run + HOST + admin + body('{"pipeline":"none","pipeline":"demo"}'), 400),
        ("an unknown key", run + HOST + admin + body('{"pipeline":"demo","env":{}}'), 400),
        ("a folder of a shell", run + HOST + admin + body('{"pipeline":"demo","cwd":"/"}'), 400),
        ("secrets of a shell", run + HOST + admin + body('{"pipeline":"demo","secrets":{"PLANTED":"x"}}'), 400),
        ("a path as a pipeline", run + HOST + admin + body('{"pipeline":"/etc/passwd"}'), 404),
        ("a wrong type", run + HOST + admin + body('{"pipeline":["demo"]}'), 400),
        ("too deep", "POST /api/v1/pipelines/validate HTTP/1.1\r\n" + HOST + admin + body(deep), 400),
        ("a NUL in a text", run + HOST + admin + body('{"pipeline":"demo\\u0000x"}'), 400),
        ("a NUL in a key", run + HOST + admin + body('{"pipeline":"demo","at\\u0000":"x"}'), 400),
        ("very deep", run + HOST + admin + body("[" * 100000), 400),
        ("half a text", run + HOST + admin + body('{"pipeline":"de'), 400),
        ("no UTF-8 in a body", (run + HOST + admin + JSON + "Content-Length: 18\r\n\r\n").encode() + b'{"pipeline":"\xff\xfe"}\n', 400),
        ("a lone surrogate", run + HOST + admin + body('{"pipeline":"\\ud800"}'), 400),
        ("a large number", run + HOST + admin + body('{"pipeline":"demo","priority":1e400}'), 400),
        ("an array", run + HOST + admin + body("[]"), 400),
        ("null", run + HOST + admin + body("null"), 400),
        ("a file for resume", "POST /api/v1/runs/1/resume HTTP/1.1\r\n" + HOST + admin + body('{"file":"/etc/passwd"}'), 400),
        ("a key of 65 characters", run + HOST + admin + "Idempotency-Key: %s\r\n" % ("k" * 65) + body('{"pipeline":"demo"}'), 400),
        ("a key with a blank", run + HOST + admin + "Idempotency-Key: a b\r\n" + body('{"pipeline":"demo"}'), 400),
        ("a pattern without an end", "GET /api/v1/runs/1/attempts/@/log/search?q=(a%%2B)%%2Bb&re=1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 404),
        ("a limit of nothing", "GET /api/v1/runs?limit=-1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("an endless limit", "GET /api/v1/runs?limit=99999999999999999999 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("a filter with a slip", "GET /api/v1/runs?pipelin=demo HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("a filter twice", "GET /api/v1/runs?pipeline=demo&pipeline=x HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("a cursor by SQL", "GET /api/v1/runs?sort=oldest&cursor=0%%20OR%%201.1.1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("a wait for all runs", "GET /api/v1/runs?seq=1 HTTP/1.1\r\n%s%s\r\n" % (HOST, admin), 400),
        ("too many values", "GET /api/v1/runs?%s HTTP/1.1\r\n%s%s\r\n" % ("&".join("a%d=1" % i for i in range(70)), HOST, admin), 414),
    ]


def state(host):
    """What none of them may change."""
    docs = [host.ask("GET", p).json() for p in ("/runs?count=1", "/schedules", "/backfills")]
    names = [(t["name"], t["role"]) for t in host.ask("GET", "/tokens").json()["items"]]
    with contextlib.closing(sqlite3.connect("file:%s/home/state.db?mode=ro" % host.work, uri=True)) as store:
        strangers = store.execute("SELECT count(*) FROM answer WHERE who NOT IN ('view', 'operate', 'admin')").fetchone()
    return json.dumps([docs, names, strangers], sort_keys=True)


def check_replay(host, c):
    """A key with another body, and of another path, repeats nothing."""
    key = [("Idempotency-Key", "once")]
    first = host.ask("POST", "/runs", {"pipeline": "demo"}, headers=key)
    c.check(first.status == 201, "a run: %d" % first.status)
    host.until("/runs/1", lambda r: r["state"] == "over")
    before = state(host)
    c.check(host.ask("POST", "/runs", {"pipeline": "demo"}, headers=key).body == first.body, "the same once more")
    c.check(host.ask("POST", "/runs", {"pipeline": "demo", "priority": 1}, headers=key).status == 422, "another body")
    c.check(host.ask("POST", "/runs/1/rerun", {"pipeline": "demo"}, headers=key).status == 422, "another path")
    c.check(state(host) == before, "a replay changes something")


def main():
    c, host = Checks(), Host(sys.argv[1])
    try:
        check_replay(host, c)
        before, table = state(host), rows(host.tokens)
        for name, text, status in table:
            a = Answer(host.raw(text if isinstance(text, bytes) else text.encode("latin-1")))
            c.check(a.status == status, "%s: %d, want %d: %r" % (name, a.status, status, a.body[:200]))
            c.check("content-security-policy" in a.headers, "%s: no guards" % name)
            c.check(a.status < 400 or a.headers.get("content-type") == "application/problem+json", "%s: no problem" % name)
            c.check(state(host) == before, "%s changes something" % name)
        c.check(len(table) >= 60, "rows")
        a = host.ask("POST", "/pipelines/validate", {"text": json.dumps({"a": "[" * 99, "b": "\\u0000"})})
        c.check(a.status == 200, "brackets in a text are no depth, nor is a backslash a NUL: %d" % a.status)
        a = Answer(host.raw(next(t for n, t, _ in table if n == "too deep")))
        c.check("deeper than 32 levels" in a.json()["detail"], "what is too deep")
        pair = "GET /api/v1/health HTTP/1.1\r\n%sContent-Length: 4\r\n\r\nGET GET /api/v1/me HTTP/1.1\r\n%s\r\n" % (HOST, HOST)
        got = host.raw(pair)
        c.check(got.count(b"HTTP/1.1 ") == 2 and b'"ok":true' in got and b" 401 " in got, "a body is no request: %r" % got)
        c.check(SECRET.encode() not in host.seen, "a secret is in an answer")
        c.check(host.host.poll() is None, "the host is there")
    finally:
        host.end()
    c.done()


main()
