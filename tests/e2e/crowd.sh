#!/bin/bash
# Many tasks at once: the limit of open descriptors is raised, tasks do not see that, and what does
# not fit below the hard limit waits for its turn.
. "$(dirname "$0")/lib.sh"
begin "$1"

crowd() { # N: all of them are up before any of them goes on
    printf 'name: crowd\nmax_parallel: %s\nnodes: [{name: n1, executor: local, slots: %s}]\nenv: {W: "%s"}\ntasks:\n' "$1" "$1" "$work"
    seq "$1" | sed 's/.*/  t&: {argv: [sh, -c, "echo x >> $W\/up; read x < $W\/gate; echo out &"]}/'
}
count() { [ "$(lines up)" -ge "$1" ]; }

hard=$(ulimit -Hn)
if [ "$hard" = unlimited ] || [ "$hard" -ge 6000 ]; then
    mkfifo gate
    crowd 1500 > crowd.yaml
    (ulimit -Sn 1024; exec timeout 300 "$flowrun" crowd.yaml) > out 2>&1 &
    pid=$!
    until_true 200 count 1500
    exec 7<> gate
    yes '' 2> /dev/null | head -1500 >&7 &
    wait $pid
    same "1,500 tasks at once under a soft limit of 1024: exit code" $? 0
    same "tasks that succeeded" "$("$flowrun" status | grep -c ' succeeded ')" 1500
    exec 7>&-
    wait
    rm -f up gate
else
    echo "not tried: 1,500 tasks at once need 6,000 descriptors, the hard limit is $hard"
fi

# The hard limit holds 30 attempts or so: the others wait, none fails.
mkfifo gate
crowd 80 > crowd.yaml
(ulimit -n 128; exec timeout 150 "$flowrun" crowd.yaml) > out 2>&1 &
pid=$!
until_true 60 count 20
exec 7<> gate
yes '' 2> /dev/null | head -80 >&7 &
wait $pid
same "80 tasks under a hard limit of 128: exit code" $? 0
same "tasks that succeeded" "$("$flowrun" status | grep -c ' succeeded ')" 80
same "each ran once" "$(lines up)" 80
exec 7>&-

# A gang holds a link to each of its nodes: one that cannot fit is refused before anything starts.
gang() { # N
    printf 'name: gang\nnodes: [%s]\ntasks:\n  g: {on: all, gang: true, run: "true"}\n' \
        "$(seq -s , "$1" | sed 's/[0-9]*/{name: n&, executor: local}/g')"
}
gang 35 > gang.yaml
(ulimit -n 128; exec timeout 150 "$flowrun" gang.yaml) > out 2>&1
same "a gang of 35 under a hard limit of 128: exit code" $? 2
has "it is named" out "gang.yaml:4:3: gang 'g' needs 35 nodes at once, which takes flowrun 129 open files; the limit is 128: raise it"
(ulimit -n 129; exec timeout 150 "$flowrun" gang.yaml) > out 2>&1
same "a gang of 35 under a hard limit of 129: exit code" $? 0

# A task has the limit that flowrun was started with.
printf 'name: limit\nnodes: [{name: n1, executor: local}]\nenv: {W: "%s"}\ntasks: {t: {run: "ulimit -Sn > $W/soft; ulimit -Hn > $W/hard"}}\n' "$work" > limit.yaml
(ulimit -Sn 500; exec timeout 140 "$flowrun" limit.yaml) > out 2>&1
same "a task's soft limit" "$(cat soft)" 500
same "a task's hard limit" "$(cat hard)" "$hard"
finish
