# Sourced by the scripts of this folder: packages in a folder of their own, and the comparison with what was seen.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export HOME="$folder" HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error PYTHONWARNINGS=ignore

# packages NAME==VERSION…: installs them from the Python registry; $python is the interpreter that has them.
packages() {
    echo "packages: $*"
    python3 -m venv "$folder/venv"
    python=$folder/venv/bin/python
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip install --quiet "$@"
}

# Compares standard output of the program on standard input, in Python, with $1: what was seen before.
seen() {
    cd "$folder"
    "$python" - > "$folder/output" 2> "$folder/errors" || { cat "$folder/errors" >&2; exit 1; }
    cat "$folder/output"
    printf '%s\n' "$1" > "$folder/stated"
    diff "$folder/stated" "$folder/output" > "$folder/difference" || {
        echo "not as stated (< stated, > now):"
        cat "$folder/difference"
        exit 1
    }
    echo "as stated"
}
