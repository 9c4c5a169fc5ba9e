#include "engine/spec/spec.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

static const char inventory[] = "nodes:\n"
                                "  - {name: n1, labels: [big]}\n"
                                "  - {name: n2, labels: [big], address: 10.0.0.2}\n"
                                "  - {name: n3}\n";

static const char *variable(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "USER") == 0 ? "ada" : strcmp(name, "HOME") == 0 ? "/home/ada" : NULL;
}

/* Loads text as p.yaml, with three nodes in /w/inv.yaml and up to two -p flags. */
static enum fr_rc load(const char *text, const char *const *params, size_t n_params,
                       struct fr_spec **spec, struct fr_issues *issues)
{
    struct fr_source sources[] = {{"p.yaml", fr_str_of(text)}, {"/w/inv.yaml", FR_STR(inventory)}};
    struct fr_spec_opts opts = {.path = "p.yaml",
                                .cwd = "/w",
                                .params = params,
                                .n_params = n_params,
                                .sources = sources,
                                .n_sources = 2,
                                .getenv = variable};
    struct fr_err err = {0};

    return fr_spec_load(&opts, spec, issues, &err);
}

/* Every text gives exactly the lines of want; "\n" stands between them. */
#define NODE_NAME                                                                                  \
    "expected letters, digits, '_', '-' and '.', the first neither '-' nor '.', and not all, "     \
    "head or control"

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
     "latency_us, master_addr or master_port; did you mean 'iface'?"},
    {"undeclared output of a script",
     "tasks:\n"
     "  b: {run: x}\n"
     "  a: {run: x, needs: [b], argv: ~, env: {I: '${{ tasks.b.outputs.k }}'}}\n",
     "p.yaml:3:3: 'a' does more than one thing; expected one of uses, run or argv\n"
     "p.yaml:3:33: argv is nothing; expected a list of texts\n"
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
     "tasks.NAME.on('NODE').outputs.KEY or tasks.NAME.on_head.outputs.KEY"},
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
    {"schedule",
     "schedule: {cron: \"0 2 * * *\"}\n"
     "tasks: {a: {run: x}}",
     "p.yaml:1:11: schedule: is not available; expected a line in crontab: flowrun FILE, until "
     "there is a daemon that starts runs by itself"},
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
     "p.yaml:1:9: a node is 'n1'; expected a map of its keys\n"
     "p.yaml:1:13: a node is 'n2'; expected a map of its keys"},
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
     "tasks: {a: {run: x}}",
     "p.yaml:2:5: 'all' cannot be the name of a node; " NODE_NAME "\n"
     "p.yaml:3:5: node 'n1' has no address; expected address: HOST\n"
     "p.yaml:4:5: node 'n1' is there already, at line 3; expected a name of its own\n"
     "p.yaml:4:5: address of node 'n1' is '-oProxyCommand=x'; expected one word without '@'\n"
     "p.yaml:5:5: label 'n1' of node 'n4' is the name of a node or place; expected another word\n"
     "p.yaml:5:36: port is '70000'; expected a whole number from 1 to 65535\n"
     "p.yaml:5:43: a node has no key 'gpu'; did you mean 'gpus'?\n"
     "p.yaml:6:5: a node needs the key 'name'"},
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
     "p.yaml:1:59: retry cannot be on 'exits'; expected an exit code from 1 to 255, exit, signal, "
     "timeout, oom, start_failed, node_lost or lost; did you mean 'exit'?\n"
     "p.yaml:1:66: retry cannot be on '300'; expected an exit code from 1 to 255, exit, signal, "
     "timeout, oom, start_failed, node_lost or lost\n"
     "p.yaml:1:79: delay is '10'; expected a duration like 10s or 1h30m"},
    {"files", "tasks: {a: {run: x, files: {../x: y, /etc/z: z, ok: ''}}}",
     "p.yaml:1:29: '../x' is not in the attempt's folder; expected a path inside it, without '..'\n"
     "p.yaml:1:38: '/etc/z' is not in the attempt's folder; expected a path inside it, without "
     "'..'\n"
     "p.yaml:1:53: file 'ok' comes from nowhere; expected a path, or node:/path"},
    {"names", "tasks: {1a: {run: x}, b: {run: x, outputs: ['a b'], env: {A-B: 1, FLOWRUN_X: 2}}}",
     "p.yaml:1:9: '1a' cannot be the name of a task; expected a letter, then letters, digits, '_' "
     "and '-'\n"
     "p.yaml:1:45: the name is 'a b'; expected letters, digits, '_', '-' and '.'\n"
     "p.yaml:1:59: 'A-B' cannot be the name of a variable; expected letters, digits and '_'; "
     "FLOWRUN_ is ours\n"
     "p.yaml:1:67: 'FLOWRUN_X' cannot be the name of a variable; expected letters, digits and '_'; "
     "FLOWRUN_ is ours"},
    {"limits",
     "max_parallel: 0\n"
     "tasks: {a: {run: x, timeout: soon, log: {max: lots, on_full: die}, become: root, gang: "
     "perhaps}}",
     "p.yaml:1:15: max_parallel is '0'; expected a whole number from 1 to 4096\n"
     "p.yaml:2:30: timeout is 'soon'; expected never or a duration like 10s\n"
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
     "p.yaml:2:20: a hook has no key 'needs'; did you mean 'needs_program'?\n"
     "p.yaml:2:33: a hook is 'z'; expected a map of its keys"},
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

/* One of everything. */
static const char full[] =
    "name: full\n"
    "description: One of everything.\n"
    "params:\n"
    "  image: {default: debian:12}\n"
    "  steps: {type: int, default: 40, help: how many}\n"
    "  model: {type: path, default: models/tiny}\n"
    "  home: {default: '${{ env.HOME }}/x'}\n"
    "  debug: {type: bool, default: false}\n"
    "nodes: inv.yaml\n"
    "secrets:\n"
    "  hook: {env: HOOK}\n"
    "  token: {command: pass show token}\n"
    "max_parallel: 4\n"
    "keep: {days: 3}\n"
    "transport: openssh\n"
    "rendezvous: {port: 4000}\n"
    "env: {A: one, B: 'p${{ params.steps }}', R: '${{ run.id }}'}\n"
    "defaults: {retry: {times: 2, delay: 3s}, timeout: 1h, log: {max: 1MiB}}\n"
    "tasks:\n"
    "  box:\n"
    "    uses: container\n"
    "    on: all\n"
    "    with:\n"
    "      image: ${{ params.image }}\n"
    "      mounts: [/data:/data, \"/x:${{ node.name }}\"]\n"
    "      setup: apt-get update\n"
    "      shm_size: 1GiB\n"
    "      env: {K: v}\n"
    "  probe: {uses: nccl-probe, on: all, needs: box, in: box}\n"
    "  train:\n"
    "    uses: train\n"
    "    needs: [probe]\n"
    "    on: all\n"
    "    in: box\n"
    "    env: {A: two, IF: '${{ tasks.probe.outputs.iface }}', T: 'x${{ secrets.token }}'}\n"
    "    with:\n"
    "      model: ${{ params.model }}\n"
    "      dataset: demo\n"
    "      dataset_dir: node:/data\n"
    "      max_steps: ${{ params.steps }}\n"
    "      learning_rate: 1e-4\n"
    "      output_dir: out/${{ run.id }}\n"
    "      lora_rank: ${{ attempt }}\n"
    "    sidecars: [{uses: janitor, with: {interval: 5s}}, {run: top, env: {S: x}}]\n"
    "    retry: {times: 5, on: [oom, 75, exit]}\n"
    "    timeout: never\n"
    "    grace: 30s\n"
    "    lost_after: 5m\n"
    "    become: sudo\n"
    "    slots: 2\n"
    "  report:\n"
    "    argv: [report, '${{ tasks.train.on_head.outputs.final_loss }}', '--debug=${{ params.debug "
    "}}']\n"
    "    needs: [train]\n"
    "    on: [big, n3]\n"
    "    when: always() && (attempt < 3 || node.name == 'n1')\n"
    "    files: {a/b.txt: data/b.txt, c: 'node:/etc/c'}\n"
    "    outputs: [sum]\n"
    "    best_effort: yes\n"
    "    cwd: /tmp/${{ node.name }}\n"
    "    needs_program: flowtrain\n"
    "on_failure: [{uses: notify, with: {url: '${{ secrets.hook }}', body: 'run ${{ run.status "
    "}}'}}]\n"
    "on_exit:\n"
    "  - {name: tidy, uses: cleanup, on: all, with: {processes: [a, b], port: 4000}}\n";

static struct fr_spec *load_full(const char *const *params, size_t n)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;

    if (!CHECK_INT(load(full, params, n, &spec, &issues), FR_OK))
        for (size_t i = 0; i < issues.n; i++)
            printf("   %s\n", issues.lines[i]);
    fr_issues_finish(&issues);
    return spec;
}

static const struct fr_kv *variable_of(const struct fr_action *act, const char *name)
{
    for (size_t i = 0; i < act->n_env; i++)
        if (strcmp(act->env[i].name, name) == 0)
            return &act->env[i];
    return NULL;
}

static void check_top(const struct fr_spec *spec)
{
    CHECK_TEXT(spec->name, "full");
    CHECK_TEXT(spec->help, "One of everything.");
    CHECK_INT(spec->n_sources, 2);
    CHECK_TEXT(spec->sources[1].path, "/w/inv.yaml");
    CHECK_INT(spec->max_parallel, 4);
    CHECK_INT(spec->rendezvous_port, 4000);
    CHECK(spec->rendezvous_address == NULL);
    CHECK_INT(spec->n_params, 5);
    CHECK_TEXT(spec->params[2].value, "/w/models/tiny");
    CHECK_TEXT(spec->params[3].value, "/home/ada/x");
    CHECK_INT(spec->n_env_used, 1);
    CHECK_TEXT(spec->env_used[0].name, "HOME");
    CHECK_INT(spec->n_secrets, 2);
    CHECK_INT(spec->secrets[1].from, FR_SECRET_COMMAND);
    CHECK_TEXT(spec->secrets[1].arg, "pass show token");
    CHECK_INT(spec->n_nodes, 3);
    CHECK_INT(spec->nodes[0].executor, FR_EXECUTOR_LOCAL);
    CHECK_INT(spec->nodes[1].executor, FR_EXECUTOR_SSH);
    CHECK_INT(spec->nodes[1].transport, FR_VIA_OPENSSH);
    CHECK_INT(spec->nodes[1].keep.days, 3);
    CHECK_INT(spec->nodes[1].slots, 8);
    CHECK_INT(fr_spec_node(spec, "n3"), 2);
    CHECK_INT(fr_spec_node(spec, "n4"), -1);
    CHECK_INT(fr_spec_task(spec, "train"), 2);
}

static void check_train(const struct fr_spec *spec)
{
    const struct fr_task *task = &spec->tasks[2];

    CHECK(task->gang && task->on == FR_ON_ALL);
    CHECK_INT(task->n_nodes, 3);
    CHECK_INT(task->in, 0);
    CHECK_INT(task->n_needs, 1);
    CHECK_INT(task->needs[0], 1);
    CHECK_INT(task->retry.times, 5);
    CHECK_INT(task->retry.delay_ms, 3000);
    CHECK_INT(task->retry.causes, 1u << FR_CAUSE_OOM | 1u << FR_CAUSE_EXIT);
    CHECK_INT(task->retry.n_codes, 1);
    CHECK_INT(task->retry.codes[0], 75);
    CHECK_INT(task->timeout_ms, 0);
    CHECK_INT(task->grace_ms, 30000);
    CHECK_INT(task->lost_after_ms, 300000);
    CHECK_INT(task->log.max_bytes, 1 << 20);
    CHECK_INT(task->become, FR_BECOME_SUDO);
    CHECK_INT(task->slots, 2);
    CHECK_INT(task->n_outputs, 4);
    CHECK_TEXT(task->act.programs[0], "flowtrain");
    CHECK_INT(task->act.n_env, 5);
    CHECK_TEXT(variable_of(&task->act, "A")->value.s, "two");
    CHECK_TEXT(variable_of(&task->act, "B")->value.s, "p40");
    CHECK(variable_of(&task->act, "T")->value.secret);
    CHECK(!variable_of(&task->act, "IF")->value.secret);
    CHECK_INT(task->n_sidecars, 2);
    CHECK_TEXT(task->sidecars[0].name, "janitor");
    CHECK_TEXT(task->sidecars[1].name, "sidecar.1");
    CHECK_INT(task->sidecars[1].n_env, 6);
}

static void check_report(const struct fr_spec *spec)
{
    const struct fr_task *task = &spec->tasks[3], *hook = spec->hooks[FR_HOOK_FAILURE];

    CHECK_INT(task->on, FR_ON_NAMED);
    CHECK_INT(task->n_nodes, 3);
    CHECK(task->ended_is_enough && task->best_effort && !task->gang);
    CHECK_INT(task->timeout_ms, 3600000);
    CHECK_INT(task->act.what, FR_ARGV);
    CHECK_TEXT(task->act.argv[2].s, "--debug=false");
    CHECK_TEXT(task->files[0].name, "a/b.txt");
    CHECK_TEXT(task->files[0].value.s, "/w/data/b.txt");
    CHECK_TEXT(task->files[1].value.s, "node:/etc/c");
    CHECK_TEXT(task->outputs[0], "sum");
    CHECK_INT(spec->n_hooks[FR_HOOK_FAILURE], 1);
    CHECK_TEXT(hook->act.name, "on_failure.0");
    CHECK_INT(hook->nodes[0], FR_NODE_CONTROL);
    CHECK(fr_with_secret(&hook->act));
    CHECK_TEXT(spec->hooks[FR_HOOK_EXIT][0].act.name, "tidy");
    CHECK_INT(spec->hooks[FR_HOOK_EXIT][0].n_nodes, 3);
    CHECK_INT(spec->n_hooks[FR_HOOK_SUCCESS], 0);
}

static void test_full(void)
{
    struct fr_spec *spec = load_full(NULL, 0);

    if (spec == NULL)
        return;
    check_top(spec);
    check_train(spec);
    check_report(spec);
    fr_spec_destroy(spec);
}

/* Values as a run would give them: what is asked for, in brackets. */
static enum fr_rc get(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err)
{
    const struct fr_spec *spec = self;

    if (ref->kind == FR_REF_ATTEMPT) {
        fr_buf_text(out, "2");
    } else if (ref->kind == FR_REF_NODE && strcmp(ref->name, "name") == 0) {
        fr_buf_text(out, "n2");
    } else if (ref->kind == FR_REF_NODE && strcmp(ref->name, "gpus") == 0) {
        fr_buf_text(out, "10");
    } else if (ref->kind == FR_REF_OUTPUT) {
        fr_buf_fmt(out, "[%s %s %d]", spec->tasks[ref->task].act.name, ref->name, (int)ref->where);
    } else if (ref->kind == FR_REF_SUCCESS || ref->kind == FR_REF_FAILURE) {
        fr_buf_text(out, ref->kind == FR_REF_FAILURE ? "true" : "false");
    } else if (ref->kind == FR_REF_RUN) {
        fr_buf_text(out, "r1");
    } else {
        return fr_fail(err, FR_NOTFOUND, "no value");
    }
    return FR_OK;
}

static void check_text_is(const struct fr_text *t, const struct fr_resolver *r, const char *want)
{
    struct fr_buf b = {0};
    struct fr_err err = {0};

    if (fr_text_eval(t, r, &b, &err) == FR_OK)
        CHECK_TEXT(b.p ? b.p : "", want);
    else
        CHECK_TEXT(err.msg, want);
    fr_buf_finish(&b);
}

static bool count_refs(void *arg, const struct fr_ref *ref)
{
    (void)ref;
    return ++*(int *)arg < 2;
}

static void test_values(void)
{
    struct fr_spec *spec = load_full(NULL, 0);
    struct fr_resolver r = {.self = spec, .get = get};
    const struct fr_task *report, *train;
    struct fr_err err = {0};
    json_t *json;
    bool when;
    int n = 0;

    if (spec == NULL)
        return;
    report = &spec->tasks[3];
    train = &spec->tasks[2];

    check_text_is(&report->act.argv[1], &r, "[train final_loss 2]");
    check_text_is(&report->act.cwd, &r, "/tmp/n2");
    check_text_is(&variable_of(&train->act, "IF")->value, &r, "[probe iface 0]");
    check_text_is(&variable_of(&train->act, "T")->value, &r, "${{ secrets.token }}: no value");
    CHECK_INT(fr_text_true(&report->when, &r, &when, &err), FR_OK);
    CHECK(when);
    CHECK_INT(fr_text_true(&(struct fr_text){0}, NULL, &when, &err), FR_OK);
    CHECK(when);
    fr_text_refs(&report->when, count_refs, &n);
    CHECK_INT(n, 2);
    CHECK_INT(fr_with_json(&train->act, "/w", &r, &json, &err), FR_OK);
    CHECK_TEXT(json_string_value(json_object_get(json, "model")), "/w/models/tiny");
    CHECK_TEXT(json_string_value(json_object_get(json, "dataset_dir")), "node:/data");
    CHECK_TEXT(json_string_value(json_object_get(json, "output_dir")), "out/r1");
    CHECK_INT(json_integer_value(json_object_get(json, "max_steps")), 40);
    CHECK_INT(json_integer_value(json_object_get(json, "lora_rank")), 2);
    CHECK_INT(json_integer_value(json_object_get(json, "ddp_timeout")), 120000);
    CHECK(json_is_true(json_object_get(json, "overwrite_output_dir")));
    CHECK(json_object_get(json, "bf16") == NULL);
    json_decref(json);
    CHECK_INT(fr_with_json(&spec->tasks[0].act, "/w", &r, &json, &err), FR_OK);
    CHECK_INT(json_array_size(json_object_get(json, "mounts")), 2);
    CHECK_TEXT(json_string_value(json_array_get(json_object_get(json, "mounts"), 1)), "/x:n2");
    CHECK_INT(json_array_size(json_object_get(json, "setup")), 1);
    CHECK_INT(json_integer_value(json_object_get(json, "shm_size")), 1 << 30);
    CHECK_TEXT(json_string_value(json_object_get(json_object_get(json, "env"), "K")), "v");
    json_decref(json);
    fr_spec_destroy(spec);
}

static void test_late_type(void)
{
    static const char text[] = "tasks:\n  b: {run: x, outputs: [port]}\n"
                               "  a: {uses: cleanup, needs: [b], with: {port: '${{ "
                               "tasks.b.outputs.port }}'}}\n";
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};
    json_t *json;

    if (!CHECK_INT(load(text, NULL, 0, &spec, &issues), FR_OK))
        return;
    CHECK_INT(
        fr_with_json(&spec->tasks[1].act, "/w", &(struct fr_resolver){spec, get}, &json, &err),
        FR_USAGE);
    CHECK(json == NULL);
    CHECK_TEXT(err.msg, "task 'a': input 'port' is '[b port 0]'; expected a whole number");
    fr_spec_destroy(spec);
}

static const struct {
    const char *when, *want; /* want: true, false */
} conditions[] = {
    {"true", "true"},
    {"!true", "false"},
    {"!(1 == 2)", "true"},
    {"1 == 1.0", "true"},
    {"'1' == 1", "true"},
    {"'a' == 'a' && 'a' != 'b'", "true"},
    {"2 < 10", "true"},
    {"node.gpus > 9", "true"},
    {"node.gpus >= 10 && node.gpus <= 10", "true"},
    {"node.name == \"n2\"", "true"},
    {"node.name == 'it''s'", "false"},
    {"false || false || attempt == 2", "true"},
    {"false && node.nothing_here == 1 || true", ""},
    {"success()", "false"},
    {"failure()", "true"},
    {"success() || always()", "true"},
    {"-1 < 0", "true"},
    {"''", "false"},
    {"0", "false"},
    {"${{ node.name == 'n2' }}", "true"},
    {"${{ node.name }}", "true"},
    {"true || 'a' < 'b'", "true"},
};

static void test_conditions(void)
{
    for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_buf text = {0};
        struct fr_spec *spec;
        struct fr_err err = {0};
        bool got = false;

        check_row(conditions[i].when);
        fr_buf_fmt(&text, "tasks:\n  a:\n    run: x\n    when: >-\n      %s\n", conditions[i].when);
        if (load(text.p, NULL, 0, &spec, &issues) != FR_OK) {
            CHECK_TEXT("", conditions[i].want);
        } else {
            CHECK_INT(
                fr_text_true(&spec->tasks[0].when, &(struct fr_resolver){spec, get}, &got, &err),
                FR_OK);
            CHECK_TEXT(got ? "true" : "false", conditions[i].want);
        }
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
        fr_buf_finish(&text);
    }
    check_row("");
}

static const struct {
    const char *name, *flags[2], *want;
} flags[] = {
    {"unknown",
     {"stpes=1", NULL},
     "-p 'stpes': the pipeline has no such param; did you mean 'steps'?"},
    {"no value", {"steps", NULL}, "-p 'steps' is not right; expected -p NAME=VALUE"},
    {"type", {"steps=ten", NULL}, "param 'steps' is 'ten'; expected a whole number"},
    {"last wins", {"steps=1", "steps=x"}, "param 'steps' is 'x'; expected a whole number"},
};

static void test_flags(void)
{
    static const char *const good[] = {"steps=7", "model=/m"};
    struct fr_spec *spec = load_full(good, 2);

    if (spec == NULL)
        return;
    CHECK_TEXT(spec->params[1].value, "7");
    CHECK_TEXT(spec->params[2].value, "/m");
    CHECK(spec->params[1].given && !spec->params[0].given);
    fr_spec_destroy(spec);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct fr_issues issues = {0};

        check_row(flags[i].name);
        CHECK_INT(load("params: {steps: {type: int, default: 1}}\ntasks: {a: {run: x}}",
                       flags[i].flags, flags[i].flags[1] ? 2 : 1, &spec, &issues),
                  FR_USAGE);
        CHECK_INT(issues.n, 1);
        CHECK_TEXT(issues.n > 0 ? issues.lines[0] : "", flags[i].want);
        fr_issues_finish(&issues);
    }
    check_row("");
}

/* Mistakes in the inventory name its file; the default is one local node. */
static void test_inventory(void)
{
    struct fr_source sources[] = {{"p.yaml", FR_STR("nodes: bad.yaml\ntasks: {a: {run: x}}")},
                                  {"/w/bad.yaml", FR_STR("- {name: n1, adress: h}\n")}};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/w", .sources = sources, .n_sources = 2};
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    struct fr_err err = {0};

    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "/w/bad.yaml:1:14: a node has no key 'adress'; did you mean 'address'?");
    fr_issues_finish(&issues);
    sources[1].text = FR_STR("a: [\n");
    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_USAGE);
    CHECK(fr_has_prefix(err.msg, "/w/bad.yaml:2:1: did not find expected node content"));
    fr_issues_finish(&issues);
    opts.path = "/nonexistent/p.yaml";
    CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_NOTFOUND);
    CHECK(spec == NULL);
    CHECK_INT(load("tasks: {a: {run: x}}", NULL, 0, &spec, &issues), FR_OK);
    CHECK_TEXT(spec->name, "p");
    CHECK_INT(spec->n_nodes, 1);
    CHECK_TEXT(spec->nodes[0].address, "127.0.0.1");
    CHECK_INT(spec->tasks[0].n_nodes, 1);
    CHECK_TEXT(spec->tasks[0].act.shell, "sh");
    fr_spec_destroy(spec);
}

/* Each beginning of the file, and each with one byte changed, loads or is refused: nothing else. */
static void test_broken_files(void)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;
    char text[sizeof(full)];
    int refused = 0;

    for (size_t i = 0; i < sizeof(full) - 1; i++) {
        enum fr_rc rc;

        memcpy(text, full, sizeof(full));
        if (i % 2 == 0)
            text[i] = '\0';
        else
            text[i] = "{[:'#*&\n"[i / 2 % 8];
        rc = load(text, NULL, 0, &spec, &issues);
        if (!CHECK((rc == FR_OK) == (spec != NULL) && (rc == FR_OK || issues.n > 0)))
            printf("   at byte %zu\n", i);
        refused += rc != FR_OK;
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
    }
    CHECK(refused > 1000);
}

static long calls_left; /* the next failure is so many calls away; 0: none */
static bool persist;    /* all calls after it fail too */
static bool fired;

static bool fails(void)
{
    if (calls_left == 0)
        return persist && fired;
    fired |= calls_left == 1;
    return --calls_left == 0;
}

static void *failing_alloc(size_t n)
{
    return fails() ? NULL : fr_sys_real.alloc(n);
}

static void *failing_realloc(void *p, size_t n)
{
    return fails() ? NULL : fr_sys_real.realloc(p, n);
}

/* The n-th allocation fails: the load succeeds or says that memory is short, and nothing leaks. */
static void test_no_memory(void)
{
    static const char text[] = "params: {n: {default: 1}}\nsecrets: {s: {env: S}}\n"
                               "env: {S: '${{ secrets.s }}', N: '${{ params.n }}'}\n"
                               "tasks:\n"
                               "  a: {run: x, outputs: [k], sidecars: [{run: y}]}\n"
                               "  b: {argv: [x, '${{ tasks.a.outputs.k }}'], needs: [a]}\n"
                               "on_exit: [{uses: notify, with: {url: u, headers: {A: b}}}]\n";
    bool more = true;

    fr_sys.alloc = failing_alloc;
    fr_sys.realloc = failing_realloc;
    for (long n = 1; more; n++)
        for (int p = 0; p < 2; p++) {
            struct fr_issues issues = {0};
            struct fr_spec *spec;
            enum fr_rc rc;

            calls_left = n;
            persist = p == 1;
            fired = false;
            rc = load(text, NULL, 0, &spec, &issues);
            if (!CHECK(rc == FR_OK || (rc == FR_NOMEM && spec == NULL)))
                printf("   allocation %ld gave %s: %s\n", n, fr_rc_name(rc),
                       issues.n ? issues.lines[0] : "");
            more = fired;
            calls_left = 0;
            persist = false;
            fr_spec_destroy(spec);
            fr_issues_finish(&issues);
        }
    fr_sys = fr_sys_real;
}

static int write_schema(const char *path)
{
    struct fr_buf text = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_spec_schema(&text, &err);

    if (rc == FR_OK)
        rc = fr_file_write(path, text.p, text.n, 0644, &err);
    fr_buf_finish(&text);
    if (rc != FR_OK)
        printf("%s\n", err.msg);
    return rc == FR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* The committed schema is what the code accepts. After a change: spec_test --write FILE. */
static void test_schema(void)
{
    struct fr_buf made = {0}, stored = {0};
    struct fr_err err = {0};

    CHECK_INT(fr_spec_schema(&made, &err), FR_OK);
    if (CHECK_INT(fr_file_read(SOURCE_ROOT "/schema/pipeline.schema.json", 1 << 20, &stored, &err),
                  FR_OK))
        CHECK(made.n == stored.n && memcmp(made.p, stored.p, made.n) == 0);
    fr_buf_finish(&made);
    fr_buf_finish(&stored);
}

/* What we ship loads, and hello runs on each cluster. */
static void test_examples(void)
{
    static const char *const clusters[] = {"local-3", "ssh-3", "a100-3x8"};

    for (size_t i = 0; i < 3; i++) {
        struct fr_issues issues = {0};
        struct fr_spec *spec;
        struct fr_err err = {0};
        char nodes[64];
        const char *param = nodes;
        struct fr_spec_opts opts = {.path = SOURCE_ROOT "/examples/hello.yaml",
                                    .cwd = SOURCE_ROOT,
                                    .params = &param,
                                    .n_params = 1,
                                    .getenv = variable};

        snprintf(nodes, sizeof(nodes), "nodes=examples/clusters/%s.yaml", clusters[i]);
        check_row(clusters[i]);
        if (!CHECK_INT(fr_spec_load(&opts, &spec, &issues, &err), FR_OK))
            printf("   %s\n", err.msg);
        else
            CHECK_INT(spec->n_nodes, 3);
        fr_spec_destroy(spec);
        fr_issues_finish(&issues);
    }
    check_row("");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0)
        return write_schema(argv[2]);
    test_wrong();
    test_full();
    test_values();
    test_late_type();
    test_conditions();
    test_flags();
    test_inventory();
    test_broken_files();
    test_no_memory();
    test_schema();
    test_examples();
    return check_done();
}
