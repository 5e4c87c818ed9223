"""Text for people: names made safe to show and to write, and numbers of things."""

import logging
import re

# Control characters, separators of lines, marks that turn the direction of writing, and halves of
# characters: Python has these for the bytes of a name that is not UTF-8.
_UNSAFE = "\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_IN_LINE = re.compile(f"[{_UNSAFE}]")
_IN_LINES = re.compile(f"(?![\n\t])[{_UNSAFE}]")


def printable(text: str) -> str:
    """Return text in one line, with escapes for control characters and bytes that are not UTF-8.

    Args:
        text: Any text, such as the name of a file.

    Returns:
        Text that no terminal acts on and that UTF-8 can hold.

    Example:
        >>> printable("caf\\udce9\\n\\x1b[31m.png")
        'caf\\\\xe9\\\\n\\\\x1b[31m.png'
    """
    return _IN_LINE.sub(_escape, text)


def printable_lines(text: str) -> str:
    """Return text as `printable` does, but for newlines and tabs, which stay.

    Args:
        text: Lines of text.

    Returns:
        The lines with escapes.

    Example:
        >>> printable_lines("one\\ntwo\\x1b")
        'one\\ntwo\\\\x1b'
    """
    return _IN_LINES.sub(_escape, text)


def escape_strings(text: str) -> str:
    """Return JSON or TOML with `\\uXXXX` for what `printable_lines` escapes: the same values.

    Args:
        text: JSON or TOML, which has such characters in its strings only.

    Returns:
        The text with escapes.

    Example:
        >>> escape_strings('{"name": "a\x7f"}')
        '{"name": "a\\\\u007f"}'
    """
    return _IN_LINES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class PrintableFormatter(logging.Formatter):
    """A format of log messages in which no name can pass for another message.

    Arguments of a message are printable. A message of several lines has all but the first indented.

    Example:
        >>> record = logging.LogRecord("amcl", 20, "", 1, "skipped %s", ("a\\nb",), None)
        >>> PrintableFormatter().format(record)
        'skipped a\\\\nb'
    """

    def format(self, record: logging.LogRecord) -> str:
        copied = logging.makeLogRecord(record.__dict__)  # other handlers get the record as it was
        if isinstance(copied.args, tuple):
            copied.args = tuple(
                arg if isinstance(arg, int | float) else printable(str(arg)) for arg in copied.args
            )
        return printable_lines(super().format(copied)).replace("\n", "\n  ")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return match[0].encode("unicode_escape").decode("ascii")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things in words.

    >>> counted(1, "image"), counted(1200, "image"), counted(2, "copy", "copies")
    ('1 image', '1,200 images', '2 copies')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
