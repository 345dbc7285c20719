# A sweep is an array of jobs with a run directory each.
job=$(railyard submit job.lua --sweep train.lr.peak=1e-3,2e-3 --sweep train.seed=7,8 --sbatch=--nodes=1 --sbatch=--ntasks-per-node=2)
until_true 240 gone "$job"
for task in 0 1 2 3; do check [ "$(why runs/tiny-$task)" = finished ]; done
check [ "$(for task in 0 1 2 3; do losses runs/tiny-$task | tail -n 1; done | sort -u | wc -l)" -eq 4 ]
check [ "$(cat runs/tiny/log/slurm-"$job"_*.out | grep -c 'launched 2 ranks')" -eq 4 ]
# The same settings by hand give the same losses.
railyard run job.lua --ranks 2 --set train.lr.peak=2e-3 --set train.seed=7 --run-dir by-hand
check same_losses by-hand runs/tiny-2
