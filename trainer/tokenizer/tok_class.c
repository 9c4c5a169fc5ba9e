#include "trainer/tokenizer/tok_class.h"

#include "engine/base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES                                                                                      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}"
#define GPT2                                                                                       \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":@,\"trim_offsets\":true,\"use_regex\":true}"
#define NFC "{\"type\":\"NFC\"}"
#define SPLIT_THEN_BYTES(regex)                                                                    \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\","          \
    "\"add_prefix_space\":@,\"trim_offsets\":true,\"use_regex\":false}]}"
#define MARKS                                                                                      \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"@\","           \
    "\"split\":false}"
#define CHARS(strip)                                                                               \
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"          \
    "\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}" strip   \
    "]}"
#define STRIP ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
#define OF_BYTES                                                                                   \
    "{\"dropout\":null,\"unk_token\":null,\"fuse_unk\":false,\"byte_fallback\":false,"             \
    "\"ignore_merges\":false,\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\"}"
#define OF_CHARS(unk)                                                                              \
    "{\"dropout\":null,\"unk_token\":" unk ",\"fuse_unk\":true,\"byte_fallback\":true,"            \
    "\"ignore_merges\":false,\"continuing_subword_prefix\":\"\",\"end_of_word_suffix\":\"\"}"
#define END_OF_TEXT "\"<|endoftext|>\""

/* Classes of transformers that build their pipeline themselves, of BPE. In pre, @ is what
 * add_prefix_space and legacy of the configuration make of it; names are those of the class where
 * the configuration has none. */
static const struct class
{
    const char *name, *normalizer, *pre, *decoder, *model, *names;
} classes[] = {
    {"GPT2Tokenizer", NULL, GPT2, BYTES, OF_BYTES,
     "{\"bos_token\":" END_OF_TEXT ",\"eos_token\":" END_OF_TEXT ",\"unk_token\":" END_OF_TEXT
     ",\"pad_token\":null}"},
    {"CodeGenTokenizer", NULL, GPT2, BYTES, OF_BYTES,
     "{\"bos_token\":" END_OF_TEXT ",\"eos_token\":" END_OF_TEXT ",\"unk_token\":" END_OF_TEXT
     ",\"pad_token\":null}"},
    {"GPTNeoXTokenizer", NFC, GPT2, BYTES, OF_BYTES,
     "{\"bos_token\":" END_OF_TEXT ",\"eos_token\":" END_OF_TEXT ",\"unk_token\":" END_OF_TEXT
     ",\"pad_token\":\"<|padding|>\"}"},
    {"Qwen2Tokenizer", NFC,
     SPLIT_THEN_BYTES("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
                      "\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
                      "\\\\s+(?!\\\\S)|\\\\s+"),
     BYTES, OF_BYTES,
     "{\"eos_token\":" END_OF_TEXT ",\"unk_token\":" END_OF_TEXT ",\"pad_token\":" END_OF_TEXT "}"},
    {"Qwen3_5Tokenizer", NFC,
     SPLIT_THEN_BYTES("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
                      "[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+"
                      "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"),
     BYTES, OF_BYTES,
     "{\"eos_token\":" END_OF_TEXT ",\"unk_token\":" END_OF_TEXT ",\"pad_token\":" END_OF_TEXT "}"},
    {"CohereTokenizer", NFC,
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true}"
     "," GPT2 "]}",
     BYTES, OF_BYTES,
     "{\"bos_token\":\"<BOS_TOKEN>\",\"eos_token\":\"<|END_OF_TURN_TOKEN|>\",\"unk_token\":"
     "\"<UNK>\",\"sep_token\":\"<SEP>\",\"pad_token\":\"<PAD>\",\"cls_token\":\"<CLS>\","
     "\"mask_token\":\"<MASK_TOKEN>\"}"},
    {"LlamaTokenizer", NULL, MARKS, CHARS(STRIP), OF_CHARS("null"),
     "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"unk_token\":\"<unk>\"}"},
    {"CodeLlamaTokenizer", NULL, MARKS, CHARS(STRIP), OF_CHARS("\"<unk>\""),
     "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"unk_token\":\"<unk>\",\"prefix_token\":"
     "\"\xe2\x96\x81<PRE>\",\"middle_token\":\"\xe2\x96\x81<MID>\",\"suffix_token\":"
     "\"\xe2\x96\x81<SUF>\",\"eot_token\":\"\xe2\x96\x81<EOT>\",\"fill_token\":\"<FILL_ME>\"}"},
    /* The class's Split at blanks finds none: the normalizer turns blanks into marks. */
    {"GemmaTokenizer",
     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}", NULL,
     CHARS(""), OF_CHARS("\"<unk>\""),
     "{\"bos_token\":\"<bos>\",\"eos_token\":\"<eos>\",\"unk_token\":\"<unk>\",\"pad_token\":"
     "\"<pad>\",\"mask_token\":\"<mask>\"}"},
};

/* Others that do, which no model of ours has. */
static const char *const foreign[] = {
    "BartTokenizer",       "BlenderbotTokenizer",  "CLIPTokenizer",      "DebertaTokenizer",
    "EsmcTokenizer",       "HerbertTokenizer",     "LEDTokenizer",       "LayoutLMv3Tokenizer",
    "LongformerTokenizer", "LukeTokenizer",        "MarkupLMTokenizer",  "MvpTokenizer",
    "NllbTokenizer",       "NougatTokenizer",      "OpenAIGPTTokenizer", "ReformerTokenizer",
    "RobertaTokenizer",    "SeamlessM4TTokenizer", "Siglip2Tokenizer",   "Tipsv2Tokenizer",
    "WhisperTokenizer"};

#define FILE_ITSELF "TokenizersBackend"

/* What model_type stands for, where transformers has a word on it. always: whatever class the
 * folder names. */
static const struct type {
    const char *name, *class;
    bool always;
} types[] = {{"qwen2", "Qwen2Tokenizer", true},
             {"qwen2_moe", "Qwen2Tokenizer", false},
             {"qwen3", "Qwen2Tokenizer", false},
             {"qwen3_moe", "Qwen2Tokenizer", false},
             {"qwen3_next", "Qwen2Tokenizer", false},
             {"qwen3_5", "Qwen3_5Tokenizer", true},
             {"qwen3_5_moe", "Qwen3_5Tokenizer", true},
             {"qwen3_5_text", "Qwen3_5Tokenizer", false},
             {"mistral", FILE_ITSELF, false},
             {"mixtral", FILE_ITSELF, false},
             {"ministral", FILE_ITSELF, false},
             {"phi3", FILE_ITSELF, true},
             {"granite", FILE_ITSELF, false},
             {"granitemoe", FILE_ITSELF, false},
             {"olmo2", FILE_ITSELF, false},
             {"olmo3", FILE_ITSELF, false},
             {"glm", FILE_ITSELF, false},
             {"glm4", FILE_ITSELF, false},
             {"glm4_moe", FILE_ITSELF, false},
             {"stablelm", FILE_ITSELF, false},
             {"minimax_m2", FILE_ITSELF, true},
             {"gpt2", "GPT2Tokenizer", false},
             {"gpt_neo", "GPT2Tokenizer", false},
             {"gptj", "GPT2Tokenizer", false},
             {"opt", "GPT2Tokenizer", false},
             {"phi", "GPT2Tokenizer", false},
             {"starcoder2", "GPT2Tokenizer", false},
             {"gpt_neox", "GPTNeoXTokenizer", false},
             {"olmo", "GPTNeoXTokenizer", false},
             {"olmoe", "GPTNeoXTokenizer", false},
             {"mpt", "GPTNeoXTokenizer", false},
             {"gemma", "GemmaTokenizer", false},
             {"gemma2", "GemmaTokenizer", false},
             {"gemma3", "GemmaTokenizer", false},
             {"gemma3_text", "GemmaTokenizer", false},
             {"cohere", "CohereTokenizer", false},
             {"cohere2", "CohereTokenizer", false}};

static const struct type *type_of(const json_t *model)
{
    const char *name = json_string_value(json_object_get(model, "model_type"));

    for (size_t i = 0; name != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

/* Whether some part of v has this type. */
static bool has_type(const json_t *v, const char *type)
{
    const char *mine = json_string_value(json_object_get(v, "type")), *key;
    json_t *one;
    size_t i;

    if (mine != NULL && strcmp(mine, type) == 0)
        return true;
    json_object_foreach((json_t *)v, key, one) if (has_type(one, type)) return true;
    json_array_foreach((json_t *)v, i, one) if (has_type(one, type)) return true;
    return false;
}

/* Code of the folder's own, which is not run: then the class that it names counts. */
static bool has_code(const json_t *config)
{
    const json_t *map = json_object_get(config, "auto_map");

    return json_is_array(map) || json_is_array(json_object_get(map, "AutoTokenizer")) ||
           json_is_string(json_object_get(map, "AutoTokenizer"));
}

/* The name of the class without its "Fast", into name; "": tokenizer.json's own. */
static void choose(const struct tr_tok_files *f, char name[64])
{
    const struct type *t = type_of(f->model);
    const char *said = json_string_value(json_object_get(f->config, "tokenizer_class"));
    bool code = has_code(f->config);
    size_t n;

    if (said == NULL)
        said = json_string_value(json_object_get(f->model, "tokenizer_class"));
    if (said != NULL && !code && t != NULL) {
        if (strcmp(t->class, FILE_ITSELF) == 0 || t->always)
            said = t->class;
    } else if (said == NULL)
        said = t != NULL ? t->class : "";
    n = strlen(said);
    if (n > 4 && strcmp(said + n - 4, "Fast") == 0)
        n -= 4;
    n = n < 63 ? n : 0;
    memcpy(name, said, n);
    name[n] = '\0';
    /* A vocabulary of bytes under Llama's name is read as it is. */
    if (strcmp(name, "LlamaTokenizer") == 0 && !code &&
        (has_type(json_object_get(f->root, "pre_tokenizer"), "ByteLevel") ||
         has_type(json_object_get(f->root, "decoder"), "ByteLevel")))
        name[0] = '\0';
}

/* The JSON of a table's text, @ replaced; NULL is null. */
static json_t *part(const char *text, const char *value)
{
    struct fr_buf all = {0};
    json_t *made;

    if (text == NULL)
        return json_null();
    for (; *text != '\0'; text++)
        if (*text == '@')
            fr_buf_text(&all, value);
        else
            fr_buf_add(&all, text, 1);
    made = all.bad ? NULL : json_loads(all.p, 0, NULL);
    fr_buf_finish(&all);
    return made;
}

static const char *prefix_of(const struct class *c, const json_t *config)
{
    const json_t *space = json_object_get(config, "add_prefix_space");
    bool legacy =
        strcmp(c->name, "LlamaTokenizer") == 0 && json_is_true(json_object_get(config, "legacy"));

    if (c->pre == NULL || strstr(c->pre, "Metaspace") == NULL)
        return json_is_true(space) ? "true" : "false";
    return json_is_false(space) ? "never" : legacy ? "always" : "first";
}

/* Without what has no effect on ids: as it is compared. */
static json_t *plain(const json_t *v)
{
    json_t *copy = json_deep_copy(v), *one;
    const char *key;
    size_t i;

    if (copy == NULL)
        return NULL;
    (void)json_object_del(copy, "trim_offsets");
    json_object_foreach(copy, key, one) if (json_is_object(one) || json_is_array(one))(void)
        json_object_set_new(copy, key, plain(one));
    json_array_foreach(copy, i, one)(void) json_array_set_new(copy, i, plain(one));
    if (json_array_size(json_object_get(copy, "normalizers")) == 0 &&
        json_is_array(json_object_get(copy, "normalizers"))) {
        json_decref(copy); /* none at all */
        return json_null();
    }
    return copy;
}

/* Puts made in the place of a part of tokenizer.json; true where the two differ. */
static bool replace(json_t *root, const char *key, json_t *made, const char *class,
                    struct tr_twice *twice)
{
    json_t *old = json_object_get(root, key), *a = plain(made),
           *b = old != NULL ? plain(old) : json_null();
    bool differs = !json_equal(a, b);
    char from[128], over[64];
    char *value = NULL, *other = NULL;

    if (differs) {
        (void)snprintf(from, sizeof(from), "tokenizer_class %s:", class);
        (void)snprintf(over, sizeof(over), "tokenizer.json:");
        value = json_dumps(a, JSON_ENCODE_ANY | JSON_COMPACT);
        other = json_dumps(b, JSON_ENCODE_ANY | JSON_COMPACT);
        tr_twice_add(twice, &(struct tr_twice_row){key, from, value, over, other});
        free(value);
        free(other);
    }
    json_decref(a);
    json_decref(b);
    (void)json_object_set_new(root, key, made);
    return differs;
}

/* The text of the unknown token, whether it is written as text or as an object; or NULL. */
static json_t *unk_of(const json_t *config)
{
    json_t *v = json_object_get(config, "unk_token");

    v = json_is_object(v) ? json_object_get(v, "content") : v;
    return json_is_string(v) ? v : NULL;
}

static enum fr_rc rebuild(struct tr_tok_files *f, const struct class *c, struct tr_twice *twice,
                          struct fr_err *err)
{
    const char *prefix = prefix_of(c, f->config);
    bool bare = strcmp(c->name, "LlamaTokenizer") == 0 && strcmp(prefix, "never") == 0;
    json_t *normalizer = part(c->normalizer, prefix), *pre = part(c->pre, prefix),
           *decoder = part(bare ? CHARS("") : c->decoder, prefix), *model = part(c->model, prefix),
           *names = part(c->names, prefix);
    bool differs = false;
    enum fr_rc rc = FR_OK;

    if (normalizer == NULL || pre == NULL || decoder == NULL || model == NULL || names == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the tokenizer");
    if (rc == FR_OK) {
        json_t *old = json_object_get(f->root, "model");

        differs = replace(f->root, "normalizer", normalizer, c->name, twice);
        differs = replace(f->root, "pre_tokenizer", pre, c->name, twice) || differs;
        (void)json_object_set_new(f->root, "decoder", decoder);
        if (json_is_true(json_object_get(old, "ignore_merges")))
            differs = replace(old, "ignore_merges", json_false(), c->name, twice);
        /* the class's names have the first places, whatever is in them */
        if (json_object_update(names, f->config) == 0) {
            json_decref(f->config);
            f->config = json_incref(names);
        } else
            rc = fr_fail(err, FR_NOMEM, "no memory for the tokenizer");
        if (json_is_string(json_object_get(model, "unk_token")) && unk_of(f->config) != NULL)
            json_object_set(model, "unk_token", unk_of(f->config));
        json_object_update(old, model);
        /* The class knows no added tokens of tokenizer.json, but those of the configuration's
         * list. Their numbers are then those after the vocabulary. */
        json_object_del(f->root, "added_tokens");
    } else {
        json_decref(normalizer);
        json_decref(pre);
        json_decref(decoder);
    }
    json_decref(model);
    json_decref(names);
    if (differs)
        f->rebuilt = c->name;
    if (strcmp(c->name, "Qwen2Tokenizer") == 0)
        f->again = TR_TOK_PLAIN;
    else if (strcmp(c->name, "CohereTokenizer") == 0)
        f->again = TR_TOK_AGAIN;
    return rc;
}

enum fr_rc tr_tok_apply_class(struct tr_tok_files *f, struct tr_twice *twice, struct fr_err *err)
{
    const char *type =
        json_string_value(json_object_get(json_object_get(f->root, "model"), "type"));
    char name[64];

    choose(f, name);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (strcmp(foreign[i], name) == 0)
            f->foreign = foreign[i];
    if (type == NULL || strcmp(type, "BPE") != 0)
        return FR_OK; /* refused where the model is read */
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(classes[i].name, name) == 0)
            return rebuild(f, &classes[i], twice, err);
    return FR_OK;
}
