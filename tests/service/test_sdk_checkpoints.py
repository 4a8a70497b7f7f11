"""Checkpoints as the SDK handles them: exported, downloaded, copied, published, let expire, deleted, loaded."""

from __future__ import annotations

import io
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from peft import PeftModel
from tinker import types
from transformers import AutoModelForCausalLM

from tests.service.conftest import Person

TOKENS = [5, 9, 14, 200, 31, 7, 90, 11]


def datum() -> types.Datum:
    weights = np.ones(len(TOKENS) - 1, np.float32)
    return types.Datum(
        model_input=types.ModelInput.from_ints(TOKENS[:-1]),
        loss_fn_inputs={"target_tokens": np.array(TOKENS[1:]), "weights": weights},  # type: ignore[dict-item]
    )


def learn(training: Any, steps: int = 2) -> None:
    for _ in range(steps):
        training.forward_backward([datum()], "cross_entropy")
        training.optim_step(types.AdamParams(learning_rate=0.02)).result()


def scores(training: Any) -> list[float]:
    output = training.forward([datum()], "cross_entropy").result()
    return list(output.loss_fn_outputs[0]["logprobs"].data)


def status_of(call: Callable[[], Any]) -> int:
    with pytest.raises(Exception) as caught:
        call()
    found: int = getattr(caught.value, "status_code", 0)
    return found


@pytest.fixture(scope="module")
def trained(ann: Person) -> Any:
    training = ann.train()
    learn(training)
    return training


def fetch(urls: dict[str, str], folder: Path) -> None:
    """As the SDK's command line does: plain GETs, no key."""
    for name, url in urls.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url) as response:
            (folder / name).write_bytes(response.read())
            assert int(response.headers["Content-Length"]) == (folder / name).stat().st_size


def test_an_export_is_a_peft_folder_with_the_runs_weights(
    trained: Any, ann: Person, bob: Person, sdk_model: Path, tmp_path: Path
) -> None:
    saved = trained.save_weights_external("out").result()
    assert saved.path.endswith("/external_weights/out")
    links = ann.rest.get_external_weights_urls(saved.path).result()
    assert {"adapter_config.json", "adapter_model.safetensors"} <= links.urls.keys()
    fetch(links.urls, tmp_path)
    peft = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sdk_model, dtype=torch.float32), tmp_path)
    with torch.no_grad():
        logprobs = torch.log_softmax(peft(torch.tensor([TOKENS[:-1]])).logits[0], -1)
    expected = logprobs[range(len(TOKENS) - 1), TOKENS[1:]].numpy()
    np.testing.assert_allclose(scores(trained), expected, atol=2e-4)
    (listed,) = ann.rest.list_checkpoints(trained.model_id).result().checkpoints
    assert (listed.checkpoint_id, listed.checkpoint_type) == ("external_weights/out", "external")
    assert listed.size_bytes == sum((tmp_path / name).stat().st_size for name in links.urls)
    assert status_of(lambda: bob.rest.get_external_weights_urls(saved.path).result()) == 404
    with pytest.raises(Exception, match="exists"):
        trained.save_weights_external("out").result()
    ann.rest.delete_checkpoint_from_tinker_path(saved.path).result()
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(links.urls, tmp_path)


def test_an_export_is_sealed_for_whom_the_client_names(trained: Any, ann: Person, tmp_path: Path) -> None:
    pyrage = pytest.importorskip("pyrage")
    plain = ann.rest.get_external_weights_urls(trained.save_weights_external("plain").result().path).result()
    fetch(plain.urls, tmp_path / "plain")
    key = pyrage.x25519.Identity.generate()
    saved = trained.save_weights_external("sealed", age_encryption_recipients=[str(key.to_public())]).result()
    links = ann.rest.get_external_weights_urls(saved.path).result()
    fetch(links.urls, tmp_path / "sealed")
    assert {f"{name}.age" for name in plain.urls} == set(links.urls)
    for name in plain.urls:
        opened = pyrage.decrypt((tmp_path / "sealed" / f"{name}.age").read_bytes(), [key])
        assert opened == (tmp_path / "plain" / name).read_bytes()
    with pytest.raises(Exception, match="no age recipient"):
        trained.save_weights_external("wrong", age_encryption_recipients=["age1wrong"]).result()


def test_links_open_nothing_but_what_they_name(trained: Any, ann: Person) -> None:
    saved = trained.save_weights_external("linked").result()
    url = ann.rest.get_external_weights_urls(saved.path).result().urls["adapter_config.json"]
    assert httpx.get(url).status_code == 200
    for wrong in (
        url.replace("adapter_config.json", "adapter_model.safetensors"),
        url.replace("adapter_config.json", "..%2F..%2F..%2Fcatalog.sqlite"),
        url.replace("expires=", "expires=9"),
        url.partition("&signature")[0] + "&signature=" + "0" * 64,
    ):
        assert httpx.get(wrong).status_code == 404, wrong
    assert httpx.get(url.partition("?")[0]).status_code == 422


def test_an_archive_is_a_tar_as_older_sdks_ask_for_it(trained: Any, ann: Person, bob: Person) -> None:
    path = trained.save_weights_for_sampler("archived").result().path
    route = f"{ann.address}/api/v1/training_runs/{trained.model_id}/checkpoints/sampler_weights/archived/archive"
    answer = httpx.get(route, headers={"X-API-Key": ann.key})
    assert answer.status_code == 302 and answer.headers["expires"].endswith("GMT"), path
    body = httpx.get(answer.headers["location"])
    assert int(body.headers["content-length"]) == len(body.content)
    with tarfile.open(fileobj=io.BytesIO(body.content)) as tar:
        names = tar.getnames()
        assert {"adapter_config.json", "adapter_model.safetensors"} <= set(names)
        config = tar.extractfile("adapter_config.json")
        assert config is not None and b'"r": 4' in config.read()
    assert httpx.get(route, headers={"X-API-Key": bob.key}).status_code == 404
    assert httpx.get(route.replace("archived", "nope"), headers={"X-API-Key": ann.key}).status_code == 404


def test_a_public_checkpoint_is_readable_by_others_and_only_readable(trained: Any, ann: Person, bob: Person) -> None:
    state, sampler = trained.save_state("shown").result().path, trained.save_weights_for_sampler("shown").result().path
    for path in (state, sampler):
        assert status_of(lambda path=path: bob.rest.get_weights_info_by_tinker_path(path).result()) == 404
        assert status_of(lambda path=path: bob.rest.publish_checkpoint_from_tinker_path(path).result()) == 404
        ann.rest.publish_checkpoint_from_tinker_path(path).result()
        assert bob.rest.get_weights_info_by_tinker_path(path).result().lora_rank == 4
    public = {one.tinker_path for one in ann.rest.list_checkpoints(trained.model_id).result().checkpoints if one.public}
    assert public == {state, sampler}

    theirs = bob.service.create_training_client_from_state(state)
    assert scores(theirs) == scores(trained)
    prompt, params = types.ModelInput.from_ints(TOKENS), types.SamplingParams(max_tokens=5, seed=3)
    drawn = [
        one.service.create_sampling_client(model_path=sampler).sample(prompt, 1, params).result().sequences[0].tokens
        for one in (ann, bob)
    ]
    assert drawn[0] == drawn[1]
    for change in (
        lambda: bob.rest.delete_checkpoint_from_tinker_path(state).result(),
        lambda: bob.rest.unpublish_checkpoint_from_tinker_path(state).result(),
        lambda: bob.rest.set_checkpoint_ttl_from_tinker_path(state, 3600).result(),
        lambda: bob.rest.list_checkpoints(trained.model_id).result(),
    ):
        assert status_of(change) == 404
    assert state not in {one.tinker_path for one in bob.rest.list_user_checkpoints().result().checkpoints}
    ann.rest.unpublish_checkpoint_from_tinker_path(state).result()
    assert status_of(lambda: bob.rest.get_weights_info_by_tinker_path(state).result()) == 404


def test_copies_stand_by_themselves(trained: Any, ann: Person, bob: Person) -> None:
    state = trained.save_state("source").result().path
    sampler = trained.save_weights_for_sampler("source").result().path
    prompt, params = types.ModelInput.from_ints(TOKENS), types.SamplingParams(max_tokens=5, seed=3)
    expected = ann.service.create_sampling_client(model_path=sampler).sample(prompt, 1, params).result()
    assert status_of(lambda: copy(bob, sampler)) == 404
    for path in (state, sampler):
        ann.rest.publish_checkpoint_from_tinker_path(path).result()
    copies = {path: copy(bob, path) for path in (state, sampler)}
    for path in (state, sampler):
        ann.rest.delete_checkpoint_from_tinker_path(path).result()
    resumed = bob.service.create_training_client_from_state_with_optimizer(copies[state])
    learn(resumed, 1)
    learn(trained, 1)
    assert scores(resumed) == scores(trained)  # the optimizer was copied too
    drawn = bob.service.create_sampling_client(model_path=copies[sampler]).sample(prompt, 1, params).result()
    assert drawn.sequences[0].tokens == expected.sequences[0].tokens
    mine = {one.tinker_path: one for one in bob.rest.list_user_checkpoints().result().checkpoints}
    assert set(copies.values()) <= mine.keys()
    assert mine[copies[sampler]].checkpoint_type == "sampler" and mine[copies[sampler]].expires_at is not None


def copy(who: Person, path: str) -> str:
    request = types.CopyWeightsRequest(source_path=path, destination_project_id="shelf", ttl_seconds=7200)
    found: str = who.rest._copy_weights_submit(request, None).result()
    return found


def test_a_copy_into_a_slot_is_made_once(trained: Any, ann: Person) -> None:
    source = trained.save_state("slotted").result().path
    session = ann.service.holder.get_session_id()
    headers, route = {"X-API-Key": ann.key}, f"{ann.address}/api/v1/copy_weights"
    body = {"source_path": source, "session_id": session, "model_seq_id": 4000}
    first, again = (httpx.post(route, json=body, headers=headers).json() for _ in range(2))
    assert first == again == {"tinker_path": f"tinker://{session}:train:4000/weights/copy"}
    for wrong, told in (
        ({**body, "model_seq_id": int(trained.model_id.rpartition(":")[2])}, "is taken"),
        ({**body, "model_seq_id": None}, "destination_project_id"),
        ({"source_path": source}, "destination_project_id"),
        ({**body, "ttl_seconds": 5, "model_seq_id": 4001}, "ttl_seconds"),
    ):
        answer = httpx.post(route, json=wrong, headers=headers)
        assert answer.status_code == 400 and told in answer.json()["error"]
    missing = {**body, "source_path": source + "x", "model_seq_id": 4001}
    assert httpx.post(route, json=missing, headers=headers).status_code == 404


def test_time_to_live_and_deletion(trained: Any, ann: Person, bob: Person) -> None:
    path = trained.save_state("brief", ttl_seconds=3600).result().path

    def found() -> Any:
        return {one.tinker_path: one for one in ann.rest.list_user_checkpoints().result().checkpoints}.get(path)

    assert found().expires_at is not None
    ann.rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
    assert found().expires_at is None
    assert status_of(lambda: ann.rest.set_checkpoint_ttl_from_tinker_path(path, 60).result()) == 400
    assert status_of(lambda: bob.rest.delete_checkpoint_from_tinker_path(path).result()) == 404
    ann.rest.delete_checkpoint_from_tinker_path(path).result()
    assert found() is None
    assert status_of(lambda: ann.rest.delete_checkpoint_from_tinker_path(path).result()) == 404


def test_a_run_takes_a_checkpoints_weights(trained: Any, ann: Person) -> None:
    """load_state into a run that stands, as SDKs before create-by-load did it."""
    path, there = trained.save_state("elsewhere").result().path, scores(trained)
    other = ann.train()
    before = scores(other)
    assert before != there
    other.load_state(path).result()
    assert scores(other) == there
    learn(other, 1)
    assert scores(other) != there
    with pytest.raises(Exception, match="no checkpoint"):
        other.load_state(path + "x").result()


def test_every_loss_that_is_not_here_says_what_to_use(trained: Any) -> None:
    with pytest.raises(Exception, match="importance_sampling, ppo or cispo"):
        trained.forward_backward([datum()], "stable_reinforce").result()
