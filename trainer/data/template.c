#include "trainer/data/template.h"

#include "engine/base/sys.h"
#include "trainer/data/template_row.h"

#include <string.h>

#define BAR "\xef\xbd\x9c"
#define QWEN_SYSTEM "<|im_start|>system\n{{content}}<|im_end|>\n"
#define QWEN_USER "<|im_start|>user\n{{content}}<|im_end|>\n<|im_start|>assistant\n"
#define QWEN_ASSISTANT "{{content}}<|im_end|>\n"
#define QWEN_OBSERVATION                                                                           \
    "<|im_start|>user\n<tool_response>\n{{content}}\n</tool_response><|im_end|>\n"                 \
    "<|im_start|>assistant\n"
#define LLAMA3_SYSTEM "<|start_header_id|>system<|end_header_id|>\n\n{{content}}<|eot_id|>"
#define LLAMA3_DATES "Cutting Knowledge Date: December 2023\nToday Date: "
#define LLAMA3_TURN(role)                                                                          \
    "<|start_header_id|>" role "<|end_header_id|>\n\n{{content}}<|eot_id|>"                        \
    "<|start_header_id|>assistant<|end_header_id|>\n\n"
/* What the templates of Llama 3 have in common. */
#define LLAMA3                                                                                     \
    .prefix = BOS, .system = LLAMA3_SYSTEM, .user = LLAMA3_TURN("user"),                           \
    .answer = "{{content}}<|eot_id|>", .observation = LLAMA3_TURN("ipython"),                      \
    .stop = "<|eot_id|>", .stop_too = "<|eom_id|>"

#define LLAMA4_TURN(role)                                                                          \
    "<|header_start|>" role "<|header_end|>\n\n{{content}}<|eot|>"                                 \
    "<|header_start|>assistant<|header_end|>\n\n"
#define KIMI_SYSTEM "<|im_system|>system<|im_middle|>{{content}}<|im_end|>"
#define KIMI_USER                                                                                  \
    "<|im_user|>user<|im_middle|>{{content}}<|im_end|><|im_assistant|>assistant<|im_middle|>"

static const struct tr_template templates[] = {
    {.name = "default",
     .replaces_chat = true,
     .system = "System: {{content}}" EOS "\n",
     .user = "Human: {{content}}" EOS "\nAssistant:",
     .answer = "{{content}}" EOS "\n"},
    {.name = "deepseek3",
     .prefix = BOS,
     .user = "<" BAR "User" BAR ">{{content}}<" BAR "Assistant" BAR ">"},
    {.name = "deepseek",
     .prefix = BOS,
     .system = "{{content}}\n\n",
     .user = "User: {{content}}\n\nAssistant:"},
    {.name = "empty", .user = "{{content}}", .answer = "{{content}}"},
    {.name = "llama3", LLAMA3, .tools = TR_TOOLS_LLAMA3},
    {.name = "llama3.1",
     LLAMA3,
     .tools = TR_TOOLS_NONE,
     .opening = LLAMA3_DATES "26 Jul 2024\n\n",
     .trims = true},
    {.name = "llama3.2",
     LLAMA3,
     .tools = TR_TOOLS_NONE,
     .opening = LLAMA3_DATES,
     .dated = true,
     .trims = true},
    {.name = "llama4",
     .prefix = BOS,
     .system = "<|header_start|>system<|header_end|>\n\n{{content}}<|eot|>",
     .user = LLAMA4_TURN("user"),
     .answer = "{{content}}<|eot|>",
     .observation = LLAMA4_TURN("ipython"),
     .stop = "<|eot|>",
     .stop_too = "<|eom|>",
     .tools = TR_TOOLS_LLAMA3},
    {.name = "qwen",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .answer = QWEN_ASSISTANT,
     .observation = QWEN_OBSERVATION,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_QWEN},
    {.name = "qwen3_nothink",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .answer = QWEN_ASSISTANT,
     .observation = QWEN_OBSERVATION,
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_QWEN},
    {.name = "chatml",
     .replaces_chat = true,
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .answer = QWEN_ASSISTANT,
     .observation = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n",
     .stop = "<|im_end|>",
     .stop_too = "<|im_start|>"},
    {.name = "deepseekr1",
     .prefix = BOS,
     .user = "<" BAR "User" BAR ">{{content}}<" BAR "Assistant" BAR ">",
     .reasons = true},
    {.name = "qwen3",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .answer = QWEN_ASSISTANT,
     .observation = QWEN_OBSERVATION,
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_QWEN,
     .reasons = true},
    {.name = "llama2",
     .system = "<<SYS>>\n{{content}}\n<</SYS>>\n\n",
     .user = BOS "[INST] {{content}} [/INST]",
     .fused = true},
    {.name = "mistral",
     .prefix = BOS,
     .system = "{{content}}\n\n",
     .user = "[INST] {{content}}[/INST]",
     .answer = " {{content}}" EOS,
     .function = "[TOOL_CALLS] {{content}}" EOS,
     .observation = "[TOOL_RESULTS] {\"content\": {{content}}}[/TOOL_RESULTS]",
     .tools = TR_TOOLS_MISTRAL,
     .fused = true},
    {.name = "ministral3",
     .prefix = BOS,
     .system = "{{content}}\n\n",
     .user = "[INST]{{content}}[/INST]",
     .function = "[TOOL_CALLS]{{content}}" EOS,
     .observation = "[TOOL_RESULTS]{\"content\": {{content}}}[/TOOL_RESULTS]",
     .tools = TR_TOOLS_MISTRAL,
     .fused = true},
    {.name = "mistral_small",
     .prefix = BOS,
     .system = "[SYSTEM_PROMPT]{{content}}[/SYSTEM_PROMPT]",
     .user = "[INST]{{content}}[/INST]",
     .function = "[TOOL_CALLS]{{content}}" EOS,
     .observation = "[TOOL_RESULTS]{\"content\": {{content}}}[/TOOL_RESULTS]",
     .tools = TR_TOOLS_MISTRAL},
    {.name = "yi",
     .system = QWEN_SYSTEM,
     .user = QWEN_USER,
     .answer = QWEN_ASSISTANT,
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "glm4",
     .prefix = "[gMASK]<sop>",
     .system = "<|system|>\n{{content}}",
     .user = "<|user|>\n{{content}}<|assistant|>",
     .answer = "\n{{content}}",
     .function = "{{content}}",
     .observation = "<|observation|>\n{{content}}<|assistant|>",
     .stop = "<|user|>",
     .stop_too = "<|observation|>",
     .keeps_eos = true,
     .tools = TR_TOOLS_GLM4,
     .efficient_eos = true},
    {.name = "glm4_moe",
     .prefix = "[gMASK]<sop>",
     .system = "<|system|>\n{{content}}",
     .user = "<|user|>\n{{content}}<|assistant|>",
     .answer = "\n{{content}}",
     .function = "{{content}}",
     .observation = "<|observation|>\n{{content}}<|assistant|>",
     .stop = "<|user|>",
     .stop_too = "<|observation|>",
     .keeps_eos = true,
     .tools = TR_TOOLS_GLM_MOE,
     .efficient_eos = true,
     .reasons = true},
    {.name = "moonlight",
     .system = KIMI_SYSTEM,
     .user = KIMI_USER,
     .answer = "{{content}}<|im_end|>",
     .default_system = "You are a helpful assistant provided by Moonshot-AI.",
     .stop = "<|im_end|>"},
    {.name = "kimi_k2",
     .system = KIMI_SYSTEM,
     .user = KIMI_USER,
     .answer = "{{content}}<|im_end|>",
     .observation = "<|im_system|>tool<|im_middle|>{{content}}<|im_end|>"
                    "<|im_assistant|>assistant<|im_middle|>",
     .default_system = "You are a helpful assistant",
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_NONE},
    {.name = "vicuna",
     .replaces_chat = true,
     .user = "USER: {{content}} ASSISTANT:",
     .default_system = "A chat between a curious user and an artificial intelligence assistant. "
                       "The assistant gives helpful, detailed, and polite answers to the user's "
                       "questions."},
    {.name = "zephyr",
     .system = "<|system|>\n{{content}}" EOS,
     .user = "<|user|>\n{{content}}" EOS "<|assistant|>\n",
     .default_system = "You are Zephyr, a helpful assistant."},
    {.name = "alpaca",
     .replaces_chat = true,
     .user = "### Instruction:\n{{content}}\n\n### Response:\n",
     .answer = "{{content}}" EOS "\n\n",
     .default_system = "Below is an instruction that describes a task. "
                       "Write a response that appropriately completes the request.\n\n"},
    {.name = "fewshot",
     .replaces_chat = true,
     .user = "{{content}}",
     .answer = "{{content}}\n\n",
     .efficient_eos = true},
};

enum { NTEMPLATES = sizeof(templates) / sizeof(templates[0]) };

enum fr_rc tr_template_find(const char *name, const struct tr_template **out, struct fr_err *err)
{
    const char *names[NTEMPLATES], *near;

    for (size_t i = 0; i < NTEMPLATES; i++) {
        names[i] = templates[i].name;
        if (strcmp(names[i], name) == 0) {
            *out = &templates[i];
            return FR_OK;
        }
    }
    *out = NULL;
    near = fr_suggest(name, names, NTEMPLATES);
    return fr_fail(err, FR_USAGE, "unknown template '%s'%s%s%s", name,
                   near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : " (deepseek3, default, empty, qwen, llama3 …)");
}

const char *tr_template_name(const struct tr_template *t)
{
    return t->name;
}

enum fr_rc tr_template_fix(const struct tr_template *t, struct tr_tokenizer *tok,
                           struct fr_err *err)
{
    bool replaces = t->stop != NULL && !t->keeps_eos;
    const char *eos = replaces ? t->stop : tr_tokenizer_eos(tok) < 0 ? "<|endoftext|>" : NULL;
    enum fr_rc rc = eos != NULL ? tr_tokenizer_set_eos(tok, eos, err) : FR_OK;

    if (rc == FR_OK && t->stop != NULL && !replaces)
        rc = tr_tokenizer_add(tok, t->stop, err);
    if (rc == FR_OK && t->stop_too != NULL)
        rc = tr_tokenizer_add(tok, t->stop_too, err);
    return rc == FR_OK ? rc : fr_while(err, "template '%s'", t->name);
}
