"""The page of a curation: galleries, thresholds, a map and a table of its images."""

from amcl.report.curation.page import FILE, curation_page

__all__ = ["FILE", "curation_page"]
