"""Sections of a configuration: data, optimizer, run and hardware."""

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import tyro

from amcl.data import absolute_source, source_name
from amcl.data.pixel_format import PixelFormat
from amcl.files import expand_home
from amcl.schedule import half_cosine, lr_factor
from amcl.settings import (
    Rule,
    choose,
    non_negative,
    non_negative_int,
    positive_number,
    whole_number,
)

PLACEHOLDER = "FOLDER"
"""The data of recipes for folders, until a folder is named."""

# Metadata of fields: what a setting has an effect on. All others change what is learned.
NO_EFFECT = {"effect": "none"}
"""On neither what is learned nor what is measured: a resumed run may change it."""
MEASURING = {"effect": "measuring"}
"""On what is measured of a run, and not on what it learns."""

_MAX_THREADS = 1024  # OpenMP ends the process if it cannot start as many as it is asked for
_MAX_LR = 1e9  # beyond it, a step may not be a float32 number


def check_threads(name: str, threads: int) -> None:
    """Raise an error unless torch can compute with that many CPU threads.

    Args:
        name: The setting or option, for the error.
        threads: Number of threads; 0 leaves it to torch.
    """
    fix = "0 leaves it to torch"
    if non_negative_int(name, threads, fix) > _MAX_THREADS:
        raise ValueError(f"{name} must be at most {_MAX_THREADS}, got {threads}: {fix}.")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What is trained on."""

    source: Annotated[str, tyro.conf.arg(name="data", metavar="FOLDER|NAME")] = "builtin"
    """A folder of images, shards ('shards/{0000..0999}.tar'), tables (.parquet, .arrow), a named
    set (cifar10, cifar100, stl10, tinyimagenet, imagenet), or builtin."""
    data_root: str | None = field(default=None, metadata=NO_EFFECT)
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    image_size: int | None = None
    """Pixels a side of the views; none: the set's own."""
    canvas: int | None = None
    """Pixels a side that a folder's pictures are kept at; none: 1.5 times the image size."""
    channels: int | Literal["auto"] = "auto"
    """Channels of the images: 1 (gray), 3 (RGB), 4 (RGBA), any number of bands; auto: 8-bit
    pictures as RGB, others as most files have them."""
    value_range: tuple[float, float] | None = None
    """Values that count as 0 and 1, of images with more than 8 bits; none: by the bits in use."""
    labels: Literal["auto", "folders", "none"] = "auto"
    """Sub-folders are classes, for probes and for methods that learn from labels; auto: where each
    image lies in one of them."""
    probe: Literal["validation", "test", "none"] = "validation"
    """What is watched while training: images held out of the training split, or the test split."""
    validation: int = 1000
    """Number of images held out of training, at most a tenth of the set; 0: none."""
    subset: int | None = None
    """Number of images to train on, each class by its share, the same for every seed; none: all."""
    memory: float = field(default=4.0, metadata=NO_EFFECT)
    """GiB up to which a set is kept decoded in memory; larger ones are decoded ahead of use."""
    workers: int = field(default=2, metadata=NO_EFFECT)
    """Processes that decode a folder's pictures."""

    def __post_init__(self) -> None:
        # Runs are evaluated and resumed from other working folders, too.
        if self.source != PLACEHOLDER:
            object.__setattr__(self, "source", absolute_source(self.source))
        if self.data_root:
            root = expand_home(self.data_root).absolute()
            object.__setattr__(self, "data_root", str(root))
        choose("labels", self.labels, ("auto", "folders", "none"))
        choose("probe", self.probe, ("validation", "test", "none"))
        non_negative("memory", self.memory, "it is in GiB; 0 keeps nothing in memory")
        for name in ("image_size", "canvas"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), "it is in pixels")
        if self.channels != "auto":
            whole_number("channels", self.channels, "give a number, or auto")
        if self.value_range is not None:
            PixelFormat(value_range=self.value_range)  # checks it
        if self.subset is not None:
            whole_number("subset", self.subset, "leave it out to train on all images")
        non_negative_int("validation", self.validation, "0 holds none out")
        non_negative_int("workers", self.workers, "0 decodes in the training process")

    @property
    def name(self) -> str:
        """Name of the data set; of a folder, the last part of its path."""
        return source_name(self.source)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How long, and what is kept and shown."""

    epochs: int = 200
    """Passes over the training images."""
    batch_size: int = 256
    """Images a step, over all processes; each gives two views (MAE: one)."""
    fit: tuple[str, ...] | None = None
    """Options that are changed to suit the images: lowered where they are few; those of views where
    they are not RGB. By default those that are neither typed nor read from a file."""
    accumulate: int = 1
    """Number of parts that a batch is cut into, one after the other, to save memory. Negatives are
    those of a part."""
    init: str | None = None
    """Start from trained weights: a run folder, a checkpoint, a file of weights (with --backbone),
    a model of `amcl models`, timm:NAME, hf:OWNER/NAME or torchvision:NAME; none: from random
    weights (LGP: from a run of MAE of its own)."""
    seed: int = 0
    """Weights, order, views: everything random follows from it."""
    probe_every: int = field(default=10, metadata=MEASURING)
    """Epochs between probes: kNN where there are labels, spread of features, temperatures."""
    knn_k: int | None = field(default=None, metadata=MEASURING)
    """Neighbors of the kNN probe; none: the median size of the classes, at most 200."""
    save_every: int = field(default=1, metadata=NO_EFFECT)
    """Epochs between checkpoints; epochs of a few seconds share one."""
    save_minutes: float = field(default=10.0, metadata=NO_EFFECT)
    """Minutes between checkpoints within an epoch."""
    keep_every: int = field(default=0, metadata=NO_EFFECT)
    """Epochs between checkpoints that are kept for good; 0: only the newest is kept."""
    keep_last: int = field(default=2, metadata=NO_EFFECT)
    """Number of last checkpoints to keep: where the newest is damaged, the run resumes from the one
    before it."""
    log_every: int = field(default=50, metadata=NO_EFFECT)
    """Steps between lines of metrics."""
    tensorboard: bool = field(default=False, metadata=NO_EFFECT)
    """Write metrics for TensorBoard too (extra: tensorboard)."""
    wandb: str | None = field(default=None, metadata=NO_EFFECT)
    """Send metrics to this project of Weights & Biases (extra: wandb)."""
    mlflow: str | None = field(default=None, metadata=NO_EFFECT)
    """Send metrics to this experiment of MLflow (extra: mlflow)."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate", "probe_every", "save_every"):
            whole_number(name, getattr(self, name))
        if self.knn_k is not None:
            whole_number("knn_k", self.knn_k, "leave it out to follow the size of classes")
        whole_number("log_every", self.log_every)
        whole_number("keep_last", self.keep_last)
        non_negative("save_minutes", self.save_minutes, "0 saves after every step")
        non_negative_int("keep_every", self.keep_every, "0 keeps the newest only")
        if self.batch_size % self.accumulate:
            raise ValueError(
                f"batch_size={self.batch_size} does not divide into accumulate={self.accumulate} "
                "equal parts: choose a multiple."
            )


@dataclass(frozen=True, kw_only=True)
class HardwareSettings:
    """What it runs on. None of this changes what is learned, so a resumed run may change it."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = field(default="auto", metadata=NO_EFFECT)
    """auto: a GPU where there is one."""
    devices: int = field(default=0, metadata=NO_EFFECT)
    """Processes a machine, one a GPU; 0: every GPU, or one process on a CPU."""
    nodes: int = field(default=1, metadata=NO_EFFECT)
    """Machines, under torchrun or SLURM."""
    strategy: Literal["ddp", "fsdp"] = field(default="ddp", metadata=NO_EFFECT)
    """How several processes share the model. ddp: each has all of it; fsdp: each has a share of the
    weights, gradients and optimizer states, for models too large for one GPU."""
    precision: Literal["auto", "32", "16", "bf16"] = field(default="auto", metadata=NO_EFFECT)
    """auto: bf16 where a GPU has it, else 32. On a CPU always 32."""
    channels_last: bool = field(default=True, metadata=NO_EFFECT)
    """Keep images channel by channel innermost, which convolutions like."""
    sync_norm: bool = field(default=False, metadata=NO_EFFECT)
    """Batch norm over the images of all processes."""
    activation_checkpointing: bool = field(default=False, metadata=NO_EFFECT)
    """Keep only the inputs of the backbone's blocks until the backward pass, which computes them
    again: less memory, longer steps, the same gradients."""
    compile: bool = field(default=False, metadata=NO_EFFECT)
    """Compile the backbone with torch.compile."""
    threads: int = field(default=0, metadata=NO_EFFECT)
    """CPU threads a process; 0: as torch chooses."""

    def __post_init__(self) -> None:
        choose("accelerator", self.accelerator, ("auto", "cpu", "cuda", "mps"))
        choose("strategy", self.strategy, ("ddp", "fsdp"))
        choose("precision", self.precision, ("auto", "32", "16", "bf16"))
        whole_number("nodes", self.nodes)
        non_negative_int("devices", self.devices, "0 takes every GPU, or one process on a CPU")
        check_threads("threads", self.threads)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Optimizer, learning rate and its schedule."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=("sgd_momentum",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] in ("sgd", "lars"),
            belongs="SGD and LARS (--optimizer sgd)",
        ),
        Rule(
            fields=("adam_betas",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] == "adamw",
            belongs="AdamW (--optimizer adamw)",
        ),
        Rule(
            fields=("lars_trust",),
            depends=("optimizer",),
            used=lambda values: values["optimizer"] == "lars",
            belongs="LARS (--optimizer lars)",
        ),
        Rule(
            fields=("final_lr",),
            depends=("schedule",),
            used=lambda values: values["schedule"] == "cosine",
            belongs="the cosine schedule (--schedule cosine)",
        ),
        Rule(
            fields=("freeze_epochs",),
            depends=("init",),
            used=lambda values: values["init"] is not None,
            belongs="runs that start from trained weights (--init)",
        ),
        Rule(
            fields=("freeze_depth",),
            depends=("freeze_epochs",),
            used=lambda values: bool(values["freeze_epochs"]),
            belongs="frozen layers (--freeze-epochs 1)",
        ),
    )

    name: Annotated[Literal["sgd", "lars", "adamw"], tyro.conf.arg(name="optimizer")] = "sgd"
    """SGD with momentum, LARS for large batches, AdamW."""
    lr: float = 0.06
    """The learning rate; see lr_scaling."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """none: lr as it is; linear: lr·B/256; sqrt: lr·√(B/256), for batches of B images."""
    sgd_momentum: float = 0.9
    """Momentum of SGD and LARS."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's two betas."""
    weight_decay: float = 5e-4
    """Weight decay (SGD and LARS: added to the gradient; AdamW: decoupled)."""
    final_weight_decay: float | None = None
    """Weight decay moves to this along a half cosine over the run; none: it stays."""
    decay_norm_and_bias: bool = False
    """Decay norms and biases too, as the original SGD recipes do."""
    bias_lr_scale: float = 1.0
    """Norms and biases learn at lr times this."""
    lars_trust: float = 0.001
    """LARS: the step of a layer is this share of its weights' norm, times lr."""
    warmup_epochs: float = 0.0
    """The learning rate rises from 0 over these epochs."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """After the warm-up."""
    final_lr: float = 0.0
    """Where the cosine ends, as a share of lr."""
    layer_decay: float | None = None
    """Each layer of the backbone learns at this times the rate of the one behind it; none: all at
    the same."""
    freeze_epochs: float | None = None
    """The backbone is frozen in these first epochs, while heads learn (with --init); none: not."""
    freeze_depth: float | None = None
    """Share of the backbone's layers, from the input on, that are frozen; none: all."""
    clip: float = 0.0
    """Clip the gradient to this norm; 0: not at all."""

    def __post_init__(self) -> None:
        choose("optimizer", self.name, ("sgd", "lars", "adamw"))
        choose("lr_scaling", self.lr_scaling, ("none", "linear", "sqrt"))
        choose("schedule", self.schedule, ("cosine", "constant"))
        if positive_number("lr", self.lr) > _MAX_LR:
            raise ValueError(f"lr must be at most {_MAX_LR:g}, got {self.lr:g}: 0.06 is usual.")
        positive_number("lars_trust", self.lars_trust)
        non_negative("sgd_momentum", self.sgd_momentum, "0.9 is usual")
        for name in ("layer_decay", "freeze_depth"):
            value = getattr(self, name)
            if value is not None and positive_number(name, value) > 1:
                raise ValueError(f"{name} must lie in (0, 1], got {value:g}: leave it out for 1.")
        if self.freeze_epochs is not None:
            non_negative("freeze_epochs", self.freeze_epochs, "0 freezes nothing")
        for name in ("weight_decay", "warmup_epochs", "final_lr", "clip", "bias_lr_scale"):
            non_negative(name, getattr(self, name), "0 switches it off")
        if self.final_weight_decay is not None:
            non_negative("final_weight_decay", self.final_weight_decay, "0 switches it off")

    def decay(self, progress: float) -> float:
        """Return the weight decay after a share of the run, from 0 to 1."""
        if self.final_weight_decay is None:
            return self.weight_decay
        return half_cosine(self.weight_decay, self.final_weight_decay, progress)

    def factor(self, epoch: float, epochs: float) -> float:
        """Return the learning rate after `epoch` of `epochs`, as a share of its peak."""
        return lr_factor(epoch, epochs, self.warmup_epochs, self.schedule, self.final_lr)

    def peak_rate(self, batch_size: int) -> float:
        """Return the learning rate at the end of the warm-up.

        Args:
            batch_size: Number of images of a step.
        """
        scale = {"none": 1.0, "linear": batch_size / 256, "sqrt": math.sqrt(batch_size / 256)}
        return self.lr * scale[self.lr_scaling]
