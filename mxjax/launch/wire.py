"""Messages between the members of a job: JSON in frames, each proved with the job's token.

A frame is its length (4 bytes), a proof (16 bytes) and the text of one JSON object.  Both sides prove
at the beginning that they know the token, without sending it; from then on every frame carries an HMAC
over its number and its text under a key of this connection and direction, so that nothing can be put
in, changed or repeated.  Nothing is encrypted, and nothing that arrives is ever executed.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
import socket
import struct
import threading
from typing import Any

from ..errors import MXNetError, MXNetValueError

__all__ = ["Channel", "Refused", "accept", "check_token", "connect", "is_loopback"]

#: The longest text of one frame, in bytes; a longer one is refused before it is read.
LONGEST = 4 << 20
#: The longest before the other side has proved that it knows the token.
LONGEST_STRANGER = 1 << 10
_HEADER = struct.Struct(">I16s")
_NO_PROOF = bytes(16)


class Refused(MXNetError):
    """The other side is not of this job, or does not speak this language."""


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine can reach an address: 127.0.0.1, ::1, or a name that stands for such.

    Raises:
      OSError: nobody knows the name.

    >>> is_loopback("127.0.0.1"), is_loopback("10.0.0.1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, False, False, False)
    """
    if not host:
        return False  # a server without an address listens at all of them
    found = [
        ipaddress.ip_address(str(where[0]).partition("%")[0])
        for *_, where in socket.getaddrinfo(host, None)
    ]
    return all((getattr(each, "ipv4_mapped", None) or each).is_loopback for each in found)


def check_token(token: bytes, host: str) -> None:
    """Refuse a job without a token at an address that other machines may reach.

    Raises:
      MXNetValueError: the token is empty, and the address is not a loopback address.
      OSError: nobody knows the address.
    """
    if token.strip() or is_loopback(host):
        return
    raise MXNetValueError(
        f"the job at {host or 'all addresses'} has no token, so whoever reaches its port could join it: "
        "set DMLC_JOB_TOKEN to the same secret for the scheduler and all workers (such as the output of "
        "`python -c 'import secrets; print(secrets.token_hex(16))'`), or start the script with "
        "`python -m mxjax.launch`, which makes one. Only a loopback address such as 127.0.0.1 needs none"
    )


def _proof(key: bytes, *parts: bytes) -> bytes:
    return hmac.digest(key, b"|".join(parts), "sha256")


class Channel:
    """A connection to one other process, over which JSON objects travel.

    Args:
      sock: a connected socket, which the channel owns from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._keys: tuple[bytes, bytes] | None = None  # of what is sent, of what is received
        self._sent = 0
        self._received = 0
        self._lock = threading.Lock()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: dict[str, Any]) -> None:
        """Send one object; any thread may.

        Raises:
          OSError: the connection is gone, or the other side takes nothing for long.
        """
        text = json.dumps(message, separators=(",", ":")).encode()
        with self._lock:
            self._sock.sendall(_HEADER.pack(len(text), self._seal(0, self._sent, text)) + text)
            self._sent += 1

    def receive(self) -> dict[str, Any] | None:
        """The next object; None when the other side has closed. One thread may.

        Raises:
          Refused: what came is no frame of this job.
          OSError: the connection is gone.
        """
        header = self._take(_HEADER.size)
        if header is None:
            return None
        length, proof = _HEADER.unpack(header)
        if length > (LONGEST_STRANGER if self._keys is None else LONGEST):
            raise Refused(f"a message of {length} bytes was announced")
        text = self._take(length)
        if text is None:
            return None
        if not hmac.compare_digest(proof, self._seal(1, self._received, text)):
            raise Refused("a message without a valid proof of the job's token")
        self._received += 1
        try:
            message = json.loads(text)
        except ValueError:
            raise Refused("a message that is no JSON") from None
        if not isinstance(message, dict):
            raise Refused("a message that is no JSON object")
        return message

    def _seal(self, direction: int, number: int, text: bytes) -> bytes:
        if self._keys is None:
            return _NO_PROOF
        return _proof(self._keys[direction], number.to_bytes(8, "big"), text)[:16]

    def _take(self, count: int) -> bytes | None:
        parts = []
        while count:
            part = self._sock.recv(min(count, 1 << 16))
            if not part:
                return None
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def settimeout(self, seconds: float | None) -> None:
        """How long `receive` waits at most; None: for ever."""
        self._sock.settimeout(seconds)

    def secure(self, token: bytes, first: bytes, second: bytes, mine: int) -> None:
        """From here on every frame is proved; `mine` is 0 for the side that accepted."""
        keys = [_proof(token, b"frames", bytes([side]), first, second) for side in (0, 1)]
        self._keys = (keys[mine], keys[1 - mine])
        self._sent = self._received = 0

    def close(self) -> None:
        """End the connection; the other side's `receive` gives None."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already
        self._sock.close()


def _text(message: dict[str, Any] | None, field: str) -> bytes:
    found = message.get(field) if message is not None else None
    if not isinstance(found, str) or len(found) > 128:
        raise Refused("it closed the connection" if message is None else "it gave no proof")
    return found.encode()


def accept(sock: socket.socket, token: bytes, patience: float = 10.0) -> Channel:
    """The channel on a connection somebody opened, once both sides have proved the token.

    Raises:
      Refused: the other side does not know it.
      OSError: the connection broke, or the proof took longer than `patience` seconds.
    """
    sock.settimeout(patience)
    channel = Channel(sock)
    first = secrets.token_hex(16).encode()
    channel.send({"mxjax": 1, "nonce": first.decode()})
    answer = channel.receive()
    second, proof = _text(answer, "nonce"), _text(answer, "proof")
    expected = _proof(token, b"member", first, second).hex().encode()
    if not hmac.compare_digest(proof, expected):
        raise Refused("it does not know the job's token")
    channel.send({"proof": _proof(token, b"keeper", first, second).hex()})
    channel.secure(token, first, second, mine=0)
    channel.settimeout(None)
    return channel


def connect(host: str, port: int, token: bytes, patience: float = 10.0) -> Channel:
    """A channel to the job's keeper, once both sides have proved the token.

    Raises:
      Refused: the other side does not know it, or does not take ours.
      MXNetValueError: the token is empty, and the address is not a loopback address.
      OSError: nobody answers there.
    """
    check_token(token, host)
    channel = Channel(socket.create_connection((host, port), timeout=patience))
    try:
        first = _text(channel.receive(), "nonce")
        second = secrets.token_hex(16).encode()
        proof = _proof(token, b"member", first, second).hex()
        channel.send({"nonce": second.decode(), "proof": proof})
        answer = channel.receive()
        if answer is None:
            raise Refused(f"{host}:{port} does not accept this process's job token")
        expected = _proof(token, b"keeper", first, second).hex().encode()
        if not hmac.compare_digest(_text(answer, "proof"), expected):
            raise Refused(
                f"{host}:{port} does not know the job's token: it is no keeper of this job"
            )
    except BaseException:
        channel.close()
        raise
    channel.secure(token, first, second, mine=1)
    channel.settimeout(None)
    return channel
