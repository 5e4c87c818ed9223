"""Blocks of a report, by their words and charts."""

from amcl.report import Beside, Note, Paragraph, ReportSettings
from amcl.report.runs import read_runs
from amcl.results import Table


def read(*paths, **asked):
    return read_runs(paths, ReportSettings(**asked))


def flat(blocks):
    """All blocks, those in columns too."""
    for block in blocks:
        if isinstance(block, Beside):
            for _, inner in block.columns:
                yield from flat(inner)
        else:
            yield block


def of(section, kind):
    return [block for block in flat(section.blocks) if isinstance(block, kind)]


def words(section):
    texts = [block.text for block in of(section, Paragraph) + of(section, Note)]
    return " ".join(texts + [block.caption for block in of(section, Table)])
