#!/bin/bash
# Which run 'resume' and 'cancel' take when none is named: the only one they can act on, by name; of
# several none without an answer.
. "$(dirname "$0")/lib.sh"
begin "$1"
for name in first second third; do
    cat > $name.yaml <<END
name: $name
nodes: [{name: n1, executor: local}]
env: {W: "\${{ env.W }}"}
tasks: {t: {run: "touch \$W/$name.runs; until test -e \$W/$name.go; do sleep 0.02; done; echo $name >> \$W/ran"}}
END
done

"$flowrun" resume > out 2>&1
same "resume in an empty home" $? 2
has "says so" out "no run can be resumed: this home has no run yet"
"$flowrun" cancel > out 2>&1
same "cancel in an empty home" $? 2

# One is left, a newer one is driven: resume takes the one that is left.
start first.yaml
pid=$!
until_true 30 test -e first.runs
kill -9 $pid
wait $pid 2> /dev/null
start second.yaml
second=$!
until_true 30 test -e second.runs
touch first.go
"$flowrun" resume > resumed 2>&1
same "resume beside a newer run that is driven" $? 0
has "names the run" resumed "flowrun: run 1 of first is resumed"
has "and goes on with it" resumed "run 1 succeeded"
same "the other run is as it was" "$(cat ran)" first

# None is left.
"$flowrun" resume > out 2>&1
same "resume when the only open run is driven" $? 5
has "says by whom" out "no run can be resumed: run 2 is driven by another flowrun; 'flowrun attach 2' follows it"

# Two can be cancelled: one that is driven, one that is left.
start third.yaml
pid=$!
until_true 30 test -e third.runs
kill -9 $pid
wait $pid 2> /dev/null
left3() { "$flowrun" status 3 | grep -q "of third: left"; }
until_true 30 left3 # its host drives it no more, as nobody follows it
"$flowrun" cancel > out 2>&1 < /dev/null
same "cancel of one of two" $? 2
has "lists the one that is left" out "   3  third                     started 20"
has "and says what it is" out "left: no flowrun looks after it"
has "lists the one that is driven" out "   2  second "
has "says what to write" out "name the run: 'flowrun cancel 3' takes the newest"
check "nothing was cancelled" kill -0 $second
"$flowrun" status 3 > out
has "nor was the other" out "of third: left"

# On a terminal it asks.
cat > answer.py <<'END'
import os, pty, sys
answer, words = sys.argv[1].encode(), sys.argv[2:]
pid, fd = pty.fork()
if pid == 0:
    os.execv(words[0], words)
got = b""
while True:
    try:
        piece = os.read(fd, 65536)
    except OSError:
        piece = b""
    if not piece:
        break
    if b"which one?" not in got and b"which one?" in got + piece:
        os.write(fd, answer + b"\n")
    got += piece
sys.stdout.write(got.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
timeout 140 python3 answer.py nonsense "$flowrun" cancel > out
same "an answer that names none" $? 2
has "asks for the newest" out "which one? [3]"
check "nothing was cancelled" kill -0 $second
timeout 140 python3 answer.py 2 "$flowrun" cancel > out
same "an answer" $? 0
has "is taken" out "run 2 is cancelled"
wait $second
same "the run is cancelled" $? 3
"$flowrun" status 3 > out
has "the other is as it was" out "of third: left"
"$flowrun" cancel > out 2>&1
same "cancel of the only one" $? 0
has "names it" out "flowrun: run 3 of third is cancelled"
"$flowrun" cancel > out 2>&1
same "cancel when all are over" $? 2
has "says so" out "no run can be cancelled: all are over, the newest is run 3 (cancelled)"
same "nothing is left running" "$(left)" ""
finish
