"""``import mxjax.as_mxnet``: from then on ``import mxnet`` is mxjax, here and in the processes started from here.

All its modules are the very modules of this package (``mxnet.gluon is mxjax.gluon``), and ``mxnet.__version__`` is that
of the MXNet whose defaults hold (the setting `compat.version`). ``python -m mxjax script.py`` and ``%load_ext mxjax``
in a notebook do the same.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path

from mxjax import settings
from mxjax.compat import modules
from mxjax.errors import MXNetImportError

__all__ = ["install"]

_PATH = str(Path(__file__).parent / "path")


def install(version: str | None = None) -> None:
    """Let `import mxnet` find mxjax; ``version`` ("2.0" or "1.9") chooses the defaults, for started processes too.

    Raises:
      ImportError: another package `mxnet` has been imported already.
    """
    if version is not None:
        settings.set("compat.version", version)
        settings.set_variable("MXJAX_COMPAT_VERSION", version)
    package = sys.modules["mxjax"]
    there = sys.modules.get("mxnet")
    if there not in (None, package) and not hasattr(there, "stands_for_mxjax"):
        raise MXNetImportError(
            f"mxnet has been imported already, from {getattr(there, '__file__', there)}: import mxjax.as_mxnet before "
            "any `import mxnet`, or run the program as `python -m mxjax program.py`"
        )
    modules.install()  # in a loader's worker the package itself is still to be loaded
    modules.stand_in_for_mxnet()
    jax_says = logging.getLogger("jax")
    if jax_says.level == logging.NOTSET:
        # MXNet's programs turn the root logger to DEBUG to see how training goes: JAX would tell of each trace.
        jax_says.setLevel(logging.WARNING)
    importlib.import_module(
        "multiprocessing.pool"
    )  # MXNet does: programs say multiprocessing.pool.Pool
    sys.modules["mxnet"] = package
    package.__version__ = mxnet_version()  # type: ignore[attr-defined]
    if (
        _PATH not in sys.path
    ):  # processes that multiprocessing spawns are handed it; the program's folder is first
        sys.path.insert(0 if sys.flags.safe_path else 1, _PATH)
    paths = (settings.variable("PYTHONPATH") or "").split(os.pathsep)
    if _PATH not in paths:
        settings.set_variable("PYTHONPATH", os.pathsep.join([_PATH, *filter(None, paths)]))


def mxnet_version() -> str:
    """The version of the MXNet that mxjax stands for."""
    return "1.9.1" if settings.get("compat.version") == "1.9" else "2.0.0"


install()
