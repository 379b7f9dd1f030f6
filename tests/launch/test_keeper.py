"""Membership, agreement and faults, with members that are threads of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from mxjax import settings
from mxjax.launch import wire
from mxjax.launch.keeper import MARK, Keeper
from mxjax.launch.member import GroupBroken, Member

# Long enough for a machine that is busy with other things: nothing waits for it to pass.
LONG = 600.0


class Job:
    """A keeper, what it reported, and channels to end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.ends: list = []

    def keeper(self, size: int, **options) -> Keeper:
        keeper = Keeper(
            size,
            "secret",
            report=self.lines.append,
            address="nowhere:1",
            **{"heartbeat": LONG, **options},
        )
        self.ends.append(keeper)
        return keeper

    def channel(self, keeper: Keeper, token: bytes = b"secret") -> wire.Channel:
        channel = wire.connect("127.0.0.1", keeper.port, token)
        self.ends.append(channel)
        return channel

    def members(self, keeper: Keeper) -> list[Member]:
        made = [
            Member(self.channel(keeper), "here", rank, joining=LONG) for rank in range(keeper.size)
        ]
        for member in made:
            member._delivered = True  # the test's process does not end with the group
            assert member.start(LONG) == "nowhere:1"
        return made


@pytest.fixture
def job() -> Iterator[Job]:
    made = Job()
    yield made
    for end in reversed(made.ends):
        end.close()


def at_once(*calls):
    """Each call in a thread of its own; what they gave or raised."""
    results = [None] * len(calls)

    def run(k):
        try:
            results[k] = calls[k]()
        except GroupBroken as error:
            results[k] = error

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def marks(letters: str) -> list[str]:
    return [letter * MARK for letter in letters]


def test_ranks_are_given_and_taken(job):
    keeper = job.keeper(3)
    first, second = job.channel(keeper), job.channel(keeper)
    second.send({"op": "join", "rank": 0, "host": "h", "pid": 1})
    assert second.receive() == {"op": "joined", "rank": 0, "size": 3, "heartbeat": LONG}
    first.send({"op": "join", "rank": None, "host": "h", "pid": 2})
    assert first.receive()["rank"] == 1
    for rank, why in ((0, "is taken by h process 1"), (3, "no rank 3 in a job of 3")):
        late = job.channel(keeper)
        late.send({"op": "join", "rank": rank, "host": "h", "pid": 3})
        answer = late.receive()
        assert answer["op"] == "refused" and why in answer["why"]


def test_an_outsider_is_refused_and_named_in_the_log(job):
    keeper = job.keeper(1)
    with pytest.raises(wire.Refused, match="does not accept this process's job token"):
        job.channel(keeper, b"a guess")
    talker = socket.create_connection(("127.0.0.1", keeper.port))
    where = "{}:{}".format(*talker.getsockname())
    assert talker.recv(4096)  # its question, which proves nothing
    talker.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    with contextlib.suppress(ConnectionError):  # it may close with our text unread
        while talker.recv(4096):
            pass
    talker.close()
    job.members(keeper)  # they come all the same
    assert "does not know the job's token" in job.lines[0]
    assert where in job.lines[1] and "refused a connection" in job.lines[1]
    assert keeper.lost is None


def test_what_all_would_do_next_is_agreed_on(job):
    a, b = job.members(job.keeper(2))
    both = at_once(
        lambda: a.agree(0, marks("xyz"), str, None), lambda: b.agree(0, marks("xy"), str, None)
    )
    assert both == [2, 2]
    both = at_once(
        lambda: a.agree(2, marks("z"), str, None), lambda: b.agree(2, marks("zw"), str, None)
    )
    assert both == [1, 1]


def test_ranks_that_differ_all_hear_what_each_would_do(job):
    keeper = job.keeper(2)
    a, b = job.members(keeper)
    found = at_once(
        lambda: a.agree(0, marks("sx"), lambda k: f"sum {k} of weight", None),
        lambda: b.agree(0, marks("sy"), lambda k: f"sum {k} of bias", None),
    )
    assert found == [1, 1]
    found = at_once(
        lambda: a.agree(1, marks("x"), lambda k: f"sum {k} of weight", None),
        lambda: b.agree(1, marks("y"), lambda k: f"sum {k} of bias", None),
    )
    for error in found:
        assert isinstance(error, GroupBroken)
        assert "rank 0: sum 1 of weight; rank 1: sum 1 of bias" in str(error)
    with pytest.raises(GroupBroken, match="same order"):
        a.agree(1, marks("x"), str, None)


def test_a_member_that_ends_is_missing_at_once(job):
    a, b, c = job.members(job.keeper(3))
    threading.Timer(0.1, b.close).start()
    for error in at_once(
        lambda: a.agree(0, marks("x"), str, None),
        lambda: c.run(lambda: c._wait(bool, None, ""), "", None),
    ):
        assert isinstance(error, GroupBroken) and error.rank == 1
        assert "rank 1 of 3 has ended" in str(error)


def test_a_member_that_fails_says_why(job):
    keeper = job.keeper(2)
    a, b = job.members(keeper)
    b.fail("ValueError: no data")
    with pytest.raises(GroupBroken, match="rank 1 of 2 has failed: ValueError: no data"):
        a.agree(0, marks("x"), str, None)
    assert job.lines == ["rank 1 has failed: ValueError: no data"]
    late = job.channel(keeper)
    late.send({"op": "join", "rank": 1, "host": "h", "pid": 3})
    assert "the job is over" in late.receive()["why"]


@pytest.mark.observes("timeout.heartbeat")
def test_a_silent_member_is_missing(job):
    keeper = job.keeper(1, heartbeat=0.5)
    silent = job.channel(keeper)
    silent.send({"op": "join", "rank": 0, "host": "h", "pid": 9})
    heard = []
    while (message := silent.receive()) is not None and message["op"] != "lost":
        heard.append(message["op"])
    assert "no sign of life" in message["why"] and message["rank"] == 0
    assert {"joined", "start", "beat"} == set(heard)


def test_a_silent_keeper_is_missing():
    server = socket.create_server(("127.0.0.1", 0))

    def keep():
        channel = wire.accept(server.accept()[0], b"secret")
        channel.receive()
        channel.send({"op": "joined", "rank": 0, "size": 1, "heartbeat": 0.5})
        while channel.receive() is not None:
            pass
        channel.close()

    thread = threading.Thread(target=keep)
    thread.start()
    member = Member(wire.connect(*server.getsockname(), b"secret"), "there:1", 0, LONG)
    member._delivered = True
    with pytest.raises(GroupBroken, match="keeper of the job at there:1 has given no sign of life"):
        member.start(LONG)
    member.close()
    thread.join()
    server.close()


@pytest.mark.observes("timeout.collective")
def test_who_waits_longer_than_the_option_allows_names_who_is_late(job):
    keeper = job.keeper(2, heartbeat=5.0)
    a, _ = job.members(keeper)
    with pytest.raises(GroupBroken, match=r"rank 1 of 2 did not come .* rank 0 has waited 0\.01 s"):
        a.agree(0, marks("x"), str, 0.01)


@pytest.mark.observes("timeout.join")
def test_who_does_not_join_is_missing(job):
    keeper = job.keeper(2, joining=0.01, heartbeat=1.0)
    assert keeper.over.wait(LONG)
    assert keeper.lost == (0, "did not join within 0.01 s")


def test_all_leave_together(job):
    a, b = job.members(job.keeper(2))
    assert at_once(a.leave, b.leave) == [None, None]


def test_who_has_left_is_waited_for_in_vain(job):
    a, b = job.members(job.keeper(2))
    found = at_once(a.leave, lambda: b.agree(0, marks("x"), str, None))
    for error in found:
        assert isinstance(error, GroupBroken)
        assert "rank 0" in str(error) and "has ended its script while rank 1" in str(error)


def test_an_error_of_the_work_itself_is_raised_when_nobody_is_missing(job):
    (a,) = job.members(job.keeper(1))
    a.heartbeat = 0.01

    def work():
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        a.run(work, "it", None)
    assert a.run(lambda: 3, "it", None) == 3
    with pytest.raises(GroupBroken, match=r"did not finish that within 0\.01 s"):
        a.run(lambda: time.sleep(0.5), "that", 0.01)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("hccl_timeout", "timeout.collective"),
        ("HCCL_EXEC_TIMEOUT", "timeout.collective"),
        ("PS_HEARTBEAT_TIMEOUT", "timeout.heartbeat"),
    ],
)
def test_old_names_of_the_times(name, option):
    with settings.scope(name, 7):
        assert settings.get(option) == 7.0
    for wrong in (0, -1, "nan", "inf", True, None):
        with pytest.raises(ValueError, match="a number of seconds > 0"):
            settings.set(name, wrong)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.7"])
def test_a_job_that_others_can_reach_needs_a_token(monkeypatch, host):
    monkeypatch.setattr(socket, "create_server", lambda *args, **kwargs: pytest.fail("listened"))
    with pytest.raises(
        ValueError, match=r"has no token.*set DMLC_JOB_TOKEN.*python -m mxjax.launch"
    ):
        Keeper(2, "", host=host)


def test_a_job_of_this_machine_needs_no_token():
    """Scripts for ps-lite start the scheduler and the workers without one."""
    keeper = Keeper(1, "", address="nowhere:1", heartbeat=LONG)
    channel = wire.connect("127.0.0.1", keeper.port, b"")
    channel.send({"op": "join", "rank": 0, "host": "h", "pid": 1})
    assert channel.receive()["op"] == "joined"
    channel.close()
    keeper.close()
