#!/usr/bin/env python3
"""Writes runtime/data/tokenizer/unicode_tables.cpp: where Hugging Face tokenizers and tiktoken see other Unicode than the libraries of
Debian 12 and Ubuntu 24.04 (PCRE2 10.42: Unicode 14, as Python 3.11's unicodedata; utf8proc 2.8).

    make_unicode_tables.py OUT.cpp        needs Python 3.11, and tokenizers and tiktoken of PyPI, which agree
"""
import sys
import unicodedata

import tiktoken
from tokenizers import Regex, __version__, normalizers, pre_tokenizers

assert unicodedata.unidata_version == "14.0.0"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, POINTS))
NAMES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So".split()


def members(name):
    split = pre_tokenizers.Split(Regex(rf"[^\p{{{name}}}]+"), "removed")
    found = {ord(c) for i in range(0, len(TEXT), 4096) for piece, _ in split.pre_tokenize_str(TEXT[i : i + 4096]) for c in piece}
    encoding = tiktoken.Encoding("x", pat_str=rf"\p{{{name}}}+", mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={})
    for i in range(0, len(TEXT), 4096):
        for c in bytes(encoding.encode_ordinary(TEXT[i : i + 4096])).decode():
            assert ord(c) in found, (name, c)
    return found


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def barriers():
    """Characters that the NFC of tokenizers takes for ordinary ones: no combining class, and nothing composes with them."""
    nfc, found = normalizers.NFC(), set()
    marks = [c for c in POINTS if unicodedata.combining(chr(c))]
    by_class = {unicodedata.combining(chr(m)): m for m in (0x345, 0x334)}
    for c in marks:
        for other in by_class.values():
            for text in ("a" + chr(other) + chr(c), "a" + chr(c) + chr(other)):
                if nfc.normalize_str(text) != unicodedata.normalize("NFC", text):
                    found.add(c)
    for c in POINTS:
        parts = unicodedata.normalize("NFD", chr(c))
        if len(parts) > 1 and nfc.normalize_str(parts) != unicodedata.normalize("NFC", parts):
            found.add(ord(parts[-1]))
    return found


def main(path):
    lines = []
    for name in NAMES:
        before = {c for c in POINTS if unicodedata.category(chr(c)) == name}
        now = members(name)
        now |= before  # categories that changed within M keep the old one too
        lines += [f'    {{"{name}", 0x{a:X}, 0x{b:X}}},' for a, b in ranges(now - before)]
    alone = [f"    {{0x{a:X}, 0x{b:X}}}," for a, b in ranges(barriers())]
    open(path, "w").write(f"""// Made by tests/parity/make_unicode_tables.py from tokenizers {__version__}: Unicode as it sees it, beside that of the libraries.
#include "runtime/data/tokenizer/unicode_tables.hpp"

namespace railyard::data {{
namespace {{

constexpr CategoryRange kLater[] = {{
{chr(10).join(lines)}
}};

constexpr PointRange kOrdinary[] = {{
{chr(10).join(alone)}
}};

}}  // namespace

std::span<const CategoryRange> later_categories() {{ return kLater; }}
std::span<const PointRange> nfc_ordinary() {{ return kOrdinary; }}

}}  // namespace railyard::data
""")
    print(len(lines), "ranges of categories,", len(alone), "of characters without a combining class")


if __name__ == "__main__":
    main(sys.argv[1])
