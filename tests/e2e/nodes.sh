#!/bin/bash
# nodes.sh NODES_TEST FLOWNODE: the node executor on this machine and, where they can be, on cluster nodes
here=$(cd "$(dirname "$0")" && pwd)
flownode_dir=$(cd "$(dirname "$2")" && pwd)
dir=$(mktemp -d)
if "$here/cluster.sh" up "$dir"; then
    "$1" "$flownode_dir" "$dir" "$here/cluster.sh"
    rc=$?
    "$here/cluster.sh" down "$dir"
else
    rc=$?
    [ $rc != 77 ] || { "$1" "$flownode_dir"; rc=$?; }
fi
rm -rf "$dir"
exit $rc
