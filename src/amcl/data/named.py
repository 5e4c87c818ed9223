"""Known data sets by name: where they lie, how they are read."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from amcl.data import cifar10
from amcl.data.folder import label
from amcl.data.images import DataSet, Images, Labeled, MemoryImages, Probe, Rgb
from amcl.data.options import Options
from amcl.data.pictures import MEAN, STD, Listing, read_pictures
from amcl.data.split import hold_out, parted, sample, subset
from amcl.data.walk import list_images


@dataclass(frozen=True, kw_only=True)
class Named:
    """A known data set: `place` in the data folder, `fetch` to get it there.

    `test`: whether the labels of its test split are public; `validation`: where images to validate
    on come from, see `validation_of`.
    """

    place: str
    fetch: str
    image_size: int
    mean: Rgb
    std: Rgb
    load: Callable[[Path, "Named", Options], DataSet]
    test: bool = True
    validation: Literal["given", "spared", "cut"] = "cut"
    also: str = ""
    """Another place that it is read from."""

    @property
    def places(self) -> tuple[str, ...]:
        """Where it may lie in the data folder."""
        return (self.place, self.also) if self.also else (self.place,)


def data_root(root: Path | None = None) -> Path:
    """The folder of known data sets: the argument, else $AMCL_DATA, else ~/.cache/amcl."""
    return Path(root or os.environ.get("AMCL_DATA") or "~/.cache/amcl").expanduser()


def load_named(name: str, root: Path, options: Options) -> DataSet:
    """A known data set, which must lie in `root` already."""
    known = NAMED[name]
    return replace(known.load(root, known, options), name=name)


def missing(known: Named, root: Path) -> FileNotFoundError:
    """The error for a set that is not there, with the way to get it."""
    return FileNotFoundError(
        f"{root / known.place} does not exist: {known.fetch.format(root=root)}"
    )


def missing_sets(names: Sequence[str], root: str | Path | None = None) -> list[str]:
    """What to do about those of the sets that are not there; nothing is read."""
    told = []
    for name in names:
        place = data_root(Path(root) if root else None)
        if name in NAMED and not any((place / p).exists() for p in NAMED[name].places):
            told.append(str(missing(NAMED[name], place)))
        elif name not in NAMED and name != "builtin" and not Path(name).expanduser().is_dir():
            told.append(f"There is no folder {name!r}.")
    return told


def _load_cifar10(root: Path, known: Named, options: Options) -> DataSet:
    tensors = cifar10.read(root)
    if tensors is None:
        raise missing(known, root)
    train = Labeled(MemoryImages(tensors["train_pixels"]), tensors["train_labels"].long())
    test = Labeled(MemoryImages(tensors["test_pixels"]), tensors["test_labels"].long())
    return _from_memory(known, train, test, cifar10.CLASSES, options)


def _load_cifar100(root: Path, known: Named, options: Options) -> DataSet:
    from torchvision.datasets import CIFAR100  # type: ignore[import-untyped]

    if not (root / known.place).is_dir():
        raise missing(known, root)
    try:
        with warnings.catch_warnings():  # NumPy's, about how the files were written in 2009
            warnings.simplefilter("ignore")
            train, test = CIFAR100(root, train=True), CIFAR100(root, train=False)
    except RuntimeError as error:
        raise ValueError(
            f"{root / known.place} is not what it should be by its checksums: remove it and "
            "run `amcl data cifar100` again."
        ) from error
    return _from_memory(
        known, _channels_first(train), _channels_first(test), tuple(train.classes), options
    )


def _channels_first(split: Any) -> Labeled:
    pixels = torch.from_numpy(split.data).permute(0, 3, 1, 2).contiguous()
    return Labeled(MemoryImages(pixels), torch.tensor(split.targets))


def _from_memory(
    known: Named, train: Labeled, test: Labeled, classes: tuple[str, ...], options: Options
) -> DataSet:
    """A labeled set of two splits; for validation, images are held out of the training split."""
    probe: Probe | None
    if options.probes and options.probe == "validation":
        count = min(options.validation, len(train.labels) // 10)
        kept, held = parted(train.labels, count, options.seed, options.subset)
        queries, train = train.subset(held), train.subset(kept)
        bank = train.subset(sample(len(kept), options.bank_of(len(kept)), options.seed))
        probe = Probe(bank, queries, classes, "validation")
    else:
        train = train.subset(subset(train.labels, options.subset))
        probe = Probe(train, test, classes, "test") if options.probes else None
    return _data_set(known, train.images, probe, options)


def _data_set(known: Named, train: Images, probe: Probe | None, options: Options) -> DataSet:
    options.check_canvas(train)
    image_size = options.image_size or known.image_size
    return DataSet(
        name="",
        train=train,
        probe=probe,
        image_size=image_size,
        mean=known.mean,
        std=known.std,
    )


STL10_CLASSES = (
    *("airplane", "bird", "car", "cat", "deer"),
    *("dog", "horse", "monkey", "ship", "truck"),
)
STL10_COUNTS = {"unlabeled": 100_000, "train": 5_000, "test": 8_000}


def _load_stl10(root: Path, known: Named, options: Options) -> DataSet:
    """Pre-trained on the unlabeled images; the labeled training images are the bank."""
    folder = root / known.place
    if not folder.is_dir():
        raise missing(known, root)
    probe = None
    if options.probes:
        train = Labeled(_stl10_images(folder, "train"), _stl10_labels(folder, "train"))
        if options.probe == "test":
            test = Labeled(_stl10_images(folder, "test"), _stl10_labels(folder, "test"))
            probe = Probe(train, test, STL10_CLASSES, "test")
        else:  # not trained on, so that more can be spared than where they are
            count = min(options.validation, len(train.labels) // 5)
            kept, held = hold_out(train.labels, count, options.seed)
            bank, queries = train.subset(kept), train.subset(held)
            probe = Probe(bank, queries, STL10_CLASSES, "validation")
    images = _stl10_images(folder, "unlabeled")
    chosen = subset(torch.zeros(len(images)), options.subset)
    return _data_set(known, images.subset(chosen), probe, options)


def _stl10_images(folder: Path, split: str) -> MemoryImages:
    """Mapped from the file, not read: the system keeps what is used, for all processes once."""
    count = STL10_COUNTS[split]
    flat = _stl10_bytes(folder / f"{split}_X.bin", count * 3 * 96 * 96)
    return MemoryImages(flat.view(count, 3, 96, 96).transpose(2, 3))  # stored column by column


def _stl10_labels(folder: Path, split: str) -> torch.Tensor:
    return _stl10_bytes(folder / f"{split}_y.bin", STL10_COUNTS[split]).long() - 1


def _stl10_bytes(path: Path, size: int) -> torch.Tensor:
    found = path.stat().st_size if path.is_file() else 0
    if found != size:
        raise ValueError(
            f"{path} must be {size:,} bytes, found {found:,}: remove {path.parent} and run "
            "`amcl data stl10` again."
        )
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def _load_tinyimagenet(root: Path, known: Named, options: Options) -> DataSet:
    folder = root / known.place
    return _load_wordnet_folders(known, folder, root, options, _annotated_validation)


def _load_imagenet(root: Path, known: Named, options: Options) -> DataSet:
    folder = root / known.place
    return _load_wordnet_folders(known, folder, root, options, _sorted_validation)


def _load_wordnet_folders(
    known: Named,
    folder: Path,
    root: Path,
    options: Options,
    validation: Callable[[Path, tuple[str, ...]], Listing],
) -> DataSet:
    if not (folder / "train").is_dir():
        raise missing(known, root)
    if options.probe == "test":
        raise ValueError(
            f"The labels of the test split of {folder.name} are not public: use "
            "probe='validation', which queries the validation split."
        )
    train, queries = list_images(folder / "train"), None
    if options.probes:
        train = _by_folder(train, folder / "train")
        queries = validation(folder / "val", train.classes)
    options = replace(options, image_size=options.image_size or known.image_size)
    return read_pictures(folder.name, train, queries, options, mean=known.mean, std=known.std)


def _sorted_validation(folder: Path, classes: tuple[str, ...]) -> Listing:
    return _by_folder(list_images(folder), folder, classes)


def _by_folder(listing: Listing, folder: Path, classes: tuple[str, ...] = ()) -> Listing:
    parts = [os.path.relpath(path, folder).split(os.sep) for path in listing.paths]
    return label(listing, parts, str(folder), "folders", classes)[0]


def _annotated_validation(folder: Path, classes: tuple[str, ...]) -> Listing:
    """Tiny ImageNet's val/images, whose classes stand in val_annotations.txt."""
    annotations = folder / "val_annotations.txt"
    if not annotations.is_file():
        raise FileNotFoundError(
            f"{annotations} does not exist: unpack the whole archive again, it holds the labels "
            "of the validation images."
        )
    number = {name: index for index, name in enumerate(classes)}
    paths, labels = [], []
    for line in annotations.read_text().splitlines():
        name, wordnet_id, *_ = line.split("\t")
        if wordnet_id not in number:
            raise ValueError(
                f"{annotations} names the class {wordnet_id}, which has no folder in "
                f"{folder.parent / 'train'}: unpack the whole archive again."
            )
        paths.append(str(folder / "images" / name))
        labels.append(number[wordnet_id])
    return Listing(paths).with_labels(labels, classes)


_DOWNLOAD = "run `amcl data {name} --root {{root}}`, or say where it lies with --data-root."

NAMED: dict[str, Named] = {
    "cifar10": Named(
        place=cifar10.FILE,
        fetch=_DOWNLOAD.format(name="cifar10"),
        image_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        load=_load_cifar10,
        also=cifar10.BATCHES,
    ),
    "cifar100": Named(
        place="cifar-100-python",
        fetch=_DOWNLOAD.format(name="cifar100"),
        image_size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        load=_load_cifar100,
    ),
    "stl10": Named(
        place="stl10_binary",
        fetch=_DOWNLOAD.format(name="stl10"),
        image_size=96,
        mean=(0.4467, 0.4398, 0.4066),
        std=(0.2603, 0.2566, 0.2713),
        load=_load_stl10,
        validation="spared",
    ),
    "tinyimagenet": Named(
        place="tiny-imagenet-200",
        fetch="get cs231n.stanford.edu/tiny-imagenet-200.zip and unpack it in {root}.",
        image_size=64,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        load=_load_tinyimagenet,
        test=False,
        validation="given",
    ),
    "imagenet": Named(
        place="imagenet",
        fetch="get ILSVRC2012 from image-net.org (an account is needed) and unpack it to "
        "{root}/imagenet/train/<class>/ and {root}/imagenet/val/<class>/, a folder for each "
        "of the 1,000 classes.",
        image_size=224,
        mean=MEAN,
        std=STD,
        load=_load_imagenet,
        test=False,
        validation="given",
    ),
}
