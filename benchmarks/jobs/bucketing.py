"""A language model of unrolled cells in buckets of lengths: Symbol, BucketingModule, mx.rnn."""

import logging
import os
import random
import tempfile

import mxnet as mx
import numpy
import pace

logging.basicConfig(level=logging.INFO)
mx.random.seed(0)
numpy.random.seed(0)
random.seed(0)
words = "a man a plan a canal the ship sails over the sea and comes back home at last".split()
rng = numpy.random.RandomState(1)
sentences = [
    [words[(k + j) % len(words)] for j in range(rng.randint(3, 16))]
    for k in rng.randint(0, 16, 360)
]
coded, vocabulary = mx.rnn.encode_sentences(
    sentences, invalid_label=0, invalid_key="\n", start_label=1
)
buckets, batch = [6, 10, 16], 16
train = mx.rnn.BucketSentenceIter(coded[:280], batch, buckets=buckets, invalid_label=0)
val = mx.rnn.BucketSentenceIter(coded[280:], batch, buckets=buckets, invalid_label=0)
stack = mx.rnn.SequentialRNNCell()
for layer in range(2):
    stack.add(mx.rnn.LSTMCell(num_hidden=32, prefix=f"lstm_l{layer}_"))
size = len(vocabulary) + 1


def sym_gen(length):
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    embed = mx.sym.Embedding(data=data, input_dim=size, output_dim=16, name="embed")
    stack.reset()
    outputs, _ = stack.unroll(length, inputs=embed, merge_outputs=True)
    pred = mx.sym.Reshape(outputs, shape=(-1, 32))
    pred = mx.sym.FullyConnected(data=pred, num_hidden=size, name="pred")
    label = mx.sym.Reshape(label, shape=(-1,))
    pred = mx.sym.SoftmaxOutput(
        data=pred,
        label=label,
        name="softmax",
        use_ignore=True,
        ignore_label=0,
        normalization="valid",
    )
    return pred, ("data",), ("softmax_label",)


model = mx.mod.BucketingModule(
    sym_gen=sym_gen, default_bucket_key=train.default_bucket_key, context=mx.cpu()
)
with tempfile.TemporaryDirectory() as folder:
    prefix = os.path.join(folder, "lm")
    model.fit(
        train_data=train,
        eval_data=val,
        eval_metric=mx.metric.Perplexity(0),
        kvstore="device",
        optimizer="adam",
        optimizer_params={"learning_rate": 0.01},
        initializer=pace.Drawn(),
        num_epoch=4,
        batch_end_callback=[
            mx.callback.Speedometer(batch, 10, auto_reset=False),
            lambda p: pace.step(),
        ],
        eval_batch_end_callback=lambda p: pace.step(),
        epoch_end_callback=mx.rnn.do_rnn_checkpoint(stack, prefix, 2),
    )
    score = dict(model.score(val, mx.metric.Perplexity(0)))
    symbol, args, _ = mx.rnn.load_rnn_checkpoint(stack, prefix, 4)
pace.end(perplexity=score["perplexity"], arguments=len(args))
