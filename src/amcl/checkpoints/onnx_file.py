"""ONNX files of backbones, checked against torch."""

import copy
import importlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch

from amcl.backbones import Backbone
from amcl.errors import RunError, first_line
from amcl.extras import missing, needed
from amcl.seeds import generator

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TOLERANCE = 1e-3  # of the largest feature: runtimes add in other orders


def require_onnx() -> None:
    """Raise an error that says what to install, if a package is missing."""
    if packages := missing(*PACKAGES):
        raise RunError(needed("an ONNX file", ", ".join(packages), "onnx"))


def write_onnx(backbone: Backbone, path: Path, metadata: Mapping[str, Any]) -> None:
    """Write a backbone to a new file: "images" (batch, C, S, S), normalized, to "features".

    The batch may have any size. The file's metadata say what the input is.

    Args:
        backbone: The network.
        path: The file.
        metadata: What the file says of its input, such as mean and std: plain values by name,
            which it holds as JSON.

    Raises:
        RunError: If a package is missing, or if onnxruntime computes other features than torch.
    """
    require_onnx()
    plain = copy.deepcopy(backbone).cpu().eval()
    images = torch.zeros(2, plain.channels, plain.image_size, plain.image_size)
    try:
        with _quiet():
            torch.onnx.export(
                plain,
                (images,),
                path,
                input_names=["images"],
                output_names=["features"],
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                external_data=False,
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever a network may do that ONNX cannot
        name = plain.settings.name
        raise RunError(f"torch could not write {name} as ONNX: {first_line(error)}") from error
    _describe(path, metadata)
    _check(plain, path)


def _describe(path: Path, metadata: Mapping[str, Any]) -> None:
    """Add metadata to a file."""
    onnx = importlib.import_module("onnx")
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {name: json.dumps(v) for name, v in metadata.items()})
    onnx.save(model, path)


def _check(backbone: Backbone, path: Path) -> None:
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for n in (1, 3):
        shape = (n, backbone.channels, backbone.image_size, backbone.image_size)
        images = torch.randn(shape, generator=generator("onnx", n))
        with torch.no_grad():
            expected = backbone(images)
        features = torch.from_numpy(session.run(["features"], {"images": images.numpy()})[0])
        difference = float("inf")
        if features.shape == expected.shape:
            difference = (features - expected).abs().max().item()
        if not difference <= _TOLERANCE * expected.abs().max().item():
            raise RunError(
                f"onnxruntime computes other features than torch for {n} images (difference "
                f"{difference:.2g}): the ONNX file is not kept."
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the messages of torch on the steps of an export."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
