"""The command `motet serving`: names in service, over HTTP like any client."""

from __future__ import annotations

import getpass
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from motet.client.connection import ANY_KEY, LOCAL, Connection
from motet.client.names import Names

app = typer.Typer(help="Names in service: which version answers under which name.", no_args_is_help=True)

BaseUrl = Annotated[str, typer.Option(help="The server.", envvar="TINKER_BASE_URL")]
ApiKey = Annotated[str, typer.Option(help="A key of that server.", envvar="TINKER_API_KEY")]
Reason = Annotated[str, typer.Option(help="For the history.")]
NameIs = Annotated[str, typer.Argument(help="The name in service.")]
Version = Annotated[int, typer.Argument(help="The version's number.", min=1)]


@app.command("list")
def show_all(base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY) -> None:
    """All names, and what serves under each."""
    for name in _names(base_url, api_key).all():
        typer.echo(_line(name))


@app.command()
def history(name: NameIs, base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY) -> None:
    """Everything that was done to a name, and its versions."""
    found = _names(base_url, api_key).show(name)
    typer.echo(_line(found))
    table = Table("time", "event", "version", "by", "reason", box=None, pad_edge=False)
    for one in found["history"]:
        version = "" if one["version"] is None else f"v{one['version']}"
        table.add_row(one["time"][:19], one["event"], version, one["by"], one["reason"])
    Console(markup=False, highlight=False).print(table)
    for one in found["versions"]:
        typer.echo(f"v{one['version']}  {one['path']}  {one['about']}")


@app.command()
def bring(
    name: NameIs,
    path: Annotated[str, typer.Argument(help="A sampler checkpoint, tinker://RUN/sampler_weights/NAME.")],
    about: Annotated[str, typer.Option(help="What it is.")] = "",
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """A checkpoint becomes the candidate; of a new name it serves at once."""
    typer.echo(_line(_names(base_url, api_key).bring(name, path, about)))


@app.command()
def promote(
    name: NameIs, version: Version, reason: Reason = "", base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY
) -> None:
    """A version serves from the next request on."""
    typer.echo(_line(_names(base_url, api_key).promote(name, version, reason)))


@app.command()
def rollback(name: NameIs, reason: Reason = "", base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY) -> None:
    """The version before serves again."""
    typer.echo(_line(_names(base_url, api_key).rollback(name, reason)))


@app.command()
def pin(
    name: NameIs, version: Version, reason: Reason = "", base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY
) -> None:
    """A version serves whatever is promoted."""
    typer.echo(_line(_names(base_url, api_key).pin(name, version, reason)))


@app.command()
def unpin(name: NameIs, reason: Reason = "", base_url: BaseUrl = LOCAL, api_key: ApiKey = ANY_KEY) -> None:
    """Promotions count again."""
    typer.echo(_line(_names(base_url, api_key).pin(name, None, reason)))


@app.command()
def canary(
    name: NameIs,
    share: Annotated[float, typer.Argument(help="The candidate's share of the traffic, 0 to 1.", min=0, max=1)],
    reason: Reason = "",
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """The candidate takes a share of the traffic, sticky by conversation."""
    typer.echo(_line(_names(base_url, api_key).canary(name, share, reason)))


@app.command()
def diff(
    name: NameIs,
    before: Version,
    after: Annotated[int, typer.Argument(help="The other version's number.", min=1)],
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """Two versions side by side: trainings between them, recipes, feedback to each in numbers."""
    typer.echo(json.dumps(_names(base_url, api_key).diff(name, before, after), indent=2))


def _names(base_url: str, api_key: str) -> Names:
    return Names(Connection(base_url, api_key, patience=5.0), by=getpass.getuser())


def _line(name: dict[str, Any]) -> str:
    """A name as it stands."""
    parts = [name["name"], "serves nothing" if name["serving"] is None else f"serves v{name['serving']}"]
    if name["pinned"]:
        parts.append("pinned")
    if name["candidate"] is not None:
        parts.append(f"candidate v{name['candidate']} with {name['canary']:.0%} of the traffic")
    return "  ".join(parts)
