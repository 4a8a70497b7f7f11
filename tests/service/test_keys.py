"""Keys and quotas: made, listed and revoked by `motet keys`, followed at once by whoever holds the ring."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from motet.cli import app as commands
from motet.errors import BadConfig, NotFound
from motet.service.catalog.keys import KeyStore, digest_of
from motet.service.http import auth
from motet.service.http.auth import KeyRing, Unauthorized, tenant_of
from motet.service.http.quotas import Quotas, read_quota


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    store = KeyStore(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def beside(tmp_path: Path, store: KeyStore) -> Iterator[KeyStore]:
    """The same data folder, opened by somebody else."""
    beside = KeyStore(tmp_path / "data")
    yield beside
    beside.close()


def test_a_ring_follows_what_is_changed_beside_it(store: KeyStore, beside: KeyStore) -> None:
    ring = KeyRing([], store)
    assert ring.open and ring.tenant("anything") == tenant_of("anything")
    first, second = beside.add("red"), beside.add("red")
    other = beside.add("blue")
    assert not ring.open
    assert [ring.tenant(key) for key in (first, second, other)] == ["red", "red", "blue"]
    beside.revoke(first[:12])
    with pytest.raises(Unauthorized):
        ring.tenant(first)
    assert ring.tenant(second) == "red"
    with pytest.raises(NotFound):
        beside.revoke(first[:12])


def test_a_server_whose_last_key_was_revoked_does_not_open(store: KeyStore) -> None:
    key = store.add("red")
    store.revoke(key[:12])
    ring = KeyRing([], store)
    assert not ring.open
    for tried in (key, "tml-anything", "", None):
        with pytest.raises(Unauthorized):
            ring.tenant(tried)


def test_keys_of_the_command_line_stand_beside_made_ones(store: KeyStore) -> None:
    made = store.add("red")
    ring = KeyRing(["tml-given"], store)
    assert ring.tenant("tml-given") == tenant_of("tml-given") and ring.tenant(made) == "red"
    with pytest.raises(Unauthorized):
        ring.tenant("tml-other")


def test_only_digests_are_kept_and_compared(store: KeyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = store.add("red")
    ring = KeyRing(["tml-given"], store)
    compared: list[tuple[str, str]] = []

    class Watched:
        @staticmethod
        def compare_digest(a: str, b: str) -> bool:
            compared.append((a, b))
            return hmac.compare_digest(a, b)

    monkeypatch.setattr(auth, "hmac", Watched)
    assert ring.tenant(key) == "red"
    for wrong in ("tml-wrong", key[:-1], key + "x"):
        with pytest.raises(Unauthorized):
            ring.tenant(wrong)
    assert len(compared) == 4, "each key is compared once, known or not"
    assert all(len(a) == len(b) == 64 for a, b in compared)
    store.close()
    stored = b"".join(file.read_bytes() for file in (tmp_path / "data").iterdir())
    assert digest_of(key).encode() in stored and key.encode() not in stored and key[12:].encode() not in stored


def test_two_keys_that_share_an_index_do_not_open_for_each_other(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the first characters of the digests agree, the whole of it decides."""
    key = store.add("red")
    wrong = next(f"tml-{n}" for n in range(1000) if digest_of(f"tml-{n}")[0] == digest_of(key)[0])
    monkeypatch.setattr(auth, "INDEX", 1)
    ring = KeyRing([], store)
    assert ring.tenant(key) == "red"
    with pytest.raises(Unauthorized):
        ring.tenant(wrong)


def test_quotas_are_a_tenants_own(store: KeyStore, beside: KeyStore) -> None:
    ring = KeyRing([], store)
    assert ring.quotas("red") == {}
    beside.set_quotas("red", {"runs": 2, "stored_bytes": 100})
    assert ring.quotas("red") == {"runs": 2, "stored_bytes": 100}
    assert beside.set_quotas("red", {"runs": None}) == {"stored_bytes": 100}
    assert ring.quotas("red") == {"stored_bytes": 100} and ring.quotas("blue") == {}


@pytest.mark.parametrize("text", ["rums=1", "runs", "runs=", "runs=0", "runs=-1", "runs=nan", "runs=inf", "runs=x"])
def test_a_quota_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadConfig):
        read_quota(text)


def test_a_quota_is_read() -> None:
    assert read_quota("runs=3") == ("runs", 3)
    assert read_quota("stored_bytes=1e9") == ("stored_bytes", 10**9)
    assert read_quota("runs=default") == ("runs", None)
    with pytest.raises(BadConfig, match="runs"):
        Quotas(runs=0)


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["keys", *arguments])


def test_the_command(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "new" / "data"))
    made = keys("create", *data, "--tenant", "red team", "--quota", "runs=4", "--quota", "stored_bytes=1e9")
    key = made.stdout.strip()
    assert made.exit_code == 0 and key.startswith("tml-") and len(key) > 40 and made.stdout.count("\n") == 1
    listed = keys("list", *data).stdout
    assert key[:12] in listed and "red team" in listed and "runs=4" in listed and "in use" in listed
    assert key not in listed
    assert keys("quota", "red team", "runs=default", *data).stdout.strip() == "stored_bytes=1000000000"
    assert keys("revoke", key[:12], *data).exit_code == 0
    assert "revoked" in keys("list", *data).stdout
    for wrong in (("revoke", "tml-nothing"), ("create", "--tenant", " "), ("quota", "red team", "rums=1")):
        told = keys(*wrong, *data)
        assert told.exit_code == 2 and told.stderr.startswith("error:") and told.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = keys("list", "--data-dir", str(tmp_path / "file"))
    assert told.exit_code == 2 and "choose another --data-dir" in told.stderr
    data = tmp_path / "data"
    KeyStore(data).close()
    with sqlite3.connect(data / "catalog.sqlite") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    told = keys("list", "--data-dir", str(data))
    assert told.exit_code == 2 and "9999" in told.stderr
