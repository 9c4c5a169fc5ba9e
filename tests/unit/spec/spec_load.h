/*
 * For tests of engine/spec: a text is loaded as p.yaml, beside an inventory of three nodes; and a
 * text with one of everything.
 */
#ifndef TESTS_UNIT_SPEC_LOAD_H
#define TESTS_UNIT_SPEC_LOAD_H

#include "engine/spec/spec.h"

#include "tests/unit/check.h"

static const char inventory[] = "defaults: {connect: {timeout: 5s, retry_for: 30s}}\n"
                                "nodes:\n"
                                "  - {name: n1, labels: [big]}\n"
                                "  - {name: n2, labels: [big], address: 10.0.0.2}\n"
                                "  - {name: n3, address: '[::1]', connect: {retry_for: never}}\n";

static inline const char *variable(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "USER") == 0 ? "ada" : strcmp(name, "HOME") == 0 ? "/home/ada" : NULL;
}

/* Loads text as p.yaml, with three nodes in /w/inv.yaml and up to two -p flags. */
static inline enum fr_rc load(const char *text, const char *const *params, size_t n_params,
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
    "timeout: 2h\n"
    "max_active_runs: 2\n"
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

static inline struct fr_spec *load_full(const char *const *params, size_t n)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec;

    if (!CHECK_INT(load(full, params, n, &spec, &issues), FR_OK))
        for (size_t i = 0; i < issues.n; i++)
            printf("   %s\n", issues.lines[i]);
    fr_issues_finish(&issues);
    return spec;
}

static inline const struct fr_kv *variable_of(const struct fr_action *act, const char *name)
{
    for (size_t i = 0; i < act->n_env; i++)
        if (strcmp(act->env[i].name, name) == 0)
            return &act->env[i];
    return NULL;
}

#endif
