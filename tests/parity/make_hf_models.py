#!/usr/bin/env python3
"""Writes tests/runtime/checkpoint/hf/*.json: tiny models as Hugging Face transformers configures, names and computes them.

    make_hf_models.py OUT_DIR            needs torch and transformers
    make_hf_models.py --check HF_DIR CASE.json   loads an exported folder and compares its logits with the case's

Weights are not stored: value i of tensor NAME is a hash of both (see `values`), which the tests compute again.
"""
import json
import pathlib
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

COMMON = dict(vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
              max_position_embeddings=64)
CASES = {
    "gpt2": transformers.GPT2Config(vocab_size=37, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "llama2": transformers.LlamaConfig(**COMMON),
    "llama3_1": transformers.LlamaConfig(**COMMON, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5,
                                         rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
                                                              low_freq_factor=1.0, high_freq_factor=4.0,
                                                              original_max_position_embeddings=16)),
    "llama_bias": transformers.LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True, head_dim=16),
    "mistral": transformers.MistralConfig(**COMMON, num_key_value_heads=2, sliding_window=5),
    "qwen2": transformers.Qwen2Config(**COMMON, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**COMMON, num_key_value_heads=2, head_dim=16),
    "nemotron": transformers.NemotronConfig(**COMMON, num_key_value_heads=2),
    "mixtral": transformers.MixtralConfig(**COMMON, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2),
    "deepseek_v2": transformers.DeepseekV2Config(**COMMON, num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8,
                                                 qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4,
                                                 num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=16,
                                                 first_k_dense_replace=1, n_group=1, topk_group=1),
    "deepseek_v3": transformers.DeepseekV3Config(**COMMON, num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=12, qk_nope_head_dim=8,
                                                 qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=4,
                                                 num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=16,
                                                 first_k_dense_replace=1, n_group=2, topk_group=1),
}
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 36, 7, 0]


def values(name, shape):
    """A hash of the name (FNV-1a) and the index, spread over [-0.2, 0.2); around 1 for the gains of norms."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (numpy.arange(numpy.prod(shape, dtype=numpy.int64), dtype=numpy.uint64) * 2654435761 + seed) % 2**32
    for _ in range(2):
        x = (x ^ (x >> numpy.uint64(16))) * 0x45D9F3B % 2**32
    x = x ^ (x >> numpy.uint64(16))
    spread = ((x >> numpy.uint64(8)).astype(numpy.float64) / 2**24 - 0.5) * 0.4
    gain = name.endswith(".weight") and ("norm" in name or ".ln_" in name)
    return torch.tensor((spread + (1.0 if gain else 0.0)).reshape(shape), dtype=torch.float32)


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].double()


def build(name, config):
    torch.manual_seed(0)
    config.torch_dtype = "float32"
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tensors = {}
        with safe_open(folder + "/model.safetensors", "pt") as saved:
            for key in saved.keys():
                tensors[key] = list(saved.get_slice(key).get_shape())
        save_file({key: values(key, shape) for key, shape in tensors.items()}, folder + "/model.safetensors",
                  {"format": "pt"})
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        written = json.loads(pathlib.Path(folder, "config.json").read_text())
        logits = logits_of(model.eval())
    return {"config": written, "tensors": tensors, "tokens": TOKENS,
            "logits": [[float(f"{value:.7g}") for value in row] for row in logits[-2:].tolist()]}


def write(case, path):
    lines = ["{", f'"made_by": "transformers {transformers.__version__}, torch {torch.__version__.split("+")[0]}",',
             '"config": ' + json.dumps(case["config"], sort_keys=True) + ",", '"tensors": {']
    lines.append(",\n".join(f'  "{key}": {shape}' for key, shape in sorted(case["tensors"].items())))
    lines += ["},", f'"tokens": {case["tokens"]},', '"logits_of_last_two": [']
    lines.append(",\n".join("  " + json.dumps(row) for row in case["logits"]))
    lines += ["]", "}"]
    path.write_text("\n".join(lines) + "\n")


def check(folder, case_path):
    case = json.loads(pathlib.Path(case_path).read_text())
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    difference = (logits_of(model.eval())[-2:] - torch.tensor(case["logits_of_last_two"], dtype=torch.float64)).abs().max().item()
    print(f"{folder}: largest difference of logits {difference:.3g}")
    return difference < 1e-5


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(0 if check(sys.argv[2], sys.argv[3]) else 1)
    out = pathlib.Path(sys.argv[1])
    for case_name, case_config in CASES.items():
        write(build(case_name, case_config), out / f"{case_name}.json")
        print(case_name)
