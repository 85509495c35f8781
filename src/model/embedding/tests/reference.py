"""Writes reference.json: vectors of all-MiniLM-L6-v2, computed from its weights in full precision with nothing but numpy.

python3 -m venv v && v/bin/pip install numpy safetensors tokenizers && v/bin/python reference.py FOLDER > reference.json
FOLDER holds model.safetensors and tokenizer.json, as `singularity model pull embedding` keeps them.
"""
import json
import math
import sys

import numpy
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXTS = [
    "I cannot log in",
    "Trouble with signing in or with a password",
    "Will it rain in Paris tomorrow?",
    "Rechnungen für alle — naïve café 東京 🙂",
    "a",
    "A door opens onto the garden, where the old gardener counts his pears, writes the number on the wall in chalk, and "
    "wonders aloud whether the frost of last spring took more from him than the starlings did in the whole of August.",
]


def erf(x):
    return numpy.vectorize(math.erf)(x)


class Model:
    def __init__(self, folder):
        self.w = {k: v.astype(numpy.float64) for k, v in load_file(f"{folder}/model.safetensors").items() if v.dtype.kind == "f"}
        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def linear(self, x, name):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * self.w[name + ".weight"] + self.w[name + ".bias"]

    def encode(self, text):
        ids = self.tokenizer.encode(text).ids
        e = "embeddings."
        x = self.w[e + "word_embeddings.weight"][ids] + self.w[e + "position_embeddings.weight"][: len(ids)]
        x = self.norm(x + self.w[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
        for n in range(6):
            at = f"encoder.layer.{n}."
            q, k, v = (self.linear(x, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
            heads = [slice(32 * h, 32 * h + 32) for h in range(12)]
            mixed = []
            for h in heads:
                s = q[:, h] @ k[:, h].T / math.sqrt(32)
                s = numpy.exp(s - s.max(-1, keepdims=True))
                mixed.append(s / s.sum(-1, keepdims=True) @ v[:, h])
            x = self.norm(x + self.linear(numpy.concatenate(mixed, -1), at + "attention.output.dense"), at + "attention.output.LayerNorm")
            hidden = self.linear(x, at + "intermediate.dense")
            hidden = hidden * 0.5 * (1 + erf(hidden / math.sqrt(2)))
            x = self.norm(x + self.linear(hidden, at + "output.dense"), at + "output.LayerNorm")
        pooled = x.mean(0)
        return ids, pooled / numpy.linalg.norm(pooled)


if __name__ == "__main__":
    model = Model(sys.argv[1])
    rows = []
    for text in TEXTS:
        ids, vector = model.encode(text)
        rows.append(json.dumps({"text": text, "ids": ids, "vector": [round(float(v), 5) for v in vector]}, ensure_ascii=False))
    print("[\n" + ",\n".join(rows) + "\n]")
