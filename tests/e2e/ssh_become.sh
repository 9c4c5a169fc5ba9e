#!/bin/bash
# `become: sudo` with a real sudo: a user logs in, tasks run as root. Secrets stay off command lines, a
# stop reaches root's processes, and without the right to sudo the reason is said.
. "$(dirname "$0")/ssh_lib.sh"
command -v sudo > /dev/null || skip "needs sudo"
begin_nodes "$1"

# On nodes 1 and 2 a user "worker" who may sudo; on node 3 one who may not.
for i in 1 2 3; do
    on $i 'useradd -m -s /bin/sh -p "*" worker && mkdir -p /etc/sudoers.d && chmod 644 /etc/fr-node/authorized_keys && echo "127.0.1.1 $(hostname)" >> /etc/hosts'
done
for i in 1 2; do on $i 'echo "worker ALL=(ALL) NOPASSWD: ALL" > /etc/sudoers.d/worker && chmod 440 /etc/sudoers.d/worker'; done
sed 's/user: root/user: worker/' c/nodes.yaml > nodes.inc

cat > file.yaml <<END
name: become
$(cat nodes.inc)
secrets: {token: {env: TOKEN}}
tasks:
  who:
    on: node1
    become: sudo
    env: {COLOUR: dark blue, TOKEN: "\${{ secrets.token }}"}
    outputs: [uid]
    run: |
      echo "uid=\$(id -u)" >> \$FLOWRUN_OUTPUT
      echo "colour \$COLOUR, token of \${#TOKEN}: \$TOKEN"
      ps -eo args | grep -c "[s]esame-4711" || :
      touch /root/as-root
  plain:
    on: node1
    needs: [who]
    env: {ROOT: "\${{ tasks.who.outputs.uid }}"}
    run: test "\$(id -un)" = worker && echo "plain after \$ROOT"
END
TOKEN=sesame-4711 "$flowrun" file.yaml > out 2>&1
same "a task as root" $? 0
"$flowrun" logs > logs 2>&1
has "environment and secret arrive, masked" logs "colour dark blue, token of 11: ***"
check "no command line shows it" grep -Eq '(^|[^0-9])0$' logs
has "outputs come back" logs "plain after 0"
check "it was root" on 1 'test "$(stat -c %U /root/as-root)" = root'

# Refused: the reason is sudo's own word.
sed "s/on: node1/on: node3/" file.yaml > refused.yaml
TOKEN=sesame-4711 "$flowrun" refused.yaml > out 2>&1
same "no right to sudo" $? 1
"$flowrun" logs > logs 2>&1
has "its reason" logs "sudo: "

# Root's processes ignore SIGTERM, leave the session and are stopped all the same.
cat > long.yaml <<END
name: long
$(cat nodes.inc)
tasks:
  long:
    on: node2
    become: sudo
    grace: 300ms
    run: |
      trap '' TERM
      (setsid sh -c 'trap "" TERM; while :; do sleep 54321; done' &)
      touch /var/up
      while :; do sleep 54321; done
END
start long.yaml
pid=$!
until_true 30 on 2 'test -e /var/up'
"$flowrun" cancel > cancelled 2>&1
same "cancel" $? 0
wait $pid
check "nothing of it is left" on 2 '! pgrep -fx "sleep 54321" > /dev/null'
finish
