"""A DCGAN on small pictures: two networks, two trainers, imperative Gluon of MXNet 1."""

import mxnet as mx
import numpy
import pace
from mxnet import autograd, gluon, nd
from mxnet.gluon import nn

mx.random.seed(0)
batch, latent, ctx = 16, 16, mx.cpu()
pictures, _ = pace.digits(batch * 12, side=16)
train = mx.io.NDArrayIter(data=pictures * 2 - 1, batch_size=batch)

generator = nn.Sequential()
with generator.name_scope():
    generator.add(
        nn.Conv2DTranspose(32, 4, 1, 0, use_bias=False), nn.BatchNorm(), nn.Activation("relu")
    )
    generator.add(
        nn.Conv2DTranspose(16, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu")
    )
    generator.add(nn.Conv2DTranspose(1, 4, 2, 1, use_bias=False), nn.Activation("tanh"))
critic = nn.Sequential()
with critic.name_scope():
    critic.add(nn.Conv2D(16, 4, 2, 1, use_bias=False), nn.LeakyReLU(0.2))
    critic.add(nn.Conv2D(32, 4, 2, 1, use_bias=False), nn.BatchNorm(), nn.LeakyReLU(0.2))
    critic.add(nn.Dense(1))
generator.initialize(pace.Drawn(0.5), ctx=ctx)
critic.initialize(pace.Drawn(0.5), ctx=ctx)
loss_of = gluon.loss.SigmoidBinaryCrossEntropyLoss()
options = {"learning_rate": 0.002, "beta1": 0.5}
trainer_g = gluon.Trainer(generator.collect_params(), "adam", options)
trainer_d = gluon.Trainer(critic.collect_params(), "adam", options)
real_label = nd.ones((batch,), ctx=ctx)
fake_label = nd.zeros((batch,), ctx=ctx)


def facc(label, pred):
    pred = pred.ravel()
    label = label.ravel()
    return ((pred > 0.5) == label).mean()


metric = mx.metric.CustomMetric(facc)
rng = numpy.random.RandomState(0)
for epoch in range(4):
    train.reset()
    for b in train:
        data = b.data[0].as_in_context(ctx)
        noise = nd.array(rng.normal(0, 1, (batch, latent, 1, 1)), ctx=ctx)
        with autograd.record():
            output = critic(data).reshape((-1, 1))
            err_real = loss_of(output, real_label)
            metric.update([real_label], [output])
            fake = generator(noise)
            output = critic(fake.detach()).reshape((-1, 1))
            err_fake = loss_of(output, fake_label)
            err_d = err_real + err_fake
            err_d.backward()
            metric.update([fake_label], [output])
        trainer_d.step(batch)
        with autograd.record():
            fake = generator(noise)
            output = critic(fake).reshape((-1, 1))
            err_g = loss_of(output, real_label)
            err_g.backward()
        trainer_g.step(batch)
        pace.step()
    name, acc = metric.get()
    print(
        f"discriminator {nd.mean(err_d).asscalar():.4f} generator {nd.mean(err_g).asscalar():.4f} {acc:.3f}"
    )
    metric.reset()
fake = generator(nd.array(rng.normal(0, 1, (4, latent, 1, 1))))
grid = nd.concat(*[(f + 1) * 127.5 for f in fake], dim=2).astype("uint8").asnumpy()
pace.end(
    discriminator=nd.mean(err_d).asscalar(), generator=nd.mean(err_g).asscalar(), grid=grid.mean()
)
