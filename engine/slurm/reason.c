#include "engine/slurm/reason.h"

#include "engine/base/str.h"

#include <stdio.h>
#include <string.h>

#define NEVER "it will not start as it is"
#define LIMIT "your limit is used up"

/* By how a reason begins; the first that fits. Reasons about one job, such as QOSMaxCpuPerJobLimit,
 * stay true while it waits. */
static const struct {
    const char *begins, *has, *words;
    bool final;
} reasons[] = {
    {"None", "", "", false},
    {"Priority", "", "others come first", false},
    {"Resources", "", "nodes are busy", false},
    {"BeginTime", "", "its time to begin has not come", false},
    {"Dependency", "", "it waits for another job", false},
    {"JobHeldUser", "", "held by the user", false},
    {"JobHeldAdmin", "", "held by an administrator", false},
    {"Reservation", "", "its reservation has not begun", false},
    {"Licenses", "", "licenses are in use", false},
    {"ReqNodeNotAvail", "", NEVER, true},
    {"PartitionDown", "", NEVER, true},
    {"PartitionInactive", "", NEVER, true},
    {"PartitionTimeLimit", "", NEVER, true},
    {"PartitionNodeLimit", "", NEVER, true},
    {"PartitionConfig", "", NEVER, true},
    {"BadConstraints", "", NEVER, true},
    {"InvalidQOS", "", NEVER, true},
    {"InvalidAccount", "", NEVER, true},
    {"AccountNotAllowed", "", NEVER, true},
    {"QOSNotAllowed", "", NEVER, true},
    {"AccountingPolicy", "", NEVER, true},
    {"ReservationDeleted", "", NEVER, true},
    {"DeadLine", "", NEVER, true},
    {"QOS", "PerJob", NEVER, true},
    {"Assoc", "PerJob", NEVER, true},
    {"QOSMin", "", NEVER, true},
    {"QOS", "", LIMIT, false},
    {"Assoc", "", LIMIT, false},
};

static size_t find(const char *reason)
{
    size_t i = 0, n = sizeof(reasons) / sizeof(reasons[0]);

    while (i < n &&
           (!fr_has_prefix(reason, reasons[i].begins) || strstr(reason, reasons[i].has) == NULL))
        i++;
    return i;
}

const char *fr_slurm_reason(const char *reason, char *buf, size_t cap)
{
    size_t i = find(reason), n = sizeof(reasons) / sizeof(reasons[0]);

    if (reason[0] == '\0' || (i < n && reasons[i].words[0] == '\0'))
        snprintf(buf, cap, "%s", "");
    else if (i < n)
        snprintf(buf, cap, "%s (%s)", reasons[i].words, reason);
    else
        snprintf(buf, cap, "%s", reason);
    return buf;
}

bool fr_slurm_reason_final(const char *reason)
{
    size_t i = find(reason);

    return i < sizeof(reasons) / sizeof(reasons[0]) && reasons[i].final;
}
