"""Every error that Motet raises on purpose.

MotetError
├── UserError (also ValueError)    the caller can mend it; the message says how
│   ├── BadRequest                 the request itself is wrong
│   │   └── NotFinite              the gradient has NaN or infinite values: no step, and it is cleared
│   ├── NotFound (also LookupError)  no such run, version, model or file
│   └── BadConfig                  a setting or an experiment file is wrong
├── Busy                           a bounded queue is full; try again later
├── Cancelled                      the caller took the request back
└── EngineFault                    ours: a file is torn, a check failed
    └── EngineGone                 the engine's process has ended, maybe with this in hand
        └── EngineAway             it is not there: this has not reached it
"""


class MotetError(Exception):
    """Root of everything Motet raises on purpose."""


class UserError(MotetError, ValueError):
    """The caller can mend it; the message says what to do next."""


class BadRequest(UserError):
    """The request is wrong: it fails alone, and nothing else is touched."""


class NotFinite(BadRequest):
    """An optimizer step found NaN or infinite values: it was not taken, and the gradient is cleared."""


class NotFound(UserError, LookupError):
    """No such run, version, model, file or folder."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "not found"


class BadConfig(UserError):
    """A setting, a flag or an experiment file is wrong."""


class Busy(MotetError):
    """A bounded queue is full; the same request may be sent again."""


class Cancelled(MotetError):
    """The request was taken back before it was done."""


class EngineFault(MotetError):
    """A fault of ours: the engine died, a file is torn, an internal check failed."""


class EngineGone(EngineFault):
    """The engine has ended with this request in hand: it was not done as far as anybody knows."""


class EngineAway(EngineGone):
    """There is no engine at the moment: the request was not even begun."""
