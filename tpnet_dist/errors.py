"""How a failure reaches the user: one sentence with value, rule and remedy, and an exit code."""

import errno
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

BAD_INPUT = 2

_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class InputError(ValueError):
    """Something the user gave cannot be used; the message names value, rule and remedy."""


@contextmanager
def errors_for_people(program: str, *, debug: bool) -> Iterator[None]:
    """Turn what users can mend into one line and exit code 2; defects of ours keep their traceback.

    SIGINT and SIGTERM unwind the stack, so that whatever was half-written is removed on the way.
    """
    signal.signal(signal.SIGTERM, _raise_stopped)
    try:
        yield
    except (InputError, OSError) as error:
        if debug or isinstance(error, BrokenPipeError):
            raise
        print(f"{program}: error: {_sentence(error)}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except (KeyboardInterrupt, _Stopped) as stop:
        number = signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM
        print(f"{program}: stopped by {number.name}, nothing was left behind", file=sys.stderr)
        sys.exit(128 + number)


class _Stopped(BaseException):
    """SIGTERM arrived."""


def _raise_stopped(number: int, frame: FrameType | None) -> None:
    raise _Stopped


def _sentence(error: InputError | OSError) -> str:
    if isinstance(error, OSError) and error.errno in _OUT_OF_SPACE:
        where = f" while writing {error.filename}" if error.filename else ""
        return f"no space left{where} ({error.strerror}); free some or choose another output folder"
    return " ".join(str(error).split())  # libraries' messages may have several lines
