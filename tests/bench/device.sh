#!/bin/bash
# What only a GPU can tell, in stages that end by themselves within nine minutes.
#
# usage: device.sh STAGE FOLDER [WORD …]    FOLDER: what pack.sh made
#
#   ops       the op table against the reference; also by the kernels for sm_80, where the folder has them
#   parity    trainings against the CPU backend and transformers, 200 steps with a falling loss, save
#             and resume; its parts: f32 batch shares bf16 models fp8 resumes falls gsm8k
#   sanitize  the op table under compute-sanitizer: memcheck racecheck initcheck synccheck
#   bench     training steps of DeepSeek-V3's layers: tokens/s, MFU, memory, each op against its roofline
#   peer      the same steps beside transformers and PEFT, each in a process of its own, right after ours
#
# A stage does all it has, or what the words say, so that what it had no time for can be had by more calls:
# an op's name (ops, sanitize), a tool (sanitize), a part (parity), TOKENS:SEQUENCE (bench, peer),
# EXPERTS/ATTENTION (peer), and limit=SECONDS, steps=N, compared=N (parity: steps that are compared), layers=N,
# device=cuda, beside=cuda (the peer's device), type=bf16, recompute=all|none (bench, peer), config=FILE,
# whole=LAYERS:DENSE (bench: of the whole model).
# Exit status: 0 all was done and is right; 1 something failed; 3 nothing failed, but time ran out.
#
# The libraries of CUDA (cublasLt, nccl) are looked for in CUDA_LIBS, else in the machine's Python
# packages, then in /usr/local/cuda, else where the loader finds them. Weights are made there, from a seed; no file travels.
set -u
fail() { echo "device.sh: $*" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,21s/^# \{0,1\}//p' "$0"; exit 2; }
stage=$1
folder=$(cd "$2" && pwd) || exit 1
shift 2
asked=${*:+ $*}
bin=$folder/trainer/cli
out=$(mktemp -d) && trap 'rm -rf "$out"' EXIT || exit 1

declare -A option=([limit]=530 [layers]=5 [device]=cuda [beside]=cuda [type]=bf16)
words=()
for word in "$@"; do
    case $word in
    limit=* | steps=* | compared=* | layers=* | device=* | beside=* | type=* | config=* | whole=* | recompute=*)
        option[${word%%=*}]=${word#*=}
        ;;
    *=*) fail "$word: there is no such setting" ;;
    *) words+=("$word") ;;
    esac
done
until=${option[limit]} # of bash's SECONDS
failed=0 late=() late_told=0

# Folders in front for our programs alone: the machine's Python keeps its own.
cuda=${CUDA_LIBS:-}
[ -n "$cuda" ] || cuda=$(python3 -c 'import glob, os, site
paths = site.getsitepackages() + [site.getusersitepackages()]
print(":".join(d for p in paths for d in glob.glob(p + "/nvidia/*/lib")))' 2> /dev/null)
[ ! -d /usr/local/cuda/lib64 ] || cuda=${cuda:+$cuda:}/usr/local/cuda/lib64
libraries=$folder/lib${cuda:+:$cuda}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

run() { # COMMAND …: 124 when the time ends before it does
    local seconds=$((until - SECONDS)) status
    [ "$seconds" -gt 0 ] || return 124
    timeout -k 5 "$seconds" "$@"
    status=$?
    [ $status != 137 ] || [ $SECONDS -lt "$until" ] || status=124
    return $status
}

ours() { # COMMAND …: of the folder
    LD_LIBRARY_PATH=$libraries run "$@"
}

verdict() { # WHAT STATUS: counts what came to no good end
    case $2 in
    0 | 77) ;;
    3) echo "$1: no room" && failed=1 ;;
    124) late+=("$1") ;;
    *) echo "$1: failed, $([ "$2" -gt 128 ] && echo "signal $(($2 - 128))" || echo "exit status $2")" && failed=1 ;;
    esac
}

words_or() { # NAME …: the words, which must be among the names; else all of them
    local word
    for word in ${words[@]+"${words[@]}"}; do
        [[ " $* " == *" $word "* ]] || fail "$stage: $word is none of: $*"
    done
    chosen=(${words[@]+"${words[@]}"})
    [ ${#chosen[@]} -gt 0 ] || chosen=("$@")
}

table() { # WHAT COMMAND …: the op table by that; which ops it had no time for
    local what=$1 status
    shift
    ours "$@" "${chosen[@]}" > >(tee "$out/table" | grep -v '^op ') 2>&1
    status=$?
    wait $!
    if [ $status = 124 ]; then
        late+=("$what: $(grep -v -x -F -f <(sed -n 's/^op //p' "$out/table" | sed '$d') \
            <(printf '%s\n' "${chosen[@]}") | tr '\n' ' ')")
    else
        verdict "$what" $status
        [ $status != 77 ] || failed=1
    fi
}

names() { # of the ops; takes no time
    LD_LIBRARY_PATH=$libraries "$bin/op_device" names
}

ops() {
    # shellcheck disable=SC2046 # words
    words_or $(names)
    table ops "$bin/op_device"
    if [ -d "$folder/sm80" ]; then
        echo "== by the kernels for sm_80"
        table "ops by the kernels for sm_80" "$folder/sm80/op_device"
    else
        echo "by the kernels for sm_80: skipped: the folder has none"
    fi
}

# Its report of races, where it names no source of ours, is about the kernels of a library.
library_alone() { # TOOL LOG
    [ "$1" = racecheck ] && grep -q 'Race reported' "$2" && ! grep -q ' in [a-z0-9_]*\.\(cu\|h\)' "$2"
}

checked() { # TOOL: what came of each op
    local op status good=0 slow=()
    for op in "${chosen[@]}"; do
        status=$(cat "$out/$op.status")
        if [ "$status" = 124 ]; then
            slow+=("$op")
        elif [ "$status" = 0 ]; then
            good=$((good + 1))
        elif library_alone "$1" "$out/$op"; then
            good=$((good + 1))
            echo "$1 $op: $(grep -o 'at [a-z0-9_]*+' "$out/$op" | sort -u | tr -d '+' | tr '\n' ' ')is a library's"
        else
            tail -n 40 "$out/$op"
            verdict "$1 $op" "$status"
            [ "$status" != 77 ] || failed=1
        fi
    done
    echo "$1: $good ops are right"
    [ ${#slow[@]} = 0 ] || late+=("$1: ${slow[*]}")
}

sanitize() { # each tool has its share of the time, each op a process, as many at once as there are processors
    local tool op tools=() rest=()
    for tool in ${words[@]+"${words[@]}"}; do
        case $tool in
        memcheck | racecheck | initcheck | synccheck) tools+=("$tool") ;;
        *) rest+=("$tool") ;;
        esac
    done
    [ ${#tools[@]} -gt 0 ] || tools=(memcheck racecheck initcheck synccheck)
    words=(${rest[@]+"${rest[@]}"})
    PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer:/opt/nvidia/compute-sanitizer
    command -v compute-sanitizer > /dev/null || fail "no compute-sanitizer in $PATH: it comes with the CUDA toolkit"
    # shellcheck disable=SC2046 # words
    words_or $(names)
    for i in "${!tools[@]}"; do
        tool=${tools[i]}
        until=$((SECONDS + (option[limit] - SECONDS) / (${#tools[@]} - i)))
        echo "== $tool, $((until - SECONDS)) s"
        for op in "${chosen[@]}"; do
            [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
            {
                ours compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/op_device" "$op" > "$out/$op" 2>&1
                echo $? > "$out/$op.status"
            } &
        done
        wait
        checked "$tool"
    done
}

read_sizes() { # the words that are sizes, and those that are settings
    local word
    sizes=() settings=()
    for word in ${words[@]+"${words[@]}"}; do
        case $word in
        *[0-9]:[0-9]*) sizes+=("$word") ;;
        */*) settings+=("$word") ;;
        *) fail "$stage: $word is neither TOKENS:SEQUENCE nor EXPERTS/ATTENTION" ;;
        esac
    done
    [ ${#sizes[@]} -gt 0 ] || sizes=(16384:4096 2048:2048 4096:4096 32768:4096 8192:4096
        16384:2048 4096:2048 8192:2048 32768:2048)
    [ ${#settings[@]} -gt 0 ] || settings=(grouped_mm/flash_attention_2 eager/sdpa grouped_mm/sdpa)
}

arguments() { # TOKENS:SEQUENCE LAYERS DEVICE: ours and the peer's take the same
    echo "${option[config]:-$folder/deepseek_v3.json}" "${1%:*}" "${1#*:}" layers="$2" type="${option[type]}" \
        device="$3" ${option[steps]:+steps=${option[steps]}} ${option[recompute]:+recompute=${option[recompute]}}
}

bench() { # as many layers as the device has room for; what they mean for the whole model: DeepSeek-V3 has 61
    local size layers status whole=${option[whole]:-}
    [ -n "$whole${option[config]:-}" ] || whole=61:3
    read_sizes
    for size in "${sizes[@]}"; do
        for ((layers = option[layers]; layers > 1; layers--)); do
            [ $SECONDS -ge "$until" ] || echo "== $size, $layers layers"
            # shellcheck disable=SC2046 # words
            ours "$bin/layers" $(arguments "$size" "$layers" "${option[device]}") ${whole:+whole=$whole}
            status=$?
            [ $status = 3 ] || break
        done
        verdict "$size" $status
    done
}

beside() { # TOKENS:SEQUENCE LAYERS EXPERTS/ATTENTION: after ours; its exit status
    local ours theirs status goal="1.5 beside its best setting" rate='s/.*: \([0-9.]*\) tokens\/s.*/\1/p'
    # shellcheck disable=SC2046 # words
    EXPERTS=${3%/*} ATTENTION=${3#*/} run python3 "$folder/peer.py" $(arguments "$1" "$2" "${option[beside]}") \
        > "$out/theirs" 2> "$out/why"
    status=$?
    case $status in
    0) ;;
    3) echo "$1, $2 layers, $3: no room: $(tail -n 1 "$out/why")" ;;
    77) echo "$1, $3: skipped: $(tail -n 1 "$out/why")" ;;
    124) ;;
    *) tail -n 5 "$out/why" ;;
    esac
    [ $status = 0 ] || return $status
    [ "${3%/*}" != eager ] || goal=3
    ours=$(sed -n "$rate" "$out/ours") theirs=$(sed -n "$rate" "$out/theirs")
    echo "$1, $2 layers: $ours tokens/s; transformers and PEFT, $3: $theirs;" \
        "$(awk -v a="$ours" -v b="$theirs" 'BEGIN {printf "%.2f", a / b}') times (goal: $goal)"
    paste <(grep '^step' "$out/ours") <(grep '^step' "$out/theirs")
    grep -o 'peak .*' "$out/theirs" || true
}

peer() { # both have the same number of layers: as many as both have room for; ours runs once for each number
    local size layers setting status pending again
    read_sizes
    for size in "${sizes[@]}"; do
        pending=("${settings[@]}")
        for ((layers = option[layers]; layers > 1 && ${#pending[@]} > 0; layers--)); do
            # shellcheck disable=SC2046 # words
            ours "$bin/layers" $(arguments "$size" "$layers" "${option[device]}") > "$out/ours" 2> "$out/why"
            status=$?
            if [ $status = 3 ]; then
                echo "$size, $layers layers, ours: no room: $(tail -n 1 "$out/why")"
                continue
            elif [ $status != 0 ]; then
                cat "$out/why"
                verdict "$size, ours" $status
                pending=()
                continue
            fi
            sed -n '/^matrix/p; /tokens\/s/p; /^device memory/p' "$out/ours"
            again=()
            for setting in "${pending[@]}"; do
                beside "$size" "$layers" "$setting"
                status=$?
                if [ $status = 3 ]; then again+=("$setting"); else verdict "$size $setting" $status; fi
            done
            pending=(${again[@]+"${again[@]}"})
        done
        for setting in ${pending[@]+"${pending[@]}"}; do
            verdict "$size $setting" 3
        done
    done
}

parity() {
    words_or f32 batch shares bf16 models fp8 resumes falls gsm8k
    local status name given=()
    for name in steps compared config; do
        [ -z "${option[$name]:-}" ] || given+=("$name=${option[$name]}")
    done
    OUR_LIBRARIES=$libraries run python3 "$folder/device_parity.py" "$folder" limit=$((until - SECONDS - 5)) \
        device="${option[device]}" ${given[@]+"${given[@]}"} "${chosen[@]}"
    status=$?
    case $status in # it has said what failed, or what it had no time for
    3) late_told=1 ;;
    1) failed=1 ;;
    *) verdict parity $status ;;
    esac
}

echo "== $stage$asked, $(date -u +%F), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)"
case $stage in
ops | parity | sanitize | bench | peer) $stage ;;
*) fail "no stage '$stage'" ;;
esac
for what in ${late[@]+"${late[@]}"}; do
    echo "out of time, not done: $what"
done
[ $failed = 0 ] || exit 1
[ ${#late[@]} = 0 ] && [ $late_told = 0 ] || exit 3
