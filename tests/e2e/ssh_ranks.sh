#!/bin/bash
# Training over SSH while one rank is killed: the gang stops, is tried again from the newest state, and
# its losses are those of an uninterrupted run, bit for bit.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

half rank
start half.yaml -p output_dir=rank
pid=$!
two_ranks() { test "$(ranks 2 | wc -l)" = 2; }
until_true 60 two_ranks
victim=$(ranks 2 | tail -1)
begun
on 2 "kill -9 $victim"
release rank
until_true 30 eval 'test -z "$(trainers 1)$(trainers 3)" || holds out "(attempt 2)"'
until_true 60 holds out "train@node3 running (attempt 2)"
wait "$pid"
same "a killed rank" $? 0
has "who began it" out "train@node2 retrying"
has "the others" out "train@node1 retrying"
has "which rank" out "was killed by signal 9"
same "from the newest state" "$(grep -c "Continuing training from global step 8" out)" 2
losses rank > rank.log
check "losses" diff whole.log rank.log
same "adapter" "$(adapter rank)" "$(adapter whole)"
for i in 1 2 3; do same "node$i started it twice" "$(starts $i)" 3; done
for i in 1 2 3; do same "nothing is left on node$i" "$(trainers $i)$(sidecars $i)" ""; done
finish
