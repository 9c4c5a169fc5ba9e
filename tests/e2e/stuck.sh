#!/bin/bash
# Readers that do not read a pipe (stuck_tty.sh: a terminal). The run goes on beside them, can be
# cancelled and left, and says how much it did not show; the descriptor stays as it was.
. "$(dirname "$0")/lib.sh"
begin "$1"
lines=330000
bytes=$(seq -f 'line %.0f of so many that no reader takes them' $lines | wc -c)
cat > loud.yaml <<END
name: loud
nodes: [{name: n1, executor: local}]
env: {W: "\${{ env.W }}"}
tasks:
  loud: {run: "seq -f 'line %.0f of so many that no reader takes them' $lines"}
  next: {needs: [loud], run: "touch \$W/next"}
  last: {needs: [next], run: "until test -e \$W/go; do sleep 0.02; done"}
END
sed 's/needs: .next./needs: [next, keeps]/; $a\  keeps: {lost_after: 3s, run: "sleep 7"}' loud.yaml > lease.yaml
mkfifo pipe
# All tasks but the last ended, and all output is at home: nothing more comes but the end.
arrived() { test -e next && test "$(cat "$FLOWRUN_HOME"/runs/*/loud@n1.1.log | wc -c)" = "$bytes"; }
exec 8<> pipe 9> pipe
blocking() { test $((0$(sed -n 's/^flags:[^0-9]*//p' "/proc/$$/fdinfo/9") & 04000)) = 0; }

# Nobody reads, ever: all tasks run, the lease is renewed, the run ends.
touch go
"$flowrun" lease.yaml >&9 2> err &
pid=$!
until_true 100 test -e next
check "the descriptor stays blocking for others" blocking
wait "$pid"
same "a run that nobody reads" $? 0
has "says so where somebody may" err "nobody reads the output any more: its end is not shown, see 'flowrun status 1'"
"$flowrun" status 1 > status
check "no lease ended" grep -q '^keeps@n1  *succeeded  *1 ' status
exec 8<&- 9>&-

# The reader comes back: each line was shown or is counted.
exec 8<> pipe
rm -r go next "$FLOWRUN_HOME"
"$flowrun" loud.yaml > pipe 2> err &
pid=$!
until_true 100 arrived
cat pipe > got 8<&- &
reader=$!
exec 8<&-
touch go
wait "$pid"
same "a reader that comes back" $? 0
wait "$reader"
shown=$(grep -c 'loud@n1 | line [0-9]* of so many that no reader takes them$' got)
missed=$(($(sed -n "s/^… \(.*\) lines not shown, see 'flowrun logs 1'$/\1/p" got | tr -d , | paste -sd+)))
check "lines were left out: $missed" test "$missed" -gt 0
same "and counted" $((shown + missed)) $lines
has "the end is shown" got "run 1 succeeded"
check "and its table" grep -q '^last  *n1  *succeeded' got
same "nothing on stderr" "$(cat err)" ""

# Likewise as JSON.
exec 8<> pipe
rm -r next go "$FLOWRUN_HOME"
"$flowrun" loud.yaml --json > pipe 2>&1 &
pid=$!
until_true 100 arrived
cat pipe > got 8<&- &
reader=$!
exec 8<&-
touch go
wait "$pid"
same "JSON: a reader that comes back" $? 0
wait "$reader"
check "JSON: each line is an object, shown or counted" python3 -c '
import json, sys
events = [json.loads(line) for line in open("got")]
shown = sum(e["event"] == "log" and e["task"] == "loud" for e in events)
missed = sum(e["lines"] for e in events if e["event"] == "not_shown")
assert missed > 0 and shown + missed == int(sys.argv[1]), (shown, missed)
assert events[-1]["event"] == "run" and events[-1]["outcome"] == "succeeded"
' $lines

# Cancel and SIGTERM beside a full pipe, on stdout and on both.
cat > flood.yaml <<'END'
name: flood
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks: {flood: {log: {max: 3GB}, run: "touch $W/floods; exec yes"}}
END
rm -rf "$FLOWRUN_HOME"
exec 8<> pipe
filled() { test "$(cat "$FLOWRUN_HOME"/runs/*/flood@n1.1.log | wc -c)" -gt 3000000; }
"$flowrun" flood.yaml > pipe 2>&1 &
pid=$!
until_true 60 filled
"$flowrun" cancel > cancelled 2>&1
same "cancel from another shell" $? 0
wait "$pid"
same "the run is cancelled" $? 3
rm -rf "$FLOWRUN_HOME"
"$flowrun" flood.yaml > pipe 2> err &
pid=$!
until_true 60 filled
kill -TERM "$pid"
wait "$pid"
same "SIGTERM leaves" $? 4
check "the task goes on" test -n "$(marked_tasks)"
"$flowrun" cancel > /dev/null 2>&1
same "and is stopped" $? 0
exec 8<&-

same "nothing is left running" "$(left)" ""
finish
