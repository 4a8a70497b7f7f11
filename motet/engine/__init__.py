"""The warm engine. This must run before torch is imported for the first time."""

import os

# How long OpenMP's threads spin while they wait for the next kernel: about a tenth of a millisecond, then they sleep.
# The default is some fifteen: a core lost to whoever else could use it, and a step that waits for its other half.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
