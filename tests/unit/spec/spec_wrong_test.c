/* What is wrong in a pipeline file is said line by line: where, what, and what was expected. */
#include "tests/unit/spec/spec_load.h"

#define NODE_NAME                                                                                  \
    "expected letters, digits, '_', '-' and '.', at most 64, the first neither '-' nor '.', and "  \
    "not all, head or control"
#define WORK_WANTED "; expected a path of the node: /DIR, or ~/DIR below the user's home there"
#define NAME "a letter, then letters, digits, '_' and '-', at most 64"
#define LABEL "letters, digits, '_', '-' and '.', at most 64"
#define NO_PLACE                                                                                   \
    " is not in the attempt's folder; expected a path inside it, without '.', '..' and needless "  \
    "slashes"
#define X65 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X715 X65 X65 X65 X65 X65 X65 X65 X65 X65 X65 X65
#define AROUND "when has text around ${{ }}; expected "
#define ALONE "one expression alone, like when: params.name == 'text'"

/* Every text gives exactly the lines of want; "\n" stands between them. */
static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"unknown key", "tasks: {a: {run: x, timout: 3s}}",
     "p.yaml:1:21: a task has no key 'timout'; did you mean 'timeout'?"},
    {"unknown need", "tasks: {build: {run: x}, b: {run: x, needs: [biuld]}}",
     "p.yaml:1:46: task 'b' needs unknown task 'biuld'; did you mean 'build'?"},
    {"needs itself", "tasks: {a: {run: x, needs: [a]}}",
     "p.yaml:1:9: tasks wait for each other: a (1:9) needs a"},
    {"a cycle behind a tail and before one, and another mistake",
     "tasks:\n"
     "  s: {run: x}\n"
     "  a: {run: x, needs: [s, c]}\n"
     "  b: {run: x, needs: [a]}\n"
     "  c: {run: x, needs: [b], timout: 3s}\n"
     "  z: {run: x, needs: [c]}\n",
     "p.yaml:3:3: tasks wait for each other: a (3:3) needs c (5:3) needs b (4:3) needs a\n"
     "p.yaml:5:27: a task has no key 'timout'; did you mean 'timeout'?"},
    {"timeouts of a whole run", "time_limit: 5\ntimeout: 0s\ntasks: {a: {run: x}}",
     "p.yaml:1:1: a pipeline has no key 'time_limit'; expected timeout: 30m\n"
     "p.yaml:2:10: timeout is '0s'; expected never or a duration like 10s, above zero"},
    {"runs at once", "max_active_runs: 0\ntasks: {a: {run: x}}",
     "p.yaml:1:18: max_active_runs is '0'; expected a whole number from 1 to 100000"},
    {"name", "name: a b\ntasks: {a: {run: x}}",
     "p.yaml:1:7: name is 'a b'; expected letters, digits, '_', '-' and '.', at most 64"},
    {"no tasks", "name: x", "p.yaml:1:1: a pipeline needs the key 'tasks'"},
    {"empty file", "", "p.yaml:1:1: a pipeline is nothing; expected a map of its keys"},
    {"a list",
     "- a\n"
     "- b\n",
     "p.yaml:1:1: a pipeline is a list; expected a map of its keys"},
    {"duplicate",
     "tasks:\n"
     "  a: {run: x}\n"
     "  a: {run: y}\n",
     "p.yaml:3:3: key 'a' stands here a second time; first at line 2"},
    {"and those of a schedule",
     "params: {p: {default: a}}\nschedule: {cron: '0 1 * * *', params: {p: [1]}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:2:43: p is a list; expected a text"},
    {"values of a wrong type, each by its key",
     "params: {p: {default: [1]}}\nenv: {E: [1]}\n"
     "tasks:\n"
     "  a:\n"
     "    run: x\n"
     "    needs: [[b]]\n"
     "    env: {F: {x: 1}}\n"
     "    timeout: [1s]\n"
     "    retry: {times: {n: 1}}\n"
     "    files: {f: [x], g: {path: [y]}}\n"
     "    description:\n"
     "    slots: ~\n"
     "  c: {uses: cleanup, with: {port: [[1]]}}\n",
     "p.yaml:1:23: default is a list; expected a text\n"
     "p.yaml:2:10: E is a list; expected a text\n"
     "p.yaml:6:13: needs is a list; expected a text\n"
     "p.yaml:7:14: F is a map; expected a text\n"
     "p.yaml:8:14: timeout is a list; expected a text\n"
     "p.yaml:9:20: times is a map; expected a text\n"
     "p.yaml:10:16: f is a list; expected a text\n"
     "p.yaml:10:31: path is a list; expected a text\n"
     "p.yaml:11:17: description is nothing; expected a text\n"
     "p.yaml:12:12: slots is nothing; expected a text\n"
     "p.yaml:13:35: port is a list; expected a whole number"},
    {"nothing to do", "tasks: {a: {on: head}}",
     "p.yaml:1:9: 'a' does nothing; expected one of uses, run or argv"},
    {"two things", "tasks: {a: {run: x, argv: [y]}}",
     "p.yaml:1:9: 'a' does more than one thing; expected one of uses, run or argv"},
    {"unknown kind", "tasks: {a: {uses: preflihgt}}",
     "p.yaml:1:19: unknown built-in task 'preflihgt'; expected cleanup, preflight, container, "
     "nccl-probe, train, gather-adapters, publish, janitor or notify; did you mean 'preflight'?"},
    {"unknown input", "tasks: {a: {uses: cleanup, with: {prot: 1}}}",
     "p.yaml:1:35: cleanup has no input 'prot'; did you mean 'port'?"},
    {"wrong input type", "tasks: {a: {uses: cleanup, with: {port: many, shm: maybe, grace: 5}}}",
     "p.yaml:1:41: port is 'many'; expected a whole number\n"
     "p.yaml:1:52: shm is 'maybe'; expected true or false\n"
     "p.yaml:1:66: grace is '5'; expected a duration like 10s or 1h30m"},
    {"wrong choice", "tasks: {a: {uses: container, with: {runtime: dokcer}}}",
     "p.yaml:1:46: runtime is 'dokcer'; expected auto, docker, podman or none"},
    {"missing input", "tasks: {a: {uses: publish, with: {from: x}}}",
     "p.yaml:1:19: publish needs the input 'to' (Folder of versions, with the link `latest`.)"},
    {"list for a text", "tasks: {a: {uses: publish, with: {from: [x], to: y}}}",
     "p.yaml:1:41: from is a list; expected a path on the node"},
    {"with without uses", "tasks: {a: {run: x, with: {port: 1}}}",
     "p.yaml:1:27: with: belongs to uses:; expected env: for scripts and programs"},
    {"notify as a task", "tasks: {a: {uses: notify, with: {url: x}}}",
     "p.yaml:1:19: notify cannot stand here; expected it under on_success, on_failure, on_cancel "
     "or on_exit"},
    {"notify with both",
     "tasks: {a: {run: x}}\n"
     "on_exit: [{uses: notify, with: {url: x, command: y}}]",
     "p.yaml:2:18: notify needs the input 'url' or 'command', one of them"},
    {"notify elsewhere",
     "tasks: {a: {run: x}}\n"
     "on_exit: [{uses: notify, on: all, with: {url: x}}]",
     "p.yaml:2:30: notify is done on control; expected on: control, or no on:"},
    {"janitor as a task", "tasks: {a: {uses: janitor}}",
     "p.yaml:1:19: janitor cannot stand here; expected it under sidecars: of a task"},
    {"cleanup as a sidecar", "tasks: {a: {run: x, sidecars: [{uses: cleanup}]}}",
     "p.yaml:1:39: cleanup cannot stand here; expected janitor, run: or argv:"},
    {"outputs of a kind", "tasks: {a: {uses: cleanup, outputs: [x]}}",
     "p.yaml:1:37: outputs of cleanup are fixed; expected it beside run: or argv:"},
    {"expression in a script",
     "params: {max-steps: {default: 3}}\n"
     "tasks:\n"
     "  a:\n"
     "    run: |\n"
     "      echo hi\n"
     "      echo ${{ params.max-steps }}\n",
     "p.yaml:6:12: an expression cannot stand in run:; expected env: {MAX_STEPS: \"${{ "
     "params.max-steps }}\"} and \"$MAX_STEPS\" in the script"},
    {"unknown param",
     "params: {model: {default: x}}\n"
     "tasks: {a: {run: x, env: {M: \"${{ params.modle }}\"}}}",
     "p.yaml:2:35: unknown param 'modle'; expected a name under params:; did you mean 'model'?"},
    {"param without value",
     "params: {model: {type: path}}\n"
     "tasks: {a: {run: x, timeout: \"${{ params.model }}\"}}",
     "p.yaml:1:10: param 'model' has no value; expected -p NAME=VALUE or a default"},
    {"param of the wrong type",
     "params: {n: {type: int, default: ten}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:34: param 'n' is 'ten'; expected a whole number"},
    {"param outside its choices",
     "params: {n: {choices: [red, green], default: gren}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:46: param 'n' is 'gren'; expected red or green; did you mean 'green'?"},
    {"unknown param type",
     "params: {n: {type: integer, default: 1}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:20: type is 'integer'; expected string, int, float, bool, duration, path or size"},
    {"unset variable", "tasks: {a: {run: x, env: {U: \"${{ env.USERS }}\"}}}",
     "p.yaml:1:35: variable USERS is not set; expected it in the environment of flowrun, or a "
     "param"},
    {"unknown task",
     "tasks:\n"
     "  probe: {uses: nccl-probe}\n"
     "  a: {run: x, needs: [probe], env: {I: \"${{ tasks.prob.outputs.iface }}\"}}\n",
     "p.yaml:3:45: unknown task 'prob'; did you mean 'probe'?"},
    {"not needed",
     "tasks:\n"
     "  probe: {uses: nccl-probe}\n"
     "  a: {run: x, env: {I: \"a ${{ tasks.probe.outputs.iface }}\"}}\n",
     "p.yaml:3:31: task 'a' uses an output of 'probe' but does not need it; expected 'probe' under "
     "its needs:"},
    {"undeclared output",
     "tasks:\n"
     "  probe: {uses: nccl-probe}\n"
     "  a: {run: x, needs: probe, env: {I: '${{ tasks.probe.outputs.ifcae }}'}}\n",
     "p.yaml:3:43: task 'probe' declares no output 'ifcae'; expected iface, bandwidth_gbps, "
     "latency_us, master_addr, master_port or nccl_env; did you mean 'iface'?"},
    {"undeclared output of a script",
     "tasks:\n"
     "  b: {run: x}\n"
     "  a: {run: x, needs: [b], argv: ~, env: {I: '${{ tasks.b.outputs.k }}'}}\n",
     "p.yaml:3:3: 'a' does more than one thing; expected one of uses, run or argv\n"
     "p.yaml:3:33: argv is nothing; expected a list of at least one text\n"
     "p.yaml:3:50: task 'b' declares no output 'k'; expected 'outputs: [k]' under that task"},
    {"outputs of a kind without any",
     "tasks:\n"
     "  b: {uses: cleanup}\n"
     "  a: {run: x, needs: [b], env: {I: '${{ tasks.b.outputs.k }}'}}\n",
     "p.yaml:3:41: task 'b' declares no output 'k'; expected another task: cleanup tasks have "
     "none"},
    {"own output",
     "tasks:\n"
     "  b: {run: x, outputs: [k], env: {I: '${{ tasks.b.outputs.k }}'}}\n",
     "p.yaml:2:43: task 'b' cannot use its own output"},
    {"fan-in",
     "nodes: inv.yaml\n"
     "tasks:\n"
     "  b: {run: x, on: big, outputs: [k]}\n"
     "  a: {run: x, on: [n3], needs: [b], env: {I: '${{ tasks.b.outputs.k }}'}}\n",
     "p.yaml:4:51: task 'b' runs on 2 nodes, and not on all of 'a': which is meant?; expected "
     "tasks.b.on('n1').outputs.k or tasks.b.on_head.outputs.k"},
    {"output of a node it does not run on",
     "nodes: inv.yaml\n"
     "tasks:\n"
     "  b: {run: x, on: big, outputs: [k]}\n"
     "  a: {run: x, needs: [b], env: {I: \"${{ tasks.b.on('n3').outputs.k }}\", J: \"${{ "
     "tasks.b.on('n4').outputs.k }}\"}}\n",
     "p.yaml:4:41: task 'b' does not run on node 'n3'\n"
     "p.yaml:4:81: unknown node 'n4'; expected a name of the inventory; did you mean 'n1'?"},
    {"output of the head",
     "nodes: inv.yaml\n"
     "tasks:\n"
     "  b: {run: x, on: [n2, n3], outputs: [k]}\n"
     "  a: {run: x, needs: [b], env: {I: \"${{ tasks.b.on_head.outputs.k }}\"}}\n",
     "p.yaml:4:41: task 'b' does not run on the head"},
    {"incomplete output",
     "tasks:\n"
     "  b: {run: x, outputs: [k]}\n"
     "  a: {run: x, needs: [b], env: {I: \"${{ tasks.b.k }}\"}}\n",
     "p.yaml:3:41: 'tasks.b.k' is not complete; expected tasks.NAME.outputs.KEY, "
     "tasks.NAME.on('NODE').outputs.KEY, tasks.NAME.on_head.outputs.KEY, tasks.NAME.all.KEY or "
     "tasks.NAME.items"},
    {"node in a number", "tasks: {a: {run: x, slots: \"${{ node.index }}\"}}",
     "p.yaml:1:33: 'node.index' is not known when the file is read; expected params or env"},
    {"secret in arguments",
     "secrets: {k: {env: K}}\n"
     "tasks: {a: {argv: [x, \"${{ secrets.k }}\"]}}",
     "p.yaml:2:28: 'secrets.k' cannot stand here; expected it in env: of a task or in with: of "
     "notify"},
    {"unknown secret",
     "secrets: {token: {env: K}}\n"
     "tasks: {a: {run: x, env: {T: \"${{ secrets.tokn }}\"}}}",
     "p.yaml:2:35: unknown secret 'tokn'; expected a name under secrets:; did you mean 'token'?"},
    {"secret without source",
     "secrets: {token: {}, two: {env: A, file: b}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:11: secret 'token' is not complete; expected one of env, file or command\n"
     "p.yaml:1:22: secret 'two' is not complete; expected one of env, file or command"},
    {"state outside when", "tasks: {a: {run: x, env: {T: \"${{ failure() }}\"}}}",
     "p.yaml:1:35: 'failure()' cannot stand here; expected it in when:"},
    {"outputs in the pipeline's env",
     "env: {T: \"${{ tasks.a.outputs.k }}\"}\n"
     "tasks: {a: {run: x, outputs: [k]}}",
     "p.yaml:1:15: 'tasks.a.outputs.k' cannot stand here; expected it in a task"},
    {"open expression", "tasks: {a: {run: x, env: {T: \"a ${{ node.name\"}}}",
     "p.yaml:1:33: '${{' without '}}'"},
    {"open quote", "tasks: {a: {run: x, when: \"node.name == 'n1\"}}",
     "p.yaml:1:41: a quote that is not closed"},
    {"bad operator", "tasks: {a: {run: x, when: node.name = 'n1'}}",
     "p.yaml:1:37: '=' cannot stand in an expression"},
    {"missing operand", "tasks: {a: {run: x, when: node.index > }}",
     "p.yaml:1:39: the expression ends too early; expected a value"},
    {"no order", "tasks: {a: {run: x, when: \"'a' < 'b'\"}}",
     "p.yaml:1:28: 'a' and 'b' have no order; expected numbers"},
    {"two values", "tasks: {a: {run: x, when: node.index 3}}",
     "p.yaml:1:38: expected the end of the expression, or an operator"},
    {"deep parentheses",
     "tasks: {a: {run: x, when: "
     "\"((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))\"}}",
     "p.yaml:1:60: nested too deep"},
    {"unknown name", "tasks: {a: {run: x, when: \"nod.index == 1 || node.indx == 2\"}}",
     "p.yaml:1:28: unknown name 'nod'; expected params, tasks, node, run, env or a 'text'; did you "
     "mean 'node'?\n"
     "p.yaml:1:46: unknown name 'indx'; expected name, address, user, index, gpus, slots, labels, "
     "work or executor; did you mean 'index'?"},
    {"run.status in a task", "tasks: {a: {run: x, when: run.status == 'failed'}}",
     "p.yaml:1:27: unknown name 'status'; expected id or name"},
    {"text around an expression in when",
     "params: {env: {default: test}, dry: {type: bool, default: true}}\n"
     "tasks:\n"
     "  a: {run: x, when: \"${{ params.env }} == 'prod'\"}\n"
     "  b: {run: x, when: \"!${{ params.dry }}\"}\n"
     "  c: {run: x, when: \"'${{ params.env }}' == 'prod' && ${{ node.index > 1 }}\"}\n"
     "  d: {run: x, when: \"${{ attempt }} ${{ params.env }}\"}\n"
     "  e: {run: x, when: \"is-${{ params.env }}\"}\n"
     "  f: {run: x, when: \"${{ params.env }} == prod\"}\n"
     "  g: {run: x, when: \"${{ '${{ params.env }}' == 'prod' }}\"}\n"
     "  h: {run: x, when: \"${{ params.evn }} == 'prod'\"}\n"
     "  i: {run: x, when: \"node.name == '${{ params.env\"}\n",
     "p.yaml:3:21: " AROUND "one expression: when: ${{ params.env == 'prod' }}\n"
     "p.yaml:4:21: " AROUND "one expression: when: ${{ !params.dry }}\n"
     "p.yaml:5:21: " AROUND
     "one expression: when: ${{ params.env == 'prod' && (node.index > 1) }}\n"
     "p.yaml:6:21: " AROUND ALONE "\np.yaml:7:21: " AROUND ALONE "\np.yaml:8:21: " AROUND ALONE
     "\np.yaml:9:26: '${{' cannot stand in a quoted text; expected the name alone, without quotes "
     "and braces\n"
     "p.yaml:10:21: " AROUND ALONE "\np.yaml:11:21: " AROUND ALONE},
    {"empty lists and maps",
     "nodes: []\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:8: nodes is an empty list; expected a list of 1 to 4096 nodes, each a map with a "
     "name"},
    {"empty argv and others",
     "tasks:\n"
     "  a: {argv: [], on: [], files: [], env: []}\n"
     "  b: {}\n"
     "  c: {run: ''}\n"
     "on_exit: {}\n",
     "p.yaml:2:13: argv is an empty list; expected a list of at least one text\n"
     "p.yaml:2:21: on is an empty list; expected all, head, control, nodes or labels\n"
     "p.yaml:2:32: files is an empty list; expected a map of names and paths\n"
     "p.yaml:2:41: env is an empty list; expected a map of names and texts\n"
     "p.yaml:3:3: 'b' does nothing; expected one of uses, run or argv\n"
     "p.yaml:4:12: run is ''; expected a shell script\n"
     "p.yaml:5:10: on_exit is an empty map; expected a list of at most 100 maps with uses, run or "
     "argv"},
    {"no tasks at all", "tasks: {}",
     "p.yaml:1:8: tasks is an empty map; expected a map of 1 to 100000 tasks by name"},
    {"a value where a map was meant",
     "params: {who: world}\n"
     "secrets: {s: TOKEN}\n"
     "keep: 3\n"
     "tasks: {a: {run: x, retry: 3, log: 1GiB}, b: echo hi, c: [echo]}",
     "p.yaml:1:15: a param is 'world'; expected a map of its keys, like {default: world}\n"
     "p.yaml:2:14: a secret is 'TOKEN'; expected a map of its keys, like {env: TOKEN}\n"
     "p.yaml:3:7: keep is '3'; expected a map of its keys, like {days: 3}\n"
     "p.yaml:4:28: retry is '3'; expected a map of its keys, like {times: 3}\n"
     "p.yaml:4:36: log is '1GiB'; expected a map of its keys, like {max: 1GiB}\n"
     "p.yaml:4:46: a task is 'echo hi'; expected a map of its keys, like {run: echo hi}\n"
     "p.yaml:4:58: a task is a list; expected a map of its keys"},
    {"names of 65 characters",
     "params: {" X65 ": {default: 1}}\n"
     "secrets: {" X65 ": {env: A}}\n"
     "nodes: [{name: " X65 ", labels: [" X65 "]}]\n"
     "tasks: {" X65 ": {run: x, outputs: [" X65 "]}}",
     "p.yaml:1:10: '" X65 "' cannot be the name of a param; expected " NAME "\n"
     "p.yaml:2:11: '" X65 "' cannot be the name of a secret; expected " NAME "\n"
     "p.yaml:3:9: '" X65 "' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:3:92: the name is '" X65 "'; expected " LABEL "\n"
     "p.yaml:4:9: '" X65 "' cannot be the name of a task; expected " NAME "\n"
     "p.yaml:4:95: the name is '" X65 "'; expected " LABEL},
    {"limits of no time",
     "tasks: {a: {run: x, timeout: 0s, lost_after: 0ms, grace: 0s, retry: {delay: 0s}}}",
     "p.yaml:1:30: timeout is '0s'; expected never or a duration like 10s, above zero\n"
     "p.yaml:1:46: lost_after is '0ms'; expected never or a duration like 10s, above zero"},
    {"keys of other tools",
     "version: 3\n"
     "on: push\n"
     "environment: {A: 1}\n"
     "jobs:\n"
     "  build: {run: x}\n"
     "tasks:\n"
     "  a:\n"
     "    if: always()\n"
     "    depends_on: [b]\n"
     "    script: echo\n"
     "    command: echo\n"
     "    environment: {A: 1}\n"
     "    gpus: 8\n"
     "    runs-on: x\n"
     "    continue-on-error: true\n"
     "    retry: {attempts: 3}\n"
     "    steps: [x]\n"
     "    ru: x\n"
     "nodes: [{name: n1, host: h}]\n",
     "p.yaml:1:1: a pipeline has no key 'version'; expected no version: there is one form\n"
     "p.yaml:2:1: a pipeline has no key 'on'; expected no such key: flowrun FILE starts it (from a "
     "crontab, too)\n"
     "p.yaml:3:1: a pipeline has no key 'environment'; expected env: {NAME: VALUE}\n"
     "p.yaml:4:1: a pipeline has no key 'jobs'; expected tasks: {NAME: {run: SCRIPT}}\n"
     "p.yaml:7:3: 'a' does nothing; expected one of uses, run or argv\n"
     "p.yaml:8:5: a task has no key 'if'; expected when: EXPRESSION\n"
     "p.yaml:9:5: a task has no key 'depends_on'; expected needs: [TASK]\n"
     "p.yaml:10:5: a task has no key 'script'; expected run: SCRIPT\n"
     "p.yaml:11:5: a task has no key 'command'; expected run: SCRIPT, or argv: [PROGRAM, "
     "ARGUMENT]\n"
     "p.yaml:12:5: a task has no key 'environment'; expected env: {NAME: VALUE}\n"
     "p.yaml:13:5: a task has no key 'gpus'; expected slots: N (of the node's slots: in the "
     "inventory); gpus: stands with a node\n"
     "p.yaml:14:5: a task has no key 'runs-on'; expected on: all, head, a node or a label\n"
     "p.yaml:15:5: a task has no key 'continue-on-error'; expected best_effort: true\n"
     "p.yaml:16:13: retry has no key 'attempts'; expected times: N\n"
     "p.yaml:17:5: a task has no key 'steps'; expected run: SCRIPT\n"
     "p.yaml:18:5: a task has no key 'ru'; did you mean 'run'?\n"
     "p.yaml:19:20: a node has no key 'host'; expected address: HOST"},
    {"an empty bool",
     "params: {dry: {type: bool, default: ''}}\n"
     "tasks: {a: {run: x, best_effort: '', gang: \"${{ 'tr' }}ue!\"}}",
     "p.yaml:1:37: param 'dry' is ''; expected true or false\n"
     "p.yaml:2:34: best_effort is ''; expected true or false\n"
     "p.yaml:2:44: gang is '${{ 'tr' }}ue!'; expected true or false"},
    {"unknown place",
     "nodes: inv.yaml\n"
     "tasks: {a: {run: x, on: [n1, n22]}, b: {run: x, on: al}}",
     "p.yaml:2:30: on: there is no node or label 'n22'; expected all, head, control, or a node or "
     "label of the inventory; did you mean 'n2'?\n"
     "p.yaml:2:53: on: there is no node or label 'al'; expected all, head, control, or a node or "
     "label of the inventory; did you mean 'all'?"},
    {"missing inventory",
     "nodes: nowhere.yaml\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:8: nodes: cannot open /w/nowhere.yaml: No such file or directory; expected the path "
     "of an inventory"},
    {"inventory is a text",
     "nodes: [n1, n2]\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:9: a node is 'n1'; expected a map of its keys, like {name: n1}\n"
     "p.yaml:1:13: a node is 'n2'; expected a map of its keys, like {name: n2}"},
    {"names that are paths or flags",
     "nodes: [{name: \"..\"}, {name: \".\"}, {name: \"\"}, {name: -rf}]\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:9: '..' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:1:23: '.' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:1:36: '' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:1:48: '-rf' cannot be the name of a node; " NODE_NAME},
    {"nodes",
     "nodes:\n"
     "  - {name: all}\n"
     "  - {name: n1, executor: ssh}\n"
     "  - {name: n1, address: -oProxyCommand=x}\n"
     "  - {name: n4, labels: [n1], port: 70000, gpu: 8}\n"
     "  - {address: 1.2.3.4}\n"
     "  - {name: n5, connect: {timeout: 0s, retry_for: often}}\n"
     "  - {name: n6, address: '[::1'}\n"
     "  - {name: n7, address: '10.0.0.1:22'}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:2:5: 'all' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:3:5: node 'n1' has no address; expected address: HOST\n"
     "p.yaml:4:5: node 'n1' is there already, at line 3; expected a name of its own\n"
     "p.yaml:4:5: address of node 'n1' is '-oProxyCommand=x'; expected one word without '@'\n"
     "p.yaml:5:5: label 'n1' of node 'n4' is the name of a node or place; expected another word\n"
     "p.yaml:5:36: port is '70000'; expected a whole number from 1 to 65535\n"
     "p.yaml:5:43: a node has no key 'gpu'; did you mean 'gpus'?\n"
     "p.yaml:6:5: a node needs the key 'name'\n"
     "p.yaml:7:35: timeout is '0s'; expected a duration of 1s or more, like 1h30m\n"
     "p.yaml:7:50: retry_for is 'often'; expected never or a duration like 10s, above "
     "zero\n"
     "p.yaml:8:5: address of node 'n6' is '[::1'; expected a name, or an address like ::1\n"
     "p.yaml:9:5: address of node 'n7' is '10.0.0.1:22'; expected a name or an address; "
     "the port goes to port:"},
    {"work folders",
     "nodes:\n"
     "  - {name: a, work: $HOME/x}\n"
     "  - {name: b, work: 'node:/x'}\n"
     "  - {name: c, work: ~bob/x}\n"
     "  - {name: d, work: ''}\n"
     "  - {name: e, work: x/y}\n"
     "  - {name: f, work: '~'}\n"
     "tasks: {a: {run: x}}\n",
     "p.yaml:2:5: work of node 'a' is '$HOME/x'" WORK_WANTED "\n"
     "p.yaml:3:5: work of node 'b' is 'node:/x'" WORK_WANTED "\n"
     "p.yaml:4:5: work of node 'c' is '~bob/x'" WORK_WANTED "\n"
     "p.yaml:5:5: work of node 'd' is ''" WORK_WANTED},
    {"an address that needs quotes", "nodes: [{name: n1, address: ::1}]\ntasks: {a: {run: x}}",
     "p.yaml:1:29: did not find expected node content while parsing a flow node that began at line "
     "1; expected a value, or quotes around one like '::1' that begins with ':'"},
    {"in is no container",
     "tasks:\n"
     "  c: {run: x}\n"
     "  b: {uses: container}\n"
     "  a: {run: x, in: c}\n"
     "  d: {run: x, in: b}\n"
     "  e: {run: x, in: f}\n",
     "p.yaml:4:19: task 'c' is no container; expected a task with uses: container\n"
     "p.yaml:5:19: task 'd' runs in 'b' but does not need it; expected 'b' under its needs:\n"
     "p.yaml:6:19: task 'e' needs unknown task 'f'"},
    {"container elsewhere",
     "nodes: inv.yaml\n"
     "tasks:\n"
     "  c: {uses: container}\n"
     "  a: {run: x, on: all, in: c, needs: [c]}\n",
     "p.yaml:4:28: 'c' runs on fewer nodes than 'a'; expected a container on all nodes of the "
     "task"},
    {"retry", "tasks: {a: {run: x, retry: {times: -1, backoff: 0.5, on: [exits, 300], delay: 10}}}",
     "p.yaml:1:36: times is '-1'; expected a whole number from 0 to 1000\n"
     "p.yaml:1:49: backoff is '0.5'; expected a number from 1 to 100\n"
     "p.yaml:1:59: 'exits' is no cause to try again; expected an exit code from 1 to 255, exit, "
     "signal, timeout, oom, start_failed, node_lost, lost, unreachable, time_limit, preempted "
     "or cancelled_outside; did you mean 'exit'?\n"
     "p.yaml:1:66: '300' is no cause to try again; expected an exit code from 1 to 255, exit, "
     "signal, timeout, oom, start_failed, node_lost, lost, unreachable, time_limit, preempted "
     "or cancelled_outside\n"
     "p.yaml:1:79: delay is '10'; expected a duration like 10s or 1h30m"},
    {"a file's place that is too long", "tasks: {a: {run: x, files: {" X715 ": f}}}",
     "p.yaml:1:29: the file's place is 715 bytes long; a node takes at most 700"},
    {"files", "tasks: {a: {run: x, files: {../x: y, /etc/z: z, ok: ''}}}",
     "p.yaml:1:29: '../x'" NO_PLACE "\np.yaml:1:38: '/etc/z'" NO_PLACE "\n"
     "p.yaml:1:53: file 'ok' comes from nowhere; expected a path, or node:/path"},
    {"files that the node would not take",
     "tasks: {a: {run: x, files: {./x: y, x/: y, a//b: y, a/./b: y, '': y, .b/..c/d: y}}}",
     "p.yaml:1:29: './x'" NO_PLACE "\np.yaml:1:37: 'x/'" NO_PLACE "\np.yaml:1:44: 'a//b'" NO_PLACE
     "\np.yaml:1:53: 'a/./b'" NO_PLACE "\np.yaml:1:63: ''" NO_PLACE},
    {"names",
     "tasks: {1a: {run: x}, b: {run: x, outputs: ['a b'], env: {A-B: 1, FLOWRUN_X: 2, "
     "C.D: 3}}}",
     "p.yaml:1:9: '1a' cannot be the name of a task; expected " NAME "\n"
     "p.yaml:1:45: the name is 'a b'; expected " LABEL "\n"
     "p.yaml:1:59: 'A-B' cannot be the name of a variable; expected letters, digits and '_': no "
     "shell reads a variable with '-' or '.'\n"
     "p.yaml:1:67: 'FLOWRUN_X' cannot be the name of a variable; expected letters, digits and '_'; "
     "FLOWRUN_ is ours\n"
     "p.yaml:1:81: 'C.D' cannot be the name of a variable; expected letters, digits and '_': no "
     "shell reads a variable with '-' or '.'"},
    {"limits",
     "max_parallel: 0\n"
     "tasks: {a: {run: x, timeout: soon, log: {max: lots, on_full: die}, become: root, gang: "
     "perhaps}}",
     "p.yaml:1:15: max_parallel is '0'; expected a whole number from 1 to 4096\n"
     "p.yaml:2:30: timeout is 'soon'; expected never or a duration like 10s, above zero\n"
     "p.yaml:2:47: max is 'lots'; expected a size like 512MiB\n"
     "p.yaml:2:62: on_full is 'die'; expected drop_middle or stop\n"
     "p.yaml:2:76: become is 'root'; expected none or sudo\n"
     "p.yaml:2:88: gang is 'perhaps'; expected true or false"},
    {"unknown program", "tasks: {a: {run: x, needs_program: [flowtrian]}}",
     "p.yaml:1:36: unknown program 'flowtrian'; expected flowtrain; did you mean 'flowtrain'?"},
    {"several at once",
     "nmae: x\n"
     "tasks:\n"
     "  a: {rnu: x}\n"
     "  b: {run: x, needs: [c], retry: {tims: 2}}\n",
     "p.yaml:1:1: a pipeline has no key 'nmae'; did you mean 'name'?\n"
     "p.yaml:3:3: 'a' does nothing; expected one of uses, run or argv\n"
     "p.yaml:3:7: a task has no key 'rnu'; did you mean 'run'?\n"
     "p.yaml:4:23: task 'b' needs unknown task 'c'\n"
     "p.yaml:4:35: retry has no key 'tims'; did you mean 'times'?"},
    {"tab",
     "tasks:\n"
     "	a: 1\n",
     "p.yaml:2:1: a tab; expected spaces"},
    {"hook with needs",
     "tasks: {a: {run: x}}\n"
     "on_exit: [{run: y, needs: [a]}, z]",
     "p.yaml:2:20: a hook has no key 'needs'; expected no needs: a hook starts when the run has "
     "ended\n"
     "p.yaml:2:33: a hook is 'z'; expected a map of its keys, like {run: z}"},
    {"names of hooks and sidecars",
     "tasks: {a: {run: x, sidecars: [{name: s/1, run: x}]}}\n"
     "on_failure: [{name: b, run: x}, {name: a, run: x}, {run: x}]\n"
     "on_exit: [{name: ../b, run: x}, {name: b, run: x}, {run: x}]",
     "p.yaml:1:32: 's/1' cannot be the name of a sidecar; expected " LABEL "\n"
     "p.yaml:2:33: 'a' is the name of another hook or task, at line 1; expected a name of its own\n"
     "p.yaml:3:11: '../b' cannot be the name of a hook; expected " LABEL "\n"
     "p.yaml:3:33: 'b' is the name of another hook or task, at line 2; expected a name of its own"},
    {"a rule with events of the home",
     "notify: [{on: [failed, schedule_missed], to: a}, {on: started}]\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:24: on is 'schedule_missed'; expected started, succeeded, recovered, failed, "
     "cancelled, stalled, not_finite, late or node_unreachable\n"
     "p.yaml:1:50: a rule of notify needs the key 'to'"},
    {"secret values in a param",
     "secrets: {k: {env: K}}\n"
     "params: {p: {default: \"${{ secrets.k }}\"}}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:2:28: 'secrets.k' cannot stand here; expected it in env: of a task or in with: of "
     "notify"},
};

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_spec *spec;
        struct fr_buf got = {0};

        check_row(wrong[i].name);
        CHECK_INT(load(wrong[i].text, NULL, 0, &spec, &issues), FR_USAGE);
        CHECK(spec == NULL);
        for (size_t k = 0; k < issues.n; k++)
            fr_buf_fmt(&got, "%s%s", k > 0 ? "\n" : "", issues.lines[k]);
        CHECK_TEXT(got.p ? got.p : "", wrong[i].want);
        fr_buf_finish(&got);
        fr_issues_finish(&issues);
    }
    check_row("");
}

int main(void)
{
    test_wrong();
    return check_done();
}
