#!/bin/bash
# What a run has of the shell that it came from, not of its host's: umask, PATH and the other variables
# that local tasks inherit, also in commands of secrets. It is stored, so that it is so under `serve`,
# which no shell gave the run to; a resume brings its own shell's. usage: shell_env.sh BUILD
. "$(dirname "$0")/lib.sh"
begin "$1"
mkdir home bin sub
printf '#!/bin/sh\necho "ours $LOGNAME $(pwd) $(umask)"\n' > bin/who-am-i
chmod 755 bin/who-am-i
printf 'name: other\nenv: {W: "${{ env.W }}"}\ntasks: {t: {run: "until test -e $W/end; do sleep 0.05; done"}}\n' > other.yaml
cat > shell.yaml <<'END'
name: shell
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
secrets: {made: {command: "who-am-i > $W/command; echo x"}}
tasks:
  first:
    sidecars: [{name: side, run: "echo side $(umask) $LOGNAME; touch $W/sided; exec sleep 100000"}]
    run: "until test -e $W/sided; do sleep 0.05; done; umask; who-am-i; touch $FLOWRUN_WORK/made; ls -l $FLOWRUN_WORK/made | cut -c1-10; touch $W/first; until test -e $W/go; do sleep 0.05; done"
  second: {needs: [first], env: {S: "${{ secrets.made }}"}, run: "umask; who-am-i"}
END
no() { "$flowrun" runs --json -n 1 | sed -E 's/.*"no":([0-9]+).*/\1/'; }
# in_shell UMASK NAME ARGUMENT…: becomes flowrun, in a shell of that umask and LOGNAME, in the folder sub.
in_shell() {
    local mask=$1 name=$2
    shift 2
    cd sub && umask "$mask" && PATH=$work/bin:$PATH LOGNAME=$name exec "$flowrun" "$@"
}
running() { "$flowrun" status "$1" | grep -q ": running"; }

# ---- over a host of another shell
umask 022
"$flowrun" other.yaml > other 2>&1 &
host=$!
until_true 20 test -S home/host.sock
touch go
(in_shell 007 anna ../shell.yaml) > out 2>&1
same "handed over" $? 0
has "a task's umask" out "first@n1 | 0007"
has "its PATH finds the program" out "first@n1 | ours anna "
has "what it makes" out "first@n1 | -rw-rw----"
has "its sidecar, too" out "side 0007 anna"
same "a secret's command, in the run's folder" "$(cat command)" "ours anna $work/sub 0007"
rm -rf go first sided home/nodes/n1/work/made

# ---- the host and the shell go; serve takes the run up
in_shell 077 bert ../shell.yaml > out 2>&1 &
pid=$!
until_true 20 test -e first
run=$(no)
kill -9 $pid $host
wait $pid $host 2> /dev/null
"$flowrun" serve > serve 2>&1 &
serve=$!
until_true 20 test -S home/host.sock
until_true 20 running "$run"
touch go
over() { "$flowrun" status "$run" | grep -q ": succeeded"; }
until_true 30 over
"$flowrun" logs "$run" > logs
same "umask and variables as stored, in both tasks" "$(grep -cE '\| (0077|ours bert )' logs)" 4
same "a secret's command, likewise" "$(cat command)" "ours bert $work/sub 0077"
rm -rf go first sided home/nodes/n1/work/made

# ---- a resume brings its own shell's
in_shell 077 carl ../shell.yaml > out 2>&1 &
pid=$!
until_true 20 test -e first
run=$(no)
kill -9 $serve $pid
wait $serve $pid 2> /dev/null
touch go
(in_shell 027 dora resume "$run") > out 2>&1
same "resumed" $? 0
has "with the shell's umask" out "second@n1 | 0027"
has "and variables" out "second@n1 | ours dora "
touch end
"$flowrun" resume 1 > out 2>&1
same "the first host's own" $? 0

# The environment of a login, as startup files make it that print, read and set what they like.
mkdir -p user/bin
printf '#!/bin/sh\necho a tool\n' > user/bin/a-tool
chmod 755 user/bin/a-tool
cat > user/.bash_profile <<'END'
echo noise; echo noise >&2
read -r x && export READ=$x
export LOADED=yes OVER=login LANG=login SECRET_SEEN=${S-no} PATH=$HOME/bin:$PATH
LINES_OF_IT=$(printf 'two\nlines'); export LINES_OF_IT
test ! -e "$HOME/breaks" || { echo no such module; exit 3; }
END
cat > login.yaml <<'END'
nodes: [{name: n1, env: {OF_NODE: "1"}}]
env: {LANG: task}
secrets: {s: {env: SECRET}}
tasks:
  a:
    login: true
    env: {OVER: task, S: "${{ secrets.s }}"}
    run: 'echo "a $LOADED|$OVER|$LANG|$OF_NODE|${READ-}|$SECRET_SEEN|$LINES_OF_IT"; a-tool; cat; pwd; echo "$FLOWRUN_DIR"; ls -A'
  b: {run: 'echo "b ${LOADED-no}"'}
  c: {login: true, argv: [a-tool]}
  d: {login: true, argv: [no-tool]}
END
HOME=$work/user SHELL=/bin/bash SECRET=hush "$flowrun" login.yaml > out 2>&1
same "a tool that is not there fails" $? 1
has "a login's environment, and the task's" out "a@n1 | a yes|task|task|1||no|two"
has "its programs" out "a@n1 | a tool"
has "without a shell, too" out "c@n1 | a tool"
has "of that task alone" out "b@n1 | b no"
hasnt "what startup files print" out noise
same "the attempt's folder is as ever" "$(sed -n 's/.*a@n1 | \(\/.*\)/\1/p' out | uniq -c | awk '{print $1}')" 2
has "what is not there is named" out "d@n1 | flownode login: cannot start no-tool: No such file or directory; PATH=$work/user/bin:"
touch user/breaks
HOME=$work/user SHELL=/bin/bash SECRET=hush "$flowrun" login.yaml > out 2>&1
same "startup files that exit" $? 1
has "are named" out "flownode login: /bin/bash did not give the environment of a login (exit status 3)"
has "with what they said" out "it said: noise"
printf 'tasks: {t: {uses: cleanup, login: true}}\n' > wrong.yaml
"$flowrun" validate wrong.yaml > out 2>&1
same "not for built-in tasks" $? 2
has "… it says" out "login: is not for uses:; expected run: or argv:"
same "nothing is left running" "$(left)" ""
finish
