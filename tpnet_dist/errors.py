"""How a failure reaches the user: one sentence with value, rule and remedy, and an exit code."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BAD_INPUT = 2
INTERRUPTED = 130

_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class InputError(ValueError):
    """Something the user gave cannot be used; the message names value, rule and remedy."""


@contextmanager
def errors_for_people(program: str, *, debug: bool) -> Iterator[None]:
    """Turn what users can mend into one line and exit code 2; defects of ours keep their traceback."""
    try:
        yield
    except (InputError, OSError) as error:
        if debug or isinstance(error, BrokenPipeError):
            raise
        print(f"{program}: error: {_sentence(error)}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _sentence(error: InputError | OSError) -> str:
    if isinstance(error, OSError) and error.errno in _OUT_OF_SPACE:
        where = f" while writing {error.filename}" if error.filename else ""
        return f"no space left{where} ({error.strerror}); free some or choose another output folder"
    return " ".join(str(error).split())  # libraries' messages may have several lines
