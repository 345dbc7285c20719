# What the scripts of this folder share. A script sets `program`, then calls `prepare`.
# shellcheck shell=bash
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=../../slurm/lib.sh
. "$tests/slurm/lib.sh"

# A folder of its own with job.lua and corpus.txt, removed at the end; the program is on PATH.
prepare() {
  command -v mpirun >/dev/null || { echo "SKIPPED: mpirun is not installed" >&2; exit 77; }
  work=$(mktemp -d "${TMPDIR:-/tmp}/railyard-local-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  cp "$tests/slurm/job.lua" .
  for i in $(seq 1 400); do printf 'and the number after %d is %d. ' "$i" $((i + 1)); done >corpus.txt
  PATH=$(dirname "$program"):$PATH
}

rank_of() {  # rank_of RUN RANK: its process id
  local pid
  for pid in $(pgrep -x railyard); do
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "RAILYARD_RUN_DIR=$work/$1" &&
      tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then echo "$pid"; return; fi
  done
  return 1
}
