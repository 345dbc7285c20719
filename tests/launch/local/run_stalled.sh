#!/usr/bin/env bash
# A file system that does not answer one rank ends the run with a word of its own; once it answers, the run goes on and ends
# as an undisturbed one. run_stalled.sh PATH_OF_RAILYARD PATH_OF_STALL_LIBRARY
set -euo pipefail
program=$(readlink -f "$1")
stall=$(readlink -f "$2")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
options=(--ranks 2 --set train.iterations=60 --set checkpoint.every=20 --set checkpoint.async=false)
railyard run job.lua "${options[@]}" --run-dir reference >reference.txt 2>&1

touch stall
begin=$SECONDS
# Rank 1 hangs in its first write to disk; the launcher tries once more.
exits 1 env LD_PRELOAD="$stall" RAILYARD_STALL="$work/stall" railyard run job.lua "${options[@]}" --run-dir stalled \
  --set run.timeout=4 --set run.max_restarts=1 >stalled.txt 2>errors.txt
check [ $((SECONDS - begin)) -lt 60 ]
check [ "$(why stalled)" = file_system_stall ]
says '^railyard: .*rank 1 on .*(the file system has not answered for 4 s|: step 20, writing a checkpoint for)' errors.txt
says 'restarting from the last checkpoint \(1 of 1\)' errors.txt
rm stall
railyard run job.lua "${options[@]}" --run-dir stalled >resumed.txt 2>&1
check same_losses reference stalled
echo "a stalled file system: both starts ended within $((SECONDS - begin)) s"
