#!/bin/bash
# rerun makes a run that is over again, as a new one: with the pipeline and the files that it kept, its
# parameters but for those given now, its logical time; here and through a host. usage: rerun.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
sql() { python3 -c 'import sqlite3, sys; print(*["|".join(map(str, r)) for r in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])])' home/state.db "$1"; }

cat > p.yaml <<'END'
name: p
params: {who: {default: x}, n: {type: int, default: 1}, data: {type: path, default: none}}
secrets: {s: {env: TOKEN}}
env: {W: "${{ env.W }}", WHO: "${{ params.who }}", N: "${{ params.n }}", D: "${{ params.data }}", AT: "${{ schedule.time }}"}
tasks:
  a: {run: 'echo "old $WHO $N $(cat f) $AT" >> $W/ran; test ! -e $W/fails', files: {f: f.txt}}
  b: {needs: [a], env: {S: "${{ secrets.s }}"}, run: 'echo "$D $S" >> $W/ran; until test ! -e $W/waits; do sleep 0.05; done'}
END
echo kept > f.txt
touch fails
TOKEN=one "$flowrun" p.yaml -p who=me -p data=some --at 2036-03-11T02:30Z > out 2>&1
same "it fails" $? 1
rm fails
sed -i 's/old/new/' p.yaml
echo changed > f.txt
mkdir elsewhere
cd elsewhere || exit 1
TOKEN=two "$flowrun" rerun 1 -p n=7 > ../out 2>&1
same "rerun: exit code" $? 0
cd ..
has "says whose copy it uses" out "$work/p.yaml was changed since run 1 began: that run's copy is used"
same "the same pipeline, file, parameters and time" "$(tail -n 2 ran)" "old me 7 kept 2036-03-11T02:30:00Z
$work/some two"
same "it is another run" "$(sql "SELECT no, retry_of, origin, outcome, priority FROM run ORDER BY no")" \
    "1|0|cli|failed|0 2|1|retry|succeeded|0"
has "status says which" <("$flowrun" status 2) "it repeats run 1"
same "as JSON" "$("$flowrun" status 2 --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["retry_of"])')" 1
has "the first stays as it was" <("$flowrun" status 1) "a@local  failed"

# of a rerun, from another folder, with a path that counts from there; the first run is gone
"$flowrun" rm 1 > out 2>&1
cd elsewhere || exit 1
TOKEN=three "$flowrun" rerun 2 -p data=there -p n=8 -p n=9 --priority 4 > ../out 2>&1
same "of a rerun: exit code" $? 0
cd ..
same "what is given wins" "$(tail -n 2 ran)" "old me 9 kept 2036-03-11T02:30:00Z
$work/elsewhere/there three"
same "and is in the row once" "$(sql "SELECT json_extract(params, '$.params') FROM run WHERE no = 3")" \
    "[\"who=me\",\"data=$work/elsewhere/there\",\"n=9\"]"
same "priority" "$(sql "SELECT retry_of, priority FROM run WHERE no = 3")" "2|4"

# what cannot be
"$flowrun" rerun 3 -p nobody=1 > out 2>&1
same "an unknown parameter" $? 2
has "is named" out "-p 'nobody': the pipeline has no such param"
"$flowrun" rerun 3 -p n=many > out 2>&1
same "a value that is none" $? 2
has "is named, too" out "param 'n' is 'many'"
"$flowrun" rerun 1 > out 2>&1
same "a run that is gone" $? 2
has "says so" out "there is no run '1'"
"$flowrun" rerun > out 2>&1
same "no run" $? 2
has "asks for one" out "rerun needs RUN"
same "nothing came of it" "$(sql "SELECT count(*) FROM run")" 2

# through a host, which is another process
touch waits
TOKEN=four "$flowrun" p.yaml > out.host 2>&1 &
host=$!
until_true 20 holds out.host "run 4 ("
until_true 20 holds ran "four"
"$flowrun" rerun 4 > out 2>&1
same "a run that goes on" $? 2
has "says how to end it" out "run 4 is not over: 'flowrun cancel 4' ends it"
TOKEN=five "$flowrun" rerun 2 -p who=host -p data=below > out.rerun 2>&1 &
pid=$!
until_true 20 holds ran "$work/below five"
rm waits
wait $pid
same "through a host: exit code" $? 0
has "the old copy" ran "old host 7 kept 2036-03-11T02:30:00Z"
"$flowrun" rerun 2 -p nobody=1 > out 2>&1
wait $host
same "the host's own run" $? 0
same "numbers" "$(sql "SELECT no, retry_of FROM run ORDER BY no")" "2|1 3|2 4|0 5|2"
same "what the host is told lasts" "$(sql "SELECT count(*) FROM run WHERE params LIKE '%five%'")" 0

# retry stays what it is: another round of the same run
touch fails
TOKEN=six "$flowrun" p.yaml > out 2>&1
rm fails
TOKEN=six "$flowrun" retry 6 > out 2>&1
same "retry" $? 0
same "the same run" "$(sql "SELECT no, round, retry_of FROM run WHERE no >= 6")" "6|2|0"

# what was kept is enough: its path may be gone, or something else; a retry of the run needs no path either
mkdir kept
cat > kept/k.yaml <<'END'
name: k
tasks: {a: {run: './go; cat f >> "$W/kept.ran"', files: {go: go.sh, f: f.txt}, env: {W: "${{ env.W }}"}}}
END
printf '#!/bin/sh\necho went >> "$W/kept.ran"\n' > kept/go.sh
chmod 755 kept/go.sh
echo content > kept/f.txt
"$flowrun" kept/k.yaml > out 2>&1
same "the first time" $? 0
k=$(sql "SELECT max(no) FROM run")
rm -r kept/go.sh kept/f.txt kept/k.yaml
mkdir kept/f.txt
"$flowrun" rerun "$k" > out 2>&1
same "rerun without the files" $? 0
"$flowrun" retry "$k" --from a > out 2>&1
same "retry without the files" $? 0
same "their content and modes" "$(sort kept.ran | tr '\n' ' ')" "content content content went went went "
# what is not kept is as it lies there now, and a difference is said; what is kept needs no path
mkdir folder
rm -f fails waits
echo changed > f.txt
echo one > folder/f
head -c 2000000 /dev/zero > large
cat > ship.yaml <<'END'
name: ship
env: {W: "${{ env.W }}"}
tasks:
  a:
    files: {kept: f.txt, folder: folder, part: {path: folder, exclude: [g]}, large: large}
    run: 'cat kept folder/f >> $W/shipped; wc -c < large >> $W/shipped; test ! -e $W/fails'
END
"$flowrun" ship.yaml > out 2>&1
same "a folder and a large file" $? 0
touch fails
newest() { sql "SELECT max(no) FROM run"; }
"$flowrun" rerun "$(newest)" > out 2>&1
same "the same again" $? 1
hasnt "nothing differs" out "is not as"
echo two > folder/g
echo more >> large
rm f.txt
"$flowrun" retry > out 2>&1
same "a retry with others" $? 1
has "a folder that differs" out "$work/folder is not as this run shipped it first: no copy of it was kept"
has "a file that differs" out "$work/large is not as this run shipped it first: no copy of it was kept"
same "each is said once, and no part that is the same" "$(grep -c "is not as" out)" 2
sed -i 's/test ! -e/test -e/' ship.yaml
"$flowrun" retry --file ship.yaml > out 2>&1
same "a changed pipeline file, with the kept file's path gone" $? 0
same "has the kept one" "$(tail -n 3 shipped)" "changed
one
2000005"
no=$(newest)
echo three > folder/f
"$flowrun" rerun "$no" > out 2>&1
same "a rerun" $? 0
has "names the run that shipped it" out "$work/folder is not as run $no shipped it: no copy of it was kept"
same "twice: the part as well" "$(grep -c "$work/folder is not as" out)" 2
# … also where a file or folder that was not kept has become one that would be
rm -r large folder
echo small > large
echo small > folder
"$flowrun" rerun "$no" > out 2>&1
has "a large file that is small now" out "$work/large is not as run $no shipped it: no copy of it was kept"
has "a folder that is a file now" out "$work/folder is not as run $no shipped it: no copy of it was kept"
sed -i 's/test -e/test ! -e/' ship.yaml
"$flowrun" retry "$no" --from a --file ship.yaml > out 2>&1
has "with another pipeline file" out "$work/large is not as this run shipped it first: no copy of it was kept"
finish
