#!/bin/bash
# Over SSH: cleanup ends what it is told to and spares look-alikes; preflight marks a node that differs
# and names the mismatch behind error 802 (recorded outputs of nvidia-smi and of the Fabric Manager).
. "$(dirname "$0")/ssh_lib.sh"
begin_nodes "$1"
fixtures=$repo/tests/unit/fixtures

# Whatever the umask of the login shell: what is kept there is closed to others, while a task runs
# and at the end of this script; the task has the umask of its user.
on 1 'echo "umask 0" > /root/.bashrc'
on 2 'echo "umask 077" > /root/.bashrc'
on 3 'echo "umask 027" > /root/.bashrc'
mkdir ship
echo x > ship/f
chmod 777 ship ship/f
{
    echo "name: masks"
    cat c/nodes.yaml
    cat <<'END'
tasks:
  t:
    on: all
    files: {in: ship}
    outputs: [k]
    run: |
      echo "k=$(umask)" > "$FLOWRUN_OUTPUT"
      echo "umask $(umask)"
      find /root/.cache/flowrun /root/.local/state/flowrun -perm /077 ! -path '*/work/*' ! -name 'flownode-*' -printf 'open: %p\n'
END
} > masks.yaml
"$flowrun" masks.yaml > out 2>&1
same "umasks of login shells" $? 0
hasnt "nothing is open to others while it runs" out "open: "
for pair in 1:0000 2:0077 3:0027; do has "the task's umask" out "t@node${pair%:*} | umask ${pair#*:}"; done

# A sleeper on node $1 called $2, started by user $3.
sleeper() {
    on "$1" "mkdir -p /var/stale; test -e /var/stale/$2 || install -m 755 /bin/sleep /var/stale/$2
             setsid setpriv --reuid $3 --clear-groups /var/stale/$2 60000 > /dev/null 2>&1 < /dev/null &
             until pgrep -x $2 -U $3 > /dev/null; do sleep 0.02; done"
}
lives() { [ -n "$(on "$1" "pgrep -x $2 -U $3 || :")" ]; }
for i in 1 2 3; do sleeper $i flowtrain 0; sleeper $i flowtrains 0; done
sleeper 2 flowtrain 65534
cat > listen.py <<'END'
import os, signal, socket, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
s = socket.socket()
s.bind(("", int(sys.argv[1])))
s.listen()
with open("/var/pid", "w") as f: f.write(str(os.getpid()))
os.rename("/var/pid", "/var/listens." + sys.argv[1])
signal.pause()
END
for port in 39500 39499; do
    on 3 "cat > /var/listen.py" < listen.py
    on 3 "setsid python3 /var/listen.py $port > /dev/null 2>&1 < /dev/null & until test -e /var/listens.$port; do sleep 0.02; done"
done
on 1 'mkdir /var/precious; touch /var/precious/x /dev/shm/nccl-AbCd /dev/shm/others /tmp/flowtrain.9 /tmp/flow
      ln -s /var/precious /dev/shm/nccl-link'
{
    echo "name: clean"
    cat c/nodes.yaml
    echo "tasks: {clean: {uses: cleanup, on: all, with: {processes: [flowtrain], port: 39500, shm: true, tmp: true, grace: 300ms}}}"
} > clean.yaml
"$flowrun" clean.yaml > out 2>&1
same "cleanup" $? 0
for i in 1 2 3; do
    check "node$i: the target is gone" eval "! lives $i flowtrain 0"
    check "node$i: the look-alike lives" lives $i flowtrains 0
done
check "another user's lives" lives 2 flowtrain 65534
check "who held the port is gone" on 3 '! kill -0 $(cat /var/listens.39500) 2> /dev/null'
check "its neighbour is not" on 3 'kill -0 $(cat /var/listens.39499)'
same "leftovers" "$(on 1 'ls -d /dev/shm/nccl-AbCd /tmp/flowtrain.9 2> /dev/null')" ""
check "files of others" on 1 'test -e /dev/shm/others && test -e /tmp/flow && test -e /var/precious/x'
for i in 1 2 3; do on $i 'pkill -x flowtrains; pkill -x flowtrain; rm -rf /var/stale'; done

# Three nodes of the same GPUs; then node2 has another driver, under an unchanged Fabric Manager.
cat > nvidia-smi <<'END'
#!/bin/sh
case "$*" in
*query-gpu*) cat /var/fix/gpus ;;
*query-compute-apps*) : ;;
*) cat /var/fix/banner ;;
esac
END
printf '#!/bin/sh\ncat /var/fix/fabric\n' > nv-fabricmanager
for i in 1 2 3; do
    on $i 'mkdir -p /var/fix'
    on $i 'cat > /var/fix/gpus' < "$fixtures/nvidia-smi-query.csv"
    on $i 'cat > /var/fix/banner' < "$fixtures/nvidia-smi-banner.txt"
    on $i 'cat > /var/fix/fabric' < "$fixtures/fabric-manager.txt"
    on $i 'cat > /usr/local/bin/nvidia-smi; chmod 755 /usr/local/bin/nvidia-smi' < nvidia-smi
    on $i 'cat > /usr/local/bin/nv-fabricmanager; chmod 755 /usr/local/bin/nv-fabricmanager' < nv-fabricmanager
done
{
    echo "name: flight"
    cat c/nodes.yaml
    echo "tasks: {check: {uses: preflight, on: all, with: {port: 39500, gpus: 3, fabric_manager: require}}}"
} > flight.yaml
"$flowrun" flight.yaml > out 2>&1
same "nodes that are alike" $? 0
hasnt "nothing is marked" out "| *"
on 2 "sed -i s/535.129.03/535.183.01/ /var/fix/gpus"
"$flowrun" flight.yaml > out 2>&1
same "a node that differs" $? 1
check "it is marked in the table" grep -q "| node2 .*\*535.183.01" out
check "its cause" grep -q "node2: .*802" out
has "its cure" out "nvidia-fabricmanager-535 in version 535.183.01"
has "the difference" out "535.183.01, node1 has 535.129.03"
for i in 1 3; do check "node$i is not marked" eval "! grep -q '| node$i .*\*' out"; done
on 2 "sed -i s/535.183.01/535.129.03/ /var/fix/gpus"
on 3 "head -2 /var/fix/gpus > /var/fix/g && mv /var/fix/g /var/fix/gpus"
"$flowrun" flight.yaml > out 2>&1
same "a GPU that is missing" $? 1
has "is named" out "node3: 2 GPUs, 3 are wanted"
for i in 1 2 3; do
    check "flownode was shipped to node$i" on $i 'ls /root/.cache/flowrun/flownode-* > /dev/null'
    # flownode itself is no secret, and lies in a folder that is closed
    same "nothing on node$i is open to others, but in the work folder" "$(on $i \
        'find /root/.cache/flowrun /root/.local/state/flowrun -perm /077 ! -path "*/work/*" ! -name "flownode-*"')" ""
done
finish
