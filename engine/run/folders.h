/* The folders that `slurm:` of an inventory names: are they here, before a job is asked for? */
#ifndef FR_RUN_FOLDERS_H
#define FR_RUN_FOLDERS_H

#include "engine/slurm/partitions.h"
#include "engine/spec/spec.h"

/* Tells what is wrong with work: and path:, each a bad finding. Behind a login node they are
 * folders there, and nothing is looked for. FR_NOMEM, FR_STOPPED. */
enum fr_rc fr_run_check_folders(const struct fr_slurm_spec *s, struct fr_slurm_sink sink,
                                struct fr_err *err);

#endif
