#include "engine/client/session.h"

#include "engine/base/log.h"
#include "engine/show/model.h"

static const struct cli_exit_text exits[] = {
    {CLI_OK, "done: the run succeeded, the question is answered"},
    {CLI_FAILED, "the run failed"},
    {CLI_USAGE, "wrong input: a file, a flag, a value or a name"},
    {CLI_CANCELLED, "the run was cancelled"},
    {CLI_LEFT, "left before the end; tasks go on, 'flowrun resume' takes over"},
    {CLI_OWNED, "another flowrun is in the way"},
    {CLI_UNREACHABLE, "a node could not be reached, or cannot be used"},
    {CLI_HOME, "the state folder (FLOWRUN_HOME), its disk or the output cannot be used"},
    {CLI_INTERNAL, "a fault of flowrun itself"},
    {CLI_OK, NULL},
};

const struct cli_exit_text *cli_exit_texts(void)
{
    return exits;
}

enum cli_exit cli_exit_of(enum fr_rc rc)
{
    switch (rc) {
    case FR_OK:
        return CLI_OK;
    case FR_USAGE:
    case FR_NOTFOUND:
        return CLI_USAGE;
    case FR_BUSY:
        return CLI_OWNED;
    case FR_UNREACHABLE:
    case FR_TIMEOUT:
        return CLI_UNREACHABLE;
    case FR_IO:
    case FR_FULL:
    case FR_DENIED:
    case FR_CORRUPT:
    case FR_UNSUPPORTED:
        return CLI_HOME;
    case FR_STOPPED:
        return CLI_OK;
    default:
        return CLI_INTERNAL;
    }
}

enum cli_exit cli_exit_of_run(const struct cli_model *m)
{
    if (m->now.outcome == FR_OUT_SUCCEEDED)
        return CLI_OK;
    if (m->now.outcome == FR_OUT_CANCELLED)
        return CLI_CANCELLED;
    for (uint32_t i = 0; i < m->plan->n_insts; i++) {
        const struct cli_model_inst *in = &m->insts[i];

        if (in->cause == FR_CAUSE_UNREACHABLE ||
            (in->cause == FR_CAUSE_START_FAILED && in->began == 0))
            return CLI_UNREACHABLE;
    }
    return CLI_FAILED;
}

enum cli_exit cli_fail(const struct fr_err *err)
{
    if (err->rc != FR_STOPPED)
        fr_complain("flowrun: %s\n", err->msg);
    return cli_exit_of(err->rc);
}

enum cli_exit cli_fail_issues(const struct fr_issues *issues, const struct fr_err *err)
{
    if (issues->n == 0)
        return cli_fail(err);
    for (size_t i = 0; i < issues->n; i++)
        fr_complain("%s\n", issues->lines[i]);
    if (issues->n > 1)
        fr_complain("%zu mistakes\n", issues->n);
    return cli_exit_of(err->rc);
}
