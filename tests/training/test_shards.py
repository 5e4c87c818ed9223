"""Training from shards: the losses of the same pictures in a folder, however they are read."""

from dataclasses import replace

import pytest

from amcl.checkpoints import read_metrics
from amcl.data.shards.pack import pack
from amcl.errors import Interrupted
from amcl.training import pretrain
from shard_files import folder_and_shards
from tiny_runs import interrupt_at, tiny_vit


def losses(run):
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "step"]


def test_losses_do_not_depend_on_storage_workers_and_stops(tmp_path, monkeypatch):
    folder, shards = folder_and_shards(tmp_path)
    config = tiny_vit("simclr", folder)
    config = replace(config, data=replace(config.data, memory=0.0))
    pretrain(config, tmp_path / "folder run")
    expected = losses(tmp_path / "folder run")
    assert len(expected) == 8
    epochs = [row for row in read_metrics(tmp_path / "folder run") if row["kind"] == "epoch"]
    assert all(0 < row["data_wait"] < 1 for row in epochs)
    pack(folder, tmp_path / "packed", shard_size="16")
    packed = replace(config, data=replace(config.data, source=str(tmp_path / "packed")))
    pretrain(packed, tmp_path / "packed run")
    assert losses(tmp_path / "packed run") == expected
    for workers in (0, 2):
        data = replace(config.data, source=f"{shards}/{{0000..0001}}.tar", workers=workers)
        ours = replace(config, data=data)
        pretrain(ours, tmp_path / f"run {workers}")
        assert losses(tmp_path / f"run {workers}") == expected
        with monkeypatch.context() as patch:
            interrupt_at(patch, step=3)
            with pytest.raises(Interrupted):
                pretrain(ours, tmp_path / f"stopped {workers}")
        others = replace(ours, data=replace(data, workers=2 - workers))
        pretrain(others, tmp_path / f"stopped {workers}", resume=True)
        assert losses(tmp_path / f"stopped {workers}") == expected
