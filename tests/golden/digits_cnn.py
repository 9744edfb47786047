"""The test accuracy of the network of `crates/foldback/examples/digits.rs` in PyTorch, for several seeds.

Run:     python tests/golden/digits_cnn.py
Needs:   PyTorch 2.15.0 on the CPU, and crates/foldback/examples/data/digits.csv.gz
Prints:  a line for each seed; what the example prints beside its own result is their mean
"""

import torch
from torch import nn

from make_digits import load, split

EPOCHS, BATCH, RATE = 20, 64, 4e-3


def accuracy(seed, pixels, digits):
    torch.manual_seed(seed)
    train, test = split(digits)
    x, y = pixels.reshape(-1, 1, 8, 8).float() / 16, digits
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(512, 10),
    )
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS)
    for _ in range(EPOCHS):
        for rows in torch.tensor(train)[torch.randperm(len(train))].split(BATCH):
            adam.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            adam.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        return (model(x[test]).argmax(1) == y[test]).float().mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)
    pixels, digits = load()
    found = [accuracy(seed, pixels, digits) for seed in range(5)]
    for seed, share in enumerate(found):
        print(f"seed {seed}: {share:.4f}")
    print(f"mean: {sum(found) / len(found):.4f}")
