"""Finds the packages; everything else is declared in pyproject.toml.

The wings (gluon, memonger, kvstore, profiler) lie beside the core and are installed inside it.  In
a checkout they are also seen through the links mxjax/<wing>; an sdist carries no links, so the wings
are looked up in their own folders, and the links are made where it is unpacked to be worked on (`make test`).
"""

from pathlib import Path

from setuptools import find_packages, setup

WINGS = ("gluon", "memonger", "kvstore", "profiler")


def packages() -> list[str]:
    """Every package of the project, under the name that it is installed with."""
    found = set(find_packages(include=["mxjax", "mxjax.*"]))
    for wing in WINGS:
        found.add(f"mxjax.{wing}")
        found.update(f"mxjax.{wing}.{name}" for name in find_packages(wing))
    return sorted(found)


def link_wings() -> None:
    """Make the links that a checkout has, where they are missing and can be made."""
    root = Path(__file__).parent
    for wing in WINGS:
        link = root / "mxjax" / wing
        if (root / wing).is_dir() and not (link.is_symlink() or link.exists()):
            try:
                link.symlink_to(f"../{wing}")
            except OSError:  # an installed package needs none
                return


found = packages()  # before there are links to find them through twice
link_wings()
setup(packages=found)
