"""Seconds and memory of real training steps, on this machine."""

import multiprocessing
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch

from amcl.analysis.cost.count import image_size_of
from amcl.analysis.cost.memory import PeakMemory
from amcl.config import Config
from amcl.data import DataSet, MemoryImages, stream
from amcl.errors import RunError
from amcl.seeds import generator
from amcl.settings import whole_number
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.prepare import prepared
from amcl.training.pretraining_task import PretrainingTask
from amcl.training.start import method_to_train
from amcl.training.trainer import Trainer
from amcl.views import suited

STEPS = 10
_CLASSES = 10  # of random images, for methods that learn from labels
WARM_UP = 2  # steps before the clock starts: memory is taken, kernels are chosen


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Cost of training steps: views, loss, gradient and optimizer; no picture is decoded."""

    device: str
    """Name of the device."""
    batch_size: int
    """Images a step."""
    seconds: tuple[float, ...]
    """Seconds of each step."""
    peak_memory: int | None
    """Bytes: growth of the process on a CPU, of tensors on a GPU; None: not reported."""

    @property
    def median(self) -> float:
        """Seconds a step."""
        return median(self.seconds)

    @property
    def images_per_second(self) -> float:
        """Images that are trained on in a second."""
        return self.batch_size / self.median

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return asdict(self) | {"median": self.median, "images_per_second": self.images_per_second}


def measure_step(
    config: Config,
    steps: int = STEPS,
    *,
    images: int | None = None,
    image_size: int | None = None,
    channels: int = 3,
) -> StepCost:
    """Time training steps on random images, in a new process with random weights and one device.

    Args:
        config: Configuration of the training.
        steps: Number of steps.
        images: Number of images to draw from, at least a batch; None for a batch.
        image_size: Pixels a side of the images; None for that of the training.
        channels: Number of channels of the images.

    Returns:
        Seconds of each step, and the memory that was taken.

    Raises:
        RunError: If the process ends before its last step, as for want of memory.

    Example:
        >>> from amcl.recipes import recipe
        >>> config = recipe("builtin-simclr")
        >>> cost = measure_step(config, steps=3)  # doctest: +SKIP
        >>> len(cost.seconds), cost.batch_size  # doctest: +SKIP
        (3, 128)
    """
    (cost,) = measure_in_turns(
        [config], steps, images=images, image_size=image_size, channels=channels
    )
    return cost


def measure_in_turns(
    configs: Sequence[Config],
    steps: int = STEPS,
    *,
    images: int | None = None,
    image_size: int | None = None,
    channels: int = 3,
) -> list[StepCost]:
    """Measure several configurations in turns, A B A B: the machine is then the same for all.

    Each has its own process, which waits while another takes a step: all of them are in memory at
    once.

    Args:
        configs: Configurations of the trainings.
        steps: Number of steps of each.
        images: Number of images to draw from, at least a batch; None for a batch.
        image_size: Pixels a side of the images; None for that of each training.
        channels: Number of channels of the images.

    Returns:
        The cost of each configuration, in their order.

    Raises:
        RunError: If a process ends before its last step, as for want of memory.

    Example:
        >>> from amcl.recipes import recipe
        >>> configs = [recipe("builtin-simclr"), recipe("builtin-simclr-amcl")]
        >>> base, amcl = measure_in_turns(configs, steps=5)  # doctest: +SKIP
        >>> ratio = amcl.median / base.median  # doctest: +SKIP
    """
    whole_number("steps", steps)
    jobs = [_Job.of(config, steps, images, image_size, channels) for config in configs]
    with ExitStack() as stack:
        trainers = []
        for job in jobs:  # one warms up after the other
            trainer = _Trainer(job)
            stack.callback(trainer.close)
            trainers.append((trainer, trainer.answer()))
        seconds = [[trainer.ask("step") for trainer, _ in trainers] for _ in range(steps)]
        return [
            StepCost(
                device=device,
                batch_size=job.config.run.batch_size,
                seconds=times,
                peak_memory=trainer.ask("memory"),
            )
            for job, (trainer, device), times in zip(
                jobs, trainers, zip(*seconds, strict=True), strict=True
            )
        ]


@dataclass(frozen=True)
class _Job:
    """Steps to take, in a process of their own."""

    config: Config
    steps: int
    image_size: int
    channels: int
    images: int

    @staticmethod
    def of(
        config: Config, steps: int, images: int | None, image_size: int | None, channels: int
    ) -> "_Job":
        views, _ = suited(config.views, channels)
        config = replace(config, views=views)
        size = image_size or image_size_of(config)
        # Enough epochs for all steps, on one device, from random weights.
        run = replace(config.run, epochs=max(config.run.epochs, WARM_UP + steps), init=None)
        hardware = replace(config.hardware, devices=1, nodes=1, strategy="ddp")
        return _Job(
            replace(config, run=run, hardware=hardware),
            steps,
            size,
            channels,
            max(images or 0, run.batch_size),
        )


class _Trainer:
    """A new process that takes a training step on request.

    Its first answer, after the warm-up, is the name of its device.
    """

    def __init__(self, job: _Job) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_child, args=(job, other_end), daemon=True)
        self._process.start()
        other_end.close()

    def ask(self, request: str) -> Any:
        """Return the seconds of a "step", or the peak of "memory" so far."""
        with suppress(OSError):  # the process has ended, and its answer says why
            self._connection.send(request)
        return self.answer()

    def answer(self) -> Any:
        """Return the next answer; errors of the process are raised here."""
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise RunError(
                f"the process that took the steps ended with code {self._process.exitcode}, "
                "perhaps for want of memory: use a smaller --batch-size."
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()
        self._connection.close()


def _child(job: _Job, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
    try:
        steps = _Steps(job)
        for _ in range(WARM_UP):
            steps.take()
        connection.send(steps.device_name)
        while True:
            is_step = connection.recv() == "step"
            connection.send(steps.take() if is_step else steps.memory.growth())
    except (EOFError, BrokenPipeError):
        return  # the parent process has ended
    except (ValueError, RunError) as error:
        connection.send(error)
    except RuntimeError as error:  # errors of torch, such as out of memory
        connection.send(RunError(str(error)))


class _Steps:
    """Training on random images as in a run, a step at a time."""

    def __init__(self, job: _Job) -> None:
        config = job.config
        size = job.image_size
        fabric = make_fabric(config.hardware)
        fabric.launch()
        data = _random_images(config, size, job.channels, job.images)
        self.device = fabric.device
        self.memory = PeakMemory(fabric.device)
        plan = Plan.of(config, data, fabric)
        method = method_to_train(config, size, None, job.channels)
        method = prepared(method, config.hardware, fabric)
        self._trainer = Trainer(fabric, PretrainingTask(fabric, config, plan, data, method))
        self._batches = stream(data.train, plan.indices(0), workers=0)

    @property
    def device_name(self) -> str:
        cuda = self.device.type == "cuda"
        return torch.cuda.get_device_name(self.device) if cuda else self.device.type

    def take(self) -> float:
        """Take a step and return its seconds."""
        begin = time.perf_counter()
        self._trainer.train_step(self._batches)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter() - begin


def _random_images(config: Config, image_size: int, channels: int, images: int) -> DataSet:
    side = config.data.canvas or image_size
    shape = (images, channels, side, side)
    random = generator("cost", "images")
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=random)
    return DataSet(
        name="random",
        train=MemoryImages(pixels),
        labels=torch.arange(images) % _CLASSES,
        probe=None,
        image_size=image_size,
        mean=(0.5,) * channels,
        std=(0.3,) * channels,
    )
