#include "trainer/config/args.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/base/yaml.h"
#include "trainer/config/args_table.h"
#include "trainer/config/yaml_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tr_args_init(struct tr_args *a)
{
    *a = tr_args_absent;
    for (size_t i = 0; i < tr_arg_count; i++)
        if (tr_arg_table[i].def != NULL)
            (void)tr_arg_set(a, &tr_arg_table[i], tr_arg_table[i].def, NULL);
}

void tr_args_finish(struct tr_args *a)
{
    if (a == NULL)
        return;
    fr_arena_finish(&a->arena);
    *a = (struct tr_args){.stage = NULL};
}

/* Returns FR_USAGE; the message suggests a similar name. */
static enum fr_rc tr_arg_unknown(const char *name, size_t n, struct fr_err *err)
{
    const char **words = fr_sys.alloc(tr_arg_count * sizeof(*words)), *near;
    char word[64];

    if (words == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the arguments");
    for (size_t i = 0; i < tr_arg_count; i++)
        words[i] = tr_arg_table[i].name;
    (void)snprintf(word, sizeof(word), "%.*s", (int)(n < 63 ? n : 63), name);
    for (char *p = word; *p != '\0'; p++)
        if (*p == '-')
            *p = '_';
    near = fr_suggest(word, words, tr_arg_count);
    fr_sys.free(words);
    if (near != NULL)
        return fr_fail(err, FR_USAGE, "unknown argument --%s: did you mean --%s?", word, near);
    return fr_fail(err, FR_USAGE, "unknown argument --%s (flowtrain train --help lists all)", word);
}

struct reading {
    struct tr_args *args;
    struct fr_buf *notes; /* NULL: none are wanted */
    bool behind;          /* words follow a file: maps are merged into its maps */
};

/* Appends the JSON of the argument's map with the map `value` merged into it. */
static enum fr_rc join_maps(const struct tr_args *a, const struct tr_arg *arg, const char *value,
                            struct fr_buf *out, struct fr_err *err)
{
    const char *old = *(const char *const *)(const void *)((const char *)a + arg->at);
    json_t *more = json_loads(value, 0, NULL), *all = old != NULL ? json_loads(old, 0, NULL) : NULL;
    char *text = NULL;

    if (json_is_object(all) && json_is_object(more) && json_object_update_recursive(all, more) == 0)
        text = json_dumps(all, 0);
    fr_buf_text(out, text != NULL ? text : value);
    free(text);
    json_decref(all);
    json_decref(more);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name) : FR_OK;
}

static void note_idle(const struct tr_arg *arg, const char *value, struct fr_buf *notes)
{
    if (notes != NULL && arg->use != TR_ARG_WORKS && !tr_arg_is_default(arg, value))
        fr_buf_fmt(notes, "--%s has no effect: %s\n", arg->name, arg->help);
}

/* References of OmegaConf stay text, as in LLaMA-Factory. */
static void note_reference(const struct tr_arg *arg, const char *value, struct fr_buf *notes)
{
    if (notes != NULL && strstr(value, "${") != NULL)
        fr_buf_fmt(notes, "--%s %.80s: ${…} is text, nothing is put in its place\n", arg->name,
                   value);
}

/* The spellings of null in YAML. */
static bool is_null(const char *value)
{
    return value[0] == '\0' || strcmp(value, "~") == 0 || strcmp(value, "null") == 0 ||
           strcmp(value, "Null") == 0 || strcmp(value, "NULL") == 0;
}

/* Sets an argument. NULL is null: the default, or absent without a default. */
static enum fr_rc take_value(void *self, const struct tr_arg *arg, const char *value,
                             struct fr_err *err)
{
    struct reading *r = self;
    enum fr_rc rc;

    struct fr_buf both = {0};

    if (value == NULL)
        return tr_arg_set(r->args, arg, arg->def != NULL ? arg->def : "null", err);
    if (r->behind && arg->kind == TR_ARG_JSON && arg->at != TR_ARG_NOWHERE) {
        if ((rc = join_maps(r->args, arg, value, &both, err)) != FR_OK)
            return rc;
        value = both.p;
    }
    if ((rc = tr_arg_set(r->args, arg, value, err)) == FR_OK) {
        note_idle(arg, value, r->notes);
        note_reference(arg, value, r->notes);
    }
    fr_buf_finish(&both);
    return rc;
}

/* Takes the flag argv[*i] and its value, which may be the next word. */
static enum fr_rc take_flag(struct reading *r, int argc, const char *const *argv, int *i,
                            struct fr_err *err)
{
    const char *word = argv[*i], *eq = strchr(word, '='), *value = NULL;

    if (word[0] != '-' || word[1] != '-' || word[2] == '\0')
        return fr_fail(
            err, FR_USAGE,
            "'%s' is no argument: flags begin with --, a file of arguments ends in .yaml, "
            ".yml or .json",
            word);
    word += 2;
    size_t n = eq != NULL ? (size_t)(eq - word) : strlen(word);
    const struct tr_arg *arg = tr_arg_find(word, n);
    if (arg == NULL && n > 3 && (strncmp(word, "no_", 3) == 0 || strncmp(word, "no-", 3) == 0) &&
        eq == NULL && (arg = tr_arg_find(word + 3, n - 3)) != NULL &&
        (arg->kind == TR_ARG_BOOL || arg->kind == TR_ARG_MAYBE)) {
        (*i)++;
        return tr_arg_set(r->args, arg, "false", err);
    }
    if (arg == NULL)
        return tr_arg_unknown(word, n, err);
    (*i)++;
    if (eq != NULL)
        value = eq + 1;
    else if (*i < argc && (argv[*i][0] != '-' || argv[*i][1] != '-'))
        value = argv[(*i)++];
    if (value != NULL)
        return take_value(r, arg, value[0] != '\0' && is_null(value) ? NULL : value, err);
    note_idle(arg, value, r->notes);
    return tr_arg_set(r->args, arg, value, err);
}

/* Appends x with the fewest digits that parse to the same number. */
static void add_real(struct fr_buf *out, double x)
{
    char text[40];
    int digits = 15;

    do
        (void)snprintf(text, sizeof(text), "%.*g", digits, x);
    while (digits++ < 17 && strtod(text, NULL) != x);
    fr_buf_text(out, text);
}

/* Appends an unquoted scalar in the form that the argument's kind parses. */
static enum fr_rc add_plain(const struct tr_arg *arg, const struct fr_yaml *v, struct fr_buf *out,
                            struct fr_err *err)
{
    struct tr_yaml_plain p = tr_yaml_plain(v->text);
    bool number = arg->kind == TR_ARG_INT || arg->kind == TR_ARG_FLOAT;

    if (v->quoted)
        p.type = TR_YAML_TEXT;
    if (p.type == TR_YAML_BOOL && (arg->kind == TR_ARG_BOOL || arg->kind == TR_ARG_MAYBE))
        fr_buf_text(out, p.yes ? "true" : "false");
    else if (p.type == TR_YAML_WHOLE && number)
        fr_buf_fmt(out, "%lld", (long long)p.whole);
    else if (p.type == TR_YAML_REAL && number)
        add_real(out, p.real);
    else if (p.type == TR_YAML_TEXT && !v->quoted && number && v->text.n > 1 &&
             v->text.p[0] == '0' && strchr("0123456789oO", v->text.p[1]) != NULL)
        return fr_fail(err, FR_USAGE,
                       "--%s %.*s is text in YAML, where a 0 in front makes an octal number: write "
                       "it without",
                       arg->name, (int)(v->text.n < 80 ? v->text.n : 80), v->text.p);
    else
        fr_buf_add(out, v->text.p, v->text.n);
    return FR_OK;
}

/* Appends a value of the file as text: a scalar, or scalars of a list joined by commas. For a JSON
 * argument, a map or a list is appended as JSON. */
static enum fr_rc value_text(const struct tr_arg *arg, const struct fr_yaml *v, struct fr_buf *out,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (v->kind == FR_YAML_SCALAR)
        rc = add_plain(arg, v, out, err);
    else if (arg->kind == TR_ARG_JSON)
        return tr_yaml_json(v, out, err);
    else if (v->kind == FR_YAML_MAP)
        return fr_fail(err, FR_USAGE, "--%s: expected a plain value", arg->name);
    for (size_t i = 0; rc == FR_OK && v->kind == FR_YAML_LIST && i < v->n; i++) {
        if (v->items[i]->kind != FR_YAML_SCALAR)
            return fr_fail(err, FR_USAGE, "--%s: expected a list of plain values", arg->name);
        fr_buf_text(out, i > 0 ? "," : "");
        rc = add_plain(arg, v->items[i], out, err);
    }
    if (rc != FR_OK)
        return rc;
    fr_buf_text(out, ""); /* an empty list is empty text */
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name) : FR_OK;
}

/* The receiver of a file's arguments. */
struct visitor {
    const char *path;
    tr_arg_fn take;
    void *self;
};

static enum fr_rc visit_value(const struct visitor *to, const struct tr_arg *arg,
                              const struct fr_yaml *v, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc;

    if (v->kind == FR_YAML_NULL || (v->kind == FR_YAML_SCALAR && !v->quoted && is_null(v->text.p)))
        return to->take(to->self, arg, NULL, err);
    if ((rc = value_text(arg, v, &text, err)) == FR_OK)
        rc = to->take(to->self, arg, text.p != NULL ? text.p : "", err);
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc visit_pair(const struct visitor *to, const struct fr_yaml_pair *p,
                             struct fr_err *err)
{
    const struct tr_arg *arg = tr_arg_find(p->key.p, p->key.n);
    enum fr_rc rc =
        arg == NULL ? tr_arg_unknown(p->key.p, p->key.n, err) : visit_value(to, arg, p->value, err);

    return rc == FR_OK ? rc : fr_while(err, "%s:%d:%d", to->path, p->line, p->col);
}

/* The YAML reader reads JSON, too. */
enum fr_rc tr_args_visit(const char *path, tr_arg_fn take, void *self, struct fr_err *err)
{
    struct visitor to = {path, take, self};
    struct fr_arena arena = {0};
    struct fr_yaml *root = NULL;
    enum fr_rc rc = fr_yaml_load(path, &arena, &root, err);

    if (rc == FR_OK && root->kind != FR_YAML_MAP)
        rc = fr_fail(err, FR_USAGE, "%s: expected a list of `name: value`", path);
    for (size_t i = 0; rc == FR_OK && i < root->n; i++)
        rc = visit_pair(&to, &root->pairs[i], err);
    fr_arena_finish(&arena);
    return rc;
}

/* a.b.c=value: {"b": {"c": value}} for a. */
static enum fr_rc visit_part(const struct visitor *to, const struct tr_arg *arg, struct fr_str path,
                             const struct fr_yaml *v, struct fr_err *err)
{
    struct fr_buf text = {0};
    size_t depth = 0;
    enum fr_rc rc;

    if (arg->kind != TR_ARG_JSON)
        return fr_fail(err, FR_USAGE, "--%s has no parts: .%.*s", arg->name, (int)path.n, path.p);
    for (; path.n > 0; depth++) {
        size_t n = 0;

        while (n < path.n && path.p[n] != '.')
            n++;
        fr_buf_fmt(&text, "{\"%.*s\": ", (int)n, path.p);
        path = (struct fr_str){path.p + n + (n < path.n), path.n - n - (n < path.n)};
    }
    rc = tr_yaml_json(v, &text, err);
    for (; depth > 0; depth--)
        fr_buf_text(&text, "}");
    if (rc == FR_OK)
        rc = text.bad ? fr_fail(err, FR_NOMEM, "no memory for --%s", arg->name)
                      : to->take(to->self, arg, text.p, err);
    fr_buf_finish(&text);
    return rc;
}

enum fr_rc tr_arg_word(const char *word, const char *path, tr_arg_fn take, void *self,
                       struct fr_err *err)
{
    const struct visitor to = {path, take, self};
    const char *eq = strchr(word, '=');
    struct fr_arena arena = {0};
    struct fr_yaml *v = NULL;
    const struct tr_arg *arg;
    enum fr_rc rc;

    if (eq == NULL)
        return fr_fail(err, FR_USAGE, "'%s': expected key=value or --key value behind %s", word,
                       path);
    size_t n = (size_t)(eq - word), name = strcspn(word, ".=");
    if ((arg = tr_arg_find(word, name)) == NULL)
        return tr_arg_unknown(word, n, err);
    if ((rc = fr_yaml_parse(fr_str_of(eq + 1), word, &arena, &arena, &v, err)) != FR_OK)
        fr_while(err, "the value is read as YAML; quotes make a text of it, %.*s='\"…\"'", (int)n,
                 word);
    else if (name < n)
        rc = visit_part(&to, arg, (struct fr_str){word + name + 1, n - name - 1}, v, err);
    else
        rc = visit_value(&to, arg, v, err);
    fr_arena_finish(&arena);
    return rc;
}

/* The file's arguments, then the words that override them. */
static enum fr_rc read_file(struct reading *r, int argc, const char *const *argv,
                            struct fr_err *err)
{
    enum fr_rc rc = tr_args_visit(argv[0], take_value, r, err);

    r->behind = true;
    for (int i = 1; rc == FR_OK && i < argc;)
        if (argv[i][0] == '-')
            rc = take_flag(r, argc, argv, &i, err);
        else
            rc = tr_arg_word(argv[i++], argv[0], take_value, r, err);
    return rc;
}

bool tr_args_is_file(const char *word)
{
    return word[0] != '-' &&
           (fr_str_ends(fr_str_of(word), ".yaml") || fr_str_ends(fr_str_of(word), ".yml") ||
            fr_str_ends(fr_str_of(word), ".json"));
}

/* Defaults that follow from other flags. */
static void fill_in(struct tr_args *a)
{
    const char *metric;

    if (a->lora_alpha == 0)
        a->lora_alpha = 2 * (double)a->lora_rank;
    a->pretrain = strcmp(a->stage, "pt") == 0;
    a->packing = a->packing_given == TR_MAYBE_TRUE || a->neat_packing;
    a->sample_tokens = a->cutoff_len - (a->packing ? 1 : 0);
    a->packing = a->packing || (a->pretrain && a->packing_given == TR_MAYBE_UNSET);
    if (a->pretrain && a->template_name == NULL)
        a->template_name = "empty";
    if (a->use_cpu || a->no_cuda)
        a->device = TR_DEVICE_CPU;
    a->do_eval = a->do_eval || a->eval_strategy != TR_STRATEGY_NO;
    if (a->eval_steps == 0)
        a->eval_steps = a->logging_steps;
    if (a->metric_for_best_model == NULL && a->load_best_model_at_end)
        a->metric_for_best_model = "loss";
    if (a->resume_from_checkpoint != NULL && (strcmp(a->resume_from_checkpoint, "false") == 0 ||
                                              strcmp(a->resume_from_checkpoint, "False") == 0))
        a->resume_from_checkpoint = NULL; /* a file of LLaMA-Factory may say so */
    metric = a->metric_for_best_model;
    if (metric != NULL && a->greater_is_better == TR_MAYBE_UNSET)
        a->greater_is_better = strcmp(metric, "loss") == 0 || fr_str_ends(fr_str_of(metric), "loss")
                                   ? TR_MAYBE_FALSE
                                   : TR_MAYBE_TRUE;
}

bool tr_args_coded(const struct tr_args *a)
{
    return a->optim >= TR_ADAMW_CODED && strcmp(a->finetuning_type, "lora") != 0;
}

static void note_states(const struct tr_args *a, struct fr_buf *notes)
{
    if (notes != NULL && a->optim >= TR_ADAMW_FEW && !tr_args_coded(a))
        fr_buf_fmt(notes, "--optim: states of AdamW are f32%s\n",
                   a->optim < TR_ADAMW_CODED
                       ? "; adamw_bnb_8bit has 8-bit ones, where weights train"
                       : " where adapters train, whose states are small");
}

enum fr_rc tr_args_read(struct tr_args *a, int argc, const char *const *argv, struct fr_buf *notes,
                        struct fr_err *err)
{
    struct reading r = {.args = a, .notes = notes};
    enum fr_rc rc = FR_OK;

    tr_args_init(a);
    if (argc > 0 && tr_args_is_file(argv[0]))
        rc = read_file(&r, argc, argv, err);
    else
        for (int i = 0; rc == FR_OK && i < argc;)
            rc = take_flag(&r, argc, argv, &i, err);
    if (rc == FR_OK) {
        fill_in(a);
        rc = tr_args_check(a, err);
    }
    if (rc == FR_OK)
        note_states(a, notes);
    if (rc != FR_OK)
        tr_args_finish(a);
    return rc;
}

static json_t *value_of(const struct tr_args *a, const struct tr_arg *arg)
{
    const char *at = (const char *)a + arg->at, *text;
    double real;
    int choice;

    switch (arg->kind) {
    case TR_ARG_BOOL:
        return json_boolean(*(const bool *)at);
    case TR_ARG_INT:
    case TR_ARG_SIZE:
        return json_integer(*(const int64_t *)(const void *)at);
    case TR_ARG_FLOAT:
        real = *(const double *)(const void *)at;
        return real == TR_RATIO_ABSENT ? json_null() : json_real(real);
    case TR_ARG_CHOICE:
        memcpy(&choice, at, sizeof(choice));
        return json_string(arg->choices[choice]);
    case TR_ARG_MAYBE:
        memcpy(&choice, at, sizeof(choice));
        return choice == TR_MAYBE_UNSET ? json_null() : json_boolean(choice == TR_MAYBE_TRUE);
    case TR_ARG_TEXT:
    case TR_ARG_JSON:
        text = *(const char *const *)(const void *)at;
        return text != NULL ? json_string(text) : json_null();
    }
    return NULL;
}

enum fr_rc tr_args_json(const struct tr_args *a, struct fr_buf *out, struct fr_err *err)
{
    json_t *root = json_object();

    for (size_t i = 0; root != NULL && i < tr_arg_count; i++)
        if (tr_arg_table[i].at != TR_ARG_NOWHERE)
            (void)json_object_set_new(root, tr_arg_table[i].name, value_of(a, &tr_arg_table[i]));
    fr_json_add(out, root, JSON_SORT_KEYS | JSON_INDENT(2));
    json_decref(root);
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for the arguments") : FR_OK;
}
