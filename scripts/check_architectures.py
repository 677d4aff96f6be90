"""Compare exported ``transformers`` on array libraries with torch: ``scripts/check_architectures.py [NAME ...]``.

Each model is small, with random weights (nothing is downloaded). It is exported plainly and after
``run_decompositions()``. It runs on array-api-strict, on JAX eagerly and compiled, and on Dask with a guard that
forbids early computation. A line says which results disagree, and which operators ran on the host. The script needs
``pip install -e ".[jax,dask]" array-api-strict transformers``.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import dask
import dask.array as da
import jax
import numpy as np
import torch
import transformers
from torch import nn

import torchnp
from torchnp.tests.portable.exported import Exported, check, export, load

BASE = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = BASE | {"vocab_size": 64, "max_position_embeddings": 64, "pad_token_id": 0}
GROUPED = TEXT | {"num_key_value_heads": 2}
IMAGE = BASE | {"image_size": 32, "patch_size": 8}
STAGES = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
GPT = {
    "vocab_size": 64,
    "n_embd": 32,
    "n_layer": 1,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
EXPERTS = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ["Bert", "Roberta", "Camembert", "XLMRoberta", "Ernie", "MegatronBert", "RoCBert", "ConvBert", "LayoutLM", "Data2VecText", "Splinter", "Yoso", "MPNet"], TEXT),
    "Electra": TEXT | {"embedding_size": 32},
    "Albert": TEXT | {"embedding_size": 16},
    "RemBert": TEXT | {"input_embedding_size": 16, "output_embedding_size": 16},
    "Nystromformer": TEXT | {"segment_means_seq_len": 6, "num_landmarks": 6},
    "Esm": TEXT | {"mask_token_id": 1, "position_embedding_type": "rotary"},
    "MobileBert": TEXT | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16,
                          "num_feedforward_networks": 1},
    **dict.fromkeys(
        ["Llama", "Mistral", "Qwen2", "Phi", "StableLm", "Cohere", "Olmo", "Olmo2", "Granite", "Starcoder2", "Persimmon", "SmolLM3", "Nemotron", "GPTNeoX", "Falcon", "BioGpt"], GROUPED),
    **dict.fromkeys(["Qwen3", "Gemma", "Gemma2", "Glm", "Helium"], GROUPED | {"head_dim": 8}),
    "Phi3": GROUPED | {"original_max_position_embeddings": 64},
    "Mixtral": GROUPED | {"num_local_experts": 2, "num_experts_per_tok": 1},
    "Qwen2Moe": GROUPED | EXPERTS,
    "OPT": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "ffn_dim": 48,
            "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    "Bloom": {"vocab_size": 64, "hidden_size": 32, "n_layer": 1, "n_head": 4},
    "GPT2": GPT,
    "GPTJ": GPT | {"rotary_dim": 4},
    "CodeGen": GPT | {"rotary_dim": 4, "n_ctx": 64},
    "GPTNeo": {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 4,
               "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64},
    "Mpt": {"vocab_size": 64, "d_model": 32, "n_layers": 1, "n_heads": 4, "max_seq_len": 64},
    "Mamba": {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "state_size": 4},
    "T5": {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4},
    "DistilBert": {"vocab_size": 64, "dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 48},
    "Funnel": {"vocab_size": 64, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 4, "d_head": 8,
               "d_inner": 48},
    "XGLM": {"vocab_size": 64, "d_model": 32, "ffn_dim": 48, "num_layers": 1, "attention_heads": 4},
    **dict.fromkeys(["ViT", "DeiT", "Dinov2", "ViTMSN", "Ijepa", "CLIPVision", "SiglipVision"], IMAGE),
    "Beit": IMAGE | {"vocab_size": 64},
    **{key: {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2} for key in ("ConvNext", "ConvNextV2")},
    "ResNet": STAGES,
    "RegNet": STAGES | {"groups_width": 4},
    "Swin": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4},
    "Segformer": {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
                  "patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]},
    "MobileNetV2": {"image_size": 32},
    "PoolFormer": {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]},
    "Wav2Vec2": BASE | {"conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2),
                        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0},
}  # fmt: skip
"""The options of each architecture's configuration."""


class FirstResult(nn.Module):
    """Wraps a model as a function of one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last hidden state."""
        return self.model(**{self.model.main_input_name: x}).last_hidden_state


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a small model and its argument."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**OPTIONS[name])
    config.use_cache = False
    model = getattr(transformers, {"T5": "T5EncoderModel"}.get(name, f"{name}Model"))(config).eval()
    size = 64 if name in ("Segformer", "PoolFormer") else 32
    arguments = {
        "input_ids": torch.randint(1, 60, (2, 6)),
        "pixel_values": torch.randn(2, 3, size, size),
        "input_values": torch.randn(2, 400),
    }
    return FirstResult(model), arguments[model.main_input_name]


def forbidden(*_: Any, **__: Any) -> None:
    raise AssertionError("a row computes a Dask array")


def run(exported: Exported, how: str) -> list[str]:
    """Compare a program with torch on one library; return the operators that ran on the host."""
    program = load(exported, {"jit": "jax"}.get(how, how))
    if how == "jit":
        given = [program.lib.from_numpy(x) for x in exported.inputs]
        check(program, jax.jit(program.pure)(program.state | program.draw(*given), *given)[0], exported)
    elif how == "dask":
        lazy = [da.from_array(x, chunks=(1, *x.shape[1:])) for x in exported.inputs]
        with dask.config.set(scheduler=forbidden):
            found = program(*lazy)
        with dask.config.set(scheduler="synchronous"):
            check(program, found, exported)
    else:
        check(program, program(*exported.inputs), exported)
    return [f"{name} ({how})" for name, tier in program.tiers().items() if tier in ("host", "eager")]


def examined(name: str) -> tuple[list[str], list[str]]:
    """Return what disagrees or cannot run, and the operators that ran on the host."""
    wrong, hosted = [], []
    for core in (False, True):
        form = "core" if core else "plain"
        try:
            model, x = made(name)
            exported = export(model, (x,), core)
        except Exception as error:  # torch's export raises errors of many classes
            wrong.append(f"{form}: no export: {type(error).__name__}: {str(error)[:200]}")
            continue
        for how in ("array_api_strict", "jax", "jit", "dask"):
            try:
                hosted += run(exported, how)
            except Exception as error:  # any error is a finding of this script
                wrong.append(f"{form} on {how}: {type(error).__name__}: {str(error)[:300]}")
    return wrong, sorted(set(hosted))


def main() -> int:
    """Print a line for each architecture; the exit status is 1 if any disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(OPTIONS)} (default: all)")
    names = parser.parse_args().names or list(OPTIONS)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    jax.config.update("jax_enable_x64", True)
    torchnp.manual_seed(0)
    np.seterr(all="ignore")
    bad = 0
    for name in names:
        start = time.perf_counter()
        wrong, hosted = examined(name)
        bad += bool(wrong)
        told = "; ".join(wrong) or "agrees" + (f", with {', '.join(hosted)} on the host" if hosted else "")
        print(f"{name}: {told} ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"{len(names) - bad} of {len(names)} agree")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
