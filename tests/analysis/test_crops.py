"""Temperature and similarity of pairs by the overlap of their crops."""

import json
import math

import pytest
import torch
from PIL import Image
from scipy.stats import spearmanr

from amcl.analysis import overlap as module
from amcl.analysis.crops import CropPairs, CropSettings, crop_pairs, rank_correlation
from amcl.analysis.overlap import BINS, crop_overlap
from amcl.backbones import Backbone, BackboneSettings
from amcl.cli import main
from amcl.data import DataSet, MemoryImages
from amcl.methods import make_method
from amcl.training import pretrain
from amcl.views import Views, ViewSettings
from factories import method_settings, small_config
from tiny_runs import picture_folder

HALF = (0.5, 0.5, 0.5)
FEW = CropSettings(images=6, pairs=3, seed=1)


def made(temperature="adaptive", method="simclr", **options):
    backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), 16)
    options = {"heads": 2, "projector": (8, 5), "temperature": temperature} | options
    return make_method(method_settings(method, **options), backbone)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (9, 3, 16, 16), dtype=torch.uint8, generator=generator)
    images = MemoryImages(pixels)
    return DataSet(name="toy", train=images, probe=None, image_size=16, mean=HALF, std=HALF)


def box_of_view(view):
    """Return the box that a view of an image of coordinates was cut from, by its pixels alone."""
    # Red grows from left to right, green from top to bottom; a pixel is read at its center.
    x, y = view[0].mean(0), view[1].mean(1)
    size = len(x)
    width, height = ((line[-1] - line[0]).abs() * size / (size - 1) for line in (x, y))
    left, top = ((line[0] + line[-1]) / 2 - side / 2 for line, side in ((x, width), (y, height)))
    return torch.stack([top, left, height, width])


def test_the_overlap_is_that_of_the_areas_that_the_views_show():
    side, n = 64, 12
    line = (torch.arange(side) + 0.5) / side * 255
    image = torch.stack(
        [line.expand(side, side), line[:, None].expand(side, side), torch.zeros(side, side)]
    )
    images = image.round().to(torch.uint8).expand(n, -1, -1, -1)
    views = Views(32, ViewSettings(operations="ae"), mean=(0, 0, 0), std=(1, 1, 1))
    drawn = views.draw(n, generator=torch.Generator().manual_seed(3))
    boxes = torch.stack(
        [torch.stack([box_of_view(v) for v in view]) for view in views(images, drawn)]
    )
    torch.testing.assert_close(boxes, drawn.boxes, atol=0.02, rtol=0)
    grid = torch.cartesian_prod(line / 255, line / 255)  # top to bottom, left to right
    ends = drawn.boxes[..., :2] + drawn.boxes[..., 2:]
    inside = ((grid > drawn.boxes[..., None, :2]) & (grid < ends[..., None, :])).all(-1)
    shared = (inside[0] & inside[1]).sum(-1) / (inside[0] | inside[1]).sum(-1)
    torch.testing.assert_close(drawn.iou(), shared, atol=0.05, rtol=0)


def test_pairs_are_those_of_the_method(data):
    method = made("uncertainty")  # adaptive ones are all the same before training
    pairs = crop_pairs(method, data, ViewSettings(), FEW)
    assert pairs.iou.shape == (6, 3)
    assert pairs.tau.shape == pairs.similarity.shape == (2, 6, 3)
    assert pairs.source == "training images of toy"
    assert (pairs.iou >= 0).all()
    assert (pairs.iou <= 1).all()
    again = crop_pairs(method, data, ViewSettings(), FEW)
    assert torch.equal(pairs.iou, again.iou)
    assert torch.equal(pairs.tau, again.tau)
    # Where crops are everything but alike in area and place, so are the pairs.
    same = crop_pairs(method, data, ViewSettings(operations="a", overlap=1.0), FEW)
    torch.testing.assert_close(same.iou, torch.ones(6, 3), atol=1e-4, rtol=0)
    torch.testing.assert_close(same.similarity, torch.ones(2, 6, 3), atol=1e-3, rtol=0)
    with pytest.raises(ValueError, match=r"all crops overlap by 1\.00"):
        crop_overlap(same)


@pytest.mark.parametrize(
    ("temperature", "method"),
    [("constant", "simclr"), ("isogclr", "simclr"), ("adaptive", "barlow")],
)
def test_without_temperatures_of_pairs_there_is_similarity(data, temperature, method):
    pairs = crop_pairs(made(temperature, method), data, None, FEW)
    assert pairs.tau is None
    found = crop_overlap(pairs)
    assert found.tau is found.tau_by_similarity is None
    assert len(found.similarity.of_heads) == 2


def test_what_has_no_pairs_is_refused(data):
    with pytest.raises(ValueError, match="not cropped"):
        crop_pairs(made(), data, ViewSettings(operations="bc"), FEW)
    with pytest.raises(ValueError, match="images must be at least 2"):
        CropSettings(images=1)


def test_bins_and_correlations_are_those_of_a_loop():
    generator = torch.Generator().manual_seed(0)
    iou = torch.rand(60, 2, generator=generator) * 0.9
    tau = 1 - iou + 0.2 * torch.rand(3, 60, 2, generator=generator)
    pairs = CropPairs(iou=iou, tau=tau, similarity=iou.expand(3, -1, -1), source="toy")
    found = crop_overlap(pairs)
    for i in range(BINS):
        rows = (iou >= i / BINS) & (iou < (i + 1) / BINS)
        assert found.counts[i] == rows.sum()
        for c in range(3):
            torch.testing.assert_close(found.tau.heads[c, i], tau[c][rows].mean(), equal_nan=True)
    assert found.counts[-1] == 0
    expected = spearmanr(tau.mean(0).flatten(), iou.flatten()).statistic
    assert found.tau.correlation.value == pytest.approx(expected, abs=1e-9)
    assert found.tau.correlation.low < expected < found.tau.correlation.high < -0.9
    assert found.similarity.correlation.value == pytest.approx(1)


def test_equal_values_share_a_rank_and_intervals_narrow_with_images():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(4, (400, 3), generator=generator)
    y = x + torch.randint(4, (400, 3), generator=generator)
    many = rank_correlation(x, y)
    expected = spearmanr(x.flatten(), y.flatten()).statistic
    assert many.value == pytest.approx(expected, abs=1e-9)
    few = rank_correlation(x[:40], y[:40])
    assert many.high - many.low < few.high - few.low
    # Pairs of an image that say the same are no more evidence than one.
    once = rank_correlation(x[:40, :1], y[:40, :1])
    thrice = rank_correlation(x[:40, :1].expand(-1, 3), y[:40, :1].expand(-1, 3))
    assert thrice.low == pytest.approx(once.low)
    assert thrice.high == pytest.approx(once.high)


def test_what_is_the_same_for_all_pairs_has_no_rank_correlation():
    x = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    none = rank_correlation(torch.ones(20, 2), x)
    assert math.isnan(none.value)
    assert str(none) == "none: all pairs are the same"
    tau = torch.stack([x, torch.ones(20, 2)])  # one head of two differs
    found = crop_overlap(CropPairs(iou=x, tau=tau, similarity=tau, source="toy"))
    assert found.tau.correlation.value == pytest.approx(1)
    assert math.isnan(found.tau.of_heads[1].value)


def test_the_command_writes_numbers_and_a_picture(tmp_path, capsys):
    pictures = picture_folder(tmp_path / "pictures", count=24, size=16)
    options = {"data": str(pictures), "image_size": 16, "workers": 0, "epochs": 1}
    options |= {"batch_size": 8, "probe": "none", "projector": (16, 8), "validation": 0}
    options |= {"temperature": "uncertainty"}  # adaptive ones are all the same before training
    pretrain(small_config("builtin-simclr-amcl", **options), tmp_path / "run")
    run = str(tmp_path / "run")
    assert main(["analyze", "overlap", run, "--images", "20", "--pairs", "2"]) == 0
    shown = capsys.readouterr().out
    assert "20 training images of pictures, 2 pairs of views of each" in shown
    kept = json.loads((tmp_path / "run" / "analysis" / module.JSON).read_text())
    assert sum(each["pairs"] for each in kept["bins"]) == 40
    assert len(kept["tau"]["heads"]) == 3
    assert f"{kept['tau']['rank_correlation']['value']:+.2f}" in shown
    with Image.open(tmp_path / "run" / "analysis" / module.PICTURE) as picture:
        assert picture.width > 600
    assert main(["analyze", "heads", run]) == 2
    assert "Only overlap looks at a run" in capsys.readouterr().err
    assert main(["analyze", "overlap", run, "--images", "1"]) == 2
    assert "--images must be at least 2" in capsys.readouterr().err
