"""Pages of pictures on what runs have learned, and on a curation."""

from amcl.report.blocks import (
    Beside,
    Block,
    Chart,
    Code,
    Gallery,
    Link,
    Map,
    Note,
    Paragraph,
    Picture,
    Section,
)
from amcl.report.compose import report
from amcl.report.curation import curation_page
from amcl.report.page import Page
from amcl.report.runs import ReportSettings

__all__ = [
    "Beside",
    "Block",
    "Chart",
    "Code",
    "Gallery",
    "Link",
    "Map",
    "Note",
    "Page",
    "Paragraph",
    "Picture",
    "ReportSettings",
    "Section",
    "curation_page",
    "report",
]
