/*
 * flowtrain train: one rank of a training run. The other ranks are found by torchrun's environment;
 * without it this is the only one.
 */
#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "trainer/cli/planned.h"
#include "trainer/cli/ranks.h"
#include "trainer/comm/launch_env.h"
#include "trainer/train/train.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* SIGTERM and SIGINT are read where a run waits or works for long (tr_run_stop_asked); blocked
 * before any thread exists. */
static int stop_requests(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static enum fr_rc train_with(const struct tr_args *a, struct tr_comm_opts *o, struct fr_err *err)
{
    struct tr_ranks ranks = {.device = a->device, .transport = a->transport};
    struct tr_train_counts counts;
    struct tr_train_env env = {.stop_fd = stop_requests(), .counts = &counts};
    enum fr_rc rc;

    o->timeout_ms = a->ddp_timeout * 1000;
    o->allow_slow_links = a->allow_slow_links;
    o->stop_fd = &env.stop_fd;
    rc = tr_ranks_join(&ranks, o, err);
    env.be = ranks.be;
    env.comm = ranks.comm;
    if (rc == FR_OK) {
        fr_print(
            "Process rank: %d, world size: %d, device: %s:%d, distributed training: %s, compute "
            "dtype: %s\n",
            o->rank, o->size, env.be->ops->name, o->local_rank, o->size > 1 ? "True" : "False",
            a->bf16   ? "torch.bfloat16"
            : a->fp16 ? "torch.float16"
                      : "torch.float32");
        (void)fflush(stdout);
        rc = tr_train(a, &env, err);
        if (rc == FR_OK)
            tr_planned_compare(a, &env);
        if (rc != FR_OK && rc != FR_STOPPED)
            tr_comm_abort(env.comm, err->msg);
    }
    tr_comm_destroy(env.comm);
    tr_backend_destroy(env.be);
    if (env.stop_fd >= 0)
        close(env.stop_fd);
    return rc;
}

static enum fr_rc train(struct tr_call *call, struct fr_err *err)
{
    struct tr_comm_opts o = {0};
    struct tr_args a;
    struct fr_buf notes = {0};
    enum fr_rc rc = tr_args_read(&a, call->argc, call->argv, &notes, err);

    if (rc == FR_OK)
        rc = tr_launch_env(&o, err);
    if (rc == FR_OK && o.rank == 0 && notes.n > 0)
        fr_complain("%s", notes.p);
    if (rc == FR_OK && a.deepspeed != NULL && o.size == 1)
        fr_log(FR_LOG_INFO, "train",
               "one process alone: DeepSpeed's partitioning has nothing to do");
    if (rc == FR_OK)
        rc = train_with(&a, &o, err);
    tr_comm_opts_finish(&o);
    tr_args_finish(&a);
    fr_buf_finish(&notes);
    return rc;
}

const struct tr_command tr_cmd_train = {
    .name = "train",
    .summary = "fine-tune a model: one rank of a run",
    .usage = "flowtrain train --NAME VALUE …\n"
             "flowtrain train FILE.yaml [NAME=VALUE …]\n\n",
    .help = tr_args_help,
    .run = train,
};
