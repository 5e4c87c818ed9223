"""The ONNX file of an export."""

import warnings

import pytest
import torch

from amcl.checkpoints import onnx_file, open_model
from amcl.checkpoints.export import export
from amcl.errors import RunError
from exports import PLAIN, listing

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
    with pytest.raises(RunError, match=r"^onnxruntime .*\bONNX\b"):
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
