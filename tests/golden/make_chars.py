"""What the example `chars` reaches in PyTorch: the same model, data, schedule and number of updates.

Run:     python tests/golden/make_chars.py [SEED ..]
Needs:   PyTorch 2.15.0 on the CPU, and crates/foldback/examples/data/plays.txt.gz
Prints:  bits per character on the test text for each seed, and their mean
"""

import gzip
import math
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DATA = pathlib.Path(__file__).resolve().parents[2] / "crates" / "foldback" / "examples" / "data" / "plays.txt.gz"
STEPS, BATCH, WIDTH, UPDATES, WARM_UP, RATE = 64, 32, 64, 700, 50, 4e-3


class Writer(nn.Module):
    def __init__(self, alphabet):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", norm_first=True, batch_first=True
        )
        self.characters = nn.Embedding(alphabet, WIDTH)
        self.places = nn.Parameter(torch.randn(STEPS, WIDTH))
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, alphabet)
        self.mask = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)

    def forward(self, ids):
        return self.head(self.encoder(self.characters(ids) + self.places, mask=self.mask, is_causal=True))


def cost(model, rows):
    return F.cross_entropy(model(rows[:, :STEPS]).flatten(0, 1), rows[:, 1:].flatten())


def run(seed):
    torch.manual_seed(seed)
    text = gzip.decompress(DATA.read_bytes()).decode()
    alphabet = sorted(set(text))
    ids = torch.tensor([alphabet.index(c) for c in text])
    cut = len(ids) * 9 // 10
    windows = ids[:cut].unfold(0, STEPS + 1, 1)
    model = Writer(len(alphabet))
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    clock = time.time()
    for update in range(UPDATES):
        down = 0.5 * (1.0 + math.cos(math.pi * update / UPDATES))
        adam.param_groups[0]["lr"] = RATE * min((update + 1) / WARM_UP, down)
        adam.zero_grad()
        loss = cost(model, windows[torch.randint(0, len(windows), (BATCH,))])
        loss.backward()
        adam.step()
    seconds = time.time() - clock
    with torch.no_grad():
        bits = cost(model, ids[cut:].unfold(0, STEPS + 1, STEPS)).item() / math.log(2)
    print(f"seed {seed}: {bits:.3f} bits per character, after {seconds:.1f} s of training", flush=True)
    return bits


if __name__ == "__main__":
    torch.set_num_threads(2)
    results = [run(int(seed)) for seed in sys.argv[1:] or range(3)]
    print(f"mean: {sum(results) / len(results):.3f}")
