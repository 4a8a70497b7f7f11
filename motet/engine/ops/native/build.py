"""Compiles the kernels with the machine's own compiler, once for each set of sources, flags and CPU."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch

from motet.errors import EngineFault

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fopenmp", "-fPIC", "-Wall"]


def compiler() -> str | None:
    """The C++ compiler, or None where there is none. CXX names another."""
    return shutil.which(os.environ.get("CXX", "g++"))


def cpu() -> str:
    """What the compiler may use of this CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    wanted = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.split("\t")[0].strip() in wanted}))


def _openmp() -> list[str]:
    """The OpenMP that torch has already loaded: with one of our own two teams of threads would spin at each other."""
    found = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*.so*"))
    return [str(found[0])] if found else ["-lgomp"]


def describe() -> str:
    """Compiler, flags and CPU: with the sources, all that the machine code depends on."""
    name = compiler()
    if name is None:
        return "no compiler"
    version = subprocess.run([name, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    return f"{version} {' '.join(FLAGS)}\n{cpu()}"


def cache_folder() -> Path:
    """Where kernels and base models are kept: $XDG_CACHE_HOME/motet, or ~/.cache/motet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "motet"


def library_path() -> Path:
    """Where the compiled library lies, or will."""
    digest = hashlib.sha256(describe().encode())
    for source in sorted([*HERE.glob("*.cpp"), *HERE.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return cache_folder() / f"kernels-{digest.hexdigest()[:16]}.so"


def build() -> Path:
    """The compiled library, compiled now if need be. Raises EngineFault with the compiler's words."""
    path = library_path()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _turn(path.with_suffix(".lock")), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        if path.exists():  # another process has made it meanwhile
            return path
        sources = sorted(HERE.glob("*.cpp"))
        objects = [Path(folder) / f"{source.stem}.o" for source in sources]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [["-c", str(source), "-o", str(out)] for source, out in zip(sources, objects, strict=True)]
            list(pool.map(_compile, jobs))
        made = Path(folder) / "kernels.so"
        _compile(["-shared", *map(str, objects), "-o", str(made)], openmp=False)
        made.replace(path)
    return path


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """One process compiles, others that start at the same time wait for what it makes."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(arguments: list[str], openmp: bool = True) -> None:
    command = [compiler() or "g++", *(FLAGS if openmp else [*FLAGS[1:4], "-fPIC"]), *arguments]
    command += [] if openmp else _openmp()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineFault(f"the kernels did not compile: {' '.join(command)}\n{done.stderr[-2000:]}")
