"""What a study is, and its folder."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from amcl.files import is_free, write_text
from amcl.redaction import HIDDEN, redact
from amcl.search.objective import OBJECTIVES, Objective
from amcl.search.space import Space, space_from
from amcl.settings import choose, whole_number
from amcl.sweep.fields import differing, on_machine
from amcl.training import Config, RunError

Pruner = Literal["median", "halving", "off"]
PRUNERS: tuple[Pruner, ...] = Pruner.__args__  # type: ignore[attr-defined]
TRIALS = 25
"""As many as the paper has."""


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
        config = on_machine(self.config, Config()).to_toml()
        return {
            "objective": self.objective,
            "pruner": self.pruner,
            "space": {name: str(axis) for name, axis in self.space.items()},
            "config": Config.from_toml(config).to_toml(),  # 5.0, where a recipe says 5
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

    def read(self, storage: str = "", study: str | None = None) -> tuple[Definition, str, str]:
        """What the study is, its storage, and the name it has there.

        `storage`: its address with the password, which is not written down. An error if it or
        `study`, the name, is another.
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
        if study not in (None, name):
            raise RunError(f"{self.path} holds the study {name!r}, not {study!r}.")
        begun = (self.path / "trials").exists()
        if begun and not known and not (self.path / "study.db").is_file():
            raise RunError(
                f"study.db is gone from {self.path}, and with it what was found: put it back, or "
                "choose another folder with --out."
            )
        return definition, storage or known, name

    def trials(self) -> int:
        """How many trials the study is to have in all; the paper's number where there is none."""
        if not self.exists():
            return TRIALS
        try:
            listed = tomllib.loads(self.listing.read_text(encoding="utf-8"))
            return whole_number("trials", listed.get("trials", TRIALS))
        except (tomllib.TOMLDecodeError, ValueError) as error:
            raise RunError(f"{self.listing} is damaged: {error}") from None

    def remember_trials(self, trials: int) -> None:
        """Write down how many trials the study is to have, for who goes on with it."""
        if trials != self.trials():
            listed = tomllib.loads(self.listing.read_text(encoding="utf-8"))
            write_text(self.listing, tomli_w.dumps({**listed, "trials": trials}))

    def check_free(self, definition: Definition) -> None:
        """Raise an error if something else is here than the beginning of this very study."""
        known = [self.base.name] if self._has_base_of(definition) else []
        if not is_free(self.path, *known):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def _has_base_of(self, definition: Definition) -> bool:
        """Whether a study of these settings was killed here before it had its listing."""
        try:
            return self.base.read_bytes() == definition.config.to_toml().encode()
        except OSError:
            return False

    def create(
        self, definition: Definition, storage: str, study: str, trials: int = TRIALS
    ) -> None:
        """Make the folder of a new study of this number of trials."""
        self.check_free(definition)
        told = definition.to_dict()
        del told["config"]
        head: dict[str, Any] = {"study": study, "storage": without_password(storage)}
        head["trials"] = trials
        write_text(self.base, definition.config.to_toml())
        write_text(self.listing, tomli_w.dumps({**head, **told}))

    def url(self, storage: str) -> str:
        """The address of a storage; "" is a file of the folder."""
        if storage:
            return storage
        from sqlalchemy.engine import URL

        file = str((self.path / "study.db").resolve())
        return URL.create("sqlite", database=file).render_as_string()


def without_password(url: str) -> str:
    """A storage's address as it may be written down.

    >>> without_password("postgresql://me:secret@host/studies")
    'postgresql://me:***@host/studies'
    """
    if not url:
        return url
    from sqlalchemy.engine import make_url

    with storage_errors(url):
        return redact(make_url(url).render_as_string(hide_password=True))


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
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
        first = redact(str(error)).strip().split(os.linesep)[0]
        raise RunError(f"the storage ({where}) cannot be used: {first}") from error
