"""Chat templates for tests: ChatML, with and without reasoning, in the ways of two model families.

Both are written here, after how the families behave: nothing is fetched.
"""

CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n"
    "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n"
    "{% endif %}"
    "{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Shows every reasoning there is, wherever it stands."""

LOOKS_BACK = (
    "{% set question = namespace(index=-1) %}"
    "{% for message in messages %}"
    "{% if message.role == 'user' %}{% set question.index = loop.index0 %}{% endif %}"
    "{% endfor %}"
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' and question.index >= 0 and loop.index0 > question.index %}"
    "<think>\n{{ message.reasoning_content or '' }}\n</think>\n\n"
    "{% endif %}"
    "{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Drops reasoning before the last question and opens a block, if empty, behind it, as Qwen3's."""
