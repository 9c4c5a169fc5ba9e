#!/bin/bash
# Loading a checkpoint of 2 GB beside plain reads of its files, by turns: seconds by the clock and of the processors,
# from the page cache and from the disk. A load fills fresh memory of that size, as "read into memory" does (large pages
# where the kernel has them; "small pages": malloc's); "read into a buffer" fills one of 16 MB again and again. A minute or two.
#
# usage: load.sh BUILD [ROUNDS]
. "$(dirname "$0")/measure.sh"
[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
build=$(realpath "$1")
rounds=${2:-7}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work" || exit 1

"$build/trainer/cli/flowtrain" init --example ex > /dev/null || exit 1
sed -e 's/"hidden_size": [0-9]*/"hidden_size": 1024/; s/"num_hidden_layers": [0-9]*/"num_hidden_layers": 6/' \
    -e 's/"moe_intermediate_size": [0-9]*/"moe_intermediate_size": 1024/; s/"intermediate_size": [0-9]*/"intermediate_size": 4096/' \
    -e 's/"n_routed_experts": [0-9]*/"n_routed_experts": 64/' ex/model/config.json > config.json
"$build/trainer/cli/flowtrain" init --config config.json --output model --shard_bytes 500MB > /dev/null || exit 1
about "$rounds"
for from in cache disk; do
    "$build/tests/bench/bench_load" model "$rounds" $([ $from = disk ] && echo cold) > took 2> /dev/null || { cat took; exit 1; }
    for what in "read into a buffer" "read into small pages" "read into memory" load; do
        grep "^$what  " took | sed 's/.*  *\([0-9.]*\) s,.* \([0-9.]*\) s of.*/\1 \2/' > both
        row "from the $from: $what" "$(awk '{print int(100 * $1)}' both | median | awk '{print $1 / 100}') s, \
$(awk '{print int(100 * $2)}' both | median | awk '{print $1 / 100}') s of processors"
    done
done
