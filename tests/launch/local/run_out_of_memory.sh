#!/usr/bin/env bash
# A rank that the kernel kills for want of memory in its control group is told from one that somebody killed, and is not
# started again in vain. run_out_of_memory.sh PATH_OF_RAILYARD; needs the right to make a control group.
set -euo pipefail
program=$(readlink -f "$1")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
limit=$((200 << 20))
group=/sys/fs/cgroup/memory/railyard-test-$$
if mkdir "$group" 2>/dev/null; then
  echo "$limit" >"$group/memory.limit_in_bytes"
else
  group=/sys/fs/cgroup/railyard-test-$$
  if ! mkdir "$group" 2>/dev/null || ! echo "$limit" 2>/dev/null >"$group/memory.max"; then
    rmdir "$group" 2>/dev/null || true
    echo "SKIPPED: running out of memory was not tried: making a control group with a limit needs root and cgroups" >&2
    exit 77
  fi
  echo 0 >"$group/memory.swap.max" 2>/dev/null || true
fi
trap 'rmdir "$group" || true; rm -rf "$work"' EXIT

# 100 million parameters take 1.6 GB in training.
exits 1 bash -c 'echo $$ >"$0/cgroup.procs"; shift; exec railyard run job.lua --ranks 2 --set model.layers=8 --set model.hidden=1024 \
  --set model.heads=16 --set model.ffn=4096 --run-dir large' "$group" x >large.txt 2>errors.txt
check [ "$(why large)" = out_of_memory ]
says 'rank [01] on .* was killed by signal 9.*: out of memory' errors.txt
check [ "$(grep -c restarting errors.txt)" -eq 0 ]

# Without want of memory a killed rank is just that.
railyard run job.lua --ranks 2 "${long[@]}" --run-dir killed >killed.txt 2>&1 &
until_true 60 reached killed 6
kill -KILL "$(rank_of killed 1)"
check wait $!
says '"reason": "rank_killed"' killed/why.json
echo "1 passed, 0 failed"
