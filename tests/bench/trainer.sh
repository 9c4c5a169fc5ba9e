#!/bin/bash
# Training on the CPU, a small model of DeepSeek-V3's architecture: tokens/s, peak memory, the share of
# the chip's own rate (peak.c, in the same run), and where the time goes;
# with a Python that has torch, transformers and peft in PEER, the same steps by these beside it. Both
# with activations kept and computed again. By turns, ROUNDS times. Threads wait as those of flowtrain.
# usage: trainer.sh BUILD [STEPS] [ROUNDS]
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build}
what=("$here/small.json" 512 128 steps="${2:-3}" device=cpu)

for round in $(seq "${3:-1}"); do
    for type in f32 bf16; do
        rate=$("$build/tests/bench/peak" | sed -n "s/^$type .* //p")
        echo "== round $round, $type: the chip's rate $rate TFLOP/s"
        for recompute in none all; do
            echo "-- recompute $recompute"
            GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-2000}" "$build/tests/bench/layers" "${what[@]}" type=$type recompute=$recompute rate="$rate" 2>&1 |
                sed -n '/^step/,$p' | head -n $((19 + ${2:-3}))
            [ -z "${PEER:-}" ] && continue
            for experts in grouped_mm eager; do
                RECOMPUTE=$recompute EXPERTS=$experts "$PEER" "$here/peer.py" "${what[@]}" type=$type 2> /dev/null
            done
        done
    done
done
