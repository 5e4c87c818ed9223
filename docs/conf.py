"""Sphinx builds the documentation from this: `make docs`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "amcl"
author = "the amcl developers"
version = release = version_of("amcl-torch")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "commands",
    "links",
    "mathml",
    "packages",
]
exclude_patterns = ["_build", "README.md"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are committed with their output; tests execute them
copybutton_exclude = ".linenos, .gp, .go"

default_role = "code"  # as in Markdown
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_default_options = {"members": True, "show-inheritance": False}
autoclass_content = "class"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"amcl {release}"
html_static_path = ["_static"]
html_css_files = ["amcl.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sourcelink = False
