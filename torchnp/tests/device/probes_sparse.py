"""Sparse tensors on the device ``np``, and sparse gradients: probes like those of probes.py."""

from __future__ import annotations

import copy
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn

from torchnp.tests.device.probes import D, run, same


def _moved(x, device):
    """Return a tensor of any layout on a device."""
    return x.detach().clone().to(device)


def _agree(function, *tensors):
    """Assert that a function gives the same values, layout and device for tensors on the device as on the CPU."""
    want = function(*[_moved(x, "cpu") for x in tensors])
    got = function(*[_moved(x, D) for x in tensors])
    for w, g in zip(*((x if isinstance(x, tuple) else (x,)) for x in (want, got)), strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert (g.layout, g.dtype, g.shape, g.device.type) == (w.layout, w.dtype, w.shape, D)
        if w.layout is torch.sparse_coo:
            assert g.is_coalesced() == w.is_coalesced()
        same(g.to_dense().cpu(), w.to_dense())


def _coo(seed=0):
    indices = torch.tensor([[0, 1, 1, 2, 1], [2, 0, 0, 3, 0]])
    generator = torch.Generator().manual_seed(seed)
    return torch.sparse_coo_tensor(indices, torch.randn(5, generator=generator), (3, 4))


# ---------------------------------------------------------------- gradients


def gradients_of_embeddings():
    weight, index, offsets = torch.randn(7, 3), torch.tensor([1, 1, 4, 6]), torch.tensor([0, 1, 3])

    def embedding(w, i):
        w.requires_grad_()
        F.embedding(i, w, sparse=True).square().sum().backward()
        return w.grad

    def padded(w, i):
        w.requires_grad_()
        F.embedding(i, w, padding_idx=1, scale_grad_by_freq=False, sparse=True).sum().backward()
        return w.grad

    _agree(embedding, weight, index)
    _agree(padded, weight, index)
    for mode in ("sum", "mean"):

        def bag(w, i, o, mode=mode):
            w.requires_grad_()
            F.embedding_bag(i, w, o, mode=mode, sparse=True).square().sum().backward()
            return w.grad

        _agree(bag, weight, index, offsets)


def gradients_of_gather():
    def gathered(x, i):
        x.requires_grad_()
        torch.gather(x, 1, i, sparse_grad=True).square().sum().backward()
        return x.grad

    _agree(gathered, torch.randn(3, 4), torch.tensor([[0, 0], [1, 3], [2, 1]]))


def sparse_gradients_add_up():
    def twice(w, i):
        w.requires_grad_()
        for _ in range(2):
            F.embedding(i, w, sparse=True).square().sum().backward()
        return w.grad.coalesce()

    _agree(twice, torch.randn(5, 2), torch.tensor([3, 1, 3]))

    def beside_dense(w, i):
        w.requires_grad_()
        (F.embedding(i, w, sparse=True).sum() + w.square().sum()).backward()
        return w.grad

    _agree(beside_dense, torch.randn(5, 2), torch.tensor([3, 1, 3]))


def optimizers_take_sparse_gradients():
    index = torch.tensor([1, 1, 4])
    for kind, options in (
        ("SparseAdam", {}),
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("Adagrad", {"lr": 0.1}),
    ):
        torch.manual_seed(0)
        here = nn.Embedding(5, 3, sparse=True)
        there = copy.deepcopy(here).to(D)
        for model, i in ((here, index), (there, index.to(D))):
            optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
            for _ in range(3):
                optimizer.zero_grad()
                model(i).square().sum().backward()
                optimizer.step()
        same(there.weight.cpu(), here.weight)


# ---------------------------------------------------------------- tensors


def made_and_moved():
    x = _coo()
    y = torch.sparse_coo_tensor(x._indices().to(D), x._values().to(D), x.shape)
    z = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), device=D)
    for made in (y, z, x.to(D), torch.sparse_coo_tensor((2, 3), device=D), torch.eye(3, device=D).to_sparse()):
        assert made.is_sparse and made.device.type == D and made._values().device.type == D
    assert "device='np:0'" in repr(y)
    assert x.to(D).cpu().device.type == "cpu" and not x.to(D).cpu().is_coalesced()
    for back in (copy.deepcopy(y), pickle.loads(pickle.dumps(y)), y.clone(), y.detach()):
        assert back.device.type == D
        same(back.to_dense().cpu(), x.to_dense())
    stream = io.BytesIO()
    torch.save(y, stream)
    stream.seek(0)
    same(torch.load(stream).to_dense().cpu(), x.to_dense())


def computed_with():
    x, dense = _coo(), torch.randn(3, 4)
    _agree(lambda s: s.coalesce(), x)
    _agree(lambda s: (s.coalesce().indices(), s.coalesce().values(), s._nnz(), s.sparse_dim(), s.dense_dim()), x)
    _agree(lambda s: s.to_dense(), x)
    _agree(lambda s, t: (s + t, s * 2, -s, s.t(), s.double(), torch.zeros_like(s)), x, _coo(1))
    _agree(lambda s: (torch.sparse.sum(s), torch.sparse.sum(s, 0), s.norm(), s.coalesce().pow(2)), x)
    _agree(lambda s, d: (torch.sparse.mm(s, d.t()), s @ d.t(), d + s, d * s.coalesce()), x, dense)
    _agree(lambda s, d: (d.sparse_mask(s.coalesce()), d.to_sparse(), d.to_sparse(1)), x, dense)
    _agree(lambda s: s.coalesce().index_select(0, torch.tensor([2, 1], device=s.device)), x)
    _agree(lambda s: torch.cat([s, s], 1), x)
    _agree(lambda s: torch.sparse.softmax(s.coalesce(), 1), x)


def written_in_place():
    x, dense = _coo(), torch.randn(3, 4)
    for write in (
        lambda s, d: s.zero_(),
        lambda s, d: s.mul_(3),
        lambda s, d: s.add_(s.clone()),
        lambda s, d: s.copy_(d.to_sparse()),
        lambda s, d: d.add_(s, alpha=-2),
        lambda s, d: s.sparse_resize_((5, 6), 2, 0),
        lambda s, d: s.neg_(),
    ):

        def written(s, d, write=write):
            result = write(s, d)
            assert result is s or result is d
            return s, d

        _agree(written, x, dense)
    s = x.to(D)
    version = s._version
    s.mul_(2)
    assert s._version == version + 1


def gradients_through_sparse_products():
    def product(s, d):
        s, d = s.coalesce().requires_grad_(), d.requires_grad_()
        torch.sparse.mm(s, d).square().sum().backward()
        return s.grad, d.grad

    _agree(product, _coo(), torch.randn(4, 2))


def compressed_layouts():
    dense = torch.randn(4, 4).relu()
    _agree(
        lambda d: (d.to_sparse_csr(), d.to_sparse_csc(), d.to_sparse_bsr((2, 2)), d.to_sparse_csr().to_dense()), dense
    )
    _agree(lambda d: (d.to_sparse_csr() @ d, d.to_sparse_csr().crow_indices(), d.to_sparse_csr().values()), dense)


if __name__ == "__main__":
    run(globals())
