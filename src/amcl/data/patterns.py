"""Patterns of paths: ranges and lists in braces, and wildcards."""

import glob
import re
from itertools import product
from pathlib import Path

from amcl.files import expand_home

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST = 1_000_000
_NAMED = 10  # missing files that are listed in an error


def expand_braces(pattern: str) -> list[str]:
    """Return the words that a pattern with braces stands for, as a shell has them.

    >>> expand_braces("{train,val}-{08..10}.tar")[:4]
    ['train-08.tar', 'train-09.tar', 'train-10.tar', 'val-08.tar']
    """
    parts = _BRACES.split(pattern)  # texts, and between them what is in braces
    choices = [
        [part] if number % 2 == 0 else _choices(part, pattern) for number, part in enumerate(parts)
    ]
    total = 1
    for words in choices:
        total *= len(words)
    if total > _MOST:
        raise ValueError(f"{pattern} stands for {total:,} files, more than {_MOST:,}.")
    return ["".join(words) for words in product(*choices)]


def matching_files(pattern: str) -> list[Path]:
    """Return the files that a pattern stands for, in its order, wildcards in that of names.

    Args:
        pattern: A path with ranges and lists in braces, with wildcards, or without any.

    Raises:
        FileNotFoundError: A file of a range or list does not exist, or nothing matches a wildcard.
    """
    files: dict[str, None] = {}
    missing = []
    words = expand_braces(str(expand_home(pattern)))
    for word in words:
        if Path(word).is_file():
            files[word] = None
        elif matches := sorted(glob.glob(word)) if glob.has_magic(word) else []:
            files |= dict.fromkeys(matches)
        else:
            missing.append(word)
    if missing:
        raise FileNotFoundError(_missing(pattern, words, missing))
    return [Path(file) for file in files]


def _choices(inside: str, pattern: str) -> list[str]:
    bounds = _RANGE.fullmatch(inside)
    if bounds is None:
        return inside.split(",") if "," in inside else [f"{{{inside}}}"]
    first, last = bounds.groups()
    width = max(len(first), len(last)) if "0" in (first[0], last[0]) else 0
    count = abs(int(last) - int(first)) + 1
    if count > _MOST:
        raise ValueError(f"{pattern} stands for {count:,} files, more than {_MOST:,}.")
    step = 1 if int(first) <= int(last) else -1
    return [f"{n:0{width}d}" for n in range(int(first), int(last) + step, step)]


def _missing(pattern: str, words: list[str], missing: list[str]) -> str:
    here = "" if Path(pattern).is_absolute() else f" (from here: {Path.cwd()})"
    if len(words) == len(missing):
        return f"no file matches {pattern!r}{here}: check the path and the pattern."
    names = ", ".join(missing[:_NAMED])
    more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return (
        f"{len(missing):,} of the {len(words):,} files that {pattern!r} stands for do not exist: "
        f"{names}{more}{here}. Copy them there, or name only those that exist."
    )
