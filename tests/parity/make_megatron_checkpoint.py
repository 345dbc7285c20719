#!/usr/bin/env python3
"""Writes a tiny checkpoint as Megatron-Core's torch_dist has it, by PyTorch's own writer: tests/runtime/checkpoint/megatron.

    make_megatron_checkpoint.py OUT_DIR      needs torch

Keys and shapes follow megatron.core's sharded_state_dict with Transformer Engine layers: layers stacked along a leading
axis, norms fused into the linear layer behind them, queries, keys and values packed group by group, gate above up,
the vocabulary padded. Value i of tensor KEY is a hash of both, as in make_hf_models.py.
"""
import argparse
import pathlib
import shutil
import sys

import torch
import torch.distributed.checkpoint as dcp

LAYERS, HIDDEN, HEADS, GROUPS, CHANNELS, FFN, VOCAB, PADDED = 2, 8, 4, 2, 2, 12, 13, 16


def values(name, shape):
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    x = (torch.arange(int(torch.tensor(shape).prod()), dtype=torch.int64) * 2654435761 + seed) % 2**32
    for _ in range(2):
        x = (x ^ (x >> 16)) * 0x45D9F3B % 2**32
    x = x ^ (x >> 16)
    return (((x >> 8).double() / 2**24 - 0.5) * 0.4).float().reshape(shape)


def main(out):
    qkv = GROUPS * (HEADS // GROUPS + 2) * CHANNELS
    shapes = {
        "embedding.word_embeddings.weight": [PADDED, HIDDEN],
        "decoder.layers.self_attention.linear_qkv.layer_norm_weight": [LAYERS, HIDDEN],
        "decoder.layers.self_attention.linear_qkv.weight": [LAYERS, qkv, HIDDEN],
        "decoder.layers.self_attention.linear_proj.weight": [LAYERS, HIDDEN, HEADS * CHANNELS],
        "decoder.layers.mlp.linear_fc1.layer_norm_weight": [LAYERS, HIDDEN],
        "decoder.layers.mlp.linear_fc1.weight": [LAYERS, 2 * FFN, HIDDEN],
        "decoder.layers.mlp.linear_fc2.weight": [LAYERS, HIDDEN, FFN],
        "decoder.final_layernorm.weight": [HIDDEN],
        "output_layer.weight": [PADDED, HIDDEN],
    }
    state = {key: values(key, shape).bfloat16() for key, shape in shapes.items()}
    for kind in ("exp_avg", "exp_avg_sq", "fp32_param"):
        for key, shape in shapes.items():
            state[f"optimizer.state.{kind}.{key}"] = values(f"{kind}.{key}", shape)
    state["rng_state"] = {"tracker": torch.ones(3, dtype=torch.uint8)}
    shutil.rmtree(out, ignore_errors=True)
    folder = out / "iter_0000007"
    dcp.save(state, checkpoint_id=str(folder), no_dist=True)
    args = argparse.Namespace(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, group_query_attention=True,
        num_query_groups=GROUPS, kv_channels=CHANNELS, ffn_hidden_size=FFN, seq_length=32, max_position_embeddings=32,
        padded_vocab_size=PADDED, vocab_size=None, make_vocab_size_divisible_by=8, normalization="RMSNorm",
        norm_epsilon=1e-5, swiglu=True, position_embedding_type="rope", rotary_base=500000, rotary_percent=1.0,
        add_bias_linear=False, add_qkv_bias=False, qk_layernorm=False, untie_embeddings_and_output_weights=True,
        attention_dropout=0.0, hidden_dropout=0.0, init_method_std=0.02, consumed_train_samples=56,
        params_dtype=torch.bfloat16, num_experts=None, data_path=[pathlib.PurePosixPath("/data/text")])
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 7}, folder / "common.pt")
    (out / "latest_checkpointed_iteration.txt").write_text("7")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
