/* The runs of this process that its host drives. */
#ifndef FR_RUNS_RUNS_H
#define FR_RUNS_RUNS_H

#include "engine/run/run.h"

struct fr_host;

/* What this process gives a run of its own. Borrowed until the run is dropped. */
struct fr_host_own {
    struct fr_run_shell shell;
    struct fr_view view;
};

/* As fr_run_submit() and fr_run_resume(); the host owns the run until fr_host_drop(). */
enum fr_rc fr_host_submit(struct fr_host *host, const struct fr_submit *submit,
                          const struct fr_host_own *own, struct fr_run **out,
                          struct fr_issues *issues, struct fr_err *err);
enum fr_rc fr_host_resume(struct fr_host *host, const struct fr_resume_opts *opts,
                          const struct fr_host_own *own, struct fr_run **out,
                          struct fr_issues *issues, struct fr_err *err);
void fr_host_drop(struct fr_host *host, struct fr_run *run); /* destroys it, too */

#endif
