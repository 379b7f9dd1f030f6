"""Knowledge tracing in Module: an unrolled cell, a loss of its own by MakeLoss, padding masked."""

import json

import mxnet as mx
import numpy as np
from common import start


def symbol(questions, steps, hidden):
    data, asked, right = (mx.sym.var(n) for n in ("data", "asked", "right"))
    embed = mx.sym.Embedding(data, input_dim=2 * questions + 1, output_dim=hidden, name="embed")
    cell = mx.rnn.SequentialRNNCell()
    cell.add(mx.rnn.LSTMCell(hidden, prefix="lstm_"))
    outputs, _ = cell.unroll(steps, inputs=embed, layout="NTC", merge_outputs=True)
    scores = mx.sym.FullyConnected(
        mx.sym.reshape(outputs, (-1, hidden)), num_hidden=questions, name="scores"
    )
    score = mx.sym.pick(scores, mx.sym.reshape(asked, (-1,)), axis=1)
    p = mx.sym.sigmoid(score)
    y = mx.sym.reshape(right, (-1,))
    mask = y >= 0
    loss = -(y * mx.sym.log(p + 1e-8) + (1 - y) * mx.sym.log(1 - p + 1e-8)) * mask
    loss = mx.sym.broadcast_div(mx.sym.sum(loss), mx.sym.sum(mask) + 1e-8)
    return mx.sym.Group([mx.sym.MakeLoss(loss, name="loss"), mx.sym.BlockGrad(p, name="p")])


def main():
    rng, n, t, q = np.random.RandomState(50), 8, 6, 5
    asked, right = rng.randint(0, q, (n, t)), rng.randint(0, 2, (n, t))
    right[rng.uniform(size=(n, t)) < 0.2] = -1
    data = np.where(right < 0, 2 * q, asked + q * right)
    batches = mx.io.NDArrayIter(
        {"data": data}, {"asked": asked, "right": right}, n, label_name=None
    )
    mod = mx.mod.Module(symbol(q, t, 8), data_names=["data"], label_names=["asked", "right"])
    mod.bind(batches.provide_data, batches.provide_label)
    start(mod, 51)
    mod.init_optimizer(
        optimizer="adam",
        optimizer_params={"learning_rate": 0.02, "clip_gradient": 1.0, "rescale_grad": 1},
    )
    losses = []
    for _ in range(20):
        batches.reset()
        for batch in batches:
            mod.forward(batch, is_train=True)
            losses.append(mod.get_outputs()[0].asnumpy().sum())
            mod.backward()
            mod.update()
    return losses


if __name__ == "__main__":
    print(json.dumps([float(n) for n in main()]))
