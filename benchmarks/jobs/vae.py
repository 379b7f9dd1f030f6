"""A variational autoencoder of digits, Gluon with the NumPy front end, hybridized."""

import mxnet as mx
import pace
from mxnet import autograd, gluon, np, npx
from mxnet.gluon import nn

npx.set_np()
mx.np.random.seed(0)
pictures, _ = pace.digits(800)
data = gluon.data.DataLoader(
    gluon.data.ArrayDataset(pictures.reshape(-1, 784)), batch_size=50, shuffle=False
)


class VAE(nn.HybridBlock):
    def __init__(self, hidden=200, latent=5, outputs=784):
        super().__init__()
        self.latent = latent
        self.mu = self.logvar = None
        self.encoder = nn.HybridSequential()
        self.encoder.add(nn.Dense(hidden, activation="relu"), nn.Dense(2 * latent))
        self.decoder = nn.HybridSequential()
        self.decoder.add(
            nn.Dense(hidden, activation="relu"), nn.Dense(outputs, activation="sigmoid")
        )

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = np.split(h, 2, axis=1)
        eps = np.random.normal(0, 1, size=mu.shape)
        z = mu + np.exp(0.5 * logvar) * eps
        y = self.decoder(z)
        kl = -0.5 * np.sum(1 + logvar - mu * mu - np.exp(logvar), axis=1)
        logloss = -np.sum(x * np.log(y + 1e-7) + (1 - x) * np.log(1 - y + 1e-7), axis=1)
        return kl + logloss, y


net = VAE()
net.initialize(pace.Drawn())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-3})
for epoch in range(8):
    total = 0.0
    for (batch,) in ((b,) if not isinstance(b, (list, tuple)) else b for b in data):
        x = np.minimum(batch, 1)
        with autograd.record():
            loss, _ = net(x)
        loss.backward()
        trainer.step(x.shape[0])
        total += float(loss.mean())
        pace.step()
    print(epoch, total / len(data))
z = np.random.normal(size=(10, 5))
made = net.decoder(z)
pace.end(loss=total / len(data), made=made.mean())
