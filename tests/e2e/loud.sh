#!/bin/bash
# A task that writes a line of 1 GB beside 50 quiet ones, and one that never stops writing: the quiet
# ones' output is whole, memory is bounded, logs end at their limit, and a stop arrives.
. "$(dirname "$0")/lib.sh"
begin "$1"

{
    echo 'nodes: [{name: n1, executor: local, slots: 100}]'
    echo 'max_parallel: 100'
    echo 'env: {W: "${{ env.W }}"}'
    echo 'tasks:'
    echo '  loud: {log: {max: 1MiB}, run: "head -c 1000000000 /dev/zero; echo; echo the end"}'
    echo '  last: {needs: [loud], run: "touch $W/waits; until test -e $W/looked; do sleep 0.05; done"}'
    for i in $(seq 50); do echo "  q$i: {run: 'echo quiet $i; echo and $i'}"; done
} > p.yaml
"$flowrun" p.yaml --quiet > out 2>&1 &
pid=$!
until_true 120 test -e waits
# kB at most, at any time so far; a line that is gathered would need a million
for p in $pid $(marked); do
    case $(readlink "/proc/$p/exe") in
    */flownode | */flowrun)
        peak=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$p/status")
        check "bounded memory of $p: $peak kB" test "${peak:-999999}" -lt 100000 ;;
    esac
done
touch looked
wait "$pid"
same "the run" $? 0
run=$(echo "$FLOWRUN_HOME"/runs/*/)
whole=0
for i in $(seq 50); do
    if [ "$(cat "$run"/q"$i"@n1.1.log)" = "$(printf 'quiet %s\nand %s' "$i" "$i")" ]; then whole=$((whole + 1)); fi
done
same "quiet tasks whose output is whole" "$whole" 50
size=$(stat -c %s "$run"/loud@n1.1.log)
check "the loud log ends at its limit: $size" test "$size" -ge 1048576 -a "$size" -lt 1060000
same "with its last line" "$(tail -n 1 "$run"/loud@n1.1.log)" "the end"
check "and the count of what was dropped" grep -qa "flowrun: [0-9]* bytes dropped" "$run"/loud@n1.1.log
(ulimit -v 300000; "$flowrun" logs) > logs 2>&1
same "logs shows it" $? 0
check "in pieces" test "$(grep -c '^loud@n1 | ' logs)" -gt 10

# It writes as fast as it can; a stop goes past what is waiting.
cat > flood.yaml <<'END'
tasks:
  flood: {run: "exec yes", log: {max: 1GB}}
END
start flood.yaml --quiet
pid=$!
grown() { test "$(cat "$FLOWRUN_HOME"/runs/*/flood@local.1.log | wc -c)" -gt 3000000; }
until_true 60 grown
"$flowrun" cancel > cancelled 2>&1
same "cancel" $? 0
wait "$pid"
same "the run is cancelled" $? 3
log=$(echo "$FLOWRUN_HOME"/runs/*/flood@local.1.log)
check "the copy is a prefix" cmp -s "$log" <(yes | head -c "$(stat -c %s "$log")")
same "nothing is left running" "$(marked)" ""
finish
