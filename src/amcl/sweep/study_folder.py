"""The folder of a study of Optuna: its listing, its storage, and the folders of its runs."""

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from amcl.errors import RunError
from amcl.redaction import HIDDEN
from amcl.sweep.storage import FILE, is_journal, open_study, storage_url, without_password

if TYPE_CHECKING:
    import optuna


class StudyFolder(ABC):
    """The files of a study.

    Args:
        path: The folder.
        storage: Address of the database with its password, or path of a journal; "" for the one
            that the folder names.
        study: Name of the study in it; None for the one that the folder names.
    """

    LISTING: ClassVar[str]
    """Name of the file that has the address of the storage, and the name of the study."""
    RUNS: ClassVar[str]
    """Name of the folder of run folders."""

    def __init__(self, path: Path, storage: str = "", study: str | None = None) -> None:
        self.path = path
        self._requested_storage = storage
        self._requested_study = study

    @property
    def listing(self) -> Path:
        """File that has the address of the storage, and the name of the study."""
        return self.path / self.LISTING

    def run(self, name: str) -> Path:
        """Return the folder of a run."""
        return self.path / self.RUNS / name

    def exists(self) -> bool:
        """Return True if there is a study here."""
        return self.listing.is_file()

    @abstractmethod
    def read_listing(self) -> dict[str, Any]:
        """Return the contents of the listing."""

    @cached_property
    def address(self) -> tuple[str, str]:
        """Address of the storage with its password, and name of the study; "" is a local file."""
        storage = self._requested_storage
        study = self._requested_study
        if not self.exists():
            return storage, study or self.path.resolve().name
        listing = self.read_listing()
        stored = str(listing["storage"])
        name = str(listing["study"])
        if storage and without_password(storage) != stored:
            raise RunError(
                f"{self.path} keeps its records in another storage than --storage says: "
                f"{stored or FILE}."
            )
        if not storage and HIDDEN in stored:
            raise RunError(f"the password is not written down: give --storage {stored} with it.")
        if is_journal(stored) and not Path(stored).is_file():
            raise RunError(
                f"{stored} is gone, and with it all records of {self.path}: put it back, or choose "
                "another folder with --out."
            )
        if study not in (None, name):
            raise RunError(f"{self.path} holds the study {name!r}, not --study {study!r}.")
        return storage or stored, name

    def open(self, definition: dict[str, Any], **options: Any) -> "optuna.Study":
        """Return the study, created if there is none.

        Args:
            definition: Definition of the study.
            options: Other arguments of `open_study`.
        """
        return open_study(self.url, self.address[1], definition, **options)

    @property
    def url(self) -> str:
        """Address of the storage with its password, or path of a journal."""
        return storage_url(self.path, self.address[0])
