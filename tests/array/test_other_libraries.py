"""What people hand arrays to: plots, masked arrays, estimators, images, copies."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as onp
import pytest

import mxjax as mx

VALUES = [[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]]


@pytest.fixture(params=["np", "nd"])
def array(request):
    return getattr(mx, request.param).array(VALUES)


def test_masked_arrays(array):
    assert onp.ma.getmask(array) is onp.ma.nomask
    masked = onp.ma.masked_where(array.asnumpy() > 2, array)
    assert masked.sum() == 2.5
    onp.testing.assert_array_equal(onp.ma.ravel(array), onp.ravel(VALUES))


def test_plots(array):
    matplotlib = pytest.importorskip("matplotlib", reason="comes with the extra: notebook")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    x, y = array[0], array[1]
    points = axes.scatter(x, y, c=y)
    onp.testing.assert_array_equal(points.get_offsets(), onp.array(VALUES).T)
    (line,) = axes.plot(x, y)
    onp.testing.assert_array_equal(line.get_ydata(), VALUES[1])
    axes.bar(x, y)
    axes.fill_between(x, y)
    axes.errorbar(x, y, yerr=x)
    counts, _, _ = axes.hist(y)
    assert counts.shape == (10,)  # one data set, not one for each element
    axes.boxplot(y)
    onp.testing.assert_array_equal(axes.imshow(array).get_array(), VALUES)
    figure.canvas.draw()
    pyplot.close(figure)


def test_estimators(array):
    pytest.importorskip("sklearn", reason="comes with the extra: demo")
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import confusion_matrix

    fitted = LinearRegression().fit(array.T, array[0])
    onp.testing.assert_allclose(fitted.predict(array.T), VALUES[0], rtol=1e-5)
    labels = (array[0] > 1.5).astype("int32")
    assert confusion_matrix(labels, labels).tolist() == [[1, 0], [0, 2]]


def test_images():
    image = pytest.importorskip("PIL.Image", reason="comes with the extra: data")
    pixels = mx.np.arange(12, dtype="uint8").reshape(2, 2, 3)
    onp.testing.assert_array_equal(onp.asarray(image.fromarray(pixels.asnumpy())), pixels.asnumpy())
    onp.testing.assert_array_equal(
        mx.np.array(image.fromarray(pixels.asnumpy())).asnumpy(), pixels.asnumpy()
    )


def test_python(array):
    for other in (copy.copy(array), copy.deepcopy(array), pickle.loads(pickle.dumps(array))):
        assert type(other) is type(array)
        onp.testing.assert_array_equal(other.asnumpy(), VALUES)
    assert json.loads(json.dumps({"loss": array[0, 2].asnumpy().item()})) == {"loss": 4.0}
    assert f"{mx.np.array(1.2345):.2f}" == "1.23"
    assert sorted([mx.np.array(3), mx.np.array(1)])[0] == 1
    assert [1, 2, 3][mx.np.array(1, dtype="int32")] == 2
