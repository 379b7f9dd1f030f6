"""`mx.contrib.text` gives what MXNet gives; files of vectors are fetched, checked and unpacked."""

from __future__ import annotations

import builtins
import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax.contrib import text
from mxjax.errors import FormatError, MXNetError, MXNetOSError

from ..record import text_embedding as recorded

EXPECTED = json.loads((Path(__file__).parents[1] / "data" / "text_embedding.json").read_text())


@pytest.fixture(scope="module", params=[False, True], ids=["nd", "np"])
def found(request):
    with mx.util.np_array(request.param):
        return recorded.record(mx)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != "wrong"])
def test_results_are_those_of_mxnet(found, name):
    assert json.loads(json.dumps(found[name])) == EXPECTED[name]


def test_errors_are_those_of_mxnet(found):
    for error, name in zip(found["wrong"], EXPECTED["wrong"], strict=True):
        assert isinstance(error, getattr(builtins, name)) and isinstance(error, MXNetError), name


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one small file of GloVe's, by its SHA-1."""
    content = b"the 1 2\nof 3 4\n"
    folder = tmp_path / "repository" / "gluon" / "embeddings" / "glove"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", content)
        archive.writestr("../outside.txt", "no")
    packed = hashlib.sha1((folder / "glove.6B.zip").read_bytes()).hexdigest()
    glove = text.embedding.GloVe
    monkeypatch.setattr(
        glove, "pretrained_file_name_sha1", {"glove.6B.50d.txt": hashlib.sha1(content).hexdigest()}
    )
    monkeypatch.setattr(glove, "pretrained_archive_name_sha1", {"glove.6B.zip": packed})
    with mx.config.scope(
        data_repo=f"file://{tmp_path}/repository", data_home=str(tmp_path / "home")
    ):
        yield tmp_path


def test_files_are_fetched_once(repository):
    for _ in range(2):
        glove = text.embedding.create("GloVe", pretrained_file_name="glove.6B.50d.txt")
        assert glove.idx_to_token == ["<unk>", "the", "of"]
        (repository / "repository" / "gluon" / "embeddings" / "glove" / "glove.6B.zip").unlink(
            missing_ok=True
        )
    home = repository / "home" / "embeddings" / "glove"
    assert sorted(path.name for path in home.iterdir()) == ["glove.6B.50d.txt", "glove.6B.zip"]
    (home / "glove.6B.50d.txt").write_text("damaged")
    (home / "glove.6B.zip").unlink()
    with pytest.raises(MXNetOSError, match="glove.6B.zip"):
        text.embedding.GloVe("glove.6B.50d.txt")


def test_own_kinds_are_registered():
    @text.embedding.register
    class Fixed(text.embedding._TokenEmbedding):
        pass

    assert isinstance(text.embedding.create("fixed"), Fixed)
    assert text.embedding.get_pretrained_file_names("fixed") == []


def test_reserved_tokens_have_vectors(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 2\n<pad> 5 6\n")
    with pytest.warns(UserWarning, match="line 3: token 'a' is there already"):
        (tmp_path / "v.txt").write_text("a 1 2\n<pad> 5 6\na 3 4\n")
        found = text.embedding.CustomEmbedding(
            str(tmp_path / "v.txt"), reserved_tokens=["<eos>", "<pad>"]
        )
    assert found.idx_to_token == ["<unk>", "<eos>", "<pad>", "a"]
    np.testing.assert_array_equal(found.idx_to_vec.asnumpy(), [[0, 0], [0, 0], [5, 6], [1, 2]])


@pytest.mark.parametrize("content", [b"", b"\xff\xfe 1 2\n", b"a 1 b\n", b"a 1\n"])
def test_damaged_files(tmp_path, content, recwarn):
    (tmp_path / "v.txt").write_bytes(content)
    with pytest.raises(FormatError, match="v.txt"):
        text.embedding.CustomEmbedding(str(tmp_path / "v.txt"))
