"""Rematerialisation: trade computation for memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mxjax import errors
from mxjax.core import compiler, hooks

from .arrangement.forced import heeding
from .arrangement.mirror import Mirror
from .arrangement.offload import Offload
from .arrangement.placement import place
from .model.segments import Chain, barriers, nested, recursive
from .model.sublinear import Segment, Segmented, Sublinear, get_cost, search_plan, sublinear
from .trials.curve import Blocks, Curve, blocks, pareto
from .trials.fit import InfeasibleBudget
from .trials.measure import Cost, Measured, measure
from .trials.plan import Plan, load_plan, plan
from .trials.rehearse import rehearse

__all__ = [
    "Blocks",
    "Cost",
    "Curve",
    "InfeasibleBudget",
    "Measured",
    "Mirror",
    "Offload",
    "Plan",
    "Segment",
    "Segmented",
    "blocks",
    "get_cost",
    "heeding",
    "load_plan",
    "measure",
    "pareto",
    "place",
    "plan",
    "policies",
    "policy",
    "rehearse",
    "search_plan",
    "sublinear",
]

_POLICIES = {
    "barriers": Chain("barriers", barriers),
    "mirror": Mirror(),
    "nested": Chain("nested", nested),
    "offload": Offload(),
    "recursive": Chain("recursive", recursive),
    "sublinear": Sublinear(),
}


def policies() -> list[str]:
    """The names that :func:`policy` takes.

    Returns:
      list of str: the names, sorted.
    """
    return sorted(_POLICIES)


def policy(name: str) -> Any:
    """The rematerialisation of this name (``core.hooks.RematPolicy``).

    ``hybridize(mirror=name)`` and the setting ``memory.remat`` use it.

    Args:
      name: one of :func:`policies`.

    Returns:
      RematPolicy: the policy.

    Raises:
      ValueError: there is none of this name.

    >>> import mxjax as mx
    >>> mx.memonger.policy("mirror")
    memonger.policy('mirror')
    """
    found = _POLICIES.get(name)
    if found is None:
        raise errors.MXNetValueError(
            f"there is no rematerialisation policy {name!r}{errors.did_you_mean(name, policies())}; "
            f"there are: {', '.join(policies())}"
        )
    return found


def _options(platform: str, calls: Sequence[Any]) -> dict[str, Any]:
    """What the policies of a program's calls ask of the compiler."""
    options: dict[str, Any] = {}
    for chosen in {id(c.policy): c.policy for c in calls if c.policy is not None}.values():
        compiler.merge(options, chosen.compiler_options(platform))
    return options


hooks.option_contributors.append(_options)

errors.explain_names(__name__)
