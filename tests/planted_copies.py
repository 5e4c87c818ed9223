"""Pictures with planted copies, and settings of a quick curation."""

import shutil
from pathlib import Path

import torch
from PIL import Image

from amcl.curation import CurationSettings

QUICK = CurationSettings(pairs=2, clusters=4, label_first=5)


def smooth_picture(seed: int, size: int = 40) -> Image.Image:
    """A picture of a few smooth blobs of color."""
    generator = torch.Generator().manual_seed(seed)
    blobs = torch.rand(1, 3, 4, 4, generator=generator)
    pixels = torch.nn.functional.interpolate(blobs, size=(size, size), mode="bicubic")
    return Image.fromarray((pixels[0].clamp(0, 1).permute(1, 2, 0) * 255).byte().numpy())


def plant(folder: Path) -> Path:
    """Thirty pictures, two exact copies, a near one, and a file that is no picture."""
    for i in range(30):
        path = folder / "ab"[i % 2] / f"{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        smooth_picture(i).save(path)
    shutil.copy(folder / "a/00.png", folder / "b/bytes.png")
    smooth_picture(2).save(folder / "b/pixels.bmp")
    smooth_picture(4).save(folder / "b/near.jpg", quality=90)
    (folder / "broken.png").write_bytes(b"broken")
    return folder
