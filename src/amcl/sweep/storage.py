"""The storage of many runs: an Optuna study in a SQLite file, any database, or a journal."""

import os
import shlex
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amcl.errors import RunError
from amcl.extras import missing, needed
from amcl.files import expand_home
from amcl.redaction import HIDDEN, redact

if TYPE_CHECKING:
    import optuna
    import sqlalchemy

FILE = "study.db"
JOURNAL = ".journal"  # ends the name of a file that is a journal of Optuna
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
        url: Address of the database, as SQLAlchemy writes it, or path of a journal.
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
            storage=_journal(url) if is_journal(url) else _database(url, checked),
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


def is_journal(storage: str) -> bool:
    """Return True if a storage is a journal of Optuna: the path of a file that ends in .journal.

    >>> is_journal("/shared/tau.journal"), is_journal("sqlite:///tau.journal")
    (True, False)
    """
    return storage.endswith(JOURNAL) and "://" not in storage


def _journal(path: str) -> "optuna.storages.BaseStorage":
    """Return the journal in a file, whose folder must exist."""
    from amcl.sweep.journal import Journal

    return Journal(expand_home(path), HEARTBEAT, GRACE)


def _address(url: str) -> "sqlalchemy.URL":
    """Return the address of a database, with the driver that the extra installs for PostgreSQL."""
    from sqlalchemy.engine import make_url

    address = make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    if address.drivername == "postgresql+psycopg" and missing("psycopg"):
        raise RunError(needed("--storage postgresql://…", "psycopg", "postgres"))
    return address


def _database(url: str, checked: bool) -> "optuna.storages.RDBStorage":
    """Return the database; where another process creates its tables at this moment, try again."""
    import optuna
    import sqlalchemy.exc

    address = _address(url)
    if address.get_backend_name() == "sqlite":
        options: dict[str, Any] = {"connect_args": {"timeout": _SQLITE_TIMEOUT}}
    else:  # no connection stays open in the hours of a run, when a firewall may close it
        options = {"poolclass": sqlalchemy.pool.NullPool}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            database = optuna.storages.RDBStorage(
                address.render_as_string(hide_password=False),
                engine_kwargs=options,
                skip_compatibility_check=checked,
                skip_table_creation=checked,
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
            )
            if address.get_backend_name() == "sqlite":
                sqlalchemy.event.listen(database.engine, "begin", _lock_file)
            return database
        except sqlalchemy.exc.DBAPIError as error:
            duplicate = isinstance(error, sqlalchemy.exc.IntegrityError)
            if attempt == _ATTEMPTS or not (duplicate or "already exists" in str(error)):
                raise
            time.sleep(attempt)
    raise RuntimeError("the last attempt returns or raises")


def _lock_file(connection: "sqlalchemy.Connection") -> None:
    """Begin a transaction of SQLite that no other process can change the file in.

    SQLite knows no SELECT … FOR UPDATE: without the lock two processes that look for a waiting
    trial at the same moment both find the same one, and both carry it out.
    """
    connection.exec_driver_sql("BEGIN IMMEDIATE")


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
    if is_journal(url):
        return str(expand_home(url).absolute())
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
            "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME, or is the path of a file that "
            f"ends in {JOURNAL}."
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
