#!/bin/bash
# Paths in a file count from that file's folder, those on the command line from the current one: at the
# first start, when it is resumed from a third folder, with a changed file. The examples run anywhere.
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir -p src here/inv else
cp -r "$repo/examples" "$repo/pipelines" src/
cd here || exit 1

for file in "$work/src/examples/hello.yaml" ../src/examples/hello.yaml; do
    "$flowrun" "$file" > ../out 2>&1
    same "$file from another folder" $? 0
    has "its inventory: $file" ../out "finish@n1 | run hello greeted world on 3 nodes"
done
"$flowrun" validate ../src/pipelines/deepseek-lora.yaml > ../out 2>&1
same "the main pipeline from another folder" $? 0
has "its inventory" ../out "9 tasks on 3 nodes"
for file in ../src/examples/clusters/*.yaml; do
    "$flowrun" nodes "$file" > ../out 2>&1
    same "nodes $file" $? 0
done

# one file of each name in both folders, so that a wrong one is seen
for at in src here else; do
    mkdir -p "../$at/sub"
    for f in data secret with.json p.txt sub/deep; do echo "$at" > "../$at/$f"; done
    printf 'nodes: [{name: %s, executor: local}]\n' "$at" > "../$at/nodes.yaml"
done
printf 'nodes: [{name: inventory, executor: ssh, address: 192.0.2.1, key: no.key}]\n' > ../src/sub/ssh.yaml
cat > ../src/p.yaml <<'END'
params:
  nodes: {default: nodes.yaml}
  file: {default: p.txt}
  path: {default: p.txt, type: path}
  dir: {default: sub, type: string}
secrets: {s: {file: secret}}
nodes: ${{ params.nodes }}
env: {W: "${{ env.W }}"}
tasks:
  names: {outputs: [dir], run: "echo dir=sub >> $FLOWRUN_OUTPUT"}
  a:
    needs: [names]
    files:
      data: data
      file: ${{ params.file }}
      path: ${{ params.path }}
      deep: ${{ params.dir }}/deep
      late: ${{ params.dir && node.index >= 0 && 'sub' }}/deep
      later: ${{ tasks.names.outputs.dir }}/deep
      mixed: ${{ params.dir }}/${{ node.index == 0 && 'deep' }}
    env: {S: "${{ secrets.s }}", NODE: "${{ node.name }}"}
    run: |
      cd "$FLOWRUN_DIR"
      echo $NODE $(cat data file path deep late later mixed) > "$W/got"
      test "$S" = src
      test ! -e "$W/fail"
END
touch "$work/fail"
"$flowrun" ../src/p.yaml > ../out 2>&1
same "the file's own folder: exit code" $? 1
same "the file's own folder" "$(cat ../got)" "src src src src src src src src"
rm ../fail
cd ../else || exit 1
"$flowrun" retry > ../out 2>&1
same "again from a third folder" $? 0
same "and with the same files" "$(cat ../got)" "src src src src src src src src"

touch "$work/fail"
cd ../here || exit 1
"$flowrun" ../src/p.yaml -p nodes=nodes.yaml -p file=p.txt -p path=p.txt -p dir=sub > ../out 2>&1
same "-p: exit code" $? 1
same "-p counts from the current folder" "$(cat ../got)" "here src here here here src src here"
"$flowrun" ../src/p.yaml --nodes nodes.yaml > ../out 2>&1
same "--nodes does, too" "$(cut -d ' ' -f 1 ../got)" here
"$flowrun" ../src/p.yaml -p nodes=nodes.yaml -p path=p.txt -p dir=sub > ../out 2>&1
rm ../fail
cd ../else || exit 1
sed 's/^name:.*//; s/params.file }}/params.file }}   # changed/' ../src/p.yaml > ../src/q.yaml
"$flowrun" retry --file ../src/q.yaml > ../out 2>&1
same "a changed file" $? 0
same "and -p as it was given first" "$(cat ../got)" "here src src here here src src here"

cd ../here || exit 1
"$flowrun" nodes --check ../src/sub/ssh.yaml > ../out 2>&1
"$flowrun" validate ../src/p.yaml --nodes ../src/sub/ssh.yaml > ../out 2>&1
same "an inventory's own paths" $? 2
has "count from its folder" ../out "key of node 'inventory': $work/here/../src/sub/no.key: No such file"
# A run that an older flowrun stored, which let all paths count from where it was started.
cat > ../src/old.yaml <<'END'
env: {W: "${{ env.W }}", V: "${{ 'a' && 'b' }}"}
tasks: {a: {files: {data: data}, run: 'echo $(cat "$FLOWRUN_DIR/data") $V > "$W/got"; test ! -e "$W/fail"'}}
END
touch "$work/fail"
"$flowrun" ../src/old.yaml > ../out 2>&1
same "of this one" "$(cat ../got)" "src b"
rm ../fail
python3 -c 'import os, sqlite3
db = sqlite3.connect(os.environ["FLOWRUN_HOME"] + "/state.db")
db.execute("""UPDATE run SET params = json_remove(params, "$.rules", "$.folder")""")
db.commit()'
(cd ../else && "$flowrun" retry) > ../out 2>&1
same "of an older run" "$(cat ../got)" "here true"
printf 'tasks:\n  t:\n    uses: train\n    with: {model: "node:/m", dataset_dir: "node:/d", dataset: x, deepspeed: no.json}\n' > ../src/t.yaml
"$flowrun" validate ../src/t.yaml > ../out 2>&1
same "a path in with: exit code" $? 2
has "a path in with" ../out "../src/t.yaml:4:77: $work/here/../src/no.json: No such file or directory"
sed -i 's/no.json/with.json/' ../src/t.yaml
"$flowrun" validate ../src/t.yaml > ../out 2>&1
same "and one that is there" $? 0
finish
