#!/bin/bash
# A host goes at an awkward moment: while it is asked for a submit or a retry, twice in a row, with a full
# disk. And who may not share a home with its host: another version, user, machine, namespace, a container.
# Each gets a sentence, and nothing breaks. usage: hand_over.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
export FLOWRUN_LIBEXEC=$build/tasks

cat > waits.yaml <<'END2'
name: waits
params: {who: {default: x}}
env: {W: "${{ env.W }}", WHO: "${{ params.who }}"}
tasks: {t: {run: "echo $WHO >> $W/ran; until test -e $W/go.$WHO; do sleep 0.05; done"}}
END2
serve() {
    rm -f serve.log
    "$flowrun" serve > serve.log 2>&1 &
    host=$!
    until_true 20 holds serve.log "is the host"
}
host_pid() { sed -n 's/^pid //p' "$FLOWRUN_HOME/host.lock"; }
is() { "$flowrun" runs --json | python3 -c 'import json, sys; exit(not any(d["no"] == int(sys.argv[1]) and d["state"] == sys.argv[2] for d in map(json.loads, sys.stdin)))' "$1" "$2"; }
newest() { "$flowrun" runs --json | python3 -c 'import json, sys; print(max(json.loads(l)["no"] for l in sys.stdin))'; }
ran() { grep -c "^$1\$" ran; }

# ---- two shells submit to a host that does not answer, then is killed: each run is there once
serve
kill -STOP $host
for who in a b; do
    "$flowrun" waits.yaml -p who=$who > out.$who 2>&1 &
    eval "$who=\$!"
done
callers() { [ "$(grep -c "$FLOWRUN_HOME/host.sock" /proc/net/unix)" -ge "$1" ]; } # with the host's own
until_true 20 callers 3
kill -9 $host
until_true 30 eval 'test "$(lines ran)" = 2'
touch go.a go.b
wait $a
same "the first shell" $? 0
wait $b
same "the second" $? 0
wait $host 2> /dev/null
same "each ran once" "$(sort ran | paste -sd ' ')" "a b"
same "two runs" "$("$flowrun" runs --json | wc -l)" 2

# ---- a retry whose host is killed before it answers is made, once
printf 'name: fails\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "echo f >> $W/ran; test -e $W/go.f"}}\n' > fails.yaml
"$flowrun" fails.yaml > out 2>&1
same "a run that fails" $? 1
touch go.f
serve
kill -STOP $host
"$flowrun" retry 3 > out 2>&1 &
pid=$!
until_true 20 callers 2
kill -9 $host
wait $pid
same "the retry" $? 0
has "is shown" out "run 3 succeeded"
wait $host 2> /dev/null
same "once" "$(ran f)" 2

# ---- one host goes, and the next one goes later than a host is waited for
"$flowrun" waits.yaml -p who=1 > out.1 2>&1 &
one=$!
until_true 20 eval 'test "$(ran 1)" = 1'
for who in 2 3; do
    "$flowrun" waits.yaml -p who=$who > out.$who 2>&1 &
    eval "f$who=\$!"
done
until_true 20 eval 'test "$(ran 2) $(ran 3)" = "1 1"'
kill -9 $one
wait $one 2> /dev/null
other() { now=$(host_pid); [ "$now" != "$one" ] && [ -S "$FLOWRUN_HOME/host.sock" ]; }
until_true 20 other
until_true 20 eval 'is 5 running && is 6 running'
second=$(host_pid)
last=$f2
[ "$second" = "$f2" ] && last=$f3
long=$((SECONDS + 12)) # a flowrun that finds no host gives up after 10 s
until_true 30 eval 'test $SECONDS -ge $long'
check "the last one follows" kill -0 "$last"
kill -9 "$second"
wait "$second" 2> /dev/null
touch go.2 go.3
wait "$last"
same "the last one is host, and its run ends well" $? 0
for no in 4 5 6; do
    touch go.1
    is $no succeeded || "$flowrun" resume $no > out 2>&1
    check "run $no" is $no succeeded
done
same "each task ran once" "$(ran 1) $(ran 2) $(ran 3)" "1 1 1"

# ---- a run that ends between a follower's look and its request to the next host: it has the run's own end
for who in r q; do
    test_of=$([ $who = q ] && echo "; false") # the second one fails
    sed "s/done\"/done$test_of\"/" waits.yaml > ends.yaml
    serve
    "$flowrun" ends.yaml -p who=$who > out.$who 2>&1 &
    pid=$!
    until_true 20 eval 'test "$(ran $who)" = 1'
    no=$(newest)
    kill -STOP $pid
    until_true 20 grep -q '^State:.*T' /proc/$pid/status
    kill -9 $host
    wait $host 2> /dev/null
    rm -f next.log # of the round before
    # stands for the next host: it is asked to go on with the run, which a real one ends before the answer
    python3 - "$flowrun" "$no" "$who" <<'END2' > next.log 2>&1 &
import fcntl, http.server, os, socketserver, subprocess, sys
home = os.environ["FLOWRUN_HOME"]
sock = home + "/host.sock"
lock = open(home + "/host.lock", "r+b")
fcntl.lockf(lock, fcntl.LOCK_EX)

class Host(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        fcntl.lockf(lock, fcntl.LOCK_UN)
        open("go." + sys.argv[3], "w").close()
        subprocess.run([sys.argv[1], "resume", sys.argv[2]], stdout=subprocess.DEVNULL)
        body = b'{"status": 400, "code": "usage", "detail": "run %s is over"}' % sys.argv[2].encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "a client"

if os.path.exists(sock):
    os.unlink(sock)
server = socketserver.UnixStreamServer(sock, Host)
print("ready", flush=True)
server.handle_request()
END2
    next=$!
    until_true 20 holds next.log ready || touch go.$who
    kill -CONT $pid
    wait $pid
    same "a follower whose run has ended meanwhile ($who)" $? $([ $who = q ] && echo 1 || echo 0)
    has "it shows the end" out.$who "run $no $([ $who = q ] && echo failed || echo succeeded)"
    wait $next
    same "one request was made" $? 0
done

# ---- status says who drives a run, and how that one fares
serve
"$flowrun" waits.yaml -p who=s=1 > out.s 2>&1 &
pid=$!
until_true 20 eval 'test "$(ran s=1)" = 1'
"$flowrun" status > status
check "its turns are counted" grep -Eq "^driven by flowrun \(pid $host\): (none|[0-9]+) of its [0-9]+ turns took over 100 ms" status
"$flowrun" status --json > status
check "as JSON, too" python3 -c '
import json, sys
host = json.load(open("status"))["host"]
assert host["pid"] == int(sys.argv[1]) and host["answers"] and host["turns"] > 0 and host["slow_turns"] >= 0, host' $host
kill -STOP $host
until_true 20 grep -q '^State:.*T' /proc/$host/status
"$flowrun" status > status 2> out
has "it does not answer" status "driven by flowrun (pid $host), which does not answer"
kill -CONT $host
touch go.s=1
wait $pid
same "it goes on, and its value has all of its signs" $? 0
rm -f go.f
"$flowrun" fails.yaml > out 2>&1
same "a run that fails over a host" $? 1
touch go.f
"$flowrun" retry "$(newest)" > out 2>&1
same "its retry over the host" $? 0
kill $host
wait $host 2> /dev/null

# ---- who may not share the home with its host; the lock says who that is
"$flowrun" waits.yaml -p who=c > out.c 2>&1 &
host=$!
until_true 20 eval 'test "$(ran c)" = 1'
no=$(newest)
set_lock() { # KEY VALUE: what the host says of itself
    python3 - "$FLOWRUN_HOME/host.lock" "$1" "$2" <<'END2'
import re, sys
with open(sys.argv[1], "r+b", buffering=0) as f:
    text = f.read()
    new = re.sub(rb"(?m)^%s .*$" % sys.argv[2].encode(), ("%s %s" % (sys.argv[2], sys.argv[3])).encode(), text, count=1)
    f.seek(0)
    f.write(new.rstrip(b"\n").ljust(len(text), b"\n"))
END2
}
refused() { # WHAT CODE TEXT
    "$flowrun" waits.yaml > refused 2>&1
    same "$1" $? "$2"
    has "$1: it says so" refused "$3"
    has "$1: and what to do" refused "set FLOWRUN_HOME to"
    "$flowrun" runs > out 2>&1
    same "$1: the runs can still be read" $? 0
}
cp "$FLOWRUN_HOME/host.lock" lock
schema=$(sed -n 's/^schema //p' lock)
set_lock schema $((schema - 1))
refused "an older host" 7 "(pid $host) is an older flowrun (schema $((schema - 1)), this one has $schema)"
set_lock schema $((schema + 1))
refused "a newer host" 7 "(pid $host) is a newer flowrun (schema $((schema + 1)), this one has $schema)"
cat lock 1<> "$FLOWRUN_HOME/host.lock"
set_lock boot 00000000-0000-0000-0000-000000000000
"$flowrun" api nodes > out 2>&1
same "one that has not said yet who it is, behind one of before a reboot" $? 0
cat lock 1<> "$FLOWRUN_HOME/host.lock"
set_lock uid 12345
refused "another user" 7 "(pid $host) belongs to another user"
cat lock 1<> "$FLOWRUN_HOME/host.lock"
space() { # WHAT TEXT COMMAND…: flowrun in namespaces of its own
    local what=$1 text=$2
    shift 2
    "$@" true 2> /dev/null || { echo "not here: $what"; return; }
    "$@" "$flowrun" waits.yaml > refused 2>&1
    same "$what" $? 7
    has "$what: it says which" refused "$text"
    has "$what: and what to do" refused "set FLOWRUN_HOME to a home of your own"
    "$@" "$flowrun" cancel $no > refused 2>&1
    same "$what: a cancel" $? 7
}
space "another network namespace" "has another network" unshare --net
space "another pid namespace" "sees other processes" unshare --pid --fork
space "a container's namespaces" "sees other folders" unshare --mount --net --pid --uts --ipc --fork
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    mkdir prog theirs
    cp "$flowrun" "$build/tasks/flownode" prog/
    chmod 755 "$work" prog
    chown 65534:65534 theirs
    touch ran && chmod 666 ran
    FLOWRUN_LIBEXEC=$work/prog FLOWRUN_HOME=$work/theirs HOME=$work/theirs setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$work/prog/flowrun" waits.yaml -p who=d > out.d 2>&1 &
    theirs=$!
    until_true 20 eval 'test "$(ran d)" = 1'
    FLOWRUN_HOME=$work/theirs "$flowrun" waits.yaml > refused 2>&1
    same "root at another user's home" $? 7
    has "it says whose" refused "the home $work/theirs belongs to uid 65534 (mode 0755), who could decide what runs for uid 0: set FLOWRUN_HOME to a folder of your own"
    setpriv --reuid=65534 --regid=65534 --clear-groups "$work/prog/flowrun" waits.yaml > refused 2>&1
    same "another user at root's home" $? 7
    has "it says why" refused "Permission denied"
    touch go.d
    wait $theirs
    same "that user's own run" $? 0
fi
check "the host lives" kill -0 $host
touch go.c
wait $host
same "and its run ends well" $? 0
same "none of the refused ran" "$(ran x)" 0

# ---- the disk is full when a follower takes over: it says so and leaves its run, whose tasks go on
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=6m tmpfs small 2> /dev/null; then
    trap 'umount -l "$work/small"; cleanup' EXIT
    export FLOWRUN_HOME=$work/small/home
    "$flowrun" waits.yaml -p who=g > out.g 2>&1 &
    host=$!
    until_true 20 eval 'test "$(ran g)" = 1'
    "$flowrun" waits.yaml -p who=h > out.h 2>&1 &
    pid=$!
    until_true 20 eval 'test "$(ran h)" = 1 && is 2 running'
    # what was written goes to the database, so that the next commit needs room
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)")' "$FLOWRUN_HOME/state.db"
    cat /dev/zero > small/fill 2> /dev/null
    kill -9 $host
    wait $host 2> /dev/null
    wait $pid
    same "a hand-over with a full disk" $? 7
    has "it says so" out.h "database or disk is full"
    has "and what to do" out.h "tasks go on; 'flowrun resume 2' takes over"
    rm small/fill
    touch go.g go.h
    for no in 1 2; do
        "$flowrun" resume $no > out 2>&1
        same "run $no goes on when there is room" $? 0
    done
    same "each ran once" "$(ran g) $(ran h)" "1 1"
fi
same "nothing is left running" "$(left)" ""
finish
