"""The storage of many runs: an Optuna study in a SQLite file, or in any database."""

import os
import shlex
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amcl.errors import RunError
from amcl.redaction import HIDDEN, redact

if TYPE_CHECKING:
    import optuna

FILE = "study.db"
HEARTBEAT = 15  # seconds between two signs of life of a trial
GRACE = 60  # seconds without a sign of life after which its process counts as dead
_ATTEMPTS = 4  # at opening a database whose tables another process creates
_SQLITE_TIMEOUT = 120  # seconds that a process waits for others to let go of the file


def open_study(
    url: str,
    name: str,
    definition: dict[str, Any],
    *,
    sampler: "optuna.samplers.BaseSampler | None" = None,
    pruner: "optuna.pruners.BasePruner | None" = None,
    checked: bool = False,
) -> "optuna.Study":
    """Return the study of this name, which is created if there is none.

    Args:
        url: Address of the database, as SQLAlchemy writes it.
        name: Name of the study in it.
        definition: Definition of the study; a study of the same name with another one is an error.
        sampler: Sampler of the study.
        pruner: Pruner of the study.
        checked: Whether another call has already checked the tables of the database.

    Returns:
        The study, with heartbeats.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with storage_errors(url), without_experimental_warnings():
        study = optuna.create_study(
            study_name=name,
            storage=_database(url, checked),
            sampler=sampler,
            pruner=pruner,
            direction="maximize",
            load_if_exists=True,
        )
        stored = study.user_attrs.get("amcl")
        if stored is None:
            study.set_user_attr("amcl", definition)
        elif stored != definition:
            changed = [key for key in definition if stored.get(key) != definition[key]]
            raise RunError(
                f"the study {name!r} in that storage is another: it differs in its "
                f"{', '.join(changed)}. Choose another name with --study, or give its settings."
            )
    return study


def _database(url: str, checked: bool) -> "optuna.storages.RDBStorage":
    """Return the database; where another process creates its tables at this moment, try again."""
    import optuna
    import sqlalchemy.exc

    timeout = {"connect_args": {"timeout": _SQLITE_TIMEOUT}}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return optuna.storages.RDBStorage(
                url,
                engine_kwargs=timeout if url.startswith("sqlite") else {},
                skip_compatibility_check=checked,
                skip_table_creation=checked,
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
            )
        except sqlalchemy.exc.DBAPIError as error:
            duplicate = isinstance(error, sqlalchemy.exc.IntegrityError)
            if attempt == _ATTEMPTS or not (duplicate or "already exists" in str(error)):
                raise
            time.sleep(attempt)
    raise RuntimeError("the last attempt returns or raises")


def storage_url(folder: Path, storage: str) -> str:
    """Return the address of a storage; "" is a file of the folder."""
    if storage:
        return storage
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=str((folder / FILE).resolve())).render_as_string()


def without_password(url: str) -> str:
    """Return the address of a storage without its password, as it may be written to a file.

    >>> without_password("postgresql://me:secret@host/studies")
    'postgresql://me:***@host/studies'
    """
    if not url:
        return url
    from sqlalchemy.engine import make_url

    with storage_errors(url):
        return redact(make_url(url).render_as_string(hide_password=True))


def resume_command(command: str, folder: Path, storage: str, *options: str) -> str:
    """Return the command that resumes the sweep or study in a folder.

    >>> resume_command("search", Path("studies/first"), "")
    'amcl search --out studies/first'
    """
    words = shlex.join(["amcl", command, "--out", str(folder), *options])
    if HIDDEN in (address := without_password(storage)):
        words += f" --storage {shlex.quote(address)}, with the password"
    return words


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn errors of a storage into errors of one line.

    An error of another kind that was raised while one of the storage was handled is one of these.
    """
    import sqlalchemy.exc

    scheme = url.split("://")[0] if "://" in url else "--storage"
    try:
        yield
    except sqlalchemy.exc.ArgumentError as error:
        raise ValueError(
            f"{scheme} is no address of a database ({type(error).__name__}): it is written like "
            "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
        ) from None
    except Exception as error:
        reason = _storage_error(error)
        if reason is None:
            raise
        first = redact(str(reason)).strip().split(os.linesep)[0]
        raise RunError(f"the storage ({scheme}) cannot be used: {first}") from error


def _storage_error(error: BaseException) -> BaseException | None:
    """Return the first error of the storage among those that led to an error."""
    import optuna
    import sqlalchemy.exc

    from_storage = (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)
    first: BaseException | None = None
    if isinstance(error, optuna.exceptions.OptunaError | ImportError):
        first = error
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, from_storage):
            first = current
        current = current.__cause__ or current.__context__
    return first


@contextmanager
def without_experimental_warnings() -> Iterator[None]:
    """Silence the warnings of Optuna that heartbeats are experimental."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield
