"""What a client asks about itself: its sessions, its use, what the server can do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import numpy as np
import pytest
import tinker
from tinker import types

from tests.service.conftest import Person, person

HOUR = timedelta(hours=1)


def hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def used(who: Person, session: str | None) -> dict[Any, float]:
    """This hour's and the last one's use of a session, by kind."""
    admin = tinker.AdminClient(base_url=who.address, api_key=who.key)
    found: dict[Any, float] = {}
    for event in admin.get_billing_usage(hour() - HOUR, hour() + HOUR).result().data:
        if event.session_id != session:
            continue
        info = event.event_info
        amount = {"checkpoint": "count", "storage": "gigabyte_hours"}.get(info.type, "token_count")
        kind = (info.type, info.cached) if info.type == "sampling_prefill" else info.type
        found[kind] = found.get(kind, 0) + getattr(info, amount)
    return found


def test_use_is_counted_to_the_token(sdk_address: str) -> None:
    who, other = person(sdk_address, "tml-counted"), person(sdk_address, "tml-idle")
    session, training = who.service.holder.get_session_id(), who.train()
    datum = types.Datum(
        model_input=types.ModelInput.from_ints([5, 6, 7]),
        loss_fn_inputs={"target_tokens": np.array([6, 7, 8])},  # type: ignore[dict-item]
    )
    training.forward_backward([datum] * 4, "cross_entropy").result()
    training.forward([datum], "cross_entropy").result()
    sampler = training.save_weights_and_get_sampling_client()
    params = types.SamplingParams(max_tokens=6, stop=[])
    for _ in range(2):  # the second finds two blocks of the prompt in the cache
        sampler.sample(types.ModelInput.from_ints(list(range(40))), 2, params).result()
    with pytest.raises(Exception, match="vocabulary"):
        sampler.sample(types.ModelInput.from_ints([10**6]), 2, params).result()
    assert used(who, session) == {
        "training": 15.0,
        ("sampling_prefill", False): 48.0,
        ("sampling_prefill", True): 32.0,
        "sampling_sample": 24.0,
    }
    assert used(who, None) == used(other, None) == used(other, session) == {}

    path = training.save_state("kept").result().path
    assert used(who, session)["checkpoint"] == 1
    admin = tinker.AdminClient(base_url=who.address, api_key=who.key)
    (stored,) = admin.get_current_checkpoint_storage_usage().result().data
    (saved,) = who.rest.list_user_checkpoints().result().checkpoints
    assert (stored.checkpoint_count, stored.size_bytes, stored.project_id) == (1, saved.size_bytes, "default")
    assert 0 < used(who, None)["storage"] < saved.size_bytes / 1e9
    assert admin.get_current_checkpoint_storage_usage("elsewhere").result().data == []
    who.rest.delete_checkpoint_from_tinker_path(path).result()
    assert admin.get_current_checkpoint_storage_usage().result().data == []
    for one in (who, other):
        one.service.close("success").result()


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        (timedelta(minutes=-10), HOUR, "whole hours"),
        (HOUR, HOUR, "after starting_on"),
        (timedelta(0), timedelta(days=15), "fourteen days"),
        (2 * HOUR, 3 * HOUR, "future"),
    ],
)
def test_a_window_that_is_none_is_refused(ann: Person, start: timedelta, end: timedelta, told: str) -> None:
    admin = tinker.AdminClient(base_url=ann.address, api_key=ann.key)
    with pytest.raises(tinker.BadRequestError, match=told):
        admin.get_billing_usage(hour() + start, hour() + end).result()


def search(who: Person, **asked: Any) -> types.SessionSearchResponse:
    found: types.SessionSearchResponse = who.rest.search_sessions(types.SessionSearchRequest(**asked)).result()
    return found


def test_sessions_are_listed_searched_moved_and_ended(sdk_address: str) -> None:
    about = {"user_metadata": {"team": "red"}, "project_id": "alto"}
    one = person(sdk_address, "tml-searcher", display_name="Nightly sweep 7", **about)
    two = person(sdk_address, "tml-searcher", display_name="Morning", user_metadata={"team": "red", "n": "2"})
    other = person(sdk_address, "tml-stranger", display_name="Nightly sweep 8")
    first, second = (who.service.holder.get_session_id() for who in (one, two))
    assert one.rest.list_sessions().result().sessions == [second, first]
    assert one.rest.list_sessions(limit=1, offset=1).result().sessions == [first]

    def names(**asked: Any) -> list[str]:
        return [session.session_id for session in search(one, **asked).sessions]

    assert names() == [second, first]
    assert names(display_name="sweep NIGHT") == [first] and names(display_name="sweep 8") == []
    assert names(display_name="sweep", session_id=second) == [second, first]
    assert names(user_metadata={"team": "red"}) == [second, first]
    assert names(user_metadata={"team": "red", "n": "2"}) == [second]
    assert names(project_ids=["alto"]) == [first]
    assert names(owner={"type": "user", "owner_urns": ["somebody else"]}) == []
    page = search(one, limit=1)
    assert [session.session_id for session in page.sessions] == [second] and page.next_cursor is not None
    last = search(one, limit=1, cursor=page.next_cursor)
    assert [session.session_id for session in last.sessions] == [first] and last.next_cursor is None

    one.rest.assign_session_project(second, "tenor").result()
    assert names(project_ids=["tenor"]) == [second]
    for refused in (
        lambda: other.rest.assign_session_project(second, "tenor").result(),
        lambda: other.rest.get_session(second).result(),
        lambda: other.rest.export_session_trace(second).result(),
    ):
        with pytest.raises(tinker.NotFoundError):
            refused()

    run = two.train()
    run.save_state("one").result()
    assert [one.training_run_id for one in two.rest.list_training_runs(project_id="tenor").result().training_runs] == [
        run.model_id
    ]
    assert two.rest.list_training_runs(project_id="alto").result().training_runs == []
    (summary,) = search(one, session_id=second).sessions
    assert summary.checkpoints_count == 1 and summary.checkpoint_storage_bytes and summary.project_id == "tenor"
    assert summary.status is not None and summary.status.type == "active"
    two.service.close("errored", "it broke").result()
    (summary,) = search(one, session_id=second).sessions
    assert isinstance(summary.status, types.ClientSessionFinished) and summary.status.reason.type == "errored"
    assert names(statuses=[{"type": "active"}]) == [first]
    assert names(statuses=[{"type": "client_finished", "reasons": ["errored"]}]) == [second]
    assert names(statuses=[{"type": "client_finished", "reasons": ["success"]}, {"type": "failed"}]) == []
    for who in (one, other):
        who.service.close("success").result()


def test_what_is_not_here_says_so(ann: Person) -> None:
    with pytest.raises(RuntimeError, match="records no traces"):
        ann.rest.export_session_trace(ann.service.holder.get_session_id()).result()
    with pytest.raises(tinker.BadRequestError, match="no audit log"):
        tinker.AdminClient(base_url=ann.address, api_key=ann.key).get_audit_log().result()
    http = httpx.Client(base_url=f"{ann.address}/api/v1", headers={"X-API-Key": ann.key})
    for route in ("create_custom_loss", "forward", "unload_model", "auth/token"):
        answer = http.post(route, json={})
        assert answer.status_code == 400 and answer.json()["category"] == "user", route
    assert http.get("auth/apikey/me").json()["details"]["org_details"]
    assert http.delete("auth/apikey/me").status_code == 400
    assert http.post("telemetry", json={"events": [{"any": "thing"}]}).json() == {"status": "accepted"}
    assert httpx.get(f"{ann.address}/api/v1/healthz").json() == {"status": "ok"}
    (model,) = ann.service.get_server_capabilities().supported_models
    assert (model.model_name, model.max_context_length, model.trainable, model.sampleable) == (
        ann.model,
        512,
        True,
        True,
    )
