"""Two processes train one detector: equal weights, one result, and a stop of one stops both."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from amcl.checkpoints.training_folder import read_metrics
from amcl.data.coco import load_coco
from toy_detection import shapes_folder, trained

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return shapes_folder(tmp_path_factory.mktemp("data"), train=4, test=5)


@pytest.fixture(scope="module")
def ranks(data, tmp_path_factory):
    """The folder of two trainings, and what each of the two processes saw of them."""
    folder = tmp_path_factory.mktemp("detectors")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("detection_worker.py"), "2", data, folder],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def folder_of(run: Path) -> Path:
    """The folder of the one detector of a run."""
    (result,) = (run / "evaluation").glob("*.json")
    return result.with_suffix("")


def test_both_processes_have_one_result(ranks):
    _, (first, second) = ranks
    assert first["straight"]["metrics"] == second["straight"]["metrics"]
    assert first["straight"]["details"] == second["straight"]["details"]
    assert first["straight"]["steps"] == second["straight"]["steps"] == [0, 1]
    assert len(first["straight"]["weights"]) == 2  # after each epoch
    assert first["straight"]["weights"] == second["straight"]["weights"]
    assert len(set(first["straight"]["weights"])) == 2


def test_the_first_process_alone_writes(ranks):
    folder, (first, second) = ranks
    (name,) = first["straight"]["files"]
    assert second["straight"]["files"] == []
    assert [path.name for path in (folder / "straight/evaluation").glob("*.json")] == [name]
    steps = [row["step"] for row in read_metrics(folder_of(folder / "straight"))]
    assert steps == sorted(steps)
    kinds = [row["kind"] for row in read_metrics(folder_of(folder / "straight"))]
    assert kinds.count("epoch") == 2
    assert kinds.count("probe") == 1


def test_what_is_there_is_not_done_again(ranks):
    for results in ranks[1]:
        assert results["again"]["metrics"] == results["straight"]["metrics"]
        assert results["again"]["details"] == results["straight"]["details"]
        assert results["again"]["steps"] == results["again"]["weights"] == []


def test_a_signal_to_one_process_stops_both_and_they_resume(ranks):
    folder, both = ranks
    assert both[1]["stopped"]["code"] == 128 + signal.SIGTERM
    for results in both:
        assert "stopped after step 1 of 2, everything is saved" in results["stopped"]["message"]
        assert results["resumed"]["steps"] == [1]
        assert results["resumed"]["metrics"] == results["straight"]["metrics"]
        assert results["resumed"]["details"] == results["straight"]["details"]
    weights, expected = (
        load_file(folder_of(folder / run) / "detector.safetensors")
        for run in ("stopped", "straight")
    )
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_detections_are_those_of_one_process(ranks, data, tmp_path):
    """Images are divided among the processes: none is lost, and none is seen twice."""
    copied = shutil.copytree(folder_of(ranks[0] / "straight"), tmp_path / "copy")
    before = json.loads((copied / "boxes.json").read_text())
    (copied / "boxes.json").unlink()
    alone = trained(data, copied, batch_size=2, evaluate_every=1)
    after = json.loads((copied / "boxes.json").read_text())
    assert [row["image_id"] for row in after] == [row["image_id"] for row in before]
    _, test = load_coco(data)
    assert len({row["image_id"] for row in before}) == len(test)
    scores = [torch.tensor([row["score"] for row in rows]) for rows in (after, before)]
    torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)
    assert alone.metrics() == pytest.approx(ranks[1][0]["straight"]["metrics"], abs=1e-3)
