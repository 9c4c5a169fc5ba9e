#!/bin/bash
# Whose a home is: one of another user, or that others can write, is not used; nor are folders of nodes
# in it that are. Whoever can write there decides what runs.
. "$(dirname "$0")/lib.sh"
begin "$1"
echo 'tasks: {a: {run: "echo ran"}}' > p.yaml

# refused WHAT TEXT COMMAND…: with exit code 7, and nothing is made in the home.
refused() {
    local what=$1 text=$2
    shift 2
    "$flowrun" "$@" > out 2>&1 < /dev/null
    same "$what: exit code" $? 7
    has "$what" out "$text"
    hasnt "$what: nothing ran" out "| ran"
}

mkdir -m 777 open
FLOWRUN_HOME=$work/open
for words in "p.yaml" "runs" "token list" "serve"; do
    refused "mode 777: $words" "the home $work/open (uid $(id -u), mode 0777) can be written by others, who could decide what runs: chmod go-w $work/open" $words
done
same "it was left alone" "$(ls -A open)" ""
chmod 770 open
refused "mode 770" "(uid $(id -u), mode 0770) can be written by others" p.yaml
chmod 1777 open
refused "mode 1777" "mode 1777) can be written by others" p.yaml
chmod 755 open
"$flowrun" p.yaml > out 2>&1
same "mode 755" $? 0

mkdir -m 777 above
mkdir -m 700 above/home
FLOWRUN_HOME=$work/above/home
refused "a folder above that all can write" "$work/above, above $work/above/home, is writable for everybody (uid $(id -u), mode 0777)" p.yaml
chmod 1777 above
"$flowrun" p.yaml > out 2>&1
same "a sticky one, as /tmp" $? 0
ln -s above/home link
FLOWRUN_HOME=$work/link
"$flowrun" p.yaml > out 2>&1
same "a home behind a link" $? 0

# a local node's folder: a link by the home's user is followed, what others can write there is not used
FLOWRUN_HOME=$work/home
"$flowrun" p.yaml > out 2>&1
mv home/nodes disk
ln -s "$work/disk" home/nodes
"$flowrun" p.yaml > out 2>&1
same "nodes on another disk" $? 0
chmod 777 disk/local
timeout 60 "$flowrun" p.yaml > out 2>&1
same "a node's folder of mode 777: it cannot be used" $? 6
has "a node's folder of mode 777" out "home/nodes/local (uid $(id -u), mode 0777) can be written by others"
hasnt "nothing ran there" out "| ran"
chmod 755 disk/local

# what another user has is for root to make
if [ "$(id -u)" = 0 ]; then
    mkdir -m 755 other
    chown 65534 other
    FLOWRUN_HOME=$work/other
    refused "another user's" "the home $work/other belongs to uid 65534 (mode 0755), who could decide what runs for uid 0: set FLOWRUN_HOME to a folder of your own" p.yaml
    SUDO_UID=65534 "$flowrun" p.yaml > out 2>&1
    same "under sudo, of the user who called it" $? 0
    FLOWRUN_HOME=$work/home
    chown -h 65534 home/nodes
    refused "a link by another user" "$work/home/nodes belongs to uid 65534" p.yaml
    chown -h 0 home/nodes
    chown 65534 disk/local
    timeout 60 "$flowrun" p.yaml > out 2>&1
    has "a node's folder of another user" out "home/nodes/local belongs to uid 65534"
    hasnt "nothing ran there" out "| ran"
fi
finish
