#!/bin/bash
# A start that fails while files are shipped is tried again as retry.on says: a disk that is full
# gets room, a file that is not there stays away and is not asked for again.
. "$(dirname "$0")/lib.sh"
begin "$1"
small=$FLOWRUN_HOME/nodes/n1 # the home of node n1
mkdir -p "$small"
mount -t tmpfs -o size=2m,mode=700 none "$small" 2> /dev/null || skip "needs to mount a tmpfs"
trap 'umount "$small"; cleanup' EXIT

head -c 4000000 /dev/zero > data
cat > p.yaml <<'END_OF_YAML'
nodes:
  - {name: n1, executor: local}
  - {name: n2, executor: local}
env: {W: "${{ env.W }}"}
tasks:
  ships:
    on: n1
    files: {data: "${{ env.W }}/data"}
    retry: {times: 1000, delay: 100ms, backoff: 1, on: [start_failed]}
    run: "wc -c < data"
  removes: {on: n2, run: "rm $W/gone"}
  gone: {on: n2, needs: [removes], files: {x: "${{ env.W }}/gone"}, retry: {times: 3, delay: 10ms}, run: "echo never"}
END_OF_YAML
cp data gone
start p.yaml
pid=$!
until_true 30 holds out "ships@n1 retrying"
mount -o remount,size=64m "$small"
wait "$pid"
same "exit code" $? 1
has "the reason" out "No space left on device"
has "it starts once there is room" out "ships@n1 succeeded"
has "all of the file came" out "ships@n1 | 4000000"
has "a file that is not there" out "gone@n2 failed: $work/gone"
hasnt "is not asked for again" out "gone@n2 retrying"
same "nothing is left running" "$(left)" ""
finish
