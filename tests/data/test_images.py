import pytest
import torch

from amcl.data import DataSet, FileImages, Labeled, MemoryImages, Probe, UnreadableImage


def numbered(n=6, side=4):
    """Images whose pixels all have the value of their index."""
    values = torch.arange(n, dtype=torch.uint8).view(n, 1, 1, 1)
    return values.expand(n, 3, side, side).clone()


def test_subsets_of_subsets_keep_their_order():
    shapes = torch.arange(12).view(6, 2)
    images = MemoryImages(numbered(), shapes)
    part = images.subset(torch.tensor([5, 3, 1])).subset(torch.tensor([2, 0]))
    assert len(part) == 2
    assert part.canvas == (4, 4)
    assert part[torch.tensor([0, 1, 1])][:, 0, 0, 0].tolist() == [1, 5, 5]
    assert part.shapes.tolist() == [[2, 3], [10, 11]]
    assert images.subset(torch.tensor([0])).shapes.tolist() == [[0, 1]]


def test_subsets_share_their_bytes():
    pixels = numbered()
    part = MemoryImages(pixels).subset(torch.tensor([4]))
    pixels[4] = 99
    assert part[torch.tensor([0])].unique().tolist() == [99]
    assert part.shapes is None


def test_transposed_pixels_come_out_contiguous():
    images = MemoryImages(numbered().transpose(2, 3))
    assert images[torch.tensor([1, 0])].is_contiguous()


@pytest.mark.parametrize(
    "pixels", [torch.zeros(2, 3, 4, 4).double(), torch.zeros(2, 4, 4, 3, dtype=torch.uint8)]
)
def test_pixels_are_of_a_known_type_channels_first(pixels):
    known = r"pixels must be uint8, uint16 or float32 \(N, C, H, W\), got .*a plane for each"
    with pytest.raises(ValueError, match=known):
        MemoryImages(pixels)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float32])
def test_images_have_any_number_of_channels(dtype):
    images = MemoryImages(torch.arange(2 * 5 * 16).view(2, 5, 4, 4).to(dtype))
    part = images.subset(torch.tensor([1]))
    assert (part.channels, part.dtype) == (5, dtype)
    assert part[torch.tensor([0])].dtype == dtype
    assert part[torch.tensor([0])].tolist() == images[torch.tensor([1])].tolist()
    known = {"name": "x", "train": images, "probe": None, "image_size": 4}
    data = DataSet(**known, mean=(0.5,) * 5, std=(0.5,) * 5)
    assert data.channels == 5
    with pytest.raises(ValueError, match=r"std must be 5 numbers, one for each channel .*, got 3"):
        DataSet(**known, mean=(0.5,) * 5, std=(0.5,) * 3)


def test_fingerprints_tell_types_and_channels_apart():
    zeros = torch.zeros(2, 3, 4, 4)
    images = [
        MemoryImages(zeros.to(torch.uint8)),
        MemoryImages(zeros.to(torch.uint8).view(2, 3, 2, 8)),
        MemoryImages(zeros.to(torch.uint16)),
        MemoryImages(zeros.to(torch.uint8).view(6, 1, 4, 4)),
    ]
    assert len({each.fingerprint() for each in images}) == len(images)


def test_shapes_and_labels_fit_the_images():
    with pytest.raises(ValueError, match=r"shapes must be \(N, 2\) with N = 6, got \(5, 2\)"):
        MemoryImages(numbered(), torch.zeros(5, 2))
    with pytest.raises(ValueError, match=r"labels must be \(N,\) with N = 6, got \(7,\)"):
        Labeled(MemoryImages(numbered()), torch.zeros(7))


def test_files_are_decoded_on_demand(tmp_path, picture):
    paths = [str(picture(tmp_path / f"é{i}.png", seed=i, width=16, height=16)) for i in range(3)]
    images = FileImages(paths, 16)
    assert (len(images), images.canvas, images.shapes) == (3, (16, 16), None)
    assert images.path(2) == paths[2]
    both = images[torch.tensor([2, 0])]
    part = images.subset(torch.tensor([2, 0]))
    assert torch.equal(part[torch.arange(2)], both)
    assert not torch.equal(both[0], both[1])
    (tmp_path / "é0.png").write_bytes(b"")
    with pytest.raises(UnreadableImage, match=r"é0\.png: empty file"):
        images[torch.tensor([0])]
    with pytest.raises(ValueError, match=r"\bcanvas\b.*\b0\b"):
        FileImages(paths, 0)


def test_description():
    images = MemoryImages(numbered())
    labeled = Labeled(images, torch.zeros(6, dtype=torch.long))
    known = {"name": "x", "train": images, "image_size": 4}
    known |= {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    plain = DataSet(probe=None, **known).describe()
    assert plain.startswith("x: 6 images to pre-train on, 4×4 pixels, in memory; views of 4×4")
    assert "no labels" in plain
    supervised = DataSet(probe=None, labels=labeled.labels, **known).describe()
    assert supervised.startswith("x: 6 images to pre-train on with their labels, 4×4 pixels")
    assert "no images held out: no accuracy is shown" in supervised
    probe = Probe(labeled, labeled.subset(torch.arange(1)), ("a", "b"), "test")
    told = DataSet(probe=probe, unreadable=(("f.jpg", "empty"),), notes=("so",), **known).describe()
    assert "2 classes: probed with 1 image held out (test) against a bank of 6" in told
    assert told.splitlines()[2:] == ["so", "1 unreadable file skipped, the first: f.jpg (empty)"]
