# A run longer than its time limit as a chain of jobs: each goes on where the one before ended, the last has nothing to do.
reference
printf 'module() { printf "loaded %%s\\n" "$*" >>%s/modules.txt; }\n' "$PWD" >init
mkdir -p modules/init
mv init modules/init/bash
printf 'return site { name = "s", slurm = { modules = { "mpi/4", "cuda/13.0" }, qos = nil } }\n' >site.lua
export RAILYARD_SITE=$PWD/site.lua MODULESHOME=$PWD/modules LMOD_PKG=$PWD/none
mapfile -t jobs < <(railyard submit job.lua --chain 3 --set train.exit_interval=10)
check [ ${#jobs[@]} -eq 3 ]
until_true 240 finished "${jobs[2]}"
check same_losses reference runs/tiny
check [ "$(why runs/tiny)" = finished ]
check finished_with "${jobs[2]}" COMPLETED
check [ "$(grep -c 'loaded load mpi/4 cuda/13.0' modules.txt)" -eq 3 ]
