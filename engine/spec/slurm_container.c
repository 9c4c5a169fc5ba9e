/* The container of an allocation: which one, its image, and what is mounted into it. */
#include "engine/spec/load.h"

#include <ctype.h>
#include <string.h>

enum { IMAGE_MAX = 1000 };

bool slurm_path_ok(struct fr_str path)
{
    bool ok = path.n > 1 && path.p[0] == '/';

    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    for (size_t i = 0; i < path.n; i++)
        ok = ok && (isalnum((unsigned char)path.p[i]) || (unsigned char)path.p[i] >= 0x80 ||
                    strchr("/_-.+@", path.p[i]) != NULL);
    return ok && fr_path_is_inner((struct fr_str){path.p + 1, path.n - 1});
}

/* One argument of a command, which prints in one line. */
static bool is_image(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (isspace((unsigned char)text[i]) || iscntrl((unsigned char)text[i]) || text[i] == '\'')
            return false;
    return n > 0 && n <= IMAGE_MAX && text[0] != '-';
}

/* Keepers start in the folder /: a path from there would be another file. */
void read_slurm_image(struct loader *l, const struct fr_yaml *y, const struct field *f,
                      void *target)
{
    struct fr_slurm_container *c = target;
    bool pyxis = strcmp(f->name, "pyxis") == 0;
    const char *text = read_now(l, y);
    bool ok = text != NULL && is_image(text);

    if (text == NULL)
        return;
    c->pos = pos_of(l, y);
    if (pyxis)
        ok = ok && text[0] != '.';
    else
        ok = ok && (text[0] == '/' || strstr(text, "://") != NULL);
    if (!ok && strlen(text) > 100)
        complain(l, c->pos, "at most 1000 without blanks", "%s is a text of %zu bytes", f->name,
                 strlen(text));
    else if (!ok)
        complain(l, c->pos,
                 pyxis ? "an image without blanks, like nvcr.io#nvidia/pytorch:25.01 or "
                         "/images/pytorch.sqsh"
                       : "an image without blanks, like /images/pytorch.sif or docker://debian:12",
                 "%s is '%s'", f->name, text);
    else
        *(const char **)(void *)((char *)target + f->at) = text;
}

void read_slurm_program(struct loader *l, const struct fr_yaml *y, const struct field *f,
                        void *target)
{
    struct fr_slurm_container *c = target;
    const char *text = read_now(l, y);

    (void)f;
    if (text == NULL)
        return;
    if (strcmp(text, "apptainer") == 0 || strcmp(text, "singularity") == 0 ||
        slurm_path_ok(fr_str_of(text)))
        c->program = text;
    else
        complain(l, pos_of(l, y), "apptainer, singularity or the absolute path of one of them",
                 "program is '%s'", text);
}

/* "/HERE", "/HERE:/THERE" or "/HERE:/THERE:ro". */
static bool is_mount(const char *text)
{
    for (int part = 0; part < 3; part++) {
        struct fr_str s = {text, strcspn(text, ":")};

        if (part < 2 ? !slurm_path_ok(s) : !fr_str_is(s, "ro") && !fr_str_is(s, "rw"))
            return false;
        text += s.n;
        if (*text == '\0')
            return true;
        text++;
    }
    return false;
}

void read_slurm_mounts(struct loader *l, const struct fr_yaml *y, const struct field *f,
                       void *target)
{
    struct fr_slurm_container *c = target;
    struct items items = items_of(&y);
    size_t n = y->kind == FR_YAML_NULL ? 0 : items.n;
    const char **out = load_alloc(l, n, sizeof(*out));

    (void)f;
    c->mounts = out;
    for (size_t i = 0; out != NULL && i < n; i++) {
        const char *text = read_now(l, items.v[i]);

        if (text != NULL && is_mount(text))
            out[c->n_mounts++] = text;
        else if (text != NULL)
            complain(l, pos_of(l, items.v[i]),
                     "/FOLDER, /FOLDER:/INSIDE or /FOLDER:/INSIDE:ro, of letters, digits, '_', "
                     "'-', '.', '+' and '@', without '.' and '..'",
                     "a mount is '%s'", text);
    }
}

void read_slurm_container(struct loader *l, const struct fr_yaml *y, const struct field *f,
                          void *target)
{
    struct fr_slurm_container *c = &((struct allocation_entry *)target)->spec.container;
    const struct fr_yaml *program = fr_yaml_get(y, "program");
    bool pyxis = fr_yaml_get(y, "pyxis") != NULL, apptainer = fr_yaml_get(y, "apptainer") != NULL;

    c->pos = pos_of(l, y);
    read_object(l, f->object, y, c);
    if (y->kind != FR_YAML_MAP)
        return;
    if (pyxis == apptainer)
        complain(l, pos_of(l, y), "one of them: pyxis: IMAGE or apptainer: IMAGE",
                 pyxis ? "a container has both pyxis: and apptainer:"
                       : "a container has neither pyxis: nor apptainer:");
    else if (pyxis && program != NULL)
        complain(l, pos_of(l, program), "apptainer: IMAGE beside it, or nothing",
                 "program: stands beside pyxis:, which Slurm itself starts");
    if (apptainer && c->program == NULL)
        c->program = "apptainer";
}
