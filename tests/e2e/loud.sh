#!/bin/bash
# Tasks that write far more than others: 50 quiet ones beside a flood lose nothing and end before it
# does, a large log and a line without an end are kept whole in little memory and once on the disk, a
# log ends at its limit, a stop goes past what is waiting. LOUD_FULL=1: a log of 5 GB, a line of 1 GB.
. "$(dirname "$0")/lib.sh"
begin "$1"
if [ -n "${LOUD_FULL:-}" ]; then
    flood_max=6GB log_bytes=5000000000 line_bytes=1000000000 lines=20 wait=3000
else
    flood_max=100MB log_bytes=60000000 line_bytes=60000000 lines=3 wait=150
fi
peak_max=100000 # kB of one of our processes; a line that is gathered would need a million

# Peak memory of our processes at this moment of the run; $pid is flowrun's.
look_at_memory() {
    local p exe pss=0 k
    for p in $pid $(marked); do
        exe=$(readlink "/proc/$p/exe") || continue
        case $exe in
        */flownode | */flowrun)
            peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$p/status")
            k=$(sed -n 's/^Pss:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$p/smaps_rollup" 2> /dev/null)
            pss=$((pss + ${k:-0}))
            check "$1: bounded memory of $p: $peak kB" test "${peak:-999999}" -lt $peak_max ;;
        esac
    done
    echo "$1: PSS of flowrun $(sed -n 's/^Pss:[^0-9]*//p' "/proc/$pid/smaps_rollup" 2> /dev/null), of it and all its flownodes $pss kB"
}

# The flood ends when all quiet ones have: were they to wait for it, neither would.
{
    echo 'nodes: [{name: n1, executor: local, slots: 100}]'
    echo 'max_parallel: 100'
    echo 'env: {W: "${{ env.W }}"}'
    echo 'tasks:'
    echo '  flood: {log: {max: '$flood_max'}, run: "yes a line of thirty bytes or so & y=$!; until test -e $W/calm; do sleep 0.02; done; kill $y; wait $y || :; echo; echo the end"}'
    for i in $(seq 50); do
        echo "  q$i: {run: 'for k in \$(seq $lines); do echo quiet $i \$k; sleep 0.3; done'}"
    done
    echo "  calm: {needs: [$(seq -s ', ' -f 'q%g' 50)], run: 'touch \$W/looked; until test -e \$W/seen; do sleep 0.02; done; touch \$W/calm'}"
} > calm.yaml
from=$(date +%s%3N)
"$flowrun" calm.yaml --quiet > out 2>&1 &
pid=$!
until_true "$wait" test -e looked
ms=$(($(date +%s%3N) - from))
flood=$(echo "$FLOWRUN_HOME"/runs/*/flood@n1.1.log)
echo "50 quiet tasks of $lines lines beside a flood: $ms ms, $(($(stat -c %s "$flood") / 1000 / (ms + 1))) MB/s of it came"
(ulimit -v 300000; exec "$flowrun" logs -f) 2> follow.err | grep -a '^q[0-9]*@' > followed &
follow=$!
look_at_memory "flood"
touch seen
wait "$pid"
same "the run" $? 0
wait "$follow"
same "logs -f says nothing else" "$(cat follow.err)" ""
run=$(dirname "$flood")
whole=0
for i in $(seq 50); do
    if [ "$(cat "$run/q$i@n1.1.log")" = "$(seq -f "quiet $i %g" "$lines")" ]; then whole=$((whole + 1)); fi
done
same "quiet tasks whose output is whole" "$whole" 50
same "and shown by logs -f" "$(sort followed | md5sum)" \
    "$(for i in $(seq 50); do seq -f "q$i@n1 | quiet $i %g" "$lines"; done | sort | md5sum)"
check "the flood is a prefix of what it wrote" cmp -s <(head -c 1000000 "$flood") <(yes a line of thirty bytes or so | head -c 1000000)
same "to its end" "$(tail -n 1 "$flood")" "the end"
same "status says the same" "$("$flowrun" status | grep -c "^[a-z0-9]*@n1 *succeeded")" 52

# A large log, a line without an end, and a log with a limit.
cat > large.yaml <<YAML
nodes: [{name: n1, executor: local}]
env: {W: "\${{ env.W }}"}
tasks:
  large: {log: {max: 6GB}, run: "yes 0123456789012345678901234567890123456789012345678 | head -c $log_bytes"}
  line: {log: {max: 0}, run: "head -c $line_bytes /dev/zero | tr '\\\\0' x; echo; echo the end"}
  short: {log: {max: 1MiB}, run: "head -c $line_bytes /dev/zero; echo; echo the end"}
  stop: {log: {max: 1MiB, on_full: stop}, run: "echo first; head -c $line_bytes /dev/zero"}
  last: {needs: [large, line, short, stop], run: "touch \$W/waits; until test -e \$W/measured; do sleep 0.05; done"}
YAML
rm -rf "$FLOWRUN_HOME"
from=$(date +%s%3N)
"$flowrun" large.yaml --quiet > out 2>&1 &
pid=$!
until_true "$wait" test -e waits
echo "a log of $log_bytes bytes and three lines of $line_bytes: $(($(date +%s%3N) - from)) ms"
look_at_memory "large"
touch measured
wait "$pid"
same "the run" $? 0
run=$(echo "$FLOWRUN_HOME"/runs/*/)
check "the large log is whole" cmp -s "$run/large@n1.1.log" <(yes 0123456789012345678901234567890123456789012345678 | head -c "$log_bytes")
check "the line is whole" cmp -s "$run/line@n1.1.log" <(head -c "$line_bytes" /dev/zero | tr '\0' x; echo; echo the end)
size=$(stat -c %s "$run/short@n1.1.log")
check "a log ends at its limit: $size" test "$size" -ge 1048576 -a "$size" -lt 1060000
same "with its last line" "$(tail -n 1 "$run/short@n1.1.log")" "the end"
check "and the count of what was dropped" grep -qa "flowrun: $((line_bytes + 9 - 1048576)) bytes dropped" "$run/short@n1.1.log"
same "one that stops has its first bytes" "$(head -n 1 "$run/stop@n1.1.log")" first
has "and says so" "$run/stop@n1.1.log" "flowrun: $((line_bytes + 6 - 1048576)) bytes dropped"
"$flowrun" status > status
has "as does status" status "bytes of its output were dropped"
kept=$(du -s --block-size=1 "$FLOWRUN_HOME" | cut -f1)
check "all of it lies once on the disk: $kept" test "$kept" -lt $((log_bytes + line_bytes + 30000000))
(ulimit -v 100000; "$flowrun" logs 1 line > line.logs 2>&1)
same "logs shows the line in little memory" $? 0
same "all of it" "$(tr -cd x < line.logs | wc -c)" "$line_bytes"
check "in pieces" test "$(grep -c '^line@n1 | ' line.logs)" -gt 900
rm line.logs
same "a reader that leaves ends it" "$( (ulimit -v 100000; "$flowrun" logs 1 large 2> left) | head -n 1)" "large@n1 | 0123456789012345678901234567890123456789012345678"
same "and is no error" "$(cat left)" ""

# It writes as fast as it can; a stop goes past what is waiting.
cat > flood.yaml <<'YAML'
tasks:
  flood: {run: "exec yes", log: {max: 1GB}}
YAML
rm -rf "$FLOWRUN_HOME"
start flood.yaml --quiet
pid=$!
grown() { test "$(cat "$FLOWRUN_HOME"/runs/*/flood@local.1.log | wc -c)" -gt 3000000; }
until_true 60 grown
from=$(date +%s%3N)
"$flowrun" cancel > cancelled 2>&1
same "cancel" $? 0
echo "cancelled beside the flood: $(($(date +%s%3N) - from)) ms"
wait "$pid"
same "the run is cancelled" $? 3
log=$(echo "$FLOWRUN_HOME"/runs/*/flood@local.1.log)
check "the copy is a prefix" cmp -s "$log" <(yes | head -c "$(stat -c %s "$log")")
same "nothing is left running" "$(left)" ""

# More logs than files that may be open.
{ echo tasks:; for i in $(seq 120); do echo "  t$i: {run: 'echo $i'}"; done; } > many.yaml
rm -rf "$FLOWRUN_HOME"
"$flowrun" many.yaml --quiet > out 2>&1
same "many tasks" $? 0
same "all of whose logs are shown" "$(ulimit -n 40; "$flowrun" logs | wc -l)" 120
finish
