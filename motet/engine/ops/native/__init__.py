"""The engine's kernels for CPUs, in C++: `library()` is None where they cannot be had, and torch does the work."""

from motet.engine.ops.native.library import Library, fingerprint, library, usable

__all__ = ["Library", "fingerprint", "library", "usable"]
