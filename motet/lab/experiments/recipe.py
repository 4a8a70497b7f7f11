"""What `motet run` takes: an experiment file, or a Python file whose function says the same.

    from motet.lab.experiments.config import Experiment, Sweep

    def recipe() -> Sweep:
        rates = (1e-3, 5e-4)
        return Sweep("rates", "pocket", [Experiment(name=f"rate {one:g}", learning_rate=one) for one in rates])

The function is called once; the folder keeps every experiment that it gave, so that a sweep goes on without it.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from pydantic import ValidationError

from motet.errors import BadConfig
from motet.lab.experiments.config import Sweep, load

FUNCTION = "recipe"


def read_recipe(file: Path) -> Sweep:
    """A TOML file's sweep, or what a Python file's recipe() gives. BadConfig: no such file, or a mistake in it.

    Whatever else the function raises is the recipe's own, and comes through as it is.
    """
    return _from_python(file) if file.suffix == ".py" else load(file)


def _from_python(file: Path) -> Sweep:
    if not file.is_file():
        raise BadConfig(f"there is no experiment file {file}")
    try:
        recipe = runpy.run_path(str(file)).get(FUNCTION)
        if not callable(recipe):
            raise BadConfig(f"it defines no {FUNCTION}() -> Sweep; see docs/experiments.md")
        sweep = recipe()
        if not isinstance(sweep, Sweep):
            raise BadConfig(f"{FUNCTION}() gives {type(sweep).__name__}, not a Sweep; see docs/experiments.md")
    except ValidationError as error:
        told = (f"{'.'.join(map(str, (error.title, *one['loc'])))}: {one['msg']}" for one in error.errors())
        raise BadConfig(f"{file}: {'; '.join(told)}") from None
    except BadConfig as error:
        raise BadConfig(f"{file}: {error}") from None
    except SyntaxError as error:
        raise BadConfig(f"{file} is not Python: {error}") from None
    return sweep
