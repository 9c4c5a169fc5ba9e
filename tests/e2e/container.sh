#!/bin/bash
# Tasks in a real container (podman with runc, its own storage, an image of busybox alone): output and
# outputs come back, cancel and time-out end a tree that ignores SIGTERM, flowrun's death changes nothing.
. "$(dirname "$0")/lib.sh"
begin "$1"
[ "$(id -u)" = 0 ] || skip "needs root"
own_podman

cat > boxed.yaml <<END
name: boxed
nodes: [{name: n1, executor: local}]
params: {timeout: {default: 1h}, what: {default: wait}}
tasks:
  box:
    uses: container
    with: {image: "bb:1", runtime: podman, name: "$(basename "$work")", gpus: none, pull: never, mounts: ["$work/shared:/shared"]}
  work:
    needs: [box]
    in: box
    outputs: [where]
    grace: 200ms
    timeout: \${{ params.timeout }}
    env: {WHAT: "\${{ params.what }}"}
    run: |
      test -e /bin/busybox && ! test -e /usr && echo "in the box"
      echo "where=\$(cat /etc/inside)" >> "\$FLOWRUN_OUTPUT"
      case \$WHAT in
      tree)
        trap '' TERM
        (setsid sh -c 'trap "" TERM; (env -i sleep 1000) & sleep 1001' &)
        echo grown
        while :; do sleep 1; done ;;
      wait) until test -e /shared/free; do sleep 0.05; done ;;
      esac
      echo "leaves the box"
  after:
    needs: [work]
    env: {WHERE: "\${{ tasks.work.outputs.where }}"}
    run: echo "it was \$WHERE"
END
echo "a container" > bb/etc/inside
tar -C bb -c . | podman import - bb:1 > /dev/null 2>&1
mkdir shared

start boxed.yaml
pid=$!
until_true 60 holds out "work@n1 | in the box"
kill -9 "$pid"
wait "$pid" 2> /dev/null
touch shared/free
"$flowrun" resume > out 2>&1
same "resumed, into the container" $? 0
has "output from there" out "work@n1 | leaves the box"
has "an output from there" out "after@n1 | it was a container"
same "once" "$("$flowrun" status 1 | awk '/^work@n1/ {print $3; exit}')" 1

inside() { podman exec "$(basename "$work")" sh -c 'for p in /proc/[0-9]*; do cat "$p/cmdline" 2> /dev/null; echo; done' | tr '\0' ' ' | grep -c "sleep 100[01]"; }
start boxed.yaml -p what=tree
pid=$!
until_true 60 holds out "work@n1 | grown"
check "the tree stands" test "$(inside)" -ge 2
"$flowrun" cancel > /dev/null
wait "$pid"
same "cancelled" $? 3
same "nothing is left inside" "$(inside)" 0

"$flowrun" boxed.yaml -p what=tree -p timeout=2s > out 2>&1
same "timed out" $? 1
has "the cause" out "work@n1 timed_out"
same "nothing is left inside" "$(inside)" 0
finish
