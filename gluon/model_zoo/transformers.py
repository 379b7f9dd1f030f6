"""Encoders of pictures (ViT) and of texts (BERT), with the names that PyTorch's libraries have for their weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as onp

from mxjax import errors, np, npx

from .. import nn
from ..hybrid_block import HybridBlock
from ..interop import interchange
from ..layer import Layer
from ..parameter import Parameter
from ._network import takes_ctx, variant
from .model_store import load_pretrained

__all__ = [
    "BERT",
    "EncoderLayer",
    "ViT",
    "bert_base",
    "bert_large",
    "vit_b_16",
    "vit_b_32",
    "vit_l_16",
]


class EncoderLayer(HybridBlock):
    """Attention among the tokens of each sequence and two dense layers, both beside a shortcut.

    Inputs: tokens (N, T, units), and optionally what is added to the scores, broadcast to (N, heads, T, T). Output:
    tokens of the same shape.

    Args:
      units: the length of a token.
      heads: how many attentions there are beside each other; divides `units`.
      hidden: units of the first dense layer.
      before: whether normalization comes before attention and dense layers (ViT), or after their shortcuts (BERT).
      epsilon: of the normalizations.
      dropout: the share that is dropped of what the shortcuts are added to.

    >>> import mxjax as mx
    >>> layer = EncoderLayer(8, heads=2, hidden=16)
    >>> layer.initialize()
    >>> layer(mx.np.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self,
        units: int,
        heads: int,
        hidden: int,
        before: bool = True,
        epsilon: float = 1e-6,
        dropout: float = 0.0,
    ):
        super().__init__()
        if units % heads:
            raise errors.MXNetValueError(f"units={units} is no multiple of heads={heads}")
        self._heads, self._before = heads, before
        self.query, self.key, self.value, self.project = (
            nn.Dense(units, flatten=False, in_units=units) for _ in range(4)
        )
        self.norm1, self.norm2 = (
            nn.LayerNorm(epsilon=epsilon, in_channels=units) for _ in range(2)
        )
        self.fc1 = nn.Dense(hidden, flatten=False, in_units=units)
        self.fc2 = nn.Dense(units, flatten=False, in_units=hidden)
        self.gelu = nn.GELU()
        self.drop = nn.Dropout(dropout)

    def _split(self, x: Any) -> Any:
        return npx.reshape(x, (-2, -2, self._heads, -1)).transpose(0, 2, 1, 3)

    def attention(self, x: Any, mask: Any = None) -> Any:
        """What the tokens read of each other, (N, T, units)."""
        query, key, value = (
            self._split(self.query(x)),
            self._split(self.key(x)),
            self._split(self.value(x)),
        )
        scores = (
            np.matmul(query, key.transpose(0, 1, 3, 2)) / (self.query._units // self._heads) ** 0.5
        )
        weights = npx.softmax(scores if mask is None else scores + mask, axis=-1)
        read = np.matmul(weights, value).transpose(0, 2, 1, 3)
        return self.project(npx.reshape(read, (-2, -2, -1)))

    def dense(self, x: Any) -> Any:
        """The two dense layers on each token."""
        return self.fc2(self.gelu(self.fc1(x)))

    def forward(self, x: Any, mask: Any = None) -> Any:
        if self._before:
            x = x + self.drop(self.attention(self.norm1(x), mask))
            return x + self.drop(self.dense(self.norm2(x)))
        x = self.norm1(x + self.drop(self.attention(x, mask)))
        return self.norm2(x + self.drop(self.dense(x)))


class _Encoder(HybridBlock):
    """What both have: layers, and names of other libraries."""

    _rules: Sequence[tuple[str, str]] = ()
    _left_out = re.compile(r"(?!)")
    _epsilon: float | None = None

    def load_torch(
        self,
        state: Mapping[str, Any],
        device: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
    ) -> Any:
        """Take the weights of a ``state_dict`` of PyTorch: of Hugging Face's transformers, torchvision or timm.

        Args:
          state: arrays or tensors by name; a checkpoint's prefix (``vit.``, ``bert.``) may stand before them.
          device: where the parameters go.
          allow_missing: whether arrays may be missing: the pooler of a BERT that was trained for words alone.
          ignore_extra: whether there may be arrays that the network has not.

        Returns:
          Block: the network itself.

        Raises:
          AssertionError: arrays are missing, left over or of another shape; nothing is changed then.
          ValueError: they are those of another network whose arrays have the same names.
        """
        self._check_kind(state)
        arrays = self._renamed(state)
        loaded = interchange.from_torch_state_dict(
            self, arrays, None, device, allow_missing, ignore_extra
        )
        epsilon = self._trained_with(state)
        if epsilon is not None and self._epsilon is None:
            self._normalize_with(epsilon)
        return loaded

    def _normalize_with(self, epsilon: float) -> None:
        def change(block: Any) -> None:
            if isinstance(block, nn.LayerNorm):
                block._set_epsilon(epsilon)
            block._clear_cached_op()  # what was recorded has the other one

        self.apply(change)

    def _check_kind(self, state: Mapping[str, Any]) -> None:
        """Refuse what only looks like weights of this network."""

    def _trained_with(self, state: Mapping[str, Any]) -> float | None:
        """The epsilon of the normalizations that these weights were trained with, where it is not the usual one."""
        return None

    def _renamed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays under this network's names; the products of one array for query, key and value are three."""
        found: dict[str, Any] = {}
        for name, a in state.items():
            if self._left_out.search(name):
                continue
            for pattern, ours in self._rules:
                name = re.sub(pattern, ours, name)
            if ".qkv." not in name:
                found[name] = a
                continue
            for one, part in zip(
                ("query", "key", "value"), onp.split(interchange._host(a), 3), strict=True
            ):
                found[name.replace("qkv", one)] = part
        return found


_OF_LAYERS = [
    (r"^encoder\.layers?\.(?:encoder_layer_)?(\d+)\.", r"layers.\1."),
    (r"^blocks\.(\d+)\.", r"layers.\1."),
    (r"\.(?:attention\.attention|attention\.self)\.(query|key|value)\.", r".\1."),
    (r"\.attention\.q_proj\.", ".query."),
    (r"\.attention\.k_proj\.", ".key."),
    (r"\.attention\.v_proj\.", ".value."),
    (r"\.attention\.output\.LayerNorm\.", ".norm1."),
    (
        r"\.(?:attention\.output\.dense|attention\.o_proj|self_attention\.out_proj|attn\.proj)\.",
        ".project.",
    ),
    (r"\.self_attention\.in_proj_", ".qkv."),
    (r"\.attn\.qkv\.", ".qkv."),
    (r"\.(?:layernorm_before|ln_1)\.", ".norm1."),
    (r"\.(?:layernorm_after|ln_2|output\.LayerNorm)\.", ".norm2."),
    (r"\.(?:intermediate\.dense|mlp\.fc1|mlp\.0|mlp\.linear_1)\.", ".fc1."),
    (r"^(layers\.\d+)\.(?:output\.dense|mlp\.fc2|mlp\.3|mlp\.linear_2)\.", r"\1.fc2."),
]


class ViT(_Encoder, Layer):
    """A network of pictures as sequences of patches (https://arxiv.org/abs/2010.11929): (N, 3, H, W) gives scores.

    Args:
      image_size, patch_size: sides of the pictures and of the patches; the latter divides the former.
      units: the length of a token.
      layers, heads: how many layers there are, and attentions in each.
      hidden: units of the dense layers inside.
      classes: the number of classes.
      epsilon: of the normalizations; 1e-6 if it is left out, as torchvision and timm have it, and 1e-12 once
        `load_torch` took weights with Hugging Face's names, which were trained with that.
      dropout: the share that is dropped after attention and dense layers.

    Raises:
      ValueError: the patches do not fill the picture.

    >>> import mxjax as mx
    >>> net = ViT(image_size=8, patch_size=4, units=8, layers=1, heads=2, hidden=16, classes=3)
    >>> net.initialize()
    >>> net(mx.np.ones((2, 3, 8, 8))).shape
    (2, 3)
    """

    _rules = (
        (r"^(?:module|model|vit)\.", ""),
        (
            r"^embeddings\.patch_embeddings\.projection\.|^conv_proj\.|^patch_embed\.proj\.",
            "patches.",
        ),
        (r"^embeddings\.cls_token$|^class_token$", "cls_token"),
        (r"^embeddings\.position_embeddings$|^encoder\.pos_embedding$|^pos_embed$", "positions"),
        *_OF_LAYERS,
        (r"^layernorm\.|^encoder\.ln\.", "norm."),
        (r"^classifier\.|^heads\.head\.|^head\.", "output."),
    )
    _left_out = re.compile(r"\bpooler\.")

    def _trained_with(self, state: Mapping[str, Any]) -> float | None:
        return 1e-12 if any("embeddings.patch_embeddings." in name for name in state) else None

    def __init__(
        self, image_size: int = 224, patch_size: int = 16, units: int = 768, layers: int = 12, heads: int = 12,
        hidden: int = 3072, classes: int = 1000, epsilon: float | None = None, dropout: float = 0.0,
    ):  # fmt: skip
        super().__init__()
        self._epsilon = epsilon
        epsilon = 1e-6 if epsilon is None else epsilon
        if image_size % patch_size:
            raise errors.MXNetValueError(
                f"patches of {patch_size} do not fill pictures of {image_size}"
            )
        count = (image_size // patch_size) ** 2
        self.patches = nn.Conv2D(units, patch_size, patch_size, in_channels=3)
        self.cls_token = Parameter("cls_token", shape=(1, 1, units), init="zeros")
        self.positions = Parameter("positions", shape=(1, count + 1, units), init="normal")
        self.layers = nn.HybridSequential()
        self.layers.add(
            *(EncoderLayer(units, heads, hidden, True, epsilon, dropout) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(epsilon=epsilon, in_channels=units)
        self.output = nn.Dense(classes, in_units=units)

    def features(self, x: Any) -> Any:
        """The tokens after the last layer, normalized, (N, 1 + patches, units); the first stands for the picture."""
        patches = npx.reshape(self.patches(x), (-2, -2, -1)).transpose(0, 2, 1)
        first = np.broadcast_to(self.cls_token.data(x.device), (x.shape[0], 1, patches.shape[2]))
        tokens = np.concatenate([first, patches], axis=1) + self.positions.data(x.device)
        return self.norm(self.layers(tokens))

    def forward(self, x: Any) -> Any:
        return self.output(self.features(x)[:, 0])


class BERT(_Encoder):
    """A network of texts (https://arxiv.org/abs/1810.04805): numbers of words give tokens, and one for the text.

    Inputs: words (N, T), integers; optionally kinds (N, T), 0 or 1 for the first and the second text, and lengths (N,),
    how many words count. Outputs: tokens (N, T, units), and (N, units).

    Args:
      words: how many words there are.
      units: the length of a token.
      layers, heads: how many layers there are, and attentions in each.
      hidden: units of the dense layers inside.
      length: the most words of a text.
      kinds: how many kinds of texts there are.
      epsilon: of the normalizations.
      dropout: the share that is dropped after embeddings, attention and dense layers.

    >>> import mxjax as mx
    >>> net = BERT(words=20, units=8, layers=1, heads=2, hidden=16, length=6)
    >>> net.initialize()
    >>> [y.shape for y in net(mx.np.array([[1, 2, 3]], dtype="int32"))]
    [(1, 3, 8), (1, 8)]
    """

    _rules = (
        (r"^(?:module|model|bert)\.", ""),
        (r"LayerNorm\.gamma$", "LayerNorm.weight"),
        (r"LayerNorm\.beta$", "LayerNorm.bias"),
        (r"^embeddings\.word_embeddings\.", "words."),
        (r"^embeddings\.position_embeddings\.", "positions."),
        (r"^embeddings\.token_type_embeddings\.", "kinds."),
        (r"^embeddings\.LayerNorm\.", "norm."),
        *_OF_LAYERS,
        (r"^pooler\.dense\.", "pooler."),
    )
    _left_out = re.compile(r"^cls\.|^classifier\.|position_ids$")

    def _check_kind(self, state: Mapping[str, Any]) -> None:
        for name, a in state.items():
            if name.endswith("embeddings.token_type_embeddings.weight") and onp.shape(a)[0] == 1:
                raise errors.MXNetValueError(
                    f"{name} knows one kind of texts: these are weights of RoBERTa or one of its kin, whose positions "
                    "begin at 2, which is another network than BERT"
                )

    def __init__(
        self, words: int = 30522, units: int = 768, layers: int = 12, heads: int = 12, hidden: int = 3072,
        length: int = 512, kinds: int = 2, epsilon: float = 1e-12, dropout: float = 0.1,
    ):  # fmt: skip
        super().__init__()
        self.words, self.positions, self.kinds = (
            nn.Embedding(n, units) for n in (words, length, kinds)
        )
        self.norm = nn.LayerNorm(epsilon=epsilon, in_channels=units)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.HybridSequential()
        self.layers.add(
            *(EncoderLayer(units, heads, hidden, False, epsilon, dropout) for _ in range(layers))
        )
        self.pooler = nn.Dense(units, activation="tanh", in_units=units)

    def forward(self, words: Any, kinds: Any = None, lengths: Any = None) -> Any:
        places = np.arange(words.shape[1], dtype="int32", device=words.device)
        x = (
            self.words(words)
            + self.positions(places)
            + self.kinds(np.zeros_like(words) if kinds is None else kinds)
        )
        x = self.drop(self.norm(x))
        mask = None
        if lengths is not None:
            left_out = np.expand_dims(places, 0) >= np.expand_dims(lengths, 1)
            mask = left_out[:, None, None, :].astype(x.dtype) * -1e9
        for layer in self.layers:
            x = layer(x, mask)
        return x, self.pooler(x[:, 0])


_TOLD = (
    "kwargs: arguments of the class that differ.",
    "HybridBlock: the network, a `ViT` or a `BERT`.",
)
_LARGE = {"units": 1024, "layers": 24, "heads": 16, "hidden": 4096}


@takes_ctx
def _network(
    kind: Any,
    name: str,
    pretrained: bool | str = False,
    device: Any = None,
    root: str | None = None,
    **kwargs: Any,
) -> Any:
    """A network of this kind, with weights from a path, `owner/name` or `hf://owner/name/file` (MXNet has none)."""
    return load_pretrained(kind(**kwargs), pretrained, name, root, device)


vit_b_16 = variant(
    "vit_b_16", _network, "ViT-B/16, for images of 224", ViT, "vit_b_16", told=_TOLD, patch_size=16
)
vit_b_32 = variant(
    "vit_b_32", _network, "ViT-B/32, for images of 224", ViT, "vit_b_32", told=_TOLD, patch_size=32
)
vit_l_16 = variant(
    "vit_l_16",
    _network,
    "ViT-L/16, for images of 224",
    ViT,
    "vit_l_16",
    told=_TOLD,
    patch_size=16,
    **_LARGE,
)
bert_base = variant("bert_base", _network, "BERT of 12 layers", BERT, "bert_base", told=_TOLD)
bert_large = variant(
    "bert_large", _network, "BERT of 24 layers", BERT, "bert_large", told=_TOLD, **_LARGE
)
