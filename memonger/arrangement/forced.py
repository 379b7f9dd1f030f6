"""Blocks and scopes that say themselves whether they are computed again (``force_mirroring``)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from mxjax import core

from ..model.segments import Chain
from ..trials.plan import Plan
from .mirror import stretches
from .offload import Offload
from .parts import ALL, DRAWN, Arranged, Part

if TYPE_CHECKING:
    from mxjax.core import Graph


def forced(graph: Graph) -> list[Part]:
    """The graph in parts where only stretches are computed again that say so themselves."""
    found: list[Part] = []
    for _, stop, again in stretches(graph.steps):
        if found and found[-1].keep == ALL and not again:
            found.pop()
        found.append(Part(stop, DRAWN if again else ALL))
    return found


# No mirroring but of the blocks and scopes that ask for it.
FORCED = Arranged(forced, "forced")


def heeding(policy: Any, graph: Graph) -> Any:
    """The rematerialisation of a graph in which blocks or scopes say something, by that of its network.

    Args:
      policy: the network's (``core.hooks.RematPolicy``), or ``None``.
      graph: what was recorded; its steps know what their scope says.

    Returns:
      RematPolicy: the graph's, or ``None``.
    """
    if policy is None:
        return (
            FORCED
            if any(s.mirroring is not None and s.mirroring.again for s in graph.steps)
            else None
        )
    if isinstance(policy, (Chain, Offload, Plan)):
        warnings.warn_explicit(
            f"force_mirroring, which blocks or an AttrScope of {graph.name!r} have, is ignored by {policy!r}, "
            "which decides for the whole network; hybridize(mirror=True) and hybridize(mirror=False) honour it",
            UserWarning,
            *core.user_site(),
        )
    return policy
