# kill -9 of a rank: the launcher starts again from the last checkpoint, within the same job.
reference "${long[@]}"
job=$(sbatch --parsable job.lua "${long[@]}")
until_true 90 reached runs/tiny 6
check kill_rank KILL 3
until_true 300 finished "$job"
check [ "$(why runs/tiny)" = finished ]
check same_losses reference runs/tiny
says 'rank [0-3] on node[0-9] ended: Killed|a rank was killed' "slurm-$job.out"
says 'restarting from the last checkpoint \(1 of 3\)' "slurm-$job.out"
says '"reason": "rank_killed"' runs/tiny/why.json
