"""The protobuf messages of the Tinker API, built at import from a table of names and numbers.

A line of the table is a message and its fields, `name:number:type`. After a type, `*` means repeated and `?` that
presence is kept; `map<T>` has string keys. Enumerations travel as int32, which is the same on the wire. The messages
live in a pool and a package of their own, so that the SDK's may be loaded beside them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "motet_wire"
MESSAGES = """
ForwardBackwardRequest model_id:1:string seq_id:2:int32 data:3:Datum* loss_fn:4:string loss_fn_config:5:map<double>
    forward_only:6:bool loss_fn_config_v2:7:map<LossConfigValue>
LossConfigValue number:1:double? text:2:string?
Datum model_input:1:Chunk* loss_fn_inputs:2:map<Tensor>
Chunk encoded_text:1:EncodedTextChunk image:2:Opaque dmel:3:Opaque
EncodedTextChunk tokens:1:bytes
Opaque
Tensor dense:1:bytes? sparse_csr:2:SparseCsr dtype:3:int32 shape:4:int64*
SparseCsr values:1:bytes crow_indices:2:bytes col_indices:3:bytes
ForwardBackwardOutput loss_fn_output_type:1:string loss_fn_outputs:2:ArrayRecord* metrics:3:map<double>
ArrayRecord type_tag:1:string fields:2:map<BatchedTensor> num_datums:3:int64
BatchedTensor data:1:bytes offsets:2:bytes dtype:3:int32 trailing_shape:4:int64*
SampleResponse sequences:1:SampledSequence* prompt_logprobs:2:bytes? topk_prompt_logprobs:3:TopkLogprobs
    prompt_cache_hit_tokens:4:int32 target_prompt_logprobs:5:Tensor prompt_alt_tokens:6:PromptAltTokens
    motet_version_number:1000:int64?
PromptAltTokens tokens:1:Tensor logprobs:2:Tensor
SampledSequence stop_reason:1:int32 tokens:2:bytes logprobs:3:bytes? topk_sampled_logprobs:4:TopkLogprobs
TopkLogprobs token_ids:1:bytes logprobs:2:bytes k:3:uint32 length:4:uint32
"""
FLOAT32, INT64, INT32, BFLOAT16 = 1, 2, 3, 4  # the dtypes
STOP_REASONS = {"stop": 0, "length": 1}

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "double": _Field.TYPE_DOUBLE,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "uint32": _Field.TYPE_UINT32,
}


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="motet_wire.proto", package=PACKAGE, syntax="proto3")
    for line in MESSAGES.strip().replace("\n    ", " ").splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, *field.split(":"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = [message.name for message in file.message_type]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in names}


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, number: str, kind: str) -> None:
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.startswith("map<"):
        entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", "1", "string")
        _add_field(entry, "value", "2", kind[4:-1])
        field.label = _Field.LABEL_REPEATED
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{message.name}.{entry.name}"
        return
    if kind.endswith("*"):
        field.label = _Field.LABEL_REPEATED
    if kind.endswith("?"):
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    base = kind.rstrip("*?")
    if base in _SCALARS:
        field.type = _SCALARS[base]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{base}"


_CLASSES = _messages()
ForwardBackwardRequest: Any = _CLASSES["ForwardBackwardRequest"]
ForwardBackwardOutput: Any = _CLASSES["ForwardBackwardOutput"]
SampleResponse: Any = _CLASSES["SampleResponse"]
Tensor: Any = _CLASSES["Tensor"]
SampledSequence: Any = _CLASSES["SampledSequence"]
