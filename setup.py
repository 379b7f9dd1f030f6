"""Finds the packages; everything else is declared in pyproject.toml.

The wings (gluon, memonger, kvstore, profiler) lie beside the core and are installed inside it.  In
a checkout they are also seen through the links mxjax/<wing>; an sdist carries them without links,
so they are looked up in their own folders.
"""

from setuptools import find_packages, setup

WINGS = ("gluon", "memonger", "kvstore", "profiler")


def packages() -> list[str]:
    """Every package of the project, under the name that it is installed with."""
    found = set(find_packages(include=["mxjax", "mxjax.*"]))
    for wing in WINGS:
        found.add(f"mxjax.{wing}")
        found.update(f"mxjax.{wing}.{name}" for name in find_packages(wing))
    return sorted(found)


setup(packages=packages())
