#!/bin/bash
# The main job by a schedule, two nights of it under 'flowrun serve', whose clock is moved from one to the next
# (by libfaketime): in the second one a node dies while it trains, and the run goes on by itself from its last
# checkpoint. Both nights publish a version. usage: nightly.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
[ -x "$build/trainer/cli/flowtrain" ] || skip "no flowtrain in this build"
mkdir src
cp -r "$repo/pipelines" "$repo/examples" src/

for lib in /usr/lib/*/faketime/libfaketimeMT.so.1; do [ -e "$lib" ] && moved=$lib; done
[ -n "${moved:-}" ] || skip "needs libfaketime"
january=$(($(date +%Y) + 1))-01
half_past_two() { TZ=Europe/Berlin date -d "$january-$1 02:30" +%s; } # DAY: each has it in January
set_clock() { # of the host: 5 s before half past two of that day
    echo "$(($(half_past_two "$1") - 5 - $(date +%s)))" > offset.new
    sed 's/^[0-9]/+&/' offset.new > offset
}
is() { "$flowrun" runs --json | grep -q "^{\"no\":$1,.*\"state\":\"$2\""; }
steps() { "$flowrun" logs "$1" train 2> /dev/null | grep -c "{'loss': "; }
trained() { [ "$(steps "$1")" -ge "$2" ]; }
head=$FLOWRUN_HOME/nodes/n1/work
published=$head/published
versions() { find "$published" -mindepth 1 -maxdepth 1 -type d ! -name '.*' | wc -l; }

# No task is tried again by itself: what fails is the run's own to repeat.
{
    echo "schedule: {name: nightly, cron: '30 2 * * *', zone: Europe/Berlin, params: {max_steps: 80, save_steps: 10}}"
    echo "rerun: {times: 1, after: 0s, on: [node_lost, lost, signal, exit]}"
    sed 's/^name: .*/name: nightly-lora/; s/^  retry: {times: 2,/  retry: {times: 0,/' src/pipelines/deepseek-lora.yaml
} > src/pipelines/nightly-lora.yaml
"$flowrun" validate src/pipelines/nightly-lora.yaml > out 2>&1
same "it is right" $? 0
has "in words" out "schedule nightly: every day at 02:30 in Europe/Berlin"

set_clock 10
LD_PRELOAD=$moved FAKETIME_TIMESTAMP_FILE=$work/offset FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 \
    "$flowrun" serve src/pipelines > served 2>&1 &
host=$!
until_true 150 is 1 succeeded
is 1 succeeded || finish # without it there is no second one
same "the first night publishes" "$(versions)" 1
first=$(readlink -f "$published/latest")

# ---- the second night, a day later: a node dies with all that it runs, behind its first checkpoint
set_clock 11
until_true 100 trained 2 12
kill -9 $(grep -slz -e "^FLOWRUN_NODE_HOME=$FLOWRUN_HOME/nodes/n2\$" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|') 2> /dev/null
until_true 200 is 2 succeeded
"$flowrun" runs --json > out
has "it ran again by itself" <(sed -n 1p out) '"reruns":1'
hasnt "the first one did not" <(sed -n 2p out) '"reruns":1'
"$flowrun" logs 2 train > log
has "from its last checkpoint" log "Continuing training from global step "
hasnt "not from its begin" log "Continuing training from global step 0"
same "the second night publishes, too" "$(versions)" 2
check "latest is the newer one" test "$(readlink -f "$published/latest")" != "$first"
"$flowrun" schedules nightly > out
has "what became of the nights" out "ran: run 1 succeeded"
has "of both" out "ran: run 2 succeeded"
kill -TERM $host
wait $host
same "it ends as a host does" $? 0
same "nothing is left running" "$(left)" ""
finish
