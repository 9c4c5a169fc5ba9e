#!/bin/sh
# nvcc.sh, by a compiler that says what it is told: which lines of ptxas end the build.
# usage: nvcc_sh.sh NVCC_SH
set -u
script=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0

cat > "$folder/nvcc" << 'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = -o ] && : > "$2"
    shift
done
cat "$SAYS" >&2
exit "$STATUS"
END
chmod +x "$folder/nvcc"

row() { # NAME SOURCE STATUS-OF-THE-COMPILER WANTED-STATUS TEXT
    printf '%s\n' "$5" > "$folder/says"
    SAYS=$folder/says STATUS=$3 "$script" "$folder/nvcc" "$folder/x.o" "$folder/x.d" "$2" -O2 2> "$folder/err"
    got=$?
    [ -e "$folder/x.o" ] && object=yes || object=no
    [ "$4" = 0 ] && want=yes || want=no
    if [ "$got" = "$4" ] && [ "$object" = "$want" ] && { [ "$4" = 0 ] || grep -q -F -e "${5##*: }" "$folder/err"; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "[$1] status $got, object $object"
        cat "$folder/err"
    fi
    rm -f "$folder/x.o"
}
serialised="ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due to"
row "nothing said" product_sm90.cu 0 0 "ptxas info    : Used 168 registers"
row "no spills" product_sm90.cu 0 0 "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
row "serialised" product_sm90.cu 0 1 "$serialised"
row "serialised, any source" rows.cu 0 1 "$serialised"
for code in 7504 7509 7510 7511 7514 7515; do
    row "C$code" product_sm90.cu 0 1 "ptxas info    : (C$code) said"
done
row "another line" product_sm90.cu 0 0 "ptxas info    : (C7516) said"
row "spills" product_sm90.cu 0 1 "    56 bytes stack frame, 108 bytes spill stores, 128 bytes spill loads"
row "spills where there is room" rows.cu 0 0 "    56 bytes stack frame, 108 bytes spill stores, 128 bytes spill loads"
row "an error" rows.cu 2 1 "rows.cu(7): error: expected a ;"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
