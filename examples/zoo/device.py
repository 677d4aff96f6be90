"""A device: `model.to("np")`, and nothing else changes.

The other animals of this zoo get calls by way of a class or a block. A device gets them by the dispatcher, from tensors
that are of it. How the registration is done is in `torchnp/device/`, and docs/device.md walks through it.
"""

import torchnp.device  # noqa: F401  # isort: skip  # first of all

import torch


def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    images, labels = torch.randn(8, 1, 8, 8), torch.randint(3, (8,))
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    step = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        step.step()
        step.zero_grad()
        yield loss.item()


mine, torchs = list(train("np")), list(train("cpu"))
torch.testing.assert_close(torch.tensor(mine), torch.tensor(torchs), rtol=1e-5, atol=1e-6)
print("five losses on np as on the CPU:", *(f"{loss:.4f}" for loss in mine))
