#!/bin/bash
# Training over SSH while one rank is killed: the gang stops, is tried again from the newest state, and
# its losses are those of an uninterrupted run, bit for bit.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

start train.yaml -p output_dir=rank
pid=$!
two_ranks() { test "$(ranks 2 | wc -l)" = 2; }
until_true 60 two_ranks
victim=$(ranks 2 | tail -1)
until_true 60 past rank 5
on 2 "kill -9 $victim"
until_true 15 eval 'test -z "$(trainers 1)$(trainers 3)" || holds out "(attempt 2)"'
until_true 60 holds out "train@node3 running (attempt 2)"
wait "$pid"
same "a killed rank" $? 0
has "who began it" out "train@node2 retrying"
has "the others" out "train@node1 retrying"
has "which rank" out "was killed by signal 9"
has "from the newest state" out "Continuing training from global step"
losses rank > rank.log
check "losses" diff whole.log rank.log
same "adapter" "$(adapter rank)" "$(adapter whole)"
for i in 1 2 3; do same "node$i started it twice" "$(starts $i)" 3; done
for i in 1 2 3; do same "nothing is left on node$i" "$(trainers $i)$(sidecars $i)" ""; done
finish
