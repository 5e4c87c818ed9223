"""The folder and the storage of a study: what is searched, and every trial so far."""

import os
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tomli_w

from amcl.files import write_text
from amcl.search.objective import OBJECTIVES, Objective
from amcl.search.records import Record
from amcl.search.space import Space, space_from
from amcl.settings import choose
from amcl.sweep.fields import differing, on_machine
from amcl.training import Config, RunError

if TYPE_CHECKING:
    import optuna

Pruner = Literal["median", "halving", "none"]
PRUNERS: tuple[Pruner, ...] = Pruner.__args__  # type: ignore[attr-defined]

HEARTBEAT = 15  # seconds between signs of life of a trial
DEAD = 60  # seconds without one: its process is gone
HIDDEN = ":***@"  # a password, in an address that is written down
_DEATHS = 3  # so many processes die of a trial before it is given up
_FOR_SQLITE = 120  # seconds that a process waits for others to let go of the file


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a study is: trials of one study differ in nothing else."""

    config: Config
    space: Space
    objective: Objective
    pruner: Pruner = "median"

    def __post_init__(self) -> None:
        choose("objective", self.objective, OBJECTIVES)
        choose("pruner", self.pruner, PRUNERS)

    def to_dict(self) -> dict[str, Any]:
        """For files and storages."""
        return {
            "objective": self.objective,
            "pruner": self.pruner,
            "space": {name: str(axis) for name, axis in self.space.items()},
            "config": on_machine(self.config, Config()).to_toml(),
        }

    def differing(self, other: "Definition") -> list[str]:
        """Names of what differs."""
        mine, theirs = self.to_dict(), other.to_dict()
        found = [key for key in mine if key != "config" and mine[key] != theirs[key]]
        return found + differing(self.config, other.config)


class StudyFolder:
    """The files of a study.

    `study.toml` says what is searched and `base.toml` what trials start from; `study.db` is the
    storage, `trials` holds their run folders. `best.toml`, `trials.csv`, `summary.md` and pictures
    are made from those.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def listing(self) -> Path:
        return self.path / "study.toml"

    @property
    def base(self) -> Path:
        return self.path / "base.toml"

    @property
    def best(self) -> Path:
        return self.path / "best.toml"

    def trial(self, number: int) -> Path:
        return self.path / "trials" / f"{number:04d}"

    def exists(self) -> bool:
        """Whether there is a study here."""
        return self.listing.is_file()

    def read(self, storage: str = "") -> tuple[Definition, str, str]:
        """What the study is, its storage, and the name it has there.

        `storage`: its address with the password, which is not written down.
        """
        try:
            listed = tomllib.loads(self.listing.read_text(encoding="utf-8"))
            config = Config.from_file(self.base)
            definition = Definition(
                config=config,
                space=space_from(config, listed["space"]),
                objective=listed["objective"],
                pruner=listed["pruner"],
            )
            known, name = str(listed["storage"]), str(listed["study"])
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{self.listing} is damaged: {error!r}.") from None
        if storage and without_password(storage) != known:
            raise RunError(f"{self.path} holds a study in another storage: {known or 'study.db'}.")
        if known and not storage and HIDDEN in known:
            raise RunError(f"the password is not written down: give --storage {known} with it.")
        return definition, storage or known, name

    def create(self, definition: Definition, storage: str, study: str) -> None:
        """Make the folder of a new study."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")
        told = definition.to_dict()
        del told["config"]
        head = {"study": study, "storage": without_password(storage)}
        write_text(self.base, definition.config.to_toml())
        write_text(self.listing, tomli_w.dumps({**head, **told}))

    def url(self, storage: str) -> str:
        """The address of a storage; "" is a file of the folder."""
        if storage:
            return storage
        from sqlalchemy.engine import URL

        file = str((self.path / "study.db").resolve())
        return URL.create("sqlite", database=file).render_as_string()


def open_study(
    url: str, name: str, definition: Definition, *, checked: bool = False
) -> "optuna.Study":
    """The study in its storage, made if it is new; an error if it is of other settings.

    `checked`: this has been done before, and the tables of the storage need no second look.
    """
    import optuna

    from amcl.search.sampler import SeededSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with _storage_errors(url), _experiments_allowed():
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
            pruner=_pruner(definition),
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


def take_up_again(study: "optuna.Study", trial: "optuna.trial.FrozenTrial") -> None:
    """Put a trial whose process died back in the line; give it up when it kills them all."""
    import optuna

    deaths = trial.user_attrs.get("deaths", 0) + 1
    kept = {**trial.user_attrs, "deaths": deaths}
    if deaths < _DEATHS:
        study.enqueue_trial(trial.params, user_attrs=kept)
        return
    reason = f"its process died, {deaths} times"
    study.add_trial(
        optuna.create_trial(
            state=optuna.trial.TrialState.FAIL,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={**kept, "ending": "failed", "reason": reason},
        )
    )


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
        if trial.state.is_finished() and "ending" in trial.user_attrs
    ]
    return sorted(found, key=lambda record: record.number)


def is_void(trial: "optuna.trial.FrozenTrial") -> bool:
    """Whether a trial has no ending of its own: it was stopped, and another takes it up."""
    return trial.state.is_finished() and "ending" not in trial.user_attrs


def without_password(url: str) -> str:
    """A storage's address as it may be written down.

    >>> without_password("postgresql://me:secret@host/studies")
    'postgresql://me:***@host/studies'
    """
    if not url:
        return url
    from sqlalchemy.engine import make_url

    with _storage_errors(url):
        return make_url(url).render_as_string(hide_password=True)


def _pruner(definition: Definition) -> "optuna.pruners.BasePruner":
    import optuna

    run = definition.config.run
    if definition.pruner == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5)
    if definition.pruner == "halving":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=min(run.probe_every, run.epochs), reduction_factor=3
        )
    return optuna.pruners.NopPruner()


@contextmanager
def _experiments_allowed() -> Iterator[None]:
    """Heartbeats are called experimental by Optuna."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


@contextmanager
def _storage_errors(url: str) -> Iterator[None]:
    """Errors of a storage as one line."""
    import optuna
    import sqlalchemy.exc

    try:
        yield
    except sqlalchemy.exc.ArgumentError as error:
        where = url.split("://")[0] if "://" in url else "--storage"
        raise ValueError(
            f"{where} is no address of a database that is known ({type(error).__name__}): it is "
            "written like sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
        ) from None
    except (
        sqlalchemy.exc.SQLAlchemyError,
        optuna.exceptions.OptunaError,
        ImportError,
    ) as error:
        where = url.split("://")[0]
        first = str(error).strip().split(os.linesep)[0]
        raise RunError(f"the storage ({where}) cannot be used: {first}") from error
