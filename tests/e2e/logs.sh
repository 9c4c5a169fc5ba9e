#!/bin/bash
# What people read of a run: one line a task's end, in order with its output; -q, -v; logs with --tail,
# --failed and -f; status --failed.
. "$(dirname "$0")/lib.sh"
begin "$1"
cat > p.yaml <<'END'
name: p
nodes: [{name: n1, executor: local}, {name: n2, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  loud: {on: n1, run: "seq 300000"}
  odd: {on: n2, run: 'printf "plain\n\033[31mred\033[0m\n10%%\r20%%\r100%%\nby DOS\r\n50%%\r60%%\r\ntab\there\n\303\251t\303\251\n\377\nno newline"'}
  fails: {on: n1, needs: [odd], run: "echo before; exit 3"}
  again: {on: n1, retry: {times: 1, delay: 10ms}, run: "echo try $FLOWRUN_ATTEMPT_NO; test $FLOWRUN_ATTEMPT_NO = 2"}
  never: {needs: [fails], run: "echo never"}
END
"$flowrun" p.yaml > out 2>&1
same "exit code" $? 1
for t in loud@n1 odd@n2 fails@n1; do
    same "one line when $t ends" "$(grep -c "^[0-9:]* $t [a-z]" out)" 1
    check "$t: behind all its output" awk -v t="$t" '$2 == t { last = $3 } END { exit last !~ /^(succeeded|failed)/ }' out
done
same "all lines of the loud one, none torn" "$(sed -n 's/^[0-9:]* loud@n1 | //p' out | cmp - <(seq 300000) && echo same)" same
same "each try is shown" "$(grep -c "^[0-9:]* again@n1 [a-z]" out)" 2
has "what is tried again" out "again@n1 retrying in "
same "the last word is the run's" "$(grep -n 'run 1 failed' out | cut -d: -f1)" "$(grep -n '^[0-9][0-9]:[0-9:]* ' out | tail -1 | cut -d: -f1)"
check "the table" grep -q '^never  *n1  *upstream_failed' out

# Output waits for its launch's commit up to 64 KiB: more may come first on a slow disk.
"$flowrun" p.yaml -v > out 2>&1
for t in odd@n2 fails@n1; do
    same "-v: $t starts, runs and ends around its output" \
        "$(sed -n "s/^[0-9:]* $t \([a-z|]*\).*/\1/p" out | uniq | paste -sd' ')" \
        "starting running | $(sed -n "s/^[0-9:]* $t \(succeeded\|failed\).*/\1/p" out)"
done

"$flowrun" p.yaml -q > out 2>&1
same "-q: exit code" $? 1
same "-q: failures and the end alone" "$(sed 's/^[0-9:]* //' out | paste -sd+)" \
    "fails@n1 failed: exit code 3+run 3 failed: fails@n1: exit code 3++'flowrun logs 3 fails@n1' shows its output, 'flowrun retry 3' runs again what failed"

"$flowrun" logs 1 odd > got
printf 'odd@n2 | %s\n' plain '\x1b[31mred\x1b[0m' '100%' 'by DOS' '60%' $'tab\there' été '\xff' 'no newline' > want
check "odd lines" cmp got want
"$flowrun" logs 1 loud | cmp - <(seq -f 'loud@n1 | %.0f' 300000)
same "a loud one" "${PIPESTATUS[*]}" "0 0"
"$flowrun" logs 1 > got
for n in 1 2 5 4000 299999 300001 300020 400000; do
    check "--tail $n" cmp <("$flowrun" logs 1 --tail $n) <(tail -n $n got)
done
same "--tail of one task" "$("$flowrun" logs -n 2 1 loud | paste -sd+)" "loud@n1 | 299999+loud@n1 | 300000"
for n in 0 -1 x; do
    "$flowrun" logs --tail "$n" > out 2>&1
    same "--tail $n" $? 2
    has "--tail $n" out "--tail is a whole number from 1 on, not '$n'"
done
same "--failed" "$("$flowrun" logs 1 --failed)" "fails@n1 | before"
"$flowrun" logs 1 | head -n 1 > got
same "a reader that leaves is no error" "${PIPESTATUS[0]}" 0
"$flowrun" status 1 --failed > got
same "status --failed: one task" "$(grep -c '@n[12]  ' got)" 1
check "status --failed: the one" grep -q '^fails@n1  *failed ' got
same "and as JSON" "$("$flowrun" status 1 --failed --json | python3 -c 'import json, sys; print(*[t["task"] for t in json.load(sys.stdin)["tasks"]])')" fails

# A follower says when nobody drives the run, and not when it ends.
cat > held.yaml <<'END'
name: held
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks: {t: {run: "echo begun; until test -e $W/go; do sleep 0.02; done; echo done"}}
END
start held.yaml
pid=$!
until_true 30 holds out "t@n1 | begun"
"$flowrun" logs -f > followed 2> err &
follower=$!
until_true 30 holds followed "t@n1 | begun"
kill -9 $pid
wait $pid 2> /dev/null
wait $follower
same "logs -f ends" $? 0
has "and says why" err "flowrun: no flowrun looks after run 4, so no more output comes; 'flowrun resume 4' goes on with it"
start resume
pid=$!
until_true 30 eval '"$flowrun" status | grep -q "of held: running"'
rm -f followed
"$flowrun" logs -f --tail 1 > followed 2> err &
follower=$!
until_true 30 holds followed "t@n1 | begun"
touch go
wait $pid
wait $follower
same "logs -f beside a run" $? 0
same "has shown all of it" "$(paste -sd+ followed)" "t@n1 | begun+t@n1 | done"
same "and said nothing" "$(cat err)" ""
"$flowrun" status --failed > got
has "status --failed of a run without failures" got "no task has failed"
same "nothing is left running" "$(left)" ""
finish
