"""The form of the images that a run has been trained on, which a resumed run keeps."""

from dataclasses import dataclass, replace
from typing import Any, NotRequired, TypedDict

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import DataSettings
from amcl.data.images import PerChannel
from amcl.data.pixel_format import PixelFormat
from amcl.errors import RunError
from amcl.text_files import require

Normalization = tuple[PerChannel, PerChannel]


@dataclass(frozen=True)
class Trained:
    """Form of the images of a run: the format of pixels, mean and standard deviation."""

    pixels: PixelFormat
    normalization: Normalization

    def for_settings(self, settings: DataSettings) -> tuple[PixelFormat, Normalization]:
        """Return the form for settings that may have been changed since.

        Raises:
            RunError: They ask for another number of channels than the network has.
        """
        pixels = self.pixels
        if settings.channels not in ("auto", pixels.channels):
            raise RunError(
                f"--channels {settings.channels}: the run is trained on images of "
                f"{pixels.channels} channels. Leave it out, or start a new run."
            )
        if settings.value_range is not None:
            pixels = replace(pixels, value_range=settings.value_range)
        return pixels, self.normalization


class _Metadata(TypedDict):
    """What the checkpoint of a run says of its images."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    pixels: NotRequired[dict[str, Any]]


def trained_on(folder: RunFolder) -> Trained | None:
    """Return the form of the images of a run; None if it has no checkpoint yet.

    Args:
        folder: The run folder.

    Raises:
        RunError: The checkpoint says something else.
    """
    trained = folder.read_trained() or folder.first_stage.read_trained()
    if not trained:
        return None
    where = f"the checkpoint in {folder.path}"
    try:
        require(trained, _Metadata, where)
        pixels = PixelFormat.from_metadata(trained, where)
    except ValueError as error:
        raise RunError(str(error)) from None
    return Trained(pixels, (tuple(trained["mean"]), tuple(trained["std"])))
