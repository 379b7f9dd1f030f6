"""Records tests/data/torch_transformers.npz: small encoders of PyTorch's libraries, with random weights.

Runs where torch, torchvision, timm and transformers are installed: python tests/record/torch_transformers.py FILE
"""

import sys

import numpy as np
import timm
import torch
from torchvision.models import VisionTransformer
from transformers import BertConfig, BertModel, ViTConfig, ViTForImageClassification

SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
}


def networks():
    yield (
        "hugging_face_vit",
        ViTForImageClassification(ViTConfig(**SIZES, image_size=8, patch_size=4, num_labels=3)),
    )
    yield "torchvision_vit", VisionTransformer(8, 4, 2, 2, 8, 12, num_classes=3)
    yield "timm_vit", timm.models.VisionTransformer(8, 4, 3, 3, "token", 8, 2, 2, 1.5)
    yield (
        "hugging_face_bert",
        BertModel(BertConfig(**SIZES, vocab_size=20, max_position_embeddings=6)),
    )


def main(path):
    torch.manual_seed(0)
    pictures = torch.randn(2, 3, 8, 8)
    words = torch.randint(0, 20, (2, 5))
    kinds, lengths = torch.tensor([[0, 0, 1, 1, 1]] * 2), torch.tensor([5, 3])
    found = {"pictures": pictures, "words": words, "kinds": kinds, "lengths": lengths}
    for name, net in networks():
        net.eval()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.4)
            found.update({f"{name}/{k}": v for k, v in net.state_dict().items()})
            if name.endswith("bert"):
                mask = (torch.arange(5)[None] < lengths[:, None]).long()
                out = net(words, attention_mask=mask, token_type_ids=kinds)
                found[f"{name}:tokens"], found[f"{name}:text"] = (
                    out.last_hidden_state,
                    out.pooler_output,
                )
            else:
                out = net(pictures)
                found[f"{name}:scores"] = getattr(out, "logits", out)
    np.savez_compressed(path, **{k: v.numpy() for k, v in found.items()})


if __name__ == "__main__":
    main(sys.argv[1])
