#!/bin/sh
# Runs libFuzzer on each target for RUNS inputs (or SECONDS, when they come first), and prints a
# table. What it learns is kept in BUILD/corpus; an input that fails is kept in BUILD/found.
# usage: run.sh BUILD RUNS SECONDS [TARGET…]    FUZZ_LEN: bytes of an input, 2048
set -u
build=$(cd "$1" && pwd) runs=$2 seconds=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
# Fast: no stacks of allocations, little kept in quarantine. A found input is looked at with both.
export TEST_DEADLINE=0 # -timeout below
export OMP_NUM_THREADS=1 # threads that wait for work spin
export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=0:quarantine_size_mb=2 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
[ $# -gt 0 ] || set -- $(ls "$here/seeds")
failed=0
printf '%-14s %12s %8s %8s  %s\n' target inputs seconds edges result
for target; do
    mkdir -p "$build/corpus/$target" "$build/found"
    log=$build/found/$target.log
    FUZZ_TARGET=$target "$build/tests/fuzz/fuzz" -runs="$runs" -max_total_time="$seconds" -max_len="${FUZZ_LEN:-2048}" -entropic=0 \
        -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 -artifact_prefix="$build/found/$target-" \
        "$build/corpus/$target" "$here/seeds/$target" > "$log" 2>&1
    rc=$?
    n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1 | cut -d' ' -f2)
    took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
    [ $rc -eq 0 ] && result=ok || { result="FAILED, see $log"; failed=1; }
    printf '%-14s %12s %8s %8s  %s\n' "$target" "${n:-?}" "${took:-?}" "${edges:-?}" "$result"
done
exit $failed
