#include "tasks/gpu.h"

#include "tasks/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MS = 60000, FIELDS = 6 };

int fr_version_compare(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        char *ea, *eb;
        long x = strtol(a, &ea, 10), y = strtol(b, &eb, 10);
        if (x != y)
            return x < y ? -1 : 1;
        a = *ea == '.' ? ea + 1 : "";
        b = *eb == '.' ? eb + 1 : "";
    }
    return 0;
}

static int by_bus(const void *a, const void *b)
{
    const struct fr_gpu *x = a, *y = b;

    return strcasecmp(x->bus, y->bus);
}

static enum fr_rc parse_line(struct fr_gpus *g, const char *line, size_t n, struct fr_err *err)
{
    char fields[FIELDS][96] = {{0}};
    const char *p = line, *end = line + n;
    struct fr_gpu *gpu = &g->v[g->n];
    int64_t index;
    int k;

    for (k = 0; k < FIELDS && p <= end; k++) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma != NULL ? comma : end;
        const char *next = stop + 1;
        while (p < stop && *p == ' ')
            p++;
        while (stop > p && stop[-1] == ' ')
            stop--;
        snprintf(fields[k], sizeof(fields[k]), "%.*s", (int)(stop - p), p);
        p = next;
    }
    if (k < FIELDS || fr_parse_i64(fr_str_of(fields[0]), &index, NULL) != FR_OK)
        return fr_fail(err, FR_PROTO, "nvidia-smi says '%.*s', expected %d fields", (int)n, line,
                       FIELDS);
    if (g->n == FR_GPUS_MAX)
        return fr_fail(err, FR_UNSUPPORTED, "more than %d GPUs", FR_GPUS_MAX);
    *gpu = (struct fr_gpu){.index = (int)index};
    snprintf(gpu->bus, sizeof(gpu->bus), "%.31s", fields[1]);
    snprintf(gpu->name, sizeof(gpu->name), "%.63s", fields[2]);
    snprintf(gpu->uuid, sizeof(gpu->uuid), "%.63s", fields[3]);
    if (fr_parse_i64(fr_str_of(fields[4]), &gpu->memory_mib, NULL) != FR_OK)
        gpu->memory_mib = 0; /* "[N/A]" on machines with unified memory */
    snprintf(g->driver, sizeof(g->driver), "%.31s", fields[5]);
    g->n++;
    return FR_OK;
}

enum fr_rc fr_gpus_parse(struct fr_gpus *g, const char *csv, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    g->n = 0;
    for (const char *p = csv; rc == FR_OK && *p != '\0';) {
        size_t n = strcspn(p, "\n");
        if (n > 0)
            rc = parse_line(g, p, n, err);
        p += p[n] == '\n' ? n + 1 : n;
    }
    if (rc == FR_OK)
        qsort(g->v, g->n, sizeof(g->v[0]), by_bus);
    return rc;
}

/* The dotted number after label in text, or "". */
static void number_behind(const char *text, const char *label, char *out, size_t cap)
{
    const char *p = strstr(text, label);

    out[0] = '\0';
    if (p == NULL)
        return;
    p += strlen(label);
    p += strspn(p, " :");
    snprintf(out, cap, "%.*s", (int)strspn(p, "0123456789."), p);
}

void fr_gpus_parse_banner(struct fr_gpus *g, const char *text)
{
    number_behind(text, "CUDA Version", g->cuda, sizeof(g->cuda));
}

void fr_gpus_parse_fabric(struct fr_gpus *g, const char *text)
{
    number_behind(text, "version is", g->fabric, sizeof(g->fabric));
}

bool fr_gpus_error_802(const struct fr_gpus *g, char why[512])
{
    int major = (int)strcspn(g->driver, ".");

    why[0] = '\0';
    if (g->n == 0 || (!g->switches && g->fabric[0] == '\0'))
        return false;
    if (g->fabric[0] == '\0')
        snprintf(
            why, 512,
            "the machine has NVSwitches but no Fabric Manager: CUDA fails with error "
            "802 (system not yet initialized). Install nvidia-fabricmanager-%.*s in version %s, "
            "the driver's, and start it: systemctl enable --now nvidia-fabricmanager",
            major, g->driver, g->driver);
    else if (strcmp(g->fabric, g->driver) != 0)
        snprintf(
            why, 512,
            "Fabric Manager %s is not the driver's %s: CUDA fails with error 802 "
            "(system not yet initialized). Install nvidia-fabricmanager-%.*s in version %s, then: "
            "systemctl restart nvidia-fabricmanager",
            g->fabric, g->driver, major, g->driver, g->driver);
    return why[0] != '\0';
}

/* ---- asking the machine ---- */

/* The command's stdout as text in the job's arena; "" if it prints nothing. */
static enum fr_rc ask(struct fr_job *job, const char *const *argv, const char **out,
                      struct fr_err *err)
{
    struct fr_command c = {.argv = argv, .timeout_ms = ANSWER_MS};
    enum fr_rc rc = fr_command_must(&c, err);

    *out = fr_arena_text(&job->arena, c.out.p != NULL ? c.out.p : "", c.out.n);
    fr_command_finish(&c);
    if (rc == FR_OK && *out == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for what %s says", argv[0]);
    return rc;
}

enum fr_rc fr_gpus_read(struct fr_job *job, struct fr_gpus *g, struct fr_err *err)
{
    static const char *const list[] = {
        "nvidia-smi", "--query-gpu=index,pci.bus_id,name,uuid,memory.total,driver_version",
        "--format=csv,noheader,nounits", NULL};
    static const char *const apps[] = {"nvidia-smi", "--query-compute-apps=gpu_uuid",
                                       "--format=csv,noheader", NULL};
    static const char *const banner[] = {"nvidia-smi", NULL};
    static const char *const fabric[] = {"nv-fabricmanager", "--version", NULL};
    const char *text;
    enum fr_rc rc;

    *g = (struct fr_gpus){.switches = access("/proc/driver/nvidia-nvswitch", F_OK) == 0};
    if (!fr_program_found("nvidia-smi"))
        return fr_fail(err, FR_NOTFOUND, "there is no nvidia-smi on this node");
    if ((rc = ask(job, list, &text, err)) != FR_OK || (rc = fr_gpus_parse(g, text, err)) != FR_OK)
        return rc;
    if ((rc = ask(job, banner, &text, err)) != FR_OK)
        return rc;
    fr_gpus_parse_banner(g, text);
    if ((rc = ask(job, apps, &text, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < g->n; i++)
        g->v[i].used = g->v[i].uuid[0] != '\0' && strstr(text, g->v[i].uuid) != NULL;
    if (fr_program_found("nv-fabricmanager") && ask(job, fabric, &text, NULL) == FR_OK)
        fr_gpus_parse_fabric(g, text);
    return FR_OK;
}
