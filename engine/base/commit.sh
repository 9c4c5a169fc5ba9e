#!/bin/sh
# Prints the commit that this tree is of, with -dirty where tracked files differ; of a tree without
# git that `git archive` made, what that wrote here; else nothing's name.
top=$(cd "$(dirname "$0")/../.." && pwd -P)
archived='$Format:%h$'
export GIT_OPTIONAL_LOCKS=0 # it only looks
if [ "$(git -C "$top" rev-parse --show-toplevel 2> /dev/null)" = "$top" ]; then
    git -C "$top" describe --always --dirty --abbrev=12 --exclude='*'
else
    case $archived in \$*) echo "no commit" ;; *) echo "$archived" ;; esac
fi
