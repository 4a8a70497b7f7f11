"""Make the pocket model: a tokenizer, a Qwen3 of about 1.5M parameters, and a few minutes of pre-training.

    python scripts/pretrain_pocket.py              # writes motet/pocket, then measures it
    python scripts/pretrain_pocket.py --only-measure

It learns the laboratory's word problems (one and two operations, train split) from episodes in exactly the
tokens that the environment builds. It learns them first as they are, so that it can solve them, and then with
most episodes spoiled (a wrong operand or operator in one calculator call), so that it starts from a low
reward with everything still to be found by reinforcement learning.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from motet.chat.template import encode
from motet.lab.envs.calculator import evaluate
from motet.lab.envs.formats.plain import INSTRUCTIONS, PlainFormat, solution
from motet.lab.envs.problems import Problem
from motet.lab.envs.protocol import Cue, Tasks, Written
from motet.lab.envs.rollout import Policy, mix, play_group
from motet.lab.envs.settings import WordProblemSettings
from motet.lab.envs.word_problems import WordProblems

FOLDER = Path(__file__).parent.parent / "motet" / "pocket"
GENERATOR_SEED = 71_001  # of the problems; experiments use small numbers
END, START, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IGNORED = -100  # a label that costs nothing


@dataclass(frozen=True)
class Recipe:
    """How the pocket model is trained. Change a number here and run the script again."""

    seed: int = 0
    steps: int = 1000
    clean_steps: int = 750  # at first, on solutions that are right
    spoiled: float = 0.7  # of the episodes after that
    batch: int = 32  # episodes
    learning_rate: float = 4e-3
    warmup: int = 50
    weight_decay: float = 0.05


@dataclass(frozen=True)
class Episode:
    """One whole solution as token ids: a prompt of `prompt` tokens, then calls and results, then the end token."""

    tokens: list[int]
    prompt: int


# --- the tokenizer ---------------------------------------------------------------------------------------------


def make_tokenizer(words: int = 200) -> PreTrainedTokenizerFast:
    """Bytes, and the most frequent words of the problems as single tokens; no merges lie between."""
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[^\p{L} ]"), "isolated"),  # digits, brackets, signs and newlines stand alone
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    counts = Counter(word for text in _texts(4000) for word, _ in splitter.pre_tokenize_str(text) if len(word) > 1)
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [word for word, _ in counts.most_common(words)]
    inner = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[], ignore_merges=True))
    inner.pre_tokenizer = splitter
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([PAD, START, END])
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        eos_token=END,
        pad_token=PAD,
        clean_up_tokenization_spaces=False,
        chat_template=TEMPLATE,
        model_max_length=512,
    )


def _texts(count: int) -> Iterator[str]:
    """What the policy reads and writes, as text."""
    yield from ["system\n", "user\n", "assistant\n", INSTRUCTIONS, "error: only numbers"] * count
    for problem in map(problem_at, range(count)):
        yield problem.question + "\n" + "".join(piece.text for piece in solution(problem))


# --- the episodes ----------------------------------------------------------------------------------------------


def problem_at(index: int) -> Problem:
    """Problems of the train split: one operation and two in turn, all operators."""
    return _generator(1 + index % 2).problem("train", index // 2)


def _generator(operations: int) -> WordProblems:
    return WordProblems(operations, "+-*/", GENERATOR_SEED)


def spoil(problem: Problem, rng: Random) -> Problem:
    """The same question with one calculator call made wrong; the steps after it follow from the wrong result."""
    where = rng.randrange(len(problem.steps))
    while True:
        steps = list(problem.steps[:where])
        for i, step in enumerate(problem.steps[where:]):
            call = _Call.read(step)
            if i > 0:
                call = replace(call, left=int(evaluate(steps[-1])))
            steps.append(str(call.wrong(rng) if i == 0 else call))
            value = evaluate(steps[-1])
            if value.denominator != 1 or value < 0:
                break
        else:
            if value != problem.answer:
                return Problem(problem.question, value, tuple(steps))


@dataclass(frozen=True)
class _Call:
    """A calculator call with one operator."""

    left: int
    operator: str
    right: int

    @classmethod
    def read(cls, expression: str) -> _Call:
        (operator,) = [c for c in expression if c in "+-*/"]
        left, right = expression.split(operator)
        return cls(int(left), operator, int(right))

    def __str__(self) -> str:
        return f"{self.left}{self.operator}{self.right}"

    def wrong(self, rng: Random) -> _Call:
        """With another operator or another right operand."""
        if rng.random() < 0.5:
            return replace(self, operator=rng.choice([o for o in "+-*/" if o != self.operator]))
        return replace(self, right=rng.choice([n for n in range(2, 61) if n != self.right]))


def episode(form: PlainFormat, tokenizer: PreTrainedTokenizerBase, problem: Problem) -> Episode:
    """A problem's prompt and solution, tokenized where the environment tokenizes."""
    prompt = form.prompt(problem.question, [])
    pieces = [token for piece in solution(problem) for token in encode(tokenizer, piece.text)]
    return Episode([*prompt, *pieces, int(tokenizer.eos_token_id)], len(prompt))


def episodes(tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> Iterator[list[Episode]]:
    """The batches of the training, one a step. Neighbours are sorted by length, so that little is padded."""
    form, rng, index = PlainFormat(tokenizer), Random(recipe.seed), 0
    window = 8  # batches
    for step in range(0, recipe.steps, window):
        some = []
        for _ in range(recipe.batch * window):
            problem = problem_at(index)
            if step >= recipe.clean_steps and rng.random() < recipe.spoiled:
                problem = spoil(problem, rng)
            some.append(episode(form, tokenizer, problem))
            index += 1
        some.sort(key=lambda one: len(one.tokens))
        batches = [some[i : i + recipe.batch] for i in range(0, len(some), recipe.batch)]
        rng.shuffle(batches)
        yield from batches


# --- the model and its training --------------------------------------------------------------------------------


def make_model(tokenizer: PreTrainedTokenizerBase) -> Qwen3ForCausalLM:
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=160,
        intermediate_size=448,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        use_sliding_window=False,
    )
    return Qwen3ForCausalLM(config)


def train(tokenizer: PreTrainedTokenizerBase, recipe: Recipe) -> Qwen3ForCausalLM:
    """AdamW, a warm-up and a cosine, always the same for the same recipe."""
    torch.manual_seed(recipe.seed)
    model = make_model(tokenizer)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
    )
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps, recipe.learning_rate / 20)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, total_iters=recipe.warmup)
    began = time.monotonic()
    for step, batch in enumerate(episodes(tokenizer, recipe)):
        loss = _loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        cosine.step()
        warmup.step()
        if step % 50 == 0 or step == recipe.steps - 1:
            print(f"step {step:5}  loss {loss.item():.3f}  {time.monotonic() - began:4.0f} s", flush=True)
    return model.bfloat16().eval()


def _loss(model: Qwen3ForCausalLM, batch: Sequence[Episode]) -> Tensor:
    """Mean cross-entropy of what follows the prompts, padded on the right."""
    longest, pad = max(len(one.tokens) for one in batch), model.config.pad_token_id or 0
    tokens_BT = torch.full((len(batch), longest), pad)
    labels_BT = torch.full((len(batch), longest), IGNORED)
    for row, one in enumerate(batch):
        tokens_BT[row, : len(one.tokens)] = torch.tensor(one.tokens)
        labels_BT[row, one.prompt : len(one.tokens)] = torch.tensor(one.tokens[one.prompt :])
    loss: Tensor = model(input_ids=tokens_BT, labels=labels_BT).loss
    return loss


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True, temperature=1.0
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# --- what it can do at the start -------------------------------------------------------------------------------


class TransformersPolicy:
    """Samples with `transformers` alone, so that the measurement does not lean on the engine."""

    version = 0

    def __init__(self, model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
        self._model = model
        self._tokenizer = tokenizer

    async def write(self, tokens: Sequence[int], cue: Cue, count: int, seed: int) -> list[Written]:
        """As motet.lab.envs.rollout.Policy says, at temperature 1."""
        return [self._one(tokens, cue, mix(seed, i)) for i in range(count)]

    @torch.inference_mode()
    def _one(self, tokens: Sequence[int], cue: Cue, seed: int) -> Written:
        chance = torch.Generator().manual_seed(seed)
        fed, cache, text = torch.tensor([list(tokens)]), None, ""
        written: list[int] = []
        logprobs: list[float] = []
        while len(written) < cue.max_tokens and not any(stop in text for stop in cue.stop):
            out = self._model(input_ids=fed, past_key_values=cache, use_cache=True)
            cache, logprobs_V = out.past_key_values, out.logits[0, -1].float().log_softmax(-1)
            token = int(torch.multinomial(logprobs_V.exp(), 1, generator=chance))
            written.append(token)
            logprobs.append(float(logprobs_V[token]))
            fed, text = torch.tensor([[token]]), str(self._tokenizer.decode(written))
        return Written(written, logprobs, text, any(stop in text for stop in cue.stop))


@dataclass(frozen=True)
class Measured:
    """How episodes on held-out problems ended: `Counter(right=30, wrong=70)`."""

    outcomes: Counter[str]

    @property
    def accuracy(self) -> float:
        return self.outcomes["right"] / self.outcomes.total()

    def __str__(self) -> str:
        error = (self.accuracy * (1 - self.accuracy) / self.outcomes.total()) ** 0.5
        return f"{100 * self.accuracy:.1f} ± {100 * error:.1f} %  {dict(self.outcomes)}"


async def play(policy: Policy, tasks: Tasks, problems: int) -> Measured:
    """The first held-out problems, one sample each."""
    groups = [await play_group(i, [tasks.held_out(i)], policy, mix(7, i)) for i in range(problems)]
    return Measured(Counter(one.end.outcome for group in groups for one in group.trajectories))


def measure(folder: Path, problems: int) -> None:
    model = Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    one = WordProblemSettings(operations=1, operators="+-*/", examples=0)
    for settings in (one, one.model_copy(update={"operations": 2})):
        tasks = settings.build(tokenizer, seed=0)
        measured = asyncio.run(play(TransformersPolicy(model, tokenizer), tasks, problems))
        print(f"operations {settings.operations}: {measured}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the model folder is written")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--problems", type=int, default=300, help="held-out problems of each measurement")
    parser.add_argument("--only-measure", action="store_true", help="leave the model as it is")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if not asked.only_measure:
        tokenizer = make_tokenizer()
        save(train(tokenizer, Recipe()), tokenizer, asked.folder)
    measure(asked.folder, asked.problems)


if __name__ == "__main__":
    main()
