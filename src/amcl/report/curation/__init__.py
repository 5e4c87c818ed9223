"""The page of a curation: galleries, thresholds, a map and a table of its images."""

from amcl.report.curation.page import curation_page

__all__ = ["curation_page"]
