#include "trainer/config/args_table.h"
#include "trainer/config/ds_config.h"

static void put_default(const struct tr_arg *arg, const char *before, const char *behind,
                        struct fr_buf *out)
{
    if (arg->def != NULL && arg->def[0] != '\0')
        fr_buf_fmt(out, "%s%s%s", before, arg->def, behind);
}

static void put_words(const struct tr_arg *arg, struct fr_buf *out)
{
    for (size_t k = 0; arg->choices != NULL && arg->choices[k] != NULL; k++)
        fr_buf_fmt(out, "%s%s", k > 0 ? ", " : ": ", arg->choices[k]);
}

void tr_args_help(struct fr_buf *out)
{
    for (size_t i = 0; i < tr_arg_count; i++) {
        const struct tr_arg *arg = &tr_arg_table[i];
        if (arg->use == TR_ARG_WORKS) {
            fr_buf_fmt(out, "  --%-31s %s", arg->name, arg->help);
            put_words(arg, out);
            put_default(arg, " [", "]", out);
            fr_buf_text(out, "\n");
        } else
            fr_buf_fmt(out, "  --%-31s %s: %s\n", arg->name,
                       arg->use == TR_ARG_IDLE ? "no effect" : "not done", arg->help);
    }
}

static void put_rows(enum tr_arg_use use, const char *title, const char *what, struct fr_buf *out)
{
    fr_buf_fmt(out, "\n## %s\n\n| argument | default | %s |\n|---|---|---|\n", title, what);
    for (size_t i = 0; i < tr_arg_count; i++) {
        const struct tr_arg *arg = &tr_arg_table[i];
        if (arg->use != use)
            continue;
        fr_buf_fmt(out, "| `%s` | ", arg->name);
        put_default(arg, "`", "`", out);
        fr_buf_fmt(out, " | %s", arg->help);
        put_words(arg, out);
        fr_buf_text(out, " |\n");
    }
}

void tr_args_markdown(struct fr_buf *out)
{
    fr_buf_text(out,
                "# Arguments of flowtrain train\n\n"
                "Made by `flowtrain help arguments`. The names are those of LLaMA-Factory 0.9.5 "
                "with transformers 4.57,\n5.6 or 5.23, and this program's own. They come as flags "
                "(`--name value`), or as a YAML or JSON file followed by\n`name=value` words. "
                "Every argument is accepted at its default.\n");
    put_rows(TR_ARG_WORKS, "What works", "meaning", out);
    put_rows(TR_ARG_IDLE, "Accepted, without effect",
             "why; a line says so when the value is not the default", out);
    put_rows(TR_ARG_REFUSED, "Refused unless at the default", "why, and what to use instead", out);
    tr_ds_markdown(out);
}
