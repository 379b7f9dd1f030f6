"""What decides how a segment runs: when a program has been paid for, in which form it is made, when it is exchanged.

Renting or buying: an account holds what runs without a program have taken longer than with one, and once that would
have paid for the program, it is bought (the rule of renting skis: Karlin et al., Competitive snoopy caching, 1988). The
rules are functions of counted microseconds alone; no clock is asked, so a program takes the same way in every run.
Who keeps the accounts: `cold.py` of segments and graphs, `../interpret/by_call.py` of single operators, `tiers.py` of
quick programs. Thresholds and prices stand in `constants.py`.
"""

from __future__ import annotations

from typing import Literal

from . import constants
from .price import Pair, Prices, Size

#: How a program is compiled: without LLVM's optimisation, with little of it, or with all.
Form = Literal["quick", "light", "whole"]


def will_pay(saves: Pair, prices: Pair, coming: int) -> bool:
    """Whether so many runs, which come in all certainty, save what either program costs."""
    return coming * saves.quick > prices.quick or coming * saves.whole > prices.whole


def graph_saves(saves: Pair, training: bool) -> Pair:
    """What programs save of a graph's run, which its derivative may follow."""
    times = constants.DERIVATIVE_WORK if training else 1
    return Pair(times * saves.quick, times * saves.whole)


def graph_price(training: bool) -> float:
    """How many times its own price a graph's program costs, with its derivative in training."""
    return constants.DERIVATIVE_EQUATIONS if training else 1


def buys_graph(lost: Pair, saves: Pair, prices: Pair, training: bool, coming: int) -> bool:
    """Whether a graph is a program from this run on: runs before lost so much, and this one would lose ``saves``."""
    for before, each, price in zip(lost, saves, prices, strict=True):
        costs = price * graph_price(training)
        if before + each > costs or (before and coming * each > costs):
            return True
    return False


def buys_segment(paid: float, runs: int, coming: bool) -> bool:
    """Whether a segment is compiled before this run.

    Args:
      paid: the part of its price that its account holds, with this run (`Pair.paid`).
      runs: how often it ran call by call.
      coming: whether the runs that come in all certainty would pay for it.
    """
    return bool(paid > (1 if runs else constants.ONE_RUN) or (runs and coming))


def buys_only_call(runs: int, price: float) -> bool:
    """The same of a segment whose only call is a program already: what NumPy did beside it has paid."""
    return runs * constants.CALL > price


def buys_operator(spent: float, lost: float, price: float, sure: bool) -> bool:
    """Whether an operator is compiled by itself before this run, which would lose so much more.

    At half of the price the first time, unless it is ``sure`` to be part of a program next time: see `ONE_RUN`.
    """
    return spent + lost > price * (1 if spent or sure else constants.ONE_RUN)


def buys_size(lost: float, more: float) -> bool:
    """Whether a function gets a program of another size: those there are have cost that much more, with this run."""
    return lost + more >= constants.FUNCTION


def buys_function(numbers: int, each: float = constants.BY_NUMBER) -> bool:
    """Whether a function that NumPy lacks, or is slow at, is a program, once so many numbers took ``each`` so long."""
    return numbers * each > constants.FUNCTION


def first_form(prices: Prices, size: Size, paid: float, coming: int | None, several: bool) -> Form:
    """How a program is compiled first: in a loop whose length is known as it takes least in all.

    Args:
      paid: what was lost without it, in microseconds. Where that is its price, it is optimised now, or, if that takes a
        while and there is a core for it (``several``), beside a quick one.
      coming: how many runs come in all certainty, if that is known.
    """
    if not prices.has_quick(size):
        return "whole"
    whole, lost = prices.whole(size), prices.lost(size)
    quick = prices.quick(size)
    if whole - quick < max(constants.LITTLE, constants.SURE * lost if coming is None else 0.0):
        return "whole"
    if coming is None:
        return "whole" if paid >= whole and (whole < constants.PAUSE or not several) else "quick"
    costs: dict[Form, float] = {"quick": quick + coming * lost, "whole": whole}
    if prices.light_options is not None:
        costs["light"] = prices.light(size) + coming * lost * constants.LIGHT_LOSES
    return min(costs, key=costs.__getitem__)


def loses(prices: Prices, size: Size, form: Form) -> float:
    """What a run of a program of this form loses; zero where that will never pay for the optimised one."""
    if form == "whole":
        return 0.0
    lost = prices.lost(size) * (constants.LIGHT_LOSES if form == "light" else 1)
    return 0.0 if lost * constants.FOREVER < prices.whole(size) else lost


def credit(whole: float, paid: float) -> float:
    """What a quick program's account holds at first, where runs without one had paid for the optimised one."""
    return constants.BESIDE * whole if paid >= whole else 0.0


def begins_beside(spent: float, whole: float) -> bool:
    """Whether a thread begins to optimise a quick program whose runs have lost so much."""
    return spent >= constants.BESIDE * whole


def exchanges(spent: float, lost: float, whole: float, coming: int | None) -> bool:
    """Whether a quick program is exchanged now: in a loop whose length is known, if the rest loses the price."""
    return spent > constants.PAID * whole if coming is None else coming * lost > whole


def is_told(takes: float) -> bool:
    """Whether a compilation takes so long that it says so."""
    return takes >= constants.SILENT


def serves_others(asked: int, wasted: int) -> bool:
    """Whether a program of other results and donations serves these, asked for so often, and wastes so many bytes."""
    return asked <= constants.SELDOM or (
        asked <= constants.SELDOM_SMALL and wasted < constants.SMALL
    )


def is_variant_too_many(programs: int) -> bool:
    """Whether a segment has all the programs that it may have."""
    return programs >= constants.VARIANTS


def fits_host(numbers: int) -> bool:
    """Whether an accelerator's segment of so many numbers may be computed by NumPy, which fetches them."""
    return numbers <= constants.FETCHED


def tries_graph(numbers: int) -> bool:
    """Whether an accelerator's graph that takes so many numbers goes by call at first; larger ones come back."""
    return numbers <= constants.GRAPH_NUMBERS


def goes_to_device(size: int) -> bool:
    """Whether a result of so many bytes goes to the device at once: else each program that takes it would fetch it."""
    return size > constants.LARGE


def runs_alone(size: int) -> bool:
    """Whether a program of one call with a result of so many bytes is called without donations."""
    return size <= constants.SOLO_BYTES


def is_taken_apart(numbers: float) -> bool:
    """Whether a program that computes so many numbers runs after what is recorded before it (`halves.py`)."""
    return numbers >= constants.HALVED


def may_be_unproven(unproven: int, proven: int, seen: int, among_last: int) -> bool:
    """Whether one more program that may never come back is made.

    Programs that never came back are a loss: beyond a few, a segment runs operator by operator until it comes back
    twice in short order (a loop), or so often that the time lost would have paid several times for a program.
    """
    return unproven < constants.UNPROVEN + proven // 2 or seen > constants.OFTEN or among_last >= 2


__all__ = ["Form", "Pair"]
