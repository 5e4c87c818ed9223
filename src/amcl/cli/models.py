"""`amcl models`: list the trained models that come with amcl, or show the card of one."""

import sys

from amcl.extras import missing, needed
from amcl.pretrained import PretrainedModel, names, pretrained_model

USAGE = """usage: amcl models             list the trained models that come with amcl
       amcl models show NAME   the card of one: training, numbers, commands"""
HELP = f"""{USAGE}

List trained backbones that need no download, or show the model card of one.
Their names are taken wherever a run is used as a model.

Examples:
  # List all models.
  amcl models
  # List them by the long form of the same command.
  amcl models list
  # Read how one was trained, on what, and how good it is.
  amcl models show cifar10-resnet10-simclr-amcl

`amcl evaluate NAME --data FOLDER` judges one on your images, `amcl embed NAME
--data FOLDER --out features.npz` writes features, `amcl pretrain --init NAME`
continues training, and amcl.load("NAME") returns it in Python."""
NEEDED = ("timm", "safetensors")  # the networks and the files, of the extra that has all the rest


def main(args: list[str]) -> int:
    """Run the command and return the exit code."""
    if args in (["-h"], ["--help"], ["--help-all"]):
        print(HELP)
        return 0
    if args in ([], ["list"]):
        print(_table([pretrained_model(name) for name in names()]))
        print("\nkNN and linear: top-1 accuracy on test images, which the card of a model names.")
        print("`amcl models show NAME` shows the card.")
        if packages := missing(*NEEDED):
            print(needed("Loading a model", ", ".join(packages), "train"))
        return 0
    if len(args) == 2 and args[0] == "show":
        try:
            print(pretrained_model(args[1]).card.read_text(encoding="utf-8"), end="")
        except ValueError as error:
            print(f"amcl models: {error}", file=sys.stderr)
            return 2
        return 0
    print(f"amcl models: {' '.join(args)!r} is not understood.\n{USAGE}", file=sys.stderr)
    return 2


def _table(models: list[PretrainedModel]) -> str:
    """Return a line for each model below a header, in columns."""
    header = ("name", "network", "trained on", "pixels", "size", "kNN", "linear")
    rows = [
        (
            model.name,
            model.network,
            f"{model.images:,} images of {model.data}",
            str(model.image_size),
            f"{model.size / 1e6:.1f} MB",
            f"{model.accuracy('knn'):.1%}",
            f"{model.accuracy('linear'):.1%}",
        )
        for model in models
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    )
