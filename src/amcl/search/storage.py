"""The storage of a study: Optuna's record of every trial, and what was stopped put back in it."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amcl.search.records import Record
from amcl.search.study import Definition, storage_errors
from amcl.training import RunError

if TYPE_CHECKING:
    import optuna

HEARTBEAT = 15  # seconds between signs of life of a trial
DEAD = 60  # seconds without one: its process is gone
AGAIN, SURPLUS = "again", "surplus"  # marks of trials that are none of their own
_DEATHS = 3  # so many processes die of a trial before it is given up
_FOR_SQLITE = 120  # seconds that a process waits for others to let go of the file


def open_study(
    url: str,
    name: str,
    definition: Definition,
    *,
    images: int | None = None,
    checked: bool = False,
) -> "optuna.Study":
    """The study in its storage, made if it is new; an error if it is of other settings.

    `images`: how many validation images the objective is an accuracy on, for the pruner.
    `checked`: this has been done before, and the tables of the storage need no second look.
    """
    import optuna

    from amcl.search.pruning import pruner_of
    from amcl.search.sampler import SeededSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with storage_errors(url), experiments_allowed():
        wait = {"connect_args": {"timeout": _FOR_SQLITE}} if url.startswith("sqlite") else {}
        storage = optuna.storages.RDBStorage(
            url,
            engine_kwargs=wait,
            skip_compatibility_check=checked,
            skip_table_creation=checked,
            heartbeat_interval=HEARTBEAT,
            grace_period=DEAD,
            heartbeat_stale_trial_callback=take_up_again,
        )
        study = optuna.create_study(
            study_name=name,
            storage=storage,
            sampler=SeededSampler(definition.config.run.seed),
            pruner=pruner_of(definition, images),
            direction="maximize",
            load_if_exists=True,
        )
        told = definition.to_dict()
        known = study.user_attrs.get("amcl")
        if known is None:
            study.set_user_attr("amcl", told)
        elif known != told:
            others = [key for key in told if known.get(key) != told[key]]
            raise RunError(
                f"the study {name!r} in that storage is another: it differs in its "
                f"{', '.join(others)}. Choose another name with --study, or give its settings."
            )
    return study


def put_back(study: "optuna.Study", trial: "optuna.trial.FrozenTrial", deaths: int = 0) -> None:
    """Have a trial that was stopped taken up by whoever comes next, under its own number."""
    study.enqueue_trial(trial.params, user_attrs=_again(study, trial, deaths))


def take_up_again(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    """Put back a trial whose process died; give it up when it kills them all."""
    import optuna

    if trial.user_attrs.get("ending") == "failed":
        return  # it was about to say so
    deaths = trial.user_attrs.get("deaths", 0) + 1
    if deaths < _DEATHS:
        put_back(study, trial, deaths)
        return
    reason = f"its process died, {deaths} times"
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.FAIL,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={**_again(study, trial, deaths), "ending": "failed", "reason": reason},
        )
    )


def number_of(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> int:
    """A trial's place among those that were begun; one that takes up another has that one's.

    It hangs on nothing that changes, so that no two have the same.
    """
    if "number" in trial.user_attrs:
        number: int = trial.user_attrs["number"]
        return number
    others = (t for t in study.get_trials(deepcopy=False) if t.number < trial.number)
    return sum(not {AGAIN, SURPLUS} & other.user_attrs.keys() for other in others)


def _again(study: "optuna.Study", trial: "optuna.trial.FrozenTrial", deaths: int) -> dict[str, Any]:
    """What is known of a trial that is taken up: all but how it ended."""
    kept = {name: v for name, v in trial.user_attrs.items() if name not in ("ending", "reason")}
    return {**kept, "number": number_of(study, trial), "deaths": deaths, AGAIN: True}


def records_of(study: "optuna.Study") -> list[Record]:
    """Trials that have ended, by their numbers."""
    found = [
        Record(
            number=trial.user_attrs["number"],
            ending=trial.user_attrs["ending"],
            point=dict(trial.params),
            value=trial.value if trial.user_attrs["ending"] == "complete" else None,
            reason=trial.user_attrs.get("reason", ""),
            probes=dict(trial.intermediate_values),
            run=trial.user_attrs.get("run", ""),
        )
        for trial in study.get_trials(deepcopy=False)
        if trial.state.is_finished() and not is_void(trial)
    ]
    return sorted(found, key=lambda record: record.number)


def is_void(trial: "optuna.trial.FrozenTrial") -> bool:
    """Whether a trial has no ending of its own: it was stopped, and another takes it up."""
    failed: bool = trial.state.name == "FAIL"
    return failed and trial.user_attrs.get("ending") != "failed"


@contextmanager
def experiments_allowed() -> Iterator[None]:
    """Heartbeats are called experimental by Optuna."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
