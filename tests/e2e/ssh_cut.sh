#!/bin/bash
# A node's link is down for 20 s in the middle of training, the ranks' own traffic with it: the same
# attempt goes on, and its losses are those of an uninterrupted run.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
undisturbed

start train.yaml -p output_dir=cut
pid=$!
until_true 60 past cut 3
"$cluster" cut "$work/c" 2
end=$((SECONDS + 20))
until_true 30 holds out "node2: unreachable"
while [ "$SECONDS" -lt "$end" ]; do read -r -t 0.2 <> <(:); done # how long it is down
before=$(steps cut)
check "training waits" test "$before" -lt 12
"$cluster" join "$work/c" 2
wait "$pid"
same "the run" $? 0
has "a silent rank was reported" out "has been silent for"
losses cut > cut.log
check "losses" diff whole.log cut.log
same "adapter" "$(adapter cut)" "$(adapter whole)"
for i in 1 2 3; do same "node$i started it once" "$(starts $i)" 2; done
same "attempts" "$("$flowrun" status 2 | awk '/^train@node/ && $2 != "gave" {print $3}' | tr '\n' ' ')" "1 1 1 "
finish
