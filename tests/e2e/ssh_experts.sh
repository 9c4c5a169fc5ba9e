#!/bin/bash
# Experts that stay on their ranks, over three sshd nodes with two ranks each. A link is down for 20 s: the same
# attempt goes on, with the losses of an uninterrupted run. A training is gone on with in groups of other sizes, and
# with as many samples a step on half of the ranks: the losses are the same within the bound of the type.
#
# usage: ssh_experts.sh BUILD [letters]   letters: a rank is killed at each step of a layer's exchange instead
#
# Letters by hand (gdb, five minutes): F1 the plan, F2 the choices, F3 rows to nodes, F4 to ranks, F5 the experts,
# F6 parts back to where they are summed, F7 home; in the backward B1 rows to nodes and to ranks, B2 the experts, B3
# back and home, B4 the router. The gang is tried again from its newest state and ends in the same bits.
. "$(dirname "$0")/ssh_lib.sh"
[ "${2:-}" != letters ] || command -v gdb > /dev/null || skip "no gdb"
begin_nodes "$1"
stay=(-p deepspeed=pipelines/ds_experts.json)
undisturbed "${stay[@]}"
has "the layout" out "Experts stay, tokens move: 8 routed experts a layer over 6 ranks"

as_whole() { # FOLDER: the same losses and adapter as the undisturbed run
    losses "$1" > "$1.log"
    check "$1: losses" diff whole.log "$1.log"
    same "$1: adapter" "$(adapter "$1")" "$(adapter whole)"
}

# The calls of a group by what they carry, at the entry of the function: its third argument is in rdx.
exchange() { echo "break *tr_comm_all_to_allv if \$_regex(*(char**)(\$rdx+48), \".*, tokens $1\")"; }
choices='break *tr_comm_all_gather if $_regex(*(char**)($rdx+16), ".* moe")'

# kill_at FOLDER FIRST BREAK: a rank of node2 dies there, behind the first call of FIRST.
kill_at() {
    local victim pid at
    half "$1"
    start half.yaml -p output_dir="$1" "${stay[@]}"
    pid=$!
    two_ranks() { test "$(ranks 2 | wc -l)" = 2; }
    until_true 60 two_ranks
    victim=$(ranks 2 | tail -1)
    begun
    at=$(on 2 "sed -n '/flowtrain.bin/{s/-.*//p;q}' /proc/$victim/maps") # its loader is the program that gdb sees
    on 2 "gdb -q -batch -p $victim -ex 'add-symbol-file /var/flowtrain -o 0x$at' -ex 'tbreak *$2' -ex 'shell touch /var/attached-$1' -ex continue \
        -ex '$3' -ex continue -ex kill" > "$1.gdb" 2>&1 &
    until_true 60 on 2 "test -e /var/attached-$1"
    release "$1"
    until_true 60 holds out "train@node3 running (attempt 2)"
    wait "$pid"
    same "$1: the run" $? 0
    check "$1: killed there" grep -q '^\[Inferior 1 (process [0-9]*) killed\]' "$1.gdb"
    check "$1: at its letter" grep -q 'Breakpoint 2, ' "$1.gdb"
    as_whole "$1"
}

letters() {
    on 2 'cat > /var/flowtrain' < "$flowtrain" # what was shipped has no symbols
    kill_at F1 tr_embed_fwd 'break *tr_route_plan'
    kill_at F2 tr_embed_fwd "$choices"
    kill_at F3 tr_embed_fwd "$(exchange 'to nodes')"
    kill_at F4 tr_embed_fwd "$(exchange 'to ranks')"
    kill_at F5 tr_embed_fwd 'break *tr_grouped_gemm'
    kill_at F6 tr_embed_fwd "$(exchange back)"
    kill_at F7 tr_embed_fwd "$(exchange home)"
    kill_at B1-nodes tr_xent_finish "$(exchange 'to nodes')"
    kill_at B1-ranks tr_xent_finish "$(exchange 'to ranks')"
    kill_at B2 tr_xent_finish 'break *tr_swiglu_bwd'
    kill_at B3-back tr_xent_finish "$(exchange back)"
    kill_at B3-home tr_xent_finish "$(exchange home)"
    kill_at B4 tr_xent_finish 'break *tr_router_bwd'
}

link_down() {
    local pid
    half cut
    start half.yaml -p output_dir=cut "${stay[@]}"
    pid=$!
    begun
    cut_for_20s cut
    wait "$pid"
    same "a link down for 20 s" $? 0
    as_whole cut
}

# gone_on FOLDER PARAMETER…: from step 8 in another layout. Parts of a token are rounded once more on each rank and
# node, and Adam moves adapters by the sign of small gradients.
gone_on() {
    local folder=$1
    shift
    half "$folder"
    release "$folder"
    "$flowrun" half.yaml -p output_dir="$folder" "$@" > "$folder.out" 2>&1
    same "$folder" $? 0
    has "$folder: goes on" "$folder.out" "Continuing training from global step 8"
    losses "$folder" > "$folder.log"
    check "$folder: losses" python3 - whole.log "$folder.log" << 'END'
import json, sys
got = [{e["current_steps"]: e["loss"] for e in map(json.loads, open(p)) if "loss" in e} for p in sys.argv[1:]]
assert sorted(got[0]) == sorted(got[1]) == list(range(1, 13)), got
assert all(got[0][k] == got[1][k] for k in range(1, 9)), got
off = max(abs(got[1][k] / got[0][k] - 1) for k in range(9, 13))
print("losses within %.2g" % off)
assert off <= 2 ** -7, off
END
}

if [ "${2:-}" = letters ]; then
    letters
else
    link_down
    sed 's/"expert_group": "world"/"expert_parallel_size": 2/' pipelines/ds_experts.json > pipelines/ds_pairs.json
    gone_on pairs -p deepspeed=pipelines/ds_pairs.json
    has "pairs" pairs.out "8 routed experts a layer over 2 ranks"
    gone_on sharded
    gone_on three "${stay[@]}" -p ranks=1 -p accumulation=12
    has "three" three.out "8 routed experts a layer over 3 ranks"
fi
for i in 1 2 3; do same "nothing is left on node$i" "$(trainers $i)$(sidecars $i)" ""; done
finish
