#!/bin/bash
# A node's link is down for 20 s in the middle of training, the ranks' own traffic with it: the same
# attempt goes on, and its losses are those of an uninterrupted run.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

half cut
start half.yaml -p output_dir=cut
pid=$!
begun
"$flowrun" attach --verbose > att 2>&1 &
att=$!
cut_for_20s cut
wait "$pid"
same "the run" $? 0
wait "$att"
same "attach" $? 0
same "attach shows what the owner does" "$(diff <(told out) <(told att) | head -20)" ""
has "also that the node is away" att "train@node2 running, its node is unreachable"
losses cut > cut.log
check "losses" diff whole.log cut.log
same "adapter" "$(adapter cut)" "$(adapter whole)"
for i in 1 2 3; do same "node$i started it once" "$(starts $i)" 2; done
same "attempts" "$("$flowrun" status 2 | awk '/^train@node/ && $2 != "gave" {print $3}' | tr '\n' ' ')" "1 1 1 "
finish
