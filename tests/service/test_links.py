"""Signed links: only what was made opens, and only until it ends."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from motet.errors import NotFound
from motet.service.http import links
from motet.service.http.links import Links, open_secret


class Saved:
    """As much of a checkpoint as a link is made of."""

    id = "weights/a b"

    class run:  # noqa: N801
        id = "s:train:0"


def parts(url: str) -> dict[str, str]:
    split = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(split.query).items()}
    run, kind, name, file = unquote(split.path).removeprefix("motet/v1/files/").split("/", 3)
    return {"run": run, "checkpoint": f"{kind}/{name}", "file": file, **query}


def check(made: Links, told: dict[str, str]) -> None:
    made.check(told["run"], told["checkpoint"], told["file"], int(told["expires"]), told["signature"])


def test_a_link_opens_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    made = Links(open_secret(tmp_path))
    told = parts(made.make(Saved(), "sub/adapter.bin").url)  # type: ignore[arg-type]
    check(made, told)
    check(Links(open_secret(tmp_path)), told)  # after a restart too
    assert (tmp_path / "links.key").stat().st_mode & 0o077 == 0
    changes = {"run": "t:train:0", "checkpoint": "weights/b", "file": "other", "signature": "0" * 64}
    for field, value in {**changes, "expires": str(int(told["expires"]) + 60)}.items():
        with pytest.raises(NotFound):
            check(made, {**told, field: value})
    with pytest.raises(NotFound):
        check(Links(open_secret(tmp_path / "another")), told)


def test_a_link_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Links(open_secret(tmp_path))
    link = made.make(Saved(), "x")  # type: ignore[arg-type]
    monkeypatch.setattr(links, "now", lambda: link.expires - timedelta(seconds=1))
    check(made, parts(link.url))
    monkeypatch.setattr(links, "now", lambda: link.expires)
    with pytest.raises(NotFound, match="ask for a new one"):
        check(made, parts(link.url))
