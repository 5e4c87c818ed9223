"""Random views of each image of a batch: drawn on the CPU, made on the images' device."""

from amcl.views.channels import suited
from amcl.views.groups import ViewGroups
from amcl.views.parameters import ViewParameters
from amcl.views.settings import LETTERS, ViewSettings
from amcl.views.views import IMAGENET_MEAN, IMAGENET_STD, Views

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "LETTERS",
    "ViewGroups",
    "ViewParameters",
    "ViewSettings",
    "Views",
    "suited",
]
