"""Search: trials of a study up to a number, and what they say."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from amcl.files import write_text
from amcl.redaction import HIDDEN
from amcl.search.objective import (
    JUDGED_BY,
    LABELS,
    Objective,
    is_share,
    objective_for,
    on_validation,
)
from amcl.search.plots import Axis, save_plots
from amcl.search.records import Record, complete
from amcl.search.space import PAPER, Choice, Range, space_from
from amcl.search.storage import open_study, records_of
from amcl.search.study import Definition, Pruner, StudyFolder, without_password
from amcl.search.summary import csv_text, markdown
from amcl.search.trials import Plan, work
from amcl.search.verdict import Verdict, verdict_of
from amcl.settings import whole_number
from amcl.sweep.fields import spelled, value_from, with_values
from amcl.sweep.workers import Tell, for_workers, work_together
from amcl.training import Config, Interrupted, RunError
from amcl.training.pretrain import load_data
from amcl.training.start import first_stage


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a study has come to."""

    definition: Definition
    records: list[Record]
    """Trials that have ended, by number."""
    verdict: Verdict | None
    """Which trials are level with the best, and which is chosen; None without a complete trial."""
    config: Config | None
    """That of the chosen trial."""

    @property
    def best(self) -> Record | None:
        """The trial whose settings are chosen."""
        return None if self.verdict is None else self.verdict.chosen


def search(
    config: Config,
    out: str | Path,
    *,
    trials: int | None = None,
    space: Sequence[str] | None = None,
    objective: Objective | None = None,
    pruner: Pruner | None = None,
    storage: str = "",
    study: str | None = None,
    jobs: int = 1,
    keep_checkpoints: bool = False,
    tell: Tell = print,
) -> Found:
    """Look for the settings that serve best, starting from `config`; all of it goes to `out`.

    - `trials`: how many the study is to have in all; None: as many as it had before, or 25. A study
      in `out` is gone on with;
    - `space`: fields and where to look, as in "lr=1e-3:1:log"; none: the paper's spaces;
    - `objective`: what is judged by, on validation images; none: kNN, or without labels the
      effective rank;
    - `pruner`: which trials are cut short, by what probes find: those below the median of others
      (the default), by successive halving, or with "off" none;
    - `storage`, `study`: any database that Optuna takes, and the study's name in it, shared by
      several machines; none: a file in `out`;
    - `jobs`: trials at once, in processes of their own;
    - `keep_checkpoints`: keep those of trials that have ended; their backbones always stay.
    """
    folder = StudyFolder(Path(out))
    trials = whole_number("trials", folder.trials() if trials is None else trials)
    whole_number("jobs", jobs)
    if folder.exists():
        definition, storage, study = folder.read(storage, study)
        definition = _unchanged(folder, definition, config, space, objective, pruner)
        folder.remember_trials(trials)
    else:
        definition = _define(config, space, objective, pruner or "median")
        study = study or folder.path.resolve().name
        folder.check_free(definition)
        if storage:
            open_study(storage, study, definition)  # an error before anything is written here
        folder.create(definition, storage, study, trials)
    url, images = folder.url(storage), validation_images(definition)
    opened = open_study(url, study, definition, images=images)
    before = records_of(opened)
    plan = Plan(
        folder=folder.path,
        url=url,
        name=study,
        definition=definition,
        trials=trials,
        images=images,
        jobs=jobs,
        complete=len(complete(before)),
        keep_checkpoints=keep_checkpoints,
    )
    tell(_begin(folder, definition, len(before), trials))
    try:
        work_together(partial(work, plan), jobs, tell, folder.path / "logs")
    except Interrupted as stopped:
        again = shlex.join(["amcl", "search", "--out", str(folder.path)])
        if HIDDEN in (shown := without_password(storage)):
            again += f" --storage {shlex.quote(shown)}, with the password"
        raise Interrupted(
            f"stopped with {len(records_of(opened))} of {trials} trials ended, everything is "
            f"saved. Go on with: {again}",
            stopped.exit_code - 128,
        ) from stopped
    finally:
        found = report(folder, definition, records_of(opened), images)
    return found


def validation_images(definition: Definition) -> int | None:
    """How many images the objective is an accuracy on; None where it is no accuracy."""
    if not is_share(definition.objective):
        return None
    config = definition.config
    config = replace(config, data=replace(config.data, memory=0.0))  # nothing is decoded for this
    probe = load_data(config).probe
    return None if probe is None else len(probe.queries.labels)


def report(
    folder: StudyFolder, definition: Definition, records: list[Record], images: int | None
) -> Found:
    """Write table, pictures and the chosen configuration from what has ended."""
    verdict, config = verdict_of(definition, records, images), None
    label, share = LABELS[definition.objective], is_share(definition.objective)
    axes = {name: _drawn(axis) for name, axis in definition.space.items()}
    if verdict is not None:
        values = {
            name: value_from(definition.config, name, spelled(value))
            for name, value in verdict.chosen.point.items()
        }
        config = with_values(definition.config, values)
        config = replace(config, hardware=replace(config.hardware, devices=0))  # as many as it has
        write_text(folder.best, config.to_toml())
    if records:
        write_text(folder.path / "trials.csv", csv_text(records))
        pictures = save_plots(records, axes, label, share, folder.path, images)
        names = [picture.name for picture in pictures]
        page = markdown(records, axes, label, share, str(folder.best), names, verdict)
        write_text(folder.path / "summary.md", page)
    return Found(definition=definition, records=records, verdict=verdict, config=config)


def _begin(folder: StudyFolder, definition: Definition, ended: int, trials: int) -> str:
    """What is about to be done."""
    where = "  ".join(f"{name}={axis}" for name, axis in definition.space.items())
    if ended >= trials:
        return f"{folder.path} has {ended} trials, and {trials} are wanted: nothing is left to do"
    told = (
        f"{folder.path}: {ended} of {trials} trials have ended; each is judged by "
        f"{JUDGED_BY[definition.objective]}\nlooking at {where}"
    )
    run = definition.config.run
    if definition.pruner != "off" and run.probe_every >= run.epochs:
        told += (
            f"\nno trial can be cut short: its first probe is its last (--probe-every "
            f"{run.probe_every}, --epochs {run.epochs})"
        )
    return told


def _define(
    config: Config, space: Sequence[str] | None, objective: Objective | None, pruner: Pruner
) -> Definition:
    """What a new study is; everything is checked that can be, before any trial."""
    config = on_validation(for_workers(config))
    where = space_from(config, [PAPER] if space is None else space)
    if first_stage(config) is not None:
        raise ValueError(
            f"each trial of {config.method.name} would begin with a run of MAE of its own: train "
            "one, and give it to all with --init RUN."
        )
    objective = objective_for(load_data(config), objective)
    return Definition(config=config, space=where, objective=objective, pruner=pruner)


def _unchanged(
    folder: StudyFolder,
    known: Definition,
    config: Config,
    space: Sequence[str] | None,
    objective: Objective | None,
    pruner: Pruner | None,
) -> Definition:
    """What the study in the folder is, on the hardware of now; an error if something else is asked.

    What is left out is as it began.
    """
    config = on_validation(for_workers(config))
    asked = Definition(
        config=config,
        space=known.space if space is None else space_from(config, space),
        objective=objective or known.objective,
        pruner=pruner or known.pruner,
    )
    if changed := asked.differing(known):
        raise RunError(
            f"{folder.path} holds a study with other settings: {', '.join(changed)}. Leave them "
            "out to go on with it, or choose another folder with --out."
        )
    return asked


def _drawn(axis: Range | Choice) -> Axis:
    if isinstance(axis, Choice):
        return Axis(None, None, False, axis.plain)
    return Axis(axis.low, axis.high, axis.log, None)
