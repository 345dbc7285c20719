#!/usr/bin/env bash
# The same job on ranks of MPICH and of Open MPI: the same losses, bit for bit. run_mpich.sh PATH_OF_RAILYARD PATH_OF_THE_MPI_LIBRARY
# (librailyard_mpi.so, built against MPICH)
set -euo pipefail
program=$(readlink -f "$1")
library=$(readlink -f "$2")
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
prepare
hydra=$(command -v mpiexec.mpich || command -v mpiexec.hydra) ||
  { echo "SKIPPED: MPICH's mpiexec is not installed" >&2; exit 77; }
mkdir mpich
cp "$program" "$library" mpich/
printf '#!/bin/sh\nexec %s "$@"\n' "$hydra" >mpich/mpirun
chmod +x mpich/mpirun
for ranks in 2 4; do
  railyard run job.lua --ranks $ranks --run-dir "openmpi-$ranks" >openmpi.txt 2>&1
  PATH=$work/mpich:$PATH mpich/railyard run job.lua --ranks $ranks --run-dir "mpich-$ranks" >mpich.txt 2>&1 || { cat mpich.txt; exit 1; }
  check grep -q libmpich <(ldd mpich/librailyard_mpi.so)
  check [ "$(losses "mpich-$ranks" | wc -l)" -eq 20 ]
  check same_losses "openmpi-$ranks" "mpich-$ranks"
done
code=0
PATH=$work/mpich:$PATH mpich/railyard run job.lua --ranks 2 --run-dir bad --set data.text=none.txt >bad.txt 2>&1 || code=$?
check [ "$code" -eq 2 ]
check [ "$(grep -c none.txt bad.txt)" -eq 1 ]
echo "2 and 4 ranks: the same losses over MPICH as over Open MPI"
