"""`motet`, and `python -m motet`: the commands, and Ctrl-C while they are imported."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Until it is there nothing has begun: Ctrl-C ends the process without a trace."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from motet.cli import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app()


if __name__ == "__main__":
    main()
