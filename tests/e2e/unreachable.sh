#!/bin/bash
# A node that is not there: its tasks wait connect.retry_for, then end as unreachable, by name; retry.on
# may list that; a node that comes in time is used; what runs on others goes on meanwhile.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v ssh > /dev/null || skip "needs ssh"

# A port of this machine that nobody listens on while its number is held.
exec {hold}< <(exec python3 -c '
import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True); time.sleep(600)')
holder=$!
read -r -u "$hold" port

nodes() {
    cat <<END
nodes:
  - {name: n1, executor: local}
  - {name: n2, executor: ssh, address: 127.0.0.1, port: $port, connect: {retry_for: $1}}
END
}

{
    nodes 1s
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  here: {on: n1, run: "until test -e $W/go; do sleep 0.05; done; echo done"}
  there: {on: n2, run: "echo never", retry: {times: 2, delay: 10ms, on: [unreachable]}}
  once: {on: n2, run: "echo never", retry: {times: 2, delay: 10ms, on: [exit]}}
  pair: {on: all, gang: true, run: "echo never"}
  after: {needs: [there], run: "echo never"}
END
} > p.yaml
start p.yaml
pid=$!
until_true 60 holds out "there@n2 failed"
touch go
wait "$pid"
same "exit code" $? 6
has "how long it is waited for" out "a task that is to start there waits 1.0s for it (connect.retry_for)"
for t in there@n2 once@n2 pair@n1 pair@n2; do
    has "$t: why" out "$t failed: node n2 was not there for 1.0s (connect.retry_for): "
done
same "retried as it says" "$(grep -c "there@n2 retrying" out)" 2
hasnt "retried only on what it says" out "once@n2 retrying"
has "what runs elsewhere goes on" out "here@n1 succeeded"
has "what needs it" out "after@n1 upstream_failed"
"$flowrun" status --json > status.json
check "the cause in status --json" python3 -c '
import json
once = [t for t in json.load(open("status.json"))["tasks"] if t["task"] == "once"][0]
assert (once["cause"], once["attempts"], once["state"]) == ("unreachable", 0, "failed"), once
'

"$flowrun" attach 1 --verbose > late 2>&1
same "attach has the owner's code" $? 6
same "and its lines" "$(diff <(told out) <(told late))" ""

# never: it is waited for until it is given up.
nodes never > q.yaml
echo 'tasks: {there: {on: n2, run: "echo never"}}' >> q.yaml
start q.yaml
pid=$!
until_true 30 holds out "n2: unreachable"
hasnt "no limit is named" out "connect.retry_for"
kill -INT "$pid"
wait "$pid"
same "never: cancelled" $? 3
kill "$holder" 2> /dev/null
same "nothing is left running" "$(left)" ""
finish
