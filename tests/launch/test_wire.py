"""Frames and proofs, over a socket pair."""

from __future__ import annotations

import json
import socket
import struct
import threading

import pytest

from mxjax.launch import wire


def pair(token: bytes = b"secret", other: bytes = b"secret"):
    """Both ends of one connection: the accepting channel (or its error), the connecting one."""
    server = socket.create_server(("127.0.0.1", 0))
    found = []

    def accept():
        sock, _ = server.accept()
        try:
            found.append(wire.accept(sock, token))
        except (wire.Refused, OSError) as error:
            found.append(error)
            sock.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        member = wire.connect("127.0.0.1", server.getsockname()[1], other)
    except wire.Refused as error:
        member = error
    thread.join()
    server.close()
    return found[0], member


def test_objects_arrive_in_order_in_both_directions():
    keeper, member = pair()
    for n in range(3):
        member.send({"n": n, "text": "ä" * n})
        keeper.send({"back": n})
    assert [keeper.receive() for _ in range(3)] == [{"n": n, "text": "ä" * n} for n in range(3)]
    assert [member.receive()["back"] for _ in range(3)] == [0, 1, 2]
    member.close()
    assert keeper.receive() is None
    keeper.close()


def test_who_does_not_know_the_token_is_refused_by_both():
    keeper, member = pair(b"secret", b"guess")
    assert isinstance(keeper, wire.Refused) and "token" in str(keeper)
    assert isinstance(member, wire.Refused) and "token" in str(member)


def test_a_keeper_that_does_not_know_the_token_is_refused():
    """It can ask for a proof, and learns nothing that it could use."""
    server = socket.create_server(("127.0.0.1", 0))

    def pretend():
        sock, _ = server.accept()
        channel = wire.Channel(sock)
        channel.send({"mxjax": 1, "nonce": "0" * 32})
        channel.receive()
        channel.send({"proof": "0" * 64})
        channel.receive()
        channel.close()

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(wire.Refused, match="no keeper of this job"):
        wire.connect("127.0.0.1", server.getsockname()[1], b"secret")
    thread.join()
    server.close()


@pytest.mark.parametrize("forged", ["changed", "repeated"])
def test_frames_cannot_be_forged(forged):
    keeper, member = pair()
    text = json.dumps({"op": "lost"}).encode()
    if forged == "changed":
        member._sock.sendall(struct.pack(">I16s", len(text), bytes(16)) + text)
    else:
        frame = struct.pack(">I16s", len(text), member._seal(0, 0, text)) + text
        member._sock.sendall(frame + frame)
        assert keeper.receive() == {"op": "lost"}
    with pytest.raises(wire.Refused, match="proof"):
        keeper.receive()
    keeper.close()
    member.close()


def test_sizes_are_checked_before_anything_is_read():
    server = socket.create_server(("127.0.0.1", 0))
    left = socket.create_connection(server.getsockname())
    right, _ = server.accept()
    left.sendall(struct.pack(">I16s", wire.LONGEST_STRANGER + 1, bytes(16)))
    with pytest.raises(wire.Refused, match="1025 bytes"):
        wire.Channel(right).receive()
    for sock in (left, right, server):
        sock.close()


@pytest.mark.parametrize("text", [b"no json", b"[1]", b"\xff"])
def test_what_is_no_object_is_refused(text):
    keeper, member = pair()
    member._sock.sendall(struct.pack(">I16s", len(text), member._seal(0, 0, text)) + text)
    with pytest.raises(wire.Refused, match="no JSON"):
        keeper.receive()
    keeper.close()
    member.close()


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True), ("127.8.9.10", True), ("::1", True), ("localhost", True), ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False), ("", False), ("::", False), ("10.1.2.3", False), ("192.0.2.1", False), ("8.8.8.8", False),
        ("2001:db8::1", False), ("::ffff:10.0.0.1", False), ("169.254.1.1", False),
    ],
)  # fmt: skip
def test_which_addresses_only_this_machine_reaches(host, alone):
    assert wire.is_loopback(host) is alone


def test_names_are_judged_by_all_that_they_stand_for(monkeypatch):
    def found(*addresses):
        return lambda host, port: [(0, 0, 0, "", (a, 0)) for a in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", found("127.0.0.1", "10.0.0.5"))
    assert not wire.is_loopback("scheduler")
    monkeypatch.setattr(socket, "getaddrinfo", found("127.0.1.1", "::1"))
    assert wire.is_loopback("scheduler")


@pytest.mark.parametrize("token", [b"", b" ", b"\n"])
def test_without_a_token_nobody_connects_to_another_machine(monkeypatch, token):
    monkeypatch.setattr(
        socket, "create_connection", lambda *args, **kwargs: pytest.fail("connected")
    )
    with pytest.raises(
        ValueError, match=r"10\.1\.2\.3 has no token.*set DMLC_JOB_TOKEN.*python -m mxjax.launch"
    ):
        wire.connect("10.1.2.3", 9, token)


def test_without_a_token_the_loopback_address_serves():
    keeper, member = pair(b"", b"")
    member.send({"n": 1})
    assert keeper.receive() == {"n": 1}
    member.close()
    keeper.close()
    keeper, member = pair(b"secret", b"")
    assert isinstance(keeper, wire.Refused) and isinstance(member, wire.Refused)
