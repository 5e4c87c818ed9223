"""The loop that all training shares, on a task of a few numbers."""

import math
import os
import signal
import sys
from contextlib import closing

import pytest
import torch
from torch import nn

from amcl.checkpoints import RunFolder
from amcl.checkpoints.files import load_checkpoint
from amcl.errors import Interrupted, NonFiniteError
from amcl.methods import Method
from amcl.seeds import generator
from amcl.training import pretrain
from amcl.training.display import Display
from amcl.training.hardware import StopRequest, fabric_on
from amcl.training.log import RunLog
from amcl.training.loop import train
from amcl.training.saving import CheckpointPolicy
from amcl.training.task import Task
from amcl.training.trackers import open_trackers
from amcl.training.trainer import Trainer
from tiny_runs import TIMES, picture_folder, tiny_vit

pretraining = sys.modules["amcl.training.pretrain"]


class Regression(Task):
    """Fits a line to random points: three epochs of four steps. `hook` may change a loss."""

    def __init__(self, hook=None, accumulate=1, clip=0.0):
        module = nn.Linear(3, 1)
        with torch.no_grad():
            module.weight.fill_(0.5)
            module.bias.zero_()
        module.register_buffer("mask", torch.tensor([0.0, -math.inf]))
        optimizer = torch.optim.AdamW([{"params": module.parameters(), "lr_scale": 1.0}])
        super().__init__(
            module,
            optimizer,
            peak_lr=0.1,
            epochs=3,
            per_epoch=4,
            batch_size=8,
            accumulate=accumulate,
            clip=clip,
        )
        self.hook = hook or (lambda step, loss: loss)
        self.ended = []
        self.closed = False

    def batches(self, step, on_wait):
        try:
            for number in range(step, self.total):
                points = torch.randn(8, 3, generator=generator("points", number))
                yield from points.chunk(self.accumulate)
        finally:
            self.closed = True

    def lr_factor(self, step):
        return 1 - step / self.total

    def loss(self, model, batch, step, part=0, watch=False):
        return self.hook(step, (model(batch) - batch.sum(1, keepdim=True)).square().mean())

    def end_epoch(self, step, log):
        self.ended.append(step)

    def remedies(self):
        return ["a lower lr", "clip=1"]

    def state_dict(self):
        return {"module": self.module.state_dict()}

    def load_state_dict(self, state):
        self.module.load_state_dict(state["module"])


class Rows:
    """A writer that keeps its rows."""

    def __init__(self):
        self.rows = []

    def write(self, row):
        self.rows.append(row)

    def close(self):
        raise AssertionError("the log does not close what it did not open")


def run(task, path=None, **saving):
    """Train to the end, from the checkpoint if there is one; returns the trainer and the rows."""
    trainer = Trainer(fabric_on(torch.device("cpu"), "32"), task)
    if path is not None and path.exists():
        trainer.load_state_dict(load_checkpoint(path))
    writer = Rows()
    policy = CheckpointPolicy(trainer, path, "Run it again.", **saving)
    display = Display(task.total, task.per_epoch, task.batch_size)
    with StopRequest() as stop, display:
        train(trainer, policy, RunLog(display, [writer]), stop)
    return trainer, writer.rows


def weights(task):
    return torch.cat([value.flatten() for value in task.module.parameters()])


def test_steps_epochs_and_rates_are_logged():
    task = Regression()
    _, rows = run(task)
    steps = [row for row in rows if row["kind"] == "step"]
    epochs = [row for row in rows if row["kind"] == "epoch"]
    assert [row["step"] for row in steps] == list(range(1, 13))
    assert [row["lr"] for row in steps] == pytest.approx([0.1 * (1 - n / 12) for n in range(12)])
    for number, row in enumerate(epochs):
        mean = sum(step["loss"] for step in steps[4 * number : 4 * number + 4]) / 4
        assert row["loss"] == pytest.approx(mean)
    assert task.ended == [row["step"] for row in epochs] == [4, 8, 12]
    assert epochs[-1]["loss"] < 0.2 * epochs[0]["loss"]
    assert task.closed


class SlowImages(Regression):
    """A step takes a second by the clock of the test, and its batch `wait` seconds."""

    def __init__(self, clock, wait):
        super().__init__(self._train, accumulate=2)
        self.clock = clock
        self.wait = wait

    def _train(self, step, loss):
        self.clock["now"] += 10.0
        return loss

    def batches(self, step, on_wait):
        for batch in super().batches(step, on_wait):
            self.clock["now"] += self.wait
            yield batch


@pytest.mark.parametrize(("wait", "share"), [(30.0, 0.75), (2.0, 0.1667), (0.0, 0.0)])
def test_the_share_of_time_that_images_are_waited_for(monkeypatch, caplog, wait, share):
    clock = {"now": 0.0}
    monkeypatch.setattr("time.perf_counter", lambda: clock["now"])
    task = SlowImages(clock, wait)
    writer = Rows()
    trainer = Trainer(fabric_on(torch.device("cpu"), "32"), task)
    display = Display(task.total, task.per_epoch, task.batch_size)
    log = RunLog(display, [writer], data_hint="shards may help")
    with StopRequest() as stop, display, caplog.at_level("INFO", "amcl"):
        train(trainer, CheckpointPolicy(trainer, None, "Run it again."), log, stop)
    epochs = [row for row in writer.rows if row["kind"] == "epoch"]
    assert [row["data_wait"] for row in epochs] == 3 * [share]
    hints = [m for m in caplog.messages if m.endswith("% of the time: shards may help")]
    assert len(hints) == (share > 0.2)
    waits = [m for m in caplog.messages if m.startswith("epoch ") and "waiting for data" in m]
    assert len(waits) >= len(epochs) if share else not waits
    assert all(f", waiting for data {100 * share:.0f} % of the time  " in m for m in waits)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_signal_saves_and_the_rest_is_the_same(tmp_path, at, number):
    path, straight = tmp_path / "last.pt", Regression()
    _, expected = run(straight)

    def signalled(step, loss):
        if step == at:
            os.kill(os.getpid(), number)
        return loss

    stopped = Regression(signalled)
    message = f"stopped after step {at + 1} of 12, everything is saved. Run it again."
    with pytest.raises(Interrupted, match=message) as error:
        run(stopped, path)
    assert error.value.exit_code == 128 + number
    assert stopped.closed
    resumed = Regression()
    _, rows = run(resumed, path)
    assert torch.equal(weights(resumed), weights(straight))

    def numbers(rows):
        return [{k: v for k, v in row.items() if k not in TIMES} for row in rows]

    assert numbers(rows) == [row for row in numbers(expected) if row["step"] > at + 1]


@pytest.mark.parametrize(
    ("saved", "message"), [(True, "is kept: .*last.pt"), (False, "stopped. S")]
)
def test_a_loss_that_is_not_finite_stops_with_a_message(tmp_path, saved, message):
    task = Regression(lambda step, loss: loss * (math.nan if step == 5 else 1.0))
    path = tmp_path / "last.pt" if saved else None
    with pytest.raises(NonFiniteError, match=r"the loss is not finite after step 6: ") as error:
        run(task, path, save_minutes=0.0)
    assert error.match(message)
    assert error.match("Start again with a lower lr or clip=1")
    assert task.closed
    if saved:
        assert load_checkpoint(path)["step"] == 5


def test_weights_that_are_not_finite_are_found_after_the_last_step():
    def broken(step, loss):
        if step == 11:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return loss

    with pytest.raises(NonFiniteError, match=r"weight is not finite after step 12"):
        run(Regression(broken))


def test_a_gradient_that_is_not_finite_is_no_error_of_torch_where_it_is_clipped():
    def broken(step, loss):
        if step == 2:
            loss.register_hook(lambda gradient: gradient * math.inf)
        return loss

    with pytest.raises(NonFiniteError, match="the loss is not finite after step 4"):
        run(Regression(broken, clip=1.0))


def test_gradients_of_parts_are_accumulated():
    whole, parts, clipped = Regression(), Regression(accumulate=4), Regression(clip=1e-3)
    for task in (whole, parts, clipped):
        run(task)
    torch.testing.assert_close(weights(parts), weights(whole))
    assert not torch.allclose(weights(clipped), weights(whole))


def test_a_batch_that_cannot_be_used_takes_no_step():
    before = []

    def unusable(step, loss):
        before.append(weights(task).detach().clone())
        return None if step == 3 else loss

    task = Regression(unusable)
    trainer, rows = run(task)
    assert trainer.step == 12
    assert torch.equal(before[3], before[4])
    assert not torch.equal(before[4], before[5])
    assert next(row["loss"] for row in rows if row["step"] == 4) == 0


@pytest.mark.parametrize("saved", [True, False])
def test_without_images_what_can_be_saved_is(tmp_path, saved):
    class Dying(Regression):
        def batches(self, step, on_wait):
            for number, batch in enumerate(super().batches(step, on_wait)):
                if number == 2:
                    raise ChildProcessError("a worker has died.")
                yield batch

    path = tmp_path / "last.pt" if saved else None
    with pytest.raises(ChildProcessError, match="a worker has died") as error:
        run(Dying(), path)
    assert ("everything is saved. Run it again." in str(error.value)) == saved
    if saved:
        assert load_checkpoint(path)["step"] == 2


def test_the_first_state_is_saved_where_that_is_asked_for(tmp_path):
    failing = Regression(lambda step, loss: 1 / 0)
    for from_start in (False, True):
        with pytest.raises(ZeroDivisionError):
            run(failing, tmp_path / "last.pt", from_start=from_start)
        assert (tmp_path / "last.pt").exists() == from_start
    assert failing.closed


class FakeTracker:
    """Counts what is open."""

    opened: list = []  # noqa: RUF012

    def __init__(self, *_):
        self.opened.append(self)
        self.rows = 0

    def write(self, row):
        self.rows += 1

    def close(self):
        self.opened.remove(self)


class BrokenTracker(FakeTracker):
    def __init__(self, *_):
        raise ConnectionError("no network")


@pytest.mark.parametrize("error", ["loss", "signal", "code", "tracker"])
def test_trackers_and_log_are_closed_however_a_run_ends(tmp_path, monkeypatch, error):
    FakeTracker.opened.clear()
    last = BrokenTracker if error == "tracker" else FakeTracker
    monkeypatch.setattr("amcl.training.trackers.TensorBoard", FakeTracker)
    monkeypatch.setattr("amcl.training.trackers.WeightsAndBiases", last)
    monkeypatch.setattr(pretraining, "require_trackers", lambda config: None)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    displays, plain = [], Display.__enter__
    monkeypatch.setattr(Display, "__enter__", lambda self: displays.append(self) or plain(self))
    call, seen = Method.__call__, []

    def fail(self, *args, **kwargs):
        seen.append(len(FakeTracker.opened))
        if error == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
        if error == "code":
            raise ZeroDivisionError
        return call(self, *args, **kwargs) * (math.nan if error == "loss" else 1)

    monkeypatch.setattr(Method, "__call__", fail)
    config = tiny_vit(
        "simclr", picture_folder(tmp_path / "pictures", 16), tensorboard=True, wandb="project"
    )
    expected = {
        "loss": NonFiniteError,
        "signal": Interrupted,
        "code": ZeroDivisionError,
        "tracker": ConnectionError,
    }
    with pytest.raises(expected[error]):
        pretrain(config, tmp_path / "run")
    assert seen == ([] if error == "tracker" else [2])
    assert FakeTracker.opened == []
    assert all(not display.bar.live.is_started for display in displays)
    assert [display.shown for display in displays] == [True] * (error != "tracker")
    with closing(RunFolder(tmp_path / "run")) as folder:
        folder.open(0)  # an error if it were still open


def test_only_the_first_process_has_trackers(tmp_path, monkeypatch):
    monkeypatch.setattr("amcl.training.trackers.TensorBoard", BrokenTracker)
    config = tiny_vit("simclr", tmp_path, tensorboard=True)
    with open_trackers(config, tmp_path, first=False) as trackers:
        assert trackers == []
