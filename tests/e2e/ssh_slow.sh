#!/bin/bash
# At 1 Mbit/s that one task floods, another is stopped: a gang's member on node2 ends, and that on node1
# is stopped; then all is cancelled. No time decides: of what the flood had written before the stop, not
# all has come when the stop is proven, so both went ahead of it. SSH_LINKS_LONG=1: also a log that is
# still coming when its run is over.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
command -v tc > /dev/null || skip "needs tc"

{
    echo "name: slow"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  flood: {on: node1, log: {max: 1GB}, run: "exec yes 0123456789012345678901234567890123456789"}
  pair:
    on: [node1, node2]
    gang: true
    grace: 1s
    run: |
      trap '' TERM
      echo here
      until test -e /var/fail; do sleep 0.05; done
      exit 1
END
} > slow.yaml
. c/cluster.env
tc qdisc add dev "fv${tag}1" root tbf rate 1mbit burst 4kb latency 300ms 2> tc.err &&
    on 1 'tc qdisc add dev eth0 root tbf rate 1mbit burst 4kb latency 300ms' 2>> tc.err ||
    skip "no link is made slow here: $(tail -1 tc.err)"
start slow.yaml
pid=$!
pair() { on "$1" 'pgrep -f "[v]ar/fail" || :'; }
until_true 60 eval 'test -n "$(pair 1)" -a -n "$(pair 2)"'
until_true 60 eval 'test "$(cat home/runs/*/flood@node1.1.log | wc -c)" -gt 200000'
here() { cat home/runs/*/flood@node1.1.log | wc -c; }
there() { on 1 'cat /root/.local/state/flowrun/*-node1/log/* | wc -c'; }
written=$(there)
from=$(date +%s%3N)
on 2 'touch /var/fail'
until_true 60 holds out "pair@node1 failed: another member of its gang ended"
got=$(here)
echo "stopped beside the flood: $(($(date +%s%3N) - from)) ms, 1000 of them its grace; $got of $written bytes were here"
same "it is stopped" "$(pair 1)" ""
check "its end went ahead of what had been written before" test "$got" -lt "$written"
from=$(date +%s%3N)
"$flowrun" cancel > cancel 2>&1
same "cancel" $? 0
check "so did the end of the flood itself" test "$(here)" -lt "$written"
echo "cancelled: $(($(date +%s%3N) - from)) ms"
has "what it found" cancel "run 1 is cancelled: 1 task stopped, no process of them is left"
same "what is left" "$(on 1 'pgrep -x yes || :')" ""
wait "$pid"
same "the run is cancelled" $? 3

if [ -n "${SSH_LINKS_LONG:-}" ]; then
    { cat c/nodes.yaml; echo 'tasks: {tail: {on: node1, run: "seq 400000; echo the end"}}'; } > tail.yaml
    from=$(date +%s%3N)
    "$flowrun" tail.yaml --quiet > out 2>&1
    same "a run whose log comes behind it" $? 0
    echo "2.7 MB at 1 Mbit/s: $(($(date +%s%3N) - from)) ms"
    check "the log is whole" cmp -s home/runs/*/tail@node1.1.log <(seq 400000; echo "the end")
fi
finish
