"""A report links the curations that were made with its runs, and no others."""

from urllib.parse import unquote

import pytest

from amcl.cli import main
from amcl.curation import curate
from amcl.errors import RunError
from amcl.report import Link, curation_page
from amcl.report.sections.curation import curations
from amcl.results import Table
from planted_copies import QUICK, plant
from report_blocks import of, read

pytestmark = pytest.mark.usefixtures("few_images")


@pytest.fixture(scope="module")
def curation(runs, tmp_path_factory):
    """A curation in a folder whose name could pass for the scheme of an address."""
    folder = tmp_path_factory.mktemp("curated")
    pictures = plant(folder / "pictures")
    out = folder / 'javascript:alert(1)<"&#?'
    made = curate(runs("amcl"), str(pictures), out, QUICK, workers=0, accelerator="cpu")
    curation_page(made, workers=0)
    return made


def test_a_curation_is_linked_with_its_numbers(runs, curation):
    section = curations(
        read(runs("plain"), runs("amcl")), [curation.folder], curation.folder.parent
    )
    (table,) = of(section, Table)
    numbers = dict(zip(table.header, table.rows[0], strict=True))
    assert numbers["exact copies"] == f"{curation.info['counts']['exact']}"
    assert table.caption.endswith("pictures, by amcl")
    (link,) = of(section, Link)
    assert ":" not in link.address
    assert (curation.folder.parent / unquote(link.address)).samefile(
        curation.folder / "curation.html"
    )


def test_other_runs_and_curations_without_a_page_are_errors(runs, curation, tmp_path):
    with pytest.raises(RunError, match="made with other weights than those of plain"):
        curations(read(runs("plain")), [curation.folder], tmp_path)
    with pytest.raises(RunError, match=r"no curation\.json"):
        curations(read(runs("amcl")), [tmp_path], tmp_path)
    page = curation.folder / "curation.html"
    text = page.read_bytes()
    page.unlink()
    with pytest.raises(RunError, match=r"no curation\.html"):
        curations(read(runs("amcl")), [curation.folder], tmp_path)
    page.write_bytes(text)


def test_the_command_takes_curations(runs, curation, tmp_path, capsys):
    out = tmp_path / "new" / "report.html"
    words = ["report", str(runs("amcl")), "--curation", str(curation.folder), "--out", str(out)]
    assert main([*words, "--images", "8", "--threads", "1"]) == 0
    text = out.read_text()
    assert '<h2 id="curation">Curation</h2>' in text
    assert "javascript%3Aalert" in text
    assert '<"&#?' not in text
