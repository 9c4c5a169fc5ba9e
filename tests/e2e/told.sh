#!/bin/bash
# What is told of a training or a node is told once: not again by the next host, nor where a run goes on
# with another file; and what a host died over is told by the next one.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v ssh > /dev/null || skip "needs ssh"

# A port of this machine that nobody listens on while its number is held.
exec {hold}< <(exec python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True); time.sleep(600)')
holder=$!
trap 'kill $holder 2>/dev/null; cleanup' EXIT
read -r -u "$hold" port
mkdir home
cat > home/config.yaml <<'END'
limits: {stalled: 1s}
channels: {file: {kind: command, command: [sh, -c, 'cat >> $W/got; echo >> $W/got']}}
notify: {on: [stalled, not_finite, node_unreachable], to: file}
END
pipeline() {
    cat <<END
name: s
env: {W: "\${{ env.W }}"}
nodes:
  - {name: n1, executor: local}
  - {name: n2, executor: ssh, address: 127.0.0.1, port: $port, connect: {retry_for: 10m}}
tasks:
$1
  fit:
    on: n1
    metrics: m
    run: |
      printf '%s\n' '{"step":1,"loss":2}' '{"step":2,"loss":null}' >> m
      until [ -e \$W/more ]; do sleep 0.05; done
      echo '{"step":3,"loss":2}' >> m
      until [ -e \$W/over ]; do sleep 0.05; done
  next:
    on: n1
    metrics: n
    run: |
      until [ -e \$W/next ]; do sleep 0.05; done
      echo '{"step":1,"loss":2}' >> n
      until [ -e \$W/over ]; do sleep 0.05; done
  there: {on: n2, run: "true"}
END
}
# of KIND SUBJECT: how often it was told
of() { grep -F "\"type\":\"$1\"" got | grep -cF "\"subject\":\"$2\""; }
is_told() { [ "$(of "$1" "$2")" -ge 1 ]; }
# A message that a killed host handed over without writing that down is handed over again.
all_sent() {
    [ "$(python3 -c 'import sqlite3
print(sqlite3.connect("home/state.db").execute("SELECT count(*) FROM delivery WHERE state != \"sent\"").fetchone()[0])')" = 0 ]
}

pipeline "" > s.yaml
start s.yaml
pid=$!
until_true 60 is_told node.unreachable n2
until_true 60 is_told task.not_finite fit@n1
until_true 60 is_told task.stalled fit@n1
until_true 60 all_sent
kill -9 "$pid"
wait "$pid" 2> /dev/null
pipeline '  first: {on: n1, run: "true"}' > s.yaml # all numbers of instances are others
start resume 1 --file s.yaml
pid=$!
until_true 60 holds out "unreachable: "
touch next
until_true 60 is_told task.stalled next@n1
same "a node that is not there" "$(of node.unreachable n2)" 1
same "a training that stalls" "$(of task.stalled fit@n1)" 1
same "and whose loss is no number" "$(of task.not_finite fit@n1)" 1
touch more
until_true 60 holds out "fit@n1: goes on, at step 3"
has "the file was taken" out "first is new"
touch over
until_true 60 holds out "next@n1 succeeded"
kill -9 "$pid"
wait "$pid" 2> /dev/null
"$flowrun" cancel 1 > cancelled 2>&1
kill "$holder"
same "nothing is left running" "$(left)" ""
finish
