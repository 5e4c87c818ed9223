"""Files for other tools: what is written, that it loads without amcl, what is never overwritten."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from amcl.checkpoints import load_method, open_model
from amcl.checkpoints.export import export
from amcl.checkpoints.files import load_checkpoint, save_checkpoint
from amcl.cli import export as command
from amcl.errors import RunError
from exports import IMAGES, PLAIN, listing, result

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
    with pytest.raises(RunError, match=r"/out .*--out"):
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
