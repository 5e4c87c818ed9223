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
        objective: Metric that trials are judged by.
        pruner: Rule by which trials are cut short.
    """

    config: Config
    space: Space
    objective: Objective
    pruner: Pruner = "median"

    def __post_init__(self) -> None:
        choose("objective", self.objective, OBJECTIVES)
        choose("pruner", self.pruner, PRUNERS)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as files and storages hold it."""
        config = on_machine(self.config, Config()).to_toml()
        return {
            "kind": "search",
            "objective": self.objective,
            "pruner": self.pruner,
            "space": {name: str(axis) for name, axis in self.space.items()},
            "config": Config.from_toml(config).to_toml(),  # 5.0, where a recipe says 5
        }

    def differing(self, other: "Definition") -> list[str]:
        """Return the names of the fields that differ."""
        mine = self.to_dict()
        theirs = other.to_dict()
        changed = [key for key in mine if key != "config" and mine[key] != theirs[key]]
        return changed + differing(self.config, other.config)


class StudyFolder:
    """The files of a study.

    `study.toml` has the space and the objective, `base.toml` the settings that trials start from;
    `study.db` is the storage, `trials` holds their run folders. `best.toml`, `trials.csv`,
    `summary.md` and pictures are made from those.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def listing(self) -> Path:
        """File of the space, the objective and the storage."""
        return self.path / "study.toml"

    @property
    def base(self) -> Path:
        """File of the settings that trials start from."""
        return self.path / "base.toml"

    @property
    def best(self) -> Path:
        """File of the chosen settings."""
        return self.path / "best.toml"

    def run(self, name: str) -> Path:
        """Return the folder of a trial."""
        return self.path / "trials" / name

    def exists(self) -> bool:
        """Return True if there is a study here."""
        return self.listing.is_file()

    def read(self, storage: str = "", study: str | None = None) -> tuple[Definition, str, str]:
        """Return the definition of the study, its storage, and its name there.

        Args:
            storage: Address of the storage with its password, which no file has.
            study: Name of the study; an error if it has another.
        """
        try:
            listing = self._read_listing()
            config = Config.from_file(self.base)
            definition = Definition(
                config=config,
                space=space_from(config, listing["space"]),
                objective=listing["objective"],
                pruner=listing["pruner"],
            )
            stored = str(listing["storage"]), str(listing["study"])
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
        """Return the number of trials to run; that of the paper without a study."""
        if not self.exists():
            return TRIALS
        try:
            return whole_number("trials", self._read_listing().get("trials", TRIALS))
        except ValueError as error:
            raise RunError(f"{self.listing} is damaged: {error}") from None

    def remember_trials(self, trials: int) -> None:
        """Write the number of trials to run into the listing, for when the study is resumed."""
        if trials != self.trials():
            write_text(self.listing, tomli_w.dumps({**self._read_listing(), "trials": trials}))

    def check_free(self, definition: Definition) -> None:
        """Raise an error if something else is here than the beginning of this very study."""
        own_files = [self.base.name] if self._has_base_of(definition) else []
        if not is_free(self.path, *own_files):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def create(
        self, definition: Definition, storage: str, study: str, trials: int = TRIALS
    ) -> None:
        """Create the folder of a new study."""
        self.check_free(definition)
        listing = {"study": study, "storage": without_password(storage), "trials": trials}
        listing |= {n: v for n, v in definition.to_dict().items() if n not in ("kind", "config")}
        write_text(self.base, definition.config.to_toml())
        write_text(self.listing, tomli_w.dumps(listing))

    def _read_listing(self) -> dict[str, Any]:
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
