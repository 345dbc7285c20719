#!/usr/bin/env python3
"""Reference figures for tests/runtime/train/test_parity.cpp: loss and every gradient of small models, by PyTorch in float64.

    python3 tests/parity/make_figures.py        # writes tests/parity/figures/NAME.{json,weights.safetensors,gradients.safetensors}

The models are written here from their papers' definitions, with torch's own functions, and share nothing with the runtime.
"""
import json, math, pathlib, struct
import numpy as np, torch, torch.nn.functional as F

OUT = pathlib.Path(__file__).parent / "figures"
COMMON = dict(layers=2, hidden=24, heads=4, head_dim=6, vocab=259, seq_length=20, batch=3)
MODELS = {
    "gpt": dict(COMMON, kv_heads=4, ffn=40, norm="layernorm", activation="gelu", position="learned", bias=True, tied=True),
    "gpt_tanh": dict(COMMON, kv_heads=4, ffn=40, norm="layernorm", activation="gelu_tanh", position="learned", bias=False, tied=True),
    "llama": dict(COMMON, kv_heads=2, ffn=44, norm="rmsnorm", activation="swiglu", position="rope", bias=False, tied=False),
    "nemotron": dict(COMMON, kv_heads=2, ffn=44, norm="layernorm1p", activation="squared_relu", position="rope", bias=True, tied=False,
                     rotary_percent=0.5),
    "qwen_window": dict(COMMON, kv_heads=1, ffn=44, norm="rmsnorm", activation="geglu", position="rope", bias=False, tied=True,
                        qkv_bias=True, window=5),
    "qwen3": dict(COMMON, kv_heads=2, ffn=44, norm="rmsnorm", activation="swiglu", position="rope", bias=False, tied=True, qk_norm=True),
    # Documents that do not see each other, with positions of their own and no loss at their ends (token 256).
    "documents": dict(COMMON, kv_heads=2, ffn=44, norm="rmsnorm", activation="swiglu", position="rope", bias=False, tied=False,
                      ends=[3, 11, 12, 29, 39, 40, 58]),
}
END = 256


def text(n):
    return bytes(33 + (i * i * 7 + i * 13 + i // 5) % 90 for i in range(n))


def parameters(m, g):
    h, d, f = m["hidden"], m["head_dim"], m["ffn"]
    p = {}
    def matrix(name, *shape): p[name] = torch.randn(*shape, generator=g) * 0.15
    def norm(name):
        p[name + ".weight"] = (0.0 if m["norm"] == "layernorm1p" else 1.0) + 0.1 * torch.randn(h, generator=g)
        if m["norm"] != "rmsnorm" and m["bias"]: p[name + ".bias"] = 0.1 * torch.randn(h, generator=g)
    def linear(name, out, inn, bias):
        matrix(name + ".weight", out, inn)
        if bias: p[name + ".bias"] = 0.1 * torch.randn(out, generator=g)
    matrix("embedding.word_embeddings.weight", m["vocab"], h)
    if m["position"] == "learned": matrix("embedding.position_embeddings.weight", m["seq_length"], h)
    for i in range(m["layers"]):
        a, l = f"layers.{i}.self_attention", f"layers.{i}"
        norm(l + ".input_norm")
        qkv_bias = m["bias"] or m.get("qkv_bias", False)
        linear(a + ".query", m["heads"] * d, h, qkv_bias)
        linear(a + ".key", m["kv_heads"] * d, h, qkv_bias)
        linear(a + ".value", m["kv_heads"] * d, h, qkv_bias)
        if m.get("qk_norm"):
            for n in ("query_norm", "key_norm"): p[f"{a}.{n}.weight"] = 1.0 + 0.1 * torch.randn(d, generator=g)
        linear(a + ".proj", h, m["heads"] * d, m["bias"])
        norm(l + ".pre_mlp_norm")
        if m["activation"] in ("swiglu", "geglu"): linear(l + ".mlp.gate", f, h, m["bias"])
        linear(l + ".mlp.up", f, h, m["bias"])
        linear(l + ".mlp.down", h, f, m["bias"])
    norm("final_norm")
    if not m["tied"]: matrix("output.weight", m["vocab"], h)
    return {k: v.float() for k, v in p.items()}


def rotate(x, dims, t, theta=10000.0):           # x [b, heads, t, d], first `dims` features, rotate-half; t [b, t] positions
    angle = t[:, None, :, None].double() * theta ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    c, s = angle.cos(), angle.sin()
    a, b, rest = x[..., : dims // 2], x[..., dims // 2 : dims], x[..., dims:]
    return torch.cat((a * c - b * s, b * c + a * s, rest), -1)


def loss_of(m, p, ids, labels):
    h, d, H, K = m["hidden"], m["head_dim"], m["heads"], m["kv_heads"]
    B, T = ids.shape
    def norm(x, name):
        w, b = p[name + ".weight"], p.get(name + ".bias")
        if m["norm"] == "rmsnorm": return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w
        return F.layer_norm(x, (h,), w + 1 if m["norm"] == "layernorm1p" else w, b, 1e-5)
    def linear(x, name): return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))
    x = p["embedding.word_embeddings.weight"][ids]
    if m["position"] == "learned": x = x + p["embedding.position_embeddings.weight"][:T]
    i, j = torch.arange(T)[:, None], torch.arange(T)[None, :]
    mask = j <= i
    if m.get("window"): mask = mask & (j > i - m["window"])
    mask, positions, counted = mask.expand(B, 1, T, T), torch.arange(T).expand(B, T), torch.ones(B, T, dtype=torch.bool)
    if m.get("ends"):
        counted = ids != END
        document = (~counted).long().cumsum(1) - (~counted).long()      # an end belongs to what it ends
        mask = mask & (document[:, None, :, None] == document[:, None, None, :])
        first = torch.stack([(document[b][None, :] == document[b][:, None]).long().argmax(1) for b in range(B)])
        positions = positions - first
    for l in range(m["layers"]):
        a, q = f"layers.{l}", f"layers.{l}.self_attention"
        y = norm(x, a + ".input_norm")
        query, key, value = (linear(y, q + "." + n).view(B, T, -1, d).transpose(1, 2) for n in ("query", "key", "value"))
        if m.get("qk_norm"):
            rms = lambda y, n: y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * p[f"{q}.{n}.weight"]
            query, key = rms(query, "query_norm"), rms(key, "key_norm")
        if m["position"] == "rope":
            dims = 2 * int(m.get("rotary_percent", 1.0) * d / 2)
            query, key = rotate(query, dims, positions), rotate(key, dims, positions)
        key, value = key.repeat_interleave(H // K, 1), value.repeat_interleave(H // K, 1)
        score = (query @ key.transpose(-1, -2) / math.sqrt(d)).masked_fill(~mask, float("-inf"))
        y = (score.softmax(-1) @ value).transpose(1, 2).reshape(B, T, H * d)
        x = x + linear(y, q + ".proj")
        y = norm(x, a + ".pre_mlp_norm")
        up = linear(y, a + ".mlp.up")
        act = m["activation"]
        if act == "gelu": y = F.gelu(up)
        elif act == "gelu_tanh": y = F.gelu(up, approximate="tanh")
        elif act == "squared_relu": y = F.relu(up) ** 2
        elif act == "swiglu": y = F.silu(linear(y, a + ".mlp.gate")) * up
        else: y = F.gelu(linear(y, a + ".mlp.gate")) * up
        x = x + linear(y, a + ".mlp.down")
    x = norm(x, "final_norm")
    logits = F.linear(x, p["embedding.word_embeddings.weight" if m["tied"] else "output.weight"])
    return F.cross_entropy(logits.flatten(0, 1)[counted.flatten()], labels.flatten()[counted.flatten()])


def write_safetensors(path, tensors):
    header, data, at = {}, b"", 0
    for name in sorted(tensors):
        raw = tensors[name].numpy().astype("<f4").tobytes()
        header[name] = dict(dtype="F32", shape=list(tensors[name].shape), data_offsets=[at, at + len(raw)])
        data += raw
        at += len(raw)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(struct.pack("<Q", len(head)) + head + data)


def main():
    OUT.mkdir(exist_ok=True)
    for name, m in MODELS.items():
        start = parameters(m, torch.Generator().manual_seed(sum(map(ord, name))))
        p = {k: v.double().requires_grad_() for k, v in start.items()}
        tokens = torch.tensor(list(text(m["batch"] * m["seq_length"] + 1)))
        for at in m.get("ends", []): tokens[at] = END
        ids, labels = tokens[:-1].view(m["batch"], -1), tokens[1:].view(m["batch"], -1)
        loss = loss_of(m, p, ids, labels)
        loss.backward()
        write_safetensors(OUT / f"{name}.weights.safetensors", start)
        write_safetensors(OUT / f"{name}.gradients.safetensors", {k: v.grad.float() for k, v in p.items()})
        data = dict(tokens=tokens.tolist()) if m.get("ends") else dict(text=text(len(tokens)).decode())
        norm = math.sqrt(sum(v.grad.pow(2).sum().item() for v in p.values()))
        (OUT / f"{name}.json").write_text(json.dumps(dict(m, loss=loss.item(), gradient_norm=norm, **data), indent=1) + "\n")
        print(name, loss.item(), norm)


if __name__ == "__main__":
    main()
