#!/usr/bin/env bash
# bench comm and tune start ranks of their own, print figures, keep what they should and leave nothing else behind.
set -euo pipefail
program=$(readlink -f "$1")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
export RAILYARD_CALIBRATION=$work/calibration
mkdir calibration

railyard bench comm --device cpu --ranks 2 --largest 1 --json >comm.txt 2>errors.txt
check [ "$(grep -c '"operation":' comm.txt)" -eq 10 ]
check [ "$(ls calibration | wc -l)" -eq 1 ]
railyard bench comm --device cpu --ranks 2 --largest 1 --dry-run >comm.txt 2>&1
says '2 ranks by MPI, links: host' comm.txt

railyard tune job.lua --ranks 4 --steps 2 --largest 2 >tune.txt 2>errors.txt
says '^best: train.micro_batch = ' tune.txt
check [ "$(grep -c '^ *[0-9]' tune.txt)" -ge 1 ]
check [ -z "$(ls runs)" ]
code=0
railyard tune job.lua --ranks 4 --set train.lr.peak=steep >tune.txt 2>errors.txt || code=$?
check [ "$code" -eq 2 ]
check [ "$(grep -c . errors.txt)" -eq 1 ]
