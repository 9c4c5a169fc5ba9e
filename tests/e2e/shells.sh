#!/bin/bash
# What bash, zsh and fish complete, and the pages for man(1). Shells that are not there are skipped.
# usage: shells.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
flowtrain=$build/trainer/cli/flowtrain
export PATH=$build/engine/cli:$build/trainer/cli:$PATH

# ---- the shells themselves: what they offer for a line, one word a line ----
in_bash() { # LINE [RC FILE]
    cat > ask.bash <<'END'
[ -z "${RC:-}" ] || . "$RC"
for program in flowrun flowtrain; do . <($program completion bash); done
compopt() { :; } # it works within a completion alone
COMP_LINE=$1 COMP_POINT=${#1}
read -ra COMP_WORDS <<< "$1"
[[ $1 != *" " ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_${COMP_WORDS[0]} "${COMP_WORDS[0]}" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
END
    RC=${2:-} bash --norc ask.bash "$1"
}
in_bash_completion() { in_bash "$1" /usr/share/bash-completion/bash_completion; }
in_fish() {
    cat > ask.fish <<'END'
for program in flowrun flowtrain; $program completion fish | source; end
complete -C "$argv[1]"
END
    HOME=$work fish --no-config ask.fish "$1" | cut -f1
}
# zsh offers only to a terminal.
in_zsh() {
    cat > ask.py <<'END'
import os, pty, re, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", PS1="", COLUMNS="1000", LINES="1000")
    os.execvp("zsh", ["zsh", "-f", "-i"])
def until(mark):
    text = ""
    while mark not in text:
        if not select.select([fd], [], [], 60)[0]:
            sys.exit("zsh does not say %r, it said %r" % (mark, text[-500:]))
        text += os.read(fd, 65536).decode(errors="replace")
    return text
def type(line):
    os.write(fd, line.encode())
type("stty -echo cols 400 rows 1000; PS1= PS2= ; autoload -Uz compinit; compinit -D -u; "
     "zstyle ':completion:*' list-separator '|'; zstyle ':completion:*' format ''; LISTMAX=0; "
     "source <(flowrun completion zsh); source <(flowtrain completion zsh); "
     "show() { compadd() { builtin compadd -O hits \"$@\"; print -l -- $hits >> $OUT; builtin compadd \"$@\"; }; }; "
     "zle -C ask complete-word ask; ask() { show; unset 'compstate[vared]'; _main_complete; print over >> $OUT; }; "
     "bindkey '^X' ask; print rea''dy\n")
until("ready")
type(sys.argv[1] + "\x18")
end = time.monotonic() + 60
while time.monotonic() < end:
    if os.path.exists(os.environ["OUT"]) and "over\n" in open(os.environ["OUT"]).read():
        break
    select.select([fd], [], [], 0.05)[0] and os.read(fd, 65536)
os.kill(pid, 9)
print(*[w for w in open(os.environ["OUT"]).read().split("\n") if w not in ("", "over")], sep="\n")
END
    rm -f offered
    HOME=$work OUT=$work/offered python3 ask.py "$1"
}

cat > two.yaml <<'END'
name: two
nodes: [{name: n1, executor: local}, {name: n2, executor: local}]
tasks:
  first: {run: "true"}
  second: {needs: [first], on: all, run: "true"}
END
mkdir folder
touch notes.txt folder/three.yml
"$flowrun" two.yaml > ran 2>&1
same "a run, to be named" $? 0
"$flowrun" help | sed -n 's/^  flowrun \([a-z]*\).*/\1/p' | sort -u > commands
"$flowtrain" help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort -u > trainer_commands
check "commands are known" test "$(wc -l < commands)" -gt 25

shells=
for shell in bash bash_completion zsh fish; do
    case $shell in
    bash_completion) test -e /usr/share/bash-completion/bash_completion ;;
    *) command -v $shell > /dev/null ;;
    esac && shells="$shells $shell" || echo "skipped: no $shell"
done

for shell in $shells; do
    offers() { "in_$shell" "$1" 2> "err.$shell" | sed 's/[[:space:]]*$//' | sort -u > offered.now; }
    offers "flowrun "
    same "$shell: every command of flowrun" "$(comm -23 commands offered.now)" ""
    offers "flowtrain "
    same "$shell: every command of flowtrain" "$(comm -23 trainer_commands offered.now)" ""
    offers "flowrun lo"
    same "$shell: a command" "$(cat offered.now)" logs
    offers "flowrun logs --f"
    same "$shell: options" "$(xargs < offered.now)" "--failed --follow"
    offers "flowrun graph -f s"
    same "$shell: a value" "$(cat offered.now)" svg
    offers "flowrun logs "
    same "$shell: a run" "$(cat offered.now)" 1
    offers "flowrun logs 1 s"
    same "$shell: a task" "$(cat offered.now)" second
    offers "flowrun logs -n 5 1 fi"
    same "$shell: a task behind an option's value" "$(cat offered.now)" first
    offers "flowrun retry 1 --from sec"
    same "$shell: a task as a value" "$(cat offered.now)" second
    offers "flowrun queue cl"
    same "$shell: a word of the command" "$(cat offered.now)" clear
    offers "flowtrain train --lora_ran"
    same "$shell: a flag of flowtrain" "$(cat offered.now)" "--lora_rank"
    case $shell in zsh) ;; *)
        offers "flowrun validate t"
        same "$shell: a pipeline file" "$(cat offered.now)" two.yaml
        offers "flowrun validate "
        has "$shell: folders too" offered.now folder
        hasnt "$shell: no other files" offered.now notes.txt ;;
    esac
done
# bash replaces what stands behind = and @ alone.
same "bash: behind =" "$(in_bash "flowrun graph --format=s")" svg
same "bash: an instance" "$(in_bash "flowrun logs 1 second@n2" | xargs)" n2

# ---- every command and option, by what the scripts ask ----
"$flowrun" man > flowrun.1
"$flowtrain" man > flowtrain.1
missing=
while read -r c; do
    for o in $("$flowrun" help "$c" 2> /dev/null | sed -n 's/^  \(-., \)\{0,1\}\(--[a-z-]*\).*/\2/p'); do
        "$flowrun" complete "$c" -- | cut -f1 | grep -qx -e "$o" || missing="$missing $c$o"
        grep -q -e "^.TP" flowrun.1 && grep -q -e "${o//-/\\\\-}" flowrun.1 || missing="$missing man:$c$o"
    done
    grep -q "^\.SS $c" flowrun.1 || missing="$missing man:$c"
done < commands
same "every option of flowrun" "$missing" ""
missing=
for c in $(grep -vE "^(version|help|completion)$" trainer_commands); do
    "$flowtrain" complete "$c" -- | cut -f1 | sort > offered.now
    "$flowtrain" "$c" --help 2>&1 | sed -n 's/^  \(--[a-z_0-9]*\).*/\1/p' | sort > asked
    missing="$missing$(comm -13 offered.now asked)"
    grep -q "^\.SS $c" flowtrain.1 || missing="$missing man:$c"
    while read -r o; do
        o=${o//-/\\-}
        grep -qF -e "\\fB$o" flowtrain.1 || missing="$missing man:$o"
    done < asked
done
same "every flag of flowtrain" "$missing" ""

# ---- nothing in the way ----
FLOWRUN_HOME=$work/none "$flowrun" complete logs "" > out 2>&1
same "without a home it says nothing" "$(cat out)" ""
check "and makes none" test ! -e "$work/none"
"$flowrun" completion tcsh > out 2>&1
same "another shell" $? 2
has "says which there are" out "completion is there for bash, zsh and fish, not for 'tcsh'"

# ---- man ----
for page in flowrun flowtrain; do
    if command -v groff > /dev/null; then
        same "groff has nothing against $page(1)" "$(groff -ww -man -Tutf8 -k "$page.1" 2>&1 > /dev/null)" ""
    else
        echo "skipped: no groff"
    fi
    if command -v mandoc > /dev/null; then
        # no date: the page of one tree is the same on any day
        same "nor has mandoc" "$(mandoc -T lint -W warning "$page.1" | grep -v "missing date")" ""
    else
        echo "skipped: no mandoc"
    fi
done

# ---- where they are installed ----
DESTDIR=$work/root meson install -C "$build" --no-rebuild --tags=shells > installed 2>&1
same "installed" $? 0
for program in flowrun flowtrain; do
    for row in "bash bash-completion/completions/$program" "zsh zsh/site-functions/_$program" "fish fish/vendor_completions.d/$program.fish"; do
        $program completion "${row%% *}" > printed
        check "$program: what ${row%% *} reads" cmp printed "root/usr/local/share/${row#* }"
    done
    check "$program(1)" cmp "$program.1" "root/usr/local/share/man/man1/$program.1"
done

# ---- versions ----
for program in flowrun flowtrain "$build/tasks/flownode"; do
    $program version > out
    check "$program tells commit and build" grep -qE '^flow[a-z]* [0-9.]+ \(([0-9a-f]{7,}(-dirty)?|no commit), [a-z]+ by (gcc|clang) [0-9.]+\)$' out
done
"$flowrun" version --verbose > out
for what in kernel "libc     glibc" "sqlite   3" "libevent 2" "libssh2  1" "libyaml  0" "jansson  2" libcurl; do
    has "of $what" out "$what"
done
"$flowtrain" version --verbose > out 2>&1
for what in kernel "libc     glibc" "openmp   " "chip     " "cpu      threads=" "cuda     "; do
    has "of the trainer's $what" out "$what"
done
finish
