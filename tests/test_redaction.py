"""Passwords and keys do not reach files, pages or messages."""

import sqlite3
import sys

import pytest
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.pool import NullPool

from amcl.cli import main
from amcl.cli.command import attempt
from amcl.errors import RunError
from amcl.redaction import redact, redact_command
from amcl.search import study

SECRET = "Hunter2/§"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"postgresql+psycopg2://:{SECRET}@host:5432/db",
        f"mysql://me:{SECRET}@x@host/db",
        f"postgresql://host/db?user=me&password={SECRET}&sslmode=on",
        f"https://host/hook?api_key={SECRET}",
    ],
)
def test_an_address_keeps_everything_but_its_secret(address):
    assert SECRET not in redact(f"no route to {address}, try again")
    assert redact(f"no route to {address}").startswith("no route to ")
    assert "***" in redact_command(["amcl", "--storage", address])
    assert SECRET not in redact_command(["amcl", f"--storage={address}"])


@pytest.mark.parametrize("option", ["--api-key", "--wandb-key-token", "--hub.token", "--password"])
def test_the_value_of_a_secret_option_is_hidden(option):
    assert redact_command(["amcl", option, SECRET, "--lr", "1"]) == f"amcl {option} '***' --lr 1"
    assert redact_command(["amcl", f"{option}={SECRET}"]) == f"amcl '{option}=***'"


def test_what_is_no_secret_stays():
    plain = ["amcl", "search", "--storage", "sqlite:////a/b@c.db", "--views", "a:b", "x@y"]
    assert redact_command(plain) == "amcl search --storage sqlite:////a/b@c.db --views a:b x@y"


def test_an_error_is_shown_without_the_secret_in_it(capsys):
    def work():
        raise RunError(f"no route to postgresql://me:{SECRET}@host/db")

    assert attempt("amcl search", work) == 1
    assert "no route to postgresql://me:***@host/db" in capsys.readouterr().err


class StandIn(SQLiteDialect_pysqlite):
    """A database with users and passwords, in a file."""

    supports_statement_cache = True
    file = ""

    @classmethod
    def get_pool_class(cls, url):
        return NullPool

    def create_connect_args(self, url):
        return [[self.file], {"timeout": 60}]


@pytest.mark.slow
def test_the_password_of_a_storage_is_in_no_file_and_on_no_page(
    tmp_path, monkeypatch, capsys, few_images
):
    monkeypatch.setattr(StandIn, "file", str(tmp_path / "elsewhere.db"))
    registry.register("standin", __name__, "StandIn")
    monkeypatch.setattr(study, "save_plots", lambda *args: ([], {}))
    out = tmp_path / "s"
    args = ["search", "--recipe", "builtin-simclr-amcl", "--epochs", "1", "--trials", "1"]
    args += ["--batch-size", "32", "--projector", "16", "8", "--objective", "linear"]
    args += ["--storage", "standin://me:sesame@host/db", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["amcl", *args])
    assert main(args) == 0
    assert main(["search", "--out", str(out)]) == 1  # the password is asked for
    assert main(["report", str(out / "trials/0000"), "--out", str(tmp_path / "page.html")]) == 0
    assert "sesame" not in "".join(capsys.readouterr())
    assert sqlite3.connect(StandIn.file).execute("SELECT COUNT(*) FROM trials").fetchone() == (1,)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "standin://me:***@host/db" in (out / "trials/0000/environment.jsonl").read_text()
    assert [path for path in files if b"sesame" in path.read_bytes()] == []
