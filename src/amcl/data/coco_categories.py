"""Categories of two sets in COCO's format: the same in both, all of them or some."""

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from amcl.printable import counted

if TYPE_CHECKING:
    from amcl.data.coco import CocoSet

_SHOWN = 20  # names of categories in an error


def with_same_classes(train: "CocoSet", test: "CocoSet") -> "CocoSet":
    """Return the second set with the classes of the first, which may have more."""
    names = dict(zip(train.class_ids, train.classes, strict=True))
    others = [
        f"{name} (id {identity})"
        for identity, name in zip(test.class_ids, test.classes, strict=True)
        if names.get(identity) != name
    ]
    if others:
        raise ValueError(
            f"{len(others)} of {len(test.classes)} categories to evaluate on are not in the "
            "annotations to train on: "
            f"{', '.join(others[:5])}. Give both files the same ids and names."
        )
    return test.with_classes(names)


def of_categories(
    train: "CocoSet", test: "CocoSet", names: Sequence[str]
) -> tuple["CocoSet", "CocoSet"]:
    """Return both sets with the objects of some categories alone; without names with all."""
    if not names:
        return train, test
    unknown = [name for name in names if name not in train.classes]
    if unknown:
        near = difflib.get_close_matches(unknown[0], train.classes, n=3)
        more = len(train.classes) - _SHOWN
        known = ", ".join(train.classes[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(
            f"--categories {unknown[0]!r}: the annotations to train on have no category of this "
            f"name: {hint}They have {known}."
        )
    train, test = train.with_categories(names), test.with_categories(names)
    boxes = train.without_masks()  # masks take long to decode
    labels = np.concatenate([boxes.objects(i).labels.numpy() for i in range(len(train))])
    counts = np.bincount(labels, minlength=len(train.classes))
    if absent := [name for name, n in zip(train.classes, counts, strict=True) if not n]:
        raise ValueError(
            f"--categories {absent[0]!r}: none of the {counted(len(train), 'training image')} has "
            "an object of it: leave it out, or train on more images."
        )
    return train, test
