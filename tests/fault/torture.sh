#!/bin/bash
# The long forms of the tests of this folder, and a row of each for results.md: usage torture.sh BUILD [SEED]
set -u
export TEST_DEADLINE=0
build=$(cd "${1:?the build folder}" && pwd)
seed=${2:-1}
here=$(cd "$(dirname "$0")" && pwd)
status=0

row() {
    local name=$1
    shift
    "$@" > "$build/torture.$name.log" 2>&1 || status=1
    echo "| $(date -u +%F) | $name | $seed | $(tail -2 "$build/torture.$name.log" | tr '\n' ' ')|" | tee -a "$here/results.md"
}

row kill "$build/tests/fault/kill_test" all "$seed"
row queued "$build/tests/fault/queued_test" all "$seed"
row nth "$build/tests/fault/nth_test" all
row kill_real "$build/tests/fault/real_test" "$build/engine/cli/flowrun" long all "$seed"
row random "$build/tests/fault/random_test" "$seed" 20000
row hosts "$build/tests/fault/hosts_test" "$seed" 20000
row storms "$build/tests/fault/hosts_test" "$((1000000 + seed))" 20000
row fires "$build/tests/fault/fires_test" "$seed" 700
row fires_kill python3 "$here/fires_kill.py" "$build" 400 "$seed"
row sim "$build/tests/sim/sim_test" "$seed" 5000
exit $status
