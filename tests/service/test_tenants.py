"""Two tenants on one server, with keys that are made while it runs: isolated, bounded, let in and out at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import tinker
from hypothesis import given, settings
from hypothesis import strategies as st
from tinker import types
from typer.testing import CliRunner

from motet.cli import app as commands
from tests.service.client import Client
from tests.service.conftest import Person, person
from tests.service.running import serving, wait_until

DATUM = types.Datum(
    model_input=types.ModelInput.from_ints([5, 6, 7]),
    loss_fn_inputs={"target_tokens": types.TensorData(data=[6, 7, 8], dtype="int64")},
)


@dataclass(frozen=True)
class House:
    """A server that was started without keys, and its data folder."""

    address: str
    data: Path

    def keys(self, *arguments: str) -> str:
        done = CliRunner().invoke(commands, ["keys", *arguments, "--data-dir", str(self.data)])
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    def status(self, key: str, path: str = "/api/v1/get_server_capabilities") -> int:
        return httpx.get(f"{self.address}{path}", headers={"X-API-Key": key}).status_code


@pytest.fixture(scope="module")
def house(sdk_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("tenants")
    with serving(sdk_model, folder) as server:
        house = House(server.address, folder / "data")
        assert house.status("tml-anything") == 200
        assert "open on this machine only" in (folder / "server.log").read_text()
        yield house
        log = (folder / "server.log").read_text()
        assert "Traceback" not in log, log


@pytest.fixture(scope="module")
def red(house: House) -> Iterator[Person]:
    one = person(house.address, house.keys("create", "--tenant", "red"))
    yield one
    one.service.close("success").result()


@pytest.fixture(scope="module")
def blue(house: House) -> Iterator[Person]:
    one = person(house.address, house.keys("create", "--tenant", "blue"))
    yield one
    one.service.close("success").result()


def test_keys_come_and_go_while_the_server_runs(house: House, red: Person) -> None:
    assert house.status("tml-anything") == 401, "the first key that was made has closed the door"
    assert house.status("") == 401 and house.status("", "/api/v1/healthz") == 200
    key = house.keys("create", "--tenant", "green")
    assert house.status(key) == 200
    assert house.status(key[:-1]) == house.status(key + "x") == house.status(key[:12]) == 401
    house.keys("revoke", key[:12])
    assert house.status(key) == 401
    assert house.status(red.key) == 200
    with pytest.raises(tinker.AuthenticationError):
        person(house.address, key)


def test_unknown_paths_ask_for_a_key_too(house: House, red: Person) -> None:
    for path in ("/", "/api/v1/nothing", "/motet/v1/openapi.json", "/docs"):
        assert house.status("tml-wrong", path) == 401
    assert house.status(red.key, "/api/v1/nothing") == 404


def test_a_tenants_keys_share_what_it_has(house: House, red: Person) -> None:
    run = red.train()
    second = house.keys("create", "--tenant", "red")
    rest = tinker.RestClient(base_url=house.address, api_key=second)
    assert rest.get_training_run(run.model_id).result().training_run_id == run.model_id


def test_what_is_anothers_is_not_there(house: House, red: Person, blue: Person) -> None:
    """Every kind of id: the answer is that of an id that never was."""
    training = red.train()
    training.forward_backward([DATUM], "cross_entropy").result()
    state = training.save_state("mine").result().path
    weights = training.save_weights_for_sampler("mine").result().path
    sampler = red.service.create_sampling_client(model_path=weights)
    mine, theirs = Client(house.address, red.key), Client(house.address, blue.key)
    session = training.model_id.partition(":")[0]
    run = training.model_id
    promise = mine.train(run, 100)  # waits for its turn for ever
    request_id = promise.json()["request_id"]
    sampler_id = mine.sampler()
    nobody = "0" * len(session)

    def asked(ask: Callable[[str, str, str, str, str], httpx.Response]) -> None:
        other = ask(session, run, sampler_id, weights, request_id)
        never = ask(
            nobody,
            run.replace(session, nobody),
            sampler_id.replace(mine.session, nobody),
            weights.replace(session, nobody),
            request_id.replace(session, nobody),
        )
        assert other.status_code == never.status_code and other.status_code in (404, 410), other.text
        hidden = {session: nobody, mine.session: nobody}
        told = other.text
        for real, stand_in in hidden.items():
            told = told.replace(real, stand_in)
        assert told == never.text

    get, send = theirs.http.get, theirs.send
    asked(lambda s, r, p, w, f: get(f"/api/v1/sessions/{s}"))
    asked(lambda s, r, p, w, f: send("session_heartbeat", session_id=s))
    asked(lambda s, r, p, w, f: send(f"sessions/{s}/finish", reason={"type": "success"}))
    asked(lambda s, r, p, w, f: send("create_model", session_id=s, model_seq_id=9, base_model="x"))
    asked(
        lambda s, r, p, w, f: send("create_sampling_session", session_id=s, sampling_session_seq_id=9, base_model="x")
    )
    asked(lambda s, r, p, w, f: get(f"/api/v1/training_runs/{r}"))
    asked(lambda s, r, p, w, f: get(f"/api/v1/training_runs/{r}/checkpoints"))
    asked(lambda s, r, p, w, f: get("/motet/v1/versions", params={"run": r}))
    asked(lambda s, r, p, w, f: send("get_info", model_id=r))
    asked(lambda s, r, p, w, f: theirs.train(r, 2))
    asked(lambda s, r, p, w, f: send("optim_step", model_id=r, seq_id=2, adam_params={}))
    asked(lambda s, r, p, w, f: send("save_weights", model_id=r, path="x", seq_id=2))
    asked(lambda s, r, p, w, f: send("save_weights_for_sampler", model_id=r, path="x", seq_id=2))
    asked(lambda s, r, p, w, f: get(f"/api/v1/samplers/{p}"))
    asked(lambda s, r, p, w, f: send("asample", **sampling(p)))
    asked(lambda s, r, p, w, f: send("retrieve_future", request_id=f))
    asked(lambda s, r, p, w, f: send("weights_info", tinker_path=w))
    asked(lambda s, r, p, w, f: theirs.http.delete(f"/api/v1/training_runs/{r}/checkpoints/weights/mine"))
    asked(
        lambda s, r, p, w, f: theirs.http.put(
            f"/api/v1/training_runs/{r}/checkpoints/weights/mine/ttl", json={"ttl_seconds": 3600}
        )
    )
    asked(
        lambda s, r, p, w, f: send(
            "create_sampling_session", session_id=theirs.session, sampling_session_seq_id=5, model_path=w
        )
    )
    loaded = theirs.post("load_weights", session_id=theirs.session, model_seq_id=0, path=state, optimizer=True)
    assert "there is no checkpoint" in theirs.read(loaded).json()["error"]
    theirs.post("cancel_future", request_id=request_id)
    assert blue.rest.list_training_runs().result().training_runs == []
    assert blue.rest.list_user_checkpoints().result().checkpoints == []
    assert session not in blue.rest.list_sessions().result().sessions
    # and nothing of it was touched
    assert len(red.rest.list_checkpoints(run).result().checkpoints) == 2
    assert len(sample(sampler)) == 4
    training.optim_step(types.AdamParams(learning_rate=1e-3)).result()


def sampling(sampler: str) -> dict[str, object]:
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}
    return {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": prompt,
        "sampling_params": {"max_tokens": 4, "stop": []},
    }


def sample(sampler: tinker.SamplingClient) -> list[int]:
    params = types.SamplingParams(max_tokens=4, seed=3, stop=[])
    answer = sampler.sample(types.ModelInput.from_ints([5, 6, 7]), num_samples=1, sampling_params=params).result()
    return list(answer.sequences[0].tokens)


# -- quotas ----------------------------------------------------------------------------------------------------


def refused(what: Callable[[], object]) -> str:
    """The message of a request that is its user's mistake."""
    with pytest.raises(tinker.RequestFailedError) as raised:
        what()
    assert raised.value.category == types.RequestErrorCategory.User
    return str(raised.value)


@pytest.fixture
def bounded(house: House, request: pytest.FixtureRequest) -> Iterator[Person]:
    """A tenant of its own, with the quotas that the test asks for."""
    tenant = request.node.name
    flags = [flag for quota in request.param for flag in ("--quota", quota)]
    one = person(house.address, house.keys("create", "--tenant", tenant, *flags))
    yield one
    house.keys("quota", tenant, *(f"{quota.partition('=')[0]}=default" for quota in request.param))
    one.service.close("success").result()


@pytest.mark.parametrize("bounded", [["runs=2"]], indirect=True)
def test_runs_are_bounded_until_a_session_ends(house: House, bounded: Person) -> None:
    other = tinker.ServiceClient(base_url=house.address, api_key=bounded.key)
    bounded.train().result()
    other.create_lora_training_client(bounded.model, rank=4).result()
    assert "quota of 2 runs" in refused(lambda: bounded.train().result())
    other.close("success").result()
    bounded.train().result()


@pytest.mark.parametrize("bounded", [["resident_adapters=3"]], indirect=True)
def test_adapters_in_hand_are_bounded(bounded: Person) -> None:
    training = bounded.train()
    for name in ("a", "b"):
        training.save_weights_for_sampler(name).result()
    assert "3 resident adapters" in refused(lambda: training.save_weights_for_sampler("c").result())
    bounded.rest.delete_checkpoint(training.model_id, "sampler_weights/a").result()
    training.save_weights_for_sampler("c").result()


@pytest.mark.parametrize("bounded", [["stored_bytes=100000"]], indirect=True)
def test_stored_bytes_are_bounded(house: House, bounded: Person) -> None:
    training = bounded.train(rank=1)
    kept = []
    told = ""
    for number in range(20):
        try:
            kept.append(training.save_state(f"s{number}").result().path)
        except tinker.RequestFailedError as error:
            told = str(error)
            break
    assert kept and "100000 stored bytes" in told
    saved = bounded.rest.list_checkpoints(training.model_id).result().checkpoints
    assert len(saved) == len(kept) and sum(one.size_bytes or 0 for one in saved) <= 100_000
    folders = list((house.data / "checkpoints" / training.model_id.replace(":", "_") / "weights").iterdir())
    assert len(folders) == len(kept), "what was refused left nothing"
    bounded.rest.delete_checkpoint(training.model_id, saved[0].checkpoint_id).result()
    training.save_state("again").result()


@pytest.mark.parametrize("bounded", [["queued_tokens=8"]], indirect=True)
def test_a_call_that_never_fits_the_queue_is_told(bounded: Person) -> None:
    """The SDK sends the first chunk last: what waits for it fills the queue, and waiting is no use."""
    training = bounded.train()
    assert "send less" in refused(lambda: training.forward_backward([DATUM] * 4, "cross_entropy").result())
    training.forward_backward([DATUM] * 2, "cross_entropy").result()  # the run goes on


@pytest.mark.parametrize("bounded", [["queued_tokens=100"]], indirect=True)
def test_a_full_queue_that_empties_is_waited_for(bounded: Person) -> None:
    """Many more samples than the queue holds: the SDK is told to come again, and every one is answered."""
    sampler = bounded.service.create_sampling_client(base_model=bounded.model)
    params = types.SamplingParams(max_tokens=16, stop=[])
    prompt = types.ModelInput.from_ints([5] * 40)
    asked = [sampler.sample(prompt, num_samples=1, sampling_params=params) for _ in range(8)]
    assert [len(one.result().sequences[0].tokens) for one in asked] == [16] * 8


@pytest.mark.parametrize("bounded", [["requests_per_second=4"]], indirect=True)
def test_the_pace_is_kept(house: House, bounded: Person, red: Person) -> None:
    """A burst passes, then requests wait their turn; far too many are told to come again; others are not concerned."""
    client = Client(house.address, bounded.key)
    began = time.monotonic()
    with ThreadPoolExecutor(40) as pool:
        asked = [pool.submit(client.http.get, "/api/v1/sessions") for _ in range(40)]
        assert house.status(red.key) == 200
        found = [one.result() for one in asked]
    passed = sum(answer.status_code == 200 for answer in found)
    assert 0 < passed <= 4 * (time.monotonic() - began + 1) + 1
    refused = [answer for answer in found if answer.status_code == 429]
    assert passed + len(refused) == len(found) and refused
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    assert client.send("session_heartbeat", session_id=client.session).status_code == 200
    wait_until(lambda: house.status(bounded.key) == 200)


# -- paths -----------------------------------------------------------------------------------------------------

NAMES = st.text(max_size=20) | st.lists(
    st.sampled_from(["..", ".", "/", "\\", "~", "%2e%2e", "%2f", "\x00", "a", "weights", ":", "tinker://"]), max_size=6
).map("".join)


@pytest.fixture(scope="module")
def writer(house: House, red: Person) -> Client:
    return Client(house.address, red.key)


@pytest.fixture(scope="module")
def written(writer: Client) -> str:
    return writer.run()


@settings(max_examples=60, deadline=None)
@given(name=NAMES)
def test_no_name_leaves_the_data_folder(house: House, writer: Client, written: str, name: str) -> None:
    client, run = writer, written
    before = outside(house)
    for route in ("save_weights", "save_weights_for_sampler"):
        answer = client.send(route, model_id=run, path=name)
        told = client.read(answer.json()).json() if answer.status_code == 200 else answer.json()
        assert "path" in told or told["category"] == "user"
    for path in (name, f"tinker://{name}", f"tinker://{run}/weights/{name}", f"tinker://{run}/{name}/x"):
        assert client.send("weights_info", tinker_path=path).status_code in (200, 400, 404)
        made = client.send(
            "create_sampling_session", session_id=client.session, sampling_session_seq_id=1, model_path=path
        )
        assert made.status_code in (200, 400, 404)
    assert outside(house) == before
    inside = house.data / "checkpoints" / run.replace(":", "_")
    assert {place.relative_to(inside).parts[0] for place in inside.rglob("*")} <= {"weights", "sampler_weights"}


def outside(house: House) -> set[Path]:
    """Everything around the data folder, and what is in it but the rooms that grow."""
    rooms = ("checkpoints", "runs", "bodies", "spill")
    around = set(house.data.parent.iterdir())
    return around | {place for place in house.data.iterdir() if place.name not in rooms}
