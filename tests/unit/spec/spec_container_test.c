/* The container of an allocation of Slurm: what is read of it, and what is wrong with one. */
#include "tests/unit/spec/spec_load.h"

#define MOUNT                                                                                      \
    "expected /FOLDER, /FOLDER:/INSIDE or /FOLDER:/INSIDE:ro, of letters, digits, '_', '-', '.', " \
    "'+' and '@', without '.' and '..'"
#define PYXIS                                                                                      \
    "expected an image without blanks, like nvcr.io#nvidia/pytorch:25.01 or /images/pytorch.sqsh"
#define SIF "expected an image without blanks, like /images/pytorch.sif or docker://debian:12"
#define ONE "expected one of them: pyxis: IMAGE or apptainer: IMAGE"

/* container: of an allocation with that text. */
static const struct {
    const char *name, *text, *want;
} wrong[] = {
    {"none", "{}", "p.yaml:1:66: a container has neither pyxis: nor apptainer:; " ONE},
    {"mounts alone", "{mounts: [/a]}",
     "p.yaml:1:66: a container has neither pyxis: nor apptainer:; " ONE},
    {"both", "{pyxis: a, apptainer: /b}",
     "p.yaml:1:66: a container has both pyxis: and apptainer:; " ONE},
    {"an image alone", "debian",
     "p.yaml:1:66: a container is 'debian'; expected a map of its keys"},
    {"a key that is none", "{pyxis: a, mount: /b}",
     "p.yaml:1:77: a container has no key 'mount'; did you mean 'mounts'?"},
    {"no image", "{pyxis: ''}", "p.yaml:1:74: pyxis is ''; " PYXIS},
    {"an option as image", "{pyxis: --wrap=x}", "p.yaml:1:74: pyxis is '--wrap=x'; " PYXIS},
    {"two words", "{pyxis: 'a b'}", "p.yaml:1:74: pyxis is 'a b'; " PYXIS},
    {"a quote", "{pyxis: \"a'b\"}", "p.yaml:1:74: pyxis is 'a'b'; " PYXIS},
    {"a relative file", "{pyxis: ./a.sqsh}", "p.yaml:1:74: pyxis is './a.sqsh'; " PYXIS},
    {"a relative SIF", "{apptainer: a.sif}", "p.yaml:1:78: apptainer is 'a.sif'; " SIF},
    {"a name of Docker alone", "{apptainer: 'debian:12'}",
     "p.yaml:1:78: apptainer is 'debian:12'; " SIF},
    {"a program of pyxis", "{pyxis: a, program: apptainer}",
     "p.yaml:1:86: program: stands beside pyxis:, which Slurm itself starts; expected apptainer: "
     "IMAGE beside it, or nothing"},
    {"another program", "{apptainer: /a, program: docker}",
     "p.yaml:1:91: program is 'docker'; expected apptainer, singularity or the absolute path of "
     "one of them"},
    {"a relative mount", "{pyxis: a, mounts: [b]}", "p.yaml:1:86: a mount is 'b'; " MOUNT},
    {"a mount to nowhere", "{pyxis: a, mounts: ['/b:']}", "p.yaml:1:86: a mount is '/b:'; " MOUNT},
    {"a mount with a comma", "{pyxis: a, mounts: ['/b,/c']}",
     "p.yaml:1:86: a mount is '/b,/c'; " MOUNT},
    {"a mount upwards", "{pyxis: a, mounts: [/b/../c]}",
     "p.yaml:1:86: a mount is '/b/../c'; " MOUNT},
    {"flags", "{pyxis: a, mounts: ['/b:/c:rx']}", "p.yaml:1:86: a mount is '/b:/c:rx'; " MOUNT},
    {"four parts", "{pyxis: a, mounts: ['/b:/c:ro:z']}",
     "p.yaml:1:86: a mount is '/b:/c:ro:z'; " MOUNT},
};

static struct fr_spec *load_with(const char *container, struct fr_issues *issues)
{
    struct fr_buf text = {0};
    struct fr_spec *spec;

    fr_buf_fmt(&text,
               "nodes: {slurm: {work: /w, allocations: {t: {time: 1h, container: %s}}}}\n"
               "tasks: {a: {run: x}}",
               container);
    load(text.p, NULL, 0, &spec, issues);
    fr_buf_finish(&text);
    return spec;
}

static void test_wrong(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_issues issues = {0};
        struct fr_spec *spec = load_with(wrong[i].text, &issues);

        check_row(wrong[i].name);
        CHECK_INT(issues.n, 1);
        CHECK_TEXT(issues.n > 0 ? issues.lines[0] : "nothing", wrong[i].want);
        fr_issues_finish(&issues);
        fr_spec_destroy(spec);
    }
    check_row("");
}

static void check_read(const char *text, const char *want)
{
    struct fr_issues issues = {0};
    struct fr_spec *spec = load_with(text, &issues);
    struct fr_buf got = {0};

    check_row(text);
    if (CHECK(spec != NULL)) {
        const struct fr_slurm_container *c = &spec->slurm->allocations[0].container;

        fr_buf_fmt(&got, "%d:%d %s %s %s", c->pos.line, c->pos.col, c->pyxis ? c->pyxis : "-",
                   c->apptainer ? c->apptainer : "-", c->program ? c->program : "-");
        for (size_t i = 0; i < c->n_mounts; i++)
            fr_buf_fmt(&got, " %s", c->mounts[i]);
        CHECK_TEXT(got.p, want);
    }
    fr_buf_finish(&got);
    fr_issues_finish(&issues);
    fr_spec_destroy(spec);
}

static void test_right(void)
{
    check_read("{pyxis: 'nvcr.io#nvidia/pytorch:25.01'}", "1:74 nvcr.io#nvidia/pytorch:25.01 - -");
    check_read("{pyxis: /i/a.sqsh, mounts: /data}", "1:74 /i/a.sqsh - - /data");
    check_read("{apptainer: /i/a.sif, mounts: ['/d:/e', '/f:/g:ro', '/h:/h:rw']}",
               "1:78 - /i/a.sif apptainer /d:/e /f:/g:ro /h:/h:rw");
    check_read("{apptainer: 'docker://debian:12', program: singularity, mounts: null}",
               "1:78 - docker://debian:12 singularity");
    check_read("{apptainer: /i, program: /opt/a/bin/apptainer}", "1:78 - /i /opt/a/bin/apptainer");
    check_row("");
}

int main(void)
{
    test_wrong();
    test_right();
    return check_done();
}
