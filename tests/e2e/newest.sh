#!/bin/bash
# A log that is full shows its newest lines while the task runs. At the end it is head, one line, tail.
. "$(dirname "$0")/lib.sh"
begin "$1"
cat > p.yaml <<'YAML'
name: p
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  t:
    log: {max: 64KiB}
    run: "seq 20000; until test -e $W/more; do sleep 0.02; done; echo more; until test -e $W/go; do sleep 0.02; done; echo done"
YAML
shows() { "$flowrun" logs "${@:2}" | grep -q -x "t@n1 | $1"; }

start p.yaml
pid=$!
until_true 30 holds out "t@n1 running"
until_true 30 shows 20000
"$flowrun" logs > got
same "the head" "$(head -n 2 got | paste -sd+)" "t@n1 | 1+t@n1 | 2"
hasnt "nothing is left out so far" got "left out"
full="t@n1: its log is full (log.max): its newer output is shown when it ends, or now by 'flowrun logs -f 1 t@n1'"
until_true 30 holds out "$full"
hasnt "the view has none of it" out "t@n1 | 20000"
same "all is there while the ring has it" "$(sed 's/^t@n1 | //' got | cmp - <(seq 20000) && echo same)" same
same "--tail" "$("$flowrun" logs --tail 2 | paste -sd+)" "t@n1 | 19999+t@n1 | 20000"
"$flowrun" logs -f > followed &
follower=$!
until_true 30 holds followed "t@n1 | 20000"
touch more
until_true 30 holds followed "t@n1 | more"
touch go
wait $pid
same "the run" $? 0
same "the view has said so once" "$(grep -c "its log is full" out)" 1
has "the view shows the tail at the end" out "t@n1 | 20000"
wait $follower
same "logs -f" $? 0
same "has shown all that came, once" "$(sed 's/^t@n1 | //' followed | cmp - <(seq 20000; echo more; echo done) && echo same)" same
(seq 20000; echo more; echo done) > all
bytes=$(stat -c %s all)
{ head -c 32768 all; printf '\n[flowrun: %d bytes dropped]\n' $((bytes - 65536)); tail -c 32768 all; } > want
check "at the end: head, one line, tail" cmp "$FLOWRUN_HOME"/runs/*/t@n1.1.log want
"$flowrun" logs | sed 's/^t@n1 | //' > got
check "and so it is shown" cmp got want

# More than is kept for reading: what is left out is said, and the newest lines are there.
rm -f more go
# The head ends inside of a line.
sed 's/seq 20000;/seq 2 300000;/' p.yaml > q.yaml
start q.yaml
pid=$!
until_true 30 shows 300000
"$flowrun" logs > got
same "the head comes first" "$(head -n 2 got | paste -sd+)" "t@n1 | 2+t@n1 | 3"
same "and what it has of its last line" "$(grep -B 1 'left out so far' got | head -n 1)" "t@n1 | $(seq 2 300000 | head -c 32768 | tail -n 1)"
check "what is left out is said" grep -q '^t@n1 | \[flowrun: [0-9]* bytes left out so far\]$' got
same "the newest lines" "$(tail -n 30000 got | sed 's/^t@n1 | //' | cmp - <(seq 270001 300000) && echo same)" same
same "--tail" "$("$flowrun" logs --tail 2 | paste -sd+)" "t@n1 | 299999+t@n1 | 300000"
rm -f followed
"$flowrun" logs -f --tail 2 > followed &
follower=$!
until_true 30 holds followed "t@n1 | 300000"
touch more
until_true 30 holds followed "t@n1 | more"
touch go
wait $pid
wait $follower
same "logs -f goes on in the log" "$(paste -sd+ followed)" "t@n1 | 299999+t@n1 | 300000+t@n1 | more+t@n1 | done"
(seq 2 300000; echo more; echo done) > all
bytes=$(stat -c %s all)
{ head -c 32768 all; printf '\n[flowrun: %d bytes dropped]\n' $((bytes - 65536)); tail -c 32768 all; } > want
"$flowrun" logs | sed 's/^t@n1 | //' > got
check "at the end: head, one line, tail" cmp got want
same "the ring is given back" "$(cat "$FLOWRUN_HOME"/runs/*/t@n1.1.log.tail | wc -c)" 256

# A supervisor that is killed: its node appends the tail in its place.
rm -f more go
start p.yaml
pid=$!
until_true 30 shows 20000
for p in $(marked_tasks); do
    parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$p/status" 2> /dev/null)
    # by its name: of a process that drops no core only root may read the link to its program
    case $(cat "/proc/${parent:-none}/comm" 2> /dev/null) in flownode*) kill -9 "$parent" && killed=yes ;; esac
done
check "its supervisor was killed" test "${killed:-}" = yes
[ "${killed:-}" = yes ] || touch more go
wait $pid
same "the run has lost its task" $? 1
seq 20000 > all
bytes=$(stat -c %s all)
{ head -c 32768 all; printf '\n[flowrun: %d bytes dropped]\n' $((bytes - 65536)); tail -c 32768 all; } > want
"$flowrun" logs | sed 's/^t@n1 | //' > got
check "its log: head, one line, tail" cmp got want
same "nothing is left running" "$(left)" ""
finish
