"""The test error of the network of `crates/foldback/examples/autoencoder.rs` in PyTorch, for several seeds.

Run:     python tests/golden/make_autoencoder.py
Needs:   PyTorch 2.15.0 on the CPU, and crates/foldback/examples/data/digits.csv.gz
Prints:  a line for each seed; what the example prints beside its own result is their mean
"""

import torch
from torch import nn

from make_digits import load, split

EPOCHS, BATCH, RATE, NUMBERS = 60, 64, 3e-3, 8


def error(seed, pixels, digits):
    torch.manual_seed(seed)
    train, test = split(digits)
    x = pixels.reshape(-1, 64).float() / 16
    model = nn.Sequential(
        nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, NUMBERS), nn.Linear(NUMBERS, 96), nn.ReLU(), nn.Linear(96, 64), nn.Sigmoid()
    )
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for rows in torch.tensor(train)[torch.randperm(len(train))].split(BATCH):
            adam.zero_grad()
            nn.functional.mse_loss(model(x[rows]), x[rows]).backward()
            adam.step()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x[test]), x[test]).item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    pixels, digits = load()
    found = [error(seed, pixels, digits) for seed in range(5)]
    for seed, e in enumerate(found):
        print(f"seed {seed}: {e:.5f}")
    print(f"mean: {sum(found) / len(found):.5f}")
