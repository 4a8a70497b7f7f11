"""Versions as adapters of vLLM: PEFT folders in memory-backed files, each under a name and path of its own.

Nothing is ever loaded in place of another: a version that is published is one adapter more, and who samples another is
not paused, nor are anybody's cached prefixes reset. What nobody may ask for any more is unloaded; of what nobody asks
for now the least recently used goes, and is written anew when it is asked for again, under the same name and path.
"""

from __future__ import annotations

import secrets
import shutil
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from motet.engine.adapters.peft import save_peft
from motet.engine.adapters.run import Version
from motet.engine.adapters.store import AdapterStore
from motet.engine.backends.vllm.drawing import Adapter, Drawer

MEMORY = Path("/dev/shm")
KEPT = 32  # adapters that vLLM may hold in host memory


@dataclass
class _Kept:
    version: Version
    adapter: Adapter
    holders: int = 0


class Adapters:
    """Which versions vLLM has. `spare` is where folders go on a machine without memory-backed files."""

    def __init__(self, store: AdapterStore, drawer: Drawer, base_name: str, spare: Path, kept: int = KEPT) -> None:
        self._store = store
        self._drawer = drawer
        self._base_name = base_name
        self._own = f"motet-{secrets.token_hex(6)}"
        self._folder = (MEMORY if MEMORY.is_dir() else spare) / self._own
        self._folder.mkdir(parents=True, mode=0o700)
        self._most = kept
        self._kept: OrderedDict[str, _Kept] = OrderedDict()  # the least recently used first
        self._numbers = count(1)
        self.loads = 0
        self.unloads = 0

    def hold(self, version: Version) -> Adapter:
        """The adapter of a version that is in memory, loaded; until `let_go`. EngineFault where it cannot be."""
        kept = self._kept.get(version.key)
        if kept is None:
            kept = self._kept[version.key] = self._load(version)
        self._kept.move_to_end(version.key)
        kept.holders += 1
        self._make_room()
        return kept.adapter

    def let_go(self, version: Version) -> None:
        self._kept[version.key].holders -= 1

    def sweep(self) -> None:
        """Unload what nobody may ask for any more."""
        for kept in [kept for kept in self._kept.values() if not kept.holders]:
            if not self._store.stands(kept.version):
                self._unload(kept)

    def sizes(self) -> dict[str, float]:
        return {"vllm_adapters": len(self._kept), "vllm_loads": self.loads, "vllm_unloads": self.unloads}

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _load(self, version: Version) -> _Kept:
        name = f"{self._own}-{Path(version.key).stem}"
        adapter = Adapter(name, self._folder / name, next(self._numbers))
        save_peft(adapter.folder, version.layout, version.flat.float(), self._base_name)
        self._drawer.load(adapter)
        self.loads += 1
        return _Kept(version, adapter)

    def _make_room(self) -> None:
        """The least recently used go that nobody holds."""
        idle = [kept for kept in self._kept.values() if not kept.holders]
        for kept in idle[: max(len(self._kept) - self._most, 0)]:
            self._unload(kept)

    def _unload(self, kept: _Kept) -> None:
        del self._kept[kept.version.key]
        self._drawer.unload(kept.adapter)
        shutil.rmtree(kept.adapter.folder)
        self.unloads += 1
