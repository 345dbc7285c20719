#!/usr/bin/env bash
# railyard run on local ranks: a killed rank, Ctrl-C, a killed launcher, a second run. run_local.sh PATH_OF_RAILYARD
set -euo pipefail
program=$(readlink -f "$1")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare

no_ranks() { ! rank_of "$1" 0 && ! rank_of "$1" 1; }

railyard run job.lua --ranks 2 "${long[@]}" --run-dir reference >reference.txt 2>&1

railyard run job.lua --ranks 2 "${long[@]}" --run-dir killed >killed.txt 2>&1 &
until_true 120 reached killed 6
kill -KILL "$(rank_of killed 1)"
check wait $!
check same_losses reference killed
says 'rank 1 on .* was killed by signal 9' killed.txt
says 'restarting from the last checkpoint \(1 of 3\)' killed.txt
check [ "$(grep -c -- '--------' killed.txt)" -eq 0 ]

railyard run job.lua --ranks 2 "${long[@]}" --run-dir stopped >stopped.txt 2>&1 &
launcher=$!
until_true 120 reached stopped 3
kill -TERM "$launcher"
code=0
wait "$launcher" || code=$?
check [ "$code" -eq 75 ]
check [ "$(why stopped)" = signal ]
railyard run job.lua --ranks 2 "${long[@]}" --run-dir stopped >>stopped.txt 2>&1
check same_losses reference stopped

railyard run job.lua --ranks 2 "${long[@]}" --run-dir orphaned >orphaned.txt 2>&1 &
launcher=$!
until_true 120 reached orphaned 3
exits 2 railyard run job.lua --ranks 2 "${long[@]}" --run-dir orphaned >second.txt 2>&1
says "in use by .*process $launcher" second.txt
kill -KILL "$launcher"
until_true 20 no_ranks orphaned
railyard run job.lua --ranks 2 "${long[@]}" --run-dir orphaned >>orphaned.txt 2>&1
check same_losses reference orphaned
says 'took over' orphaned.txt

exits 2 railyard run job.lua --ranks 3 >bad.txt 2>&1
check [ "$(grep -c railyard: bad.txt)" -eq 1 ]
exits 2 railyard run missing.lua >bad.txt 2>&1
exits 2 railyard run job.lua --ranks 2 "${long[@]}" --run-dir reference --set train.seed=8 >bad.txt 2>&1
says 'train.seed: 7 -> 8' bad.txt
exits 2 railyard run job.lua --ranks 2 "${long[@]}" --run-dir other --set data.text=none.txt >bad.txt 2>&1
check [ "$(grep -c none.txt bad.txt)" -eq 1 ]

railyard run job.lua --ranks 2 --run-dir logged --log-format megatron --set train.iterations=3 >logged.txt 2>&1
says ' iteration        3/       3 \| consumed samples: .* \| lm loss: [0-9.E+-]+ \|' logged.txt

# doctor, alone and as ranks of mpirun see it: findings at most, nothing grave.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
code=0
railyard doctor >doctor.txt || code=$?
check [ "$code" -le 1 ]
code=0
mpirun --oversubscribe -n 2 railyard doctor >doctor.txt 2>&1 || code=$?
check [ "$code" -le 1 ]
check [ "$(grep -c '^stale-environment' doctor.txt)" -eq 0 ]
# Variables of an mpirun that is gone.
exits 2 env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=1 PMIX_SERVER_TMPDIR="$work/gone" railyard doctor >doctor.txt
says '^stale-environment: .*whoever set them is gone.*remedy: unset' doctor.txt
exits 1 env NCCL_P2P_LEVEL=LOC railyard doctor --json >doctor.json
says '"check": "peer-to-peer"' doctor.json
echo "1 passed, 0 failed"
