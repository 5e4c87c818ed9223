"""The model card of an export."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from amcl.checkpoints import open_model
from amcl.checkpoints.card import CITATION, model_card
from amcl.checkpoints.export import export
from amcl.methods import SupConSettings
from exports import IMAGES, result


def python_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.S)


# -- the card


def front_matter(card):
    _, matter, text = card.split("---\n", 2)
    return yaml.safe_load(matter), text


def test_the_card_says_what_it_is(run):
    matter, text = front_matter(model_card(open_model(run)))
    assert matter["library_name"] == "amcl"
    assert "license" not in matter  # the user's to choose
    assert {"moco", "timm", "resnet10t"} <= set(matter["tags"])
    assert "# resnet10t ×0.125, pre-trained with MoCo" in text
    assert "without labels on 2,000 images of builtin" in text
    assert "64 features" in text
    for row in (
        "| heads | 3 |",
        "| temperature | adaptive, from 0.05 to 0.15, β = 0.1 |",
        "| epochs | 1 |",
        "| batch size | 1000 |",
        "| seed | 0 |",
    ):
        assert row in text
    mean = open_model(run).mean
    assert f"| mean | {mean[0]!r} | {mean[1]!r} | {mean[2]!r} |" in text
    assert "## Scores" not in text  # none was measured


def test_the_card_says_that_labels_were_used(run):
    subject = open_model(run)
    config = replace(subject.config, method=SupConSettings())
    matter, text = front_matter(model_card(replace(subject, config=config)))
    assert "pre-trained with labels on 2,000 images of builtin" in text
    assert "| labels | used in pre-training |" in text
    assert "self-supervised-learning" not in matter["tags"]
    assert "self-supervised-learning" in front_matter(model_card(subject))[0]["tags"]


def test_a_checkpoint_says_how_far_it_came(run):
    subject = replace(open_model(run), epoch=0.5)
    assert "| epochs | 0.5 of 1 |" in model_card(subject)


def test_the_card_keeps_paths_to_itself(run):
    subject = open_model(run)
    config = replace(subject.config, data=replace(subject.config.data, source="/home/me/pic|tures"))
    card = model_card(replace(subject, config=config))
    assert "images of pic\\|tures." in card
    assert "/home" not in card


def test_the_card_passes_no_html_on(run):
    subject = open_model(run)
    config = replace(subject.config, data=replace(subject.config.data, source="<svg onload=x>|&"))
    result(subject, data="a/<script>x", metrics={"<b>": 0.5}).write(run)
    card = model_card(replace(subject, config=config))
    assert "<" not in card
    assert "images of &lt;svg onload=x&gt;\\|&amp;." in card
    assert "| data | &lt;svg onload=x&gt;\\|&amp; |" in card


def test_scores_are_those_of_these_weights_sorted(run):
    subject = open_model(run)
    result(subject, "linear", metrics={"top1": 0.5}, details={"std": {"top1": 0.01}}).write(run)
    result(subject).write(run)
    result(subject, data="another").write(run)
    result(subject, metrics={"top1": 0.1111}, model={"name": "x", "sha256": "0"}).write(run)
    scores = model_card(subject).split("## Scores\n\n")[1].split("\n\n")[0].splitlines()
    images = "2,000 train, 500 validation; seed 0"
    assert scores == [
        "| protocol | data | result | how |",
        "| --- | --- | --- | --- |",
        f"| knn | another, validation | top1 91.2% | k 20, tau 0.1; {images} |",
        f"| knn | builtin, validation | top1 91.2% | k 20, tau 0.1; {images} |",
        f"| linear | builtin, validation | top1 50.0% ± 1.0% | {images} |",
    ]


def test_a_damaged_result_is_named(run):
    (run / "evaluation").mkdir()
    (run / "evaluation/knn.json").write_text('{"protocol": ')
    with pytest.raises(ValueError, match=r"evaluation/knn\.json is damaged"):
        model_card(open_model(run))


def test_the_code_in_the_card_runs(run, monkeypatch):
    export(open_model(run), heads=False)
    monkeypatch.chdir(run / "export")
    timm_only, with_amcl = python_blocks(Path("README.md").read_text())
    expected = open_model(run).backbone(IMAGES)
    first, second = {}, {}
    exec(timm_only, first)
    exec(with_amcl, second)
    assert "amcl" not in timm_only
    assert torch.equal(first["model"](IMAGES), expected)
    assert torch.equal(second["backbone"](IMAGES), expected)
    assert second["backbone"].normalization == (open_model(run).mean, open_model(run).std)


def test_the_card_of_other_weights_says_only_what_is_known():
    card = model_card(open_model("resnet18", width=0.125, image_size=32))
    assert "untrained: random weights (seed 0)" in card
    assert "Citation" not in card
    assert "Training" not in card
    assert "pre-trained" not in card


def test_the_citation_is_that_of_the_repository():
    said = yaml.safe_load((Path(__file__).parents[2] / "CITATION.cff").read_text())
    paper = said["preferred-citation"]
    assert paper["title"] in CITATION
    assert str(paper["year"]) in CITATION
    assert paper["collection-title"] in CITATION
    authors = " and ".join(f"{a['family-names']}, {a['given-names']}" for a in paper["authors"])
    assert authors in CITATION
