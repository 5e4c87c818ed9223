"""The definition of a study, and its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from amcl.config import Config
from amcl.config.fields import differing, on_machine
from amcl.errors import RunError
from amcl.files import is_free, write_text
from amcl.search.objective import OBJECTIVES, Objective
from amcl.search.space import Space, space_from
from amcl.settings import choose, whole_number
from amcl.sweep.storage import FILE, without_password
from amcl.sweep.study_folder import StudyFolder
from amcl.text_files import read_toml, require, to_toml

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


class SearchFolder(StudyFolder):
    """The files of a search.

    `study.toml` has the space and the objective, `base.toml` the settings that trials start from;
    `study.db` is the storage, `trials` holds their run folders. `best.toml`, `trials.csv`,
    `summary.md` and pictures are made from those. The arguments are those of `StudyFolder`.
    """

    LISTING = "study.toml"
    RUNS = "trials"

    @property
    def base(self) -> Path:
        """File of the settings that trials start from."""
        return self.path / "base.toml"

    @property
    def best(self) -> Path:
        """File of the chosen settings."""
        return self.path / "best.toml"

    def read_definition(self) -> Definition:
        """Return the definition of the study."""
        listing = self.read_listing()
        config = Config.from_file(self.base)
        try:
            definition = Definition(
                config=config,
                space=space_from(config, listing["space"]),
                objective=listing["objective"],
                pruner=listing["pruner"],
            )
        except (TypeError, AttributeError) as error:
            raise RunError(f"{self.listing} is damaged: {error!r}.") from None
        is_local = not self.address[0]
        if is_local and self.run("").exists() and not (self.path / FILE).is_file():
            raise RunError(
                f"{FILE} is gone from {self.path}, and with it all records: put it back, or choose "
                "another folder with --out."
            )
        return definition

    def trials(self) -> int:
        """Return the number of trials to run; that of the paper without a study."""
        if not self.exists():
            return TRIALS
        try:
            return whole_number("trials", self.read_listing().get("trials", TRIALS))
        except ValueError as error:
            raise RunError(f"{self.listing} is damaged: {error}") from None

    def remember_trials(self, trials: int) -> None:
        """Write the number of trials to run into the listing, for when the study is resumed."""
        if trials != self.trials():
            write_text(self.listing, to_toml({**self.read_listing(), "trials": trials}))

    def check_free(self, definition: Definition) -> None:
        """Raise an error if something else is here than the beginning of this very study."""
        own_files = [self.base.name] if self._has_base_of(definition) else []
        if not is_free(self.path, *own_files):
            raise RunError(f"{self.path} is not an empty folder: choose another with --out.")

    def create(self, definition: Definition, trials: int = TRIALS) -> None:
        """Create the folder of a new study."""
        self.check_free(definition)
        storage, study = self.address
        listing = {"study": study, "storage": without_password(storage), "trials": trials}
        listing |= {n: v for n, v in definition.to_dict().items() if n not in ("kind", "config")}
        write_text(self.base, definition.config.to_toml())
        write_text(self.listing, to_toml(listing))

    def read_listing(self) -> dict[str, Any]:
        """Return the contents of `study.toml`."""
        try:
            listing = read_toml(self.listing)
            require(listing, _Listing, self.listing)
        except ValueError as error:
            raise RunError(str(error)) from None
        return listing

    def _has_base_of(self, definition: Definition) -> bool:
        """Return True if a study of these settings was killed here before it had its listing."""
        try:
            return self.base.read_bytes() == definition.config.to_toml().encode()
        except OSError:
            return False


class _Listing(TypedDict):
    """Content of `study.toml`."""

    study: str
    storage: str
    space: dict[str, str]
    objective: str
    pruner: str
    trials: NotRequired[int]
