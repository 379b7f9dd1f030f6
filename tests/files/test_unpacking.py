"""Archives: their files go where they should, whole or not at all, and nothing else happens."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import tarfile
import warnings
import zipfile

import pytest

from mxjax.errors import FormatError
from mxjax.files import unpacking
from mxjax.test_utils import get_bz2_data, get_zip_data

TEXT = b"the words of a file\n" * 100


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two members with one name
        for name, content in members:
            if isinstance(content, str):  # a link
                info = zipfile.ZipInfo(name)
                info.create_system, info.external_attr = 3, 0o120777 << 16
                out.writestr(info, content)
            else:
                out.writestr(name, content)
    return str(path)


def tarred(path, members):
    with tarfile.open(path, "w:gz") as out:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                out.addfile(info)
            else:
                info.size = len(content)
                out.addfile(info, io.BytesIO(content))
    return str(path)


PACKERS = pytest.mark.parametrize("pack", [zipped, tarred])


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@PACKERS
def test_a_file_is_taken_out_by_its_name(tmp_path, pack):
    archive = pack(
        tmp_path / "packed", [("../../up/a.txt", TEXT), ("/etc/b.txt", b"b"), ("c.txt", b"c")]
    )
    out = tmp_path / "out"
    out.mkdir()
    unpacking.unpack(archive, {"a.txt": str(out / "x"), "b.txt": str(out / "y")})
    assert (
        names(out) == ["x", "y"]
        and (out / "x").read_bytes() == TEXT
        and (out / "y").read_bytes() == b"b"
    )
    assert names(tmp_path) == ["out", "out/x", "out/y", "packed"]


@PACKERS
def test_what_is_not_as_expected_is_not_kept(tmp_path, pack):
    out = tmp_path / "out"
    out.mkdir()
    right = hashlib.sha1(TEXT).hexdigest()
    good = pack(tmp_path / "packed", [("a.txt", TEXT)])
    link = pack(tmp_path / "link", [("a.txt", "/etc/hostname")])
    for archive, options, why in (
        (good, {"hashes": {"a.txt": right[::-1]}}, "its SHA-1 is not"),
        (good, {"most": len(TEXT) - 1}, "more than the 1999"),
        (link, {}, "does not hold a.txt"),
    ):
        with pytest.raises(FormatError, match=why):
            unpacking.unpack(archive, {"a.txt": str(out / "x")}, **options)
        assert names(out) == []
    with pytest.raises(FormatError, match="does not hold b.txt"):
        unpacking.unpack(good, {"b.txt": str(out / "x")})
    unpacking.unpack(good, {"a.txt": str(out / "x")}, {"a.txt": right.upper()}, len(TEXT))
    assert (out / "x").read_bytes() == TEXT


@PACKERS
def test_damaged_archives_are_format_errors(tmp_path, pack):
    """Each byte of a small archive changed, and each length cut off: what is written is whole, or nothing is."""
    raw = tmp_path / "whole"
    pack(raw, [("a.txt", TEXT)])
    raw = raw.read_bytes()
    digest, target, archive = hashlib.sha1(TEXT).hexdigest(), tmp_path / "x", tmp_path / "packed"
    damaged = [raw[:n] for n in range(len(raw))]
    damaged += [
        raw[:n] + bytes([raw[n] ^ bit]) + raw[n + 1 :]
        for n in range(len(raw))
        for bit in (1, 0x80, 0xFF)
    ]
    refused = 0
    for content in damaged:
        archive.write_bytes(content)
        try:
            unpacking.unpack(str(archive), {"a.txt": str(target)}, {"a.txt": digest})
        except FormatError:
            refused += 1
            assert names(tmp_path) == ["packed", "whole"]
        else:
            assert target.read_bytes() == TEXT
            target.unlink()
    assert refused > len(raw)


@PACKERS
def test_a_bomb_is_not_unpacked(tmp_path, pack):
    (tmp_path / "out").mkdir()
    bomb = pack(tmp_path / "bomb", [("a", bytes(5 << 20)), ("b", bytes(5 << 20))])
    for most in (4 << 20, 9 << 20):
        with pytest.raises(FormatError, match="more than the"):
            unpacking.unpack_all(bomb, str(tmp_path / "out"), most)
    assert names(tmp_path / "out") == ["a"]


@pytest.mark.parametrize("ending", ["gz", "bz2"])
def test_a_bomb_of_one_file_is_not_unpacked(tmp_path, ending):
    packed = tmp_path / f"bomb.{ending}"
    packed.write_bytes({"gz": gzip, "bz2": bz2}[ending].compress(bytes(5 << 20)))
    with pytest.raises(FormatError, match="more than the 1000 bytes"):
        unpacking.unpack_one(str(packed), str(tmp_path / "x"), 1000)
    whole = packed.read_bytes()
    for content in (b"", b"x" * 50, whole[:30], whole[:-4] + b"0000", whole[: len(whole) // 2]):
        packed.write_bytes(content)
        if not content:  # gzip and bzip2 take it for nothing
            continue
        with pytest.raises(FormatError, match="is damaged"):
            unpacking.unpack_one(str(packed), str(tmp_path / "x"))
        assert names(tmp_path) == [packed.name]


OUT = [
    ("../x", b""), ("a/../../x", b""), ("/etc/x", b""), ("a\\..\\x", b""), ("C:x", b""), ("a/nul", b""),
    ("x" * 300, b""), ("a//b", b""), ("link", "/etc/hostname"), ("link", "a"), ("down/x", b""),
]  # fmt: skip


@PACKERS
@pytest.mark.parametrize(("name", "content"), OUT, ids=lambda value: str(value)[:20])
def test_nothing_leads_out_of_the_folder(tmp_path, pack, name, content):
    out = tmp_path / "out"
    out.mkdir()
    (out / "down").symlink_to(tmp_path)
    archive = pack(tmp_path / "packed", [("first", b"1"), (name, content)])
    with pytest.raises(FormatError, match="packed"):
        unpacking.unpack_all(archive, str(out))
    assert names(tmp_path) == ["out", "out/down", "out/first", "packed"]


@PACKERS
def test_two_files_for_one_place_are_refused(tmp_path, pack):
    archive = pack(tmp_path / "packed", [("Name", b"1"), ("name", b"2")])
    with pytest.raises(FormatError, match="two files for"):
        unpacking.unpack_all(archive, str(tmp_path))


@PACKERS
def test_whole_archives(tmp_path, pack):
    archive = pack(tmp_path / "packed", [("./a/b/c.txt", TEXT), ("d", b"")])
    unpacking.unpack_all(archive, str(tmp_path / "out"))
    assert names(tmp_path / "out") == ["a", "a/b", "a/b/c.txt", "d"]
    assert (tmp_path / "out" / "a" / "b" / "c.txt").read_bytes() == TEXT


def test_helpers_of_tests_unpack_by_the_same_rules(tmp_path):
    archive = zipped(tmp_path / "source.zip", [("../outside", b"x")])
    with pytest.raises(FormatError):
        get_zip_data(str(tmp_path / "out"), f"file://{archive}", "source")
    (tmp_path / "words.bz2").write_bytes(bz2.compress(TEXT)[:-3])
    with pytest.raises(FormatError):
        get_bz2_data(str(tmp_path), "words", "file:///nowhere", "words.bz2")
    assert not (tmp_path / "outside").exists() and not (tmp_path / "words").exists()
