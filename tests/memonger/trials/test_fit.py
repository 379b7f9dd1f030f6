"""What trials teach of arrangements that were not compiled."""

from __future__ import annotations

from itertools import pairwise

import pytest

import mxjax as mx
from benchmarks import memory_networks as networks
from mxjax.memonger.model.options import Option
from mxjax.memonger.trials.buffers import Stage
from mxjax.memonger.trials.fit import Fit
from mxjax.memonger.trials.measure import Cost
from mxjax.memonger.trials.session import MEMORY, Session, Trial

MORE = 4096  # bytes that XLA holds beside the model


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(networks.perceptrons(10, 16), (mx.np.zeros((32, 16)),), "sgd")


def _again(session: Session) -> list[int]:
    """The places of the kind of unit, of those whose recomputation costs something, that there are most of."""
    kinds = [u.kind for u in session.chain.units]
    costly = [[at for at, k in enumerate(kinds) if k == kind and _recompute(session, at).cost] for kind in set(kinds)]
    return max(costly, key=len)


def _recompute(session: Session, at: int) -> Option:
    return next(o for o in session.options[at] if o.decision == "recompute")


def _trial(session: Session, again: list[int], busy: int = 0) -> Trial:
    """One in which some units are computed again: XLA holds more for each of them, and needs ``busy`` more at work."""
    chosen = [_recompute(session, at) if at in again else o for at, o in enumerate(session.plain)]
    stages, held = [], 0
    for at, o in enumerate(chosen):
        waits = o.held + MORE * (at in again)
        stages.append(Stage(waits, held + o.work + busy))
        held += waits
    most = max(s.most for s in stages)
    return Trial(tuple(chosen), MEMORY, Cost("step", 1, 1, most, 0, 0, 0, 0.0, 0), stages)


def _fit(session: Session, *trials: Trial, wanted: int = 0) -> Fit:
    """After these trials and that which keeps all; the budget is what the first needs by default."""
    session.trials = {(tuple(o.part for o in t.chosen), t.schedule): t for t in (_trial(session, []), *trials)}
    fit = Fit(session, "temp", wanted or trials[0].bytes("temp"))
    fit.update(MEMORY)
    return fit


def _taught(session: Session, again: list[int]) -> Fit:
    return _fit(session, _trial(session, again))


def _beside(fit: Fit, at: int) -> int:
    """What is expected to be held for a unit that is computed again beside what the model says."""
    o = _recompute(fit.session, at)
    return fit.whole[at][fit.session.options[at].index(o)].held - o.held


def test_what_is_held_beside_the_model_is_expected_of_equal_units(session: Session) -> None:
    places = _again(session)
    assert len(places) >= 5
    compiled, others = places[:3], places[3:]
    fit = _taught(session, compiled)
    expected = [_beside(fit, at) for at in others]
    assert all(0 < e <= MORE for e in expected)
    assert all(near > far for near, far in pairwise(expected))  # the farther, the less is known
    units = session.chain.units
    for at, unit in enumerate(units):
        if unit.kind != units[places[0]].kind and _recompute(session, at).stop == unit.stop:
            assert _beside(fit, at) == 0  # no trial computed one of those again


def test_one_place_alone_teaches_nothing_of_itself(session: Session) -> None:
    """Bytes of one place differ from trial to trial; of the others of its kind it is all that is known."""
    place, *others = _again(session)
    fit = _taught(session, [place])
    assert _beside(fit, place) == 0
    assert all(_beside(fit, at) > 0 for at in others)


def test_kinds_of_which_there_are_few_tell_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    places = _again(session)
    monkeypatch.setattr("mxjax.memonger.trials.fit.MANY", len(places) + 1)
    fit = _taught(session, places[:3])
    assert not any(_beside(fit, at) for at in places)


def test_one_trial_is_explained_part_by_part(session: Session) -> None:
    assert _taught(session, _again(session)[:3]).beside == 0


def test_of_several_trials_the_judged_one_is_explained_part_by_part(session: Session) -> None:
    """Two that share nearly all parts, in which XLA needs less and more at work: the mean explains neither."""
    places = _again(session)
    trials = [_trial(session, places[:3]), _trial(session, places[:4], busy=8 * MORE)]
    fit = _fit(session, *trials)
    assert fit.beside
    for trial in trials:
        fit.update(MEMORY, exactly=trial)
        assert fit.beside == 0
        assert fit.peak(trial) == trial.bytes("temp")


def test_after_trials_over_the_budget_the_target_falls(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """By 0.8 % of the budget for each in a row, where the two sides are so near that the model counts."""
    places = _again(session)
    low, high = (_trial(session, places[:n], busy=busy) for n, busy in ((3, 0), (4, 64 * MORE)))
    wanted = low.bytes("temp") + (high.bytes("temp") - low.bytes("temp")) // 2
    fit = _fit(session, low, high, wanted=wanted)
    asked: list[float] = []
    monkeypatch.setattr("mxjax.memonger.trials.fit.solve", lambda options, limit: asked.append(limit))
    for run in (0, 1):
        fit.between(MEMORY, 1e9, run)
    first, after = asked[0], asked[len(asked) // 2]
    assert after < first
