#include "trainer/backend/health.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/klog.h>

enum { TEXT_MAX = 1 << 20, READ_ALL = 3 /* of the kernel's log, syslog(2) */ };

/* ---- nvidia-smi -q: "key : value" lines under headings, four blanks a level ---- */

struct lines {
    const char *p;
    char key[64], value[96];
    size_t depth; /* blanks in front */
};

static void trimmed(char *out, size_t cap, const char *p, size_t n)
{
    while (n > 0 && (*p == ' ' || *p == '\t')) {
        p++;
        n--;
    }
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\r'))
        n--;
    snprintf(out, cap, "%.*s", (int)n, p);
}

/* The next line that is not empty; false at the end. */
static bool next_line(struct lines *l)
{
    while (*l->p != '\0') {
        size_t n = strcspn(l->p, "\n");
        const char *line = l->p, *colon = memmem(line, n, " : ", 3);

        l->p += n + (line[n] == '\n');
        l->depth = strspn(line, " ");
        if (l->depth >= n)
            continue;
        trimmed(l->key, sizeof(l->key), line, colon != NULL ? (size_t)(colon - line) : n);
        trimmed(l->value, sizeof(l->value), colon != NULL ? colon + 3 : "",
                colon != NULL ? n - (size_t)(colon + 3 - line) : 0);
        return true;
    }
    return false;
}

/* Moves to the heading; the deeper lines that follow belong to the heading. */
static bool heading(struct lines *l, const char *name)
{
    while (next_line(l))
        if (l->value[0] == '\0' && strcmp(l->key, name) == 0)
            return true;
    return false;
}

static void value_of(const char *text, const char *under, const char *key, char out[96])
{
    struct lines l = {.p = text};
    size_t depth;

    out[0] = '\0';
    if (!heading(&l, under))
        return;
    depth = l.depth;
    while (next_line(&l) && l.depth > depth)
        if (strcmp(l.key, key) == 0) {
            memcpy(out, l.value, sizeof(l.value));
            return;
        }
}

/* Since the last reset or reboot. */
static long uncorrected(const char *text)
{
    struct lines l = {.p = text};
    size_t depth;
    long sum = 0;

    if (!heading(&l, "ECC Errors") || !heading(&l, "Volatile"))
        return 0;
    depth = l.depth;
    while (next_line(&l) && l.depth > depth)
        if (strstr(l.key, "Uncorrectable") != NULL)
            sum += strtol(l.value, NULL, 10); /* "N/A" is none */
    return sum;
}

/* ---- the kernel's log ---- */

/* Whether the Xid means a broken GPU or link. */
static bool broken(long xid)
{
    static const long all[] = {48, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (xid == all[i])
            return true;
    return false;
}

/* The last line of a broken device at bus; the driver omits the function number. */
static const char *last_xid(const char *log, const char *bus, long *xid)
{
    static const char mark[] = "NVRM: Xid (PCI:";
    const char *found = NULL;
    size_t n = strcspn(bus, ".");

    for (const char *p = strstr(log, mark); p != NULL; p = strstr(p + 1, mark)) {
        const char *at = p + sizeof(mark) - 1, *close = at + strcspn(at, ")\n");
        long number = close[0] == ')' ? strtol(close + 1 + strspn(close + 1, ": "), NULL, 10) : 0;

        if (strncasecmp(at, bus, n) == 0 && broken(number)) {
            found = p;
            *xid = number;
        }
    }
    return found;
}

/* ---- judgement ---- */

static enum fr_rc check_smi(const char *smi, const char *uuid, struct fr_buf *notes,
                            struct fr_err *err)
{
    char failed[96], waits[96], fabric[96];
    long bad = uncorrected(smi);

    value_of(smi, "Remapped Rows", "Remapping Failure Occurred", failed);
    value_of(smi, "Remapped Rows", "Pending", waits);
    value_of(smi, "Fabric", "State", fabric);
    if (bad > 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s has %ld uncorrected memory errors (ECC): reset it by `nvidia-smi "
                       "--gpu-reset -i %s`, or leave it out of CUDA_VISIBLE_DEVICES",
                       uuid, bad, uuid);
    if (strcmp(failed, "Yes") == 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s has memory rows that could not be remapped: leave it out of "
                       "CUDA_VISIBLE_DEVICES and have it replaced",
                       uuid);
    if (fabric[0] != '\0' && strcmp(fabric, "N/A") != 0 && strcmp(fabric, "Completed") != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s is not in the NVSwitch fabric (state: %s): start Fabric Manager in the "
                       "driver's version by `systemctl start nvidia-fabricmanager`",
                       uuid, fabric);
    if (strcmp(waits, "Yes") == 0)
        fr_buf_fmt(notes,
                   "%s has memory rows that wait to be remapped: reset it by `nvidia-smi "
                   "--gpu-reset -i %s` when it is idle\n",
                   uuid, uuid);
    return FR_OK;
}

enum fr_rc tr_health_check(const struct tr_health *h, const struct tr_device_id *id,
                           struct fr_buf *notes, struct fr_err *err)
{
    long xid = 0;

    if (h->kernel != NULL && last_xid(h->kernel, id->bus, &xid) != NULL)
        fr_buf_fmt(notes,
                   "%s at %s: the kernel's log has Xid %ld since the machine started: if "
                   "the GPU was not reset since, do so, or restart the machine\n",
                   id->uuid, id->bus, xid);
    return h->smi != NULL ? check_smi(h->smi, id->uuid, notes, err) : FR_OK;
}

/* ---- reading ---- */

/* Empty if nvidia-smi is missing or fails. */
static void ask_smi(const char *uuid, struct fr_buf *out)
{
    char command[128], part[4096];
    size_t n;
    FILE *f;

    snprintf(command, sizeof(command), "exec timeout -s KILL 20 nvidia-smi -q -i %s 2>/dev/null",
             uuid);
    if ((f = popen(command, "re")) == NULL)
        return;
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        if (out->n < TEXT_MAX)
            fr_buf_add(out, part, n);
    if (pclose(f) != 0)
        fr_buf_cut(out, out->n);
}

/* Empty if the log is not readable. */
static void ask_kernel(struct fr_buf *out)
{
    static const char none[4096];
    int n;

    while (out->n < TEXT_MAX && !out->bad)
        fr_buf_add(out, none, sizeof(none));
    n = out->bad ? -1 : klogctl(READ_ALL, out->p, TEXT_MAX - 1);
    if (n >= 0)
        out->p[n] = '\0';
    else
        fr_buf_finish(out);
}

enum fr_rc tr_health_run(const struct tr_device_id *id, struct fr_err *err)
{
    struct fr_buf smi = {0}, kernel = {0}, notes = {0};
    struct tr_health h;
    enum fr_rc rc;

    ask_smi(id->uuid, &smi);
    ask_kernel(&kernel);
    h = (struct tr_health){smi.n > 0 ? smi.p : NULL, kernel.p};
    rc = tr_health_check(&h, id, &notes, err);
    if (h.smi == NULL)
        fr_log(FR_LOG_WARN, "gpu",
               "nvidia-smi does not answer: memory errors (ECC) and the NVSwitch fabric are not "
               "looked at; put it into PATH");
    if (h.kernel == NULL)
        fr_log(FR_LOG_INFO, "gpu",
               "the kernel's log may not be read: Xid errors are not looked at; root may, or all "
               "with kernel.dmesg_restrict=0");
    for (const char *p = notes.n > 0 ? notes.p : ""; *p != '\0';) {
        size_t n = strcspn(p, "\n");

        fr_log(FR_LOG_WARN, "gpu", "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    fr_buf_finish(&smi);
    fr_buf_finish(&kernel);
    fr_buf_finish(&notes);
    return rc;
}
