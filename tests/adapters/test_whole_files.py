"""Files and folders that outlive the process: whole under their name, whenever it is killed; and what goes with it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from motet.engine.adapters.folders import PARTIAL, whole_file, whole_folder
from motet.engine.adapters.spill import own_folder
from motet.errors import BadConfig, EngineFault

SIZE = 3_000_000
WRITER = """
import sys
from pathlib import Path
from motet.engine.adapters.folders import whole_file, whole_folder
root = Path(sys.argv[1])
for number in range(int(sys.argv[2]), 10**9):
    content = bytes([number % 256]) * SIZE
    with whole_file(root / "file") as handle:
        handle.write(content[: SIZE // 2])
        handle.write(content[SIZE // 2 :])
    with whole_folder(root / f"folder-{number}") as folder:
        (folder / "one").write_bytes(content)
        (folder / "two").write_bytes(content)
    print(number, flush=True)
""".replace("SIZE", str(SIZE))


def number_of(file: Path) -> int:
    """Which writing a file is of; every byte of it is."""
    content = file.read_bytes()
    assert len(content) == SIZE and content.count(content[:1]) == SIZE, file
    return content[0]


def test_a_kill_leaves_the_old_or_the_new_and_nothing_torn(tmp_path: Path) -> None:
    rng, done = random.Random(1), -1
    for _ in range(8):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(done + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            done = int(writer.stdout.readline())  # it is at work
            time.sleep(rng.uniform(0, 0.05))
            writer.kill()
            done = max([done, *map(int, writer.stdout.read().split())])
        assert number_of(tmp_path / "file") in (done, done + 1)
        folders = [path for path in tmp_path.glob("folder-*") if not path.name.endswith(PARTIAL)]
        assert len(folders) in (done + 1, done + 2)
        for folder in folders:
            assert {number_of(folder / name) for name in ("one", "two")} == {int(folder.name.split("-")[1])}
        done = len(folders) - 1  # the last one may have been named and not told


def test_a_write_that_fails_leaves_what_stood_there(tmp_path: Path) -> None:
    with whole_file(tmp_path / "deep" / "er" / "file") as handle:
        handle.write(b"old")
    with pytest.raises(EngineFault, match="make room"), whole_file(tmp_path / "deep" / "er" / "file") as handle:
        handle.write(b"new")
        raise OSError("no space left on device")
    with pytest.raises(EngineFault, match="make room"), whole_folder(tmp_path / "folder") as folder:
        (folder / "one").write_bytes(b"1")
        raise OSError("no space left on device")
    assert (tmp_path / "deep" / "er" / "file").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "er", "file"]


def test_what_dead_processes_left_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    for name in (str(gone.pid), str(os.getppid()), str(os.getpid()), "of an older version"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run-000001.safetensors").write_bytes(b"x")
    (tmp_path / "run-000001.safetensors").write_bytes(b"x")
    mine = own_folder(tmp_path)
    assert mine == tmp_path / str(os.getpid()) and not list(mine.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {str(os.getppid()), str(os.getpid())}
    assert list((tmp_path / str(os.getppid())).iterdir())


def test_a_spill_folder_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadConfig, match="--data-dir"):
        own_folder(tmp_path / "file")
