"""The process of a command: output that cannot be written, and signals outside of training."""

import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from amcl import signals


def run_process(load: Callable[[], Callable[[], int]]) -> int:
    """Run the command that this process was started for.

    While the command is loaded, a signal ends the process with one line: an exception would be
    raised in the import of some package, which may catch it. Afterwards, it interrupts the command,
    which removes what is unfinished. Training handles signals by itself.

    Output that cannot be written is dropped, and the command continues: its work may take days. At
    its end, results that were lost on stdout are an error, unless the reader has closed the pipe,
    as `head` does. Stderr is for people only.

    Args:
        load: Function that imports the command and returns the function that runs it.

    Returns:
        The exit code.
    """
    stdout = _open_streams()
    signals.handle(signals.SAVE, signal.SIG_IGN)  # outside of training there is nothing to save
    signals.handle(signals.STOP, _end)
    work = load()
    signals.handle(signals.STOP, _interrupt)
    try:
        code = work()
    except SystemExit as ended:  # help was printed
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    except KeyboardInterrupt as error:
        code = getattr(error, "exit_code", 128 + signal.SIGINT)
        print("amcl: interrupted.", file=sys.stderr)
    signals.handle(signals.STOP, signal.SIG_DFL)  # no exceptions while Python shuts down
    sys.stdout.flush()
    if stdout is None or isinstance(stdout.error, BrokenPipeError | None):
        return code
    print(f"amcl: results could not be printed: {stdout.error.strerror}.", file=sys.stderr)
    return code or 1


def _end(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"amcl: interrupted before it began.\n")  # print() may be in use already
    os._exit(128 + number)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt if number == signal.SIGINT else signals.Terminated(number)


class _Output(io.FileIO):
    """A file that drops what cannot be written, and keeps the first error."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write bytes, and return their number."""
        try:
            return super().write(data)
        except OSError as error:
            self.error = self.error or error
            return memoryview(data).nbytes


def _open_streams() -> _Output | None:
    """Replace the output streams of this process by some that do not fail; return stdout's file.

    Characters that the encoding of a stream does not have are written as escapes. A closed stream
    becomes the empty file: without it, the next file that is opened would take its number, and what
    libraries in C print would be written into that file.
    """
    if sys.stdin is None:
        sys.stdin = open(_null(os.O_RDONLY), encoding="utf-8")  # noqa: SIM115
    # What is written to a file that is open for reading is an error, as it is to a closed stdout.
    sys.stdout, stdout = _replaced(sys.stdout, os.O_RDONLY)
    sys.stderr, _ = _replaced(sys.stderr, os.O_WRONLY)
    return stdout


def _null(flags: int) -> int:
    number = os.open(os.devnull, flags)
    os.set_inheritable(number, True)
    return number


def _replaced(stream: Any, flags: int) -> tuple[Any, _Output | None]:
    if stream is None:
        number, encoding, line_buffering = _null(flags), "utf-8", True
    elif isinstance(raw := getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        number, encoding = raw.fileno(), stream.encoding
        line_buffering = stream.line_buffering or stream.write_through
    else:  # a console of Windows, which has its own kind of file
        stream.reconfigure(errors="backslashreplace")
        return stream, None
    file = _Output(number, "w", closefd=False)
    text = io.TextIOWrapper(
        io.BufferedWriter(file), encoding, "backslashreplace", line_buffering=line_buffering
    )
    return text, file
