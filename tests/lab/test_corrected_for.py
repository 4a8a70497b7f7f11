"""Where another program draws than trains, an experiment is corrected unless its file says otherwise."""

from __future__ import annotations

import pytest

from motet.lab.algorithms.policy import PolicyGradient
from motet.lab.experiments.config import Experiment
from motet.lab.experiments.starting import corrected_for


def experiment(**algorithm: object) -> Experiment:
    return Experiment.model_validate({"name": "one", "algorithm": {"name": "grpo", **algorithm}})


def correction(one: Experiment) -> tuple[str, str]:
    assert isinstance(one.algorithm, PolicyGradient)
    return one.algorithm.correction, one.algorithm.reference


def test_vllm_is_corrected_against_the_trainer() -> None:
    assert correction(corrected_for(experiment(), "vllm")) == ("truncate", "trainer")


@pytest.mark.parametrize("sampler", [None, "local"])
def test_nothing_changes_where_the_sampler_is_the_trainer_or_nobody_knows(sampler: str | None) -> None:
    assert correction(corrected_for(experiment(), sampler)) == ("none", "sampler")


@pytest.mark.parametrize("said", ["none", "mask"])
def test_what_the_file_says_stands(said: str) -> None:
    assert correction(corrected_for(experiment(correction=said), "vllm"))[0] == said
