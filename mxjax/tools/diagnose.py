"""MXNet's tools/diagnose.py: what somebody who helps needs to know of this machine. Nothing is sent anywhere."""

from __future__ import annotations

import argparse
import platform
import sys
from importlib import metadata

SECTIONS = ("python", "pip", "mxnet", "os", "hardware", "environment")


def _package(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def told(section: str) -> list[str]:
    """The lines of a section.

    >>> told("python")[0].startswith("Version")
    True
    """
    if section == "python":
        return [f"Version      : {platform.python_version()}", f"Executable   : {sys.executable}"]
    if section == "pip":
        return [
            f"{name:13}: {_package(name)}"
            for name in ("pip", "numpy", "jax", "jaxlib", "flax", "optax")
        ]
    if section == "os":
        return [f"Platform     : {platform.platform()}", f"Node         : {platform.node()}"]
    import mxjax

    if section == "mxnet":
        features = [f"{'+' if f.enabled else '-'} {f.name}" for f in mxjax.runtime.feature_list()]
        return [
            f"Version      : {mxjax.__version__}",
            f"Directory    : {mxjax.__path__[0]}",
            *features,
        ]
    if section == "hardware":
        import jax

        return [f"Machine      : {platform.machine()}", f"Processor    : {platform.processor()}",
                *[f"Device       : {d.platform} {d.device_kind}" for d in jax.devices()]]  # fmt: skip
    return [f"{name} = {mxjax.config.get(name)!r}" for name in mxjax.config.changed()]


def main(arguments: list[str]) -> int:
    """Prints the sections that are asked for."""
    asked = argparse.ArgumentParser("diagnose.py", description="What this machine is")
    for name in (*SECTIONS, "network"):
        shown = (
            "taken: nothing is asked of the network" if name == "network" else f"the section {name}"
        )
        asked.add_argument(f"--{name}", type=int, default=1, help=shown)
    asked.add_argument("--region", default="", help="taken")
    asked.add_argument("--timeout", type=int, default=10, help="taken")
    given = vars(asked.parse_args(arguments))
    for name in SECTIONS:
        if given[name]:
            print(f"{f' {name} ':-^40}", *told(name), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
