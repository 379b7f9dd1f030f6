"""Pictures read, resized and cut, against what OpenCV and real MXNet define, and SciPy."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import scipy.ndimage
from PIL import Image

import mxjax as mx
from mxjax.errors import FormatError, MXNetError
from mxjax.files import codec
from mxjax.ops.image import resized_on_host

DATA = Path(__file__).parents[1] / "data" / "recordio"


def encoded(pixels, kind="PNG", **more):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **more)
    return out.getvalue()


@pytest.fixture
def pixels():
    return np.random.RandomState(3).randint(0, 256, (6, 9, 3)).astype(np.uint8)


def test_imdecode(pixels):
    data = encoded(pixels)
    for given in (
        data,
        bytearray(data),
        np.frombuffer(data, np.uint8),
        mx.nd.array(list(data), dtype="uint8"),
    ):
        found = mx.image.imdecode(given)
        assert isinstance(found, mx.nd.NDArray)
        np.testing.assert_array_equal(found.asnumpy(), pixels)
    np.testing.assert_array_equal(mx.image.imdecode(data, to_rgb=0).asnumpy(), pixels[..., ::-1])
    gray = mx.image.imdecode(data, flag=0).asnumpy()
    assert gray.shape == (6, 9, 1)
    wide = pixels.astype(int)  # libpng's weights and rounding, as MXNet's pictures have them
    weighed = 9797 * wide[..., 0] + 19234 * wide[..., 1] + 3737 * wide[..., 2]
    np.testing.assert_array_equal(gray[..., 0], weighed >> 15)
    out = mx.nd.zeros((6, 9, 3), dtype="uint8")
    assert mx.image.imdecode(data, out=out) is out
    np.testing.assert_array_equal(out.asnumpy(), pixels)
    with mx.util.np_array(True):
        assert isinstance(mx.image.imdecode(data), mx.np.ndarray)


def test_other_kinds_of_pictures(pixels):
    alpha = np.dstack([pixels, np.full(pixels.shape[:2], 7, np.uint8)])
    np.testing.assert_array_equal(mx.image.imdecode(encoded(alpha)).asnumpy(), pixels)
    assert mx.image.imdecode(encoded(alpha), flag=-1).shape == (6, 9, 4)
    np.testing.assert_array_equal(
        mx.image.imdecode(encoded(pixels[..., 0])).asnumpy(), np.repeat(pixels[..., :1], 3, axis=2)
    )
    deep = encoded(pixels[..., 0].astype(np.uint16) * 256)
    np.testing.assert_array_equal(mx.image.imdecode(deep, flag=0).asnumpy()[..., 0], pixels[..., 0])
    exif = Image.Exif()
    exif[274] = 6  # turned by a quarter
    turned = mx.image.imdecode(encoded(np.repeat(pixels[..., :1], 3, 2), "JPEG", exif=exif))
    assert turned.shape == (9, 6, 3)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("more", [{}, {"progressive": True}, {"subsampling": 0}])
def test_a_jpeg_has_the_pixels_that_pillow_reads(mode, more):
    """By whichever library; odd sizes end within a block."""
    noise = np.random.RandomState(0).randint(0, 256, (5, 7, 3)).astype(np.uint8)
    picture = Image.fromarray(noise).resize((45, 37), Image.Resampling.BICUBIC).convert(mode)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90, **more)
    colour = np.asarray(Image.open(file).convert("RGB"))
    np.testing.assert_array_equal(codec.decode(file.getvalue()), colour)
    np.testing.assert_array_equal(codec.decode(file.getvalue(), to_rgb=False), colour[..., ::-1])
    held = np.zeros(3 * 37 * 45, np.uint8)
    np.testing.assert_array_equal(
        codec.decode(file.getvalue(), memory=lambda size: held[:size]), colour
    )
    as_it_is = codec.decode(file.getvalue(), -1)
    np.testing.assert_array_equal(as_it_is, colour if mode == "RGB" else colour[..., :1])
    gray = Image.open(file)
    gray.draft("L", gray.size)
    np.testing.assert_array_equal(
        codec.decode(file.getvalue(), 0)[..., 0], np.asarray(gray.convert("L"))
    )


def test_messages_say_what_arrived():
    with pytest.raises(FormatError, match="it has 3 bytes"):
        mx.image.imdecode(b"abc")
    with pytest.raises(ValueError, match=r"without pixels, \(0, 0, 3\)"):
        mx.image.fixed_crop(mx.nd.ones((4, 4, 3)), 10, 10, 3, 3, (2, 2))


def test_a_truncated_jpeg_is_refused():
    whole = encoded(np.random.RandomState(0).randint(0, 256, (40, 40, 3)).astype(np.uint8), "JPEG")
    for length in (100, len(whole) // 2, len(whole) - 10):
        with pytest.raises(FormatError, match="damaged"):
            codec.decode(whole[:length])


@pytest.mark.parametrize(
    "data", [b"", b"clearly no picture", b"\x89PNG\r\n\x1a\n" + bytes(40), "half"]
)
def test_what_is_no_picture_is_refused(tmp_path, pixels, data):
    data = encoded(pixels, "JPEG")[:-40] if data == "half" else data
    with pytest.raises(FormatError):
        mx.image.imdecode(data)
    (tmp_path / "bad.jpg").write_bytes(data)
    with pytest.raises(FormatError, match=r"bad\.jpg"):
        mx.img.imread(str(tmp_path / "bad.jpg"))


def test_imread():
    expected = np.load(DATA / "imgs.expected.npz")
    np.testing.assert_array_equal(
        mx.image.imread(str(DATA / "img1.png")).asnumpy(), expected["img1"]
    )
    with pytest.raises(MXNetError, match="nowhere"):
        mx.image.imread("/nowhere/at/all.jpg")
    with pytest.raises(ValueError, match="imread"):
        mx.image.imdecode("name.jpg")


def test_sizes():
    assert mx.image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert mx.image.scale_down((360, 1000), (480, 500)) == (360, 375)
    assert mx.image.scale_down((300, 400), (0, 0)) == (0, 0)
    tall = mx.nd.zeros((40, 20, 3))
    assert mx.image.resize_short(tall, 10).shape == (20, 10, 3)
    assert mx.image.resize_short(tall.transpose((1, 0, 2)), 10).shape == (10, 20, 3)
    _, box = mx.image.center_crop(tall, (10, 10))
    assert box == (5, 15, 10, 10)
    out, (x, y, w, h) = mx.image.random_crop(tall, (40, 40))
    assert out.shape == (40, 40, 3) and (w, h) == (20, 20) and x == 0 and 0 <= y <= 20
    for _ in range(20):
        out, (x, y, w, h) = mx.image.random_size_crop(
            np.zeros((40, 50, 3)), (8, 9), (0.1, 0.5), (0.5, 2.0)
        )
        assert out.shape == (9, 8, 3)
        assert (
            0 <= x <= 50 - w
            and 0 <= y <= 40 - h
            and 0.08 < w * h / 2000 < 0.55
            and 0.4 < w / h < 2.5
        )


@pytest.mark.parametrize("interp", range(5))
def test_host_and_operator_resize_alike(pixels, interp):
    for size in ((4, 3), (13, 11)):
        here = mx.image.imresize(pixels, *size, interp=interp)
        assert isinstance(here, np.ndarray) and here.dtype == np.uint8
        there = mx.nd.image.resize(
            mx.nd.array(pixels, dtype="uint8"), size=size, interp=interp
        ).asnumpy()
        assert np.abs(here.astype(int) - there).max() <= 1
        again = mx.image.imresize(mx.nd.array(pixels, dtype="uint8"), *size, interp=interp)
        np.testing.assert_array_equal(again.asnumpy(), here)


def test_host_and_operator_resize_bytes_to_the_same(pixels):
    """The host's own way of bilinear: the same sums, halves rounded up."""
    large = np.random.default_rng(0).integers(0, 256, (30, 20, 3), np.uint8)
    for size in ((10, 15), (40, 90), (7, 31), (20, 40)):
        there = mx.nd.image.resize(mx.nd.array(large, dtype="uint8"), size=size, interp=1).asnumpy()
        np.testing.assert_array_equal(resized_on_host(large, *size, 1), there)


def test_choice_of_interpolation(pixels):
    shrunk = mx.image.imresize(pixels, 3, 3, interp=9)
    np.testing.assert_array_equal(shrunk, mx.image.imresize(pixels, 3, 3, interp=3))
    enlarged = mx.image.imresize(pixels, 20, 20, interp=9)
    np.testing.assert_array_equal(enlarged, mx.image.imresize(pixels, 20, 20, interp=2))
    with pytest.raises(ValueError, match="interp"):
        mx.image.imresize(pixels, 3, 3, interp=7)
    with pytest.raises(ValueError, match="positive"):
        mx.image.imresize(pixels, 0, 3)


@pytest.mark.parametrize(
    ("kind", "row"),
    [(0, "99abcd99"), (1, "aaabcddd"), (2, "baabcddc"), (3, "cdabcdab"), (4, "cbabcdcb")],
)
def test_borders(kind, row):
    """The rows of OpenCV's documentation of its border types."""
    letters = np.frombuffer(b"abcd", np.uint8).reshape(1, 4, 1)
    found = mx.image.copyMakeBorder(
        mx.nd.array(letters, dtype="uint8"), 0, 0, 2, 2, type=kind, values=[ord("9")]
    )
    assert found.asnumpy().tobytes().decode() == row


def test_imrotate():
    ramp = np.linspace(0, 0.5, 30)[:, None, None] + np.linspace(0, 0.5, 60)[None, :, None]
    image = mx.nd.array(ramp.transpose(2, 0, 1))
    turned = mx.image.imrotate(image, 6).asnumpy().transpose(1, 2, 0)
    wanted = scipy.ndimage.rotate(
        ramp, 6, axes=(1, 0), reshape=False, order=1, mode="constant", prefilter=False
    )
    np.testing.assert_allclose(turned[10:20, 20:40], wanted[10:20, 20:40], rtol=1e-4)
    with mx.config.scope({"engine.cold": "auto"}):  # two programs may round coordinates differently
        alone = mx.image.imrotate(image, 6).asnumpy()
        both = mx.image.imrotate(mx.nd.stack(image, image), mx.nd.array([6, 0])).asnumpy()
    np.testing.assert_allclose(both[0], alone, rtol=1e-6)
    np.testing.assert_allclose(both[1, 0], ramp[..., 0], atol=1e-6)
    # Zoomed out, all four corners are inside; zoomed in, nothing is empty.
    ones = mx.nd.ones((1, 21, 31))
    # Within half a pixel, at the corners.
    assert abs(mx.image.imrotate(ones, 30, zoom_in=True).asnumpy() - 1).max() < 0.1
    small = mx.image.imrotate(ones, 30, zoom_out=True).asnumpy()
    assert small[0, 10, 15] == 1 and abs(small[0, [0, 0, -1, -1], [0, -1, 0, -1]]).max() == 0
    with pytest.raises(ValueError, match="both"):
        mx.image.imrotate(ones, 3, zoom_in=True, zoom_out=True)
    with pytest.raises(TypeError, match="float32"):
        mx.image.imrotate(ones.astype("uint8"), 3)
    with pytest.raises(TypeError, match="scalar"):
        mx.image.imrotate(ones, mx.nd.array([3]))
    with pytest.raises(ValueError, match="number of rotation"):
        mx.image.imrotate(mx.nd.stack(ones, ones), mx.nd.array([3]))


def test_color_normalize():
    source = np.random.RandomState(1).rand(4, 5, 3).astype(np.float32) * 255
    mean, std = np.array([1.0, 2, 3], np.float32), np.array([4.0, 5, 6], np.float32)
    wanted = (source - mean) / std
    found = mx.image.color_normalize(mx.nd.array(source), mx.nd.array(mean), mx.nd.array(std))
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(mx.image.color_normalize(source, mean, std), wanted, rtol=1e-5)


# Of MXNet 1.9.1 (OpenCV 3.4.2): size, method and the sum of the bytes, each times its place's number below.
RESIZED = [
    ((8, 6), 1, 1339092), ((17, 6), 1, 4315464), ((8, 13), 1, 4128884), ((34, 26), 1, 41638019),
    ((34, 26), 3, 41741201), ((23, 19), 1, 20171751), ((23, 19), 3, 20150021), ((5, 40), 1, 8503983),
    ((5, 40), 3, 8810789), ((16, 12), 1, 8415264),
]  # fmt: skip


@pytest.mark.parametrize("size, interp, total", RESIZED)
def test_bytes_are_resized_in_the_fixed_point_of_opencv(size, interp, total):
    photo = np.random.RandomState(5).randint(0, 256, (13, 17, 3)).astype(np.uint8)
    for resized in (
        mx.image.imresize(photo, *size, interp),
        mx.nd.image.resize(mx.nd.array(photo, dtype="uint8"), size=size, interp=interp),
    ):
        numbers = np.asarray(resized).ravel().astype(int)
        assert (numbers * (np.arange(1, numbers.size + 1) % 251)).sum() == total


@pytest.mark.parametrize(
    "given, corner",  # of MXNet 1.9.1
    [({"values": 3.0}, [3, 0, 0]), ({"values": (1.0, 2.0)}, [1, 2, 0]), ({"values": (1, 2, 3)}, [1, 2, 3]),
     ({"value": 3}, [3, 3, 3])],
)  # fmt: skip
def test_values_of_a_border_are_those_of_its_first_channels(pixels, given, corner):
    made = mx.image.copyMakeBorder(mx.nd.array(pixels, dtype="uint8"), 1, 0, 1, 0, 0, **given)
    np.testing.assert_array_equal(made[0, 0].asnumpy(), corner)
    np.testing.assert_array_equal(made[1:, 1:].asnumpy(), pixels)
