"""The peer of `railyard bench step`: the same training steps in PyTorch, compiled.

    python3 tests/bench/pytorch_peer.py --threads 2 cpu-first-train cpu-15m
    python3 tests/bench/pytorch_peer.py --device cuda [--fp8] llama8b-8layer

The same shapes, batches, optimizer and precision as the cases of `railyard bench step`, on random tokens: fp32 weights,
bf16 by autocast on a GPU, 8-bit products in the blocks with --fp8 (one scale a tensor, from the tensor itself), fused
AdamW, clipping by the global norm. Whatever PyTorch has to be fast is used: torch.compile, fused attention, fused
optimizer, TF32 off only where fp32 is what is measured. Prints what `railyard bench step` prints, with --json its
object. Peak memory: largest resident set on a CPU (of this process, not of the compiler's helpers), largest allocated
on a GPU. One case a process gives honest first steps and peaks.
"""

import argparse
import json
import math
import os
import resource
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass


def process_age():
    """Seconds since the kernel started this process."""
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        ticks = float(stat.read().rpartition(")")[2].split()[19])
        return float(uptime.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


@dataclass
class Case:
    vocab: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    length: int
    micro_batch: int
    accumulation: int
    gpt: bool = False  # LayerNorm, biases, learned positions, tanh GELU, tied head; else Llama's choices

    @property
    def head_dim(self):
        return self.hidden // self.heads


CASES = {
    "cpu-first-train": Case(256, 256, 4, 8, 8, 688, 256, 8, 1),
    "cpu-15m": Case(32000, 288, 6, 6, 6, 768, 256, 8, 1),
    "gpt124m-ish": Case(50304, 768, 12, 12, 12, 2048, 1024, 32, 1),
    "llama1b": Case(128256, 2048, 16, 32, 8, 8192, 4096, 4, 2),
    "llama8b-8layer": Case(32000, 4096, 8, 32, 8, 14336, 4096, 2, 4),
    "llama8b-8layer-8k": Case(32000, 4096, 8, 32, 8, 14336, 8192, 1, 4),
    "gpt2-1558m": Case(50304, 1600, 48, 25, 25, 6400, 1024, 16, 16, gpt=True),
}


class EightBitProduct(torch.autograd.Function):
    """x @ w.T with e4m3 operands; gradients travel in e5m2. Every operand has one scale, from its own largest value."""

    @staticmethod
    def quantize(values, dtype):
        limit = torch.finfo(dtype).max
        scale = values.abs().amax().float().clamp_min(1e-30) / limit
        return (values.float() / scale).clamp(-limit, limit).to(dtype), scale

    @staticmethod
    def product(a, scale_a, b_transposed, scale_b, fast):
        return torch._scaled_mm(
            a, b_transposed, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    @staticmethod
    def forward(ctx, x, w):
        quantize = EightBitProduct.quantize
        x8, scale_x = quantize(x, torch.float8_e4m3fn)
        w8, scale_w = quantize(w, torch.float8_e4m3fn)
        ctx.save_for_backward(x8, scale_x, w8, scale_w)
        return EightBitProduct.product(x8, scale_x, w8.t(), scale_w, True)

    @staticmethod
    def backward(ctx, gradient):
        x8, scale_x, w8, scale_w = ctx.saved_tensors
        g8, scale_g = EightBitProduct.quantize(gradient, torch.float8_e5m2)
        columns = lambda matrix: matrix.t().contiguous().t()  # the second operand lies by columns
        input_gradient = EightBitProduct.product(g8, scale_g, columns(w8), scale_w, False)
        weight_gradient = EightBitProduct.product(g8.t().contiguous(), scale_g, columns(x8), scale_x, False)
        return input_gradient, weight_gradient.float()


class BlockLinear(nn.Linear):
    eight_bit = False

    def forward(self, x):
        if not BlockLinear.eight_bit:
            return super().forward(x)
        y = EightBitProduct.apply(x.reshape(-1, self.in_features).bfloat16(), self.weight)
        y = y.view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias


def make_norm(case):
    return nn.LayerNorm(case.hidden, eps=1e-5) if case.gpt else nn.RMSNorm(case.hidden, eps=1e-5)


class Attention(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        self.qkv = BlockLinear(case.hidden, (case.heads + 2 * case.kv_heads) * case.head_dim, bias=case.gpt)
        self.out = BlockLinear(case.hidden, case.hidden, bias=case.gpt)

    def forward(self, x, rotation):
        case, (batch, length, _) = self.case, x.shape
        heads = self.qkv(x).view(batch, length, -1, case.head_dim).transpose(1, 2)
        q, k, v = heads.split([case.heads, case.kv_heads, case.kv_heads], dim=1)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=case.kv_heads != case.heads)
        return self.out(y.transpose(1, 2).reshape(batch, length, case.hidden))


def rotate(x, rotation):
    cosine, sine = rotation
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1).to(x.dtype)


class Mlp(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.gated = not case.gpt
        self.up = BlockLinear(case.hidden, case.ffn * (2 if self.gated else 1), bias=case.gpt)
        self.down = BlockLinear(case.ffn, case.hidden, bias=case.gpt)

    def forward(self, x):
        h = self.up(x)
        if self.gated:
            gate, value = h.chunk(2, dim=-1)
            return self.down(F.silu(gate) * value)
        return self.down(F.gelu(h, approximate="tanh"))


class Block(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.attention_norm, self.attention = make_norm(case), Attention(case)
        self.mlp_norm, self.mlp = make_norm(case), Mlp(case)

    def forward(self, x, rotation):
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        self.embedding = nn.Embedding(case.vocab, case.hidden)
        self.positions = nn.Embedding(case.length, case.hidden) if case.gpt else None
        self.blocks = nn.ModuleList([Block(case) for _ in range(case.layers)])
        self.norm = make_norm(case)
        self.head = nn.Linear(case.hidden, case.vocab, bias=False)
        frequency = 5e5 ** -(torch.arange(0, case.head_dim, 2) / case.head_dim)
        angle = torch.outer(torch.arange(case.length), frequency)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        if case.gpt:
            self.head.weight = self.embedding.weight

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        rotation = None if self.positions is not None else (self.cosine, self.sine)
        for block in self.blocks:
            x = block(x, rotation)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    def flops_per_token(self):
        """6 x matmul parameters in use (output head in, lookups out) and causal attention at half."""
        case = self.case
        used = sum(p.numel() for block in self.blocks for p in block.parameters() if p.dim() > 1)
        used += self.head.weight.numel()
        return 6 * used + 6 * case.layers * case.hidden * case.length


def attention_of(device):
    """On a GPU cuDNN's fused attention, the fastest PyTorch has there."""
    if device == "cpu":
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True)


def measure(name, options):
    case, device = CASES[name], options.device
    BlockLinear.eight_bit = options.precision == "fp8"
    torch.manual_seed(1234)
    with torch.device(device):
        model = Transformer(case)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True,
    )
    step_of = torch.compile(model)
    batches = [
        torch.randint(0, case.vocab, (case.micro_batch, case.length + 1), device=device)
        for _ in range(case.accumulation * 2)
    ]
    batches = [(b[:, :-1].contiguous(), b[:, 1:].contiguous()) for b in batches]
    half = nullcontext() if options.precision == "fp32" else torch.autocast(device, torch.bfloat16)

    def step(number):
        total = 0.0
        for part in range(case.accumulation):
            tokens, targets = batches[(number * case.accumulation + part) % len(batches)]
            with half:
                loss = step_of(tokens, targets) / case.accumulation
            loss.backward()
            total = total + loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total.item()  # every step's loss is looked at, as in ours

    warmup, times = 3, []
    with attention_of(device):
        for number in range(warmup + options.steps):
            begin = time.perf_counter()
            loss = step(number)
            if number >= warmup:
                times.append(time.perf_counter() - begin)
            if number == 0:
                first_step = process_age()
    step_s = statistics.median_high(times)
    tokens = case.micro_batch * case.accumulation * case.length
    tflops = model.flops_per_token() * tokens / step_s * 1e-12
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated() / 2**30
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "case": name, "device": device, "step_s": step_s, "tokens_per_s": tokens / step_s, "tflops": tflops,
        "mfu": tflops / 989.5 if device == "cuda" else None, "peak_gib": peak, "loss": loss,
        "first_step_s": first_step,
    }


def show(figures, as_json):
    if as_json:
        print(json.dumps(figures), flush=True)
        return
    mfu = "" if figures["mfu"] is None else f"  MFU {figures['mfu'] * 100:.1f} %"
    print(
        f"{figures['case']:20s} step {figures['step_s'] * 1e3:.1f} ms  {figures['tokens_per_s']:.0f} tokens/s  "
        f"{figures['tflops']:.3f} TFLOP/s{mfu}  peak {figures['peak_gib']:.2f} GiB  loss {figures['loss']:.3f}  "
        f"first step after {figures['first_step_s']:.1f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description="The training steps of `railyard bench step` in PyTorch, compiled.",
        epilog="cases: " + " ".join(CASES),
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="which shapes; all of the device when none is named")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp8"], help="fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--fp8", dest="precision", action="store_const", const="fp8", help="8-bit products in blocks")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--steps", type=int, default=10, help="steps to time, after three that are not")
    parser.add_argument("--json", action="store_true", help="one JSON object a case")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are {' '.join(CASES)}")
    if options.steps < 1:
        parser.error("--steps is at least 1")
    options.precision = options.precision or ("bf16" if options.device == "cuda" else "fp32")
    if options.device == "cpu" and options.precision == "fp8":
        parser.error("--fp8 needs --device cuda: PyTorch has no 8-bit products for CPUs")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU")
    if options.threads:
        torch.set_num_threads(options.threads)
    for name in options.cases or [n for n in CASES if n.startswith("cpu-") == (options.device == "cpu")]:
        show(measure(name, options), options.json)
        torch.compiler.reset()
        if options.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    sys.exit(main())
