"""The command `motet feedback`: past conversations in, a person's data out, over HTTP like any client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from motet.client.connection import ANY_KEY, LOCAL, Connection
from motet.client.feedback import Feedback
from motet.client.records import Records
from motet.client.serving_command import ApiKey, BaseUrl

app = typer.Typer(help="Feedback to answers: import, read, forget a person.", no_args_is_help=True)
SHOWN = 10  # refused lines that are told


@app.command("import")
def bring(
    file: Annotated[Path, typer.Argument(help="JSONL: a body of POST /v1/feedback a line.", exists=True)],
    name: Annotated[str | None, typer.Option(help="The name in service, where a line tells no model.")] = None,
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """Send a file of past conversations and what was said of them; sending it again changes nothing."""
    done = Feedback(Connection(base_url, api_key)).bring(file, name)
    typer.echo(f"{done.lines} lines: {done.new} new, {done.duplicates} known before, {len(done.refused)} refused")
    for told in done.refused[:SHOWN]:
        typer.echo(told, err=True)
    if done.refused:
        raise typer.Exit(1)


@app.command("list")
def show(
    name: Annotated[str | None, typer.Option(help="Of this name in service.")] = None,
    after: Annotated[int, typer.Option(help="What came after this number.", min=0)] = 0,
    answers: Annotated[bool, typer.Option("--answers", help="With the record of each answer.")] = False,
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """What was said, one JSON object a line, oldest first."""
    for item in Records(Connection(base_url, api_key)).feedback(after, name=name, answers=answers):
        typer.echo(json.dumps(item))


@app.command()
def forget(
    user: Annotated[str, typer.Argument(help="The `user` of the answers, and `source` of feedback.")],
    base_url: BaseUrl = LOCAL,
    api_key: ApiKey = ANY_KEY,
) -> None:
    """Delete a person's data; tells which versions learned from it, and from what to make them again."""
    typer.echo(json.dumps(Records(Connection(base_url, api_key)).forget(user), indent=2))
