"""Fine-tuning that is stopped is resumed to the same weights; chance is that of its seed."""

import logging
import os
import random
import signal
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from amcl.errors import Interrupted
from amcl.evaluation.finetuning import finetune
from amcl.evaluation.finetuning.classifier import seeded
from amcl.training import saving
from toy_finetuning import (
    EVERYTHING,
    PLAIN,
    TRANSFORM,
    colors,
    module,
    resnet,
    same,
    spy_on_steps,
)


def chance():
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()


def test_the_seed_alone_decides_and_global_chance_is_left_alone():
    backbone, train, test = resnet(), colors(35), colors(6)
    found = []
    for seed in (1, 1, 2):
        torch.rand(seed + len(found)), np.random.rand(3), random.random()
        before = chance()
        result = finetune(backbone, train, test, 3, TRANSFORM, EVERYTHING, seed=seed)
        assert chance() == before
        found.append(result)
    assert same(found[0].state_dict, found[1].state_dict)
    assert found[0].losses == found[1].losses
    assert not same(found[0].state_dict, found[2].state_dict)


def stopped(monkeypatch, at, *args, number=signal.SIGINT, **kwargs):
    """Fine-tuning that gets a signal during a step."""
    with monkeypatch.context() as patch:
        spy_on_steps(patch, lambda step: os.kill(os.getpid(), number) if step == at else None)
        with pytest.raises(Interrupted, match=f"after step {at + 1} of .*saved") as error:
            finetune(*args, **kwargs)
    assert error.value.exit_code == 128 + number


@pytest.mark.parametrize(
    ("at", "optimizer", "number"),
    [
        (0, "adamw", signal.SIGINT),
        (4, "sgd", signal.SIGTERM),  # within the second of three epochs
        (5, "adamw", signal.SIGHUP),  # at its end
        (8, "adamw", signal.SIGINT),  # in the last step
    ],
)
def test_training_resumes_to_the_same_weights(monkeypatch, tmp_path, at, optimizer, number):
    settings = replace(EVERYTHING, optimizer=optimizer)
    args = (resnet(), colors(35), colors(12), 3, TRANSFORM, settings)
    path = tmp_path / "finetune.pt"
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    whole = finetune(*args)
    stopped(monkeypatch, at, *args, number=number, checkpoint=path)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert [file.name for file in tmp_path.iterdir()] == ["finetune.pt"]
    steps = spy_on_steps(monkeypatch)
    resumed = finetune(*args, checkpoint=path)
    assert steps == list(range(at + 1, 9))
    assert same(resumed.state_dict, whole.state_dict)
    assert resumed.losses == whole.losses
    assert resumed.top1 == whole.top1
    assert not list(tmp_path.iterdir())


def test_a_stop_after_the_last_step_is_granted(monkeypatch, tmp_path):
    args = (module(), colors(12), colors(6), 3, TRANSFORM, PLAIN)
    path, whole, save = tmp_path / "finetune.pt", finetune(*args), saving.save_checkpoint

    def signalled(*saved):
        save(*saved)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(saving, "save_checkpoint", signalled)
        with pytest.raises(Interrupted, match="after step 4 of 4"):
            finetune(*args, checkpoint=path)
    assert same(finetune(*args, checkpoint=path).state_dict, whole.state_dict)


def test_a_request_to_save_is_granted_and_training_continues(monkeypatch, tmp_path, caplog):
    args = (module(), colors(12), colors(6), 3, TRANSFORM, PLAIN)
    whole, saved, save = finetune(*args), [], saving.save_checkpoint

    def spied(path, state, *rest):
        saved.append(state["step"])
        save(path, state, *rest)

    monkeypatch.setattr(saving, "save_checkpoint", spied)
    spy_on_steps(monkeypatch, lambda step: step == 1 and os.kill(os.getpid(), signal.SIGUSR1))
    caplog.set_level(logging.INFO, "amcl")
    assert same(finetune(*args, checkpoint=tmp_path / "file").state_dict, whole.state_dict)
    assert saved == [2, 4]
    assert "saved after step 2 of 4, as a signal asked: training continues" in caplog.messages


def test_without_a_checkpoint_ctrl_c_interrupts_at_once(monkeypatch):
    steps = spy_on_steps(monkeypatch, lambda step: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        finetune(module(), colors(12), colors(6), 3, TRANSFORM, PLAIN)
    assert steps == [0]


def test_it_trains_in_a_thread_that_gets_no_signals(tmp_path):
    results, args = [], (module(), colors(12), colors(6), 3, TRANSFORM, PLAIN)
    thread = threading.Thread(
        target=lambda: results.append(finetune(*args, checkpoint=tmp_path / "file"))
    )
    thread.start()
    thread.join()
    assert same(results[0].state_dict, finetune(*args).state_dict)


def test_short_epochs_are_not_all_saved(monkeypatch, tmp_path):
    steps, clock = [], {"now": 0.0}
    monkeypatch.setattr(saving.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(
        saving, "save_checkpoint", lambda path, state, keep: steps.append(state["step"])
    )
    spy_on_steps(monkeypatch, lambda step: clock.update(now=clock["now"] + 10.0))
    settings = replace(PLAIN, epochs=9)
    finetune(module(), colors(12), colors(6), 3, TRANSFORM, settings, checkpoint=tmp_path / "file")
    assert steps == [4, 8, 9]  # more than 30 s apart, and at the end


def test_only_the_same_training_is_resumed(monkeypatch, tmp_path):
    path, net = tmp_path / "finetune.pt", module()
    args = (net, colors(12), colors(6), 3, TRANSFORM, PLAIN)
    stopped(monkeypatch, 0, *args, checkpoint=path)
    changed = {
        "settings": (*args[:5], replace(PLAIN, lr=0.1)),
        "weights": (module(), *args[1:]),
        "images": (net, colors(12, seed=5), *args[2:]),
        "transform": (*args[:4], replace(TRANSFORM, mean=(0.4,) * 3), PLAIN),
    }
    for what, other in changed.items():
        with pytest.raises(ValueError, match=f"finetune.pt .*with other {what}: remove it to"):
            finetune(*other, checkpoint=path)
    with pytest.raises(ValueError, match=r"finetune\.pt .*\bseed, weights\b"):
        finetune(*args, checkpoint=path, seed=1)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"finetune.pt is no checkpoint.*: remove it to start"):
        finetune(*args, checkpoint=path)


def test_chance_of_a_device_of_its_own_is_put_back(monkeypatch):
    there = SimpleNamespace(state=7)
    there.get_rng_state = lambda: there.state
    there.manual_seed = there.set_rng_state = lambda value: setattr(there, "state", value)
    monkeypatch.setattr(torch, "get_device_module", lambda device: there)
    with seeded(1, "a", device="mps"):
        inside = there.state
    assert there.state == 7 != inside


def test_chance_is_put_back_after_an_error():
    before = chance()

    def fail():
        torch.rand(1), np.random.rand(1), random.random()
        raise RuntimeError

    with pytest.raises(RuntimeError), seeded(1):
        fail()
    assert chance() == before
