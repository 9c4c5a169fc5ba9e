#!/bin/bash
# A mount whose server is gone: what a user named there is waited for with a bound, and named; meanwhile
# other runs of the home go on, and stops are heard.
. "$(dirname "$0")/lib.sh"
dead_fs=$(realpath "${2:?the file system}")
begin "$1"
export DEAD_FS=$work/mount
mkdir mount
echo value > mount/secret
echo '[{name: n1, executor: local}]' > mount/nodes.yaml
echo content > mount/file
head -c 3000000 /dev/zero > mount/large
mkdir mount/folder && echo content > mount/folder/file
slow() { LD_PRELOAD=$dead_fs exec "$flowrun" "$@"; } # only with &
waits() { grep -q "$1" mount.waits 2> /dev/null; }

cat > late.yaml <<'END'
name: late
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
secrets: {s: {file: mount/secret}}
tasks:
  first: {run: "touch $W/mount.dead"}
  use: {needs: [first], run: "echo got $S", env: {S: "${{ secrets.s }}"}}
  beside: {needs: [first], run: "until grep -q secret $W/mount.waits; do sleep 0.05; done; echo beside"}
END
cat > ship.yaml <<'END'
name: ship
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  first: {run: "touch $W/mount.dead"}
  use: {needs: [first], run: "true", files: {large: mount/large}}
  folder: {needs: [first], run: "true", files: {folder: mount/folder}}
  beside: {needs: [first], run: "cat kept", files: {kept: mount/file}}
END
cat > other.yaml <<'END'
name: other
nodes: [{name: n1, executor: local}]
tasks: {a: {run: "echo other"}}
END
printf 'nodes: mount/nodes.yaml\ntasks: {a: {run: x}}\n' > nodes.yaml
printf 'tasks: {a: {run: x, files: {f: mount/file}}}\n' > files.yaml

# a secret's file, when its task starts
slow late.yaml > late.out 2>&1 &
pid=$!
until_true 60 waits secret
"$flowrun" other.yaml > out 2>&1
same "another run of the home" $? 0
has "it ran meanwhile" out "a@n1 | other"
"$flowrun" status > out 2>&1
same "status meanwhile" $? 0

# what is looked at before a run begins
for words in "validate nodes" "validate files" "validate late"; do
    slow ${words}.yaml > "${words#* }.said" 2>&1 < /dev/null &
    eval "${words#* }=\$!"
done
wait "$nodes"
same "an inventory: exit code" $? 2
has "an inventory" nodes.said "nodes.yaml:1:8: nodes: $work/mount/nodes.yaml: its file system does not answer within"
wait "$files"
same "a file: exit code" $? 2
has "a file" files.said "$work/mount/file: its file system does not answer within"
wait "$late"
same "a secret: exit code" $? 2
has "a secret" late.said "secret 's': $work/mount/secret: its file system does not answer within"
wait "$pid"
same "a secret when its task starts: exit code" $? 1
has "a secret when its task starts" late.out "use@n1 failed: secret 's': $work/mount/secret: its file system does not answer within"
has "a task beside it" late.out "beside@n1 | beside"

# what is shipped: files that are not kept, and folders
rm mount.dead mount.waits
slow ship.yaml > ship.out 2>&1 &
pid=$!
until_true 60 waits large
"$flowrun" other.yaml > out 2>&1
same "another run while a file is shipped" $? 0
has "it ran meanwhile" out "a@n1 | other"
wait "$pid"
same "files to be shipped: exit code" $? 1
has "a large file" ship.out "use@n1 failed: $work/mount/large: its file system does not answer within"
has "a folder" ship.out "folder@n1 failed: $work/mount/folder: its file system does not answer within"
has "what is kept needs no mount" ship.out "beside@n1 | content"

# a stop is heard while a run waits: of one that runs, and before it begins
rm mount.dead mount.waits
slow ship.yaml > ship.out 2>&1 &
pid=$!
until_true 60 waits large
"$flowrun" cancel > out 2>&1
wait "$pid"
same "a cancel while a file is waited for" $? 3
hasnt "it did not wait for the bound" ship.out "does not answer"
rm mount.dead mount.waits
slow late.yaml > late.out 2>&1 &
pid=$!
until_true 60 waits secret
"$flowrun" cancel > out 2>&1
wait "$pid"
same "a cancel while a secret is waited for" $? 3
hasnt "it did not wait for the bound" late.out "does not answer"
rm mount.dead mount.waits
slow late.yaml > late.out 2>&1 &
pid=$!
until_true 60 waits secret
kill -TERM "$pid"
wait "$pid"
check "a signal while a secret is waited for: it left" test $? -ne 1
hasnt "nor did that" late.out "does not answer"
rm -f mount.waits
slow nodes.yaml > out 2>&1 &
pid=$!
until_true 60 waits nodes
kill -TERM "$pid"
wait "$pid"
check "a signal before it begins: it left" test $? -ne 0
hasnt "it did not wait for the bound" out "does not answer"
"$flowrun" other.yaml > out 2>&1
same "the home is free" $? 0
rm -f mount.dead
finish
