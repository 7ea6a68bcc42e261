"""The documentation as a site: ``make docs`` writes it to ``build/docs``, without the network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = str(ROOT)  # the tutorial's kernel imports the same tree
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # else the kernel warns about frozen modules

import dynstore  # noqa: E402

project = "dynstore"
author = "the dynstore authors"
release = version = dynstore.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
root_doc = "index"
exclude_patterns = ["README.md"]  # `index.md` includes it

# --- Markdown, and the tutorial, which is run anew in each build
source_suffix = {".md": "myst-nb"}
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_output_stderr = "remove"  # a note that kernels are being compiled

# --- the reference
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections have the types
autodoc_inherit_docstrings = True
autosummary_generate = False
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the pages have tables by topic
numpydoc_xref_param_type = False
numpydoc_validation_checks = {"GL02", "GL08", "SS01", "SS02", "SS03", "PR01", "PR02", "PR03", "PR05", "PR10", "RT01"}
# Records and other objects that programs get, but do not make: their attributes are documented, not their parameters.
numpydoc_validation_exclude = {
    r"\.(Answer|BadUnit|Database|EventTable|GapCSR|GraphView|Monitor|Operation|OperationResults|PagedTopology)$",
    r"\.(PinnedGraph|Progress|Recovery|ReorderReport|Report|RunReport|SharedPool|SimpleGraph|SlideReport|Source)$",
    r"\.(StreamMonitor|Tick|UpdateReport)$",
    r"\.(Slide|Update)Report\.(count|index)$",
    r"\.(is|number_of)_\w+$",  # one line says all
    r"\.(DaskGraph|DynamicGraph|ShardedGraph)\.(device|edge_table|version|vertex_ids)$",  # ReadableGraph has the text
    r"\.ModelGraph\.",  # its methods are those of DynamicGraph
    r"\.__\w+__$",
}

# --- the page
html_theme = "pydata_sphinx_theme"
html_title = f"dynstore {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {"index": [], "tutorial": []}
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
}

# Pages are read in the repository, too, where links lead to files outside of `docs`. The site has no such files: it
# shows the name of the file instead.
LINK_UP = re.compile(r"\[([^\]]+)\]\((\.\./[^)]+)\)")


def _name_files_outside(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace links to files outside of `docs` by their text."""
    here = ROOT / "docs" / Path(docname).parent

    def rewrite(found: re.Match[str]) -> str:
        target = (here / found.group(2).partition("#")[0]).resolve()
        return found.group(0) if target.is_relative_to(ROOT / "docs") else found.group(1)

    source[0] = LINK_UP.sub(rewrite, source[0])


class MermaidLexer(TextLexer):
    """Diagrams are drawn where the repository is read; the site shows their text."""

    name = "mermaid"


def setup(app: Sphinx) -> None:
    """Connect what prepares the pages."""
    app.add_lexer("mermaid", MermaidLexer)
    app.connect("source-read", _name_files_outside)
    app.connect("include-read", lambda app, path, parent, source: _name_files_outside(app, "index", source))
