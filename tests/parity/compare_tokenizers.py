#!/usr/bin/env python3
"""Compares token ids and speed with Hugging Face tokenizers, tiktoken and SentencePiece (a developer's check, not in CI).

  tests/parity/compare_tokenizers.py BENCH FOLDER TYPE:PATH...

BENCH is build/bench_tokenizer, FOLDER holds documents in UTF-8, one a file. Needs: pip install tokenizers tiktoken
sentencepiece numpy. Both sides encode the same documents on one thread; prints one line a vocabulary and exits 1 when
any id differs.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tiktoken_encoding(path):
    import tiktoken
    import tiktoken_ext.openai_public as public

    if path.endswith(".json"):
        tekken = json.load(open(path))
        config = tekken["config"]
        special = config["default_num_special_tokens"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in tekken["vocab"] if v["rank"] < config["default_vocab_size"] - special}
        return tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}), special
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in open(path, "rb") if line.strip())}
    o200k = "|".join([
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
    patterns = {50256: public.r50k_pat_str, 50257: public.r50k_pat_str, 50280: public.r50k_pat_str, 128000: LLAMA3, 200000: o200k, 199998: o200k}
    return tiktoken.Encoding("ranks", pat_str=patterns[len(ranks)], mergeable_ranks=ranks, special_tokens={}), 0


def peer(kind, path):
    """The peer's name and its function from text to ids."""
    if kind == "gpt2":
        from tokenizers import Tokenizer, models, pre_tokenizers

        names = [n for n in ("vocab.json", "encoder.json") if os.path.exists(f"{path}/{n}")]
        merges = [n for n in ("merges.txt", "vocab.bpe") if os.path.exists(f"{path}/{n}")]
        tokenizer = Tokenizer(models.BPE.from_file(f"{path}/{names[0]}", f"{path}/{merges[0]}"))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return "tokenizers", lambda text: tokenizer.encode(text).ids
    if kind == "huggingface":
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(path)
        tokenizer.encode_special_tokens = True
        return "tokenizers", lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    if kind == "tiktoken":
        encoding, shift = tiktoken_encoding(path)
        if shift == 0:
            return "tiktoken", encoding.encode_ordinary
        return "tiktoken", lambda text: [i + shift for i in encoding.encode_ordinary(text)]
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=path)
    return "sentencepiece", processor.encode


def compare(bench, documents, spec):
    kind, path = spec.split(":", 1)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/list", "w") as names:
            names.write("\n".join(documents) + "\n")
        result = json.loads(subprocess.run([bench, spec, f"{folder}/list", f"{folder}/ids"], check=True, stdout=subprocess.PIPE).stdout)
        ours = numpy.fromfile(f"{folder}/ids", dtype=numpy.int32)
    name, encode = peer(kind, path)
    at, different, seconds = 0, [], 0.0
    for document in documents:
        text = open(document, encoding="utf-8", newline="").read()
        start = time.perf_counter()
        theirs = encode(text)
        seconds += time.perf_counter() - start
        mine = ours[at + 1 : at + 1 + ours[at]]
        at += 1 + ours[at]
        if len(theirs) != len(mine) or not (numpy.array(theirs, dtype=numpy.int64) == mine).all():
            first = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
            different.append((document, first, mine[first : first + 6].tolist(), list(theirs[first : first + 6])))
    speed = result["bytes"] / seconds / 1e6
    print(f"{spec}: {result['tokens']} tokens of {result['bytes'] / 1e6:.1f} MB; documents that differ from {name}: {len(different)} of {len(documents)}; "
          f"railyard {result['mb_per_s']:.1f} MB/s, {name} {speed:.1f} MB/s, ratio {result['mb_per_s'] / speed:.2f}; changed by a round trip: {result['changed_by_round_trip']}")
    for document, first, mine, theirs in different[:5]:
        print(f"  {document}: id {first}: {mine} against {theirs}")
    return not different


if __name__ == "__main__":
    bench, folder, *specs = sys.argv[1:]
    documents = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    sys.exit(0 if all([compare(bench, documents, spec) for spec in specs]) else 1)
