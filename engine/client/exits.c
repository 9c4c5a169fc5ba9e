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

static enum cli_exit exit_of(enum fr_rc rc)
{
    static const struct {
        enum fr_rc rc;
        enum cli_exit code;
    } codes[] = {{FR_OK, CLI_OK},
                 {FR_STOPPED, CLI_OK},
                 {FR_USAGE, CLI_USAGE},
                 {FR_NOTFOUND, CLI_USAGE},
                 {FR_BUSY, CLI_OWNED},
                 {FR_UNREACHABLE, CLI_UNREACHABLE},
                 {FR_TIMEOUT, CLI_UNREACHABLE},
                 {FR_IO, CLI_HOME},
                 {FR_FULL, CLI_HOME},
                 {FR_DENIED, CLI_HOME},
                 {FR_CORRUPT, CLI_HOME},
                 {FR_UNSUPPORTED, CLI_HOME}};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (codes[i].rc == rc)
            return codes[i].code;
    return CLI_INTERNAL;
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
    return exit_of(err->rc);
}

enum cli_exit cli_fail_issues(const struct fr_issues *issues, const struct fr_err *err)
{
    if (issues->n == 0)
        return cli_fail(err);
    for (size_t i = 0; i < issues->n; i++)
        fr_complain("%s\n", issues->lines[i]);
    if (issues->n > 1)
        fr_complain("%zu mistakes\n", issues->n);
    return exit_of(err->rc);
}
