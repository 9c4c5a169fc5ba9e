/* The script of a job whose keepers are in a container. */
#include "engine/slurm/commands.h"

#include "tests/unit/check.h"

#define HEAD "#!/bin/sh\nunset SLURM_EXPORT_ENV\n"
#define SRUN                                                                                       \
    "exec srun -Q -N3 -n3 --ntasks-per-node=1 --overlap --mem=0 --kill-on-bad-exit=0 --wait=0 "    \
    "--cpu-bind=none --input=none -o none "
#define EXPORT                                                                                     \
    "--export=PATH,HOME,USER,LOGNAME,SHELL,LANG,TMPDIR,XDG_RUNTIME_DIR,XDG_CONFIG_HOME,"           \
    "XDG_DATA_HOME,XDG_CACHE_HOME,http_proxy,https_proxy,no_proxy "
#define KEEP "'/w/bin/flownode' keep --alloc '/w/x/alloc/T' --kill-wait 30 "

static const char *const mounts[] = {"/data", "/a:/b:ro"};

static const struct {
    const char *name;
    struct fr_allocation_spec spec;
    const char *want;
} rows[] = {
    {"pyxis",
     {.nodes = 3, .gpus = 8, .container = {.pyxis = "nvcr.io#a/b:1"}},
     HEAD "b=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}\n" SRUN
          "-e '/w/x/alloc/T/job.log' --open-mode=append " EXPORT
          "--container-image='nvcr.io#a/b:1' --container-mounts='/w/x:/w/x',\"$b:$b\" " KEEP
          "--inside --base \"$b\"\n"},
    {"pyxis with mounts",
     {.nodes = 3, .container = {.pyxis = "/$i", .mounts = mounts, .n_mounts = 2}},
     HEAD
     "b=${SLURM_TMPDIR:-${TMPDIR:-/tmp}}\n" SRUN
     "-e '/w/x/alloc/T/job.log' --open-mode=append " EXPORT
     "--container-image='/$i' --container-mounts='/w/x:/w/x,/data:/data,/a:/b:ro',\"$b:$b\" " KEEP
     "--inside --base \"$b\"\n"},
    {"apptainer",
     {.nodes = 3, .container = {.apptainer = "/i.sif", .program = "apptainer"}},
     HEAD SRUN EXPORT KEEP "--image '/i.sif' --program 'apptainer'\n"},
    {"apptainer with GPUs and mounts",
     {.nodes = 3,
      .gpus = 1,
      .container = {.apptainer = "docker://d:12",
                    .program = "/o/singularity",
                    .mounts = mounts,
                    .n_mounts = 2}},
     HEAD SRUN EXPORT KEEP "--image 'docker://d:12' --program '/o/singularity' --nv --mount "
                           "'/data' --mount '/a:/b:ro'\n"},
};

static void test_scripts(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_slurm_submit s = {.spec = &rows[i].spec,
                                    .folder = "/w/x/alloc/T",
                                    .flownode = "/w/bin/flownode",
                                    .kill_wait_ms = 30000,
                                    .binds = true};

        check_row(rows[i].name);
        CHECK_TEXT(fr_slurm_script(&s, &arena), rows[i].want);
        fr_arena_finish(&arena);
    }
    check_row("");
}

static void test_help(void)
{
    /* as srun 22.05 prints them with pyxis 0.24 */
    static const char with[] = "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
                               "                              [pyxis] the image to use for the\n";
    /* srun's own option for OCI bundles */
    static const char without[] = "      --container             Path to OCI container bundle\n";

    CHECK(fr_srun_has_pyxis(FR_STR(with)));
    CHECK(!fr_srun_has_pyxis(FR_STR(without)));
    CHECK(!fr_srun_has_pyxis((struct fr_str){"", 0}));
}

int main(void)
{
    test_scripts();
    test_help();
    return check_done();
}
