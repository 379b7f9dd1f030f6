"""Sums in memory that processes share, with threads of this process in their place."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mxjax.kvstore import _machine
from mxjax.kvstore._byte_gather import Words
from mxjax.kvstore._host import ALIGNMENT, Pool
from mxjax.kvstore._machine import LONGEST, Machine
from mxjax.kvstore._packing import Parts, Pieces
from mxjax.kvstore._processes import padded, part_of
from mxjax.launch import wire
from mxjax.launch.keeper import Keeper
from mxjax.launch.member import Member

LONG = 600.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="memory without a name is Linux's")


class Ranks:
    """So many members of a job, each with a thread."""

    def __init__(self, size: int) -> None:
        self.keeper = Keeper(size, "secret", heartbeat=LONG, address="nowhere:1")
        channels = [wire.connect("127.0.0.1", self.keeper.port, b"secret") for _ in range(size)]
        self.members = [Member(c, "here", r, LONG) for r, c in enumerate(channels)]
        self.threads = ThreadPoolExecutor(size, thread_name_prefix="rank")
        for member in self.members:
            member._delivered = True  # the test's process does not end with the group

    def do(self, work, *arguments):
        """``work(member, ...)`` on all at once."""
        waiting = [
            self.threads.submit(work, m, *(a[m.rank] for a in arguments)) for m in self.members
        ]
        return [w.result(LONG) for w in waiting]

    def end(self) -> None:
        self.threads.shutdown()
        for member in self.members:
            member.close()
        self.keeper.close()


@pytest.fixture
def ranks():
    made: list[Ranks] = []

    def make(size: int) -> Ranks:
        made.append(Ranks(size))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_what_all_tell_each_other_arrives_in_order(ranks):
    job = ranks(3)
    for turn in range(3):
        heard = job.do(lambda m, turn=turn: m.tell(f"{turn} of {m.rank}"))
        assert heard == [[f"{turn} of {r}" for r in range(3)]] * 3


@pytest.mark.parametrize("sizes", [[0, 1, 3], [700, 0, 5, 1024], [10_000, 20_000, 1]])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex128"])
def test_pieces_are_all_of_the_arrays_in_order(sizes, dtype):
    arrays = [np.random.RandomState(k).randint(0, 99, n).astype(dtype) for k, n in enumerate(sizes)]
    pieces = Pieces(arrays, 1 << 12, Pool())
    memory = np.empty(1 << 12, np.uint8)
    for k in range(pieces.count):
        filled = pieces.fill(k, memory)
        assert filled.nbytes <= 1 << 12 and filled.dtype == dtype
        assert (pieces.given(k, memory) == filled).all()
        pieces.take(k, filled)
    for found, array in zip(pieces.sums(), arrays, strict=True):
        assert (found == array).all() and found.dtype == array.dtype
        assert found.ctypes.data % ALIGNMENT == 0 or not found.size
    padded = sum(-(-a.nbytes // ALIGNMENT) * ALIGNMENT for a in arrays)
    assert pieces.count <= -(-padded // (1 << 12))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_what_is_wanted_of_sums_and_the_wholes_of_all_that_is(count):
    """Every process takes its part of each array but one; the parts of all are the arrays."""
    sizes = [10_000, 3, 7, 20_001, 50]
    arrays = [
        np.random.RandomState(k).randint(0, 99, n).astype("float32") for k, n in enumerate(sizes)
    ]
    piece = 1 << 12
    found = []
    for rank in range(count):
        wanted = [part_of(n, rank, count) for n in sizes[:-1]] + [(0, sizes[-1])]
        pieces, memory = Pieces(arrays, piece, Pool(), wanted), np.empty(piece, np.uint8)
        for k in range(pieces.count):
            pieces.take(k, pieces.fill(k, memory))
        *parts, whole = pieces.sums()
        assert (whole == arrays[-1]).all()
        assert all(p.size <= -(-n // count) for p, n in zip(parts, sizes, strict=False))
        found.append([padded(p, n, count) for p, n in zip(parts, sizes, strict=False)])
    given = [Parts(parts, count, Pool()) for parts in found]
    for one in given:
        for rank, other in enumerate(given):
            for start in range(0, other.mine.size, 1000):
                one.put(rank, start, other.mine[start : start + 1000])
    for one in given:
        for whole, array in zip(one.wholes(), arrays, strict=False):
            assert whole.dtype == array.dtype and not whole[array.size :].any()
            assert (whole[: array.size] == array).all()


def test_memory_of_the_pool_suffices_wherever_it_begins():
    pool = Pool()
    for size in (64, 128, 192, 4096, 4160):
        block = pool.take(size)
        assert block.size == size and block.ctypes.data % ALIGNMENT == 0
        del block  # the next one, a little larger, may find it


def sums(machine: Machine, arrays: list[np.ndarray], between=None) -> list[np.ndarray]:
    pieces = Pieces(arrays, 1 << 12, Pool())
    machine.sum(pieces.count, pieces.fill, pieces.take, between)
    return pieces.sums()


def arrays_of(rank: int, turn: int) -> list[np.ndarray]:
    """Numbers that depend on the order of adding; many pieces, then few."""
    draw = np.random.RandomState(10 * turn + rank)
    return [
        draw.randn(n).astype("float32") for n in ((9000, 3, 50_000), (1,), (2000, 70))[turn % 3]
    ]


def wholes(machine: Machine, parts: list[np.ndarray]) -> list[np.ndarray]:
    given = Parts(parts, len(machine.ranks), Pool())
    Words(None, None, machine).hand_out(given.mine, given.put)
    return given.wholes()


def in_order(parts: list[np.ndarray]) -> np.ndarray:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


@linux
@pytest.mark.parametrize("size", [2, 3])
def test_one_machine_sums_in_the_order_of_the_ranks(ranks, size):
    job = ranks(size)
    machines = job.do(lambda m: Machine(m, True))
    for m in machines:
        assert (m.ranks, m.leaders) == (list(range(size)), [0])
    for turn in range(6):
        given = [arrays_of(r, turn) for r in range(size)]
        found = job.do(lambda m, machine, mine: sums(machine, mine), machines, given)
        expected = [in_order(list(parts)) for parts in zip(*given, strict=True)]
        for mine in found:
            assert all((a == b).all() for a, b in zip(mine, expected, strict=True))
        expected = [np.concatenate(parts) for parts in zip(*given, strict=True)]
        for mine in job.do(lambda m, machine, part: wholes(machine, part), machines, given):
            assert all((a == b).all() for a, b in zip(mine, expected, strict=True))


def on_two_machines(ranks, monkeypatch):
    """Ranks 0 and 2 on one machine, 1, 3 and 4 on another; where the thread is, and all machines."""
    job = ranks(5)
    where = threading.local()
    monkeypatch.setattr(_machine.socket, "gethostname", lambda: where.name)

    def meet(member: Member) -> Machine:
        where.name = "ab"[member.rank in (1, 3, 4)]
        return Machine(member, True)

    return job, where, job.do(meet)


@linux
def test_machines_send_one_sum_each(ranks, monkeypatch):
    """What leaders send is put together by this test."""
    job, where, machines = on_two_machines(ranks, monkeypatch)
    assert [m.ranks for m in machines] == [[0, 2], [1, 3, 4], [0, 2], [1, 3, 4], [1, 3, 4]]
    assert all(m.leaders == [0, 1] and m.piece == LONGEST for m in machines)
    sent: dict[str, np.ndarray] = {}
    both = threading.Barrier(2)

    def between(piece: np.ndarray) -> np.ndarray:
        sent[where.name] = piece.copy()
        both.wait(LONG)
        total = sent["a"] + sent["b"]
        both.wait(LONG)
        return total

    def work(member: Member, machine: Machine, mine: list[np.ndarray]) -> list[np.ndarray]:
        where.name = "ab"[member.rank in (1, 3, 4)]  # a thread is now this rank's, now that one's
        return sums(machine, mine, between)

    for turn in range(4):
        given = [arrays_of(r, turn) for r in range(5)]
        found = job.do(work, machines, given)
        for k in range(len(given[0])):
            expected = in_order([given[0][k], given[2][k]]) + in_order(
                [given[r][k] for r in (1, 3, 4)]
            )
            assert all((mine[k] == expected).all() for mine in found)


def words_of(rank: int, turn: int) -> np.ndarray:
    return (
        np.random.RandomState(10 * turn + rank)
        .randint(0, 256, (9000, 0, 1, 1024, 5000)[turn % 5])
        .astype("uint8")
    )


def exchanged(machine: Machine, mine: np.ndarray, rows: int, between=None) -> np.ndarray:
    found = np.empty((rows, mine.size), np.uint8)

    def take(start: int, parts) -> None:
        for row, part in zip(found, parts, strict=True):
            row[start : start + part.size] = part

    machine.exchange(mine, 1024, take, between)
    return found


@linux
@pytest.mark.parametrize("size", [2, 3])
def test_one_machine_hands_everybody_the_bytes_of_all(ranks, size):
    job = ranks(size)
    machines = job.do(lambda m: Machine(m, True))
    for turn in range(10):
        given = [words_of(r, turn) for r in range(size)]
        for found in job.do(
            lambda m, machine, mine: exchanged(machine, mine, size), machines, given
        ):
            assert (found == given).all()
        given = [
            arrays_of(r, turn) for r in range(size)
        ]  # sums and exchanges use the same memory by turns
        for found in job.do(lambda m, machine, mine: sums(machine, mine), machines, given):
            assert (found[-1] == in_order([g[-1] for g in given])).all()


@linux
def test_machines_hand_each_other_the_bytes_of_their_processes(ranks, monkeypatch):
    """The rows are those of the five ranks, and one that nobody has."""
    job, where, machines = on_two_machines(ranks, monkeypatch)
    assert all(m.groups == [[0, 2], [1, 3, 4]] and m.crowd == 3 for m in machines)
    sent: dict[int, list[np.ndarray]] = {}
    both = threading.Barrier(2)

    def work(member: Member, machine: Machine, mine: np.ndarray) -> np.ndarray:
        def between(parts):
            sent[member.rank] = [p.copy() for p in parts]
            both.wait(LONG)
            rows = np.zeros((6, parts[0].size), np.uint8)
            rows[:2], rows[3:] = sent[0], sent[1]
            both.wait(LONG)
            return rows

        return exchanged(machine, mine, 6, between)

    for turn in range(5):
        given = [words_of(r, turn) for r in range(5)]
        for found in job.do(work, machines, given):
            assert (found[[0, 3, 1, 4, 5]] == given).all()


@linux
def test_where_memory_is_not_to_be_shared_or_not_reached_each_is_alone(ranks, monkeypatch):
    for m in ranks(2).do(lambda m: Machine(m, m.rank == 0)):
        assert m.leaders == [0, 1] and len(m.ranks) == 1
    real = Machine._reach

    def reach(self, note, mine):
        """As where process numbers are another container's: what is found there is not what was told."""
        real(self, {**note, "bell": [note["bell"][0], "pipe:[1]"]}, mine)

    job = ranks(3)
    monkeypatch.setattr(Machine, "_reach", reach)
    for m in job.do(lambda m: Machine(m, True)):
        assert m.leaders == [0, 1, 2] and m.ranks == [m.leaders[m.ranks[0]]]
