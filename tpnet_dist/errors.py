"""How a failure reaches the user: one sentence with value, rule and remedy, and an exit code."""

import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import NoReturn

BAD_INPUT = 2
OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_SCRIPTS = ("tpnet", "tpnet-data-prep")
_STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_NO_MEMORY = re.compile(
    "failed to map segment|can(not|'t) allocate memory|can't start new thread", re.IGNORECASE
)
_REMEDIES = {
    errno.EACCES: "check the permissions or choose another folder",
    errno.EROFS: "choose a folder that can be written",
    errno.ENOTDIR: "a part of the path is a file; choose another path",
    errno.ELOOP: "its links lead in a circle; choose another path",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


class InputError(ValueError):
    """Something the user gave cannot be used; the message names value, rule and remedy."""


class UnmetError(InputError):
    """Ranks did not find one another: each has to say so itself."""


_spoken_as: list[str] = []


def spoken(program: str) -> str:
    """Return the command as it was typed: `tpnet train` is `python -m tpnet_dist.train` by a shorter name."""
    return _spoken_as[-1] if _spoken_as else program


@contextmanager
def spoken_as(name: str) -> Iterator[None]:
    """Call the command by this name in messages within the block."""
    _spoken_as.append(name)
    try:
        yield
    finally:
        _spoken_as.pop()


@contextmanager
def errors_for_people(
    program: str,
    *,
    debug: bool,
    quiet: Callable[[], bool] = lambda: False,
    told: Callable[[str, bool], None] = lambda line, is_said: None,
) -> Iterator[None]:
    """Turn what users can correct into one line and exit code 2; defects of ours keep their traceback.

    `quiet`: whether another process says the line, unless they could not meet. `told` hears the line all the
    same, and whether this process says it.

    SIGINT, SIGTERM and SIGHUP unwind the stack, so that what was half-written is removed on the way.
    """
    program = spoken(program)
    # nohup and the like have signals ignored: so they stay
    heard = [number for number in _STOPPING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, _raise_stopped) for number in heard}
    try:
        yield
    except BrokenPipeError:
        # whoever read our output has gone: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        if debug or correctable(error) is None:
            raise
        line = f"{program}: error: {sentence_of(error)}"
        is_said = not quiet() or isinstance(error, UnmetError)
        told(line, is_said)
        if is_said:
            print(line, file=sys.stderr, flush=True)
        leave(BAD_INPUT)
    except (KeyboardInterrupt, _Stopped) as stop:
        number = stop.number if isinstance(stop, _Stopped) else signal.SIGINT
        if not quiet():
            print(f"{program}: stopped by {number.name}", file=sys.stderr, flush=True)
        leave(128 + number)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def say_failed_imports() -> None:
    """Ctrl-C, or a lack of memory, while a command of ours is being imported is one line too, as it is later
    on. Called where a package is imported, and without effect where others import it."""
    command = os.path.basename(sys.argv[0]) if sys.argv else ""  # noqa: PTH119 — pathlib takes its time
    if command == "-m" and "-m" not in sys.orig_argv:  # -mMODULE
        return
    if command == "-m":
        command = f"python -m {sys.orig_argv[sys.orig_argv.index('-m') + 1]}"
    elif command not in _SCRIPTS:
        return
    otherwise = sys.excepthook

    def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lack = None if "--debug" in sys.argv else _lack_of_memory(error)
        if lack is not None:
            print(f"{spoken(command)}: error: {sentence_of(lack)}", file=sys.stderr, flush=True)
            leave(BAD_INPUT)
        if not issubclass(kind, KeyboardInterrupt):
            otherwise(kind, error, trace)
            return
        print(f"{command}: stopped by SIGINT", file=sys.stderr, flush=True)
        leave(128 + signal.SIGINT)

    sys.excepthook = say


def leave(code: int) -> NoReturn:
    """End the process when all is cleared up. Threads of libraries may still be at work: waiting for them may
    be waiting for other ranks, and taking the interpreter down beneath them aborts."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Stopped(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number


def _raise_stopped(number: int, frame: FrameType | None) -> None:
    for other in (*_STOPPING_SIGNALS, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)  # clearing up is not to be interrupted
    raise _Stopped(signal.Signals(number))


def correctable(error: Exception) -> Exception | None:
    """Return what users can correct: the error, or the lack of memory behind it; None for a defect."""
    return _lack_of_memory(error) or (error if isinstance(error, InputError | OSError) else None)


def _lack_of_memory(error: BaseException | None) -> Exception | None:
    """Return the error, or the one behind it, that says that no memory or no address space is left: where
    libraries cannot be loaded or threads not be started, its words alone say so."""
    seen = set[int]()  # an error may be its own cause
    while isinstance(error, Exception) and not isinstance(error, InputError) and id(error) not in seen:
        if lacks_memory(error):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def lacks_memory(error: Exception) -> bool:
    """Whether an error itself says so; where the system gives a number, that alone counts."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None


def sentence_of(error: Exception) -> str:
    """Return the error on one line, with a remedy also for what the operating system refused."""
    lack = _lack_of_memory(error)
    sentence = " ".join(str(lack or error).split())  # libraries' messages may have several lines
    if lack is not None:
        sentence = (
            f"there is not enough memory for it ({sentence or 'Python could not allocate'}); free some, "
            "raise the limit if there is one (ulimit -v; of threads ulimit -u), or take less at once"
        )
    elif isinstance(error, OSError) and error.strerror and error.errno:
        where = f"{error.filename}: " if error.filename else ""
        sentence = f"{where}{error.strerror}; {_REMEDIES.get(error.errno, 'check the path and the disk')}"
    return printable(sentence)


def printable(text: str) -> str:
    """What a user's file or argument says may hold commands to terminals: they are shown, not obeyed."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
