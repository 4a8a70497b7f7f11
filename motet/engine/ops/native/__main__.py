"""`python -m motet.engine.ops.native` compiles the kernels; with `bench` it also measures them."""

from __future__ import annotations

import sys
import time

from motet.engine.ops.native.library import library


def main() -> int:
    """Exit status 0 where the kernels are ready; without them the engine runs in plain torch."""
    start = time.perf_counter()
    if library() is None:
        return 1
    print(f"kernels ready in {time.perf_counter() - start:.1f} s")
    if sys.argv[1:] == ["bench"]:
        from motet.engine.ops.native import bench

        bench.main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
