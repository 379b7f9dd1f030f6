"""This is mxjax: `pip install mxjax-as-mxnet` put the name `mxnet` here."""

from importlib import metadata as _metadata

_others = sorted(
    name
    for name in _metadata.packages_distributions().get("mxnet", ())
    if name.lower().replace("_", "-") != "mxjax-as-mxnet"
)
if _others:
    raise ImportError(
        f"two packages are installed as `mxnet`: mxjax-as-mxnet and {', '.join(_others)}. Uninstall both, and install "
        f"the one that you mean: pip uninstall mxjax-as-mxnet {' '.join(_others)}"
    )

stands_for_mxjax = True  # mxjax puts itself into this module's place

import mxjax.as_mxnet  # noqa: E402, F401
