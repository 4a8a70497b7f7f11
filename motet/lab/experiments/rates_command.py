"""The command `motet rates`. Light to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from motet.errors import BadConfig
from motet.lab.experiments.rates import Size, propose


def rates_with(locate: Callable[[str], str]) -> Callable[..., None]:
    """The command; `locate` gives the folder of a base model that comes with Motet, and any other name as it is."""

    def rates(
        model: Annotated[str, typer.Argument(help="A base model: a name or a folder.")],
        rank: Annotated[int, typer.Option(min=1, help="Of the adapter.")] = 16,
        alpha: Annotated[
            float, typer.Option(min=1e-3, help="Of the adapter: its output is scaled by alpha / rank.")
        ] = 32,
    ) -> None:
        """Propose a learning rate for LoRA, with its source and what speaks against it."""
        size = _size(locate(model))
        found = propose(model, size, rank, alpha)
        typer.echo(f"# {model}: {size.family}, hidden size {size.hidden}; rank {rank}, alpha {alpha:g}")
        typer.echo(f"learning_rate = {found.rate:.2g}")
        typer.echo(f"learning_rate = [{', '.join(f'{one:.2g}' for one in found.around)}]  # a sweep around it")
        if found.swept is not None:
            typer.echo(f"# the Tinker cookbook's sweep found {found.swept:g} best (supervised, 128 examples a step)")
        for one in found.doubts:
            typer.echo(f"# {one}")
        typer.echo("# the same at every rank; after Schulman et al. 2025, LoRA Without Regret")

    return rates


def _size(folder: str) -> Size:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder)
    except (OSError, ValueError) as error:
        told = str(error).splitlines()[0]
        raise BadConfig(f"nothing is known of {folder} ({told}): give a model's folder or its hub name") from None
    return Size(config.model_type, config.get_text_config().hidden_size)
