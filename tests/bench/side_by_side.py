"""Railyard's training steps beside PyTorch's, one after the other in one call: what `./yard bench` runs.

    python3 tests/bench/side_by_side.py build/railyard [--device cuda] [--precision fp8] [--threads N] [--rounds N] [CASE ...]

Each round starts ours, then the peer (pytorch_peer.py, run by this interpreter), a process for each case, so that first
steps and peaks are those of a fresh start. The table has medians over the rounds and their ratios; --json prints them.
The peer compiles into a cache of this call alone, so its first round is a first start; later ones find what it compiled.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

DEFAULT_CASES = {
    "cpu": ["cpu-first-train", "cpu-15m"],
    "cuda": ["gpt124m-ish", "llama1b", "llama8b-8layer", "llama8b-8layer-8k"],
}
FIGURES = ("tokens_per_s", "tflops", "peak_gib", "first_step_s")


def run(command, environment):
    """The JSON object a program prints; its own words and an exit on failure."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or len(lines) != 1:
        sys.stderr.write(done.stderr[-2000:])
        sys.exit(f"side_by_side: {' '.join(command)} ended with {done.returncode} and printed no figures")
    return json.loads(lines[0])


def side_by_side(name, programs, options, environment):
    runs = {who: [] for who in programs}
    for number in range(options.rounds):
        for who, command in programs.items():
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{name}: round {number + 1} of {options.rounds}, {who}\033[K")
            runs[who].append(run(command + [name], environment))
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    medians = {
        who: {figure: statistics.median(r[figure] for r in results) for figure in FIGURES}
        for who, results in runs.items()
    }
    # A first start compiles; only the first round shows that.
    for who, results in runs.items():
        medians[who]["first_step_s"] = results[0]["first_step_s"]
        medians[who]["later_first_step_s"] = statistics.median(r["first_step_s"] for r in results[1:] or results)
        medians[who]["least_tokens_per_s"] = min(r["tokens_per_s"] for r in results)
        medians[who]["most_tokens_per_s"] = max(r["tokens_per_s"] for r in results)
    return medians


def table(results):
    yield "| case | who | tokens/s (least - most) | TFLOP/s | peak GiB | first step of the first start | of later ones |"
    yield "|---|---|---|---|---|---|---|"
    for name, medians in results.items():
        for who, m in medians.items():
            yield (
                f"| {name} | {who} | {m['tokens_per_s']:,.0f} ({m['least_tokens_per_s']:,.0f} - "
                f"{m['most_tokens_per_s']:,.0f}) | {m['tflops']:.3f} | {m['peak_gib']:.2f} | {m['first_step_s']:.1f} s | "
                f"{m['later_first_step_s']:.1f} s |"
            )
        ours, peer = medians["railyard"], medians["PyTorch"]
        ratios = {f: ours[f] / peer[f] for f in (*FIGURES, "later_first_step_s")}
        yield (
            f"| {name} | ratio | **{ratios['tokens_per_s']:.2f}** | {ratios['tflops']:.2f} | "
            f"**{ratios['peak_gib']:.2f}** | **{ratios['first_step_s']:.3f}** | {ratios['later_first_step_s']:.3f} |"
        )


def main():
    parser = argparse.ArgumentParser(description="Railyard's training steps beside PyTorch's.")
    parser.add_argument("railyard", help="the program, such as build/railyard")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="see railyard bench step --help")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp8"], help="fp32 on a CPU, bf16 on a GPU")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads, both sides")
    parser.add_argument("--steps", type=int, default=10, help="steps to time in each process")
    parser.add_argument("--rounds", type=int, default=3, help="times that each side is started")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    options = parser.parse_intermixed_args()
    if min(options.threads, options.steps, options.rounds) < 1:
        parser.error("--threads, --steps and --rounds are at least 1")
    import torch  # the peer's version belongs to the figures

    precision = options.precision or ("bf16" if options.device == "cuda" else "fp32")
    common = ["--device", options.device, "--precision", precision]
    common += ["--threads", str(options.threads), "--steps", str(options.steps), "--json"]
    peer = Path(__file__).with_name("pytorch_peer.py")
    programs = {
        "railyard": [options.railyard, "bench", "step", *common],
        "PyTorch": [sys.executable, str(peer), *common],
    }
    results = {}
    with tempfile.TemporaryDirectory(prefix="railyard-bench-") as cache:
        environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache, TRITON_CACHE_DIR=cache + "/triton")
        for name in options.cases or DEFAULT_CASES[options.device]:
            results[name] = side_by_side(name, programs, options, environment)
    if options.json:
        print(json.dumps({"torch": torch.__version__, "rounds": options.rounds, "cases": results}))
        return
    where = f"{options.threads} threads" if options.device == "cpu" else torch.cuda.get_device_name()
    print(
        f"PyTorch {torch.__version__}, {precision}, {where}; medians of {options.rounds} rounds\n"
    )
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
