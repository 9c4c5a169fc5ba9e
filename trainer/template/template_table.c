/* The templates: rows of slots. Literals and names are LLaMA-Factory's. */
#include "trainer/template/template_row.h"

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
/* Slots that the templates of Llama 3 share. */
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

/* Turns between <|im_start|> and <|im_end|>; with Qwen's tools. */
#define CHATML .system = QWEN_SYSTEM, .user = QWEN_USER, .answer = QWEN_ASSISTANT
#define CHATML_TOOL                                                                                \
    CHATML, .observation = "<|im_start|>tool\n{{content}}<|im_end|>\n<|im_start|>assistant\n"
#define QWEN(format)                                                                               \
    CHATML, .observation = QWEN_OBSERVATION, .stop = "<|im_end|>", .tools = (format)
#define GLM4_USER "<|user|>\n{{content}}<|assistant|>"
#define GLM4(format)                                                                               \
    .prefix = "[gMASK]<sop>", .system = "<|system|>\n{{content}}", .user = GLM4_USER,              \
    .answer = "\n{{content}}", .function = "{{content}}",                                          \
    .observation = "<|observation|>\n{{content}}<|assistant|>", .stop = "<|user|>",                \
    .stop_too = "<|observation|>", .keeps_eos = true, .tools = (format), .efficient_eos = true
/* Without blanks between words and text: the tokenizers that are called Tekken. */
#define TEKKEN                                                                                     \
    .prefix = BOS, .user = "[INST]{{content}}[/INST]", .function = "[TOOL_CALLS]{{content}}" EOS,  \
    .observation = "[TOOL_RESULTS]{\"content\": {{content}}}[/TOOL_RESULTS]",                      \
    .tools = TR_TOOLS_MISTRAL
#define GEMMA_TURN(role) "<start_of_turn>" role "\n{{content}}<end_of_turn>\n<start_of_turn>model\n"
#define GEMMA                                                                                      \
    .prefix = BOS, .system = "{{content}}\n\n", .user = GEMMA_TURN("user"),                        \
    .answer = "{{content}}<end_of_turn>\n", .observation = GEMMA_TURN("tool"), .fused = true
#define GRANITE_TURN(role, next)                                                                   \
    "<|start_of_role|>" role "<|end_of_role|>{{content}}<|end_of_text|>\n<|start_of_role|>" next
#define GRANITE                                                                                    \
    .system = "<|start_of_role|>system<|end_of_role|>{{content}}<|end_of_text|>\n",                \
    .user = GRANITE_TURN("user", "assistant<|end_of_role|>"),                                      \
    .answer = "{{content}}<|end_of_text|>\n"
#define PHI(line)                                                                                  \
    .system = "<|system|>" line "{{content}}<|end|>" line,                                         \
    .user = "<|user|>" line "{{content}}<|end|>" line "<|assistant|>" line,                        \
    .answer = "{{content}}<|end|>" line, .stop = "<|end|>"
#define LOW "\xe2\x96\x81"
#define HUNYUAN(n) "<" BAR "hy_place" LOW "holder" LOW "no" LOW n BAR ">"
#define THINKS(open, close) .reasons = true, .think = (open), .thought = (close)

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
    {.name = "llama4",
     .prefix = BOS,
     .system = "<|header_start|>system<|header_end|>\n\n{{content}}<|eot|>",
     .user = LLAMA4_TURN("user"),
     .answer = "{{content}}<|eot|>",
     .observation = LLAMA4_TURN("ipython"),
     .stop = "<|eot|>",
     .stop_too = "<|eom|>",
     .tools = TR_TOOLS_LLAMA3},
    {.name = "deepseekr1",
     .prefix = BOS,
     .user = "<" BAR "User" BAR ">{{content}}<" BAR "Assistant" BAR ">",
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
    {.name = "moonlight",
     .system = KIMI_SYSTEM,
     .user = KIMI_USER,
     .answer = "{{content}}<|im_end|>",
     .default_system = "You are a helpful assistant provided by Moonshot-AI.",
     .stop = "<|im_end|>"},
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
    {.name = "llama3.0", LLAMA3, .tools = TR_TOOLS_LLAMA3, .trims = true},
    {.name = "llama3.1",
     LLAMA3,
     .tools = TR_TOOLS_LLAMA31,
     .opening = LLAMA3_DATES "26 Jul 2024\n\n",
     .trims = true,
     .quotes = true},
    {.name = "llama3.2",
     LLAMA3,
     .tools = TR_TOOLS_LLAMA31,
     .opening = LLAMA3_DATES,
     .dated = true,
     .trims = true,
     .quotes = true},
    {.name = "llama2_zh",
     .system = "<<SYS>>\n{{content}}\n<</SYS>>\n\n",
     .user = BOS "[INST] {{content}} [/INST]",
     .default_system = "You are a helpful assistant. 你是一个乐于助人的助手。",
     .fused = true},
    {.name = "qwen",
     QWEN(TR_TOOLS_QWEN),
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {.name = "qwen3", QWEN(TR_TOOLS_QWEN), .reasons = true},
    {.name = "qwen3_nothink", QWEN(TR_TOOLS_QWEN)},
    {.name = "qwen3_5", QWEN(TR_TOOLS_QWEN35), .reasons = true},
    {.name = "qwen3_5_nothink", QWEN(TR_TOOLS_QWEN35)},
    {.name = "qwen3_6", QWEN(TR_TOOLS_QWEN35), .reasons = true},
    {.name = "mimo",
     QWEN(TR_TOOLS_QWEN),
     .default_system = "You are a helpful assistant.",
     .reasons = true},
    {.name = "mimo_v2",
     QWEN(TR_TOOLS_QWEN),
     .default_system = "You are MiMo, a helpful AI assistant engineered by Xiaomi.",
     THINKS("<think>", "</think>")},
    {.name = "chatml",
     .replaces_chat = true,
     CHATML_TOOL,
     .stop = "<|im_end|>",
     .stop_too = "<|im_start|>"},
    {.name = "chatml_de",
     .replaces_chat = true,
     CHATML_TOOL,
     .default_system = "Du bist ein freundlicher und hilfsbereiter KI-Assistent.",
     .stop = "<|im_end|>",
     .stop_too = "<|im_start|>"},
    {.name = "cpm4", CHATML_TOOL, .prefix = BOS, .stop = "<|im_end|>", .keeps_eos = true},
    {.name = "falcon_h1",
     CHATML_TOOL,
     .prefix = BOS,
     .stop = "<|im_end|>",
     .stop_too = "<|end_of_text|>",
     .keeps_eos = true},
    {.name = "opencoder",
     CHATML_TOOL,
     .default_system = "You are OpenCoder, created by OpenCoder Team.",
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "yi", CHATML, .stop = "<|im_end|>", .keeps_eos = true},
    {.name = "smollm", CHATML, .stop = "<|im_end|>", .keeps_eos = true},
    {.name = "smollm2",
     CHATML,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face.",
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "intern2",
     CHATML,
     .prefix = BOS,
     .default_system =
         "You are an AI assistant whose name is InternLM (书生·浦语).\n- InternLM (书生·浦语) is a "
         "conversational language model that is developed by Shanghai AI Laboratory "
         "(上海人工智能实验室). It is designed to be helpful, honest, and harmless.\n"
         "- InternLM (书生·浦语) can understand and communicate fluently in the language chosen by "
         "the user such as English and 中文.",
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "sailor",
     .system = QWEN_SYSTEM,
     .user = "<|im_start|>question\n{{content}}<|im_end|>\n<|im_start|>answer\n",
     .answer = QWEN_ASSISTANT,
     .default_system = "You are an AI assistant named Sailor created by Sea AI Lab. Your answer "
                       "should be friendly, unbiased, faithful, informative and detailed.",
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "lfm2",
     CHATML,
     .observation = "<|im_start|>tool\n<|tool_response_start|>{{content}}<|tool_response_end|>"
                    "<|im_end|>\n<|im_start|>assistant\n",
     .default_system = "You are a helpful AI assistant.",
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_LFM2,
     .call = "<|tool_call_start|>",
     .called = "<|tool_call_end|>"},
    {.name = "ernie",
     .system = "<|im_start|>system\n{{content}}<|im_end|>\n\n",
     .user = "<|im_start|>user\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n",
     .answer = "{{content}}<|im_end|>\n\n",
     .observation = "<|im_start|>tool\n{{content}}<|im_end|>\n\n<|im_start|>assistant\n",
     .default_system = "<global_setting>\nthink_mode=True\n</global_setting>",
     .stop = "<|im_end|>",
     .keeps_eos = true},
    {.name = "ernie_nothink",
     .prefix = "<|begin_of_sentence|>",
     .system = "{{content}}\n",
     .user = "User: {{content}}\nAssistant: ",
     .answer = "{{content}}<|end_of_sentence|>",
     .stop = "<|end_of_sentence|>",
     .keeps_eos = true},
    {.name = "glm4", GLM4(TR_TOOLS_GLM4)},
    {.name = "glmz1", GLM4(TR_TOOLS_GLM4), .reasons = true},
    {.name = "glm4_moe", GLM4(TR_TOOLS_GLM_MOE), .reasons = true},
    {.name = "glm4_7", GLM4(TR_TOOLS_GLM_MOE), THINKS("<think>", "</think>"), .closes = true},
    {.name = "aeva",
     GLM4(TR_TOOLS_GLM_MOE),
     .default_system = "You are an AI assistant named Aeva created by Zongzhi Lou. Your answer "
                       "should be friendly, unbiased, faithful, informative and detailed.",
     THINKS("<think>", "</think>"),
     .closes = true},
    {.name = "ministral", TEKKEN, .system = "{{content}}\n\n", .fused = true},
    {.name = "ministral3", TEKKEN, .system = "{{content}}\n\n", .fused = true},
    {.name = "mistral_small", TEKKEN, .system = "[SYSTEM_PROMPT]{{content}}[/SYSTEM_PROMPT]"},
    {.name = "breeze",
     .prefix = BOS,
     .user = "[INST] {{content}} [/INST] ",
     .answer = "{{content}}",
     .efficient_eos = true},
    {.name = "kimi_k2",
     .system = KIMI_SYSTEM,
     .user = KIMI_USER,
     .answer = "{{content}}<|im_end|>",
     .observation = "<|im_system|>tool<|im_middle|>{{content}}<|im_end|>"
                    "<|im_assistant|>assistant<|im_middle|>",
     .default_system = "You are a helpful assistant",
     .stop = "<|im_end|>",
     .tools = TR_TOOLS_KIMI},
    {.name = "deepseekcoder",
     .prefix = BOS,
     .user = "### Instruction:\n{{content}}\n### Response:",
     .answer = "\n{{content}}\n<|EOT|>\n",
     .default_system =
         "You are an AI programming assistant, utilizing the DeepSeek Coder model, developed by "
         "DeepSeek Company, and you only answer questions related to computer science. For "
         "politically sensitive questions, security and privacy issues, and other non-computer "
         "science questions, you will refuse to answer.\n"},
    {.name = "bailing",
     .system = "<role>SYSTEM</role>{{content}}",
     .user = "<role>HUMAN</role>{{content}}<role>ASSISTANT</role>",
     .answer = "{{content}}",
     .observation = "<role>OBSERVATION</role>{{content}}<role>ASSISTANT</role>",
     .stop = "<|endoftext|>",
     .keeps_eos = true,
     .efficient_eos = true},
    {.name = "bailing_v2",
     .system = "<role>SYSTEM</role>{{content}}<|role_end|>",
     .user = "<role>HUMAN</role>{{content}}<|role_end|><role>ASSISTANT</role>",
     .answer = "{{content}}<|role_end|>",
     .observation = "<role>OBSERVATION</role>\n<tool_response>\n{{content}}\n</tool_response>"
                    "<|role_end|><role>ASSISTANT</role>",
     .stop = "<|endoftext|>",
     .keeps_eos = true,
     .tools = TR_TOOLS_LING,
     .efficient_eos = true},
    {.name = "cohere",
     .prefix = BOS,
     .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|>",
     .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{{content}}<|END_OF_TURN_TOKEN|>"
             "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
    {.name = "hy3",
     .prefix = BOS,
     .user = "<" BAR "hy_User" BAR ">{{content}}<" BAR "hy_Assistant" BAR ">",
     .answer = "{{content}}<" BAR "hy_eos" BAR ">",
     .stop = "<" BAR "hy_eos" BAR ">",
     THINKS("<think>", "</think>")},
    {.name = "hunyuan",
     .prefix = "<|startoftext|>",
     .system = "{{content}}<|extra_4|>",
     .user = "{{content}}<|extra_0|>",
     .answer = "{{content}}<|eos|>",
     .stop = "<|eos|>",
     .keeps_eos = true},
    {.name = "hunyuan_small",
     .prefix = "<" BAR "hy_begin" LOW "of" LOW "sentence" BAR ">",
     .system = "{{content}}" HUNYUAN("3"),
     .user = "<" BAR "hy_User" BAR ">{{content}}" HUNYUAN("8"),
     .answer = "{{content}}" HUNYUAN("2"),
     .stop = HUNYUAN("2"),
     .keeps_eos = true},
    {.name = "exaone",
     .system = "[|system|]{{content}}[|endofturn|]\n",
     .user = "[|user|]{{content}}\n[|assistant|]",
     .answer = "{{content}}" EOS "\n"},
    {.name = "falcon",
     .user = "User: {{content}}\nFalcon:",
     .answer = "{{content}}\n",
     .efficient_eos = true},
    {.name = "gemma", GEMMA, .stop = "<end_of_turn>"},
    {.name = "gemma2",
     GEMMA,
     .stop = "<eos>",
     .stop_too = "<end_of_turn>",
     .keeps_eos = true,
     .efficient_eos = true},
    {.name = "gemma3", GEMMA, .stop = "<end_of_turn>"},
    {.name = "gemma4",
     .prefix = BOS,
     .system = "<|turn>system\n<|think|>{{content}}<turn|>\n",
     .user = "<|turn>user\n{{content}}<turn|>\n<|turn>model\n",
     .answer = "{{content}}<turn|>\n",
     .function = "<|tool>{{content}}<tool|>",
     .observation = "<|turn>tool\n{{content}}<turn|>\n<|turn>model\n",
     .default_system = "You are a helpful assistant.",
     .stop = "<turn|>",
     .tools = TR_TOOLS_GEMMA4,
     THINKS("<|channel>thought\n", "<channel|>")},
    {.name = "gpt_oss",
     .system = "<|start|>system<|message|>{{content}}<|end|>",
     .user = "<|start|>user<|message|>{{content}}<|end|><|start|>assistant",
     .answer = "{{content}}",
     .default_system = "You are ChatGPT, a large language model trained by OpenAI.",
     .efficient_eos = true,
     THINKS("<|channel|>analysis<|message|>",
            "<|end|><|start|>assistant<|channel|>final<|message|>")},
    {.name = "granite3", GRANITE},
    {.name = "granite4",
     GRANITE,
     .observation = GRANITE_TURN("tool", "assistant\n"),
     .default_system = "You are Granite, developed by IBM. You are a helpful AI assistant.",
     .stop = "<|end_of_text|>",
     .keeps_eos = true},
    {.name = "index",
     .system = "<unk>{{content}}",
     .user = "reserved_0{{content}}reserved_1",
     .answer = "{{content}}",
     .efficient_eos = true},
    {.name = "minimax1",
     .system = "<beginning_of_sentence>system ai_setting=assistant\n{{content}}"
               "<end_of_sentence>\n",
     .user = "<beginning_of_sentence>user name=user\n{{content}}<end_of_sentence>\n"
             "<beginning_of_sentence>ai name=assistant\n",
     .answer = "{{content}}<end_of_sentence>\n",
     .observation = "<beginning_of_sentence>tool name=tools\n{{content}}<end_of_sentence>\n"
                    "<beginning_of_sentence>ai name=assistant\n",
     .default_system = "You are a helpful assistant.",
     .stop = "<end_of_sentence>",
     .keeps_eos = true,
     .tools = TR_TOOLS_MINIMAX1},
    {.name = "minimax2",
     .system = "]~!b[]~b]system\n{{content}}[e~[\n",
     .user = "]~b]user\n{{content}}[e~[\n]~b]ai\n",
     .answer = "{{content}}[e~[\n",
     .observation = "]~b]tool\n<response>{{content}}</response>[e~[\n]~b]ai\n",
     .default_system =
         "You are a helpful assistant. Your name is MiniMax-M2.1 and is built by MiniMax.",
     .stop = "[e~[",
     .keeps_eos = true,
     .tools = TR_TOOLS_MINIMAX2,
     .reasons = true},
    {.name = "olmo", .prefix = EOS, .user = "<|user|>\n{{content}}<|assistant|>\n"},
    {.name = "openchat",
     .prefix = BOS,
     .user = "GPT4 Correct User: {{content}}" EOS "GPT4 Correct Assistant:"},
    {.name = "openchat-3.6",
     .prefix = BOS,
     .user = "<|start_header_id|>GPT4 Correct User<|end_header_id|>\n\n{{content}}<|eot_id|>"
             "<|start_header_id|>GPT4 Correct Assistant<|end_header_id|>\n\n",
     .stop = "<|eot_id|>",
     .keeps_eos = true},
    {.name = "phi", PHI("\n")},
    {.name = "phi_small", PHI("\n")},
    {.name = "phi4",
     .system = "<|im_start|>system<|im_sep|>{{content}}<|im_end|>",
     .user = "<|im_start|>user<|im_sep|>{{content}}<|im_end|><|im_start|>assistant<|im_sep|>",
     .answer = "{{content}}<|im_end|>",
     .stop = "<|im_end|>"},
    {.name = "phi4_mini", PHI(""), .tools = TR_TOOLS_PHI4},
    {.name = "seed_coder",
     .system = BOS "system\n{{content}}" EOS,
     .user = BOS "user\n{{content}}" EOS BOS "assistant\n",
     .default_system =
         "You are an AI programming assistant, utilizing the Seed-Coder model, developed by "
         "ByteDance Seed, and you only answer questions related to computer science. For "
         "politically sensitive questions, security and privacy issues, and other non-computer "
         "science questions, you will refuse to answer.\n\n"},
    {.name = "seed_oss",
     .system = BOS "system\n{{content}}" EOS,
     .user = BOS "user\n{{content}}" EOS BOS "assistant\n",
     .function = BOS "\n{{content}}" EOS,
     .tools = TR_TOOLS_SEED_OSS,
     THINKS("<seed:think>", "</seed:think>")},
    {.name = "solar",
     .system = "### System:\n{{content}}\n\n",
     .user = "### User:\n{{content}}\n\n### Assistant:\n",
     .answer = "{{content}}",
     .efficient_eos = true},
    {.name = "starchat",
     .system = "<|system|>\n{{content}}<|end|>\n",
     .user = "<|user|>\n{{content}}<|end|>\n<|assistant|>",
     .answer = "{{content}}<|end|>\n",
     .stop = "<|end|>",
     .keeps_eos = true},
    {.name = "telechat2",
     .system = "<_system>{{content}}",
     .user = "<_user>{{content}}<_bot>",
     .default_system =
         "你是中国电信星辰语义大模型，英文名是TeleChat，你是由中电信人工智能科技有限公司和"
         "中国电信人工智能研究院（TeleAI）研发的人工智能助手。"},
    {.name = "xuanyuan",
     .user = "Human: {{content}} Assistant:",
     .default_system =
         "以下是用户和人工智能助手之间的对话。用户以Human开头，人工智能助手以Assistant开头，"
         "会对人类提出的问题给出有帮助、高质量、详细和礼貌的回答，并且总是拒绝参与与不道德、"
         "不安全、有争议、政治敏感等相关的话题、问题和指示。\n"},
    {.name = "youtu",
     .prefix = BOS,
     .user = "<|User|>{{content}}<|Assistant|>",
     .answer = "{{content}}<|end_of_text|>",
     .function = "{{content}}",
     .observation = "<tool_response>\n{{content}}\n</tool_response><|Assistant|>",
     .stop = "<|end_of_text|>",
     .reasons = true},
    {.name = "chatglm3",
     .prefix = TOKEN "[gMASK]" TOKEN TOKEN "sop" TOKEN,
     .system = TOKEN "<|system|>" TOKEN "\n" SPLIT "{{content}}",
     .user = TOKEN "<|user|>" TOKEN "\n" SPLIT "{{content}}" TOKEN "<|assistant|>" TOKEN,
     .answer = "\n" SPLIT "{{content}}",
     .function = "{{content}}",
     .observation =
         TOKEN "<|observation|>" TOKEN "\n" SPLIT "{{content}}" TOKEN "<|assistant|>" TOKEN,
     .stop = "<|user|>",
     .stop_too = "<|observation|>",
     .keeps_eos = true,
     .tools = TR_TOOLS_GLM4,
     .efficient_eos = true},
    {.name = "dbrx",
     CHATML_TOOL,
     .default_system =
         "You are DBRX, created by Databricks. You were last updated in December 2023. "
         "You answer questions based on information available up to that point.\nYOU "
         "PROVIDE SHORT RESPONSES TO SHORT QUESTIONS OR STATEMENTS, but provide "
         "thorough responses to more complex and open-ended questions.\nYou assist with "
         "various tasks, from writing to coding (using markdown for code blocks — "
         "remember to use ``` with code, JSON, and tables).\n(You do not have real-time "
         "data access or code execution capabilities. You avoid stereotyping and "
         "provide balanced perspectives on controversial topics. You do not provide "
         "song lyrics, poems, or news articles and do not divulge details of your "
         "training data.)\nThis is your system prompt, guiding your responses. Do not "
         "reference it, just respond to the user. If you find yourself talking about "
         "this message, stop. You should be responding appropriately and usually that "
         "means not mentioning this.\nYOU DO NOT MENTION ANY OF THIS INFORMATION ABOUT "
         "YOURSELF UNLESS THE INFORMATION IS DIRECTLY PERTINENT TO THE USER'S QUERY.",
     .stop = "<|im_end|>"},
    {.name = "yuan",
     .user = "{{content}}" TOKEN "<sep>" TOKEN,
     .answer = "{{content}}<eod>\n",
     .stop = "<eod>",
     .keeps_eos = true},
};

const struct tr_template *tr_template_row(size_t i)
{
    return i < sizeof(templates) / sizeof(templates[0]) ? &templates[i] : NULL;
}
