"""A base model by name or folder: found, loaded, ready for sampler and trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from motet.engine.models.config import read_config
from motet.engine.models.decoder import Decoder
from motet.engine.models.default import DEFAULT_MODEL, HUB_FILES, HUB_NAME, default_model_folder
from motet.engine.models.dtype import choose_dtype
from motet.engine.models.fingerprint import base_hash
from motet.engine.models.loading import FolderWeights
from motet.engine.models.tokenizer import open_tokenizer, token_bytes
from motet.engine.models.weights import check_weights
from motet.engine.types import Dtype
from motet.errors import NotFound

POCKET = "pocket"


@dataclass(frozen=True, eq=False)
class BaseModel:
    """The frozen weights, where they came from, and the bytes of every token."""

    decoder: Decoder
    folder: Path
    token_bytes: list[bytes]
    hash: str  # of the weight files and the configuration


def resolve(model: str) -> Path:
    """The folder of a base model. NotFound says what was looked for and where.

    A folder is taken as it is; `pocket` comes with the package; the default base model is fetched on first use; any
    other name is the hub's.
    """
    if Path(model).is_dir():
        return Path(model)
    if model == POCKET:
        return Path(__file__).parents[2] / "pocket"
    if model in (DEFAULT_MODEL, HUB_NAME):
        return default_model_folder()
    if Path(model).is_absolute() or model.startswith("."):
        raise NotFound(f"there is no folder {model}")
    try:
        return Path(snapshot_download(model, allow_patterns=HUB_FILES))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        known = f"{DEFAULT_MODEL}, {POCKET}, a folder, or a name on a hub that can be reached"
        raise NotFound(f"no base model {model!r} ({type(error).__name__}); choose {known}") from error


def open_base_model(model: str, dtype: Dtype, device: str) -> BaseModel:
    """Load a base model onto a device. NotFound, BadRequest, EngineFault."""
    folder = resolve(model)
    config, weights = read_config(folder), FolderWeights(folder)
    check_weights(weights, config)
    pieces = token_bytes(open_tokenizer(folder))
    decoder = Decoder(config, weights, choose_dtype(dtype, device), device)
    return BaseModel(decoder, folder, pieces, base_hash(weights))
