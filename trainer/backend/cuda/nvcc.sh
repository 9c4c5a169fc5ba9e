#!/bin/sh
# Compiles one source of the CUDA backend.
#
# usage: nvcc.sh NVCC OBJECT DEPFILE SOURCE ARGUMENT...
#
# ptxas says by lines of "info" alone that it serialised the products of a warpgroup or ignored
# setmaxnreg (C7504 to C7515), and that a kernel keeps registers in memory. The first ends the build,
# the second does in the sources for sm_90a, whose loops have no room for it.
nvcc=$1 object=$2 depfile=$3 source=$4
shift 4
log=$object.log

"$nvcc" -c "$source" -o "$object" -MD -MF "$depfile" -Xptxas -v "$@" > "$log" 2>&1 || {
    grep -v 'ptxas info' "$log" >&2
    rm -f "$object"
    exit 1
}
bad=$(grep -E '\(C75(0[4-9]|1[0-5])\)' "$log")
case $source in
*_sm90.cu) bad=$bad$(grep -B 1 -E '[1-9][0-9]* bytes spill' "$log") ;;
esac
if [ -n "$bad" ]; then
    printf '%s\n' "$source: ptxas says what must not be:" "$bad" >&2
    rm -f "$object"
    exit 1
fi
rm -f "$log"
