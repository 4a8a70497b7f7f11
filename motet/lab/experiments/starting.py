"""What can be seen before the first step: a learning rate of another trade, a temperature that nothing makes up for, a
chat template that loses words."""

from __future__ import annotations

from transformers import AutoConfig, PreTrainedTokenizerBase

from motet.chat.template import Chat
from motet.errors import BadConfig
from motet.lab.algorithms.policy import PolicyGradient
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.progress import Finding
from motet.lab.experiments.rates import MUCH_TOO_LOW, proposed_rate

SAID = ("How many apples?", "Forty-one apples.", "And pears?", "None at all.")


def rate_for(experiment: Experiment, model: str, tokenizer: PreTrainedTokenizerBase) -> float:
    """The experiment's own learning rate, else what is proposed. BadConfig: the model's size cannot be found out."""
    if experiment.learning_rate is not None:
        return experiment.learning_rate
    proposed = _proposal(experiment, model, tokenizer)
    if proposed is None:
        raise BadConfig(f'no size of {model} is known here, so learning_rate = "auto" cannot be: set a number')
    return proposed


def first_findings(
    experiment: Experiment, model: str, tokenizer: PreTrainedTokenizerBase, rate: float
) -> list[Finding]:
    """All that is wrong already."""
    found = []
    proposed = _proposal(experiment, model, tokenizer)
    if proposed is not None and rate < proposed / MUCH_TOO_LOW:
        what = f"learning_rate {rate:g} is of the size for full fine-tuning"
        found.append(Finding("rate", what, 0, f"LoRA wants about ten times as much; {proposed:.0e} is proposed"))
    if _samples_another_policy(experiment):
        what = f"at temperature {experiment.temperature:g} another policy writes than the one that is trained"
        found.append(Finding("temperature", what, 0, 'set correction = "truncate", or temperature = 1.0'))
    if (lost := _lost_by_template(tokenizer)) is not None:
        advice = 'use format = "plain", or another model'
        found.append(Finding("template", f"the chat template does not give back {lost!r}", 0, advice))
    return found


def corrected_for(experiment: Experiment, sampler: str | None) -> Experiment:
    """Where another program draws than trains, the mismatch is truncated, unless the file says what of `correction`."""
    algorithm = experiment.algorithm
    if sampler in (None, "local") or not isinstance(algorithm, PolicyGradient):
        return experiment
    if "correction" in algorithm.model_fields_set:
        return experiment
    corrected = algorithm.model_copy(update={"correction": "truncate", "reference": "trainer"})
    return experiment.model_copy(update={"algorithm": corrected})


def _samples_another_policy(experiment: Experiment) -> bool:
    algorithm = experiment.algorithm
    uncorrected = isinstance(algorithm, PolicyGradient) and algorithm.correction == "none"
    return uncorrected and experiment.temperature != 1.0


def _proposal(experiment: Experiment, model: str, tokenizer: PreTrainedTokenizerBase) -> float | None:
    """None where nobody here knows how wide the base model is."""
    try:
        config = AutoConfig.from_pretrained(tokenizer.name_or_path, local_files_only=True)
    except (OSError, ValueError):
        return None
    return proposed_rate(f"{config.model_type} {model}", config.hidden_size, experiment.alpha)


def _lost_by_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A text that was said and cannot be found in the tokens of the conversation."""
    chat = Chat(tokenizer)
    messages = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(SAID)]
    try:
        told = str(tokenizer.decode(chat.conversation(messages).tokens))
    except BadConfig:
        return SAID[1]
    return next((text for text in SAID if text not in told), None)
