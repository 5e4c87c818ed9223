"""Views of images that are not RGB: what takes the place of operations on color."""

from collections.abc import Collection
from dataclasses import replace

from amcl.views.settings import LETTERS, ViewSettings

FITTED = (
    "views",
    "jitter",
    "gray_p",
    "solarize_p",
    "solarize_threshold",
)
"""Options of views for RGB: they change or have no effect where images have other channels."""
_OPTIONS = {
    "c": ("gray_p",),
    "h": ("channel_drop_p",),
    "n": ("noise_p", "noise_sigma"),
    "s": ("solarize_p", "solarize_threshold"),
}
_RGB = 3


def suited(
    settings: ViewSettings, channels: int, fixed: Collection[str] = ()
) -> tuple[ViewSettings, list[str]]:
    """Return settings whose operations suit the number of channels, and what was changed.

    RGB keeps all of them. In other images, the jitter changes brightness and contrast alone, and
    noise comes in the place of saturation and hue; channel drop comes in the place of grayscale,
    and noise where there is one channel; noise comes in the place of solarize, which stays where
    there is one channel.

    Args:
        settings: Settings of views.
        channels: Number of channels of the images.
        fixed: Those of `FITTED` that stay as they are, because a user set them.

    Returns:
        The settings, and a sentence on each change.

    Raises:
        ValueError: One of `fixed` would have to change, or would have no effect.

    Example:
        >>> settings, notes = suited(ViewSettings(), channels=13)
        >>> settings.operations, settings.jitter
        ('abdehn', (0.4, 0.4, 0.0, 0.0))
        >>> suited(ViewSettings(), channels=3) == (ViewSettings(), [])
        True
    """
    suitable = settings
    if "views" not in fixed:
        suitable = replace(suitable, operations=_operations(settings, channels))
    if "jitter" not in fixed and _has_color(settings, channels):
        suitable = replace(suitable, jitter=(*settings.jitter[:2], 0.0, 0.0))
    check_channels(suitable, channels)
    for letter, options in _OPTIONS.items():
        unused = [
            option
            for option in options
            if (option in fixed or option not in FITTED)
            and getattr(settings, option) != getattr(ViewSettings, option)
        ]
        if unused and letter not in suitable.operations:
            raise ValueError(
                f"{' and '.join(map(_option, unused))} {'belong' if unused[1:] else 'belongs'} to "
                f"{_name(letter)} (the letter {letter} in --views), and the images have "
                f"{_count(channels)}, for which --views is {suitable.operations or 'empty'}: leave "
                "that out, or set --views."
            )
    return suitable, _notes(settings, suitable, channels)


def check_channels(settings: ViewSettings, channels: int) -> None:
    """Raise an error if operations are not for images of this number of channels.

    Args:
        settings: Settings of views.
        channels: Number of channels.
    """
    if wrong := [letter for letter in settings.operations if not _applies(letter, channels)]:
        names = " and ".join(f"{letter} ({_name(letter)})" for letter in wrong)
        raise ValueError(
            f"the views {settings.operations} have {names}, not for images of {_count(channels)}: "
            f"leave that out, or use {_operations(settings, channels)}, which suits them (--views)."
        )
    if _has_color(settings, channels):
        jitter = " ".join(f"{value:g}" for value in settings.jitter)
        others = " ".join(f"{value:g}" for value in (*settings.jitter[:2], 0, 0))
        raise ValueError(
            f"the jitter {jitter} ends in strengths of saturation and hue, which images of "
            f"{_count(channels)} do not have: use {others} (--jitter)."
        )


def _applies(letter: str, channels: int) -> bool:
    """Return whether an operation makes sense for a number of channels."""
    if letter == "c":
        return channels == _RGB
    if letter == "s":  # other channels have no white, from which to count
        return channels in (1, _RGB)
    return letter != "h" or channels > 1


def _has_color(settings: ViewSettings, channels: int) -> bool:
    """Return whether the jitter changes colors of images that have none."""
    return channels != _RGB and "d" in settings.operations and any(settings.jitter[2:])


def _operations(settings: ViewSettings, channels: int) -> str:
    """Return the letters of operations that suit a number of channels."""
    letters = set(settings.operations)
    wrong = {letter for letter in letters if not _applies(letter, channels)}
    if not wrong and not _has_color(settings, channels):
        return settings.operations
    added = {"h" if letter == "c" and channels > 1 else "n" for letter in wrong}
    if _has_color(settings, channels):
        added.add("n")
    return "".join(sorted((letters - wrong) | added))


def _notes(before: ViewSettings, after: ViewSettings, channels: int) -> list[str]:
    notes = []
    if before.operations != after.operations:
        left_out, added = (
            " and ".join(_name(x) for x in sorted(set(a.operations) - set(b.operations)))
            for a, b in ((before, after), (after, before))
        )
        instead = f" in the place of {left_out}" if left_out else ""
        notes.append(
            f"the images have {_count(channels)}: views are {after.operations} instead of "
            f"{before.operations}, with {added}{instead} (--views sets them)"
        )
    if before.jitter != after.jitter:
        notes.append(
            f"the jitter of images of {_count(channels)} changes brightness and contrast, and no "
            "saturation and hue (--jitter sets it)"
        )
    return notes


def _name(letter: str) -> str:
    return LETTERS[letter].partition(" (")[0]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _count(channels: int) -> str:
    return "1 channel" if channels == 1 else f"{channels} channels"
