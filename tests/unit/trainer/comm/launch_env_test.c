/* What launchers set, as recorded from them, and the world that they meant. */
#include "engine/base/str.h"
#include "tests/unit/check.h"
#include "trainer/comm/launch_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Slurm 22.05: a task of `srun`, of which node, what ids it has there; a job's script; salloc. */
#define STEP(procid, localid, nodeid, gtids, ntasks, nodes, per_node)                              \
    "SLURM_GTIDS=" gtids " SLURM_JOB_ID=7 SLURM_LOCALID=" localid " SLURM_NODEID=" nodeid          \
    " SLURM_NNODES=" nodes " SLURM_NPROCS=" ntasks " SLURM_NTASKS=" ntasks " SLURM_PROCID=" procid \
    " SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=node[02-03]-x "                           \
    "SLURM_STEP_NUM_NODES=" nodes " SLURM_STEP_NUM_TASKS=" ntasks                                  \
    " SLURM_STEP_TASKS_PER_NODE=" per_node " SLURM_TASKS_PER_NODE=" per_node " "
#define SCRIPT                                                                                     \
    "SLURM_GTIDS=0 SLURM_JOB_ID=3 SLURM_JOB_NUM_NODES=1 SLURM_LOCALID=0 SLURM_NNODES=1 "           \
    "SLURM_NODEID=0 SLURM_PROCID=0 "
#define STALE "SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=node2 SLURM_STEP_NUM_NODES=1 "
#define HYDRA(rank, size, local, locals)                                                           \
    "PMI_FD=8 PMI_RANK=" rank " PMI_SIZE=" size " MPI_LOCALRANKID=" local                          \
    " MPI_LOCALNRANKS=" locals " "

struct world {
    int rank, size, local_rank, local_size;
    int node, nodes; /* -1, 0: told apart by the machine */
};

static const struct {
    const char *name, *env;
    struct world want;
    const char *addr, *wrong; /* wrong: what the refusal says */
} rows[] = {
    {"nothing", "", {0, 1, 0, 1, 0, 1}, "127.0.0.1", NULL},
    {"torchrun",
     "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=2 "
     "MASTER_ADDR=a",
     {3, 4, 1, 2, 1, 2},
     "a",
     NULL},
    {"a container each", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=a", {1, 2, 0, 1, 1, 2}, "a", NULL},
    {"RANK alone", "RANK=1", {0}, NULL, "RANK and WORLD_SIZE must be set both or neither"},
    {"WORLD_SIZE alone", "WORLD_SIZE=2", {0}, NULL, "RANK and WORLD_SIZE must be set both"},
    {"RANK of a task, not its size",
     STEP("1", "1", "0", "0,1", "2", "1", "2") "RANK=1",
     {0},
     NULL,
     "RANK and WORLD_SIZE must be set both"},
    {"RANK too large",
     "RANK=2 WORLD_SIZE=2 MASTER_ADDR=a",
     {0},
     NULL,
     "RANK 2 is not below WORLD_SIZE 2"},
    {"a second rank of the machine, of how many",
     "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=a",
     {0},
     NULL,
     "set LOCAL_RANK and LOCAL_WORLD_SIZE"},
    {"a bad number", "RANK=x WORLD_SIZE=2", {0}, NULL, "environment variable RANK is 'x'"},
    {"nobody says where rank 0 is",
     "RANK=1 WORLD_SIZE=2",
     {0},
     NULL,
     "WORLD_SIZE is 2 but MASTER_ADDR is not set"},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_RANK=1",
     {1, 2, 1, 2, 0, 1},
     "127.0.0.1",
     NULL},
    {"MVAPICH2",
     "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 "
     "MV2_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=a",
     {3, 4, 1, 2, -1, 0},
     "a",
     NULL},
    {"MPICH", HYDRA("1", "2", "1", "2"), {1, 2, 1, 2, 0, 1}, "127.0.0.1", NULL},
    {"MPICH on two machines",
     HYDRA("2", "4", "0", "2") "MASTER_ADDR=a",
     {2, 4, 0, 2, -1, 0},
     "a",
     NULL},
    {"MPICH on two machines, rank 0 on one of them",
     HYDRA("2", "4", "0", "2"),
     {0},
     NULL,
     "PMI_SIZE is 4 but MASTER_ADDR is not set"},
    {"MPICH, 2 ranks here and 1 there",
     HYDRA("0", "3", "0", "2") "MASTER_ADDR=a",
     {0, 3, 0, 2, -1, 0},
     "a",
     NULL},
    {"torchrun, 2 ranks here and 1 there",
     "RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=a",
     {0},
     NULL,
     "2 of 3 ranks are on this machine"},
    {"the same, numbered",
     HYDRA("2", "3", "0", "1") "MASTER_ADDR=a GROUP_RANK=1 GROUP_WORLD_SIZE=2",
     {2, 3, 0, 1, 1, 2},
     "a",
     NULL},
    {"PALS",
     "PMI_RANK=1 PMI_SIZE=2 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2",
     {1, 2, 1, 2, 0, 1},
     "127.0.0.1",
     NULL},
    {"PMI, and no word about the machine",
     "PMI_RANK=1 PMI_SIZE=2",
     {0},
     NULL,
     "this is rank 1 of 2, and nothing says which of the ranks of this machine"},
    {"PMIx, and nothing else", "PMIX_RANK=0", {0}, NULL, "PMIX_RANK is set, so a launcher started"},
    {"MPICH in a script of Slurm: its daemons are the step",
     STEP("0", "0", "0", "0", "2", "2", "1(x2)") HYDRA("1", "4", "1", "2") "MASTER_ADDR=a",
     {1, 4, 1, 2, -1, 0},
     "a",
     NULL},
    {"srun on one node",
     STEP("1", "1", "0", "0,1", "2", "1", "2"),
     {1, 2, 1, 2, 0, 1},
     "127.0.0.1",
     NULL},
    {"srun --mpi=pmi2",
     STEP("1", "1", "0", "0,1", "2", "1", "2") "PMI_RANK=1 PMI_SIZE=2",
     {1, 2, 1, 2, 0, 1},
     "127.0.0.1",
     NULL},
    {"srun on unequal nodes",
     STEP("2", "0", "1", "2", "3", "2", "2,1"),
     {2, 3, 0, 1, 1, 2},
     "node02-x",
     NULL},
    {"srun on equal nodes",
     STEP("6", "0", "3", "6,7", "9", "5", "2(x4),1"),
     {6, 9, 0, 2, 3, 5},
     "node02-x",
     NULL},
    {"srun, ranks dealt out",
     STEP("3", "1", "1", "1,3", "4", "2", "2(x2)"),
     {3, 4, 1, 2, 1, 2},
     "node02-x",
     NULL},
    {"srun and a user's address",
     STEP("3", "1", "1", "1,3", "4", "2", "2(x2)") "MASTER_ADDR=a",
     {3, 4, 1, 2, 1, 2},
     "a",
     NULL},
    {"srun, its names copied to torch's",
     STEP("1", "1", "0", "0,1", "2", "1", "2") "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1",
     {1, 2, 1, 2, 0, 1},
     "127.0.0.1",
     NULL},
    {"flowtrain launch in a task of srun",
     STEP("1", "0", "1", "1", "2", "2",
          "1(x2)") "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 "
                   "GROUP_WORLD_SIZE=2 "
                   "MASTER_ADDR=a",
     {3, 4, 1, 2, 1, 2},
     "a",
     NULL},
    {"sbatch", SCRIPT "SLURM_TASKS_PER_NODE=1", {0, 1, 0, 1, 0, 1}, "127.0.0.1", NULL},
    {"sbatch --ntasks=4",
     SCRIPT "SLURM_NPROCS=4 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4",
     {0, 1, 0, 1, 0, 1},
     "127.0.0.1",
     NULL},
    {"sbatch called in a step of one task",
     SCRIPT STALE "SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_TASKS_PER_NODE=1",
     {0, 1, 0, 1, 0, 1},
     "127.0.0.1",
     NULL},
    {"sbatch called in a step of two tasks",
     SCRIPT STALE "SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2",
     {0, 1, 0, 1, 0, 1},
     "127.0.0.1",
     NULL},
    {"salloc -n 2",
     "SLURM_JOB_ID=8 SLURM_JOB_NUM_NODES=1 SLURM_NNODES=1 SLURM_NPROCS=2 SLURM_NTASKS=2 "
     "SLURM_TASKS_PER_NODE=2",
     {0, 1, 0, 1, 0, 1},
     "127.0.0.1",
     NULL},
    {"salloc",
     "SLURM_JOB_ID=9 SLURM_NNODES=1 SLURM_TASKS_PER_NODE=1",
     {0, 1, 0, 1, 0, 1},
     "127.0.0.1",
     NULL},
};

/* "NAME=value NAME=value" is the whole environment. */
static void set_env(const char *text)
{
    clearenv();
    while (*text != '\0') {
        size_t n = strcspn(text, " "), name = strcspn(text, "=");
        char *one = strndup(text, n);

        one[name] = '\0';
        CHECK_INT(setenv(one, one + name + 1, 1), 0);
        free(one);
        text += n + strspn(text + n, " ");
    }
}

/* Two jobs of a machine have other ports, the ranks of one the same. */
static void ports(void)
{
    struct tr_comm_opts o;
    struct fr_err err;
    int first = 0;

    check_row("ports of Slurm's jobs");
    set_env(STEP("0", "0", "0", "0,1", "2", "1", "2"));
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    first = o.port;
    CHECK(first >= 20000 && first < 32000);
    set_env(STEP("1", "1", "0", "0,1", "2", "1", "2"));
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK_INT(o.port, first);
    (void)setenv("SLURM_STEP_ID", "1", 1);
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK(o.port != first);
    check_row("ports of Open MPI's jobs");
    set_env("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_NAMESPACE=prterun-a-7@1");
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK(o.port != 29500);
    set_env("PMI_RANK=0 PMI_SIZE=1");
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK_INT(o.port, 29500);
    (void)setenv("MASTER_PORT", "29400", 1);
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK_INT(o.port, 29400);
}

/* Ranks meet those of their own run, size and try alone. */
static void jobs(void)
{
    static const char *const others[] = {"TORCHELASTIC_RUN_ID=b", "FLOWTRAIN_GENERATION=2",
                                         "TORCHELASTIC_RESTART_COUNT=1", "WORLD_SIZE=4"};
    static const char one[] =
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
        "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=a FLOWTRAIN_GENERATION=1";
    struct tr_comm_opts o;
    struct fr_err err;
    uint64_t job;

    check_row("the same job");
    set_env(one);
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    job = o.job;
    CHECK_INT(setenv("RANK", "1", 1) | setenv("LOCAL_RANK", "1", 1), 0);
    CHECK_INT(tr_launch_env(&o, &err), FR_OK);
    CHECK(o.job == job);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char text[400];

        check_row(others[i]);
        (void)snprintf(text, sizeof(text), "%s %s", one, others[i]);
        set_env(text);
        CHECK_INT(tr_launch_env(&o, &err), FR_OK);
        CHECK(o.job != job);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_comm_opts o;
        struct fr_err err = {0};

        check_row(rows[i].name);
        set_env(rows[i].env);
        enum fr_rc rc = tr_launch_env(&o, &err);
        CHECK_INT(rc, rows[i].wrong != NULL ? FR_USAGE : FR_OK);
        if (rc != FR_OK) {
            check_that(rows[i].wrong != NULL && strstr(err.msg, rows[i].wrong) != NULL, err.msg,
                       __FILE__, __LINE__);
            continue;
        }
        CHECK_INT(o.rank, rows[i].want.rank);
        CHECK_INT(o.size, rows[i].want.size);
        CHECK_INT(o.local_rank, rows[i].want.local_rank);
        CHECK_INT(o.local_size, rows[i].want.local_size);
        CHECK(rows[i].want.node < 0 ? o.node >= 0 : o.node == rows[i].want.node);
        CHECK_INT(o.nodes, rows[i].want.nodes);
        CHECK_TEXT(o.addr, rows[i].addr);
        tr_comm_opts_finish(&o);
    }
    ports();
    jobs();
    return check_done();
}
