#!/bin/bash
# The shipped pipeline in real containers (podman with runc) on three SSH nodes, from an image that holds
# nothing but busybox; and trees in a container that ignore SIGTERM, fork twice, call setsid and are halted,
# ended by cancel and by the time-out.
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"

box
cat > podman <<'END'
#!/bin/sh
export CONTAINERS_CONF=/var/cc.conf
exec /usr/bin/podman --root /root/pod/store --runroot /root/pod/run "$@"
END
for i in 1 2 3; do
    on $i 'cat > /var/cc.conf' < cc.conf
    on $i 'cat > /usr/local/bin/podman; chmod 755 /usr/local/bin/podman' < podman
done
on 1 'podman import - bb:1' < bb.tar > pod.out 2>&1
boxes_run "$cluster" exec "$work/c" 1 podman || { cat pod.out; skip "podman runs no container here"; }
on 1 'podman save bb:1' > image.tar 2> /dev/null
for i in 2 3; do on $i 'cat > /var/image.tar && podman load -i /var/image.tar' < image.tar > /dev/null 2>&1; done

# Removes node $1's containers, and waits for the processes in which podman cleans up behind them.
unbox_node() { on "$1" 'podman kill -a; podman rm -fa; while pgrep -f "[-]-root /root/pod/store"; do sleep 0.05; done' > /dev/null 2>&1; }

# Containers must not outlive the nodes, nor their control groups.
ended() {
    for i in 1 2 3; do unbox_node $i; done
    leave_cgroups
}
trap 'ended; "$cluster" down "$work/c"; cleanup' EXIT

"$flowrun" pipelines/deepseek-lora.yaml -p nodes=c/nodes.yaml -p image=bb:1 -p max_steps=6 \
    -p save_steps=3 > out 2>&1
same "the pipeline in containers" $? 0
has "the end" out "run 1 succeeded"
box=deepseek-lora-$("$flowrun" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["id"])')
for i in 1 2 3; do
    has "node$i had the container of this run" out "container@node$i | container: start container $box of image bb:1"
    same "and has none any more" "$(on $i "podman ps -a --format '{{.Names}}'")" ""
done
check "training ran in it" grep -q "train@node1 | {'loss': " out
check "published" on 1 'test -s /root/.local/state/flowrun/*/work/published/latest/adapter_model.safetensors'

{
    echo "name: trees"
    cat c/nodes.yaml
    cat <<'END'
params: {timeout: {default: 1h}}
tasks:
  box: {uses: container, on: all, with: {image: "bb:1", name: trees, network: host}}
  tree:
    needs: [box]
    on: all
    in: box
    grace: 200ms
    timeout: ${{ params.timeout }}
    run: |
      trap '' TERM
      test ! -e /usr/bin/awk || exit 9
      setsid sh -c 'trap "" TERM; env sleep 42421 & env sleep 42422 & wait' &
      (setsid sh -c 'trap "" TERM; (env -i sleep 42423 &) ; touch /tmp/deep; env sleep 42424' &)
      sh -c 'trap "" TERM; env sleep 42425 & until test "$(cat /proc/$!/comm)" = sleep; do :; done; kill -STOP $! $$' &
      until test -e /tmp/deep; do sleep 0.05; done
      echo grown
      wait
END
} > trees.yaml
# (env: Ubuntu's busybox would sleep in its shell)
left() { on "$1" "pgrep -f '^sleep 4242[0-9]' || :"; }
start trees.yaml
pid=$!
for i in 1 2 3; do until_true 40 holds out "tree@node$i | grown"; done
for i in 1 2 3; do until_true 10 eval 'test "$(left $i | wc -l)" = 5'; done
"$flowrun" cancel > cancel 2>&1
has "cancel found nothing left" cancel "3 tasks stopped, no process of them is left"
wait "$pid"
same "cancelled" $? 3
for i in 1 2 3; do same "nothing is left in the container of node$i" "$(left $i)" ""; done
for i in 1 2 3; do has "the container of node$i stands" <(on $i "podman ps --format '{{.Names}}'") "trees"; done
"$flowrun" trees.yaml -p timeout=1500ms > out 2>&1
same "timed out" $? 1
check "the cause" grep -q "tree@node[123] timed_out" out
for i in 1 2 3; do same "nothing is left in the container of node$i" "$(left $i)" ""; done

# an image of the same name that is another one
unbox_node 3
on 3 'podman rmi -f bb:1; podman import - bb:1' < bb.tar > /dev/null 2>&1
"$flowrun" trees.yaml -p timeout=20s > out 2>&1
same "another image on one node" $? 1
has "is named" out "node3 has image bb:1"
finish
