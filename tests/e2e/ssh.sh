#!/bin/bash
# Three nodes behind real sshds, each with a root of its own: flowrun is shipped there, killed, cut off,
# and finds its tasks again. See cluster.sh for what is needed.
. "$(dirname "$0")/lib.sh"
begin "$1"
cluster=$repo/tests/e2e/cluster.sh
export CLUSTER_HIDE=$build:$work
"$cluster" up "$work/c" 3 || { rc=$?; [ $rc = 77 ] && skip "no cluster in this machine"; exit $rc; }
trap '"$cluster" down "$work/c"; cleanup' EXIT
cp -r "$repo/examples" .

# On node $1, does the shell command $2 hold?
on() { "$cluster" exec "$work/c" "$1" sh -c "$2"; }

"$flowrun" nodes --check c/nodes.yaml > out 2>&1
same "all nodes answer" $? 0
"$flowrun" examples/hello.yaml --nodes c/nodes.yaml > out 2>&1
same "hello over SSH" $? 0
has "a node's output" out "greet@node3 | Hello, world, from node3"
has "by which way" out "node1: connected (libssh2)"

{
    echo "name: far"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  files:
    on: all
    files: {given/note.txt: note.txt}
    outputs: [host]
    run: |
      cat given/note.txt
      echo "host=$(hostname)" >> "$FLOWRUN_OUTPUT"
  gang:
    needs: [files]
    on: all
    gang: true
    env: {HERE: "${{ tasks.files.outputs.host }}"}
    run: |
      echo ran >> /var/ran
      echo "rank $NODE_RANK of $NNODES on $HERE, rendezvous $MASTER_ADDR:$MASTER_PORT"
      until test -e /var/free; do sleep 0.1; done
      echo "rank $NODE_RANK ends"
END
} > far.yaml
echo "a note from control" > note.txt

{
    echo "name: two"
    cat c/nodes.yaml
    for pair in left:right right:left; do
        echo "  ${pair%:*}: {on: all, gang: true, run: 'touch /var/${pair%:*}; until test -e /var/${pair#*:}; do sleep 0.05; done'}"
    done | sed '1i tasks:'
} > two.yaml
"$flowrun" two.yaml > out 2>&1
same "two gangs at once, one head" $? 0

# A node that writes errors without end keeps no other waiting; and one that names a file of control
# in an output does not get it.
on 2 'echo "yes the flood >&2 & disown" > /root/.bashrc'
echo "canary of control" > canary
{
    cat c/nodes.yaml
    cat <<'END'
env: {W: "${{ env.W }}"}
tasks:
  ask: {on: node1, outputs: [path], run: 'echo "path=$W/canary" > "$FLOWRUN_OUTPUT"'}
  take: {on: node1, needs: [ask], files: {f: "${{ tasks.ask.outputs.path }}"}, run: "cat f"}
  own: {on: node1, needs: [ask], files: {f: "node:/etc/hostname"}, run: "cat f"}
  loud: {on: node2, run: "echo heard"}
END
} > ask.yaml
"$flowrun" ask.yaml > out 2>&1
same "a file of control, named by a node" $? 1
has "is refused" out "take@node1 failed: '$work/canary' comes from node node1, which may not name files of this machine"
hasnt "and not shipped" out "canary of control"
has "a file of the node's own may be named" out "own@node1 succeeded"
has "a node that floods stderr" out "loud@node2 succeeded"
on 2 'rm /root/.bashrc; pkill -x yes'

start far.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "rank $((i - 1)) of 3 on node$i, rendezvous"; done
has "a shipped file" out "files@node2 | a note from control"
check "the head's address and the fixed port" grep -Eq 'rendezvous 10\.77\.[0-9]+\.11:39500' out
kill -9 "$pid"
wait "$pid" 2>/dev/null
"$cluster" cut "$work/c" 2
start resume
pid=$!
until_true 30 holds out "node1: connected"
until_true 30 holds out "node2: unreachable"
"$cluster" join "$work/c" 2
until_true 60 holds out "node2: connected"
for i in 1 2 3; do on $i 'touch /var/free'; done
wait "$pid"
same "resumed over SSH" $? 0
has "output that was missed" out "gang@node2 | rank 1 ends"
for i in 1 2 3; do same "node$i ran it once" "$(on $i 'cat /var/ran')" ran; on $i 'rm /var/ran /var/free'; done

start far.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "rank $((i - 1)) of 3 on node$i, rendezvous"; done
"$cluster" cut "$work/c" 3
until_true 30 holds out "gang@node3 running, its node is unreachable"
for i in 1 2 3; do on $i 'touch /var/free'; done
ended3() { [ -z "$(on 3 'pgrep -f "[u]ntil test -e /var/free"')" ]; }
until_true 30 ended3
ended=$(date +%s%3N)
"$cluster" join "$work/c" 3
wait "$pid"
same "a cut link changes nothing" $? 0
"$flowrun" status --json > status
same "it ended when it did, not when that was known" "$(python3 -c '
import json, sys
run = json.load(open("status"))
print(max(t["ended_wall"] for t in run["tasks"] + [run]) <= int(sys.argv[1]), run["state"])
' "$ended")" "True succeeded"
for i in 1 2 3; do same "node$i ran it once" "$(on $i 'cat /var/ran')" ran; on $i 'rm /var/ran /var/free'; done

sed 's/    gang: true/    gang: true\n    retry: {times: 1, delay: 10ms}/' far.yaml > again.yaml
start again.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "rank $((i - 1)) of 3 on node$i, rendezvous"; done
"$cluster" crash "$work/c" 2
until_true 30 holds out "gang@node2 running, its node is unreachable"
"$cluster" boot "$work/c" 2
until_true 90 holds out "gang@node2 running (attempt 2)"
until_true 30 holds out "gang@node1 running (attempt 2)"
for i in 1 2 3; do on $i 'touch /var/free'; done
wait "$pid"
same "a crashed node's return" $? 0
has "what was lost is named" out "gang@node2 retrying"
same "the others ran twice" "$(on 1 'cat /var/ran' | tr '\n' ' ')" "ran ran "
for i in 1 2 3; do on $i 'rm -f /var/ran /var/free'; done

# a node that does not come back is given up by the user
start far.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "rank $((i - 1)) of 3 on node$i, rendezvous"; done
"$cluster" crash "$work/c" 3
until_true 30 holds out "node3: unreachable"
has "it says that it waits" out "its tasks are waited for"
kill -9 "$pid"
wait "$pid" 2>/dev/null
"$flowrun" resume --abandon node3 > out 2>&1
same "a node given up" $? 1
has "the cause" out "gang@node3 lost: its node is given up"
has "the next command" out "'flowrun retry"
for i in 1 2; do same "node$i has stopped" "$(on $i 'pgrep -f "[u]ntil test -e /var/free"')" ""; on $i 'rm -f /var/ran'; done
"$cluster" boot "$work/c" 3
on 3 'rm -f /var/ran'

# lost_after: the node stops the task when its lease ends, and only then another attempt starts
{
    echo "name: lease"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  t:
    on: [node2]
    lost_after: 3s
    retry: {times: 1, delay: 10ms}
    run: |
      echo ran >> /var/ran
      echo here
      until test -e /var/free; do sleep 0.1; done
END
} > lease.yaml
start lease.yaml
pid=$!
until_true 30 holds out "t@node2 | here"
"$cluster" cut "$work/c" 2
until_true 30 eval 'test -z "$(on 2 "pgrep -f [u]ntil.test")"'
until_true 40 holds out "t@node2 retrying"
"$cluster" join "$work/c" 2
until_true 60 holds out "t@node2 running (attempt 2)"
on 2 'touch /var/free'
wait "$pid"
same "a lease that ended" $? 0
same "one attempt after the other" "$(on 2 'cat /var/ran' | tr '\n' ' ')" "ran ran "

# an RSA key and a jump host: what libssh2 cannot do goes through the system's ssh
if command -v ssh > /dev/null; then
    {
        echo "name: jump"
        echo "nodes: [{name: far, address: node2, ssh_config: $work/c/ssh_config}]"
        echo "tasks: {t: {run: hostname}}"
    } > jump.yaml
    "$flowrun" jump.yaml > out 2>&1
    same "openssh with a jump host" $? 0
    has "the far host" out "t@far | node2"
    has "by which way" out "connected (openssh)"
fi

# wrong host key, refused login
sed "s|ssh-ed25519 [^ ]*|ssh-ed25519 $(cut -d' ' -f2 c/id.pub)|" c/known_hosts > wrong_hosts
sed "s|known_hosts: [^}]*|known_hosts: $work/wrong_hosts|" c/nodes.yaml > wrong_key.yaml
"$flowrun" examples/hello.yaml --nodes wrong_key.yaml > out 2>&1
same "a wrong host key" $? 6
has "is named" out "host key"
ssh-keygen -q -t ed25519 -N '' -f other
sed "s|key: [^,]*|key: $work/other|" c/nodes.yaml > wrong_login.yaml
SSH_AUTH_SOCK= "$flowrun" examples/hello.yaml --nodes wrong_login.yaml > out 2>&1
same "a refused login" $? 6
has "is named" out "pick@node1 failed"
finish
