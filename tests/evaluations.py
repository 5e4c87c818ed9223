"""Commands on a run that is evaluated."""

import re

from amcl.cli import main

QUICK = ["--epochs", "1", "--batch-size", "80", "--width", "0.125"]
KNN = ["--protocols", "knn"]


def refused(capsys, *args, code=2):
    try:
        found = main(list(args))
    except SystemExit as left:
        found = left.code
    assert found == code
    return re.sub(r"[\s│╭╮╰╯─]+", " ", capsys.readouterr().err)
