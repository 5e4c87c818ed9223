"""Search: the trials of a study, and the settings that they choose."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.config import Config
from amcl.config.fields import spelled, value_from, with_values
from amcl.errors import Interrupted, RunError
from amcl.files import write_text
from amcl.results import Record
from amcl.search.folder import Definition, Pruner, SearchFolder
from amcl.search.objective import JUDGED_BY, Objective, is_share, objective_for, on_validation
from amcl.search.plots import save_plots
from amcl.search.space import PAPER, space_from
from amcl.search.summary import markdown, trials_csv
from amcl.search.trials import SearchRuns
from amcl.search.verdict import Verdict, complete, verdict_of
from amcl.settings import whole_number
from amcl.sweep.engine import Trials, work_in_processes
from amcl.sweep.storage import resume_command
from amcl.sweep.workers import Tell, for_workers
from amcl.training.pretrain import load_data
from amcl.training.start import first_stage

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The state of a study.

    Args:
        definition: Definition of the study.
        records: Trials that have ended, in order; `values` is the point of the space, and the
            objective is one of the metrics.
        verdict: Trials as good as the best, and the chosen one; None without a complete trial.
        config: Configuration of the chosen trial.
    """

    definition: Definition
    records: list[Record]
    verdict: Verdict | None
    config: Config | None

    @property
    def best(self) -> Record | None:
        """Trial whose settings are chosen."""
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
) -> SearchResult:
    """Search for the settings of the highest objective.

    Args:
        config: Settings that trials start from.
        out: Folder of the study; a study that is there is resumed.
        trials: Number of trials of the study in all; None for as many as before, or 25.
        space: Fields and their ranges, as in "lr=1e-3:1:log"; None for the paper's spaces.
        objective: Metric that trials are judged by, on validation images; None for kNN, or without
            labels for the effective rank.
        pruner: Rule by which probes cut trials short: "median" of the other trials (the default),
            successive "halving", or "off".
        storage: Any database that Optuna takes, or path of a journal, for several machines; "" for
            a file in `out`.
        study: Name of the study in the database; None for the name of the folder.
        jobs: Number of processes that share the trials.
        keep_checkpoints: Whether to keep the checkpoints of trials that have ended; backbones are
            always kept.
        tell: Function that shows a line to people.

    Returns:
        The records of the trials, the verdict on them, and the chosen configuration.

    Example:
        >>> from amcl.recipes import recipe
        >>> config = recipe("builtin-simclr-amcl")
        >>> result = search(config, "studies/toy", trials=9)  # doctest: +SKIP
        >>> result.best.metrics["knn_validation"]  # doctest: +SKIP
    """
    folder = SearchFolder(Path(out), storage, study)
    trials = whole_number("trials", folder.trials() if trials is None else trials)
    whole_number("jobs", jobs)
    if folder.exists():
        definition = _unchanged(folder, config, space, objective, pruner)
        folder.remember_trials(trials)
    else:
        definition = _define(config, space, objective, pruner or "median")
        folder.check_free(definition)
    runs = SearchRuns(
        names=tuple(f"{number:04d}" for number in range(trials)),
        folder=folder,
        definition=definition,
        images=validation_images(definition),
        jobs=jobs,
        keep_checkpoints=keep_checkpoints,
    )
    if folder.address[0]:
        runs.open(checked=False)  # an error of the storage comes before anything is written here
    if not folder.exists():
        folder.create(definition, trials)
    opened = runs.open(checked=False)
    before = Trials(opened)
    ended = [*before.records().values()]
    tell(_start_message(folder, definition, len(ended), trials))
    runs = replace(runs, complete=len(complete(definition.objective, ended)))
    try:
        work_in_processes(runs, before, jobs, tell, folder.path / "logs")
    except Interrupted as interrupted:
        count = len(Trials(opened).records())
        raise interrupted.with_message(
            f"stopped with {count} of {trials} trials ended, everything is saved. Resume with: "
            f"{resume_command('search', folder.path, folder.address[0])}"
        ) from interrupted
    finally:
        result = report(folder, opened, runs)
    return result


def validation_images(definition: Definition) -> int | None:
    """Return the number of images that the objective is an accuracy on; None if it is none."""
    if not is_share(definition.objective):
        return None
    config = definition.config
    config = replace(config, data=replace(config.data, memory=0.0))  # nothing is decoded for this
    probe = load_data(config).probe
    return None if probe is None else len(probe.queries.labels)


def report(folder: SearchFolder, study: "optuna.Study", runs: SearchRuns) -> SearchResult:
    """Write tables, pictures and the chosen configuration from the trials that have ended."""
    definition = runs.definition
    seed = definition.config.run.seed
    records = [
        replace(record, seed=seed, path=folder.run(name))
        for name, record in sorted(Trials(study).records().items())
    ]
    verdict = verdict_of(definition, records, runs.images)
    config = None
    if verdict is not None:
        values = {
            name: value_from(definition.config, name, spelled(value))
            for name, value in verdict.chosen.values.items()
        }
        config = with_values(definition.config, values)
        # It is trained on all devices of the machine.
        config = replace(config, hardware=replace(config.hardware, devices=0))
        write_text(folder.best, config.to_toml())
    if records:
        write_text(folder.path / "trials.csv", trials_csv(records, definition.objective))
        pictures, missing = save_plots(study, definition, runs.images, folder.path)
        names = [picture.name for picture in pictures]
        page = markdown(records, definition, str(folder.best), names, missing, verdict)
        write_text(folder.path / "summary.md", page)
    return SearchResult(definition=definition, records=records, verdict=verdict, config=config)


def _start_message(folder: SearchFolder, definition: Definition, ended: int, trials: int) -> str:
    """Return a message on the trials that are about to run."""
    space = "  ".join(f"{name}={axis}" for name, axis in definition.space.items())
    if ended >= trials:
        return f"{folder.path} has {ended} trials, and {trials} are wanted: nothing is left to do"
    message = (
        f"{folder.path}: {ended} of {trials} trials have ended; each is judged by "
        f"{JUDGED_BY[definition.objective]}\nlooking at {space}"
    )
    run = definition.config.run
    if definition.pruner != "off" and run.probe_every >= run.epochs:
        message += (
            f"\nno trial can be cut short: its first probe is its last (--probe-every "
            f"{run.probe_every}, --epochs {run.epochs})"
        )
    return message


def _define(
    config: Config, space: Sequence[str] | None, objective: Objective | None, pruner: Pruner
) -> Definition:
    """Return the definition of a new study; everything is checked before the first trial."""
    config = on_validation(for_workers(config))
    axes = space_from(config, [PAPER] if space is None else space)
    if first_stage(config) is not None:
        raise ValueError(
            f"each trial of {config.method.name} would begin with a run of MAE of its own: train "
            "one, and give it to all with --init RUN."
        )
    objective = objective_for(load_data(config), objective)
    return Definition(config=config, space=axes, objective=objective, pruner=pruner)


def _unchanged(
    folder: SearchFolder,
    config: Config,
    space: Sequence[str] | None,
    objective: Objective | None,
    pruner: Pruner | None,
) -> Definition:
    """Return the definition of the study in the folder, on the present hardware.

    Arguments that are None are as the study has them; raise an error if others are requested.
    """
    stored = folder.read_definition()
    config = on_validation(for_workers(config))
    requested = Definition(
        config=config,
        space=stored.space if space is None else space_from(config, space),
        objective=objective or stored.objective,
        pruner=pruner or stored.pruner,
    )
    if changed := requested.differing(stored):
        raise RunError(
            f"{folder.path} holds a study with other settings: {', '.join(changed)}. Leave them "
            "out to resume it, or choose another folder with --out."
        )
    return requested
