#include "trainer/cli/ranks.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/backend/device.h"
#include "trainer/cli/cli.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char THREADS[] = "OMP_NUM_THREADS", POLICY[] = "OMP_WAIT_POLICY",
                  SPINS[] = "GOMP_SPINCOUNT";

int64_t tr_rank_threads(int64_t ranks)
{
    const char *given = getenv(THREADS);
    cpu_set_t set;
    int64_t n = 1;

    if (given != NULL && fr_parse_i64(fr_str_of(given), &n, NULL) == FR_OK && n > 0)
        return n;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set) / ranks;
    return n > 1 ? n : 1;
}

void tr_add_variable(struct fr_buf *own, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(own, fmt, ap);
    va_end(ap);
    fr_buf_add(own, "", 1);
}

/* Whether own has a variable of var's name. */
static bool replaced(const struct fr_buf *own, const char *var)
{
    size_t name = strcspn(var, "=") + 1;

    for (size_t at = 0; at < own->n; at += strlen(own->p + at) + 1)
        if (strncmp(var, own->p + at, name) == 0)
            return true;
    return false;
}

const char **tr_environment(const struct fr_buf *own)
{
    size_t most = 1, n = 0;
    const char **env;

    for (size_t i = 0; i < own->n; i++)
        most += own->p[i] == '\0';
    for (size_t i = 0; environ[i] != NULL; i++)
        most++;
    if (own->bad || (env = fr_sys.alloc(most * sizeof(*env))) == NULL)
        return NULL;
    for (size_t i = 0; environ[i] != NULL; i++)
        if (!replaced(own, environ[i]))
            env[n++] = environ[i];
    for (size_t at = 0; at < own->n; at += strlen(own->p + at) + 1)
        env[n++] = own->p + at;
    env[n] = NULL;
    return env;
}

void tr_wait_briefly(char **argv)
{
    (void)prctl(PR_SET_NAME, "flowtrain"); /* what ps shows, which would be "exe" */
    if (getenv(POLICY) != NULL || getenv(SPINS) != NULL)
        return;
    if (setenv(SPINS, "2000", 1) == 0)
        (void)execv(tr_program(), argv);
    fr_log(FR_LOG_WARN, "cpu",
           "cannot be started again with %s: %s; other work beside it may slow "
           "it down more",
           SPINS, strerror(errno));
}

enum fr_rc tr_rank_like(int64_t ranks, const char *command, int argc, const char *const *argv,
                        struct fr_err *err)
{
    const char **words;
    char threads[24];
    int e;

    if (getenv(THREADS) != NULL)
        return FR_OK;
    if ((words = fr_sys.alloc(((size_t)argc + 3) * sizeof(*words))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the arguments");
    words[0] = "flowtrain";
    words[1] = command;
    memcpy(words + 2, argv, (size_t)argc * sizeof(*words));
    words[argc + 2] = NULL;
    (void)snprintf(threads, sizeof(threads), "%lld", (long long)tr_rank_threads(ranks));
    if (setenv(THREADS, threads, 1) == 0)
        (void)execv(tr_program(), (char *const *)(uintptr_t)words);
    e = errno;
    fr_sys.free(words);
    return fr_fail_errno(err, e, "cannot start flowtrain as a rank would be");
}

enum fr_rc tr_ranks_join(struct tr_ranks *r, const struct tr_comm_opts *o, struct fr_err *err)
{
    enum fr_rc rc = r->transport == TR_TRANSPORT_HOST
                        ? tr_device_share(r->device, o->local_rank, &r->be, err)
                        : tr_device_create(r->device, o->local_rank, &r->be, err);

    if (rc != FR_OK)
        return rc;
    if (r->be->memory->is_host && r->transport == TR_TRANSPORT_NCCL)
        return fr_fail(err, FR_USAGE,
                       "--transport nccl: NCCL works between GPUs, this is backend %s",
                       r->be->ops->name);
    if (o->size == 1)
        return tr_comm_single(r->be, &r->comm, err);
    if (r->be->memory->is_host)
        return tr_comm_cpu(r->be, o, &r->comm, err);
    return r->transport == TR_TRANSPORT_HOST   ? tr_comm_host(r->be, o, &r->comm, err)
           : r->transport == TR_TRANSPORT_NCCL ? tr_comm_nccl(r->be, o, &r->comm, err)
                                               : tr_comm_gpus(r->be, o, &r->comm, err);
}
