"""Records what MXNet's contrib.text gives: `python text_embedding.py ../data/text_embedding.json`, with mxnet."""

import json
import os
import sys
import tempfile
import warnings
from collections import Counter

#: Files of vectors: a header, an unknown token, one that comes twice, other delimiters.
FILES = {
    "plain": "a 0.1 -2 3e-3\nb 4 5 6\nB 7 8 9\n",
    "header": "2 3\na 0.1 0.2 0.3\n<unk> 9 8 7\na 1 1 1\n<unk> 1 1 1\nb 4 5 6 \n",
    "tabs": "a\t1\t2\nzwei w\u00f6rter\t3\t4\n",
    "other": "a 1 2\nc 3 4\n",
}
COUNTS = {"c": 3, "b": 3, "a": 2, "some_word$": 1, "d": 5, "<pad>": 9}
#: Arguments of vocabularies.
VOCABULARIES = [
    {}, {"min_freq": 3}, {"most_freq_count": 2}, {"most_freq_count": 0}, {"most_freq_count": 99},
    {"unknown_token": "<none>", "reserved_tokens": ["<pad>", "x"]}, {"unknown_token": "d", "most_freq_count": 3},
    {"reserved_tokens": [], "min_freq": 2, "most_freq_count": 3}, {"reserved_tokens": ["d"], "most_freq_count": 1},
]  # fmt: skip
WRONG = [
    {"min_freq": 0},
    {"reserved_tokens": ["<unk>"]},
    {"reserved_tokens": ["a", "a"]},
    {"counter": {"a": 1}},
]
TEXTS = [
    ["a b  b\nc A\n", {}], ["a b  b\nc A\n", {"to_lower": True}], ["*a*b*\n*b*", {"token_delim": r"\*"}],
    ["a<td>b<sd>b", {"token_delim": "<td>", "seq_delim": "<sd>"}],
]  # fmt: skip


def attempt(function):
    try:
        return function()
    except Exception as error:
        return error


def table(embedding):
    return [embedding.idx_to_token, embedding.idx_to_vec.asnumpy().tolist(), embedding.vec_len]


def record(mx):
    text, array = mx.contrib.text, (mx.np.array if mx.util.is_np_array() else mx.nd.array)
    found = {
        "counts": [sorted(text.utils.count_tokens_from_str(t, **more).items()) for t, more in TEXTS]
    }
    found["counts"].append(
        sorted(text.utils.count_tokens_from_str("a b", counter_to_update=Counter("ac")).items())
    )
    vocabularies = [text.vocab.Vocabulary(Counter(COUNTS), **more) for more in VOCABULARIES]
    found["vocabularies"] = [
        [v.idx_to_token, sorted(v.token_to_idx.items()), v.unknown_token, v.reserved_tokens, len(v)]
        for v in vocabularies
    ]
    v = vocabularies[0]
    found["indices"] = [
        v.to_indices("d"),
        v.to_indices(["d", "nothing", "a"]),
        v.to_tokens(1),
        v.to_tokens([0, 2]),
    ]
    found["wrong"] = [
        attempt(lambda more=more: text.vocab.Vocabulary(**{"counter": Counter("ab"), **more}))
        for more in WRONG
    ]
    found["wrong"] += [attempt(lambda i=i: v.to_tokens(i)) for i in (99, [0, 99], "a", 1.5)]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, content in FILES.items():
            with open(os.path.join(folder, name), "w", encoding="utf8") as file:
                file.write(content)

        def custom(name, **more):
            return text.embedding.CustomEmbedding(os.path.join(folder, name), **more)

        plain, header = custom("plain"), custom("header", init_unknown_vec=mx.nd.ones)
        found["tables"] = [table(plain), table(header), table(custom("tabs", elem_delim="\t"))]
        found["tables"].append(table(custom("plain", init_unknown_vec=mx.nd.ones)))
        found["tables"].append(table(custom("plain", vocabulary=v, unknown_token="<none>")))
        both = text.embedding.CompositeEmbedding(vocabularies[5], [plain, custom("other")])
        found["tables"] += [table(both), table(text.embedding.CompositeEmbedding(v, header))]
        found["special"] = [both.unknown_token, both.reserved_tokens]
        found["vectors"] = [
            plain.get_vecs_by_tokens(asked, **more).asnumpy().tolist()
            for asked, more in [
                *(("b", {}), (["b"], {}), (["B", "A", "b"], {}), ("nothing", {})),
                (["B", "A"], {"lower_case_backup": True}),
            ]
        ]
        plain.update_token_vectors(["a", "<unk>"], array([[1, 2, 3], [4, 5, 6]]))
        plain.update_token_vectors("b", array([7, 7, 7]))
        plain.update_token_vectors(["B"], array([[8, 8, 8]]))
        found["tables"].append(table(plain))
        found["wrong"] += [
            attempt(lambda t=t, v=v: plain.update_token_vectors(t, array(v)))
            for t, v in [
                ("none", [1, 2, 3]),
                ("a", [1, 2]),
                (["a", "b"], [1, 2, 3]),
                (["a"], [[1, 2, 3]] * 2),
            ]
        ]
        for content in ("a 1 2\nb\n", "a 1 2\nb 1 2 3\n", "a 1 x\n"):
            with open(os.path.join(folder, "wrong"), "w") as file:
                file.write(content)
            found["wrong"].append(attempt(lambda: custom("wrong")))
        found["wrong"] += [attempt(lambda: custom("absent"))]
    found["wrong"] += [
        attempt(lambda: text.embedding.create("glove", pretrained_file_name="no such file")),
        attempt(lambda: text.embedding.get_pretrained_file_names("no such kind")),
        attempt(lambda: text.embedding.CompositeEmbedding(v, "no embedding")),
    ]
    names = text.embedding.get_pretrained_file_names()
    found["names"] = {kind: [len(each), each[0], each[-1]] for kind, each in names.items()}
    urls = [("GloVe", "glove.6B.50d.txt"), ("FastText", "wiki.zh_yue.vec")]
    found["archives"] = [
        getattr(text.embedding, kind)._get_download_file_name(name) for kind, name in urls
    ]
    return found


if __name__ == "__main__":
    import mxnet

    with open(sys.argv[1], "w") as file:
        json.dump(record(mxnet), file, indent=1, default=lambda error: type(error).__name__)
        file.write("\n")
