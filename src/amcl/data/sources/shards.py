"""Shards: tar archives of images, as WebDataset has them."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from amcl.data.decode import PICTURE_EXTENSIONS
from amcl.data.listing import Listing
from amcl.data.packed import PackedSource
from amcl.data.shards.manifest import is_unfinished
from amcl.data.shards.records import ShardRecords, load_indices
from amcl.data.source import register_source
from amcl.data.split_folders import Role
from amcl.printable import printable

_ANNOTATIONS = ("json", "txt", "__key__")  # that come with images and are left alone


@register_source("shards")
class Shards(PackedSource):
    """Shards, by a folder of them or a pattern such as shards/{0000..0999}.tar."""

    endings = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
    label_kind = ".cls beside the image"

    def warnings(self, listings: dict[Role, Listing]) -> list[str]:
        """Return messages on files that are not read, and on shards that are still to come."""
        lines = super().warnings(listings)
        if is_unfinished(self.root):
            lines.append(
                f"{self.root}: packing was not finished, so that images are missing. The same "
                "`amcl data pack` finishes it."
            )
        return lines

    def open(self, files: Sequence[Path]) -> Listing:
        """List the images in some shards."""
        indices = load_indices(files)
        others = sum((Counter(index.others) for index in indices), Counter[str]())
        return Listing(
            ShardRecords(indices),
            unreadable=tuple(
                (printable(f"{index.path}/{name}" if name else str(index.path)), reason)
                for index in indices
                for name, reason in index.damages
            ),
            warnings=tuple(_warnings(others)),
        )


def _warnings(others: Counter[str]) -> list[str]:
    """Return messages on files that may be images and are not read."""
    dotted = {
        extension: count
        for extension, count in others.items()
        if f".{extension.rpartition('.')[2].lower()}" in PICTURE_EXTENSIONS
    }
    lines = []
    if dotted:
        names = ", ".join(f"….{printable(extension)}" for extension in list(dotted)[:3])
        lines.append(
            f"{sum(dotted.values()):,} files in shards not read, with names like {names}: what "
            "follows the first dot in a name has to be the extension of an image."
        )
    rest = others - Counter(dotted)
    unknown = [f"{n:,} .{printable(e)}" for e, n in rest.most_common(5) if e not in _ANNOTATIONS]
    if unknown:
        lines.append(f"Other files in shards not read: {', '.join(unknown)}.")
    return lines
