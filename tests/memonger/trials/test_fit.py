"""What trials teach of arrangements that were not compiled."""

from __future__ import annotations

import pytest

import mxjax as mx
from mxjax.memonger.model.options import Option
from mxjax.memonger.trials.buffers import Stage
from mxjax.memonger.trials.fit import Fit
from mxjax.memonger.trials.measure import Cost
from mxjax.memonger.trials.session import MEMORY, Session, Trial
from tests.memonger import networks

MORE = 4096  # bytes that XLA holds beside the model


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(networks.perceptrons(10, 16), (mx.np.zeros((32, 16)),), "sgd")


def _again(session: Session) -> list[int]:
    """The places of the kind of unit, of those whose recomputation costs something, that there are most of."""
    kinds = [u.kind for u in session.chain.units]
    costly = [
        [at for at, k in enumerate(kinds) if k == kind and _recompute(session, at).cost]
        for kind in set(kinds)
    ]
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
    session.trials = {
        (tuple(o.part for o in t.chosen), t.schedule): t for t in (_trial(session, []), *trials)
    }
    fit = Fit(session, "temp", wanted or trials[0].bytes("temp"))
    fit.update(MEMORY)
    return fit


def _taught(session: Session, again: list[int]) -> Fit:
    return _fit(session, _trial(session, again))


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
