"""What becomes of a program of MXNet here.

    python -m mxjax.port check PATH ...      reads programs, never runs them
    python -m mxjax.port run script.py       runs one, and explains the first fault

`check` follows the names of a program through its imports, and asks the package itself what it has; what it has not,
and what differs, is said by the tables docs/exclusions.md and docs/mxnet_versions.md, and older names of Python's and
NumPy's by `older_names.py`.
"""

from __future__ import annotations

from .check import Found, check
from .compat import give_back

__all__ = ["Found", "check", "give_back"]
