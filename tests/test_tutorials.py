"""The tutorials run from the first cell to the last."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TUTORIALS = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.ipynb"))
FAST = {"epochs": "1", "new_epochs": "1", "seeds": "(0,)"}
QUICK = ("curation",)  # what the fast tests execute; the others are slow


def execute(path, folder, fast=True):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if fast and "parameters" in cell.metadata.get("tags", []):
            names = [line.partition(" = ")[0] for line in cell.source.splitlines()]
            changed = [f"{name} = {FAST[name]}" for name in names if name in FAST]
            cell.source += "\n" + "\n".join(changed)
    client = NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return notebook


def texts(notebook):
    return "".join(
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[] if p.stem in QUICK else pytest.mark.slow) for p in TUTORIALS],
    ids=lambda path: path.stem,
)
def test_tutorials_run(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    execute(path, tmp_path)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_committed_with_their_output(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert "error" not in kinds
    assert sum("parameters" in cell.metadata.get("tags", []) for cell in code) == 1
    here = TUTORIALS[0].parents[2], Path.home()
    assert not any(f"{folder}/" in texts(notebook) for folder in here)


def test_every_tutorial_is_in_the_list():
    index = (TUTORIALS[0].parent / "index.md").read_text()
    assert all(f"({path.name})" in index for path in TUTORIALS)
