"""benchmarks/results_files.py keeps numbers of the same settings, and writes blocks of pages."""

import json
import sys

import pytest

from benchmark_scripts import load_script


@pytest.fixture
def files(monkeypatch):
    return load_script(monkeypatch, "results_files")


def test_a_block_is_written_between_its_marks_alone(files):
    page = (
        "a\n<!-- made by x -->\n<!-- end of x -->\nb\n<!-- made by y -->\nold\n<!-- end of y -->\n"
    )
    page = files.with_block(page, "x", r"| \1 |")
    page = files.with_block(page, "y", "new")
    assert page == (
        "a\n<!-- made by x -->\n| \\1 |\n<!-- end of x -->\nb\n"
        "<!-- made by y -->\nnew\n<!-- end of y -->\n"
    )
    with pytest.raises(ValueError, match="no block <!-- made by z -->"):
        files.with_block(page, "z", "new")


def test_numbers_of_other_settings_are_not_resumed(files, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "RESULTS", tmp_path)
    assert files.kept_results("x", {"limit": 1}) is None
    (tmp_path / "x.json").write_text(json.dumps({"settings": {"limit": 1}, "arms": 3}))
    assert files.kept_results("x", {"limit": 1})["arms"] == 3
    with pytest.raises(SystemExit, match="give the same options, or remove that file"):
        files.kept_results("x", {"limit": 2})


def test_a_script_runs_itself_again_for_a_part(files, monkeypatch, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import json, sys\n"
        "key, out = sys.argv[sys.argv.index('--here') + 1], sys.argv[-1]\n"
        "sys.exit(3) if key == 'bad' else open(out, 'w').write(json.dumps(sys.argv[1:4]))\n"
    )
    monkeypatch.setattr(sys, "argv", [str(script), "--fast"])
    assert files.in_new_process(["part"]) == ["--fast", "--here", "part"]
    with pytest.raises(SystemExit, match="bad failed with code 3"):
        files.in_new_process(["bad"])
