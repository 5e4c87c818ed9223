"""Files that come from anywhere: every value in them is replaced by others, one at a time.

A command answers with an exit code and one line, whatever is in the files of a run; an exception
that reaches the test is a failure. Nothing outside of the run is touched.
"""

import json
import shutil
import tomllib

import timm
import tomli_w
import torch

from amcl.checkpoints.files import read_safely, save_checkpoint
from amcl.cli import main
from amcl.tensor_files import read_safetensors, tensor_bytes
from faults.hostile_values import (
    CPU,
    FAST,
    FEW,
    amounts,
    attack,
    check,
    commands_on,
    dumped,
    variants,
)
from tiny_runs import picture_folder, tiny_vit


@amounts
def test_results(run, count, capsys, record):
    (file,) = (run / "evaluation").glob("*.json")
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    texts += ["", "{", "[" * 100_000, "\x00", '{"a": 1, "a": 2}', "null"]
    attack(run, file, texts, commands_on(run, "compare"), capsys)
    attack(run, file, texts[:3], commands_on(run, "report"), capsys)
    record("results of an evaluation with another value", len(texts))


@amounts
def test_metrics_and_starts(run, count, capsys, record):
    total = 0
    for name in ("metrics.jsonl", "environment.jsonl"):
        file = run / name
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        few = count // 5  # a report takes seconds
        texts = ["\n".join(map(dumped, v)) + "\n" for v in variants(rows, few)]
        texts += ["{\n", "[" * 100_000 + "\n"]
        attack(run, file, texts, commands_on(run, "report"), capsys)
        total += len(texts)
    record("metrics and environment with another value", total)


@amounts
def test_configurations(run, count, capsys, record):
    file = run / "config.toml"
    texts = []
    for variant in variants(tomllib.loads(file.read_text()), count):
        try:
            texts.append(tomli_w.dumps(variant))
        except TypeError:  # TOML has no null
            continue
    texts += ["[run", "a = " + "[" * 10_000, "seed = 1", "\x00", "[run]\nseed = 0\n[run]"]
    attack(run, file, texts, commands_on(run, "compare", "resume"), capsys)
    record("configurations with another value", len(texts))


@amounts
def test_lists_of_exports(run, count, capsys, record):
    file = run / "export/export.json"
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    listing = json.loads(file.read_text())
    for name in ("../../escape", str(run.parents[1] / "escape"), ".", "a/b"):
        files = {**listing["files"], name: "0" * 64}
        texts.append(dumped({**listing, "weights": "f" * 64, "files": files}))
        texts.append(dumped({**listing, "before": {name: "0" * 64}}))
    attack(run, file, texts, commands_on(run, "export"), capsys)
    record("lists of exports with another value, or with paths out of the folder", len(texts))


@amounts
def test_metadata_of_backbones(run, count, capsys, record):
    file = run / "backbone.safetensors"
    tensors, metadata = read_safetensors(file)
    changed = variants(metadata, count)
    before = file.read_bytes()
    for variant in changed:
        try:
            file.write_bytes(tensor_bytes(tensors, variant))
        except ValueError:  # NaN is no JSON
            continue
        check(commands_on(run, *(["export"] if count == FAST else ["export", "cost"])), run, capsys)
    file.write_bytes(before)
    record("backbones with other metadata", len(changed))


@amounts
def test_contents_of_checkpoints(run, count, capsys, record, original):
    file = run / "checkpoints/last.pt"
    state = read_safely(file)
    outer = {key: value for key, value in state.items() if key != "method"}
    states = variants(outer, 2 * count)
    (run / "backbone.safetensors").unlink()
    weights = next(iter(state["method"]))
    states += [{**outer, "method": {}}, {**outer, "method": 3}]
    other_shape = {**state["method"], weights: torch.zeros(3)}
    states += [{**outer, "method": other_shape}, {"format": outer["format"]}]
    for variant in states:
        for other in (run / "checkpoints").iterdir():
            other.unlink()
        save_checkpoint(file, {"method": state["method"], **variant}, 1)
        check(commands_on(run, "resume"), run, capsys)
        (run / "backbone.safetensors").unlink(missing_ok=True)
    record("checkpoints with another value", len(states))


def test_a_link_in_place_of_a_file_is_not_followed(run, capsys, record):
    victim = run.parents[1] / "escape"
    for name in ("metrics.jsonl", "log.txt", "environment.jsonl", ".lock"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(victim)
        (run / "backbone.safetensors").unlink(missing_ok=True)
        assert main(["pretrain", "--resume", str(run)]) in (1, 2)
        assert victim.read_text() == "thesis"
        (run / name).unlink()
        capsys.readouterr()
    record("links out of the run folder", 4)


def test_names_that_are_no_utf_8_work_everywhere(run, tmp_path, capsys):
    renamed = run.rename(run.with_name("b\x1b[31m\n<i>"))
    other = shutil.copytree(renamed, tmp_path / "runs" / "plain")
    page = tmp_path / "page.html"
    assert main(["report", str(renamed), str(other), *FEW, "--out", str(page)]) == 0
    assert main(["compare", str(renamed), str(other)]) == 0
    output = capsys.readouterr()
    assert "\x1b" not in output.out + output.err + page.read_text()
    assert "<i>" not in page.read_text()
    assert "caf\\xe9" in page.read_text()


def test_a_folder_of_images_that_is_no_utf_8_is_refused_before_anything_is_made(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "caf\udce9", count=16)
    words = ["--width", "0.125", "--epochs", "1", "--workers", "0", *CPU]
    run = tmp_path / "run"
    assert main(["pretrain", "--data", str(pictures), *words, "--out", str(run)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "caf\\xe9" in message
    assert "this is not UTF-8. Rename the file or folder." in message
    assert not run.exists()


def test_names_of_images_cannot_forge_lines_of_a_log(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "pictures", count=16)
    (pictures / "000\x1b]0;title\x07\nERROR forged\n.png").write_text("no picture")
    config = tiny_vit("simclr", pictures, epochs=1)
    (tmp_path / "config.toml").write_text(config.to_toml(), encoding="utf-8")
    words = ["--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "run")]
    assert main(["pretrain", *words]) == 0
    output = capsys.readouterr()
    for text in (output.err + output.out, (tmp_path / "run/log.txt").read_text(encoding="utf-8")):
        assert "000\\x1b]0;title\\x07\\nERROR forged\\n.png" in text
        assert "\x1b" not in text
        assert "\nERROR forged" not in text


@amounts
def test_configurations_of_hub_folders(tmp_path, count, capsys, record):
    folder = tmp_path / "runs/hub"
    timm.models.save_for_hf(timm.create_model("test_vit"), folder, safe_serialization=True)
    (tmp_path / "escape").write_text("thesis")
    file = folder / "config.json"
    texts = [dumped(v) for v in variants(json.loads(file.read_text()), count)]
    texts += ["", "{", "[" * 100_000, "null", '{"backbone": "resnet10t"}', '{"architecture": "x"}']
    for text in texts:
        file.write_text(text, encoding="utf-8")
        out = folder / "export"
        check([["export", str(folder), "--out", str(out), *CPU]], folder, capsys)
        shutil.rmtree(out, ignore_errors=True)
    record("configurations of a folder of the hub with another value", len(texts))
