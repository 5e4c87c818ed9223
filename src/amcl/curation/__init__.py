"""What a model says about a folder of images: copies, odd and ambiguous images, what to label."""

from amcl.curation.curate import curate
from amcl.curation.result import COLUMNS, Curation, read_curation
from amcl.curation.settings import CurationSettings

__all__ = ["COLUMNS", "Curation", "CurationSettings", "curate", "read_curation"]
