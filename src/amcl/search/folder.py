"""The definition of a study, and its folder."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tomli_w

from amcl.config import Config
from amcl.config.fields import differing, on_machine
from amcl.errors import RunError
from amcl.files import is_free, write_text
from amcl.search.objective import OBJECTIVES, Objective
from amcl.search.space import Space, space_from
from amcl.settings import choose, whole_number
from amcl.sweep.storage import FILE, check_storage, without_password

Pruner = Literal["median", "halving", "off"]
PRUNERS: tuple[Pruner, ...] = Pruner.__args__  # type: ignore[attr-defined]
TRIALS = 25
"""Number of trials in the paper."""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """All that trials of one study have in common.

    Args:
        config: Settings that trials start from.
        space: Settings that trials differ in.
        objective: What trials are judged by.
        pruner: Which trials are cut short.
    """

    config: Config
    space: Space
    objective: Objective
    pruner: Pruner = "median"

    def __post_init__(self) -> None:
        choose("objective", self.objective, OBJECTIVES)
        choose("pruner", self.pruner, PRUNERS)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as files and storages keep it."""
        config = on_machine(self.config, Config()).to_toml()
        return {
            "kind": "search",
            "objective": self.objective,
            "pruner": self.pruner,
            "space": {name: str(axis) for name, axis in self.space.items()},
            "config": Config.from_toml(config).to_toml(),  # 5.0, where a recipe says 5
        }

    def differing(self, other: "Definition") -> list[str]:
        """Return the names of what differs."""
        mine, theirs = self.to_dict(), other.to_dict()
        changed = [key for key in mine if key != "config" and mine[key] != theirs[key]]
        return changed + differing(self.config, other.config)


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

    def run(self, name: str) -> Path:
        return self.path / "trials" / name

    def exists(self) -> bool:
        """Return True if there is a study here."""
        return self.listing.is_file()

    def read(self, storage: str = "", study: str | None = None) -> tuple[Definition, str, str]:
        """Return the definition of the study, its storage, and its name there.

        Args:
            storage: Address of the storage with its password, which is not written down.
            study: Name of the study; an error if it has another.
        """
        try:
            listed = self._listed()
            config = Config.from_file(self.base)
            definition = Definition(
                config=config,
                space=space_from(config, listed["space"]),
                objective=listed["objective"],
                pruner=listed["pruner"],
            )
            stored = str(listed["storage"]), str(listed["study"])
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{self.listing} is damaged: {error!r}.") from None
        storage, name = check_storage(self.path, stored, storage, study)
        started = (self.path / "trials").exists()
        if started and not storage and not (self.path / FILE).is_file():
            raise RunError(
                f"{FILE} is gone from {self.path}, and with it all records: put it back, or choose "
                "another folder with --out."
            )
        return definition, storage, name

    def trials(self) -> int:
        """Return the number of trials that the study is to have; the paper's if there is none."""
        if not self.exists():
            return TRIALS
        try:
            return whole_number("trials", self._listed().get("trials", TRIALS))
        except ValueError as error:
            raise RunError(f"{self.listing} is damaged: {error}") from None

    def remember_trials(self, trials: int) -> None:
        """Write down the number of trials that the study is to have, for when it is resumed."""
        if trials != self.trials():
            write_text(self.listing, tomli_w.dumps({**self._listed(), "trials": trials}))

    def check_free(self, definition: Definition) -> None:
        """Raise an error if something else is here than the beginning of this very study."""
        known = [self.base.name] if self._has_base_of(definition) else []
        if not is_free(self.path, *known):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def create(
        self, definition: Definition, storage: str, study: str, trials: int = TRIALS
    ) -> None:
        """Create the folder of a new study."""
        self.check_free(definition)
        listed = {"study": study, "storage": without_password(storage), "trials": trials}
        listed |= {n: v for n, v in definition.to_dict().items() if n not in ("kind", "config")}
        write_text(self.base, definition.config.to_toml())
        write_text(self.listing, tomli_w.dumps(listed))

    def _listed(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.listing.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise RunError(f"{self.listing} is damaged: {error!r}.") from None

    def _has_base_of(self, definition: Definition) -> bool:
        """Return True if a study of these settings was killed here before it had its listing."""
        try:
            return self.base.read_bytes() == definition.config.to_toml().encode()
        except OSError:
            return False
