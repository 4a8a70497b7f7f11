"""A folder as a tar, in pieces as they are read: nothing of it is ever whole in memory."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

PIECE = 1 << 20
END = bytes(2 * tarfile.BLOCKSIZE)


def files_of(folder: Path) -> list[str]:
    """Paths of all files of a folder, relative to it, in order."""
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def tar_size(folder: Path) -> int:
    """Bytes of the tar."""
    sizes = (len(_header(folder, name)) + (folder / name).stat().st_size for name in files_of(folder))
    return sum(size + _padding(size) for size in sizes) + len(END)


def read_tar(folder: Path) -> Iterator[bytes]:
    """The tar of a folder whose files do not change."""
    for name in files_of(folder):
        yield _header(folder, name)
        with (folder / name).open("rb") as file:
            while piece := file.read(PIECE):
                yield piece
            yield bytes(_padding(file.tell()))
    yield END


def _header(folder: Path, name: str) -> bytes:
    found, info = (folder / name).stat(), tarfile.TarInfo(name)
    info.size, info.mtime = found.st_size, int(found.st_mtime)
    return info.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> int:
    return -size % tarfile.BLOCKSIZE
