#!/bin/bash
# Nodes that are lost: one comes back with an empty disk, and its task starts again there; one does not
# come back, a cancel waits for it and says so, and from another shell the node is given up. Then a node
# whose name nobody can resolve for a while, 200 ms away.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
{
    echo "name: lost"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  hold:
    on: all
    retry: {times: 1, delay: 100ms, on: [lost]}
    run: |
      echo "$FLOWRUN_ATTEMPT" >> /var/ran
      echo here
      until test -e /var/free; do sleep 0.05; done
END
} > lost.yaml

# One line a node, in the order of the attempts.
attempts() { "$flowrun" status "$1" | awk '/^hold@/ {print $1, $2, $3}' | tr '\n' ';'; }

start lost.yaml
pid=$!
for i in 1 2 3; do until_true 60 holds out "hold@node$i | here"; done
"$cluster" crash "$work/c" 2
"$cluster" crash "$work/c" 3
until_true 60 holds out "node2: unreachable"
until_true 60 holds out "node3: unreachable"
for d in home disk/upper; do rm -rf "c/node2/$d"; mkdir "c/node2/$d"; done
"$cluster" boot "$work/c" 2
until_true 90 holds out "hold@node2 running (attempt 2)"
same "its disk is new" "$(on 2 'wc -l < /var/ran')" 1
on 1 'touch /var/free'
on 2 'touch /var/free'
until_true 60 holds out "hold@node2 succeeded"
(cd / && exec "$flowrun" cancel 1) > cancel 2>&1 &
cancel=$!
until_true 60 holds cancel "hold on node3 is unreachable"
has "it names the next command" cancel "'flowrun resume 1 --abandon node3'"
"$flowrun" resume 1 --abandon node3 > abandon 2>&1
same "given up from another shell" $? 0
wait "$cancel"
same "cancel comes back" $? 0
wait "$pid"
same "the run" $? 3
same "attempts" "$(attempts 1)" "hold@node1 succeeded 1;hold@node2 succeeded 2;hold@node3 lost 1;"

# far.example is node1, 200 ms away and back, once somebody knows its address.
addr=$(sed -n 's/.*name: node1, address: \([0-9.]*\),.*/\1/p' c/nodes.yaml)
port=$((20000 + RANDOM % 10000))
sed -n "s/^$addr /[far.example]:$port /p" c/known_hosts > far_hosts
known() { printf '127.0.0.1 localhost\n%s\n' "$1" > names; }
slow() { python3 "$repo/tests/e2e/slow_link.py" "$port" "$addr" 22 100 0 & slow=$!; }
{
    echo "name: far"
    echo "nodes: [{name: far, address: far.example, port: $port, user: root, key: $work/c/id, known_hosts: $work/far_hosts}]"
    echo 'tasks: {t: {run: "echo ran >> /var/far; echo here; until test -e /var/free2; do sleep 0.05; done"}}'
} > far.yaml
known ""
: > resolv
unshare --mount bash -c 'mount --bind names /etc/hosts && mount --bind resolv /etc/resolv.conf && exec "$@"' \
    - "$flowrun" far.yaml > out 2>&1 &
pid=$!
until_true 60 holds out "cannot find host 'far.example'"
slow
known "127.0.0.1 far.example"
until_true 60 holds out "t@far | here"
known ""
kill "$slow"
wait "$slow" 2> /dev/null
until_true 60 holds out "t@far running, its node is unreachable"
slow
known "127.0.0.1 far.example"
on 1 'touch /var/free2'
wait "$pid"
same "the run far away" $? 0
same "it ran once" "$(on 1 'wc -l < /var/far')" 1
kill "$slow"
wait "$slow" 2> /dev/null
finish
