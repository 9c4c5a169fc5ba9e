#!/bin/bash
# Whose container is it? Of one name there is a stranger's, one whose labels look like ours, one that
# another run uses, one that is left over: only what this home made is taken away, and never under a run
# that goes on. A task whose container is gone says so.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ "$(id -u)" = 0 ] || skip "needs root"
own_podman
home=$FLOWRUN_HOME/nodes/n1 # of the node
name=$(basename "$work")

# one WHAT: who has the name, by id and state
one() { podman container inspect --format '{{.Id}} {{.State.Running}}' "$1" 2> /dev/null; }
stranger() { podman run -d --network host --ipc host "$@" bb:1 sleep 1000 > /dev/null 2>&1; }
gone() { podman kill "$@"; podman rm -f "$@"; } > /dev/null 2>&1

cat > box.yaml <<END
params: {recreate: {default: true, type: bool}, inside: {default: ""}, outside: {default: ""}, name: {default: "$name"}}
nodes: [{name: n1, executor: local}]
env: {W: "$work", INSIDE: "\${{ params.inside }}", OUTSIDE: "\${{ params.outside }}"}
tasks:
  box:
    uses: container
    with: {image: "bb:1", runtime: podman, name: "\${{ params.name }}", gpus: none, pull: never,
           recreate: "\${{ params.recreate }}", mounts: ["$work/shared:/shared"]}
  outside: {needs: [box], run: 'touch "\$W/shared/outside"; until test ! -e "\$W/shared/\$OUTSIDE" || test -z "\$OUTSIDE"; do sleep 0.05; done'}
  inside: {needs: [outside], in: box, run: 'touch /shared/inside; until test ! -e "/shared/\$INSIDE" || test -z "\$INSIDE"; do sleep 0.05; done; echo "was inside"'}
END
mkdir shared

# refused WHAT TEXT ARGS…: box.yaml fails with that text, and whoever has the name keeps it.
refused() {
    local what=$1 text=$2 before
    shift 2
    before=$(one "$name")
    "$flowrun" box.yaml "$@" > out 2>&1
    same "$what: exit code" $? 1
    has "$what" out "$text"
    same "$what: it is as it was" "$(one "$name")" "$before"
}
not_ours="a container $name is here already that this flowrun did not start"

stranger --name "$name"
for r in true false; do refused "a stranger, recreate $r" "$not_ours" -p recreate=$r; done
podman stop -t 0 "$name" > /dev/null 2>&1
for r in true false; do refused "a stopped one, recreate $r" "$not_ours" -p recreate=$r; done
gone "$name"
for label in "x $home" "${home}2" "${home%1}"; do
    stranger --name "$name" --label "flowrun.home=$label"
    refused "one labelled '$label'" "$not_ours"
    gone "$name"
done

# names that hold the name, or begin an id, are no obstacle and stay
stranger --name "$name-2"
stranger --name "2-$name"
others="$(one "$name-2") $(one "2-$name")"
id=$(podman container inspect --format '{{.Id}}' "$name-2")
"$flowrun" box.yaml > out 2>&1
same "beside names that hold its own" $? 0
has "inside" out "inside@n1 | was inside"
same "the others are as they were" "$(one "$name-2") $(one "2-$name")" "$others"
"$flowrun" box.yaml -p name="${id:0:12}" > out 2>&1
same "a name that begins another's id" $? 0
same "the others are as they were, again" "$(podman ps -q --no-trunc --filter "id=$id" | head -1)" "$id"
gone "$name-2" "2-$name" "${id:0:12}"

# what a run left over is taken by the next, in either way
"$flowrun" box.yaml > out 2>&1
same "left over by an earlier run" $? 0
has "is removed first" out "remove container $name"
"$flowrun" box.yaml -p recreate=false > out 2>&1
same "or used again" $? 0
has "as it says" out "use container $name again"

# one that another run uses: a task is in it; or none, and its run goes on; or its flowrun is dead
in_use="container $name is in use by run"
for where in inside outside; do
    touch shared/wait
    rm -f shared/inside shared/outside
    start box.yaml -p $where=wait
    pid=$!
    until_true 60 test -e shared/$where
    cp out first
    refused "used $where" "$in_use $(sed -n 's/.*run [0-9]* (\([0-9a-f]*\)).*/\1/p' first)"
    refused "used $where, recreate false" "$in_use" -p recreate=false
    if [ $where = inside ]; then
        kill -9 $pid
        wait $pid 2> /dev/null
        refused "used, and its flowrun is dead" "$in_use"
        rm shared/wait
        "$flowrun" resume "$(sed -n 's/.*run \([0-9]*\) (.*/\1/p' first | head -1)" > out 2>&1
        same "the first run, resumed" $? 0
    else
        rm shared/wait
        wait $pid
        same "the first run" $? 0
    fi
done

# the run that started it may remove it when it is over; cleanup spares the others'
cat >> box.yaml <<END
on_exit:
  - {name: tidy, uses: cleanup, with: {containers: ["\${{ params.name }}"], runtime: podman}, on: all}
END
sed 's/^  box:$/  x: {run: "true"}/; /^    uses: container$/,/recreate.*mounts/d; /^  outside:/d; /^  inside:/d' box.yaml > tidy.yaml
before=$(one "$name")
"$flowrun" tidy.yaml > out 2>&1
same "cleanup by another run" $? 0
has "spares it" out "spare container $name: it runs, and another run started it"
same "and it runs" "$(one "$name")" "$before"
"$flowrun" box.yaml > out 2>&1
same "cleanup by its own run" $? 0
same "removes it" "$(one "$name")" ""

# what cannot start leaves nothing; a container that is gone is named
sed 's/gpus: none/gpus: none, options: ["--device=\/dev\/no-such"]/' box.yaml > broken.yaml
"$flowrun" broken.yaml > out 2>&1
same "one that cannot start" $? 1
same "leaves nothing" "$(one "$name")" ""
sed 's/^  outside:.*/  outside: {needs: [box], run: "podman kill '"$name"'; podman rm -f '"$name"'"}/' box.yaml > without.yaml
"$flowrun" without.yaml > out 2>&1
same "a container that is gone" $? 1
has "is named" out "container $name is gone, stopped or cannot be entered (exec ended with status"
finish
