"""Removal of passwords and keys from commands and messages before they are written."""

import re
import shlex
from collections.abc import Sequence

HIDDEN = "***"
# scheme://user:password@host, up to the last "@": a password may hold one that is not escaped.
_CREDENTIALS = re.compile(r"([A-Za-z][\w+.-]*://[^\s:/@]*:)\S+@")
_SECRET = r"(?:api[-_]?key|access[-_]?key|token|passwd|password|pwd|secret)"
_PARAMETER = re.compile(rf"([?&][\w.-]*{_SECRET}=)[^&\s'\"]+", re.IGNORECASE)
_OPTION = re.compile(rf"(-{{1,2}}[\w.-]*{_SECRET})(=.*)?", re.IGNORECASE | re.DOTALL)


def redact(text: str) -> str:
    """Return the text without the passwords and keys of the addresses in it.

    >>> redact("no route to postgresql://me:secret@host/studies?sslpassword=hush&a=1")
    'no route to postgresql://me:***@host/studies?sslpassword=***&a=1'
    """
    return _PARAMETER.sub(rf"\1{HIDDEN}", _CREDENTIALS.sub(rf"\1{HIDDEN}@", text))


def redact_command(words: Sequence[str]) -> str:
    """Return a command as one line for a shell, without passwords, keys and tokens.

    >>> redact_command(["amcl", "search", "--storage=mysql://me:it is@h/db", "--api-key", "k"])
    "amcl search '--storage=mysql://me:***@h/db' --api-key '***'"
    """
    redacted: list[str] = []
    hide = False
    for word in words:
        option = _OPTION.fullmatch(word)
        if hide:
            redacted.append(HIDDEN)
        elif option and option[2]:
            redacted.append(f"{option[1]}={HIDDEN}")
        else:
            # A word of a command may hold blanks, and a password within it too.
            redacted.append(
                redact(re.sub(r"(://[^\s:/@]*:).*@", rf"\1{HIDDEN}@", word, flags=re.S))
            )
        hide = not hide and option is not None and not option[2]
    return shlex.join(redacted)
