#!/usr/bin/env python3
"""Compares data sets, blends and sample order with Megatron-Core's own code (a developer's check, not in CI).

  tests/parity/compare_megatron.py BUILD MEGATRON

BUILD holds railyard and dump_samples; MEGATRON is a folder with the unpacked wheel of PyPI `megatron-core` (its compiled
helpers must fit this Python). Needs numpy, not torch: the few names of torch that the data code mentions are stood in for.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import types

import numpy


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, module)
    return module


def import_megatron(folder):
    nothing = lambda *args, **kwargs: None
    stand_in("torch", Tensor=object, from_numpy=lambda array: array, compile=lambda f=None, **k: f)
    stand_in("torch.distributed", is_initialized=lambda: False, is_available=lambda: False, get_rank=lambda: 0)
    stand_in("torch.utils")
    stand_in("torch.utils.data", Dataset=type("Dataset", (), {}))
    stand_in("megatron").__path__ = [f"{folder}/megatron"]
    stand_in("megatron.core").__path__ = [f"{folder}/megatron/core"]
    stand_in("megatron.core.utils", log_single_rank=nothing)
    stand_in("megatron.core.msc_utils", MultiStorageClientFeature=type("Feature", (), {"is_enabled": staticmethod(lambda: False)}))
    from megatron.core.datasets import blended_megatron_dataset_builder as builder, gpt_dataset, indexed_dataset

    return builder, gpt_dataset, indexed_dataset


def main(build, folder):
    builder, gpt, indexed = import_megatron(folder)
    random = numpy.random.default_rng(7)
    with tempfile.TemporaryDirectory() as work:
        documents = {}
        for name, count, dtype in (("a", 900, numpy.uint16), ("b", 400, numpy.int32), ("c", 2000, numpy.uint16)):
            writer = indexed.IndexedDatasetBuilder(f"{work}/{name}.bin", dtype=dtype)
            documents[name] = [random.integers(0, 60000, random.integers(1, 300)) for _ in range(count)]
            for ids in documents[name]:
                writer.add_document(ids, [len(ids)])
            writer.finalize(f"{work}/{name}.idx")
            result = json.loads(subprocess.run([f"{build}/railyard", "data", "inspect", f"{work}/{name}", "--json"], check=True, stdout=subprocess.PIPE).stdout)[0]
            assert result["documents"] == count and result["tokens"] == sum(map(len, documents[name])), result
            subprocess.run([f"{build}/railyard", "data", "verify", f"{work}/{name}"], check=True, stdout=subprocess.DEVNULL)
        print("data sets written by Megatron are read")

        subprocess.run([f"{build}/railyard", "data", "merge", f"{work}/a", f"{work}/b", f"{work}/c", "-o", f"{work}/all"], check=True, stdout=subprocess.DEVNULL)
        merged = indexed.IndexedDataset(f"{work}/all")
        assert len(merged) == 3300 and all((merged[i] == ids).all() for i, ids in enumerate(itertools.chain(*documents.values())))
        print("a data set written by railyard is read by Megatron")

        for case, (names, weights, seq, train, valid, seed, split) in enumerate([
            (["a"], None, 64, 10000, 300, 1234, "960,30,10"),
            (["a", "b", "c"], [0.3, 0.5, 0.2], 64, 10000, 500, 1234, "900,80,20"),
            (["a", "b", "c"], [17.0, 1.0, 5.5], 33, 12000, 500, 99, "960,30,10"),
            (["c", "a", "b", "a", "c", "b", "a", "c", "b", "a"], [1.0, 0.1, 3.3, 0.7, 2.2, 0.9, 1.7, 0.3, 5.1, 0.123], 16, 12000, 700, 5, "800,150,50"),
            (["a", "b"], None, 64, 1000, 100, 1234, "900,80,20"),
        ]):
            config = gpt.GPTDatasetConfig(random_seed=seed, sequence_length=seq, blend=([f"{work}/{n}" for n in names], weights), split=split,
                                          reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False,
                                          path_to_cache=f"{work}/cache{case}", tokenizer=types.SimpleNamespace(unique_identifiers={"x": 1}, eod=0, pad=-1, vocab_size=60000))
            config.mid_level_dataset_surplus = 0.005
            config.path_to_cache = None
            gpt.GPTDataset.__getitem__ = lambda self, i: {"tokens": self._query_document_sample_shuffle_indices(i)[0]}
            splits = builder.BlendedMegatronDatasetBuilder(gpt.GPTDataset, [train, valid, valid], lambda: True, config).build()
            sources = [f"{work}/{n}" + (f"={w!r}" if weights else "") for n, w in zip(names, weights or names)]
            subprocess.run([f"{build}/dump_samples", str(seq), str(seed), split, str(train), str(valid), f"{work}/out{case}", *sources], check=True)
            for which, size, dataset in (("train", train, splits[0]), ("valid", valid, splits[1])):
                ours = numpy.fromfile(f"{work}/out{case}.{which}", dtype=numpy.int32).reshape(-1, seq + 1)
                size = min(size, len(dataset))
                assert len(ours) >= size
                wrong = [i for i in range(size) if not numpy.array_equal(ours[i], dataset[i]["tokens"])]
                print(f"{names} weights {weights}, sequence {seq}, split {split}: {which}: {size} samples, {len(wrong)} differ")
                assert not wrong, wrong[:10]


if __name__ == "__main__":
    main(*sys.argv[1:])
