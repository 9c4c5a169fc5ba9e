/* Users by name and number, without NSS (flownode is static): /etc/passwd, then the command `id`.
 */
#ifndef TASKS_OWNER_H
#define TASKS_OWNER_H

#include "tasks/job.h"

#include <sys/types.h>

/* "self" is the user this runs as; digits are a number. FR_NOTFOUND: no such user. */
enum fr_rc fr_owner_uid(const char *name, uid_t *uid, struct fr_err *err);

/* The name of uid, or its digits; in the job's arena. */
const char *fr_owner_name(struct fr_job *job, uid_t uid);

#endif
