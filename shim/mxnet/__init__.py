"""This is mxjax: `pip install mxjax-as-mxnet` put the name `mxnet` here."""

import os as _os
import sys as _sys


def _other_packages():
    """Names of other installed packages that are `mxnet`.

    Only those are asked for their files that have it in their names: to ask all takes a fifth of a second.
    """
    found = set()
    for folder in dict.fromkeys(_sys.path):
        try:
            names = _os.listdir(folder or ".")
        except OSError:  # a zip file, or nothing
            continue
        for name in names:
            project = name.split("-")[0].replace("_", "-").lower()
            if not name.endswith((".dist-info", ".egg-info")) or "mxnet" not in project:
                continue
            if project == "mxjax-as-mxnet":
                continue
            from importlib import metadata

            for package in metadata.distributions(name=project, path=[folder or "."]):
                told = (package.read_text("top_level.txt") or "").split()
                if "mxnet" in (*told, *[file.parts[0] for file in package.files or ()]):
                    found.add(package.metadata["Name"] or project)
    return sorted(found)


_others = _other_packages()
if _others:
    raise ImportError(
        f"two packages are installed as `mxnet`: mxjax-as-mxnet and {', '.join(_others)}. Uninstall both, and install "
        f"the one that you mean: pip uninstall mxjax-as-mxnet {' '.join(_others)}"
    )

stands_for_mxjax = True  # mxjax puts itself into this module's place

import mxjax.as_mxnet  # noqa: E402, F401
