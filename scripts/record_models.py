"""Record the calls that models make in ``opinfo_tests/data/models.jsonl``.

``python scripts/record_models.py`` builds the model classes of transformers and timm with tiny random configurations,
and the layers of torch.nn with the options of torch's module tests. It runs each model forward and backward, with a
step of an optimizer, and once more for inference. It records the signatures of the aten calls: shapes, strides, dtypes,
numbers, and the ranges of values. Weights and data are random, and nothing is downloaded.

The script needs ``pip install transformers`` and ``pip install --no-deps timm``. The harness only reads the file and
needs neither.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.machinery
import inspect
import json
import multiprocessing
import resource
import signal
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import MagicMock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from opinfo_tests.generate.samples.model_calls import DATA, NotKeptError, op_of, spelled

LARGEST = 1 << 16  # elements of the largest tensor whose call is recorded
SECONDS = 60  # seconds for one model
MEMORY = 8 << 30  # bytes of memory for one model
ALIKE = 3  # maximum number of recorded calls that differ only in sizes
OF_ONE = 80  # maximum number of recorded calls of one overload
LONGEST = 3000  # maximum number of characters of a line; optimizers have long lists
SKIPPED = ("aten::empty", "aten::detach", "aten::_local_scalar_dense", "aten::random_", "aten::set_", "aten::_nested")
# Operators with an argument that the forward operator computed from the others. With a random argument the result would
# overflow or cancel, or the argument would be no valid workspace for oneDNN.
TOGETHER = (
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::mkldnn_rnn_layer",
    "aten::_log_softmax_backward_data",
)
OPTIMIZERS: list[Callable[[Any], torch.optim.Optimizer]] = [
    lambda p: torch.optim.AdamW(p, 1e-3),
    lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, nesterov=True),
    lambda p: torch.optim.Adam(p, 1e-3, amsgrad=True, weight_decay=1e-2, foreach=True),
    lambda p: torch.optim.RMSprop(p, 1e-3, momentum=0.5, centered=True),
    lambda p: torch.optim.Adagrad(p, 1e-2),
    lambda p: torch.optim.AdamW(p, 1e-3, fused=True),
    lambda p: torch.optim.NAdam(p, 1e-3, foreach=False),
    lambda p: torch.optim.Adadelta(p, 1e-1),
    lambda p: torch.optim.SGD(p, 1e-2, momentum=0.9, fused=True),
    lambda p: torch.optim.Rprop(p, 1e-2),
]


class Recording(TorchDispatchMode):
    """Records the signature of each distinct call."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.lines: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        if name.startswith("aten::") and not name.startswith((*SKIPPED, *TOGETHER)):
            self.keep(name, args, kwargs)
        return func(*args, **kwargs)

    def keep(self, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if not tensors and args:  # numbers instead of tensors
            return
        if any(t.numel() > LARGEST for t in tensors) or sum(t.numel() for t in tensors) > 4 * LARGEST:
            return
        try:
            key = spelled(name, args, kwargs, values=False)
            if key not in self.seen:
                self.seen.add(key)
                self.lines.append(spelled(name, args, kwargs))
        except NotKeptError:
            return


# ---------------------------------------------------------------- models

SMALL = {
    "hidden_size": 32, "d_model": 32, "n_embd": 32, "embed_dim": 32, "dim": 32, "emb_dim": 32, "word_embed_proj_dim": 32,
    "num_hidden_layers": 2, "n_layer": 2, "num_layers": 2, "n_layers": 2, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "layerdrop": 0.0,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "d_kv": 8, "attention_head_size": 8,
    "intermediate_size": 48, "ffn_dim": 48, "n_inner": 48, "d_ff": 48, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
    "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24, "num_experts": 4, "n_routed_experts": 4,
    "num_local_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "vocab_size": 99, "text_vocab_size": 99,
    "image_size": 32, "patch_size": 8, "max_position_embeddings": 64, "n_positions": 64, "projection_dim": 16,
    "kv_lora_rank": 8, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "state_size": 8,
    "num_mel_bins": 16, "max_source_positions": 32, "max_target_positions": 32,
}  # fmt: skip


def shrink(config: Any, depth: int = 0) -> Any:
    """Make a configuration, and the configurations in it, tiny."""
    for name, value in SMALL.items():
        old = getattr(config, name, None)
        if isinstance(old, (int, float)) and not isinstance(old, bool):
            with_name = getattr(config, "attribute_map", {}).get(name, name)
            with contextlib.suppress(AttributeError):  # some configurations compute it as a property
                setattr(config, with_name, value)
    for name in dir(config) if depth < 3 else ():
        if name.endswith("config") and not name.startswith("_"):
            inner = getattr(config, name, None)
            if hasattr(inner, "to_dict"):
                shrink(inner, depth + 1)
    types_ = getattr(config, "layer_types", None)
    if isinstance(types_, list):
        config.layer_types = types_[: getattr(config, "num_hidden_layers", 2)]
    return config


def transformers_models() -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]]:
    """Yield a function for each architecture of transformers, which returns a model and its inputs."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    def make(kind: str) -> tuple[torch.nn.Module, dict[str, Any]]:
        config = shrink(CONFIG_MAPPING[kind]())
        model = AutoModel.from_config(config)
        ids = torch.randint(3, 90, (2, 7))
        size = getattr(config, "image_size", 32)
        size = size if isinstance(size, int) else 32
        channels = getattr(config, "num_channels", 3)
        given = {
            "input_ids": ids,
            "attention_mask": torch.tensor([[1] * 7, [1] * 5 + [0] * 2]),
            "pixel_values": torch.randn(2, channels if isinstance(channels, int) else 3, size, size),
            "input_values": torch.randn(2, 800),
            "input_features": torch.randn(2, getattr(config, "num_mel_bins", 16), 64),
            "decoder_input_ids": torch.randint(3, 90, (2, 5)),
        }
        takes = set(inspect.signature(model.forward).parameters)
        if "input_ids" not in takes:
            takes.discard("attention_mask")
        return model, {k: v for k, v in given.items() if k in takes}

    for kind in sorted(MODEL_MAPPING_NAMES):
        yield f"transformers/{kind}", lambda kind=kind: make(kind)


def timm_models() -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]]:
    """Yield a function for a few small models of each timm module, which returns a model and an image."""
    import timm

    def make(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
        try:
            model = timm.create_model(name, pretrained=False, num_classes=5, img_size=64)
            size = 64
        except TypeError:
            model = timm.create_model(name, pretrained=False, num_classes=5)
            size = (
                64
                if not getattr(model, "default_cfg", {}).get("fixed_input_size")
                else model.default_cfg["input_size"][1]
            )
        return model, {"x": torch.randn(2, 3, size, size)}

    words = (
        "test_",
        "zepto",
        "atto",
        "femto",
        "pico",
        "nano",
        "xxs",
        "xx_small",
        "tiny",
        "_s0",
        "b0",
        "_t0",
        "xs",
        "mini",
        "18",
        "_s",
        "small",
    )
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            rank = lambda n: (next((i for i, w in enumerate(words) if w in n), 99), len(n), n)
            for name in sorted(names, key=rank)[:2]:
                yield f"timm/{name}", lambda name=name: make(name)


def layers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a function for each layer of torch.nn and each set of options in torch's module tests."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        for training in (False, True):
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
            )
            for i, given in enumerate(inputs):

                def make(info: Any = info, given: Any = given, training: bool = training) -> Any:
                    c, f = given.constructor_input, given.forward_input
                    layer = info.module_cls(*c.args, **c.kwargs)
                    return layer.train(training), (f.args, f.kwargs)

                yield f"torch.nn/{info.name}/{i}{'t' if training else ''}", make


# ---------------------------------------------------------------- running them


def loss_of(out: Any) -> torch.Tensor:
    """Return a number that depends on every floating-point output of a model."""
    parts = tree_leaves(dict(out) if hasattr(out, "keys") else out)
    parts = [t for t in parts if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]
    return sum((p.pow(2).mean() for p in parts), start=torch.zeros(()))


def run(recording: Recording, model: torch.nn.Module, given: Any, turn: int, training: bool) -> None:
    """Run a model: two steps of training, or one inference."""
    args, kwargs = given if isinstance(given, tuple) else ((), given)
    with recording:
        if training:
            weights = [p for p in model.parameters() if p.requires_grad]
            step = OPTIMIZERS[turn % len(OPTIMIZERS)](weights) if weights else None
            for _ in range(2):
                loss = loss_of(model(*args, **kwargs))
                if loss.requires_grad:
                    loss.backward(retain_graph=True)  # keep the graph, because inputs with a history are used again
                if step is not None:
                    if turn % 3 == 0:
                        torch.nn.utils.clip_grad_norm_(weights, 1.0)
                    step.step()
                    step.zero_grad()
        else:
            with torch.no_grad():
                model(*args, **kwargs)


def record(job: tuple[str, int]) -> tuple[str, list[str], str]:
    """Return the name of a job, the lines that describe its calls, and what stopped it, or an empty string."""
    name, turn = job
    warnings.simplefilter("ignore")
    torch.manual_seed(turn)
    torch.set_num_threads(1)
    recording = Recording()
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("took too long")))
    signal.alarm(SECONDS)
    try:
        model, given = MAKERS[name]()
        if name.startswith("torch.nn/"):
            run(recording, model, given, turn, model.training)
        else:
            run(recording, model.train(), given, turn, True)
            run(recording, model.eval(), given, turn, False)
    except BaseException as e:
        return name, recording.lines, f"{type(e).__name__}: {e}".splitlines()[0][:160]
    finally:
        signal.alarm(0)
    return name, recording.lines, ""


def apart(job: tuple[str, int]) -> tuple[str, list[str], str]:
    """Run `record` in a separate process with limits on time and memory: a model may exceed either, or crash."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        there.send(record(job))

    process = context.Process(target=work)
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(2 * SECONDS) else (job[0], [], "took too long")
    except EOFError:
        return job[0], [], "the process died"
    finally:
        process.kill()
        process.join()


def kind_of(line: str) -> str:
    """Return a key of a call without its sizes: overload, dtypes, ranks, memory order, non-numeric arguments."""

    def of(x: Any) -> Any:
        if isinstance(x, dict) and "t" in x:
            strides = x.get("s")
            order = "" if strides is None else sorted(range(len(strides)), key=lambda i: (strides[i], i))
            ones = [n if n < 2 else 2 for n in x["n"]]
            return [x["t"], ones, order, "at" in x, strides is not None and 0 in strides]
        if isinstance(x, list):
            return [of(i) for i in x[:8]]
        if isinstance(x, dict):
            return {k: of(v) for k, v in x.items()}
        return x if x is None or isinstance(x, (bool, str)) or x in (0, 1, -1, 2, -2) else type(x).__name__

    return json.dumps(of(json.loads(line)))


MAKERS: dict[str, Callable[[], Any]] = {}


class Anything(type):
    """A class on which every attribute exists; it replaces classes of a library that is imported but not used."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


class Torchvision:
    """Import hook that replaces torchvision, which timm imports; the models that are run here do not use it."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        ours = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, cls(), is_package=True) if ours else None  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: getattr(Anything, name) if name.startswith("__") else Anything(name, (), {})  # type: ignore[method-assign]
        module.__version__ = "0.0"  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def import_timm() -> Any:
    sys.meta_path.insert(0, Torchvision)  # type: ignore[arg-type]
    import timm

    sys.meta_path.remove(Torchvision)  # type: ignore[arg-type]
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return timm


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what models call: opinfo_tests/data/models.jsonl.")
    parser.add_argument("--only", default="", help="models whose names contain this; the file is not written")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    args = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    timm = import_timm()
    for name, make in (*layers(), *transformers_models(), *timm_models()):
        if args.only in name:
            MAKERS[name] = make
    ran, failed, kinds, of_op, kept, here = 0, [], Counter(), Counter(), [], set()
    with ThreadPoolExecutor(args.jobs) as pool:
        for name, lines, error in pool.map(apart, [(n, i) for i, n in enumerate(MAKERS)]):
            ran += not error
            if error:
                failed.append(name)
                print(f"{name}: {error}", file=sys.stderr)
            for line in lines:
                op, kind = op_of(line), kind_of(line)
                if len(line) <= LONGEST and kinds[kind] < ALIKE and of_op[op] < OF_ONE and line not in here:
                    kinds[kind] += 1
                    of_op[op] += 1
                    kept.append(line)
                    here.add(line)
    whole = [n for n in MAKERS if n not in failed]
    models = len({n for n in whole if not n.startswith("torch.nn/")})
    layers_ = len({n.split("/")[1] for n in whole if n.startswith("torch.nn/")})
    head = (
        f"# written by scripts/record_models.py, torch {torch.__version__.partition('+')[0]}, transformers "
        f"{transformers.__version__}, timm {timm.__version__}: {models} models, {layers_} layers, {len(kept)} calls of "
        f"{len(of_op)} overloads"
    )
    print(head, f"{len(failed)} failed", sep="\n", file=sys.stderr)
    if not args.only:
        DATA.write_text("\n".join([head, *sorted(kept)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
