"""forward_backward on the wire against the SDK's own classes and converters."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tinker import types
from tinker.proto import tinker_public_pb2 as sdk
from tinker.proto.request_conv import forward_backward_request_to_proto
from tinker.proto.response_conv import deserialize_forward_backward_output

from motet.engine.core.requests import ForwardBackward
from motet.engine.types import AdamW, AdapterShape, Claim, TrainResult
from motet.errors import BadRequest
from motet.service.wire import protobuf as pb
from motet.service.wire.training import (
    encode_train_result,
    parse_forward_backward,
    read_adam,
    read_claim,
    read_forward_backward,
    read_shape,
)


def message(data: list[types.Datum], loss: Any = "cross_entropy", config: Any = None) -> Any:
    request = types.ForwardBackwardRequest(
        forward_backward_input=types.ForwardBackwardInput(data=data, loss_fn=loss, loss_fn_config=config),
        model_id="s:train:0",
        seq_id=3,
    )
    return forward_backward_request_to_proto(request)


def datum(**inputs: Any) -> types.Datum:
    return types.Datum(model_input=types.ModelInput.from_ints([5, 6, 7]), loss_fn_inputs=inputs)


def read(sent: Any) -> ForwardBackward:
    return read_forward_backward(parse_forward_backward(sent.SerializeToString()))


TARGETS = np.array([6, 7, 8])


@pytest.mark.parametrize(
    "name", ["ForwardBackwardRequest", "ForwardBackwardOutput", "SampleResponse", "Tensor", "SampledSequence"]
)
def test_every_field_has_the_sdks_name_number_and_kind(name: str) -> None:
    def compare(ours: Any, theirs: Any) -> None:
        for field in ours.fields:
            if field.number >= 1000:
                continue  # our own
            twin = theirs.fields_by_number[field.number]
            assert (field.name, field.is_repeated) == (twin.name, twin.is_repeated)
            enum = twin.type == twin.TYPE_ENUM
            assert field.type == (field.TYPE_INT32 if enum else twin.type), field.full_name
            if field.message_type is not None and field.message_type.name != "Opaque":
                compare(field.message_type, twin.message_type)

    compare(getattr(pb, name).DESCRIPTOR, getattr(sdk, name).DESCRIPTOR)


def test_a_request_arrives_as_it_was_sent() -> None:
    q, a = np.array([-1, -2, -3], np.float32), np.array([0, 1, -1], np.float32)
    sent = message([datum(target_tokens=TARGETS, logprobs=q, advantages=a)], "ppo", {"clip_low_threshold": 0.9})
    assert (sent.model_id, sent.seq_id) == ("s:train:0", 3)
    got = read(sent)
    assert got.run == "s:train:0" and got.backward
    assert got.loss.name == "ppo" and got.loss.config == {"clip_low_threshold": 0.9}
    (one,) = got.data
    np.testing.assert_array_equal(one.tokens, [5, 6, 7])
    np.testing.assert_array_equal(one.targets, TARGETS)
    assert one.logprobs is not None and one.advantages is not None and one.weights is None
    np.testing.assert_array_equal(one.logprobs, q)
    np.testing.assert_array_equal(one.advantages, a)
    sent.forward_only = True
    assert not read(sent).backward


def test_chunks_of_a_prompt_are_joined() -> None:
    chunks = [types.EncodedTextChunk(tokens=part) for part in ([5], [6, 7])]
    whole = types.Datum(types.ModelInput(chunks=chunks), {"target_tokens": TARGETS})
    np.testing.assert_array_equal(read(message([whole])).data[0].tokens, [5, 6, 7])


@given(arrays.arrays(np.int64, (5, 9), elements=st.sampled_from([0, 0, 0, 0, 7, 300])))
def test_sparse_targets_arrive_dense(targets: np.ndarray) -> None:
    weights = torch.from_numpy((targets > 0).astype(np.float32))
    one = types.Datum(types.ModelInput.from_ints([5, 6, 7, 8, 9]), {"target_tokens": torch.from_numpy(targets)})
    np.testing.assert_array_equal(read(message([one])).data[0].targets, targets)
    two = types.Datum(one.model_input, {"target_tokens": torch.from_numpy(targets), "weights": weights})
    got = read(message([two])).data[0].weights
    assert got is not None
    np.testing.assert_array_equal(got, weights.numpy())


def test_bfloat16_is_widened_and_the_newer_config_wins() -> None:
    sent = message([datum(target_tokens=TARGETS)], "dro", {"beta": 0.5})
    sent.loss_fn_config["beta"] = 0.1
    values = torch.tensor([1.5, -2.0, 0.25], dtype=torch.bfloat16)
    weights = sent.data[0].loss_fn_inputs["weights"]
    weights.dtype, weights.dense = 4, values.view(torch.int16).numpy().tobytes()
    got = read(sent)
    assert got.loss.config == {"beta": 0.5}
    assert got.data[0].weights is not None
    np.testing.assert_array_equal(got.data[0].weights, [1.5, -2.0, 0.25])


def broken(change: Any) -> Any:
    sent = message([datum(target_tokens=TARGETS)])
    change(sent, sent.data[0].loss_fn_inputs["target_tokens"])
    return sent


def set_csr(tensor: Any, shape: list[int], rows: list[int], columns: list[int], values: list[int]) -> None:
    csr = tensor.sparse_csr
    csr.values, csr.crow_indices = np.array(values, "<i8").tobytes(), np.array(rows, "<i8").tobytes()
    csr.col_indices = np.array(columns, "<i8").tobytes()
    del tensor.shape[:]
    tensor.shape.extend(shape)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m, t: setattr(m, "loss_fn", "stable_reinforce"), "importance_sampling, ppo or cispo"),
        (lambda m, t: setattr(m, "loss_fn", "custom"), "forward_backward_custom"),
        (lambda m, t: setattr(m, "loss_fn", "nonsense"), "unknown loss 'nonsense'"),
        (lambda m, t: m.loss_fn_config_v2["kl"].__setattr__("text", "x"), "'kl' must be a number"),
        (lambda m, t: m.data[0].loss_fn_inputs.pop("target_tokens"), "no target_tokens"),
        (lambda m, t: m.data[0].loss_fn_inputs["mask"].CopyFrom(t), "unknown input 'mask'"),
        (lambda m, t: m.data[0].model_input.add().image.MergeFromString(b""), "text tokens only"),
        (lambda m, t: (t.ClearField("shape"), setattr(t, "dtype", 1)), "must be integers"),
        (lambda m, t: setattr(t, "dtype", 0), "unknown dtype"),
        (lambda m, t: setattr(t, "dense", b"123"), "no whole number"),
        (lambda m, t: t.shape.append(2), "its shape says"),
        (lambda m, t: set_csr(t, [10**9, 10**9], [0], [], []), "3 tokens and 1024 columns at most"),
        (lambda m, t: set_csr(t, [3, 1025], [0, 1, 1, 1], [0], [4]), "1024 columns at most"),
        (lambda m, t: set_csr(t, [2, 2], [0, 1, 1], [0], [4]), "the datum's 3 tokens"),
        (lambda m, t: set_csr(t, [-3, -2], [0, 1, 1, 1], [0], [4]), "the datum's 3 tokens"),
        (lambda m, t: set_csr(t, [3], [0, 1, 1, 1], [0], [4]), "2-D"),
        (lambda m, t: set_csr(t, [3, 2], [0, 1, 0, 1], [0], [4]), "crow_indices"),
        (lambda m, t: set_csr(t, [3, 2], [0, 1, 1, 1], [2], [4]), "col_indices"),
    ],
)
def test_what_does_not_fit_is_named(change: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read(broken(change))


def test_few_bytes_never_become_many_cells() -> None:
    """Each tensor is within its own bounds; together they would be gigabytes."""
    tokens, sent = list(range(300)), message([])
    for _ in range(60):
        one = sent.data.add()
        one.model_input.add().encoded_text.tokens = np.array(tokens, "<i4").tobytes()
        target = one.loss_fn_inputs["target_tokens"]
        target.dtype = pb.INT64
        set_csr(target, [300, 1024], [0] * 301, [], [])
    with pytest.raises(BadRequest, match="send fewer datums"):
        read(sent)
    del sent.data[50:]
    assert read(sent).data[0].targets.shape == (300, 1024)


@given(st.binary(max_size=200))
def test_bytes_from_anywhere_are_refused_or_read(body: bytes) -> None:
    with contextlib.suppress(BadRequest):
        read_forward_backward(parse_forward_backward(body))


def test_an_output_reads_back_in_the_sdk() -> None:
    generator = np.random.default_rng(0)
    shapes = [(3,), (5,), (4, 2), (1, 2), (2, 3), (6,)]
    logprobs = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
    body = encode_train_result(TrainResult(list(logprobs), {"loss:sum": 1.25, "seconds:sum": 0.5}))
    output = deserialize_forward_backward_output(body)
    assert output.metrics == {"loss:sum": 1.25, "seconds:sum": 0.5}
    for mine, read_back in zip(logprobs, output.loss_fn_outputs, strict=True):
        np.testing.assert_array_equal(read_back["logprobs"].to_numpy(), mine)


# -- settings in JSON ------------------------------------------------------------------------------------------


def test_adam_params_of_the_sdk_arrive() -> None:
    sent = types.OptimStepRequest(
        optim_params=types.AdamParams(learning_rate=0.1, grad_clip_norm=2.0), model_id="m", seq_id=1
    ).model_dump()
    assert read_adam(sent["adam_params"], None) == AdamW(0.1, 0.9, 0.95, 1e-12, 0.0, 2.0)
    assert read_adam({}, None) == AdamW()


@pytest.mark.parametrize(
    ("adam", "other", "told"),
    [
        ({"learning_rate": None}, None, "learning_rate must be a number"),
        ({"learning_rate": "1e-3"}, None, "must be a number"),
        ({"beta1": True}, None, "must be a number"),
        ({"beta1": 10**400}, None, "beyond every float"),
        ({"momentum": 0.9}, None, "unknown key 'momentum'"),
        (None, {"type": "dimuon"}, "'dimuon' is not available"),
        (None, None, "send AdamParams"),
    ],
)
def test_other_optimizers_and_no_numbers_are_refused(adam: Any, other: Any, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read_adam(adam, other)


def test_alpha_comes_from_the_metadata() -> None:
    assert read_shape(4, True, False, True, {}) == AdapterShape(4, 32.0, True, False, True)
    assert read_shape(4, True, True, True, {"motet.alpha": "8"}).alpha == 8.0
    for wrong in ("x", 0, -1, float("nan"), None, [1], 10**400):
        with pytest.raises(BadRequest, match=r"motet\.alpha"):
            read_shape(4, True, True, True, {"motet.alpha": wrong})


def test_priority_comes_from_the_metadata() -> None:
    assert read_claim("tenant", 3.0, {}) == Claim(1.0, "tenant", 3.0)
    assert read_claim("tenant", 1.0, {"motet.priority": "2.5"}).priority == 2.5
    for wrong in ("high", 0, -1, float("inf"), float("nan"), None, [1], 10**400):
        with pytest.raises(BadRequest, match=r"motet\.priority must be a number above 0"):
            read_claim("tenant", 1.0, {"motet.priority": wrong})
