#!/bin/bash
# Training over SSH while a whole node is killed: the run recovers on the node's return, from the newest
# state and with the losses of an uninterrupted run; without retries it fails, names node, task, reason
# and the next command, and that command finishes it.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

half node
start half.yaml -p output_dir=node
pid=$!
begun
"$cluster" crash "$work/c" 2
until_true 30 holds out "node2: unreachable"
release node
"$cluster" boot "$work/c" 2
until_true 90 holds out "train@node2 running (attempt 2)"
wait "$pid"
same "a crashed node" $? 0
has "what was lost" out "train@node2 retrying"
same "from the newest state" "$(grep -c "Continuing training from global step 8" out)" 2
losses node > node.log
check "losses" diff whole.log node.log
same "adapter" "$(adapter node)" "$(adapter whole)"

half once
sed 's/times: 2/times: 0/' half.yaml > once.yaml
start once.yaml -p output_dir=once
pid=$!
begun
"$cluster" crash "$work/c" 3
until_true 30 holds out "node3: unreachable"
release once
"$cluster" boot "$work/c" 3
wait "$pid"
same "a crashed node without retries" $? 1
check "node, task and reason" grep -Eq "run 3 failed: train@node3: .*the node was rebooted" out
check "what became of it" grep -Eq "^train +node3 +lost +1 " out
has "the next command" out "flowrun retry 3"
"$flowrun" retry 3 > out 2>&1
same "that command" $? 0
has "from the newest state" out "Continuing training from global step"
losses once > once.log
check "losses" diff whole.log once.log
for i in 1 2 3; do same "nothing is left on node$i" "$(trainers $i)$(sidecars $i)" ""; done
finish
