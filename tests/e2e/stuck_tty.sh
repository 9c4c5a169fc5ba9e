#!/bin/bash
# Readers that do not read, the other ways: a full stderr, a notify command that leaves its report, a
# terminal stopped by Ctrl-S.
. "$(dirname "$0")/lib.sh"
begin "$1"
lines=330000
cat > loud.yaml <<END
name: loud
nodes: [{name: n1, executor: local}]
env: {W: "\${{ env.W }}"}
tasks:
  loud: {run: "seq -f 'line %.0f of so many that no reader takes them' $lines"}
  next: {needs: [loud], run: "touch \$W/next"}
  last: {needs: [next], run: "until test -e \$W/go; do sleep 0.02; done"}
END
mkfifo full
cat > flood.yaml <<'END'
name: flood
nodes: [{name: n1, executor: local}]
env: {W: "${{ env.W }}"}
tasks: {flood: {log: {max: 3GB}, run: "touch $W/floods; exec yes"}}
END

# stderr alone: with --json flowrun's own words go there.
exec 7<> full
head -c 65536 /dev/zero >&7
rm -f floods
python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$flowrun" flood.yaml --json > /dev/null 2> full &
pid=$!
until_true 60 test -e floods
kill -INT "$pid"
wait "$pid"
same "Ctrl-C with a full stderr" $? 3
exec 7<&-
same "nothing is left running" "$(left)" ""

# A notify command that does not read its report, and leaves its stdin open behind it.
FLOWRUN_WITH=$(python3 -c 'import json, sys
print(json.dumps({"command": "exec 3<&0; sleep 1000 & wc -c < /dev/null > counted", "body": "x" * 100000}))') "$flowrun" notify > out 2>&1 &
pid=$!
until_true 60 test -s counted
until_true 60 eval '! kill -0 $pid'
wait $pid
same "a notify command that does not read" $? 0
FLOWRUN_WITH='{"command": "cat", "body": "the report"}' "$flowrun" notify > out 2>&1
has "one that reads" out "the report"
for p in $(marked); do kill -9 "$p" 2> /dev/null; done

# A terminal: Ctrl-S, all tasks but the last, then Ctrl-Q; and one that stays stopped.
cat > terminal.py <<'END'
import fcntl, os, pty, select, struct, subprocess, sys, termios, time
flowrun, again = sys.argv[1], sys.argv[2] == "again"
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
env = dict(os.environ, TERM="xterm")
p = subprocess.Popen([flowrun, "loud.yaml"], stdin=slave, stdout=slave, stderr=slave, env=env)
end = time.monotonic() + 100
got = b""

def take():
    global got
    if select.select([master], [], [], 0.05)[0]:
        got += os.read(master, 65536)

def until(true, what):
    while not true():
        if time.monotonic() > end:
            p.kill()
            sys.exit("never: " + what)
        take()

until(lambda: b"loud" in got, "its first lines")
os.write(master, b"\x13")
until(lambda: os.path.exists("next"), "the successor of a task whose output nobody sees")
assert not fcntl.fcntl(slave, fcntl.F_GETFL) & os.O_NONBLOCK
before = len(got)
if again:
    os.write(master, b"\x11")
    until(lambda: b"not shown" in got, "the line that says so")
open("go", "w").close()
until(lambda: p.poll() is not None, "its end")
while select.select([master], [], [], 0)[0]:
    take()
assert p.returncode == 0, p.returncode
assert len(got) < 10000000, len(got)
assert ("lines not shown, see 'flowrun logs".encode() in got) == again
assert (b"succeeded" in got[before:]) == again, got[-2000:]
END
for how in again never; do
    rm -rf next go "$FLOWRUN_HOME"
    check "a terminal stopped by Ctrl-S, $how" timeout 140 python3 terminal.py "$flowrun" $how
done
same "nothing is left running" "$(left)" ""
finish
