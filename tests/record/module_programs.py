"""Records programs of MXNet 1.x that train symbols: what they print, from parameters that NumPy draws.

Run with a Python that has Apache MXNet 1.9.1: ``python module_programs.py``. Writes ``../data/module_programs.json``:
``{"code": shared lines, "programs": {name: [program, what it gives]}}``.
"""

# ruff: noqa: E501  (programs as people write them)

import json
import logging
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

CODE = r"""
import logging, random
import numpy as np

def data(n=40, shape=(6,), classes=3, seed=0):
    rs = np.random.RandomState(seed)
    x = rs.randn(n, *shape).astype('float32')
    return x, (np.arange(n) % classes).astype('float32')

def mlp(hidden=8, classes=3):
    net = mx.sym.Variable('data')
    net = mx.sym.FullyConnected(net, num_hidden=hidden, name='fc1')
    net = mx.sym.Activation(net, act_type='tanh', name='tanh1')
    net = mx.sym.FullyConnected(net, num_hidden=classes, name='fc2')
    return mx.sym.SoftmaxOutput(net, name='softmax')

def drawn(mod, seed=3):
    rs = np.random.RandomState(seed)
    arg, aux = mod.get_params()
    mod.set_params({k: mx.nd.array(rs.randn(*v.shape) * .3) for k, v in sorted(arg.items())}, aux)

def sums(*params):
    return {k: float(v.asnumpy().astype('float64').sum()) for p in params for k, v in sorted(p.items())}

def steps(mod, it, count, metric='ce'):
    metric = mx.metric.create(metric)
    losses = []
    while len(losses) < count:
        it.reset()
        for batch in it:
            metric.reset()
            mod.forward_backward(batch)
            mod.update()
            mod.update_metric(metric, batch.label)
            losses.append(metric.get()[1])
    return losses[:count]
"""

PROGRAMS = {
    "convolutions and batch normalization": r"""
x, y = data(64, (1, 8, 8), 2)
net = mx.sym.Convolution(mx.sym.Variable('data'), kernel=(3, 3), num_filter=4, name='conv')
net = mx.sym.BatchNorm(net, name='bn', fix_gamma=False)
net = mx.sym.Pooling(mx.sym.Activation(net, act_type='relu'), kernel=(2, 2), stride=(2, 2), pool_type='max')
net = mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=2, name='fc')
it = mx.io.NDArrayIter(x, y, 16)
mod = mx.mod.Module(mx.sym.SoftmaxOutput(net, name='softmax'))
mod.bind(it.provide_data, it.provide_label)
mod.init_params(mx.init.Xavier())
drawn(mod)
mod.init_optimizer(optimizer='sgd', optimizer_params={'learning_rate': .1, 'momentum': .9, 'wd': 1e-2})
found = [steps(mod, it, 20), sums(*mod.get_params())]
""",
    "buckets": r"""
random.seed(1)
np.random.seed(1)
sentences = [list(np.random.randint(1, 12, size=np.random.choice([2, 4]))) for _ in range(40)]
it = mx.rnn.BucketSentenceIter(sentences, 8, buckets=[2, 4], invalid_label=0)
stack = mx.rnn.SequentialRNNCell()
stack.add(mx.rnn.LSTMCell(6, prefix='l0_'))
stack.add(mx.rnn.GRUCell(6, prefix='l1_'))

def make(length):
    embed = mx.sym.Embedding(mx.sym.Variable('data'), input_dim=12, output_dim=5, name='embed')
    stack.reset()
    out, _ = stack.unroll(length, inputs=embed, merge_outputs=True)
    pred = mx.sym.FullyConnected(mx.sym.Reshape(out, shape=(-1, 6)), num_hidden=12, name='pred')
    label = mx.sym.Reshape(mx.sym.Variable('softmax_label'), shape=(-1,))
    return mx.sym.SoftmaxOutput(pred, label, name='softmax'), ('data',), ('softmax_label',)

mod = mx.mod.BucketingModule(make, default_bucket_key=it.default_bucket_key)
mod.bind(it.provide_data, it.provide_label)
mod.init_params()
drawn(mod)
mod.init_optimizer(optimizer='adam', optimizer_params={'learning_rate': .02})
found = [steps(mod, it, 20, mx.metric.Perplexity(ignore_label=0)), sums(*mod.get_params())]
""",
    "fit, its callbacks and its reports": r"""
x, y = data(40)
it, ev = mx.io.NDArrayIter(x, y, 8), mx.io.NDArrayIter(x[:20], y[:20], 8)
seen, lines = [], []
class Keep(logging.Handler):
    def emit(self, record):
        text = record.getMessage()
        if 'Time cost' not in text:
            lines.append(text.split('samples/sec')[-1])
logger = logging.Logger('keep')
logger.addHandler(Keep())
mod = mx.mod.Module(mlp(), logger=logger)
rs = np.random.RandomState(1)
start = {'fc1_weight': rs.randn(8, 6) * .3, 'fc1_bias': rs.randn(8), 'fc2_weight': rs.randn(3, 8) * .3, 'fc2_bias': rs.randn(3)}
start = {k: mx.nd.array(v) for k, v in start.items()}
mod.fit(it, ev, eval_metric=['acc', 'ce'], num_epoch=3, begin_epoch=1, arg_params=start, aux_params={},
        optimizer_params={'learning_rate': .5},
        batch_end_callback=[lambda p: seen.append([p.epoch, p.nbatch, [v for _, v in p.eval_metric.get_name_value()]]),
                            mx.callback.Speedometer(8, 2)],
        epoch_end_callback=lambda epoch, sym, arg, aux: seen.append([epoch, sym.list_outputs(), sums(arg)]),
        eval_end_callback=lambda p: seen.append([p.epoch, p.nbatch, [v for _, v in p.eval_metric.get_name_value()]]),
        eval_batch_end_callback=lambda p: seen.append(['eval', p.nbatch]))
ev.reset()
found = [seen, lines, mod.score(ev, 'acc'), [o.shape for o in mod.predict(ev, merge_batches=False)[2]],
         mod.predict(ev).asnumpy().sum(1).tolist(), sums(*mod.get_params())]
""",
    "multipliers of attributes, fixed parameters, no decay of biases": r"""
x, y = data(32)
net = mx.sym.FullyConnected(mx.sym.Variable('data'), weight=mx.sym.Variable('one_weight', lr_mult=0.1), num_hidden=8, name='fc1')
net = mx.sym.FullyConnected(mx.sym.tanh(net), weight=mx.sym.Variable('fc2_weight', wd_mult=0.0), num_hidden=5, name='fc2')
net = mx.sym.FullyConnected(mx.sym.tanh(net), num_hidden=3, name='fc3')
it = mx.io.NDArrayIter(x, y, 8)
mod = mx.mod.Module(mx.sym.SoftmaxOutput(net, name='softmax'), fixed_param_names=['fc3_bias'])  # its bias: MXNet's oneDNN forgets that of a fixed weight
mod.bind(it.provide_data, it.provide_label)
mod.init_params()
drawn(mod)
mod.init_optimizer(optimizer_params=(('learning_rate', .3), ('wd', .2),
                                     ('lr_scheduler', mx.lr_scheduler.FactorScheduler(step=3, factor=0.5))))
found = [steps(mod, it, 8), sums(*mod.get_params())]
""",
    "two devices and a kvstore": r"""
found = []
for kv, on_store in (('local', '1'), ('device', '0')):
    x, y = data(24)
    it = mx.io.NDArrayIter(x, y, 8)
    mod = mx.mod.Module(mlp(), context=[mx.cpu(0), mx.cpu(1)], work_load_list=[1, 3])
    mod.bind(it.provide_data, it.provide_label)
    mod.init_params()
    drawn(mod)
    mod.init_optimizer(kvstore=kv, optimizer='sgd', optimizer_params={'learning_rate': .3, 'momentum': .5})
    found.append([steps(mod, it, 6), sums(*mod.get_params()), [o.shape for o in mod.get_outputs()],
                  [[o.shape for o in each] for each in mod.get_outputs(merge_multi_context=False)]])
""",
    "batches of other sizes": r"""
x, y = data(24)
it = mx.io.NDArrayIter(x, y, 8)
mod = mx.mod.Module(mlp())
mod.bind(it.provide_data, it.provide_label)
mod.init_params()
drawn(mod)
mod.init_optimizer(optimizer_params={'learning_rate': .3})
found = [mod.output_shapes]
for size in (8, 5, 8, 5):
    batch = mx.io.DataBatch([mx.nd.array(x[:size])], [mx.nd.array(y[:size])])
    mod.forward_backward(batch)
    mod.update()
    found.append([mod.get_outputs()[0].shape, mod.data_shapes[0].shape, float(mod.get_outputs()[0].asnumpy()[:, 0].sum())])
mod.reshape([('data', (3, 6))], [('softmax_label', (3,))])
mod.forward(mx.io.DataBatch([mx.nd.array(x[:3])], None), is_train=False)
found += [mod.get_outputs()[0].asnumpy().tolist(), sums(*mod.get_params())]
""",
    "gradients of inputs, given and added": r"""
x, y = data(4)
net = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=3, name='fc')
mod = mx.mod.Module(mx.sym.Group([net * 2, mx.sym.sum(net, axis=1)]), label_names=None)
mod.bind([('data', (4, 6))], for_training=True, inputs_need_grad=True, grad_req='add')
mod.init_params()
drawn(mod)
for _ in range(2):
    mod.forward(mx.io.DataBatch([mx.nd.array(x)]), is_train=True)
    mod.backward([mx.nd.ones((4, 3)) * .5, mx.nd.array([1, 2, 3, 4])])
found = [mod.get_input_grads()[0].asnumpy().tolist(), [o.asnumpy().tolist() for o in mod.get_outputs()], mod.output_names,
         [a[0].asnumpy().tolist() for a in mod._exec_group.grad_arrays]]
""",
    "a chain with a loss in Python": r"""
x, y = data(16)
body = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=5, name='fc1')
head = mx.sym.FullyConnected(mx.sym.Activation(mx.sym.Variable('hidden'), act_type='relu'), num_hidden=3, name='fc2')
chain = mx.mod.SequentialModule()
chain.add(mx.mod.Module(body, label_names=[]))
chain.add(mx.mod.Module(head, data_names=['hidden'], label_names=[]), auto_wiring=True)
chain.add(mx.mod.PythonLossModule(grad_func=lambda s, l: mx.nd.softmax(s) - mx.nd.one_hot(l, 3)), take_labels=True,
          auto_wiring=True)
it = mx.io.NDArrayIter(x, y, 8)
chain.bind(it.provide_data, it.provide_label)
chain.init_params()
drawn(chain)
chain.init_optimizer(optimizer_params={'learning_rate': .2})
found = []
for batch in list(it) * 3:
    chain.forward_backward(batch)
    chain.update()
    found.append(chain.get_outputs()[0].asnumpy().sum(1).tolist())
found += [chain.data_names, chain.output_names, [(n, tuple(s)) for n, s in chain.output_shapes], sums(*chain.get_params())]
""",
    "monitor": r"""
x, y = data(8)
mod = mx.mod.Module(mlp())
mod.bind([('data', (4, 6))], [('softmax_label', (4,))])
mod.init_params()
drawn(mod)
mod.init_optimizer(optimizer_params={'learning_rate': .2})
mon = mx.mon.Monitor(2, lambda a: mx.nd.sum(a), pattern='(fc|softmax).*(weight|bias|_output)$', sort=True)
mod.install_monitor(mon)
found = []
for k in range(3):
    mon.tic()
    mod.forward_backward(mx.io.DataBatch([mx.nd.array(x[:4])], [mx.nd.array(y[:4])]))
    mod.update()
    found.append([[n, name, float(text)] for n, name, text in mon.toc()])
""",
    "FeedForward": r"""
x, y = data(36)
rs = np.random.RandomState(1)
start = {'fc1_weight': rs.randn(8, 6) * .3, 'fc1_bias': rs.randn(8), 'fc2_weight': rs.randn(3, 8) * .3, 'fc2_bias': rs.randn(3)}
start = {k: mx.nd.array(v) for k, v in start.items()}
np.random.seed(2)
seen = []
model = mx.model.FeedForward(mlp(), num_epoch=3, numpy_batch_size=8, arg_params=start, aux_params={}, learning_rate=.2,
                             wd=.1)
model.fit(x, y, eval_data=(x[:9], y[:9]), batch_end_callback=lambda p: seen.append([p.epoch, p.nbatch, p.eval_metric.get()[1]]),
          eval_end_callback=lambda p: seen.append([p.epoch, p.nbatch]))
out, xs, ys = model.predict(mx.io.NDArrayIter(x, y, 8), return_data=True)
found = [seen, model.predict(x).tolist(), out.shape, xs.shape, ys.tolist(), model.score(mx.io.NDArrayIter(x, y, 6)),
         sums(model.arg_params)]
""",
    "variance-reduced gradients": r"""
import importlib
svrg = importlib.import_module(mx.__name__ + '.contrib.svrg_optimization.svrg_module')
x = data(20, (4,))[0]
it = mx.io.NDArrayIter(x, x @ np.array([1, -2, 3, .5], 'float32'), 5, label_name='lin_label')
net = mx.sym.FullyConnected(mx.sym.Variable('data'), num_hidden=1, name='fc')
mod = svrg.SVRGModule(mx.sym.LinearRegressionOutput(net, mx.sym.Variable('lin_label'), name='lin'), label_names=['lin_label'],
                      update_freq=2)
mod.fit(it, num_epoch=5, eval_metric='loss', arg_params={'fc_weight': mx.nd.ones((1, 4)), 'fc_bias': mx.nd.zeros((1,))},
        aux_params={}, optimizer_params={'learning_rate': .1})
found = [v.asnumpy().tolist() for k, v in sorted(mod.get_params()[0].items())]
mod.init_optimizer(kvstore=mx.kv.create('local'), optimizer='adam', force_init=True)
four = [mx.nd.array([[1, 2, 3, k]]) for k in range(4)]
mod._accumulate_kvstore('fc_weight', four)
found += [mod._param_dict[0]['fc_weight'].asnumpy().tolist(), [v.asnumpy().tolist() for v in four],
          [(type(o).__name__, sorted(o.idx2name.items())) for o in (mod._optimizer, mod._optimizer.default_opt)]]
mod.update_full_grads(it)
found += [v.asnumpy().tolist() for k, v in sorted(mod._param_dict[0].items())]
""",
    "cells": r"""
def run(cell, shape, layout='NTC', merge=True, steps=3):
    cell.reset()
    outs, states = cell.unroll(steps, mx.sym.Variable('data'), layout=layout, merge_outputs=merge)
    if not merge:
        outs = mx.sym.Concat(*outs, dim=1)
    flat = [s for state in states for s in (state if isinstance(state, list) else [state])]
    net = mx.sym.Group([outs] + flat)
    arg_shapes, out_shapes, _ = net.infer_shape(data=shape)
    rs = np.random.RandomState(0)
    names = net.list_arguments()
    values = {n: mx.nd.array(rs.randn(*s) * .4) for n, s in sorted(zip(names, arg_shapes))}
    exe = net.bind(mx.cpu(), values)
    made = [o.asnumpy() for o in exe.forward()]
    weights = {n: v for n, v in values.items() if n != 'data'}
    apart = cell.unpack_weights(weights)
    back = cell.pack_weights(apart)
    same = sorted(back) == sorted(weights) and all(np.allclose(back[n].asnumpy(), weights[n].asnumpy()) for n in back)
    return [sorted(names), [list(s) for s in out_shapes], [float((o * np.arange(1, o.size + 1).reshape(o.shape)).sum()) for o in made],
            sorted((n, list(v.shape), round(float(v.asnumpy().sum()), 4)) for n, v in apart.items()), same]

R = mx.rnn
both = R.BidirectionalCell(R.LSTMCell(4, 'l_'), R.GRUCell(4, 'r_'))
stack = R.SequentialRNNCell()
stack.add(R.RNNCell(4, 'relu', prefix='a_'))
stack.add(R.DropoutCell(.5))
stack.add(R.ResidualCell(R.GRUCell(4, prefix='b_')))
found = [
    run(R.RNNCell(4), (2, 3, 5)), run(R.LSTMCell(4), (2, 3, 5), merge=False), run(R.GRUCell(4), (3, 2, 5), 'TNC'),
    run(both, (2, 3, 5)), run(stack, (2, 3, 4)), run(stack, (2, 3, 4), merge=False),
    run(R.ZoneoutCell(R.LSTMCell(4, prefix='z_'), .2, .3), (2, 3, 5)),
    run(R.FusedRNNCell(4, 2, 'gru', get_next_state=True), (3, 2, 5), 'TNC'),
    run(R.FusedRNNCell(4, 2, 'lstm', bidirectional=True, get_next_state=True, prefix='f_'), (2, 3, 5)),
    run(R.FusedRNNCell(4, 1, 'rnn_tanh'), (3, 2, 5), 'TNC'),
    run(R.FusedRNNCell(4, 2, 'lstm', bidirectional=True, prefix='f_').unfuse(), (2, 3, 5)),
    run(R.ConvRNNCell((2, 3, 6, 6), 2), (2, 3, 3, 6, 6)), run(R.ConvLSTMCell((2, 3, 6, 6), 2), (2, 3, 3, 6, 6)),
    run(R.ConvGRUCell((2, 3, 6, 6), 2, activation='tanh'), (2, 3, 3, 6, 6)),
]
""",
    "sentences": r"""
random.seed(4)
np.random.seed(4)
coded, vocab = mx.rnn.encode_sentences([['a', 'b', 'c'], ['b', 'b'], ['c', 'a', 'd', 'e'], ['a', 'e']], start_label=1)
more, _ = mx.rnn.encode_sentences([['a', 'zz']], vocab=dict(vocab), unknown_token='a')
it = mx.rnn.BucketSentenceIter(coded * 3, 3, buckets=[2, 4], invalid_label=0, layout='TN')
found = [coded, sorted(vocab.items()), more, it.buckets, it.default_bucket_key, [(d.name, d.shape, d.layout) for d in it.provide_data],
         [[b.bucket_key, b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.provide_label[0].shape] for b in it]]
""",
}


def run(program, mx):
    scope = {"mx": mx}
    exec(CODE, scope)
    exec(program, scope)
    return scope["found"]


if __name__ == "__main__":
    import mxnet

    logging.disable(logging.NOTSET)
    found = {name: [program, run(program, mxnet)] for name, program in PROGRAMS.items()}
    path = Path(__file__).parents[1] / "data" / "module_programs.json"
    path.write_text(json.dumps({"code": CODE, "programs": found}, default=float) + "\n")
