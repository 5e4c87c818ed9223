"""`amcl models`: the list of the trained models, and the card of one."""

import re

import pytest

from amcl.cli import main, models
from amcl.pretrained import names, pretrained_model


def test_models_are_listed_with_their_numbers(capsys):
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "name",
        "network",
        "trained",
        "on",
        "pixels",
        "size",
        "kNN",
        "linear",
    ]
    for name in names():
        model = pretrained_model(name)
        (line,) = [line for line in lines if line.startswith(f"{name} ")]
        assert f"{model.images:,} images of {model.data} " in line
        numbers = [model.accuracy("knn"), model.accuracy("linear")]
        assert re.findall(r"[\d.]+%", line) == [f"{number:.1%}" for number in numbers]


def test_the_card_of_a_model_is_shown(capsys):
    name = names()[0]
    assert main(["models", "show", name]) == 0
    assert capsys.readouterr().out == pretrained_model(name).card.read_text(encoding="utf-8")


def test_what_loading_still_needs_is_said(capsys, monkeypatch):
    monkeypatch.setattr(models, "missing", lambda *packages: [*packages])
    assert main(["models"]) == 0
    assert "Loading a model needs timm, safetensors" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", f"{names()[0]}s"], f"did you mean {names()[0]}?"),
        (["show", "zzz"], f"no model that comes with amcl is called 'zzz': they are {names()[0]}"),
        (["shwo"], "usage: amcl models"),
        (["show"], "usage: amcl models"),
    ],
)
def test_wrong_words_are_answered(capsys, words, message):
    assert main(["models", *words]) == 2
    assert message in capsys.readouterr().err
