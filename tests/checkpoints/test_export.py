"""Files for other tools: what is written, that it loads without amcl, what is never overwritten."""

import json
import os
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from amcl.checkpoints import load_method, onnx_file, open_model
from amcl.checkpoints.card import CITATION, model_card
from amcl.checkpoints.evaluations import Result
from amcl.checkpoints.export import export
from amcl.checkpoints.files import load_checkpoint, save_checkpoint
from amcl.cli import export as command
from amcl.errors import RunError
from amcl.metrics.features import fingerprint

IMAGES = torch.randn(3, 3, 32, 32)
PLAIN = ["README.md", "backbone.safetensors", "export.json"]


def listing(folder):
    return sorted(os.listdir(folder))


def result(subject, protocol="knn", **changes):
    known = {
        "protocol": protocol,
        "data": "builtin",
        "split": "validation",
        "metrics": {"top1": 0.91234},
        "model": {"name": subject.name, "sha256": fingerprint(subject.backbone)},
        "settings": {"k": 20, "tau": 0.1, "transform": {"image_size": 32}, "nothing": None},
        "shown": ["k", "tau"] if protocol == "knn" else [],
        "seed": 0,
        "images": {"train": 2000, "validation": 500},
    }
    return Result(**(known | changes))


def python_blocks(text):
    return re.findall(r"```python\n(.*?)```", text, re.S)


# -- export


def test_a_run_is_exported_whole(run):
    subject = open_model(run)
    written = export(subject)
    assert sorted(path.name for path in written) == listing(run / "export")
    assert listing(run / "export") == sorted([*PLAIN, "method.safetensors"])
    # The same backbone, byte for byte, as the run left.
    exported = (run / "export/backbone.safetensors").read_bytes()
    assert exported == (run / "backbone.safetensors").read_bytes()
    state = load_checkpoint(run / "checkpoints/last.pt")["method"]
    tensors = load_file(run / "export/method.safetensors")
    assert tensors.keys() == state.keys()
    assert all(torch.equal(tensors[name], value) for name, value in state.items())


def test_what_was_exported_opens_again(run):
    subject = open_model(run)
    export(subject)
    for source in ("", "backbone.safetensors", "method.safetensors"):
        again = open_model(run / "export" / source)
        assert torch.equal(again.backbone(IMAGES), subject.backbone(IMAGES))
        assert again.metadata() == subject.metadata()
        assert again.folder is None
    for source in ("", "method.safetensors"):
        method, expected = load_method(run / "export" / source), load_method(run)
        assert torch.equal(method.project(IMAGES), expected.project(IMAGES))
        assert method.state_dict().keys() == expected.state_dict().keys()


def test_a_checkpoint_can_be_exported(run):
    export(open_model(run / "checkpoints/epoch-0001.pt"), run / "elsewhere/deep")
    assert "method.safetensors" in listing(run / "elsewhere/deep")
    assert listing(run / "elsewhere") == ["deep"]


def test_without_heads(run, tmp_path):
    export(open_model(run), tmp_path / "out", heads=False)
    assert listing(tmp_path / "out") == PLAIN


def test_models_that_are_no_run_need_a_folder_and_have_no_heads(tmp_path):
    subject = open_model("resnet18", width=0.125, image_size=32)
    with pytest.raises(ValueError, match=r"resnet18 is no run: .* --out"):
        export(subject)
    export(subject, tmp_path / "out")
    assert listing(tmp_path / "out") == PLAIN


def test_heads_of_another_step_are_refused(run):
    path = run / "checkpoints/last.pt"
    state = load_checkpoint(path)
    state["method"]["backbone.network.bn1.bias"] += 1
    save_checkpoint(path, {k: v for k, v in state.items() if k != "format"})
    with pytest.raises(RunError, match=r"last.pt are of another step .*--no-heads"):
        export(open_model(run))
    assert not (run / "export").exists()
    assert not [name for name in os.listdir(run) if name.startswith(".export")]


def test_an_earlier_export_is_replaced_on_demand(run):
    subject = open_model(run)
    export(subject)
    before = {name: (run / "export" / name).read_bytes() for name in listing(run / "export")}
    result(subject).write(run)
    with pytest.raises(RunError, match=r"whose README.md would be replaced: .*--out.*--overwrite"):
        export(open_model(run))
    assert before == {n: (run / "export" / n).read_bytes() for n in listing(run / "export")}
    export(open_model(run), overwrite=True)
    after = {name: (run / "export" / name).read_bytes() for name in listing(run / "export")}
    assert before.keys() == after.keys()
    assert "91.2%" in after["README.md"].decode()
    assert {name for name in after if after[name] != before[name]} == {"README.md", "export.json"}


def test_files_of_the_same_weights_stay_and_of_others_go(run):
    subject = open_model(run)
    export(subject)
    export(subject, heads=False)
    assert "method.safetensors" in listing(run / "export")
    with torch.no_grad():
        subject.backbone.network.bn1.bias += 1
    with pytest.raises(RunError, match=r"backbone.safetensors, method.safetensors would be"):
        export(subject, heads=False)
    export(subject, heads=False, overwrite=True)
    assert listing(run / "export") == PLAIN
    export(subject, heads=False)  # the list is that of what is there


def test_the_same_export_again_writes_nothing(run, caplog):
    subject = open_model(run)
    written = export(subject)
    before = [path.stat().st_mtime_ns for path in written]
    with caplog.at_level("INFO", "amcl"):
        assert export(subject) == written
    assert "holds this export already: nothing was written" in caplog.text
    assert [path.stat().st_mtime_ns for path in written] == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_list_that_names_files_elsewhere_deletes_nothing(run, tmp_path, overwrite):
    subject = open_model(run)
    export(subject, heads=False)
    listed = run / "export/export.json"
    said = json.loads(listed.read_text())
    (tmp_path / "thesis.txt").write_text("mine")
    (run / "notes.txt").write_text("mine")
    for name in (str(tmp_path / "thesis.txt"), "../notes.txt", "config.toml", ""):
        files = said["files"] | {name: "0" * 64}
        listed.write_text(json.dumps(said | {"files": files, "weights": "f" * 64}))
        with pytest.raises(RunError, match=r"export.json lists .*does not write"):
            export(subject, heads=False, overwrite=overwrite)
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "config.toml").is_file()


def test_other_files_are_never_touched(run, tmp_path):
    subject = open_model(run)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"mine is not empty, and holds no export: .*--out"):
        export(subject, tmp_path / "mine")
    assert listing(tmp_path / "mine") == ["notes.txt"]
    with pytest.raises(RunError, match=r"notes.txt is a file"):
        export(subject, tmp_path / "mine/notes.txt")
    export(subject, tmp_path / "out", heads=False)
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"holds notes.txt beside an export"):
        export(subject, tmp_path / "out")
    (tmp_path / "out/notes.txt").unlink()
    (tmp_path / "out/README.md").write_text("license: mine")
    with pytest.raises(RunError, match=r"README.md in .*out changed after the export"):
        export(subject, tmp_path / "out")
    assert (tmp_path / "out/README.md").read_text() == "license: mine"
    (tmp_path / "out/README.md").unlink()
    export(subject, tmp_path / "out")


def test_the_export_of_another_run_stays(run, tmp_path):
    subject = open_model(run)
    export(subject, tmp_path / "out", heads=False)
    config = replace(subject.config, run=replace(subject.config.run, seed=1))
    with pytest.raises(RunError, match="holds the export of another run"):
        export(replace(subject, config=config), tmp_path / "out")
    (tmp_path / "out/export.json").write_text("{")
    with pytest.raises(RunError, match=r"export.json is damaged"):
        export(subject, tmp_path / "out")


def test_a_full_disk_leaves_the_old_files(run, monkeypatch):
    subject = open_model(run)
    export(subject, heads=False)
    before = (run / "export/README.md").read_bytes()
    result(subject).write(run)  # another card

    replace_file = Path.replace

    def full(self, target):
        if Path(target).parent.name == "export":
            raise OSError(28, "No space left")
        return replace_file(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(RunError, match=r"could not write .*export .*No space left"):
        export(subject, heads=False, overwrite=True)
    assert (run / "export/README.md").read_bytes() == before
    assert listing(run / "export") == PLAIN


# -- ONNX


@pytest.fixture(scope="module")
def onnx_export(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx") / "out"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(open_model(trained), folder, onnx=True, heads=False)
    return folder


@pytest.mark.parametrize("n", [1, 7])
def test_onnx_computes_the_same_for_any_batch(onnx_export, trained, n):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(onnx_export / "backbone.onnx"))
    assert [(i.name, i.shape[1:]) for i in session.get_inputs()] == [("images", [3, 32, 32])]
    assert [o.name for o in session.get_outputs()] == ["features"]
    images = torch.randn(n, 3, 32, 32)
    (found,) = session.run(None, {"images": images.numpy()})
    with torch.no_grad():
        expected = open_model(trained).backbone(images)
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=1e-4, atol=1e-5)
    assert listing(onnx_export) == ["README.md", "backbone.onnx", *PLAIN[1:]]


def test_an_onnx_file_that_computes_something_else_is_not_kept(onnx_export, trained, tmp_path):
    """The check itself: another backbone's features are not those of the file."""
    other = open_model(trained).backbone
    onnx_file._check(other, onnx_export / "backbone.onnx")
    with torch.no_grad():
        other.network.bn1.bias += 0.1
    with pytest.raises(RunError, match="computes other features than torch"):
        onnx_file._check(other, onnx_export / "backbone.onnx")


def test_missing_packages_are_told_before_anything_is_written(run, monkeypatch):
    monkeypatch.setattr(onnx_file, "PACKAGES", ("onnx", "no_such_package"))
    with pytest.raises(RunError, match=r"needs no_such_package, .* install '\.\[onnx\]'"):
        export(open_model(run), onnx=True)
    assert not (run / "export").exists()


def test_a_failed_onnx_export_leaves_nothing(run, monkeypatch):
    def fail(*args, **kwargs):
        raise NotImplementedError("no such operation\nin 40 lines")

    monkeypatch.setattr(torch.onnx, "export", fail)
    with pytest.raises(RunError, match=r"could not write resnet10t as ONNX: no such operation$"):
        export(open_model(run), onnx=True)
    assert not (run / "export").exists()


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


# -- the command


def test_the_command_prints_files_and_code(run, capsys):
    assert command.main([str(run), "--no-heads"]) == 0
    out = capsys.readouterr().out
    for name in PLAIN:
        assert str(run / "export" / name) in out
    made = {}
    exec(out.split("To load it:\n\n")[1], made)
    assert torch.equal(made["model"](IMAGES), open_model(run).backbone(IMAGES))


def test_the_command_tells_what_was_chosen(tmp_path, capsys):
    args = ["resnet18", "--width", "0.125", "--image-size", "32", "--out", str(tmp_path / "out")]
    assert command.main(args) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "untrained: random weights" in told
    assert "no heads to export" in told
    assert json.loads((tmp_path / "out/export.json").read_text())["files"].keys() == {
        "README.md",
        "backbone.safetensors",
    }


def test_the_command_fails_with_one_line(run, capsys):
    (run / "backbone.safetensors").unlink()
    assert command.main([str(run)]) == 1
    assert "amcl export: the run in" in " ".join(capsys.readouterr().err.split())
    assert command.main(["resnet81"]) == 2
    assert "did you mean" in capsys.readouterr().err
