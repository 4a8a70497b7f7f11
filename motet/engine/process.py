"""What the engine's process runs. Importing this file imports no torch: the service names it, a new process runs it."""

from __future__ import annotations

import os
import signal
import socket

from motet.engine.core.channel import encode_frame, refusal, serve_engine
from motet.engine.settings import EngineSettings
from motet.errors import MotetError
from motet.logs import LogSettings, start_logging


def run_engine(settings: EngineSettings, log: LogSettings, connection: socket.socket) -> None:
    """Open an engine and serve it until the other end hangs up. What keeps it from opening travels as a Refusal."""
    os.nice(5)  # the service answers first: heartbeats and futures never wait behind a lane
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the service's to handle; it hangs up when it is done
    start_logging("engine", log)
    from motet.engine.opening import open_engine  # here, so that the service's process never imports torch

    try:
        engine = open_engine(settings)
    except MotetError as error:
        connection.sendall(encode_frame(refusal(0, error)))
        connection.close()
        return
    serve_engine(engine, connection)
