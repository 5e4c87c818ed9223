"""A curation of planted pictures, from beginning to end."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from pyarrow import parquet

from amcl.analysis.pairs import positives
from amcl.checkpoints.method import load_method
from amcl.curation import COLUMNS, CurationSettings, curate, read_curation
from amcl.curation import measure as measure_module
from amcl.curation.summary import summary
from amcl.errors import RunError
from amcl.metrics import features as features_module
from planted_copies import QUICK, plant, smooth_picture

CPU = {"workers": 0, "accelerator": "cpu"}


def row_of(curation, path):
    return curation["path"].index(path)


def lines(curation, name):
    return (curation.folder / f"{name}.txt").read_text().splitlines()


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_planted_copies_are_in_the_right_groups(curation):
    groups = [
        ("a/00.png", "b/bytes.png", "exact", "first by name of 2 copies"),
        ("b/pixels.bmp", "a/02.png", "exact", "least compressed of 2 copies"),
        ("a/04.png", "b/near.jpg", "near", "least compressed of 2 copies"),
    ]
    for kept, dropped, kind, reason in groups:
        i, j = row_of(curation, kept), row_of(curation, dropped)
        assert curation["duplicate_group"][i] == curation["duplicate_group"][j] is not None
        assert (curation["keep"][i], curation["keep"][j]) == (True, False)
        assert (curation["duplicate_kind"][i], curation["duplicate_kind"][j]) == ("", kind)
        assert curation["reason"][i] == reason
        assert curation["reason"][j].startswith(f"{kind} copy of {kept}")
        assert curation["nearest"][i] == dropped
    assert len(set(curation["duplicate_group"]) - {None}) == 3
    counts = curation.info["counts"]
    assert (counts["exact"], counts["near"], counts["groups"]) == (2, 1, 3)
    assert (counts["images"], counts["unreadable"], counts["keep"]) == (34, 1, 30)


def test_the_table_has_all_columns_as_they_are_defined(curation, planted):
    assert list(curation.table) == [name for name in COLUMNS if name != "selected"]
    row = row_of(curation, "b/near.jpg")
    assert curation["bytes"][row] == (planted / "b/near.jpg").stat().st_size
    assert (curation["width"][row], curation["height"][row]) == (40, 40)
    x = torch.nn.functional.normalize(curation.features(), dim=1)
    different = [i for i in range(33) if curation["duplicate_kind"][i] != "exact"]
    cosines = (x[row] @ x[[i for i in different if i != row]].T).topk(10).values
    assert curation["typicality"][row] == pytest.approx(cosines.mean().item(), abs=1e-5)
    assert curation["nearest_cosine"][row] == pytest.approx(cosines[0].item(), abs=1e-5)
    order = sorted(range(33), key=lambda i: curation["outlier_rank"][i])
    typical = [curation["typicality"][i] for i in order]
    assert typical == sorted(typical)
    assert set(curation["cluster"]) <= {1, 2, 3, 4}


def test_pairs_thresholds_and_the_histogram(curation):
    info = curation.info
    cosines = [each["cosine"] for each in info["thresholds"]]
    assert cosines == sorted(cosines)
    assert cosines[2] == info["threshold"]
    assert sum(info["histogram"]["counts"]) == 31  # exact copies count once
    x = torch.nn.functional.normalize(curation.features(), dim=1)
    for i, j, cosine in info["pairs"]:
        assert cosine == pytest.approx(float(x[i] @ x[j]), abs=1e-5)
        assert cosine >= cosines[0]
    paths = {frozenset(curation["path"][row] for row in pair[:2]) for pair in info["pairs"]}
    assert {"a/04.png", "b/near.jpg"} in paths


def test_lists_have_each_image_once(curation):
    keep, drop = lines(curation, "keep"), lines(curation, "drop")
    assert sorted(keep + drop) == sorted(curation["path"])
    assert sorted(drop) == ["a/02.png", "b/bytes.png", "b/near.jpg"]
    assert lines(curation, "review")[0].split("\t")[0] == "broken.png"
    assert "not an image" in lines(curation, "review")[0]
    assert len(lines(curation, "label_first")) == 5
    assert set(lines(curation, "label_first")) <= set(keep)


def test_parquet_and_csv_hold_the_same(curation):
    table = parquet.read_table(curation.folder / "curation.parquet")
    assert table.column_names == list(curation.table)
    for name, values in table.to_pydict().items():
        same = pytest.approx(curation[name]) if COLUMNS[name] is float else curation[name]
        assert values == same, name


def test_uncertainties_are_temperatures_of_positive_pairs(curation, trained, monkeypatch):
    """With one pair and a whole image as its view, it is τ⁺ of the image with itself."""
    method = load_method(trained)
    low, high = method.loss.temperature.bounds()
    values = curation.tensor("uncertainty")
    assert (values >= low).all()
    assert (values <= high).all()
    assert values.unique().numel() > 10
    copies = [row_of(curation, path) for path in ("a/00.png", "b/bytes.png")]
    # Views differ by image, so that copies come close without being the same.
    assert (values[copies[0]] - values[copies[1]]).abs() < values.std() * 3


def test_uncertainty_of_a_batch_equals_pair_by_pair(trained, planted):
    from amcl.curation.uncertainty import ViewPairs
    from amcl.data import MemoryImages
    from amcl.seeds import generator
    from amcl.views import Views

    method = load_method(trained)
    pixels = torch.randint(256, (6, 3, 24, 24), dtype=torch.uint8)
    views = Views(16)
    pairs = ViewPairs(method, views, 2, "cpu")
    pairs.fill_bank(MemoryImages(pixels), 0, 0)
    out = pairs(pixels, None, torch.arange(6), generator(3))
    random = generator(3)
    taus, positive, negative = [], [], []
    with torch.no_grad():
        for _ in range(2):
            z0, z1 = method.compared(list(views(pixels, views.draw(6, generator=random))))
            both = [torch.cat([z0, pairs.bank_pairs], 1), torch.cat([z1, pairs.bank], 1)]
            taus.append(positives(method.loss.pair_matrix(*both).tau)[:, :6])
            positive.append(positives(method.loss.pair_matrix(z0, z1).s).mean(0))
            negative.append(method.loss.cosines(z0, pairs.bank).mean(0))
    taus = torch.stack(taus)
    torch.testing.assert_close(out["tau"], taus.mean((0, 1)))
    torch.testing.assert_close(out["tau_spread"], (taus[0] - taus[1]).abs().mean(0) / 2)
    torch.testing.assert_close(out["positive"], torch.stack(positive).mean(0))
    others = torch.stack(negative).mean(0).masked_fill(torch.eye(6, dtype=torch.bool), -torch.inf)
    torch.testing.assert_close(out["negative"], others.sort(descending=True).values)


def test_uncertainty_does_not_depend_on_the_other_images_of_a_batch():
    """Temperatures are measured from the mean of all projections: of one image, from itself."""
    from amcl.backbones import Backbone, BackboneSettings
    from amcl.curation.uncertainty import ViewPairs
    from amcl.data import MemoryImages
    from amcl.methods import make_method
    from amcl.views import Views
    from factories import method_settings

    settings = method_settings("simclr", heads=2, projector=(8, 6), temperature="adaptive")
    method = make_method(settings, Backbone(BackboneSettings(name="resnet10t", width=0.125), 16))
    indices = torch.arange(200)
    projections = torch.randn(2, 2, 200, 6)  # far apart, as after training
    projections[:, :, 150:] += 1  # the last images are of one class

    class Known(ViewPairs):
        def _compared(self, pixels, shapes, random):
            return projections[:, :, pixels[:, 0, 0, 0].long()].unbind(0)

    pairs = Known(method, Views(16), 1, "cpu")
    pixels = indices.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 16, 16)
    pairs.fill_bank(MemoryImages(pixels.contiguous()), 0, 0)
    whole = pairs(pixels, None, indices, torch.Generator())["tau"]
    assert whole.std() > 0.001
    for rows in (slice(199, 200), slice(175, 200)):
        part = pairs(pixels[rows], None, indices[rows], torch.Generator())["tau"]
        assert (part - whole[rows]).abs().max() < whole.std() / 2


def test_a_second_call_is_complete_and_other_settings_are_named(curation, trained, planted):
    before = files_of(curation.folder)
    again = curate(trained, str(planted), curation.folder, QUICK, **CPU)
    assert again.table == curation.table
    other = replace(QUICK, threshold=0.9, seed=1)
    with pytest.raises(RunError, match=r"--threshold was none and is now 0\.9.*--seed was 0"):
        curate(trained, str(planted), curation.folder, other, **CPU)
    with pytest.raises(RunError, match="MODEL has changed"):
        curate("resnet10t", str(planted), curation.folder, QUICK, **CPU)
    assert files_of(curation.folder) == before


def test_other_images_in_the_folder_are_named(trained, tmp_path):
    pictures = plant(tmp_path / "pictures")
    curate(trained, str(pictures), tmp_path / "out", QUICK, **CPU)
    smooth_picture(99).save(pictures / "new.png")
    with pytest.raises(RunError, match="the images of --data differ"):
        curate(trained, str(pictures), tmp_path / "out", QUICK, **CPU)


def test_a_folder_with_other_files_is_refused(trained, planted, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        curate(trained, str(planted), tmp_path, QUICK, **CPU)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_resumed_equals_uninterrupted(curation, trained, planted, tmp_path, monkeypatch):
    """Parts of eight images; the third cannot be written, and then it can."""
    monkeypatch.setattr(measure_module, "PART", 8)
    run = shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("features"))
    write, parts = measure_module.whole_file, []

    def fail(path):
        parts.append(path)
        if len(parts) == 6:  # facts and features of the third part
            raise KeyboardInterrupt
        return write(path)

    whole = curate(run, str(planted), tmp_path / "whole", QUICK, **CPU)
    shutil.rmtree(run / "features")
    monkeypatch.setattr(measure_module, "whole_file", fail)
    with pytest.raises(KeyboardInterrupt):
        curate(run, str(planted), tmp_path / "out", QUICK, **CPU)
    resumed = curate(run, str(planted), tmp_path / "out", QUICK, **CPU)
    assert parts.count(parts[0]) == 1
    assert resumed.table == whole.table
    assert resumed.info == whole.info
    names = {path.name for path in (tmp_path / "out/measured/images").iterdir()}
    assert all(name.endswith(".facts.safetensors") for name in names)


def test_features_are_those_of_embed_and_computed_once(curation, trained, planted, monkeypatch):
    assert Path(curation.info["features"]).parent == trained.resolve() / "features"
    monkeypatch.setattr(features_module, "stream", None)  # nothing is decoded again
    from amcl.checkpoints import open_model
    from amcl.evaluation.embed import embed

    out = curation.folder.parent / "features.npz"
    features = embed(open_model(trained), str(planted), out, accelerator="cpu", workers=0)
    assert torch.equal(features.values, curation.features())


def test_measurements_are_taken_over(curation, trained, planted, tmp_path, monkeypatch):
    monkeypatch.setattr(measure_module, "stream", None)
    lowest = curation.info["thresholds"][0]["cosine"]
    settings = replace(QUICK, threshold=lowest, select=4, by="uncertain")
    other = curate(trained, str(planted), tmp_path / "out", settings, reuse=curation.folder, **CPU)
    assert other["uncertainty"] == curation["uncertainty"]
    assert other.info["threshold"] == lowest
    chosen = [other["uncertainty"][row] for row in other.rows("keep")]
    selected = lines(other, "selected")
    assert [other["selected"][row_of(other, path)] for path in selected] == [1, 2, 3, 4]
    assert [other["uncertainty"][row_of(other, path)] for path in selected] == sorted(chosen)[
        :-5:-1
    ]


def test_measurements_of_others_are_not_taken_over(curation, trained, planted, tmp_path):
    before = files_of(curation.folder)
    out = tmp_path / "out"
    for changed, message in (
        ({"seed": 1}, "--seed was 0 and is now 1"),
        ({"pairs": 3}, "--pairs was 2 and is now 3"),
    ):
        settings = replace(QUICK, **changed)
        with pytest.raises(RunError, match=f"cannot serve: {message}. Leave out --reuse"):
            curate(trained, str(planted), out, settings, reuse=curation.folder, **CPU)
    with pytest.raises(RunError, match="cannot serve: MODEL has changed"):
        curate("test_vit", str(planted), out, QUICK, reuse=curation.folder, **CPU)
    assert not out.exists()
    assert files_of(curation.folder) == before


def test_a_backbone_alone_has_no_uncertainties(planted, tmp_path, caplog):
    caplog.set_level("INFO", "amcl")
    curation = curate(
        "test_vit", str(planted), tmp_path / "out", CurationSettings(), canvas=40, **CPU
    )
    assert {"uncertainty", "uncertainty_spread", "ambiguity"} == set(curation.info["left_out"])
    assert sum("without uncertainty" in message for message in caplog.messages) == 1
    with pytest.raises(KeyError, match="a backbone alone"):
        curation["uncertainty"]
    assert curation.info["counts"]["exact"] == 2
    assert Path(curation.info["features"]).parent == tmp_path / "out/features"


def test_the_rule_uncertain_needs_a_run_before_anything_is_measured(planted, tmp_path):
    settings = CurationSettings(select=3, by="uncertain")
    with pytest.raises(ValueError, match=r"--by uncertain needs uncertainties.*a backbone alone"):
        curate("test_vit", str(planted), tmp_path / "out", settings, **CPU)
    assert not (tmp_path / "out").exists()


def test_a_kind_of_links_without_links_is_an_error(planted, tmp_path):
    with pytest.raises(ValueError, match="--link-kind hard is the kind of the links of --link"):
        curate("test_vit", str(planted), tmp_path / "out", link_kind="hard", **CPU)
    assert not (tmp_path / "out").exists()


def test_links_among_the_images_are_refused(planted, tmp_path):
    """They would be images of the next command, which could not resume."""
    for link in (planted / "a/links", planted):
        with pytest.raises(ValueError, match="where the links would be images"):
            curate("test_vit", str(planted), tmp_path / "out", link=link, **CPU)
    assert not (planted / "a/links").exists()


def test_the_summary_names_what_is_least_typical_and_where_links_and_exports_are(planted, tmp_path):
    links = tmp_path / "links"
    curation = curate(
        "test_vit", str(planted), tmp_path / "out", QUICK, link=links, export=["coco"], **CPU
    )
    text = summary(curation)
    assert f"links to the images that are kept: {links}" in text
    assert f"for coco: {tmp_path / 'out/exports'}" in text
    assert "--link NEW_FOLDER" not in text
    assert len(list(links.rglob("*.*"))) == len(curation.rows("keep"))
    outliers = curation.info["counts"]["outliers"]
    first = curation["path"][curation["outlier_rank"].index(1)]
    table = {**curation.table, "outlier": [False] * len(curation)}
    none = {**curation.info, "counts": {**curation.info["counts"], "outliers": 0}}
    assert f"least typical: {first}," in summary(replace(curation, table=table, info=none))
    assert ("least typical" in text) == (outliers == 0)


def test_one_picture_and_its_copies(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    smooth_picture(0).save(folder / "a.png")
    shutil.copy(folder / "a.png", folder / "b.png")
    curation = curate("test_vit", str(folder), tmp_path / "out", **CPU)
    assert lines(curation, "keep") == ["a.png"]
    assert curation["nearest"] == ["b.png", "a.png"]
    assert curation["typicality"] == [1, 1]


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.png").write_bytes(b"no")
    with pytest.raises(ValueError, match="None of the 1 image files can be read"):
        curate("test_vit", str(tmp_path / "pictures"), tmp_path / "out", **CPU)


def test_pictures_that_differ_in_a_pixel_are_no_exact_copies(tmp_path):
    """They look the same at the size that images are measured at."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, value in (("a.png", 0), ("b.png", 1)):
        picture = Image.new("RGB", (900, 900))
        picture.putpixel((450, 450), (value, 0, 0))
        picture.save(folder / name)
    curation = curate("test_vit", str(folder), tmp_path / "out", canvas=32, **CPU)
    assert curation.info["counts"]["exact"] == 0
    assert curation.info["counts"]["near"] == 1


def test_damaged_results_are_errors(curation, tmp_path):
    copy = shutil.copytree(curation.folder, tmp_path / "copy")
    info = json.loads((copy / "curation.json").read_text())
    (copy / "curation.json").write_text(json.dumps({**info, "pairs": [[0, 99, 0.5]]}))
    with pytest.raises(ValueError, match="a pair is of row 99"):
        read_curation(copy)
    (copy / "curation.json").unlink()
    with pytest.raises(RunError, match=r"no curation\.json"):
        read_curation(copy)


@pytest.mark.parametrize("text", ["", "x\n1\n", "path,width\na\n", "path,width\na,b\n"])
def test_damaged_tables_are_errors(curation, tmp_path, text):
    copy = shutil.copytree(curation.folder, tmp_path / "copy")
    (copy / "curation.csv").write_text(text)
    with pytest.raises(ValueError, match="damaged"):
        read_curation(copy)
