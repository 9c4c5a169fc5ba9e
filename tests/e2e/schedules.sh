#!/bin/bash
# Pipelines that run by themselves under a host that stays, on the clock of this machine: what a user
# sees of it, over its death, with files that change, and while they are paused.
# usage: schedules.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir p home
cat > home/config.yaml << END2
channels: {told: {kind: command, command: [sh, -c, 'cat >> $work/told']}}
notify: [{on: [schedule_missed, schedule_paused], to: told}]
END2

slow=0 # seconds that a file takes here to be known, beyond those at rest
in_s() { date -u -d "+$(($1 + slow)) seconds" +%Y-%m-%dT%H:%M:%SZ; }
pipeline() { # NAME SCHEDULE
    cat > "next.yaml" <<END2
name: $1
schedule: $2
env: {W: "\${{ env.W }}"}
tasks:
  t:
    env: {AT: "\${{ schedule.time }}", HOW: "\${{ schedule.origin }}", LAST: "\${{ schedule.previous_success }}"}
    run: 'echo "\$AT \$HOW" >> \$W/ran.$1; echo "last=\$LAST" > \$W/last.$1; while test -e \$W/hold.$1; do sleep 0.05; done'
END2
    mv next.yaml "p/$1.yaml"
}
serve() { # OPTION…
    "$flowrun" serve "$@" > served 2>&1 &
    host=$!
    until_true 60 test -S "$FLOWRUN_HOME/host.sock"
}
word() { "$flowrun" schedules --json "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)["state"])'; }
is() { [ "$(word "$1" 2> /dev/null)" = "$2" ]; }
fires() { # NAME: decision:origin, the oldest first
    "$flowrun" schedules --json "$1" | python3 -c '
import json, sys
print(*("%s%s" % (f["decision"], ":" + f["outcome"] if f["outcome"] else "") for f in json.load(sys.stdin)["fires"][::-1]))'
}
decided() { [ "$(fires "$1" 2> /dev/null)" = "$2" ]; }

"$flowrun" schedules > out
has "none yet" out "no served folder has a schedule"
"$flowrun" serve nowhere > out 2>&1
same "a folder that is not there" $? 2
has "it is named" out "serve: the folder nowhere: No such file"
"$flowrun" serve next.yaml > out 2>&1
same "a file in its place" $? 2

# ---- in time, once; a file that comes while the host is there
serve p
pipeline trial "{at: [2099-01-01T00:00Z]}"
began=$SECONDS
until_true 60 is trial active
slow=$((3 * (SECONDS - began - 1)))
[ "$slow" -ge 0 ] || slow=0
rm p/trial.yaml
first=$(in_s 3)
pipeline a "{at: [$first, 2099-01-01T00:00Z]}"
until_true 60 is a active
until_true 60 decided a ran:succeeded
same "at its time" "$(cat ran.a)" "$first schedule"
same "nothing succeeded before" "$(cat last.a)" "last="
"$flowrun" schedules > out
has "the list" out "a/default"
has "its next time" out "2099-01-01 00:00 UTC"
has "what became of the last one" out "ran: run 1 succeeded"
"$flowrun" schedules a > out
has "in words" out "a/default of $work/p/a.yaml: at "
"$flowrun" runs --json > out
has "the run" out '"pipeline":"a"'
"$flowrun" schedules nothing > out 2>&1
same "one that is not there" $? 2
has "it says so" out "there is no schedule 'nothing'"

# ---- one in the way, that is not followed by anybody
touch hold.b
pipeline b "[{name: x, at: [$(in_s 3)]}, {name: y, at: [$(in_s 4)], overlap: queue}, {name: z, at: [$(in_s 5)]}]"
until_true 60 decided b/z skipped
until_true 60 decided b/x ran
"$flowrun" queue > out
has "the queued one says what is before it" out "overlap: run 2 of b is before it"
"$flowrun" schedules b/z > out
has "the skipped one, what was in its way" out "skipped: beside run 2"
rm hold.b
until_true 60 decided b/y ran:succeeded
same "one behind the other" "$(lines ran.b)" 2

# ---- paused, with what waits; a param that only the schedule gives
touch hold.q
pipeline q "[{name: x, at: [$(in_s 3)], params: {n: 3}}, {name: y, at: [$(in_s 4)], overlap: queue, params: {n: 4}}]"
echo 'params: {n: {type: int}}' >> p/q.yaml
until_true 60 decided q/y ran
"$flowrun" validate p/q.yaml > out 2>&1
same "it is right" $? 0
"$flowrun" run p/q.yaml > out 2>&1
same "a run by hand has to give it" $? 2
has "it says so" out "param 'n' has no value; expected -p NAME=VALUE or a default"
"$flowrun" schedules resume q/y --queued > out 2>&1
same "of a pause alone" $? 2
"$flowrun" schedules pause q/y --queued > out 2>&1
same "paused" "$? $(cat out)" "0 q/y is paused, and its runs that waited do not begin"
until_true 60 decided q/y paused:cancelled
rm hold.q
until_true 60 decided q/x ran:succeeded
same "one of them ran" "$(lines ran.q)" 1

# ---- broken, mended, removed
echo 'schedule: {at: [' > p/a.yaml
until_true 60 is a invalid
"$flowrun" schedules > out
has "the file is named" out "$work/p/a.yaml cannot be used since"
has "what it said before counts" out "2099-01-01 00:00 UTC"
pipeline a "{at: [2099-01-01T00:00Z]}"
until_true 60 is a active
mv p/a.yaml away.yaml
until_true 60 is a/default gone
"$flowrun" schedules > out
hasnt "the list has it no more" out a/default

# ---- paused, with a host and without
mv away.yaml p/a.yaml
until_true 60 is a active
"$flowrun" schedules pause a --note "moving house" > out 2>&1
same "paused" "$? $(cat out)" "0 a/default is paused"
has "it shows" <("$flowrun" schedules a) "paused since"
has "and says why" <("$flowrun" schedules a) ": moving house"
kill -9 $host
wait $host 2> /dev/null
"$flowrun" schedules resume a > out 2>&1
same "resumed while there is no host" "$? $(cat out)" "0 a/default is active again"
"$flowrun" schedules resume a > out 2>&1
same "already" "$? $(cat out)" "0 active already"
"$flowrun" schedules pause > out 2>&1
same "without a name" $? 2
"$flowrun" schedules pause --all > out 2>&1
same "all of them" $? 0
until_true 60 is b/x paused
"$flowrun" schedules resume --all > out 2>&1

# ---- a host that was away
serve p
pipeline c "{at: [$(in_s 6), $(in_s 7), $(in_s 8)], catchup: all}"
pipeline d "{at: [$(in_s 6), $(in_s 7), $(in_s 8)], grace: 1s}"
until_true 60 is c active
until_true 60 is d active
kill -9 $host
wait $host 2> /dev/null
over=$(date -d "+$((9 + slow)) seconds" +%s)
until_true 60 eval 'test "$(date +%s)" -ge $over'
serve p
until_true 60 decided c "ran:succeeded ran:succeeded ran:succeeded"
same "each once, in their order" "$(sort ran.c | uniq -d) $(sort -c ran.c && cut -d ' ' -f 2 ran.c | sort -u)" " catchup"
until_true 60 decided d "missed"
check "what is missed does not run" test ! -e ran.d
"$flowrun" schedules d > out
has "it is counted" out "3 missed"
until_true 60 holds told '{"type":"schedule.missed","data":{"pipeline":"d","schedule":"default","text":"3 instants passed without a run"}'

# ---- broken while it is due, and paused by that
pipeline g "{at: [$(in_s 4), 2099-01-01T00:00Z], pause_after: 1}"
until_true 60 is g active
echo 'tasks: no' >> p/g.yaml
until_true 60 decided g invalid:failed
until_true 60 is g paused
until_true 60 holds told '{"type":"schedule.paused","data":{"pipeline":"g","schedule":"default","text":"its last run has failed"}'

# ---- renamed before it is due: it runs once, as another file's
due=$(in_s 5)
pipeline h "{at: [$due]}"
until_true 60 is h active
mv p/h.yaml p/renamed.yaml
until_true 60 decided p/renamed.yaml ran:succeeded
same "once" "$(cat ran.h)" "$due schedule"

# ---- killed again and again around its times: none is lost, none is doubled
every=$(for i in 3 4 5 6 7 8 9 10; do in_s $i; done | paste -sd ,)
pipeline e "{at: [$every], catchup: all, overlap: parallel}"
until_true 60 is e active
for i in 1 2 3 4 5 6 7; do
    sleep 0.$((RANDOM % 9 + 1))
    kill -9 $host
    wait $host 2> /dev/null
    serve p
done
ran_all() { [ "$(fires e | tr ' ' '\n' | grep -c '^ran:succeeded$')" = 8 ]; }
until_true 60 ran_all
same "each time once" "$(cut -d ' ' -f 1 ran.e | sort | paste -sd ,)" "$every"

# ---- one that stands by
"$flowrun" serve --standby p > standing 2>&1 &
next=$!
until_true 60 holds standing "stands by: another flowrun (pid $host) is the host of"
kill -9 $host
wait $host 2> /dev/null
until_true 60 holds standing "this is the host of"
pipeline f "{at: [$(in_s 2)]}"
until_true 60 decided f ran:succeeded
kill -TERM $next
wait $next
same "it ends as a host does" $? 0
rm -f standing
"$flowrun" serve --standby > standing 2>&1 &
next=$!
until_true 60 holds standing "this is the host of"
kill -TERM $next
wait $next
same "nothing is left running" "$(left)" ""
finish
