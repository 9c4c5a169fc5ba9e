#!/bin/bash
# Secrets reach the task and stay out of logs, store, journals and command lines. The notify hook posts
# to a webhook whose address is a secret.
. "$(dirname "$0")/lib.sh"
begin "$1"
command -v python3 > /dev/null || skip "needs python3 for a webhook"
cat > hook.py <<'END'
import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("posted.tmp", "wb") as f:
            f.write(self.path.encode() + b"\n" + self.headers["X-Key"].encode() + b"\n" + body)
        os.rename("posted.tmp", "posted")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *a): pass
s = http.server.HTTPServer(("127.0.0.1", 0), H)
with open("port.tmp", "w") as f: f.write(str(s.server_port))
os.rename("port.tmp", "port")
s.handle_request()
END
python3 hook.py &
hook=$!
until_true 20 test -s port
cat > secret.yaml <<'END'
name: secret
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
secrets:
  token: {env: TOKEN}
  file: {file: /etc/hostname}
  made: {command: "until test -e go; do sleep 0.05; done; echo >> asked; printf made-up-%s word"}
  url: {env: HOOK}
tasks:
  other: {run: "touch $W/go"}
  use:
    env: {TOKEN: "${{ secrets.token }}", BEARER: "Bearer ${{ secrets.made }}"}
    run: |
      test ${#TOKEN} = 12 && test "${TOKEN#s3cr3t}" = -value && test ${#BEARER} = 19 && echo right
      echo "token is $TOKEN and $BEARER"
      printf %s "${TOKEN%lue}"; printf '%s\n' lue
      touch $W/inside
      until test -e $W/looked; do sleep 0.05; done
      exit 3
on_failure:
  - uses: notify
    with: {url: "${{ secrets.url }}", headers: {X-Key: "${{ secrets.token }}"}}
END
export TOKEN=s3cr3t-value HOOK=http://127.0.0.1:$(cat port)/very-secret-path
"$flowrun" secret.yaml > out 2>&1 &
pid=$!
until_true 30 test -e inside
# While the task runs: our own processes have no secret that was asked for, nor any on a command line.
# Nobody but root may look into them: whoever has a secret gives its memory to no one.
root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
ours() { root grep -lsz -e "^W=$work\$" -e "^FLOWRUN_NODE_HOME=$work/" /proc/[0-9]*/environ | cut -d/ -f3; }
root true 2> /dev/null || skip "needs root or sudo"
seen=0
for p in $(ours) $pid; do
    { root cat "/proc/$p/environ" | tr '\0' '\n' > environ; tr '\0' '\n' < "/proc/$p/cmdline" > cmdline; } 2> /dev/null
    [ -s environ ] || continue # one that ended meanwhile
    case $(root readlink "/proc/$p/exe") in
    */flownode | */flowrun)
        seen=$((seen + 1))
        hasnt "no secret in the environment of $p" environ "made-up-word" ;;
    esac
    same "nor on the command line of $p" "$(grep -cE "made-up-word|s3cr3t-value|very-secret" cmdline)" 0
done
rm environ cmdline
check "flowrun, serve and a supervisor were looked at" test "$seen" -ge 3
touch looked
wait "$pid"
same "the run fails as its task does" $? 1
wait "$hook"
has "another task ran while a secret's command did" out "other@n1 succeeded"
same "the command was asked once" "$(lines asked)" 1
has "the task has the values" out "use@n1 | right"
hasnt "not in the output" out "s3cr3t-value"
hasnt "nor this" out "made-up-word"
same "the hook's address" "$(sed -n 1p posted)" "/very-secret-path"
same "the hook's header" "$(sed -n 2p posted)" "s3cr3t-value"
check "the message" python3 -c '
import json
doc = json.loads(open("posted").read().split("\n", 2)[2])
assert doc["status"] == "failed" and doc["failed"][0]["task"] == "use", doc'
cat > leak.yaml <<'END'
secrets: {token: {env: TOKEN}}
tasks:
  leak:
    env: {TOKEN: "${{ secrets.token }}"}
    outputs: [o]
    run: echo "o=it is $TOKEN" > "$FLOWRUN_OUTPUT"
END
"$flowrun" leak.yaml > out 2>&1
same "a secret as output" $? 1
has "is refused" out "output o holds a secret, which would be stored"
# What is wrong with outputs is not quoted when it may be a secret; of one of several lines each is one.
export LINES_OF=$'made-up-first\nmade-up-second'
quoted() { # NAME SCRIPT
    {
        echo "secrets: {token: {env: TOKEN}, lines: {env: LINES_OF}}"
        echo "tasks: {a: {env: {T: '\${{ secrets.token }}', L: '\${{ secrets.lines }}'}, outputs: [o], run: '$2'}}"
    } > quoted.yaml
    "$flowrun" quoted.yaml > out 2>&1
    same "$1" $? 1
    hasnt "$1 is not shown" out "s3cr3t-value"
    hasnt "$1 is not shown, nor a line" out "made-up-"
}
quoted "a secret as the name of an output" 'echo "$T=1" > $FLOWRUN_OUTPUT'
quoted "a secret as the end of a block" 'echo "o<<$T" > $FLOWRUN_OUTPUT'
quoted "the last line of a secret as an output" 'echo "o=$(echo "$L" | tail -n 1)" > $FLOWRUN_OUTPUT'
quoted "the last line of a secret in the log" 'echo "$L" | tail -n 1; exit 1'
unset LINES_OF
# Nor is one quoted by the error of a command that cannot start: it names PATH.
cat > start.yaml <<'END'
nodes: [{name: n1, executor: local}]
secrets: {token: {env: TOKEN}}
tasks: {a: {env: {PATH: "/no/${{ secrets.token }}"}, argv: [nothing-there]}}
END
"$flowrun" start.yaml > out 2>&1
same "a command that cannot start" $? 1
has "is named with its PATH" out "there is no such program on PATH=***"
"$flowrun" status --json >> out 2>&1
"$flowrun" logs >> out 2>&1
hasnt "the secret in PATH is not shown" out "s3cr3t-value"
same "nothing in the home is for others" "$(find "$FLOWRUN_HOME" -perm /077)" ""
# Whoever dies with a secret in its memory leaves no core of it.
cat > core.yaml <<'YAML'
nodes: [{name: n1, executor: local}]
secrets: {token: {env: TOKEN}}
tasks: {a: {env: {TOKEN: "${{ secrets.token }}"}, run: "exec sleep 1000"}}
YAML
ulimit -c unlimited 2> /dev/null && limit=none || limit=$(ulimit -H -c)
case "$limit $(cat /proc/sys/kernel/core_pattern)" in
"none core"*)
    start core.yaml
    pid=$!
    until_true 20 holds out "a@n1 running"
    for p in $(ours) $pid; do
        case $(root readlink "/proc/$p/exe") in */flownode | */flowrun) kill -SEGV "$p" ;; esac
    done
    wait "$pid" 2> /dev/null
    sh -c 'kill -SEGV $$' # one that may leave one, does
    same "the cores" "$(find . -name 'core*' -type f -not -name core.yaml | wc -l)" 1
    rm -f core core.[0-9]*
    sed 's/exec sleep 1000/kill -SEGV $$/' core.yaml > own.yaml
    "$flowrun" own.yaml > out 2>&1
    has "a task that has a secret dies" out "a@n1 failed"
    same "without a core" "$(find . "$FLOWRUN_HOME" -name 'core*' -type f -not -name core.yaml | wc -l)" 0
    for p in $(ours); do kill -9 "$p" 2> /dev/null; done ;;
*) echo "left out: cores (the machine gives them away, or their limit is $limit)" ;;
esac
unset TOKEN HOOK
for word in s3cr3t-value made-up-word made-up-first made-up-second very-secret-path; do
    same "$word is nowhere in the home" "$(grep -rlF "$word" "$FLOWRUN_HOME")" ""
done
cat > refused.yaml <<'END'
secrets: {token: {command: "echo x >> tries; exit 7"}}
tasks:
  a: {env: {TOKEN: "${{ secrets.token }}"}, run: "true", retry: {times: 1, delay: 10ms}}
END
"$flowrun" refused.yaml > out 2>&1
same "a secret's command that fails" $? 1
has "is named with its code" out "a@local failed: secret 'token': its command ended with exit code 7"
same "and tried again as the task says" "$(lines tries)" 2
cat > never.yaml <<'END'
secrets: {token: {command: "touch asking; exec sleep 1000"}}
tasks:
  a: {env: {TOKEN: "${{ secrets.token }}"}, run: "true"}
END
start never.yaml
pid=$!
until_true 20 test -e asking
until_true 20 grep -q ' run [0-9]* (' out
"$flowrun" cancel "$(sed -n 's/.* run \([0-9]*\) (.*/\1/p' out | head -1)" > cancelled 2>&1
same "cancel while a secret is asked for" $? 0
wait "$pid"
same "ends the run" $? 3
same "nothing is left running" "$(left)" ""

# Quoted by tools: set -x of the shells, and JSON.
cat > quoted.yaml <<'END'
secrets: {q: {env: QUOTED}}
tasks:
  t:
    env: {Q: "${{ secrets.q }}"}
    run: |
      for s in sh bash; do $s -xc 'x=$Q; echo done'; done
      python3 -c 'import json, os; print(json.dumps({"q": os.environ["Q"]}), json.dumps({"q": os.environ["Q"]}, ensure_ascii=False))'
END
QUOTED="it's \"säcret\"\\ x" "$flowrun" quoted.yaml > out 2>&1
same "a secret in quotes" $? 0
has "set -x ran" out "done"
has "JSON was printed" out '{"q": "***"} {"q": "***"}'
for part in it\'s "it'" s\\u00e4cret säcret; do hasnt "nothing of it: $part" out "$part"; done
"$flowrun" secret.yaml > out 2>&1
same "secrets that are not there" $? 2
has "are named before the run begins" out "secret.yaml:5:3: secret 'token': the variable TOKEN is not set"
has "all of them" out "secret.yaml:8:3: secret 'url': the variable HOOK is not set"
finish
