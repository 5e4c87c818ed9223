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
from amcl.data.file_dataset import MEAN, STD
from amcl.errors import RunError
from amcl.seeds import generator
from amcl.settings import whole_number
from amcl.training.hardware import make_fabric
from amcl.training.plan import Plan
from amcl.training.pretraining_task import PretrainingTask
from amcl.training.start import method_to_train
from amcl.training.trainer import Trainer

STEPS = 10
WARM_UP = 2  # steps before the clock starts: memory is taken, kernels are chosen


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """What steps of training took: views, loss, gradient and optimizer; no picture is decoded."""

    device: str
    batch_size: int
    seconds: tuple[float, ...]
    """Of each step."""
    peak_memory: int | None
    """Bytes: on a CPU the growth of the process, on a GPU what tensors took; None: not known."""

    @property
    def median(self) -> float:
        """Seconds a step."""
        return median(self.seconds)

    @property
    def images_per_second(self) -> float:
        """How many images are trained on in a second."""
        return self.batch_size / self.median

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return asdict(self) | {"median": self.median, "images_per_second": self.images_per_second}


def measure_step(
    config: Config,
    steps: int = STEPS,
    *,
    images: int | None = None,
    image_size: int | None = None,
) -> StepCost:
    """Take `steps` training steps on random images, in a process of their own, and time them.

    `images`: how many there are to draw from, at least a batch; None: a batch. Weights are random,
    and a process has one device.
    """
    (cost,) = measure_in_turns([config], steps, images=images, image_size=image_size)
    return cost


def measure_in_turns(
    configs: Sequence[Config],
    steps: int = STEPS,
    *,
    images: int | None = None,
    image_size: int | None = None,
) -> list[StepCost]:
    """Measure several configurations, step by step in turns, A B A B: they meet the same machine.

    Each has a process of its own, whose memory is that of its steps, and waits while another's
    step is timed: all of them are held in memory at once. The rest: see `measure_step`.
    """
    whole_number("steps", steps)
    jobs = [_Job.of(config, steps, images, image_size) for config in configs]
    with ExitStack() as open_ones:
        trainers = []
        for job in jobs:  # one warms up after the other
            trainer = _Trainer(job)
            open_ones.callback(trainer.close)
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
    images: int

    @staticmethod
    def of(config: Config, steps: int, images: int | None, image_size: int | None) -> "_Job":
        size = image_size or image_size_of(config)
        # Time for all steps, on one device; what a run would start from is no matter.
        run = replace(config.run, epochs=max(config.run.epochs, WARM_UP + steps), init=None)
        hardware = replace(config.hardware, devices=1, nodes=1)
        return _Job(
            replace(config, run=run, hardware=hardware),
            steps,
            size,
            max(images or 0, run.batch_size),
        )


class _Trainer:
    """A fresh process that takes a step of training whenever it is asked to.

    Its first answer, once it is warm, is the name of its device.
    """

    def __init__(self, job: _Job) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_child, args=(job, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, what: str) -> Any:
        """Seconds of a "step", or the peak of "memory" so far."""
        with suppress(OSError):  # it is gone, and what is heard of it says why
            self._line.send(what)
        return self.answer()

    def answer(self) -> Any:
        """What it says next; its errors are raised here."""
        try:
            answer = self._line.recv()
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
        """End it, whatever it does."""
        self._process.terminate()
        self._process.join()
        self._line.close()


def _child(job: _Job, line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
    try:
        steps = _Steps(job)
        for _ in range(WARM_UP):
            steps.take()
        line.send(steps.device_name)
        while True:
            line.send(steps.take() if line.recv() == "step" else steps.memory.growth())
    except (EOFError, BrokenPipeError):
        return  # whoever asked is gone
    except (ValueError, RunError) as error:
        line.send(error)
    except RuntimeError as error:  # torch's own, out of memory among them
        line.send(RunError(str(error)))


class _Steps:
    """Training on random images, as a run does it, a step at a time."""

    def __init__(self, job: _Job) -> None:
        config, size = job.config, job.image_size
        fabric = make_fabric(config.hardware)
        fabric.launch()
        data = _random_images(config, size, job.images)
        self.device, self.memory = fabric.device, PeakMemory(fabric.device)
        plan = Plan.of(config, data, fabric)
        method = method_to_train(config, size, None)
        self._trainer = Trainer(fabric, PretrainingTask(fabric, config, plan, data, method))
        self._batches = stream(data.train, plan.indices(0), workers=0)

    @property
    def device_name(self) -> str:
        cuda = self.device.type == "cuda"
        return torch.cuda.get_device_name(self.device) if cuda else self.device.type

    def take(self) -> float:
        """Take a step; returns its seconds."""
        begin = time.perf_counter()
        self._trainer.train_step(self._batches)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.perf_counter() - begin


def _random_images(config: Config, image_size: int, images: int) -> DataSet:
    side = config.data.canvas or image_size
    shape, random = (images, 3, side, side), generator("cost", "images")
    pixels = torch.randint(256, shape, dtype=torch.uint8, generator=random)
    return DataSet(
        name="random",
        train=MemoryImages(pixels),
        probe=None,
        image_size=image_size,
        mean=MEAN,
        std=STD,
    )
