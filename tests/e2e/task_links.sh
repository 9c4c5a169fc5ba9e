#!/bin/bash
# Somebody who owns the work folder on a node puts symbolic links where built-in tasks write and
# remove, while these run as root: nothing behind a link is read, changed or removed.
# usage: task_links.sh BUILD
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || skip "root is needed: it works in the folder of another user"
begin "$1"

mkdir -p victim/folder theirs/out/checkpoint-2 theirs/out/checkpoint-7 theirs/published theirs/result
echo canary > victim/folder/file
echo '{"version": "v0", "published_ms": 1, "run": "none", "files": []}' > victim/folder/manifest.json
chmod 700 victim victim/folder
kept() { find victim -printf '%p %m %u %l\n' -exec cat {} \; 2> /dev/null | sha256sum; }
before=$(kept)
prefix=/tmp/${work##*/}

# where the janitor removes: a checkpoint, a folder in one, what it left half removed
ln -s "$work/victim/folder" theirs/out/checkpoint-1
ln -s "$work/victim/folder" theirs/out/checkpoint-2/optimizer
ln -s "$work/victim/folder/file" theirs/out/checkpoint-2/weights
ln -s "$work/victim/folder" theirs/out/.checkpoint-3.removing
head -c 100000 /dev/zero > theirs/out/checkpoint-2/large
echo x > theirs/out/checkpoint-7/x
# where publish sweeps, drops old versions, and switches its link
ln -s "$work/victim/folder" theirs/published/.publish-left
ln -s "$work/victim/folder" theirs/published/v0
ln -s "$work/victim/folder" theirs/published/latest
echo result > theirs/result/adapter
chown -hR 65534 theirs

cat > p.yaml <<YAML
nodes: [{name: n1, executor: local}]
env: {T: $work/theirs}
tasks:
  train:
    run: 'until test ! -e \$T/out/checkpoint-2 && test ! -e \$T/out/.checkpoint-2.removing; do sleep 0.05; done'
    sidecars: [{uses: janitor, with: {dir: $work/theirs/out, max_size: 1KiB, keep_checkpoints: 1, interval: 50ms}}]
  publish: {uses: publish, with: {from: $work/theirs/result, to: $work/theirs/published, version: v1, keep: 1}}
  again: {needs: [publish], uses: publish, with: {from: $work/theirs/out/checkpoint-7, to: $work/theirs/published, version: v2, keep: 1}}
  plant: # what cleanup removes: of attempts that have ended
    run: |
      mkdir $prefix-\$FLOWRUN_ATTEMPT
      ln -s $work/victim/folder $prefix-\$FLOWRUN_ATTEMPT/link
      ln -s $work/victim/folder $prefix-\$FLOWRUN_ATTEMPT-link
      touch $work/planted
  cleanup: {needs: [plant], uses: cleanup, with: {globs: ['$prefix-*'], owner: self}}
YAML
"$flowrun" p.yaml > out 2>&1
same "they all run: exit code" $? 0
same "what the links lead to is as it was" "$(kept)" "$before"
check "a checkpoint that is a link is none" test -L theirs/out/checkpoint-1
check "one with links in it is gone" test ! -e theirs/out/checkpoint-2
check "what was half removed, too" test ! -L theirs/out/.checkpoint-3.removing
same "the newest version is shown" "$(readlink theirs/published/latest)" v2
check "what a killed publish left is gone" test ! -L theirs/published/.publish-left
check "and what cleanup named" test -e planted
same "all of it" "$(echo "$prefix"-*)" "$prefix-*"

# a file that would be written through
rm -f theirs/published/.lock
ln -s "$work/victim/folder/file" theirs/published/.lock
cat > lock.yaml <<YAML
nodes: [{name: n1, executor: local}]
tasks: {publish: {uses: publish, retry: {times: 0}, with: {from: $work/theirs/result, to: $work/theirs/published, version: v3}}}
YAML
"$flowrun" lock.yaml > out 2>&1
same "a lock that is a link" $? 1
has "is named" out "cannot make $work/theirs/published/.lock"
same "and not followed" "$(kept)" "$before"
rm -rf "$prefix"-*
finish
