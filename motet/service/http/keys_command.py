"""The command `motet keys`: API keys and quotas of tenants, also while a server runs on the same data folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.errors import BadConfig, MotetError

if TYPE_CHECKING:
    from motet.service.catalog.keys import KeyStore

app = typer.Typer(help="API keys and quotas of tenants; a running server follows at once.", no_args_is_help=True)

DataDir = Annotated[Path, typer.Option(help="The server's data folder.")]
Database = Annotated[
    str | None, typer.Option(help="The server's database, where it is not in the data folder.", envvar="MOTET_DATABASE")
]
Quota = Annotated[list[str] | None, typer.Option(help="NAME=VALUE, or NAME=default; may be given several times.")]
DATA_DIR = Path("motet-data")
LONGEST_NAME = 100


@app.command()
def create(
    tenant: Annotated[str, typer.Option(help="Whose key it is; a tenant may have several.")],
    data_dir: DataDir = DATA_DIR,
    database: Database = None,
    quota: Quota = None,
) -> None:
    """Make a key and print it; it is shown this once."""
    with _opened(data_dir, database) as store:
        changes = _changes(quota or [])
        _check_name(tenant)
        if changes:
            store.set_quotas(tenant, changes)
        typer.echo(store.add(tenant))


@app.command("list")
def show(data_dir: DataDir = DATA_DIR, database: Database = None) -> None:
    """List the keys by their first characters, whose they are, and quotas that are not the server's."""
    with _opened(data_dir, database) as store:
        quotas = store.quotas()
        for key in store.all():
            state = "in use" if key.revoked is None else f"revoked {key.revoked:%Y-%m-%d %H:%M}"
            columns = [
                key.id,
                key.tenant,
                f"made {key.created:%Y-%m-%d %H:%M}",
                state,
                *_told(quotas.get(key.tenant, {})),
            ]
            typer.echo("  ".join(columns))


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Its first characters, as `motet keys list` shows them.")],
    data_dir: DataDir = DATA_DIR,
    database: Database = None,
) -> None:
    """Let a key in no more, from its next request on."""
    with _opened(data_dir, database) as store:
        store.revoke(key)


@app.command()
def quota(
    tenant: Annotated[str, typer.Argument(help="The tenant.")],
    values: Annotated[list[str] | None, typer.Argument(help="NAME=VALUE, or NAME=default.", metavar="QUOTA...")] = None,
    data_dir: DataDir = DATA_DIR,
    database: Database = None,
) -> None:
    """Change a tenant's quotas, and print those that are not the server's."""
    with _opened(data_dir, database) as store:
        changes = _changes(values or [])
        own = store.set_quotas(tenant, changes) if changes else store.quotas().get(tenant, {})
        typer.echo("  ".join(_told(own)) or "the server's")


@contextmanager
def _opened(data_dir: Path, database: str | None) -> Iterator[KeyStore]:
    """The store while it is used; what goes wrong is one line."""
    from motet.service.catalog.keys import KeyStore

    try:
        store = KeyStore(data_dir, database)
        try:
            yield store
        finally:
            store.close()
    except MotetError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None


def _changes(quotas: list[str]) -> dict[str, float | None]:
    from motet.service.http.quotas import read_quota

    return dict(read_quota(text) for text in quotas)


def _told(quotas: Mapping[str, float]) -> list[str]:
    return [f"{name}={value}" for name, value in quotas.items()]


def _check_name(tenant: str) -> None:
    if not (tenant.isprintable() and 0 < len(tenant.strip()) == len(tenant) <= LONGEST_NAME):
        raise BadConfig(f"{tenant!r} is no name for a tenant: printable characters, {LONGEST_NAME} at most")
