"""benchmarks/stl10_folder.py: STL-10's labeled images as class folders."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from amcl.data.sets.stl10 import CLASSES

PLACE = Path(__file__).parents[2] / "benchmarks" / "stl10_folder.py"


@pytest.fixture
def script(monkeypatch):
    """The script, for 30 images of 4 pixels, of which 2 of each class are trained on."""
    spec = importlib.util.spec_from_file_location("stl10_folder", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, value in {"IMAGES": 30, "SIZE": 4, "TRAINING_IMAGES": 2}.items():
        monkeypatch.setattr(module, name, value)
    return module


@pytest.fixture
def files(tmp_path):
    """Pixels and labels as the official archive has them: columns first, classes from 1."""
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 4, 3), dtype=np.uint8)
    labels = np.tile(np.arange(1, 11, dtype=np.uint8), 3)
    images.transpose(0, 3, 2, 1).tofile(tmp_path / "train_X.bin")
    labels.tofile(tmp_path / "train_y.bin")
    return tmp_path / "train_X.bin", tmp_path / "train_y.bin", images


def test_every_image_lies_in_its_class_and_split(script, files, tmp_path):
    pixels, labels, images = files
    assert script.write(pixels, labels, tmp_path / "out") == 30
    found = sorted(path.relative_to(tmp_path / "out") for path in tmp_path.rglob("*.png"))
    assert len(found) == 30
    for path in found:
        split, name, file = path.parts
        index = int(Path(file).stem)
        assert name == CLASSES[index % 10]
        assert split == ("train" if index < 20 else "test")
        with Image.open(tmp_path / "out" / path) as image:
            assert np.array_equal(np.array(image), images[index])


def test_a_folder_that_is_there_stays_as_it_is(script, files, tmp_path):
    pixels, labels, _ = files
    (tmp_path / "out").mkdir()
    with pytest.raises(SystemExit, match=r"/out .*remove"):
        script.write(pixels, labels, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_files_that_are_cut_short_are_refused(script, files, tmp_path):
    pixels, labels, _ = files
    pixels.write_bytes(pixels.read_bytes()[:-1])
    with pytest.raises(SystemExit, match="must hold 30 images"):
        script.write(pixels, labels, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_missing_is_named(script, files, tmp_path):
    with pytest.raises(SystemExit, match=r"nowhere\.bin: `amcl data stl10` fetches"):
        script.write(files[0], tmp_path / "nowhere.bin", tmp_path / "out")
