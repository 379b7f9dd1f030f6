"""A variational autoencoder: a loss of one's own, with random numbers inside a hybridized block."""

from images import shapes

import mxjax as mx
from mxjax import autograd, gluon, np, npx
from mxjax.gluon import nn


class Autoencoder(gluon.HybridBlock):
    """Gives minus the evidence's lower bound, by picture."""

    def __init__(self, latent=8):
        super().__init__()
        self.latent = latent
        self.encoder = nn.HybridSequential()
        self.encoder.add(nn.Dense(128, activation="relu"), nn.Dense(2 * latent))
        self.decoder = nn.HybridSequential()
        self.decoder.add(nn.Dense(128, activation="relu"), nn.Dense(256))

    def forward(self, x):
        x = x.reshape(-1, 256)
        code = self.encoder(x)
        mean, log_variance = code[:, : self.latent], code[:, self.latent :]
        drawn = mean + np.exp(log_variance / 2) * np.random.normal(size=mean.shape)
        logits = self.decoder(drawn)
        error = (npx.relu(logits) - logits * x + np.log1p(np.exp(-np.abs(logits)))).sum(axis=1)
        divergence = 0.5 * (np.exp(log_variance) + mean**2 - 1 - log_variance).sum(axis=1)
        return error + divergence


def main():
    mx.random.seed(0)
    pictures, _ = shapes(1024)
    data = gluon.data.ArrayDataset((pictures > 0.6).astype("float32"))
    net = Autoencoder()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 2e-3})
    means = []
    for epoch in range(12):
        total = 0.0
        for x in gluon.data.DataLoader(data, 64, shuffle=True):
            with autograd.record():
                loss = net(x)
            loss.backward()
            trainer.step(len(x))
            total += loss.sum().item()
        means.append(total / len(data))
        print(f"epoch {epoch}: {means[-1]:.1f} nats")
    picture = npx.sigmoid(net.decoder(np.random.normal(size=(1, 8)))).reshape(16, 16)
    print("\n".join("".join(" .:*#"[int(4.99 * v)] for v in row) for row in picture.tolist()))
    assert means[-1] < 0.75 * means[0]


if __name__ == "__main__":
    main()
