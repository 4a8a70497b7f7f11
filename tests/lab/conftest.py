"""A tokenizer made on the spot: byte-level, with a chat template that takes tools. A server, for all who need one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from rich.console import Console
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from motet.lab.experiments.server import background_server

CORPUS = ["Calculator[23+18]\nResult: 41\nFinalAnswer[41]\n", "Ann has 23 apples. How many now?\n"]
TEMPLATE = """{%- if tools %}<|im_start|>system
{{ messages[0].content if messages[0].role == 'system' else '' }}
{%- for tool in tools %}
{{ tool | tojson }}{%- endfor %}<|im_end|>
{% endif %}{%- for m in messages %}{%- if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% elif m.role != 'system' or not tools %}<|im_start|>{{ m.role }}
{{ m.content }}{%- for call in m.tool_calls %}<tool_call>
{{ call.function | tojson }}
</tool_call>{%- endfor %}<|im_end|>
{% endif %}{%- endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def make_tokenizer(
    template: str | None, control: Sequence[str] = (), end: str = "<|im_end|>"
) -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    inner.train_from_iterator(CORPUS * 10, trainer)
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>", *control])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=end)
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def bare() -> PreTrainedTokenizerFast:
    """Without a chat template."""
    return make_tokenizer(None)


@pytest.fixture(scope="session")
def chatty() -> PreTrainedTokenizerFast:
    """With a chat template that takes tools."""
    return make_tokenizer(TEMPLATE)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server on the pocket model."""
    with background_server("pocket", tmp_path_factory.mktemp("server"), Console(quiet=True)) as url:
        yield url
