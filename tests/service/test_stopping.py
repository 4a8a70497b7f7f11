"""An orderly end, over HTTPS: new work is refused, what is in hand is finished, and no longer than it may take."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from motet.service.catalog.catalog import Catalog
from motet.service.http.app import create_app
from motet.service.http.auth import KeyRing
from motet.service.http.draining import Drain
from motet.service.http.metrics import Meters
from motet.service.http.operation import Operation
from motet.service.http.service import Service
from motet.service.http.settings import ServiceSettings
from motet.service.http.supervisor import Supervisor
from tests.service.client import PROTOBUF, Client
from tests.service.running import engine_asleep, serving
from tests.tiny import make_tiny_model

HEADERS = {"X-API-Key": "tml-one"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stopping")


@pytest.fixture(scope="module")
def certificate(folder: Path) -> Path:
    """One that signs itself, for 127.0.0.1; its key is beside it as key.pem."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    made = folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(made), "-days", "2", "-subj", "/CN=motet"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return made


class SecureClient(Client):
    """Trusts one certificate."""

    def __init__(self, address: str, certificate: Path) -> None:
        super().__init__(address, HEADERS["X-API-Key"], verify=ssl.create_default_context(cafile=str(certificate)))


def test_https_and_a_drain(folder: Path, certificate: Path) -> None:
    """The engine sleeps while the server is asked to stop, so that there is work in hand while it is looked at."""
    model = make_tiny_model(folder, "qwen3")
    settings = folder / "motet.toml"
    settings.write_text("[service]\ndrain_seconds = 60")
    flags = ["--config", str(settings), "--tls-cert", str(certificate), "--tls-key", str(folder / "key.pem")]
    with serving(model, folder, flags, stops_itself=True) as server:
        assert server.address.startswith("https://")
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(f"{server.address}/api/v1/healthz")
        client = SecureClient(server.address, certificate)
        run = client.run()
        with ThreadPoolExecutor() as pool:
            with engine_asleep(server):
                promise = client.train(run, 1).json()
                client.train(run, 3)  # its turn never comes: nobody waits for it
                os.kill(server.pid, signal.SIGTERM)
                refused = until_refused(client)
                assert refused.headers["retry-after"] == "5" and refused.json()["category"] == "server"
                assert client.http.get("/api/v1/healthz").status_code == 200
                assert client.http.get("/motet/v1/status").json()["stopping"] is True
                result = pool.submit(client.read, promise)
                time.sleep(0.2)  # it waits by now
            assert result.result(30).headers["content-type"] == PROTOBUF
    assert "work undone" not in (folder / "server.log").read_text()


def until_refused(client: Client) -> httpx.Response:
    """The server notices the signal within a tenth of a second."""
    deadline = time.monotonic() + 5
    while (answer := client.send("create_session", tags=[])).status_code != 503:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return answer


def test_a_pair_that_does_not_fit_is_refused(folder: Path, certificate: Path) -> None:
    flags = ["--tls-cert", str(certificate), "--tls-key", str(certificate)]
    command = [sys.executable, "-m", "motet.cli", "serve", "--data-dir", str(folder / "other"), *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "cannot be used" in ended.stderr and "PEM" in ended.stderr and len(ended.stderr.splitlines()) == 1


# -- without an engine -----------------------------------------------------------------------------------------


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    def no_engine(connection: object) -> None:
        raise AssertionError("this test starts no engine")

    catalog = Catalog(tmp_path, None)
    try:
        yield Service(Supervisor(no_engine), ServiceSettings(data_dir=tmp_path), catalog, KeyRing([]))
    finally:
        catalog.close()


def test_a_drain_has_a_bound_and_can_be_hurried(service: Service) -> None:
    async def drained() -> None:
        drain = Drain(service)
        assert await drain.run(60) == 0, "there is nothing to wait for"
        service.holdings.resume("tenant", tokens=5)  # waits for an earlier one, which will never come now
        assert await drain.run(60) == 0
        service.holdings.resume("tenant", tokens=5).begin()
        began = time.monotonic()
        assert await drain.run(0.2) == 1
        assert 0.2 <= time.monotonic() - began < 2
        asyncio.get_running_loop().call_later(0.1, drain.hurry)
        assert await drain.run(60) == 1
        assert time.monotonic() - began < 5

    asyncio.run(drained())


def test_a_fault_of_ours_has_an_id_and_tells_nothing_else(service: Service) -> None:
    app = create_app(service, Operation.of(service, Meters(), lambda: 0))

    @app.get("/fault")
    def fault() -> None:
        raise RuntimeError("a secret")

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as http:
            return await http.get("/fault", headers={**HEADERS, "X-Request-ID": "mine"})

    answer = asyncio.run(asked())
    assert answer.status_code == 500 and answer.headers["x-request-id"] == "mine"
    assert answer.json() == {"error": "an internal fault: RuntimeError", "category": "server"}


def test_the_description_for_machines_is_served(service: Service) -> None:
    """Its route is FastAPI's own, unknown to our table of routes."""
    app = create_app(service, Operation.of(service, Meters(), lambda: 0))

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
            return await http.get("/motet/v1/openapi.json", headers=HEADERS)

    assert "/metrics" in asyncio.run(asked()).json()["paths"]
