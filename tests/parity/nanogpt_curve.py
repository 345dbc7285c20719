"""Lays runs of examples/nanogpt_char.lua over a run of nanoGPT itself (its CPU variant of the character-level model).

    for seed in 1337 1338; do
      build/railyard run examples/nanogpt_char.lua --ranks 1 --set data.text=PATH/tinyshakespeare.txt \\
        --set train.seed=$seed --run-dir runs/nanogpt-$seed
    done
    python3 tests/parity/nanogpt_curve.py runs/nanogpt-1337 runs/nanogpt-1338

Prints the validation losses side by side. Exit code 1 when one is further than 0.06 from nanoGPT's, or a final one is
not within 1.86 to 1.94; needs nothing but Python.
"""

import json
import sys
from pathlib import Path

# nanoGPT 3adf61e, unmodified: train.py config/train_shakespeare_char.py with the settings that its README gives for a
# CPU (block 64, batch 12, 4 layers, 4 heads, width 128, 2000 iterations, no dropout), seed 1337. Its README says 1.88.
NANOGPT = {0: 4.1649, 250: 2.4447, 500: 2.3141, 750: 2.1905, 1000: 2.0528, 1250: 2.0089, 1500: 1.9225, 1750: 1.8921, 2000: 1.8857}
TOLERANCE = 0.06
FINAL = (1.86, 1.94)


def validation_losses(run_directory):
    losses = {}
    for line in (Path(run_directory) / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row.get("valid_loss") is not None:
            losses[row["step"]] = row["valid_loss"]  # a step's later row wins
    return losses


def main(run_directories):
    if not run_directories or run_directories[0].startswith("-"):
        sys.exit(__doc__)
    runs = [(name, validation_losses(name)) for name in run_directories]
    faults = []
    print("step   nanoGPT  " + "  ".join(f"{Path(name).name:>22s}" for name, _ in runs))
    for step, theirs in NANOGPT.items():
        cells = []
        for name, losses in runs:
            ours = losses.get(step)
            if ours is None:
                faults.append(f"{name}: no evaluation at step {step}")
                cells.append(f"{'missing':>22s}")
                continue
            cells.append(f"{ours:13.4f} ({ours - theirs:+.4f})")
            if abs(ours - theirs) > TOLERANCE:
                faults.append(f"{name}: {ours:.4f} at step {step} is more than {TOLERANCE} from {theirs}")
        print(f"{step:4d} {theirs:9.4f}  " + "  ".join(cells))
    last = max(NANOGPT)
    for name, losses in runs:
        if last in losses and not FINAL[0] <= losses[last] <= FINAL[1]:
            faults.append(f"{name}: the final loss {losses[last]:.4f} is not within {FINAL[0]} to {FINAL[1]}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
