"""``torch.compile(model, backend="torchnp")``: the executor of exported programs runs the graphs of torch's compiler.

torch finds the backend through the entry point group ``torch_dynamo_backends``, so nothing has to be imported.

Examples
--------
>>> model = torch.compile(torch.nn.Linear(4, 2), backend="torchnp")
>>> model(torch.randn(3, 4)).sum().backward()
"""

from __future__ import annotations

from torchnp.compiler.aot import backend

__all__ = ["backend"]
