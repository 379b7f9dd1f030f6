"""Files of states: MXNet's without an optimizer (Module.save_optimizer_states), and those that are cut short."""

import base64

import numpy as np
import pytest

import mxjax as mx

# Updater.get_states() of MXNet after two steps of SGD(learning_rate=0.1, momentum=0.9, multi_precision=True) from
# float16 weights 1, 2, 3 with gradients 1 and 2. 1.9.1 puts the float32 copy second, 2.0.0b1 first.
WRITTEN = {
    "1.9.1": (
        "gASVywAAAAAAAAB9lEsAjBVteG5ldC5uZGFycmF5Lm5kYXJyYXmUjAdOREFycmF5lJOUToWUUpR9lIwGaGFuZGxllIwIYnVpbHRp"
        "bnOUjAlieXRlYXJyYXmUk5RDLMn6k/kAAAAAAQAAAAMAAAAAAAAAAQAAAAAAAAAAAAAA4XqUvuF6lL7hepS+lIWUUpRzYmgDaARS"
        "lH2UaAdoCkMsyfqT+QAAAAABAAAAAwAAAAAAAAABAAAAAAAAAAAAAAD2KBw/exTOPz4KJ0CUhZRSlHNihpRzLg=="
    ),
    "2.0.0b1": (
        "gASVywAAAAAAAAB9lEsAjBVteG5ldC5uZGFycmF5Lm5kYXJyYXmUjAdOREFycmF5lJOUToWUUpR9lIwGaGFuZGxllIwIYnVpbHRp"
        "bnOUjAlieXRlYXJyYXmUk5RDLMr6k/kAAAAAAQAAAAMAAAAAAAAAAQAAAAAAAAAAAAAA9igcP3sUzj8+CidAlIWUUpRzYmgDaARS"
        "lH2UaAdoCkMsyvqT+QAAAAABAAAAAwAAAAAAAAABAAAAAAAAAAAAAADhepS+4XqUvuF6lL6UhZRSlHNihpRzLg=="
    ),
    # Of LBSGD in 1.9.1, which has the copy first there, too.
    "LBSGD": (
        "gASVywAAAAAAAAB9lEsAjBVteG5ldC5uZGFycmF5Lm5kYXJyYXmUjAdOREFycmF5lJOUToWUUpR9lIwGaGFuZGxllIwIYnVpbHRp"
        "bnOUjAlieXRlYXJyYXmUk5RDLMn6k/kAAAAAAQAAAAMAAAAAAAAAAQAAAAAAAAAAAAAA9igcP3sUzj8+CidAlIWUUpRzYmgDaARS"
        "lH2UaAdoCkMsyfqT+QAAAAABAAAAAwAAAAAAAAABAAAAAAAAAAAAAADhepS+4XqUvuF6lL6UhZRSlHNihpRzLg=="
    ),
}


@pytest.mark.parametrize("version", WRITTEN)
def test_the_copy_of_16_bit_weights_is_found_in_either_order(version):
    updater = mx.optimizer.get_updater(
        getattr(mx.optimizer, "LBSGD" if version == "LBSGD" else "SGD")(
            learning_rate=0.1, momentum=0.9, multi_precision=True
        )
    )
    updater.set_states(base64.b64decode(WRITTEN[version]))
    weight = mx.nd.array([0.609863, 1.609863, 2.609863], dtype="float16")
    for _ in range(2):
        updater(0, mx.nd.full((3,), 0.7, dtype="float16"), weight)
    # Recorded of both.
    np.testing.assert_array_equal(
        weight.asnumpy(), np.array([-0.088928, 0.91113, 1.9111], np.float16)
    )
    copy, momentum = updater.states[0]
    np.testing.assert_allclose(copy.asnumpy(), [-0.088957, 0.91104, 1.911], rtol=1e-4)
    np.testing.assert_allclose(momentum.asnumpy(), [-0.36794] * 3, rtol=1e-4)


def test_no_aggregation_is_one_weight_at_a_time():
    """MXNet 1.9.1 says 0 of LBSGD and Signum, and so do the optimizers in its states."""
    optimizer = mx.optimizer.LBSGD(learning_rate=0.5)
    optimizer.aggregate_num = 0
    updater = mx.optimizer.get_updater(optimizer)
    weights = [mx.nd.ones((2,)), mx.nd.zeros((3,))]
    updater([0, 1], [mx.nd.ones((2,)), mx.nd.ones((3,))], weights)
    assert [w.asnumpy().tolist() for w in weights] == [[0.5, 0.5], [-0.5, -0.5, -0.5]]


def test_files_that_are_cut_short_say_so():
    optimizer = mx.optimizer.Adam()
    updater = mx.optimizer.get_updater(optimizer)
    updater(0, mx.np.ones((2, 3)), mx.np.ones((2, 3)))
    whole = updater.get_states()
    for size in (len(whole) - 4, len(whole) // 2, 100):
        with pytest.raises(mx.MXNetError, match="short|bytes") as caught:
            mx.optimizer.get_updater(mx.optimizer.Adam()).set_states(whole[:size])
        assert "opcode" not in str(caught.value)
