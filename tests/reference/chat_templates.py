"""Chat templates of the shapes that people use, written for these tests, each with a tokenizer and its special tokens."""

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

DEFAULT_SYSTEM = """{%- if messages[0].role != 'system' %}
    {{- '<|im_start|>system\\nAnswer briefly.<|im_end|>\\n' }}
{%- endif %}
""" + CHATML

HEADERS = """{{ bos_token }}
{%- for message in messages %}
    {%- set head = '<|head|>' + message.role + '<|/head|>\\n\\n' %}
    {{- head + message.content | trim + '<|eot|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|head|>assistant<|/head|>\\n\\n' }}{% endif %}"""

INSTRUCTION = """{{ bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant have to take turns') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + message.content + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- endif %}
{%- endfor %}"""

SYSTEM_INSIDE = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}
{% else %}{% set rest = messages %}{% set system = false %}{% endif %}
{% for message in rest %}
    {% if loop.index0 == 0 and system != false %}
        {% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}
    {% else %}
        {% set content = message['content'] %}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
    {% elif message['role'] == 'assistant' %}
        {{ ' ' + content.strip() + ' ' + eos_token }}
    {% endif %}
{% endfor %}"""

TURNS = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('there is no system role') }}{% endif %}
{% for message in messages %}
{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

PARTS = """{{- bos_token -}}
{%- macro text_of(content) -%}
    {%- if content is string -%}{{ content }}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'text' -%}{{ part.text }}{%- else -%}<|{{ part.type }}|>{%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
    {{- '<start_of_turn>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\\n' -}}
    {{- text_of(message.content) | trim -}}{{- '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}"""

SPOKEN = """{%- for message in messages -%}
{%- if message['role'] == 'user' %}USER: {{ message['content'] }} {% elif message['role'] == 'assistant' %}ASSISTANT: {{ message['content'] }}{{ eos_token }}{% else %}{{ message['content'] }} {% endif -%}
{%- endfor -%}{%- if add_generation_prompt -%}ASSISTANT:{%- endif -%}"""

SECTIONS = """{% for message in messages %}
### {{ {'user': 'Instruction', 'assistant': 'Response', 'system': 'Context'}[message.role] }}:
{{ message.content }}

{% endfor %}
{% if add_generation_prompt %}
### Response:
{% endif %}"""

ROLE_TOKENS = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""

GREEDY_TOKENS = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)

DROPS_THOUGHTS = """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

EMPTY_THOUGHT = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.role == 'assistant' and (loop.last or message.reasoning_content) %}
        {{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

THOUGHT_PROMPT = """{{ bos_token }}{% for message in messages %}
{%- if message.role == 'user' %}{{ '<\uff5cUser\uff5c>' + message.content }}
{%- elif message.role == 'assistant' %}{{ '<\uff5cAssistant\uff5c>' + message.content.split('</think>')[-1] + eos_token }}
{%- else %}{{ message.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<\uff5cAssistant\uff5c><think>\\n' }}{% endif %}"""

TOOLS = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
    {{- '<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' and loop.first %}{% continue %}{% endif %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' }}{%- if message.content %}{{- message.content }}{%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""

MARKED = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}
{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

MARKED_HEADERS = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|head|>' + message.role + '<|/head|>\\n\\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation -%}
        {{- message.content | trim }}{{ '<|eot|>' }}
        {%- endgeneration -%}
    {%- else %}{{- message.content | trim + '<|eot|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|head|>assistant<|/head|>\\n\\n' }}{%- endif %}"""

MARKED_WORDS = """{% for message in messages %}{% if message.role == 'assistant' %}Answer: {% generation %}{{ message.content }}
{% endgeneration %}{% else %}{{ message.role | capitalize }}: {{ message.content }}
{% endif %}{% endfor %}"""

MARKED_END = """{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' }}
{%- if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|end|>\\n' }}{% endgeneration %}
{%- else %}{{ message['content'] + '<|end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

MACROS = """{%- macro turn(role, text) %}{{ '<|start|>' ~ role ~ '<|role|>' ~ text ~ '<|end|>\\n' }}{% endmacro %}
{%- set ns = namespace(count=0) %}
{%- for message in messages %}
    {%- if not message.content %}{% continue %}{% endif %}
    {%- set ns.count = ns.count + 1 %}
    {%- if ns.count > 40 %}{% break %}{% endif %}
    {%- set text %}{{ message.content | replace('\\t', ' ') }}{% endset %}
    {{- turn(message.role, text) }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|role|>' }}{%- endif %}"""

END_AT_LAST = """{{ bos_token }}{% for message in messages %}{{ '<|' + message.role + '|>\\n' + message.content }}
{%- if message.role == 'assistant' %}{{ eos_token if loop.last else '\\n' }}{% else %}{{ '\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"""

PLAIN = "{% for message in messages %}{{ message.content }}{% endfor %}"

CHANNELS = """{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- if message.thinking %}{{- '<|start|>assistant<|role|>analysis: ' + message.thinking + '<|end|>' }}{%- endif %}
        {{- '<|start|>assistant<|role|>final: ' + message.content + '<|return|>' }}
    {%- else %}{{- '<|start|>' + message.role + '<|role|>' + message.content + '<|end|>' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

UNPROMPTED = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"

IM = ["<|im_start|>", "<|im_end|>"]
HEAD = ["<|head|>", "<|/head|>", "<|eot|>"]
TURN = ["<start_of_turn>", "<end_of_turn>"]
CHANNEL = ["<|start|>", "<|role|>", "<|end|>", "<|return|>"]
ROLES = ["<|user|>", "<|system|>", "<|assistant|>"]
BOS = {"bos_token": "<s>", "eos_token": "</s>"}
# name: template, tokenizer of tests/reference/tokenizers, further special tokens, other keys of tokenizer_config.json
SHAPES = {
    "chatml": (CHATML, "qwen2", IM, {}),
    "default_system": (DEFAULT_SYSTEM, "smol", IM, {}),
    "headers": (HEADERS, "llama3", HEAD, {"bos_token": "<|begin_of_text|>"}),
    "instruction": (INSTRUCTION, "mistral", [], BOS),
    "system_inside": (SYSTEM_INSIDE, "llama2", [], BOS),
    "turns": (TURNS, "gemma", TURN, {"bos_token": "<bos>"}),
    "parts": (PARTS, "gemma", TURN, {"bos_token": "<bos>"}),
    "spoken": (SPOKEN, "llama2", [], BOS),
    "spoken_bytes": (SPOKEN, "gpt2", [], {"eos_token": "<|endoftext|>"}),
    "sections": (SECTIONS, "gpt2", [], {}),
    "role_tokens": (ROLE_TOKENS, "mistral", ROLES, BOS),
    "greedy_tokens": (GREEDY_TOKENS, "smol", [*ROLES, "<|end|>"], {"greedy": True}),
    "drops_thoughts": (DROPS_THOUGHTS, "qwen2", IM, {}),
    "empty_thought": (EMPTY_THOUGHT, "qwen2", IM, {}),
    "thought_prompt": (THOUGHT_PROMPT, "llama3", ["<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"],
                       {"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"}),
    "tools": (TOOLS, "qwen2", IM, {}),
    "marked": (MARKED, "qwen2", IM, {}),
    "marked_headers": (MARKED_HEADERS, "llama3", HEAD, {"bos_token": "<|begin_of_text|>"}),
    "marked_words": (MARKED_WORDS, "gpt2", [], {}),
    "marked_end": (MARKED_END, "mistral", [*ROLES, "<|end|>"], BOS),
    "macros": (MACROS, "smol", CHANNEL, {}),
    "end_at_last": (END_AT_LAST, "llama2", ROLES, BOS),
    "plain": (PLAIN, "gpt2", [], {}),
    "channels": (CHANNELS, "llama3", CHANNEL, {}),
    "unprompted": (UNPROMPTED, "gemma", [*ROLES, "<|end|>"], {}),
}
