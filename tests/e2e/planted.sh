#!/bin/bash
# Somebody puts a symbolic link where the home on control has a folder or a file of its own: nothing
# is written or read through it, the message names it, and all goes on once it is removed. And on a
# node somebody puts a program in flownode's place: it is never executed.
. "$(dirname "$0")/lib.sh"
begin "$1"

mkdir elsewhere
echo canary > elsewhere/canary
refused="is a symbolic link, which flowrun has not made: remove it"

# Under a run: the folder of its logs, between two tasks.
cat > p.yaml <<'END_OF_FILE'
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks:
  a: {run: "echo one; until test -e $W/go; do sleep 0.05; done"}
  b: {needs: [a], run: "echo two"}
END_OF_FILE
start p.yaml
pid=$!
until_true 20 holds out "a@n1 | one"
dir=$work/$(echo home/runs/*)
mv "$dir" aside
ln -s "$work/elsewhere" "$dir"
touch go
until_true 20 holds out "b@n1: its output stays on the node until it can be written here: $dir $refused"
same "nothing is written there" "$(ls elsewhere)" canary
rm "$dir" && mv aside "$dir"
wait "$pid"
same "the run: exit code" $? 0
has "its output came later" out "b@n1 | two"

# Behind it: logs and retry of it, with the folder replaced and with a log replaced.
mv "$dir" aside
ln -s "$work/elsewhere" "$dir"
for c in "logs" "retry 1 --from b"; do
    "$flowrun" $c > out 2>&1
    same "$c: exit code" $? 7
    has "$c: refused" out "flowrun: $dir $refused"
done
rm "$dir" && mv aside "$dir"
log=$(echo "$dir"/b@n1.1.log)
mv "$log" aside
ln -s "$work/elsewhere/canary" "$log"
"$flowrun" logs > out 2>&1
same "a log: exit code" $? 7
has "a log is named" out "cannot read $log: "
hasnt "a log is not followed" out canary
rm "$log" && mv aside "$log"

# Folders of the home, its lock.
for d in runs blobs spool; do
    mv "home/$d" aside
    ln -s "$work/elsewhere" "home/$d"
    "$flowrun" p.yaml > out 2>&1
    same "$d: exit code" $? 7
    has "$d: refused" out "flowrun: $work/home/$d $refused"
    rm "home/$d" && mv aside "home/$d"
done
mv home/host.lock aside
ln -s "$work/elsewhere/lock" home/host.lock
"$flowrun" retry 1 --from b > out 2>&1
same "a lock: exit code" $? 7
has "a lock is named" out "flowrun: opening $work/home/host.lock: "
rm home/host.lock && mv aside home/host.lock

"$flowrun" retry 1 --from b > out 2>&1
same "all is as it was" $? 0
same "nothing is changed elsewhere" "$(ls elsewhere) $(cat elsewhere/canary)" "canary canary"
# A node whose work folder others can write. `ssh` is a script here that knows of no configuration and
# gives the command to a shell on this machine, with a home of its own; flowrun, the dialogue and flownode are the real ones.
mkdir bin far
cat > bin/ssh <<'END_OF_FILE'
#!/bin/sh
for c; do [ "$c" != -G ] || exec printf 'user me\nhostname far\nport 22\n'; done
HOME=$W/far exec sh -c "$c"
END_OF_FILE
chmod +x bin/ssh
unset XDG_CACHE_HOME XDG_STATE_HOME
hash=$(sha256sum < "$build/tasks/flownode")
hash=${hash%% *}
uid=$(id -u)

# far ROW WORK: runs a task on a node with that work folder; its output is in out, the home in where.
far() {
    row=$1
    rm -f ran
    cat > far.yaml <<END_OF_FILE
nodes: [{name: far, executor: ssh, address: far, transport: openssh${2:+, work: "$2"}}]
env: {W: "$W"}
tasks: {t: {run: 'touch \$W/ran; echo "home=\$FLOWRUN_NODE_HOME" > \$W/where'}}
END_OF_FILE
    PATH=$work/bin:$PATH "$flowrun" far.yaml > out 2>&1
    rc=$?
}

# plant FILE [MODE]: a program that says that it was executed. It is renamed into place, since a flownode
# of the task before may still execute FILE.
plant() {
    printf '#!/bin/sh\ntouch %s/owned\nexit 0\n' "$work" > "$1.new"
    chmod "${2:-755}" "$1.new"
    mv "$1.new" "$1"
}
held() {
    same "$row: exit code" "$rc" 0
    check "$row: the task ran" test -e ran
    check "$row: nothing planted was executed" test ! -e owned
    rm -f owned
}

mkdir -m 777 shared
chmod 777 shared # the umask took something
plant "shared/flownode-$hash"
far "a shared work folder" "$work/shared"
held
check "the home is in a private folder" grep -q "^home=$work/shared/flowrun-$uid/" where
same "which is private" "$(stat -c '%a %u' "shared/flowrun-$uid")" "700 $uid"
check "and so is the program" test -x "shared/flowrun-$uid/flownode-$hash"

own=shared/flowrun-$uid/flownode-$hash
plant "$own"
far "another program under its name" "$work/shared"
held
check "it was replaced" cmp -s "$own" "$build/tasks/flownode"
has "which was said" out "installing flownode"

chmod 777 "$own"
far "the right program, but others can write to it" "$work/shared"
held
has "it was replaced" out "installing flownode"
same "its mode" "$(stat -c %a "$own")" 755
chmod 775 "$own"
far "the right program, but its group can write to it" "$work/shared"
held
has "it was replaced, too" out "installing flownode"
far "the right program" "$work/shared"
held
hasnt "it is taken as it is" out "installing flownode"

rm "$own"
plant planted
ln -s "$work/planted" "$own"
far "a link under its name" "$work/shared"
held
check "the link is gone" test ! -L "$own"

mkdir group
chmod 775 group
plant "group/flownode-$hash"
far "a work folder of a group" "$work/group"
held
check "a private folder in it, too" grep -q "^home=$work/group/flowrun-$uid/" where

mkdir -p far/.cache/flowrun
chmod 777 far/.cache/flowrun
plant "far/.cache/flowrun/flownode-$hash"
far "a shared cache folder" ""
held
check "a private folder in it" test -x "far/.cache/flowrun/flowrun-$uid/flownode-$hash"
far "a shared cache folder, again" ""
hasnt "what is there is taken" out "installing flownode"

rm -r "shared/flowrun-$uid"
ln -s "$work/elsewhere" "shared/flowrun-$uid"
far "a link for the private folder" "$work/shared"
same "a link for the private folder: exit code" "$rc" 6
has "is named" out "the work folder $work/shared cannot be used: others can write to $work/shared/flowrun-$uid, or"
same "nothing is written through it" "$(ls elsewhere)" canary
rm "shared/flowrun-$uid"

if [ "$uid" = 0 ]; then
    mkdir -p foreign "foreign2/flowrun-0"
    plant "foreign/flownode-$hash"
    plant "foreign2/flowrun-0/flownode-$hash"
    chown -R nobody foreign foreign2
    far "somebody else's work folder" "$work/foreign"
    held "somebody else's work folder"
    check "the home is in a private folder" grep -q "^home=$work/foreign/flowrun-0/" where
    far "somebody else's private folder" "$work/foreign2"
    check "nothing planted was executed" test ! -e owned
    same "somebody else's private folder: exit code" "$rc" 6
    has "is named" out "the work folder $work/foreign2 cannot be used: "
fi

# A work folder that cannot be used is an error that names it and the reason.
echo file > notdir
for w in "$work/notdir:File exists" "/proc/nowhere:No such file"; do
    far "no folder" "${w%%:*}"
    same "${w%%:*}: exit code" "$rc" 6
    check "${w%%:*}: nothing ran" test ! -e ran
    has "${w%%:*}: is named" out "the work folder ${w%%:*} cannot be used: mkdir: "
    has "${w%%:*}: with the reason" out "${w#*:}"
done
same "nothing is left running" "$(left)" ""
finish
