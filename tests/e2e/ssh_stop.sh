#!/bin/bash
# Over SSH: process trees that ignore SIGTERM, fork twice, call setsid, are halted (SIGSTOP), hold the
# rendezvous port, and, halted, a device as a GPU is held, stopped by cancel from another shell and by the time-out; retry --from; hooks run once; a sidecar gone after flowrun died.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"

# Processes of node $1 that the test's tasks left.
left() { on "$1" "pgrep -fx 'sleep 4242[0-9]' || :"; }
users() { on "$1" 'find /proc/[0-9]*/fd -lname /var/gpu0 2> /dev/null || :'; } # of the device
holders() { on "$1" 'ss -Hltn sport = :39500'; } # of the rendezvous port
nothing_left() {
    for i in 1 2 3; do
        same "$1: nothing is left on node$i" "$(left $i)" ""
        same "$1: the port of node$i is free" "$(holders $i)" ""
        same "$1: the device of node$i is free" "$(users $i)" ""
    done
}

{
    echo "name: trees"
    cat c/nodes.yaml
    cat <<'END'
params: {timeout: {default: 1h}}
env: {W: "${{ env.W }}"}
tasks:
  first: {on: all, run: "echo first >> /var/ran"}
  tree:
    needs: [first]
    on: all
    gang: true
    grace: 200ms
    timeout: ${{ params.timeout }}
    shell: bash
    run: |
      trap '' TERM
      echo tree >> /var/ran
      test ! -e /var/mended || exit 0
      setsid bash -c 'trap "" TERM; sleep 42421 & sleep 42422 & wait' &
      (setsid bash -c 'trap "" TERM; (sleep 42423 &) ; echo deep > /var/deep; sleep 42424' &)
      setsid bash -c 'trap "" TERM; exec 9<> /var/gpu0; sleep 42426 & until test "$(cat /proc/$!/comm)" = sleep; do :; done; kill -STOP $! $$' &
      (setsid python3 -c 'import os, signal, socket
      signal.signal(signal.SIGTERM, signal.SIG_IGN)
      s = socket.create_server(("", int(os.environ["MASTER_PORT"])))
      signal.pause()' &)
      until test -e /var/deep; do sleep 0.05; done
      echo grown
      wait
  last: {needs: [tree], on: all, run: "echo last >> /var/ran"}
on_cancel: [{name: say, run: "echo cancelled >> $W/hooks"}]
on_failure: [{name: bad, run: "echo failed >> $W/hooks"}]
on_exit: [{name: bye, on: all, run: "echo bye >> /var/hooks"}]
END
} > trees.yaml

for i in 1 2 3; do on $i "mknod /var/gpu0 c 1 3"; done
start trees.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "tree@node$i | grown"; done
for i in 1 2 3; do until_true 10 eval 'test "$(left $i | wc -l)" = 5 -a -n "$(holders $i)" -a -n "$(users $i)"'; done
(cd / && "$flowrun" cancel 1) > cancel 2>&1
same "cancel from another shell" $? 0
nothing_left "cancel"
has "it says so" cancel "run 1 is cancelled: 3 tasks stopped, no process of them is left"
wait "$pid"
same "the run's exit code" $? 3
same "the hook of this outcome" "$(cat hooks)" "cancelled"
for i in 1 2 3; do same "hooks of node$i" "$(on $i 'cat /var/hooks; rm /var/hooks /var/deep')" "bye"; done

rm hooks
"$flowrun" trees.yaml -p timeout=1500ms > out 2>&1
same "timed out" $? 1
check "the cause" grep -q "tree@node[123] timed_out" out
nothing_left "time-out"
same "the hook of this outcome" "$(cat hooks)" "failed"
for i in 1 2 3; do same "hooks of node$i" "$(on $i 'cat /var/hooks')" "bye"; done
for i in 1 2 3; do on $i 'rm -f /var/ran /var/deep; touch /var/mended'; done
(cd / && "$flowrun" retry 2 --from tree) > out 2>&1
same "retry --from" $? 0
for i in 1 2 3; do same "node$i ran what follows" "$(on $i 'cat /var/ran' | tr '\n' ' ')" "tree last "; done

{
    echo "name: side"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  main:
    on: all
    run: "until test -e /var/free; do sleep 0.05; done"
    sidecars: [{name: watch, run: "trap '' TERM; echo watching; sleep 42425 & wait"}]
END
} > side.yaml
start side.yaml
pid=$!
for i in 1 2 3; do until_true 30 holds out "main@node$i | [watch] watching"; done
kill -9 "$pid"
wait "$pid" 2> /dev/null
for i in 1 2 3; do check "the sidecar of node$i stands" test -n "$(left $i)"; done
for i in 1 2 3; do on $i 'touch /var/free'; done
for i in 1 2 3; do until_true 20 eval 'test -z "$(left $i)"'; done
"$flowrun" resume > out 2>&1
same "resume finds the end" $? 0
finish
